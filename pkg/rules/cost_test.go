package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// TestManyPathsOfOneCommit: what is found of each path of a commit costs no
// look at all others. With one it would take minutes.
func TestManyPathsOfOneCommit(t *testing.T) {
	const n = 100_000
	parent, blob := strings.Repeat("1", 40), strings.Repeat("2", 40)
	changes := make([]gitrepo.Change, n)
	for i := range changes {
		changes[i] = gitrepo.Change{Path: fmt.Sprintf("t-one/%06d.md", i), OldMode: gitrepo.ModeFile,
			OldID: fmt.Sprintf("%040x", i+1), NewMode: gitrepo.ModeFile, NewID: blob}
	}
	begin := time.Now()
	c := &commit{n: -1, id: blob, obj: &gitrepo.Commit{}, policy: policy.Default(), parents: []string{parent},
		diffs: []gitrepo.Diff{{Parent: parent, Changes: changes}}}
	c.introduce(false)
	for _, e := range c.entries {
		for old := range c.changesAt(e.path) {
			if old.Path != e.path || old.OldID == "" {
				t.Fatalf("%s was %+v before", e.path, old)
			}
		}
	}

	for i := range changes[1:] {
		changes[i+1].NewMode, changes[i+1].NewID = gitrepo.ModeNone, ""
	}
	changes[0] = gitrepo.Change{Path: "t-one/new.md", NewMode: gitrepo.ModeFile, NewID: changes[1].OldID}
	j := &Judge{resigns: map[string]string{c.id: ""}} // nothing is read here
	ps := &pass{Judge: j, rng: Range{New: c.id}, walk: newWalk(40), heads: heads{}}
	for _, ch := range changes {
		ps.heads[ch.OldID] = []byte("---\n")
	}
	if err := ps.appendOnly(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(j.Findings) != maxFindings || j.More.Errors != n-1-maxFindings || !strings.HasSuffix(j.Findings[0].Message,
		`moved to "t-one/new.md"`) || !strings.HasSuffix(j.Findings[1].Message, "deleted") {
		t.Errorf("%d findings, the first %+v", len(j.Findings), j.Findings[:2])
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
