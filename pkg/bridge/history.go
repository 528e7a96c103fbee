package bridge

import (
	"context"
	"errors"

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

// committedPaths tells which messages HEAD holds at their path.
func (w *work) committedPaths(head string, ms []*message) (map[string]bool, error) {
	out := map[string]bool{}
	files := map[string]map[string]string{}
	for _, m := range ms {
		names, known := files[m.thread]
		if !known {
			var err error
			if names, err = w.treeFiles(head, m.thread); err != nil {
				return nil, err
			}
			files[m.thread] = names
		}
		if names[m.file] != "" {
			out[m.path()] = true
		}
	}
	return out, nil
}

var errFound = errors.New("all found")

// walkBack walks HEAD's history from its tip, children before parents, and
// gives every wanted message the position of the commit that introduced its
// path: the first one met that has the path while none of its parents has.
// With onlyLatest a thread is done when the first commit that introduces any
// of its messages has been met. The walk ends as soon as nothing is wanted.
func (w *work) walkBack(ctx context.Context, head string, wanted map[string]*message, onlyLatest bool) error {
	if len(wanted) == 0 {
		return nil
	}
	position := uncommittedPosition
	err := w.repo.ScanCommits(ctx, w.repo.RevList(ctx, []string{head}, nil, gitrepo.RevListOptions{}), gitrepo.ScanOptions{}, func(c *gitrepo.Scanned) error {
		position--
		done := map[string]bool{}
		for path := range introduced(c) {
			m := wanted[path]
			if m == nil {
				continue
			}
			m.position, m.commit = position, c.ID
			delete(wanted, path)
			done[m.thread] = true
		}
		if onlyLatest && len(done) > 0 {
			for path, m := range wanted {
				if done[m.thread] {
					delete(wanted, path)
				}
			}
		}
		if len(wanted) == 0 {
			return errFound
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) && !errors.Is(err, gitrepo.ErrCut) {
		return gitProblem(err)
	}
	if err == nil {
		for _, m := range wanted {
			m.position = uncommittedPosition // an ignored file, say
		}
	}
	return nil // where history is cut off the rest is older, and that is all we know
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
