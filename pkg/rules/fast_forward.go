package rules

import (
	"context"
	"fmt"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
)

// fastForward judges that a protected ref only moves forward and gains no
// second root.
func (j *Judge) fastForward(ctx context.Context, r Range) error {
	add := func(commit, message, hint string) {
		j.add(r.Policy, finding.Finding{Rule: "fast-forward", Severity: finding.Error, Ref: r.Ref, Commit: commit, Message: message, Hint: hint})
	}
	if r.Old != "" && r.Old != r.New {
		_, forward := j.walk.find(r.Old)
		if !forward && slices.ContainsFunc(r.Exclude, func(id string) bool { return id != r.Old }) {
			// What lies between may be excluded, too, or the old commit itself.
			var err error
			if forward, err = j.Repo.IsAncestor(ctx, r.Old, r.New); err != nil {
				return err
			}
		}
		if !forward {
			lost, err := j.lost(r)
			if err != nil {
				return err
			}
			add(r.New, "a protected ref moves from "+short(r.Old)+" to a commit that does not contain it"+lost, "git fetch, then git rebase onto the ref's new tip, then push without --force")
		}
	}
	roots := 0
	for n := range int32(j.walk.len()) {
		if len(j.walk.parents(n)) > 0 {
			continue
		}
		if roots++; roots > 1 || !r.First {
			add(j.walk.id(n), "a root commit: its history begins anew beside the protected one", "git rebase --root --onto "+ontoOf(r))
		}
	}
	return nil
}

// ontoOf names the commit that a side history is to be put on.
func ontoOf(r Range) string {
	if r.Old != "" {
		return short(r.Old)
	}
	if len(r.Exclude) > 0 {
		return short(r.Exclude[0])
	}
	return "the first root"
}

// lost names the envelopes that a ref would no longer have.
func (j *Judge) lost(r Range) (string, error) {
	old, err := j.Repo.Commit(r.Old)
	if err != nil {
		return "", err
	}
	after, err := j.Repo.Commit(r.New)
	if err != nil {
		return "", err
	}
	changes, err := j.Repo.DiffTrees(old.Tree, after.Tree)
	if err != nil {
		return "", err
	}
	n, first := 0, ""
	for _, ch := range changes {
		if ch.Deleted() && r.Policy.Candidate(ch.Path) {
			if n++; n == 1 {
				first = ch.Path
			}
		}
	}
	switch n {
	case 0:
		return "", nil
	case 1:
		return "; it would lose " + finding.Quote(first), nil
	}
	return fmt.Sprintf("; it would lose %d files in threads, the first %s", n, finding.Quote(first)), nil
}
