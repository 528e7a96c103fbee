package report

import (
	"fmt"
	"path"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
)

// Measures of a drawn thread, in CSS pixels. The width fits the narrowest
// phone, so that a drawing is never scaled.
const (
	graphWidth  = 320
	graphRow    = 46
	graphRadius = 11
	laneWidth   = 11
	maxLanes    = 6
	letter      = 7 // an upper-case letter of a file name, one of a title is an eighth wider
)

// A drawing is a thread laid out: one row for each turn, its text right of
// its mark, and the ties as curves left of the marks.
type drawing struct {
	Width, Height int
	TextX         int
	Marks         []mark
	Curves        []curve
}

type mark struct {
	X, Y         int
	Number       int
	New, Relay   bool
	Title        string // type and sender
	File         string
	NameY, FileY int    // base lines
	Diamond      string // points of a relay's mark
}

type curve struct {
	Kind string // class: answers, refers, diverges
	Path string
	Head string // points of the arrow head, "" if there is none
}

// draw lays a thread out. Ties that run side by side get lanes of their own,
// the short ones nearest to the marks.
func draw(t Thread, ties []tie) drawing {
	ties = slices.Clone(ties)
	slices.SortStableFunc(ties, func(a, b tie) int { return span(a) - span(b) })
	var lanes [maxLanes][]tie
	lane := make([]int, len(ties))
	used := 0
	for i, e := range ties {
		n := 0
		for n < maxLanes-1 && slices.ContainsFunc(lanes[n], func(o tie) bool {
			return min(e.from, e.to) < max(o.from, o.to) && min(o.from, o.to) < max(e.from, e.to)
		}) {
			n++
		}
		lanes[n] = append(lanes[n], e)
		lane[i] = n
		used = max(used, n+1)
	}
	x := graphRadius + 12 + laneWidth*used
	d := drawing{Width: graphWidth, Height: max(graphRow*len(t.Turns), 1), TextX: x + 22}
	y := func(i int) int { return graphRow*i + graphRow/2 }
	wide := (d.Width - d.TextX) / letter
	for i, u := range t.Turns {
		m := mark{X: x, Y: y(i), Number: i + 1, New: u.New, Relay: u.Relay, NameY: y(i) - 3, FileY: y(i) + 13,
			Title: finding.Clean(cut(cut(typeOf(u), 16)+" from "+u.From, wide-wide/8)),
			File:  finding.Clean(cut(path.Base(u.Path), wide))}
		if u.Relay {
			r := graphRadius + 3
			m.Diamond = fmt.Sprintf("%d,%d %d,%d %d,%d %d,%d", m.X, m.Y-r, m.X+r, m.Y, m.X, m.Y+r, m.X-r, m.Y)
		}
		d.Marks = append(d.Marks, m)
	}
	for i, e := range ties {
		bulge := x - graphRadius - (laneWidth*(lane[i]+1)+8)*4/3
		edge := x - graphRadius - 3
		c := curve{Kind: map[string]string{answers: "answers", refers: "refers", diverges: "diverges"}[e.how]}
		// Ends lie a little apart, so that what leaves and what arrives at a
		// mark do not cover each other.
		from, to, end := y(e.from)-4, y(e.to)+4, edge
		if e.to > e.from {
			from, to = y(e.from)+4, y(e.to)-4
		}
		if e.how != diverges {
			end = edge - 6
			c.Head = fmt.Sprintf("%d,%d %d,%d %d,%d", edge, to, end, to-4, end, to+4)
		}
		c.Path = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", edge, from, bulge, from, bulge, to, end, to)
		d.Curves = append(d.Curves, c)
	}
	return d
}

func span(e tie) int { return max(e.from-e.to, e.to-e.from) }
