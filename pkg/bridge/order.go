package bridge

import (
	"cmp"
	"slices"
	"strings"
)

// Positions of messages in history: the larger, the newer. They are looked up
// only for messages that tie by day.
const (
	unknownPosition     = 0
	uncommittedPosition = int(^uint(0) >> 1)
)

// compareMessages is the order of envelopes (spec/cli.md section 7): UTC day
// of the date, none first; position of the commit that introduced the path,
// not committed last; instant; REQUEST first and RESOLUTION last; file name
// with numbers as numbers.
func compareMessages(a, b *message) int {
	return cmp.Or(
		cmp.Compare(a.day, b.day),
		cmp.Compare(a.position, b.position),
		a.when.Compare(b.when),
		cmp.Compare(rank(a), rank(b)),
		compareNames(a.file, b.file),
	)
}

func rank(m *message) int {
	if m.env != nil {
		switch m.env.Type {
		case "REQUEST":
			return 0
		case "RESOLUTION":
			return 2
		}
	}
	return 1
}

func sortMessages(ms []*message) { slices.SortStableFunc(ms, compareMessages) }

// compareNames compares file names with numbers as numbers: HANDOFF before
// HANDOFF-2 before HANDOFF-10.
func compareNames(a, b string) int {
	full := cmp.Compare(a, b)
	a, b = strings.TrimSuffix(a, ".md"), strings.TrimSuffix(b, ".md")
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), full)
}

// digits counts the digits at the start of s.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// tied returns the messages whose position decides an order: those that share
// their day with another one of the list.
func tied(ms []*message) []*message {
	byDay := map[int]int{}
	for _, m := range ms {
		byDay[m.day]++
	}
	var out []*message
	for _, m := range ms {
		if byDay[m.day] > 1 {
			out = append(out, m)
		}
	}
	return out
}
