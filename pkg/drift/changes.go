package drift

import (
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/report"
)

// Caps of what a report carries.
const (
	maxChanges   = 200       // of each list
	maxDiffLines = 200       // of one text
	maxDiff      = 16 << 10  // bytes of one text
	maxDiffs     = 256 << 10 // bytes of the texts of one list
	maxValue     = 400       // bytes of a manifest's value
	maxRead      = 16 << 20  // bytes of the members that are read for texts
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

// memberChanges turns changes of members into the report's.
func memberChanges(changes []bundle.Change) []report.MemberChange {
	out := make([]report.MemberChange, 0, len(changes))
	for _, c := range changes {
		out = append(out, member(c.Change, c.Path, c.A, c.B))
	}
	return out
}

// member is one change of a member: what it was and what it is.
func member(kind, path string, a, b *bundle.Node) report.MemberChange {
	m := report.MemberChange{Path: path, Kind: kind}
	switch kind {
	case "mode":
		m.Old, m.New = mode(a), mode(b)
		return m
	case "modified", "type", "link":
		m.Kind = "changed"
	}
	m.Old, m.New = content(a), content(b)
	return m
}

func mode(n *bundle.Node) string {
	if n == nil {
		return ""
	}
	const digits = "01234567"
	var b [4]byte
	for i := range b {
		b[i] = digits[n.Mode>>(9-3*i)&7]
	}
	return string(b[:])
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

// added lists all files of a bundle that has none before it.
func added(nodes []bundle.Node) []report.MemberChange {
	return memberChanges(bundle.Compare(nil, nodes))
}

// texts puts unified diffs to the changed members of two archives.
func texts(ctx context.Context, a, b *bundle.Archive, changes []report.MemberChange) error {
	want, total := map[string]int{}, int64(0)
	for i, c := range changes {
		ma, mb := a.Member(c.Path), b.Member(c.Path)
		if c.Kind != "changed" || ma == nil || mb == nil || ma.Type != bundle.File || mb.Type != bundle.File || ma.Size > bundle.MaxTextDiff || mb.Size > bundle.MaxTextDiff {
			continue
		}
		if total += ma.Size + mb.Size; total > maxRead {
			break
		}
		want[c.Path] = i
	}
	if len(want) == 0 {
		return nil
	}
	read := func(from *bundle.Archive) (map[string][]byte, error) {
		got := map[string][]byte{}
		err := from.Walk(ctx, func(m *bundle.Member, r io.Reader) error {
			if _, ok := want[m.Name]; !ok {
				return nil
			}
			data, err := io.ReadAll(r)
			if got[m.Name] = data; err == nil && len(got) == len(want) {
				return bundle.ErrStop
			}
			return err
		})
		return got, err
	}
	old, err := read(a)
	if err != nil {
		return err
	}
	now, err := read(b)
	if err != nil {
		return err
	}
	for p, i := range want {
		changes[i].Diff = string(bundle.UnifiedDiff("a/"+p, old[p], "b/"+p, now[p]))
	}
	return nil
}
