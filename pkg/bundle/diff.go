package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rogpeppe/go-internal/diff"
)

// A Change is one difference between two trees. Sizes and modes are those of
// the sides that exist; a mode change has modes only.
type Change struct {
	Change string `json:"change"` // added, removed, modified, mode, type or link
	Path   string `json:"path"`
	SizeA  *int64 `json:"size_a,omitempty"`
	SizeB  *int64 `json:"size_b,omitempty"`
	ModeA  string `json:"mode_a,omitempty"` // as 0644
	ModeB  string `json:"mode_b,omitempty"`
	A, B   *Node  `json:"-"`

	Old, New json.RawMessage `json:"-"` // of a ManifestChange: the values, null where the field is absent
	Text     []byte          `json:"-"` // of a modified text: its unified diff, if one was asked for
}

// ManifestChange is the kind of change whose path is a field of the manifest.
const ManifestChange = "manifest"

// A Node is one path of a tree to be compared.
type Node struct {
	Path   string
	Type   Type
	Mode   uint32
	Size   int64
	SHA256 Digest
	Link   string
}

// Nodes returns the members of an archive for [Compare]. A hard link counts as
// a file with its target's content.
func (a *Archive) Nodes() []Node {
	nodes := make([]Node, 0, len(a.Members))
	for i := range a.Members {
		m := a.Members[i]
		n := Node{m.Name, m.Type, m.Mode, m.Size, m.SHA256, m.Link}
		if target := a.Member(m.Link); m.Type == Hardlink && target != nil {
			n = Node{m.Name, File, target.Mode, target.Size, target.SHA256, ""}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// Compare lists the differences from a to b, by the bytes of the paths: added,
// removed, type, link (target of a symlink), modified (content), mode. A
// changed content and mode of one path are two changes, modified first.
func Compare(a, b []Node) []Change {
	byPath := func(x, y Node) int { return strings.Compare(x.Path, y.Path) }
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, byPath)
	slices.SortFunc(b, byPath)
	var out []Change
	one := func(what string, x, y *Node) {
		c := Change{Change: what, A: x, B: y}
		if x != nil {
			c.Path, c.SizeA, c.ModeA = x.Path, &x.Size, fmt.Sprintf("%04o", x.Mode)
		}
		if y != nil {
			c.Path, c.SizeB, c.ModeB = y.Path, &y.Size, fmt.Sprintf("%04o", y.Mode)
		}
		if what == "mode" {
			c.SizeA, c.SizeB = nil, nil
		}
		out = append(out, c)
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case j == len(b) || i < len(a) && a[i].Path < b[j].Path:
			one("removed", &a[i], nil)
			i++
		case i == len(a) || b[j].Path < a[i].Path:
			one("added", nil, &b[j])
			j++
		default:
			x, y := &a[i], &b[j]
			i, j = i+1, j+1
			switch {
			case x.Type != y.Type:
				one("type", x, y)
				continue
			case x.Type == Symlink:
				if x.Link != y.Link {
					one("link", x, y)
				}
				continue
			case x.Type == File && x.SHA256 != y.SHA256:
				one("modified", x, y)
			}
			if x.Mode != y.Mode {
				one("mode", x, y)
			}
		}
	}
	return out
}

// MaxTextDiff is the size up to which a file gets a unified diff.
const MaxTextDiff = 1 << 20

// UnifiedDiff returns the unified diff of two texts, nil if they are equal or
// one is no text: invalid UTF-8, with a NUL, or over MaxTextDiff. Control and
// bidi characters other than tab are escaped, so that the result can be shown
// on a terminal; it is for people, not for patch.
func UnifiedDiff(nameA string, a []byte, nameB string, b []byte) []byte {
	if !isText(a) || !isText(b) {
		return nil
	}
	d := diff.Diff("a", a, "b", b)
	_, d, ok := bytes.Cut(d, []byte("\n")) // its first line is a diff command
	if !ok {
		return nil
	}
	var out bytes.Buffer
	for i, line := range strings.Split(strings.TrimSuffix(string(d), "\n"), "\n") {
		switch i {
		case 0:
			line = "--- " + finding.Path(nameA)
		case 1:
			line = "+++ " + finding.Path(nameB)
		}
		out.WriteString(EscapeLine(line))
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func isText(b []byte) bool {
	return len(b) <= MaxTextDiff && utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// Bounds of [DiffTexts].
const (
	maxTexts     = 50
	maxTextBytes = 16 << 20
)

// DiffTexts puts unified diffs to changes of files, of at most 50 texts that
// have 16 MiB in all. What a side cannot give of the files that are asked for
// gets none.
func DiffTexts(changes []Change, sides ...func(names []string) (map[string][]byte, error)) error {
	want, total := map[string]*Change{}, int64(0)
	for i := range changes {
		c := &changes[i]
		if c.Change != "modified" || c.A.Size > MaxTextDiff || c.B.Size > MaxTextDiff || len(want) == maxTexts || total+c.A.Size+c.B.Size > maxTextBytes {
			continue
		}
		want[c.Path] = c
		total += c.A.Size + c.B.Size
	}
	if len(want) == 0 {
		return nil
	}
	var texts [2]map[string][]byte
	for i, read := range sides {
		var err error
		if texts[i], err = read(slices.Sorted(maps.Keys(want))); err != nil {
			return err
		}
	}
	for p, c := range want {
		a, inA := texts[0][p]
		b, inB := texts[1][p]
		if inA && inB {
			c.Text = UnifiedDiff("a/"+p, a, "b/"+p, b)
		}
	}
	return nil
}

// Texts reads files for [DiffTexts]; links are left out.
func (a *Archive) Texts(ctx context.Context) func(names []string) (map[string][]byte, error) {
	return func(names []string) (map[string][]byte, error) {
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return a.Member(n).Type != File })
		return a.Contents(ctx, names...)
	}
}

// EscapeLine escapes the control and bidi characters of one line of text, tabs
// excepted.
func EscapeLine(line string) string {
	if Printable(line) {
		return line
	}
	var b strings.Builder
	for _, part := range strings.SplitAfter(line, "\t") {
		text, tab := strings.CutSuffix(part, "\t")
		q := finding.Quote(text)
		q = q[1 : len(q)-1]
		q = strings.ReplaceAll(strings.ReplaceAll(q, `\"`, `"`), `\\`, `\`)
		b.WriteString(q)
		if tab {
			b.WriteByte('\t')
		}
	}
	return b.String()
}
