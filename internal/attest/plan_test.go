package attest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/outbox"
)

// A world is a server of which the test knows everything that happened.
type world struct {
	rng     *rand.Rand
	refs    map[string]string
	history map[string][]step // of each ref: what really moved; a nil pending is the administrator
	outbox  []outbox.Record
	serial  int
	// killed has refs of whose last push only pre-receive told. Where the
	// administrator moves them before anybody looks, that push cannot be told from
	// one that git refused: it is part of the gap.
	killed map[string]bool
}

func (w *world) id() string { w.serial++; return fmt.Sprintf("%040x", w.serial) }

func (w *world) at(ref string) string {
	if id := w.refs[ref]; id != "" {
		return id
	}
	return zeros(40)
}

func (w *world) move(ref, to string, accepted bool) {
	s := step{Move: Move{ref, w.at(ref), to}}
	if accepted {
		s.pending = &pending{}
	}
	w.history[ref] = append(w.history[ref], s)
	if w.refs[ref] = to; zero(to) {
		delete(w.refs, ref)
	}
}

// next does something: a push that goes through or is refused in the end, whose
// post-receive may be killed or late; or a move by the administrator.
func (w *world) next() {
	refs := []string{"refs/heads/a", "refs/heads/b", "refs/heads/c"}
	w.rng.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	if w.rng.IntN(8) == 0 && !w.killed[refs[0]] {
		w.move(refs[0], w.id(), false)
		return
	}
	r := outbox.Record{Push: fmt.Sprint(w.serial), Stage: outbox.Judged, At: "2026-01-05T09:00:00.000000Z"}
	for _, ref := range refs[:1+w.rng.IntN(2)] {
		to := w.id()
		if w.rng.IntN(6) == 0 && !zero(w.at(ref)) {
			to = zeros(40)
		}
		r.Refs = append(r.Refs, outbox.Ref{Name: ref, Old: w.at(ref), New: to})
	}
	w.outbox = append(w.outbox, r)
	var landed []outbox.Ref
	for _, m := range r.Refs {
		if w.rng.IntN(8) > 0 { // else update refuses it
			w.move(m.Name, m.New, true)
			landed = append(landed, m)
		}
	}
	killed := w.rng.IntN(5) == 0
	for _, m := range landed { // what comes back to where it was leaves no trace without post-receive
		killed = killed && !zero(m.New)
	}
	for _, m := range landed {
		w.killed[m.Name] = killed
	}
	if !killed && len(landed) > 0 {
		l := outbox.Record{Push: "landed", Stage: outbox.Landed, Refs: landed}
		w.outbox = append(w.outbox, l)
	}
}

// TestPlan plays random schedules: every update that happened is told once, in its
// order, as accepted or not as it was, whenever somebody looks and whoever is
// killed. Two moves by the administrator between two looks are one gap.
func TestPlan(t *testing.T) {
	t.Parallel()
	n := 2000
	if os.Getenv("RIGWARD_ATTEST_FULL") != "" {
		n = 200_000
	}
	steps := 0
	for seed := range n {
		w := &world{rng: rand.New(rand.NewPCG(uint64(seed), 26)), refs: map[string]string{}, history: map[string][]step{}, killed: map[string]bool{}}
		s := &state{Chain: Chain{At: map[string]string{}}}
		told, read := map[string][]step{}, 0
		used := map[string]bool{}
		for range 12 {
			for range w.rng.IntN(4) {
				w.next()
			}
			saved := *s
			saved.Pending = nil
			for _, p := range s.Pending {
				q := *p
				saved.Pending = append(saved.Pending, &q)
			}
			from := read
			for ; read < len(w.outbox); read++ {
				s.learn(&w.outbox[read], nil, used)
			}
			done := s.plan(w.refs, nil, 40)
			for _, d := range done {
				told[d.Move.Ref] = append(told[d.Move.Ref], d)
				if s.Chain.At[d.Move.Ref] = d.Move.New; zero(d.Move.New) {
					delete(s.Chain.At, d.Move.Ref)
				}
				if d.pending != nil {
					used[d.key()] = true
				}
			}
			steps += len(done)
			if w.rng.IntN(4) == 0 { // killed after the ref moved, before what is known was kept
				at := s.Chain.At
				*s, read = saved, from
				s.Chain.At = at
				continue
			}
			clear(used)
			s.settle(done, time.Date(2026, 1, 5, 9, 1, 0, 0, time.UTC))
		}
		for ref, all := range w.history {
			if want, got := text(all), text(told[ref]); want != got {
				t.Fatalf("seed %d, %s: told\n%s\nexpected\n%s", seed, ref, got, want)
			}
		}
	}
	t.Logf("%d schedules, %d updates", n, steps)
}

// text is what a ref did, with moves of the administrator that follow each other
// as one.
func text(steps []step) (s string) {
	var last *Move
	for i, x := range steps {
		if x.pending == nil && last != nil {
			last.New = x.Move.New
		} else if x.pending == nil {
			m := steps[i].Move
			last = &m
		} else {
			if last != nil && last.Old != last.New {
				s += fmt.Sprintf("gap %s %s\n", last.Old[34:], last.New[34:])
			}
			s, last = s+fmt.Sprintf("push %s %s\n", x.Move.Old[34:], x.Move.New[34:]), nil
		}
	}
	if last != nil && last.Old != last.New {
		s += fmt.Sprintf("gap %s %s\n", last.Old[34:], last.New[34:])
	}
	return s
}
