package report

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
)

// Mermaid returns a thread as a flowchart in the language of Mermaid: the
// turns in their order, and who answers, refers to and diverges from whom.
// Turns outside the judged range are dashed, relays have round ends. Text goes
// into quoted labels as character references, so that it cannot end them.
func Mermaid(t Thread) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	var old []string
	number := map[string]int{}
	mixed := slices.ContainsFunc(t.Turns, func(u Turn) bool { return u.New })
	for i, u := range t.Turns {
		number[u.Path] = i + 1
		open, end := "[", "]"
		if u.Relay {
			open, end = "([", "])"
		}
		fmt.Fprintf(&b, "  m%d%s\"%s<br/>%s from %s\"%s\n", i+1, open,
			mermaidText(path.Base(u.Path)), mermaidText(typeOf(u)), mermaidText(u.From), end)
		if mixed && !u.New {
			old = append(old, fmt.Sprintf("m%d", i+1))
		}
	}
	for _, e := range tiesOf(t) {
		switch e.how {
		case answers:
			fmt.Fprintf(&b, "  m%d -->|answers| m%d\n", e.from+1, e.to+1)
		case refers:
			fmt.Fprintf(&b, "  m%d -.->|refers| m%d\n", e.from+1, e.to+1)
		case diverges:
			fmt.Fprintf(&b, "  m%d x--x|diverges| m%d\n", e.from+1, e.to+1)
		}
	}
	if len(old) > 0 {
		fmt.Fprintf(&b, "  classDef before stroke-dasharray:4 3\n  class %s before\n", strings.Join(old, ","))
	}
	return b.String()
}

// Limits of one graph: Mermaid refuses a text of more than 50,000 characters
// and more than 500 edges (its maxTextSize and maxEdges).
const (
	maxGraphText  = 48000
	maxGraphEdges = 480
)

// fitting returns the graph of the newest turns of a thread that Mermaid
// takes, and how many turns it leaves out.
func fitting(t Thread) (graph string, left int) {
	all := t.Turns
	for n := len(all); ; n = n * 3 / 4 {
		t.Turns = all[len(all)-n:]
		graph = Mermaid(t)
		if len(graph) <= maxGraphText && len(tiesOf(t)) <= maxGraphEdges || n <= 1 {
			return graph, len(all) - n
		}
	}
}

// How one turn is tied to another.
const (
	answers  = "answers"
	refers   = "refers to"
	diverges = "diverges from"
)

// A tie says that the turn from points at the turn to, by index.
type tie struct {
	from, to int
	how      string
}

// tiesOf returns the ties among the turns of a thread, in the order of the
// turns. A divergence has no direction and is told once.
func tiesOf(t Thread) []tie {
	at := make(map[string]int, len(t.Turns))
	for i, u := range t.Turns {
		at[u.Path] = i
	}
	var out []tie
	seen := map[tie]bool{}
	for i, u := range t.Turns {
		add := func(paths []string, how string) {
			for _, p := range paths {
				j, ok := at[p]
				if !ok || i == j {
					continue
				}
				e := tie{i, j, how}
				if how == diverges && j < i {
					e = tie{j, i, how}
				}
				if !seen[e] {
					seen[e] = true
					out = append(out, e)
				}
			}
		}
		add(u.Answers, answers)
		add(u.Names, refers)
		add(u.Diverges, diverges)
	}
	return out
}

func typeOf(u Turn) string {
	if u.Type == "" {
		return "(unknown)"
	}
	return u.Type
}

// mermaidText writes all but letters, digits and a few plain signs as
// character references, which Mermaid puts back inside a quoted label. So are
// those that make a list of a label when a blank follows: "1. x", "1) x", "- x".
func mermaidText(s string) string {
	var b strings.Builder
	s = finding.Clean(cut(s, 60))
	for i, r := range s {
		last := i+utf8.RuneLen(r) == len(s) || s[i+utf8.RuneLen(r)] == ' '
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == ' ', r == '(':
			b.WriteRune(r)
		case (r == '-' || r == '.' || r == ')') && !last:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// cut returns at most n code points of s, with "…" in place of the last one if
// there are more.
func cut(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	i := 0
	for range n - 1 {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s[:i] + "…"
}
