package rules

import (
	"context"
	"errors"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// The rule clone-config looks at what a ref has after a push, not at each commit: what
// was put right by a later commit of the same push reaches nobody who pulls, and of a
// history it is the end that is cloned. What was there before stays until it changes.

// cloneConfig notes the commits that bring or change a clone's own configuration, and
// tells of one in the index.
func (ps *pass) cloneConfig(_ context.Context, c *commit) error {
	for _, d := range c.diffs {
		for _, ch := range d.Changes {
			at, own := c.policy.CloneConfig(ch.Path)
			if !own || ch.Deleted() {
				continue
			}
			if c.obj != nil {
				if ps.configs == nil {
					ps.configs = map[string]string{}
				}
				ps.configs[at] = c.id
				continue
			}
			published := false
			for _, tree := range c.published {
				e, ok, err := ps.Repo.EntryAt(tree, ch.Path)
				if err != nil {
					return err
				}
				published = published || ok && e.ID == ch.NewID && e.Mode == ch.NewMode // a merge takes it over
			}
			if !published {
				ps.tell(c, ownConfig(ch.Path, "git rm --cached -- "+finding.Word(ch.Path)))
			}
		}
	}
	return nil
}

func ownConfig(path, hint string) finding.Finding {
	return finding.Finding{Rule: "clone-config", Path: path, Hint: hint,
		Message: "each clone has its own configuration; whoever clones or pulls this one is another rig"}
}

// WithoutConfig is the command that takes a clone's own configuration out of a
// repository, and leaves the file where it is.
func WithoutConfig(path string) string {
	return "git rm -r -q --cached -- " + finding.Word(path) + " && git commit -m 'Each clone has its own configuration'"
}

// cloneConfigs tells of a clone's own configuration that the ref has after the range and
// had not before: not like this in the commit that it had, nor in that of the default
// branch; where it does not go on from there, in none just outside the range.
func (ps *pass) cloneConfigs(context.Context) error {
	for _, path := range sortedKeys(ps.configs) {
		p := ps.rng.Policy
		if ps.OfTheTime != nil {
			set, err := ps.set(int32(ps.latest()))
			if err != nil {
				return err
			}
			p = set.policy
		}
		was, is, err := ps.configWas(path)
		if err != nil {
			return err
		}
		if is.Mode == gitrepo.ModeNone || slices.Contains(was, is) {
			continue
		}
		f := ownConfig(path, WithoutConfig(path))
		f.Commit, f.Ref = ps.configs[path], ps.rng.Ref
		ps.add(p, f)
	}
	return nil
}

// configWas returns what stands at a path at the end of the range, and before it.
func (ps *pass) configWas(path string) (was []gitrepo.TreeEntry, is gitrepo.TreeEntry, err error) {
	end, err := ps.Repo.Commit(ps.rng.New)
	if err == nil {
		is, _, err = ps.Repo.EntryAt(end.Tree, path)
	}
	if err != nil || is.Mode == gitrepo.ModeNone {
		return nil, is, err
	}
	var trees []string
	n, _ := ps.walk.find(ps.rng.New)
	for _, b := range ps.walk.sets[ps.walk.setOf(n)] {
		bound := ps.walk.bounds[b]
		if bound.id == ps.rng.Old {
			trees = []string{bound.tree}
			break
		}
		trees = append(trees, bound.tree)
	}
	if ps.rng.From != "" && ps.rng.From != ps.rng.New {
		from, err := ps.Repo.Commit(ps.rng.From)
		var bad *gitrepo.MalformedCommitError
		switch {
		case err == nil:
			trees = append(trees, from.Tree)
		case !errors.As(err, &bad):
			return nil, is, err
		}
	}
	for _, tree := range trees {
		e, ok, err := ps.Repo.EntryAt(tree, path)
		if err != nil {
			return nil, is, err
		}
		if ok {
			was = append(was, e)
		}
	}
	return was, is, nil
}
