package report

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
)

// diffLine is a line of a diff: clean, of bounded length, with tabs as blanks,
// and no workflow command. Where nothing but blanks stand before it a runner
// takes "::name::" for one (its ActionCommand); all other text of a report
// stands behind some of ours.
func diffLine(l string) string {
	l = finding.Clean(strings.ReplaceAll(cut(l, 1000), "\t", "    "))
	if rest := strings.TrimLeftFunc(l, unicode.IsSpace); strings.HasPrefix(rest, "::") {
		l = l[:len(l)-len(rest)] + `\x3a` + rest[1:]
	}
	return l
}

// escapeJSON returns a JSON text in which DEL, C1, bidi controls and other
// characters that act on a terminal are written as \u escapes. The value
// stays the same: such characters occur only inside JSON strings. So does
// "##[", which a workflow runner takes for a command wherever it stands.
func escapeJSON(data []byte) []byte {
	if bytes.Contains(data, []byte("##[")) {
		data = bytes.ReplaceAll(data, []byte("##["), []byte(`#\u0023[`))
	}
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
