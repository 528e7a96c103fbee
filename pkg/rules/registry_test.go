package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/pkg/policy"
)

// elsewhere are the rules that are judged outside this package: hooks holds the
// gates of push-cert and bundle-drift, internal/drift tests what they tell.
var elsewhere = []string{"push-cert", "bundle-drift", "bundle-capability"}

// TestRegistry: the judge and the policy know the same rules.
func TestRegistry(t *testing.T) {
	known := policy.Rules()
	if len(known) != len(registry) {
		t.Fatalf("a policy knows %d rules, the judge %d", len(known), len(registry))
	}
	for i, r := range All() {
		if r.Rule != known[i] || r.Says == "" || r.Gates == 0 {
			t.Errorf("row %d is %+v, the policy's is %+v", i, r, known[i])
		}
		if got, ok := ByID(r.ID); !ok || got.ID != r.ID {
			t.Errorf("%s is not found", r.ID)
		}
	}
	if _, ok := ByID("no-rule"); ok {
		t.Error("a rule is found that there is not")
	}
}

// TestGates plays every case of every rule at every gate: each rule is told
// just where the registry says that it can be.
func TestGates(t *testing.T) {
	told := map[string]Gates{}
	for _, list := range plays {
		for _, p := range list {
			for g := PreCommit; g <= Check; g++ {
				w := newWorld(t)
				if p.make(w); g == PreCommit && strings.HasPrefix(p.name, "malformed") {
					continue // is written by hand, not made from an index
				}
				judge := w.judgeAt
				if g == w.gate { // as run has done
					judge = func(g Gate) (*Judge, error) { return w.judgeWith(g, nil) }
				}
				j, _ := judge(g) // where it cannot decide, nothing is told
				for _, f := range j.Findings {
					told[f.Rule] |= 1 << g
				}
			}
		}
	}
	for _, p := range refPlays {
		for g := PrePush; g <= Check; g++ { // a commit that is made moves no other ref
			w := newWorld(t)
			w.policy = p.policy
			j := &Judge{Gate: g}
			j.Ref(w.demands(), change.RefUpdate{Ref: p.ref, Old: w.base, New: w.base}, p.head)
			for _, f := range j.Findings {
				told[f.Rule] |= 1 << g
			}
		}
	}
	for _, r := range registry {
		switch {
		case slices.Contains(elsewhere, r.ID):
			if told[r.ID] != 0 {
				t.Errorf("%s is told here", r.ID)
			}
		case told[r.ID] != r.Gates:
			t.Errorf("%s is told at: %s; the registry says: %s", r.ID, told[r.ID], r.Gates)
		}
		delete(told, r.ID)
	}
	for id := range told {
		t.Errorf("%s is told and not in the registry", id)
	}
}

func TestGatesAreNamed(t *testing.T) {
	for set, want := range map[Gates]string{
		everywhere:      "all",
		ofCommits:       "pre-push, pre-receive, update, pull request, check",
		1 << PreReceive: "pre-receive",
		0:               "",
	} {
		if got := set.String(); got != want {
			t.Errorf("%b is %q, want %q", set, got, want)
		}
	}
	if !Gates(everywhere).has(Check) || Gates(atServer).has(PrePush) {
		t.Error("has is wrong")
	}
}
