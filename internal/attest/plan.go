package attest

import (
	"slices"
	"time"

	"github.com/rigward/rigward/internal/outbox"
)

// expires is after how long an update that a gate accepted, and that no ref has
// made, is taken as one that git refused in the end.
const expires = time.Hour

// A pending update was accepted by a gate. Whether the ref has moved is to be seen.
type pending struct {
	Push     string    `json:"push"`
	At       string    `json:"at"`
	Move     Move      `json:"move"`
	Verified *Verified `json:"verified"`
	Order    int64     `json:"order"`            // of the record
	Landed   int64     `json:"landed,omitempty"` // of the record of post-receive, 0 for none

	stated bool // it has a statement, which was made before this record was read again
}

func (p *pending) key() string {
	return p.Push + " " + p.Move.Ref + " " + p.Move.Old + " " + p.Move.New
}

// A step is what a ref did: a pending update, or a move that nobody accepted.
type step struct {
	*pending      // nil for a gap
	Move     Move // of a gap, too
}

// before reports whether an update is the same as one that happened later than it
// was accepted: git has refused it.
func (p *pending) before(q *pending) bool {
	return p.Move == q.Move && p.Landed == 0 && p.Order < max(q.Order, q.Landed)
}

// learn takes a record of the hooks. Those that are in used have a statement.
func (s *state) learn(r *outbox.Record, verified *Verified, used map[string]bool) {
	s.Counter++
	for _, ref := range r.Refs {
		p := &pending{Push: r.Push, At: r.At, Move: Move{ref.Name, ref.Old, ref.New}, Verified: verified, Order: s.Counter}
		switch r.Stage {
		case outbox.Judged:
			if p.stated = used[p.key()]; p.Move.Old != p.Move.New {
				s.Pending = append(s.Pending, p)
			}
		case outbox.Landed:
			for _, q := range slices.Backward(s.Pending) {
				if q.Move == p.Move && q.Landed == 0 {
					q.Landed = s.Counter
					break
				}
			}
		}
	}
}

// path finds what a ref did since it was at a value: the updates that landed, those
// accepted ones without which it cannot have come to where it is, and gaps
// between them. now is what it has, "" if it moves just now.
func path(pendings []*pending, at, now string) (steps []step) {
	left := slices.Clone(pendings)
	take := func(i int) {
		p := left[i]
		for _, q := range left { // of many that nobody told of further, the last one came through
			if p.Landed == 0 && q.Landed == 0 && q.Move == p.Move {
				p = q
			}
		}
		steps, at = append(steps, step{p, p.Move}), p.Move.New
		left = slices.DeleteFunc(left, func(q *pending) bool { return q == p || q.before(p) })
	}
	// gap moves to where accepted updates lead on from, to what must be reached.
	gap := func(to string) {
		seen := map[string]bool{}
		for back := 0; back >= 0 && !seen[to]; {
			seen[to] = true
			if back = slices.IndexFunc(left, func(p *pending) bool { return p.Move.New == to && !seen[p.Move.Old] }); back >= 0 {
				to = left[back].Move.Old
			}
		}
		steps, at = append(steps, step{nil, Move{"", at, to}}), to
	}
	for {
		// What landed is wanted in the order in which that was told.
		next, wanted := -1, now
		for i, p := range left {
			if p.Landed > 0 && (next < 0 || p.Landed < left[next].Landed) {
				next, wanted = i, p.Move.Old
			}
		}
		if next >= 0 && wanted == at {
			take(next)
			continue
		}
		// An accepted update is a sign that the ref was where it began: it may
		// have come back since.
		i := slices.IndexFunc(left, func(p *pending) bool {
			return wanted != "" && p.Move.Old == at && leads(left, p.Move.New, wanted, map[string]bool{})
		})
		switch {
		case i >= 0:
			take(i)
		case wanted == "" || wanted == at:
			return steps
		default:
			gap(wanted)
		}
	}
}

// leads reports whether updates lead from one value to another.
func leads(left []*pending, from, wanted string, seen map[string]bool) bool {
	if wanted == from {
		return true
	}
	seen[from] = true
	return slices.ContainsFunc(left, func(p *pending) bool {
		return p.Move.Old == from && !seen[p.Move.New] && leads(left, p.Move.New, wanted, seen)
	})
}

// plan finds what all refs did, in the order of the pushes as far as each ref's own
// order allows it. refs are what they have; what moves just now is in moving.
func (s *state) plan(refs map[string]string, moving map[string]bool, size int) []step {
	byRef := map[string][]*pending{}
	for _, p := range s.Pending {
		if p.stated {
			continue
		}
		byRef[p.Move.Ref] = append(byRef[p.Move.Ref], p)
	}
	names := map[string]bool{}
	for name := range byRef {
		names[name] = true
	}
	for name, id := range refs {
		names[name] = names[name] || s.Chain.At[name] != id
	}
	for name := range s.Chain.At {
		names[name] = names[name] || refs[name] == ""
	}
	var queues [][]step
	value := func(id string) string {
		if id == "" {
			return zeros(size)
		}
		return id
	}
	for _, name := range sorted(names) {
		now := value(refs[name])
		if moving[name] {
			now = ""
		}
		if steps := path(byRef[name], value(s.Chain.At[name]), now); len(steps) > 0 {
			for i := range steps {
				steps[i].Move.Ref = name
			}
			queues = append(queues, steps)
		}
	}
	return merge(queues)
}

// merge takes the steps of all refs by the order of their records; a gap comes with
// what follows it.
func merge(queues [][]step) (all []step) {
	for len(queues) > 0 {
		first := 0
		for i := range queues {
			if order(queues[i]) < order(queues[first]) {
				first = i
			}
		}
		all = append(all, queues[first][0])
		if queues[first] = queues[first][1:]; len(queues[first]) == 0 {
			queues = slices.Delete(queues, first, first+1)
		}
	}
	return all
}

// order is that of the first step of a queue that was a push.
func order(steps []step) int64 {
	for _, s := range steps {
		if s.pending != nil {
			return s.Order
		}
	}
	return 1 << 62
}

// settle drops what has a statement now, and what git refused in the end.
func (s *state) settle(done []step, now time.Time) {
	gone := map[*pending]bool{}
	for _, d := range done {
		gone[d.pending] = true
	}
	s.Pending = slices.DeleteFunc(s.Pending, func(p *pending) bool {
		at, err := time.Parse(outbox.Time, p.At)
		same := slices.ContainsFunc(done, func(d step) bool { return d.pending != nil && p.before(d.pending) })
		return gone[p] || p.stated || same || p.Landed == 0 && (err != nil || now.Sub(at) > expires)
	})
}
