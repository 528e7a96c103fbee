package report

import (
	"fmt"
	"unicode/utf8"
)

// EscapeJSON returns a JSON text in which DEL, C1, bidi controls and other
// characters that act on a terminal are written as \u escapes. The value
// stays the same: such characters occur only inside JSON strings.
func EscapeJSON(data []byte) []byte {
	i := 0
	for i < len(data) && data[i] < 0x7f {
		i++
	}
	if i == len(data) {
		return data
	}
	out := append(make([]byte, 0, len(data)+16), data[:i]...)
	for i < len(data) {
		r, n := utf8.DecodeRune(data[i:])
		if hidden(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, data[i:i+n]...)
		}
		i += n
	}
	return out
}

func hidden(r rune) bool {
	switch {
	case r >= 0x7f && r < 0xa0, r == 0x061c, r == 0x200e, r == 0x200f, r == 0xfeff:
		return true
	case r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}
