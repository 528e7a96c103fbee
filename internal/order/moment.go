package order

import (
	"cmp"
	"strings"
)

// A Moment is when a commit came, as far as history tells it, whatever clocks say: no
// commit comes before one of its history, and of others the one of the earlier second
// comes first. It is a function of the commit alone (docs/spec/client.md#moment), so that
// it does not count from where, or in which order, a history was read.
type Moment struct {
	Second int64  // the latest of the committer's dates of the commit and its history, since 1970
	Step   int64  // how many commits, one after another, led to it since one had that date; 0: it is its own
	Commit string // "" for no moment
}

// Compare orders moments. No moment comes after all others.
func (m Moment) Compare(o Moment) int {
	if (m.Commit == "") != (o.Commit == "") {
		return -strings.Compare(m.Commit, o.Commit)
	}
	return cmp.Or(cmp.Compare(m.Second, o.Second), cmp.Compare(m.Step, o.Step), strings.Compare(m.Commit, o.Commit))
}

// The dates between which those of commits count: of the years 0 and 9999.
const (
	first = -62167219200
	last  = 253402300799
)

// Alone is the moment of a commit of which no commit of its history has that date or a
// later one.
func Alone(commit string, date int64) Moment {
	return Moment{Second: min(max(date, first), last), Commit: commit}
}

// A Clock tells the moments of the commits of a walk, parents before children.
type Clock struct {
	// Older tells the moment of a commit that is not of the walk.
	Older func(commit string) (Moment, error)
	// Late, if set, is called once for each commit of the walk whose moment is another
	// one than Alone says.
	Late func(Moment)

	known map[string]Moment
}

// Tick returns the moment of a commit with a committer's date, in seconds since 1970.
func (c *Clock) Tick(commit string, date int64, parents []string) (Moment, error) {
	if m, told := c.known[commit]; told {
		return m, nil
	}
	m := Alone(commit, date)
	for _, id := range parents {
		p, told := c.known[id]
		if !told {
			var err error
			if p, err = c.Older(id); err != nil {
				return m, err
			}
			c.keep(id, p)
		}
		if p.Second > m.Second || p.Second == m.Second && p.Step >= m.Step {
			m.Second, m.Step = p.Second, p.Step+1
		}
	}
	c.keep(commit, m)
	if c.Late != nil && m.Step > 0 {
		c.Late(m)
	}
	return m, nil
}

func (c *Clock) keep(commit string, m Moment) {
	if c.known == nil {
		c.known = map[string]Moment{}
	}
	c.known[commit] = m
}
