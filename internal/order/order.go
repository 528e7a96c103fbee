// Package order puts the messages of a thread in the order in which people read
// them (docs/spec/client.md#order). Where nobody says when they came it follows from
// the messages alone.
package order

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
)

// A Message is what the order needs of one.
type Message struct {
	Day     int       // in UTC, since 1970; NoDay where the date cannot be read
	When    time.Time // UTC
	Came    Moment    // of the commit that brought it; the zero Moment: not yet, or not known
	Type    string    // "" if it has none
	File    string
	Hash    string // of its body, "" if it has none
	ReplyTo string // in_reply_to
}

// NoDay comes before all days.
const NoDay = -1 << 31

// Dated puts a date as an envelope has it into a message.
func (m *Message) Dated(date string) {
	m.Day, m.When = NoDay, time.Time{}
	t, _, err := envelope.ParseTime(date)
	if err != nil {
		return
	}
	m.When = t.UTC()
	m.Day = int(m.When.Unix() / 86400)
	if m.When.Unix() < 0 && m.When.Unix()%86400 != 0 {
		m.Day--
	}
}

// compare is the order as far as two messages alone decide it: UTC day of the
// date, none first; instant; the commit that brought it; REQUEST first and
// RESOLUTION last; file name with numbers as numbers.
func compare(a, b *Message) int {
	return cmp.Or(
		cmp.Compare(a.Day, b.Day),
		a.When.Compare(b.When),
		a.Came.Compare(b.Came),
		cmp.Compare(rank(a), rank(b)),
		Names(a.File, b.File),
	)
}

func rank(m *Message) int {
	switch m.Type {
	case "REQUEST":
		return 0
	case "RESOLUTION":
		return 2
	}
	return 1
}

// Sort puts the messages of a thread in order; of tells what counts of one.
// Within a day an answer never comes before what it answers by its hash.
func Sort[T any](all []T, of func(T) Message) {
	type item struct {
		Message
		value T
	}
	items := make([]*item, len(all))
	for i, v := range all {
		items[i] = &item{of(v), v}
	}
	slices.SortStableFunc(items, func(a, b *item) int { return compare(&a.Message, &b.Message) })
	for start := 0; start < len(items); {
		end := start + 1
		for end < len(items) && items[end].Day == items[start].Day {
			end++
		}
		answersLast(items[start:end], func(m *item) *Message { return &m.Message })
		start = end
	}
	for i, m := range items {
		all[i] = m.value
	}
}

// answersLast moves what is answered before its first answer.
func answersLast[T comparable](day []T, of func(T) *Message) {
	byHash := map[string]T{}
	answers := false
	for _, m := range slices.Backward(day) {
		if hash := of(m).Hash; hash != "" {
			byHash[hash] = m // the first one that has it
		}
		answers = answers || of(m).ReplyTo != ""
	}
	if !answers {
		return
	}
	done := make(map[T]bool, len(day))
	next := 0
	for _, m := range slices.Clone(day) {
		// What m answers, what that answers, and so on; forged hashes that
		// answer each other in a ring end it, too.
		var chain []T
		for there := true; there && !done[m]; {
			done[m] = true
			chain = append(chain, m)
			reply := of(m).ReplyTo
			if reply == "" {
				break
			}
			m, there = byHash[reply]
		}
		for _, c := range slices.Backward(chain) {
			day[next] = c
			next++
		}
	}
}

// Names compares file names with numbers as numbers: HANDOFF before
// HANDOFF-2 before HANDOFF-10.
func Names(a, b string) int {
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

// A Link says that message From of a thread points at message To, by index: it
// answers it by in_reply_to, or refers to it by references.
type Link struct {
	From, To int
	Answers  bool
}

// Links finds who answers and refers to whom among the messages of a thread, which
// are in order; of tells what counts of one. in_reply_to means the newest earlier
// message with that body hash.
func Links[T any](all []T, of func(T) (hash, replyTo, commit string, refs []string)) (links []Link) {
	hashes, commits := make([]string, len(all)), make([]string, len(all))
	for i, m := range all {
		hashes[i], _, commits[i], _ = of(m)
	}
	for i, m := range all {
		_, replyTo, _, refs := of(m)
		if replyTo != "" {
			for j := i - 1; j >= 0; j-- {
				if hashes[j] == replyTo {
					links = append(links, Link{i, j, true})
					break
				}
			}
		}
		for _, ref := range refs {
			for j, commit := range commits {
				if j != i && ref != "" && commit != "" && strings.HasPrefix(commit, ref) {
					links = append(links, Link{i, j, false})
				}
			}
		}
	}
	return links
}
