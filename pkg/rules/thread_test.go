package rules

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rigward/rigward/internal/portable"
)

// TestManyOfOneThread: what is found of facts and names does not depend on how
// many there are, from where on they are indexed.
func TestManyOfOneThread(t *testing.T) {
	few, many := &thread{}, &thread{}
	hash := func(i int) oid { return oidOf(fmt.Sprintf("%064x", i+1)) }
	for i := range 10 * smallThread {
		f := &fact{path: fmt.Sprint(i), hash: hash(i % 7)}
		many.put(f)
		if i < smallThread {
			few.put(f)
		}
	}
	if few.byHash != nil || many.byHash == nil {
		t.Fatal("the index is made too early or too late")
	}
	for k := range 8 {
		var want []string
		for _, f := range many.facts {
			if f.hash == hash(k) {
				want = append(want, f.path)
			}
		}
		for name, th := range map[string]*thread{"few": few, "many": many} {
			var got []string
			for f := range th.withHash(hash(k)) {
				got = append(got, f.path)
			}
			if in := want[:min(len(want), len(got))]; !slices.Equal(got, in) || name == "many" && len(got) != len(want) {
				t.Errorf("%s: hash %d is that of %v, want %v", name, k, got, want)
			}
		}
	}
	for range many.withHash(oid{}) {
		t.Error("no hash is that of a fact")
	}

	names := &thread{}
	for i := range 5 * smallThread {
		for _, path := range []string{"t/a.md", "t/A.md", fmt.Sprintf("t/%d.md", i), fmt.Sprintf("t/B%0*d.md", i, 0)} {
			names.note(path)
			names.note(path)
		}
	}
	for i := range 2 * smallThread { // many that fold to one
		name := []byte("t/a-long-enough-name.md")
		for k := range 5 {
			if i>>k&1 == 1 {
				name[2+2*k+k%2] = 'X'
			}
		}
		names.note(string(name))
	}
	seen := map[string]int{}
	for _, n := range names.names {
		if seen[n]++; seen[n] > 1 {
			t.Errorf("%s is there twice", n)
		}
	}
	if got := slices.Sorted(names.folded(portable.Fold("t/a.md"))); !slices.Equal(got, []string{"t/A.md", "t/a.md"}) {
		t.Errorf("a.md folds with %v", got)
	}
}
