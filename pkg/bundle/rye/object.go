package rye

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// ObjectHash returns the object_hash of a file (schema 1, docs/spec/ryebundle.md#object-hash),
// given its path below the root and its bytes.
func ObjectHash(p string, data []byte) string { return objectHash(p, data, hexSum(data)) }

// objectHash is ObjectHash for a caller that has the SHA-256 already.
func objectHash(p string, data []byte, sum string) string {
	b := make([]byte, 0, 640)
	b = append(b, `{"content_blob_hash":"`...)
	b = append(b, sum...)
	b = append(b, `","integrity":"`...)
	b = append(b, sum...)
	b = append(b, `","item_id":`...)
	b = appendJSON(b, ItemID(p))
	b = append(b, `,"item_type":"`...)
	b = append(b, TypeOf(p)...)
	b = append(b, `","kind":"item_source","schema":1,"signature_info":`...)
	b = append(appendSignatureInfo(b, p, data), '}')
	return hexSum(b)
}

// oldFields is the part of the line that the old reader looked at. It read no
// further than the provenance, so what follows is nobody's concern here.
var oldFields = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z):([a-f0-9]{64}):([A-Za-z0-9_-]+={0,2}):([a-f0-9]{16})(?:\|([A-Za-z0-9_-]+)@([A-Za-z0-9_-]+))?`)
})

// appendSignatureInfo writes the signature_info of a file, null if there is
// none. Only here a line is read as the old reader did: on the raw text, and
// anything may follow it, but for the " -->" of a comment.
func appendSignatureInfo(b []byte, p string, data []byte) []byte {
	f, ok := formatOf(TypeOf(p), p)
	if !ok || !utf8.Valid(data) {
		return append(b, "null"...)
	}
	line, _ := cutLine(data[linePlace(data, f):])
	fields, ok := strings.CutPrefix(string(line), f.prefix+" "+marker)
	if !ok {
		return append(b, "null"...)
	}
	m := oldFields().FindStringSubmatch(fields)
	if m != nil && !strings.HasPrefix(fields[len(m[0]):], f.suffix) {
		// The provenance is optional to the old reader, which steps back from it
		// to find the suffix; a suffix never begins with "|", so this is no match.
		m = nil
	}
	if m == nil {
		return append(b, "null"...)
	}
	b = append(b, `{"ed25519_sig":"`...)
	b = append(b, m[3]...)
	b = append(b, `","hash":"`...)
	b = append(b, m[2]...)
	b = append(b, `","pubkey_fp":"`...)
	b = append(b, m[4]...)
	if m[5] != "" {
		b = append(b, `","registry_provider":"`...)
		b = append(b, m[5]...)
		b = append(b, `","registry_username":"`...)
		b = append(b, m[6]...)
	}
	b = append(b, `","timestamp":"`...)
	b = append(b, m[1]...)
	return append(b, `"}`...)
}

// appendJSON writes a valid UTF-8 text as a string of the canonical JSON:
// ASCII only, escapes \" and \\, all else outside of printable ASCII as \uxxxx
// in lower case, with surrogate pairs above U+FFFF.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= 0x20 && r < 0x7f:
			b = append(b, byte(r))
		case r >= 0x10000:
			r -= 0x10000
			b = appendU(appendU(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
		default:
			b = appendU(b, r)
		}
	}
	return append(b, '"')
}

func appendU(b []byte, r rune) []byte {
	h := strconv.FormatInt(int64(r)+0x10000, 16)
	return append(append(b, `\u`...), h[1:]...)
}
