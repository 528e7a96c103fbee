package main

import (
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/finding"
)

// shownFacts bounds the facts of one kind that the text form tells; --json has
// them all.
const shownFacts = 40

// printBehaviour tells in plain words what a bundle does when it is started.
func (c *call) printBehaviour(prefix string, b *rig.Behaviour) {
	if b == nil {
		return
	}
	c.print("%sWhen its rig is started, as far as its files say:", prefix)
	shown := map[string]int{}
	for _, f := range b.Facts {
		if shown[f.Kind]++; shown[f.Kind] > shownFacts {
			continue
		}
		who, where := "", ""
		if f.Seat != "" {
			who = line(f.Seat) + ": "
		}
		if f.Path != "" {
			where = " (" + finding.Path(f.Path) + ")"
		}
		c.print("%s  %-10s %s%s%s", prefix, f.Kind, who, f.Text, where)
	}
	more := b.Cut
	for _, n := range shown {
		more += max(0, n-shownFacts)
	}
	if more > 0 {
		c.print("%s  and %d more, see --json", prefix, more)
	}
}
