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

// ancestor reports whether a is b or in its history; "" is in every history.
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

// arrived reports whether a commit made in this clone is in the history of what
// was fetched. It is newer than where a shallow clone is cut, so that a cut
// history does not hide it.
func (w *work) arrived(ctx context.Context, commit, theirs string) (bool, error) {
	ok, err := w.repo.IsAncestor(ctx, commit, theirs)
	if err != nil && !errors.Is(err, gitrepo.ErrCut) {
		return false, gitProblem(err)
	}
	return ok && err == nil, nil
}
