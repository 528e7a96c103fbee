package bridge

import (
	"context"
	"errors"
	"math"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// refresh makes the open repository see the objects that a child has brought.
func (w *work) refresh(ctx context.Context) error {
	repo, err := gitrepo.OpenIdle(ctx, w.repo.Env())
	if err != nil {
		return gitProblem(err)
	}
	w.repo.Close()
	w.repo = repo
	return nil
}

// tree returns the id of a commit's tree, "" for no commit.
func (w *work) tree(commit string) (string, error) {
	if commit == "" {
		return "", nil
	}
	c, err := w.repo.Commit(commit)
	if err != nil {
		return "", gitProblem(err)
	}
	return c.Tree, nil
}

// diff lists the paths that differ between two commits; "" is none.
func (w *work) diff(old, new string) ([]gitrepo.Change, error) {
	a, err := w.tree(old)
	if err != nil {
		return nil, err
	}
	b, err := w.tree(new)
	if err != nil {
		return nil, err
	}
	changes, err := w.repo.DiffTrees(a, b)
	if err != nil {
		return nil, gitProblem(err)
	}
	return changes, nil
}

// scan calls fn for every commit of tip that base lacks, parents first, with
// its changes against each parent.
func (w *work) scan(ctx context.Context, base, tip string, fn func(*gitrepo.Scanned) error) error {
	var exclude []string
	if base != "" {
		exclude = []string{base}
	}
	walk := w.repo.RevList(ctx, []string{tip}, exclude, gitrepo.RevListOptions{Reverse: true})
	if err := w.repo.ScanCommits(ctx, walk, gitrepo.ScanOptions{}, fn); err != nil {
		return gitProblem(err)
	}
	return nil
}

// ancestor tells whether a is b or in its history; "" is in every history.
func (w *work) ancestor(ctx context.Context, a, b string) (bool, error) {
	if a == "" || a == b {
		return true, nil
	}
	if b == "" {
		return false, nil
	}
	ok, err := w.repo.IsAncestor(ctx, a, b)
	if err != nil {
		return false, gitProblem(err)
	}
	return ok, nil
}

// arrived tells whether a commit made in this clone is in the history of what
// was fetched. It is newer than where a shallow clone is cut, so that a cut
// history does not hide it.
func (w *work) arrived(ctx context.Context, commit, theirs string) (bool, error) {
	ok, err := w.repo.IsAncestor(ctx, commit, theirs)
	if err != nil && !errors.Is(err, gitrepo.ErrCut) {
		return false, gitProblem(err)
	}
	return ok && err == nil, nil
}

// committedPaths tells which messages HEAD holds at their path.
func (w *work) committedPaths(head string, ms []*message) (map[string]bool, error) {
	out := map[string]bool{}
	if head == "" {
		return out, nil
	}
	root, err := w.tree(head)
	if err != nil {
		return nil, err
	}
	top, err := w.repo.Tree(root)
	if err != nil {
		return nil, gitProblem(err)
	}
	byThread := map[string][]*message{}
	var threads, ids []string
	for _, m := range ms {
		if byThread[m.thread] == nil {
			if e, ok := top.Lookup(m.thread); ok && e.Mode == gitrepo.ModeTree {
				threads, ids = append(threads, m.thread), append(ids, e.ID)
			}
		}
		byThread[m.thread] = append(byThread[m.thread], m)
	}
	i := 0
	err = w.repo.Objects(ids, gitrepo.MaxTree, func(o gitrepo.Object) error {
		thread := threads[i]
		i++
		if o.Err != nil {
			return o.Err
		}
		entries, err := splitTree(o.Data, w.repo.HashLen()/2)
		if err != nil {
			return err
		}
		names := make(map[string]bool, len(entries))
		for _, e := range entries {
			names[e.name] = true
		}
		for _, m := range byThread[thread] {
			if names[m.file] {
				out[m.path()] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, gitProblem(err)
	}
	return out, nil
}

var errFound = errors.New("all found")

// walkBack walks HEAD's history from its tip, children before parents, and
// gives every wanted message the position of the commit that introduced its
// path: the first one met that has the path while none of its parents has.
// With onlyLatest a thread is done when the first commit that introduces any
// of its messages has been met. The walk ends as soon as nothing is wanted. cut
// says that history is cut off before that: the rest is older, and that is all
// we know.
//
// What is wanted mostly lies near the tip. So commits with one parent are
// followed one by one, which costs what they weigh, not what the history does;
// git orders the rest once there is a merge, or after singleSteps commits.
func (w *work) walkBack(ctx context.Context, head string, wanted map[string]*message, onlyLatest bool) (cut bool, err error) {
	if len(wanted) == 0 {
		return false, nil
	}
	position := uncommittedPosition
	meet := func(id string, introduced map[string]bool) (done bool) {
		position--
		met := map[string]bool{}
		for path := range introduced {
			m := wanted[path]
			if m == nil {
				continue
			}
			m.position, m.commit = position, id
			delete(wanted, path)
			met[m.thread] = true
		}
		if onlyLatest && len(met) > 0 {
			for path, m := range wanted {
				if met[m.thread] {
					delete(wanted, path)
				}
			}
		}
		return len(wanted) == 0
	}
	rest, err := w.walkLine(head, singleSteps, meet)
	if err == nil && rest != "" {
		last := rest
		walk := w.repo.RevList(ctx, []string{rest}, nil, gitrepo.RevListOptions{})
		err = w.repo.ScanCommits(ctx, walk, gitrepo.ScanOptions{}, func(c *gitrepo.Scanned) error {
			last = ""
			if len(c.Parents) == 1 {
				last = c.Parents[0]
			}
			if meet(c.ID, introduced(c)) {
				return errFound
			}
			return nil
		})
		if errors.Is(err, gitrepo.ErrCut) && last != "" {
			// What was read together with the cut, as far as it is a line.
			_, err = w.walkLine(last, math.MaxInt, meet)
			if err == nil {
				err = gitrepo.ErrCut
			}
		}
	}
	switch {
	case errors.Is(err, errFound):
	case errors.Is(err, gitrepo.ErrCut), errors.Is(err, gitrepo.ErrMissing):
		return true, nil
	case err != nil:
		return false, gitProblem(err)
	default:
		for _, m := range wanted {
			m.position = uncommittedPosition // an ignored file, say
		}
	}
	return false, nil
}

// singleSteps is how many commits are followed one by one before git orders
// the rest.
const singleSteps = 128

// walkLine follows the first commit's only parent, and so on, for so many
// commits, and calls meet for each with the paths that it introduces until
// meet says that it is done: errFound. rest is the commit to go on with: a
// merge, or the one after the last step; "" at a root.
func (w *work) walkLine(id string, steps int, meet func(id string, introduced map[string]bool) (done bool)) (rest string, err error) {
	c, err := w.repo.Commit(id)
	for ; err == nil && steps > 0 && len(c.Parents) < 2; steps-- {
		var parent *gitrepo.Commit
		d := gitrepo.Diff{}
		if len(c.Parents) == 0 {
			d.Changes, err = w.repo.ListTree(c.Tree)
		} else if parent, err = w.repo.Commit(c.Parents[0]); err == nil {
			d = gitrepo.Diff{Parent: parent.ID}
			d.Changes, err = w.repo.DiffTrees(parent.Tree, c.Tree)
		}
		switch {
		case err != nil:
			return "", err
		case meet(c.ID, introduced(&gitrepo.Scanned{Commit: c, Diffs: []gitrepo.Diff{d}})):
			return "", errFound
		case parent == nil:
			return "", nil
		}
		c = parent
	}
	if err != nil {
		return "", err
	}
	return c.ID, nil
}

// introduced lists the paths that a commit has and none of its parents has.
func introduced(c *gitrepo.Scanned) map[string]bool {
	out := map[string]bool{}
	for i, d := range c.Diffs {
		here := map[string]bool{}
		for _, ch := range d.Changes {
			if ch.Added() && (i == 0 || out[ch.Path]) {
				here[ch.Path] = true
			}
		}
		out = here
		if len(out) == 0 {
			break
		}
	}
	return out
}
