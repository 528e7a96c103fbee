package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// TestWalk compares a walk with what its definition says, over histories with
// many merges.
func TestWalk(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWalk(40)
		id := func(n int) string { return fmt.Sprintf("%040x", n+1) }
		outside := func(n int) string { return fmt.Sprintf("%040x", 1_000_000+n) }
		var revs []gitrepo.Rev
		for n := range 120 {
			r := gitrepo.Rev{ID: id(n)}
			for range 1 + random.IntN(3)*random.IntN(2) {
				p := outside(random.IntN(5))
				if n > 0 && random.IntN(8) > 0 {
					p = id(n - 1 - random.IntN(min(n, 6)))
				}
				if !slices.Contains(r.Parents, p) {
					r.Parents = append(r.Parents, p)
				}
			}
			if random.IntN(40) == 0 {
				r.Parents = nil
			}
			w.add(r)
			revs = append(revs, r)
		}
		above := make([]map[string]bool, len(revs)) // all ancestors, also outside
		for n, r := range revs {
			above[n] = map[string]bool{}
			for _, p := range r.Parents {
				above[n][p] = true
				if k, ok := w.find(p); ok && k >= 0 {
					for a := range above[k] {
						above[n][a] = true
					}
				}
			}
		}
		merges := false
		for n, r := range revs {
			merges = merges || len(r.Parents) > 1
			if w.id(int32(n)) != r.ID {
				t.Fatalf("commit %d is %s", n, w.id(int32(n)))
			}
			for k := range revs {
				if got := w.ancestor(int32(k), int32(n)); got != above[n][id(k)] {
					t.Fatalf("seed %d: %d is an ancestor of %d: %v", seed, k, n, got)
				}
			}
			var want []string
			for a := range above[n] {
				if k, ok := w.find(a); ok && k < 0 {
					want = append(want, a)
				}
			}
			var got []string
			for _, b := range w.sets[w.setOf(int32(n))] {
				got = append(got, w.bounds[b].id)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %d descends from %v, want %v", seed, n, got, want)
			}
		}
		if w.merges() != merges || w.len() != len(revs) {
			t.Errorf("merges: %v, %d commits", w.merges(), w.len())
		}
	}
}

func TestHashOf(t *testing.T) {
	good := "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	if hashOf(good) == (oid{}) || hashOf(good) != oidOf(good) {
		t.Error("a hash is not read")
	}
	for _, bad := range []string{"", good[1:], good + "0", "G" + good[1:], "A" + good[1:]} {
		if hashOf(bad) != (oid{}) {
			t.Errorf("%q is a hash", bad)
		}
	}
}
