package bridge

import (
	"cmp"
	"slices"
	"strings"
)

// compareMessages is the order of messages as far as two of them alone decide
// it (docs/spec/client.md#order): UTC day of the date, none first; instant; REQUEST
// first and RESOLUTION last; file name with numbers as numbers.
func compareMessages(a, b *message) int {
	return cmp.Or(
		cmp.Compare(a.day, b.day),
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

// sortMessages puts the messages of a thread in order: that of compareMessages,
// but within a day an answer never comes before what it answers by its hash.
// The order follows from the messages alone, so that it is the same in every
// clone and needs no look at the history.
func sortMessages(ms []*message) {
	slices.SortStableFunc(ms, compareMessages)
	for start := 0; start < len(ms); {
		end := start + 1
		for end < len(ms) && ms[end].day == ms[start].day {
			end++
		}
		answersLast(ms[start:end])
		start = end
	}
}

// answersLast moves what is answered before its first answer.
func answersLast(day []*message) {
	byHash := map[string]*message{}
	answers := false
	for _, m := range slices.Backward(day) {
		if m.env != nil && m.env.Hash != "" {
			byHash[m.env.Hash] = m // the first one that has it
		}
		answers = answers || m.env != nil && m.env.InReplyTo != ""
	}
	if !answers {
		return
	}
	sorted := slices.Clone(day)
	done := make(map[*message]bool, len(day))
	next := 0
	for _, m := range sorted {
		// What m answers, what that answers, and so on; forged hashes that
		// answer each other in a ring end it, too.
		var chain []*message
		for m != nil && !done[m] {
			done[m] = true
			chain = append(chain, m)
			if m.env == nil || m.env.InReplyTo == "" {
				break
			}
			m = byHash[m.env.InReplyTo]
		}
		for _, c := range slices.Backward(chain) {
			day[next] = c
			next++
		}
	}
}

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
