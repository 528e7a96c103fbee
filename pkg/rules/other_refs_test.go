package rules

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/pkg/policy"
)

// refPlays are what a push does to refs, for fast-forward and other-refs.
var refPlays = []struct {
	name, policy, ref, head string
	deleted                 bool
	judged                  bool // its commits are to be judged
	want                    []string
}{
	{name: "the default branch moves", ref: "refs/heads/main", head: "refs/heads/main", judged: true},
	{name: "the default branch is deleted", ref: "refs/heads/main", head: "refs/heads/main", deleted: true, want: []string{
		"error fast-forward - @: a protected ref is deleted | let another branch be the default first; on the " +
			"server: git symbolic-ref HEAD refs/heads/<branch>",
	}},
	{name: "a listed branch is deleted", policy: "protect: [release]\n", ref: "refs/heads/release",
		head: "refs/heads/main", deleted: true, want: []string{
			"error fast-forward - @: a protected ref is deleted | take it out of the policy's protect list first",
		}},
	{name: "a branch is deleted where none is known as default", ref: "refs/heads/x", deleted: true, want: []string{
		"error fast-forward - @: a protected ref is deleted",
	}},
	{name: "another branch", ref: "refs/heads/topic", head: "refs/heads/main"},
	{name: "another branch is deleted", ref: "refs/heads/topic", head: "refs/heads/main", deleted: true},
	{name: "another branch, which is denied", policy: "other-refs: deny\n", ref: "refs/heads/topic",
		head: "refs/heads/main", want: []string{
			"error other-refs - @: the policy denies refs that are not protected (other-refs: deny) | name the ref " +
				"in the policy's allow-refs",
		}},
	{name: "another branch, which is allowed", policy: "other-refs: deny\nallow-refs: [topic]\n",
		ref: "refs/heads/topic", head: "refs/heads/main"},
	{name: "replace refs", ref: "refs/replace/1", head: "refs/heads/main", want: []string{
		"error other-refs - @: refs below refs/replace and refs/notes change what others see of commits, " +
			"expected none",
	}},
	{name: "notes", ref: "refs/notes/commits", head: "refs/heads/main", deleted: true, want: []string{
		"error other-refs - @: refs below refs/replace and refs/notes change what others see of commits, " +
			"expected none",
	}},
	{name: "notes that are allowed", policy: "allow-refs: [refs/notes/*]\n", ref: "refs/notes/commits",
		head: "refs/heads/main"},
	{name: "notes, and the rule is off", policy: "rules: {other-refs: off}\n", ref: "refs/notes/commits",
		head: "refs/heads/main"},
	{name: "a tag", ref: "refs/tags/v1", head: "refs/heads/main"},
}

func TestRefs(t *testing.T) {
	for _, p := range refPlays {
		t.Run(p.name, func(t *testing.T) {
			w := newWorld(t)
			w.policy = p.policy
			j := &Judge{Gate: PreReceive}
			u := change.RefUpdate{Ref: p.ref, Old: w.base, New: w.base}
			if p.deleted {
				u.New = strings.Repeat("0", 40)
			}
			if got := j.Ref(w.demands(), u, p.head); got != p.judged {
				t.Errorf("its commits are judged: %v", got)
			}
			w.expect(j, p.want...)
		})
	}
	if j := (&Judge{}); !j.Ref(policy.Default(), change.RefUpdate{Ref: "refs/heads/main", New: "1"}, "") {
		t.Error("a branch is not protected though no default is known")
	}
}
