package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
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

// scriptQuote writes a string as JavaScript's JSON.stringify does, which leaves
// U+2028 and U+2029 as they are.
func scriptQuote(s string) string {
	return strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(string(bundle.JSONText(s)))
}
