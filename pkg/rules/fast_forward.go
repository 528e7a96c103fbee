package rules

import (
	"context"
	"fmt"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
)

// fastForward judges that a protected ref only moves forward and gains no
// second root.
func (ps *pass) fastForward(ctx context.Context) error {
	if !ps.rng.History {
		return nil
	}
	add := func(commit, message, hint string) {
		ps.add(ps.rng.Policy, finding.Finding{Rule: "fast-forward", Severity: finding.Error, Ref: ps.rng.Ref, Commit: commit, Message: message, Hint: hint})
	}
	if ps.rng.Old != "" && ps.rng.Old != ps.rng.New {
		_, forward := ps.walk.find(ps.rng.Old)
		if !forward && slices.ContainsFunc(ps.rng.Exclude, func(id string) bool { return id != ps.rng.Old }) {
			// What lies between may be excluded, too, or the old commit itself.
			var err error
			if forward, err = ps.Repo.IsAncestor(ctx, ps.rng.Old, ps.rng.New); err != nil {
				return err
			}
		}
		if !forward {
			lost, err := ps.lost()
			if err != nil {
				return err
			}
			sign, err := ps.Resign(ps.rng.New)
			if err != nil {
				return err
			}
			add(ps.rng.New, "a protected ref moves from "+finding.Short(ps.rng.Old)+" to a commit that does not contain it"+lost, "git pull --rebase"+sign+", then git push without --force")
		}
	}
	roots := 0
	for n := range int32(ps.walk.len()) {
		if len(ps.walk.parents(n)) > 0 {
			continue
		}
		if roots++; roots > 1 || !ps.rng.First {
			sign, err := ps.Resign(ps.rng.New)
			if err != nil {
				return err
			}
			add(ps.walk.id(n), "a root commit: its history begins anew beside the protected one", "git rebase"+sign+" --root --onto "+ontoOf(ps.rng))
		}
	}
	return nil
}

// ontoOf names the commit that a side history is to be put on.
func ontoOf(r Range) string {
	if r.Old != "" {
		return finding.Short(r.Old)
	}
	if len(r.Exclude) > 0 {
		return finding.Short(r.Exclude[0])
	}
	return "the first root"
}

// lost names the envelopes that a ref would no longer have.
func (ps *pass) lost() (string, error) {
	old, err := ps.Repo.Commit(ps.rng.Old)
	if err != nil {
		return "", err
	}
	after, err := ps.Repo.Commit(ps.rng.New)
	if err != nil {
		return "", err
	}
	changes, err := ps.Repo.DiffTrees(old.Tree, after.Tree)
	if err != nil {
		return "", err
	}
	n, first := 0, ""
	for _, ch := range changes {
		if ch.Deleted() && ps.rng.Policy.Candidate(ch.Path) {
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
