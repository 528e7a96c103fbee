package rules

import (
	"context"
	"fmt"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// appendOnly judges each change against each parent: an accepted envelope that
// a parent has stays as it is. In the index, what counts is what is published:
// until then an envelope may be rewritten.
func (ps *pass) appendOnly(ctx context.Context, c *commit) error {
	told := map[string]bool{}
	for _, d := range c.diffs {
		if err := ctx.Err(); err != nil {
			return err
		}
		var moved map[string]string // paths that are added, by blob; nil: not asked yet
		for _, ch := range d.Changes {
			if ch.Added() || told[ch.Path] {
				continue
			}
			stone := c.burials[ch.Path]
			back := ""
			if c.obj == nil {
				source, err := ps.publishedIn(c, ch)
				if err != nil {
					return err
				}
				if source == "" || stone != nil && stone.why == "" {
					continue
				}
				back = "git restore --source=" + finding.Short(source) + " --staged --worktree -- " + finding.Word(ch.Path)
			} else if was, err := ps.replaces(c.policy, ch); err != nil {
				return err
			} else if !was || stone != nil && stone.why == "" {
				continue
			}
			if taken, err := ps.takesStone(c, ch); err != nil {
				return err
			} else if taken {
				continue
			}
			if len(c.diffs) > 1 {
				told[ch.Path] = true
			}
			if ch.Deleted() && moved == nil {
				moved = additions(d.Changes)
			}
			if c.obj != nil {
				var err error
				if back, err = ps.without(c, d.Parent); err != nil {
					return err
				}
			}
			what, hint := how(ch, moved[ch.OldID]), "write a new envelope instead; to take the change back: "+back
			if stone != nil {
				what = "replaced by a tombstone that does not count: " + stone.why
				hint = "those whom expunge.signers of the policy names take a message's body out: rig-hook expunge " + finding.Word(ch.Path)
			}
			ps.tell(c, finding.Finding{Rule: "append-only", Path: ch.Path, Message: "an accepted envelope is " + what, Hint: hint})
		}
	}
	return nil
}

// without is the command that takes a commit out of a branch, if it changes one
// path only, else the one that lets a person do it.
func (ps *pass) without(c *commit, parent string) (string, error) {
	if len(c.diffs[0].Changes) == 1 {
		if out, err := ps.out(c.id, len(c.parents)); out != "" || err != nil {
			return out, err
		}
	}
	sign, err := ps.Resign(ps.rng.New)
	return "git rebase" + sign + " --interactive " + finding.Short(parent), err
}

// publishedIn returns a published commit that has an accepted envelope at the
// path, with another content or mode than the index, "" if none does.
func (ps *pass) publishedIn(c *commit, ch gitrepo.Change) (string, error) {
	if !c.policy.Candidate(ch.Path) {
		return "", nil
	}
	for i, tree := range c.published {
		e, ok, err := ps.Repo.EntryAt(tree, ch.Path)
		if err != nil {
			return "", err
		}
		if !ok || e.ID == ch.NewID && e.Mode == ch.NewMode {
			continue
		}
		if was, err := ps.accepted(c.policy, ch.Path, e.Mode, e.ID); err != nil || was {
			return c.publishedIDs[i], err
		}
	}
	return "", nil
}

// additions returns the first path that is added of each blob.
func additions(changes []gitrepo.Change) map[string]string {
	paths := map[string]string{}
	for _, ch := range changes {
		if _, known := paths[ch.NewID]; ch.Added() && !known {
			paths[ch.NewID] = ch.Path
		}
	}
	return paths
}

// how says in words what happens to a path; moved is where its content went.
func how(ch gitrepo.Change, moved string) string {
	switch {
	case ch.Deleted() && moved != "":
		return "moved to " + finding.Quote(moved)
	case ch.Deleted():
		return "deleted"
	case ch.NewMode == gitrepo.ModeSymlink && ch.OldMode != ch.NewMode:
		return "replaced by a symbolic link"
	case ch.NewMode == gitrepo.ModeGitlink && ch.OldMode != ch.NewMode:
		return "replaced by a submodule"
	case ch.OldID == ch.NewID:
		return fmt.Sprintf("changed in mode from %s to %s", ch.OldMode, ch.NewMode)
	}
	return "changed in place"
}
