package bridge

import (
	"fmt"
	"strings"

	"github.com/rigward/rigward/internal/report"
)

// An edge says that message from points at message to, by index, and how:
// "answers" for in_reply_to, "refers" for references.
type edge struct {
	from, to int
	how      string
}

// edges finds who answers and refers to whom among the messages of a thread.
// in_reply_to means the newest earlier message with that body hash.
func edges(ms []*message) []edge {
	var out []edge
	for i, m := range ms {
		if h := m.env.InReplyTo; h != "" {
			for j := i - 1; j >= 0; j-- {
				if ms[j].env.Hash == h {
					out = append(out, edge{i, j, "answers"})
					break
				}
			}
		}
		for _, ref := range m.env.References {
			for j, o := range ms {
				if j != i && ref != "" && o.commit != "" && strings.HasPrefix(o.commit, ref) {
					out = append(out, edge{i, j, "refers"})
				}
			}
		}
	}
	return out
}

// asciiGraph draws the messages in their order, one a line, each under the
// first one that it points at, as a tree; further links are named at the end
// of the line.
func asciiGraph(ms []*message) string {
	parent := make([]int, len(ms))
	further := make([][]string, len(ms))
	for i := range parent {
		parent[i] = -1
	}
	for _, e := range edges(ms) {
		// A tree needs an order: only earlier messages are parents.
		if parent[e.from] < 0 && e.to < e.from {
			parent[e.from] = e.to
		} else if parent[e.from] != e.to {
			further[e.from] = append(further[e.from], e.how+" "+token(ms[e.to].file))
		}
	}
	children := make([][]int, len(ms))
	var roots []int
	for i, p := range parent {
		if p < 0 {
			roots = append(roots, i)
		} else {
			children[p] = append(children[p], i)
		}
	}
	var b strings.Builder
	var draw func(i int, lead, branch string)
	draw = func(i int, lead, branch string) {
		m := ms[i]
		typ := m.env.Type
		if typ == "" {
			typ = "(unknown)"
		}
		fmt.Fprintf(&b, "%s%s%s type=%s from=%s", lead, branch, token(m.file), token(typ), token(m.env.From))
		if len(further[i]) > 0 {
			b.WriteString(" (" + strings.Join(further[i], ", ") + ")")
		}
		b.WriteString("\n")
		switch branch {
		case "|-- ":
			lead += "|   "
		case "`-- ":
			lead += "    "
		}
		for k, c := range children[i] {
			if k == len(children[i])-1 {
				draw(c, lead, "`-- ")
			} else {
				draw(c, lead, "|-- ")
			}
		}
	}
	for _, i := range roots {
		draw(i, "", "* ")
	}
	return b.String()
}

// mermaid is the same graph in the flowchart language of Mermaid.
func mermaid(ms []*message) string {
	t := report.Thread{Turns: make([]report.Turn, len(ms))}
	for i, m := range ms {
		t.Turns[i] = report.Turn{Path: m.file, Type: m.env.Type, From: m.env.From}
	}
	for _, e := range edges(ms) {
		u := &t.Turns[e.from]
		if e.how == "answers" {
			u.Answers = append(u.Answers, ms[e.to].file)
		} else {
			u.Names = append(u.Names, ms[e.to].file)
		}
	}
	return report.Mermaid(t)
}
