package envelope

import (
	"strings"
	"unicode/utf8"
)

// markers are the first characters of a status with their class.
var markers = [...]struct {
	marker rune
	class  string
}{
	{0x25B6, "active"},    // ▶
	{0x23F8, "pending"},   // ⏸
	{0x1F3AF, "targeted"}, // 🎯
	{0x2705, "completed"}, // ✅
	{0x274C, "cancelled"}, // ❌
}

// StatusClass returns the class of a status by its marker, after any white
// space: "active", "pending", "targeted", "completed", "cancelled", or "" for
// any other text. It is more tolerant than the schema (docs/spec/envelope.md#status).
func StatusClass(status string) string {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(status, isSpace))
	return markerClass(r)
}

func markerClass(r rune) string {
	for _, m := range markers {
		if m.marker == r {
			return m.class
		}
	}
	return ""
}

// isSpace reports white space as ECMA-262 defines it (docs/spec/envelope.md#patterns).
func isSpace(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r', ' ', 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF:
		return true
	}
	return 0x2000 <= r && r <= 0x200A
}

// isLineEnd reports the line terminators of ECMA-262.
func isLineEnd(r rune) bool {
	return r == '\n' || r == '\r' || r == 0x2028 || r == 0x2029
}

// validStatus matches the pattern of the property status.
func validStatus(s string) bool {
	r, size := utf8.DecodeRuneInString(s)
	if markerClass(r) == "" {
		return false
	}
	s = s[size:]
	r, size = utf8.DecodeRuneInString(s)
	if size == 0 || !isSpace(r) || len(s) == size {
		return false
	}
	return strings.IndexFunc(s[size:], isLineEnd) < 0
}
