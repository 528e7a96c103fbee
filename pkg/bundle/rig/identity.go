package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// packageDigest is OpenRig's name for the files of a bundle, whatever its
// manifest and modes are (openrig.package-digest/v1): SHA-256 over one line for
// each file of the integrity map, the path as JSON, a tab, its digest, sorted
// by path in UTF-16 order.
func packageDigest(files []fileHash) string {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b fileHash) int { return Layout{}.Compare(a.path, b.path) })
	h := sha256.New()
	for _, f := range sorted {
		fmt.Fprintf(h, "%s\t%s\n", scriptQuote(f.path), f.hash.Hex())
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// scriptQuote writes a string as JavaScript's JSON.stringify does.
func scriptQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\f':
			b.WriteString(`\f`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}
