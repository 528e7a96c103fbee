package report

import (
	"strings"
	"unicode"

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
