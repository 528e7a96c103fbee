package bridge

import (
	"fmt"
	"strings"

	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/internal/report"
)

// An edge says that message from points at message to, by index, and how:
// "answers" for in_reply_to, "refers" for references.
type edge struct {
	from, to int
	how      string
}

// edges finds who answers and refers to whom among the messages of a thread.
func edges(ms []*message) (out []edge) {
	for _, l := range order.Links(ms, func(m *message) (hash, replyTo, commit string, refs []string) {
		return m.env.Hash, m.env.InReplyTo, m.commit, m.env.References
	}) {
		how := "refers"
		if l.Answers {
			how = "answers"
		}
		out = append(out, edge{l.From, l.To, how})
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
