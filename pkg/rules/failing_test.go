package rules

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

var errBroken = errors.New("broken")

// A failing repository answers so many questions, and no more.
type failing struct {
	*fake
	left int
}

func (f *failing) err() error {
	if f.left--; f.left < 0 {
		return errBroken
	}
	return nil
}

func (f *failing) Objects(ids []string, limit int64, fn func(gitrepo.Object) error) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.fake.Objects(ids, limit, fn)
}

func (f *failing) Heads(ids []string, most int64, fn func(gitrepo.Object) error) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.fake.Heads(ids, most, fn)
}

func (f *failing) Commit(id string) (*gitrepo.Commit, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.fake.Commit(id)
}

func (f *failing) EachCommit(ids []string, fn func(*gitrepo.Commit) error) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.fake.EachCommit(ids, fn)
}

func (f *failing) Tree(id string) (*gitrepo.Tree, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.fake.Tree(id)
}

func (f *failing) EntryAt(root, path string) (gitrepo.TreeEntry, bool, error) {
	if err := f.err(); err != nil {
		return gitrepo.TreeEntry{}, false, err
	}
	return f.fake.EntryAt(root, path)
}

func (f *failing) DiffTrees(old, new string) ([]gitrepo.Change, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.fake.DiffTrees(old, new)
}

func (f *failing) RevList(ctx context.Context, include, exclude []string,
	o gitrepo.RevListOptions) iter.Seq2[gitrepo.Rev, error] {
	return func(yield func(gitrepo.Rev, error) bool) {
		if err := f.err(); err != nil {
			yield(gitrepo.Rev{}, err)
			return
		}
		f.fake.RevList(ctx, include, exclude, o)(yield)
	}
}

func (f *failing) ScanCommits(ctx context.Context, walk iter.Seq2[gitrepo.Rev, error], o gitrepo.ScanOptions,
	fn func(*gitrepo.Scanned) error) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.fake.ScanCommits(ctx, walk, o, fn)
}

func (f *failing) CutIn(walk []gitrepo.Rev, exclude []string) error { return f.err() }

func (f *failing) MergeBases(ctx context.Context, a, b string) ([]string, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.fake.MergeBases(ctx, a, b)
}

func (f *failing) IsAncestor(ctx context.Context, a, b string) (bool, error) {
	if err := f.err(); err != nil {
		return false, err
	}
	return f.fake.IsAncestor(ctx, a, b)
}

func (f *failing) ResolvePrefix(prefix string) ([]string, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.fake.ResolvePrefix(prefix)
}

func (f *failing) Has(ids []string) ([]string, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.fake.Has(ids)
}

func (f *failing) Shallow() (map[string]bool, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.fake.Shallow()
}

// TestEveryFailureIsTold: whichever question the repository cannot answer, the
// judge says that it cannot decide. It never takes it for an answer.
func TestEveryFailureIsTold(t *testing.T) {
	failures := 0
	eachPlay(t, func(t *testing.T, name string, p play, found []finding.Finding) {
		for left := 0; ; left++ {
			var f *failing
			j, err := again(t, p, func(_ *policy.Policy, j *Judge) {
				f = &failing{fake: j.Repo.(*fake), left: left}
				j.Repo = f
			})
			if f.left >= 0 { // it was not asked for more
				if err != nil || !slices.Equal(j.Findings, found) {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			if !errors.Is(err, errBroken) {
				t.Errorf("%s, question %d: got %v, want that it is broken", name, left, err)
			}
			failures++
		}
	})
	if failures < 1000 {
		t.Errorf("only %d failures", failures)
	}
}
