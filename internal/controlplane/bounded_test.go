package controlplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/corpus"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// A story is a history that is derived without git and without a database.
type story struct {
	revs  []gitrepo.Rev
	lands []*landed
}

// says adds a commit with one message, or none, to some parents, and returns its number.
func (s *story) says(e *envelope.Envelope, parents ...int) int {
	n := len(s.revs)
	rev := gitrepo.Rev{ID: fmt.Sprintf("%040x", uint64(n)*0x9e3779b97f4a7c15)}
	for _, p := range parents {
		rev.Parents = append(rev.Parents, s.revs[p].ID)
	}
	l := &landed{id: rev.ID, index: n, time: stamp(corpus.Start.Add(time.Duration(n) * time.Second))}
	if e != nil {
		l.messages = []message{{thread: "one", file: fmt.Sprintf("%06d.md", n), env: e}}
	}
	s.revs, s.lands = append(s.revs, rev), append(s.lands, l)
	return n
}

// joins adds a merge that brings nothing of its own; news has, of each parent, the numbers
// of the messages that it did not have.
func (s *story) joins(parents []int, news ...[]int) {
	l := s.lands[s.says(nil, parents...)]
	for _, of := range news {
		var paths [][2]string
		for _, n := range of {
			paths = append(paths, [2]string{"one", fmt.Sprintf("%06d.md", n)})
		}
		l.missed = append(l.missed, paths)
	}
}

// counts derives the story, and returns how many events of each kind it has, and of how
// many messages, with the most that one commit caused.
func (s *story) counts(t *testing.T) (kinds map[string]int, rows, most int) {
	t.Helper()
	d := &deriver{graph: newGraph(s.revs), threads: map[string]*thread{}, caused: maxCaused}
	for _, l := range s.lands {
		if err := d.take(l); err != nil {
			t.Fatal(err)
		}
	}
	kinds = map[string]int{}
	by, once := map[string]int{}, map[string]bool{}
	for _, e := range d.events {
		kinds[e.kind]++
		if e.kind != "received" {
			by[e.kind+e.commit]++
			most = max(most, by[e.kind+e.commit])
		}
		key := fmt.Sprintf("%s %s %s %s %s", e.kind, e.rig, e.commit, e.of.commit, e.row.to)
		if once[key] {
			t.Errorf("twice: %s", key)
		}
		once[key] = true
	}
	return kinds, len(d.rows), most
}

func said(typ, from string, to ...string) *envelope.Envelope {
	return &envelope.Envelope{Type: typ, From: from, To: to, Hash: "same"}
}

// TestEventsOfLongThreads: what a thread leads to grows as its messages do, whoever writes
// what into it, and not as their square.
func TestEventsOfLongThreads(t *testing.T) {
	const n = 3000
	up := func(s *story, e *envelope.Envelope) {
		if len(s.revs) == 0 {
			s.says(e)
		} else {
			s.says(e, len(s.revs)-1)
		}
	}
	for _, c := range []struct {
		name  string
		tell  func(s *story)
		kinds map[string]int
	}{
		{"each ends the thread", func(s *story) {
			for range n {
				up(s, said("RESOLUTION", "a", "b"))
			}
		}, map[string]int{"received": n, "resolved": n}},
		{"each second one acks what has the same text", func(s *story) {
			for i := range n {
				e := said("STATE", "a", "b")
				if i%2 == 1 {
					e = said("ACK", "b", "a")
					e.InReplyTo = "same"
				}
				up(s, e)
			}
		}, map[string]int{"received": n, "acked": n - 1}},
		{"each second one acks and names nothing", func(s *story) {
			for i := range n {
				e := said("STATE", "a", "b")
				if i%2 == 1 {
					e = said("ACK", "b", "a")
				}
				up(s, e)
			}
		}, map[string]int{"received": n, "acked": n / 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &story{}
			c.tell(s)
			kinds, rows, _ := s.counts(t)
			if rows != n {
				t.Errorf("%d rows", rows)
			}
			for kind, want := range c.kinds {
				if kinds[kind] != want {
					t.Errorf("%d events %s, expected %d", kinds[kind], kind, want)
				}
			}
		})
	}
}

// TestCausesAreBounded: branches that know nothing of each other do each what one would do,
// to the newest messages.
func TestCausesAreBounded(t *testing.T) {
	const n, k = 1500, 20
	for kind, e := range map[string]*envelope.Envelope{
		"resolved": said("RESOLUTION", "b", "a"),
		"acked":    said("ACK", "b", "a"),
	} {
		s := &story{}
		s.says(said("REQUEST", "a", "b"))
		for i := 1; i < n; i++ {
			s.says(said("STATE", "a", "b"), i-1)
		}
		for range k {
			s.says(e, n-1)
		}
		if kinds, _, most := s.counts(t); most != maxCaused || kinds[kind] != k*maxCaused {
			t.Errorf("%v, %d by one commit", kinds, most)
		}
	}
	// The newest are done first, and the next one does the rest.
	s := &story{}
	s.says(said("REQUEST", "a", "b"))
	for i := 1; i < n; i++ {
		s.says(said("STATE", "a", "b"), i-1)
	}
	s.says(said("ACK", "b", "a"), n-1)
	s.says(said("ACK", "b", "a"), n)
	s.says(said("ACK", "b", "a"), n+1)
	if kinds, _, _ := s.counts(t); kinds["acked"] != n {
		t.Errorf("%v", kinds)
	}
}

// TestMergesAreBounded: of two sides of a merge on which everybody has a name of his own.
func TestMergesAreBounded(t *testing.T) {
	const n = 1200
	s := &story{}
	root := s.says(said("REQUEST", "a", "b"))
	tips, sides := []int{}, [][]int{}
	for side := range 2 {
		at, all := root, []int{}
		for i := range n {
			at = s.says(said("STATE", fmt.Sprintf("side-%d-%04d", side, i), "b"), at)
			all = append(all, at)
		}
		tips, sides = append(tips, at), append(sides, all)
	}
	s.joins(tips, sides[1], sides[0])
	if kinds, _, most := s.counts(t); kinds["diverged"] != maxCaused*maxBeside || most != kinds["diverged"] {
		t.Errorf("%v, %d by one commit", kinds, most)
	}
}

// TestOctopus: of three sides, what stands on one is not beside itself.
func TestOctopus(t *testing.T) {
	s := &story{}
	root := s.says(said("REQUEST", "a", "b"))
	first := s.says(said("STATE", "c", "b"), root)
	second := s.says(said("STATE", "d", "b"), first)
	other := s.says(said("STATE", "e", "b"), root)
	third := s.says(nil, root)
	for _, n := range []int{first, second, other} {
		s.lands[n].messages[0].env.Hash = fmt.Sprint("hash of ", n)
	}
	s.joins([]int{second, other, third}, []int{other}, []int{first, second}, []int{first, second, other})
	// first and second with other, and other with each.
	if kinds, _, _ := s.counts(t); kinds["diverged"] != 4 {
		t.Errorf("%v", kinds)
	}
}

// TestRecipientsAreBounded: rows are made for the first recipients of a message.
func TestRecipientsAreBounded(t *testing.T) {
	for _, n := range []int{2, maxRecipients, maxRecipients + 1, 5000} {
		s, to := &story{}, []string{}
		for i := range n {
			to = append(to, fmt.Sprintf("rig-%04d", i))
		}
		s.says(said("REQUEST", "a", to...))
		if _, rows, _ := s.counts(t); rows != min(n, maxRecipients) {
			t.Errorf("%d rows for %d recipients", rows, n)
		}
	}
}

// TestEachDoesItsOwn: what one rig acked another one acks, too, and a branch resolves what
// another branch has.
func TestEachDoesItsOwn(t *testing.T) {
	s := &story{}
	s.says(said("REQUEST", "a", "b", "c"))
	s.says(said("ACK", "b", "a"), 0)
	s.says(said("ACK", "c", "a"), 1)
	s.says(said("ACK", "c", "a"), 2) // and again
	s.says(said("RESOLUTION", "b", "a"), 3)
	s.says(said("RESOLUTION", "c", "a"), 3)
	s.joins([]int{4, 5}, []int{5}, []int{4})
	s.says(said("STATE", "a", "b"), 6) // what follows is open again
	kinds, _, _ := s.counts(t)
	// The request has two rows, four messages before the ends have five, and each end itself.
	if kinds["acked"] != 2 || kinds["resolved"] != 2*(2+3+1) || kinds["diverged"] != 2 {
		t.Errorf("%v", kinds)
	}
}

// TestOneCommitOfMany: what a commit brings is read in time that grows with how much that
// is, as where a whole history is brought in by one commit.
func TestOneCommitOfMany(t *testing.T) {
	took := func(n int) time.Duration {
		least := time.Hour
		for range 3 {
			l := &landed{policy: policy.Default()}
			for i := range n {
				m := message{thread: "one", file: fmt.Sprintf("%06d.md", i), env: &envelope.Envelope{}}
				l.found = append(l.found, found{path: "one/" + m.file, parsed: true, said: &m})
			}
			l.found = append(l.found, l.found[0]) // as a name in other bytes that are not text
			began := time.Now()
			l.read()
			least = min(least, time.Since(began))
			if len(l.messages) != n {
				t.Fatalf("%d messages of %d", len(l.messages), n)
			}
		}
		return least
	}
	if few, many := took(4000), took(32000); many > 24*few {
		t.Errorf("%d messages take %v, and %d take %v", 4000, few, 32000, many)
	}
}
