package drift

import (
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/screen"
)

// Caps of what a report carries.
const (
	maxChanges   = 200       // of each list
	maxDiffLines = 200       // of one text
	maxDiff      = 16 << 10  // bytes of one text
	maxDiffs     = 256 << 10 // bytes of the texts of one list
	maxValue     = 400       // bytes of a manifest's value
)

// limit cuts a list and its texts to what a report carries and counts what is
// left out.
func limit(changes []report.MemberChange, left *int) []report.MemberChange {
	if len(changes) > maxChanges {
		*left += len(changes) - maxChanges
		changes = changes[:maxChanges]
	}
	total := 0
	for i := range changes {
		c := &changes[i]
		c.Old, c.New = cut(c.Old), cut(c.New)
		c.Diff = cutLines(c.Diff)
		if total += len(c.Diff); total > maxDiffs {
			c.Diff = ""
		}
	}
	return changes
}

func cut(s string) string {
	if len(s) <= maxValue {
		return s
	}
	n := maxValue
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// cutLines cuts a text behind a line.
func cutLines(s string) string {
	end := 0
	for range maxDiffLines {
		n := strings.IndexByte(s[end:], '\n')
		if n < 0 || end+n+1 > maxDiff {
			break
		}
		end += n + 1
	}
	if end == len(s) {
		return s
	}
	return s[:end] + "…\n"
}

// memberChanges turns the changes of any format into the report's.
func memberChanges(changes []bundle.Change) []report.MemberChange {
	out := make([]report.MemberChange, 0, len(changes))
	for i := range changes {
		out = append(out, member(&changes[i]))
	}
	return out
}

// member is one change: what was there and what is.
func member(c *bundle.Change) report.MemberChange {
	m := report.MemberChange{Path: screen.HideIn(c.Path), Kind: c.Change, Diff: screen.HideIn(string(c.Text))}
	switch c.Change {
	case bundle.ManifestChange:
		m.Old, m.New = screen.HideIn(string(c.Old)), screen.HideIn(string(c.New))
		return m
	case "mode":
		m.Old, m.New = c.ModeA, c.ModeB
		return m
	case "modified", "type", "link", "manifest-format":
		m.Kind = "changed"
	}
	m.Old, m.New = content(c.A), content(c.B)
	return m
}

// content is the digest of a file, or what else stands there.
func content(n *bundle.Node) string {
	switch {
	case n == nil:
		return ""
	case n.Type == bundle.Symlink:
		return "symlink to " + n.Link
	case n.Type == bundle.File:
		return n.SHA256.String()
	}
	return n.Type.String()
}
