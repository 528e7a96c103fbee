package action

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// tip returns the commit of a branch as the checkout knows it from its remote,
// "" if it does not: a new ref is compared to it. A repository of a form that
// go-git does not know is git's to read.
func tip(ctx context.Context, repo *gitrepo.Repo, branch string) (string, error) {
	if branch == "" {
		return "", nil
	}
	name := plumbing.NewRemoteReferenceName("origin", branch)
	refs := filesystem.NewStorage(osfs.New(repo.CommonDir()), cache.NewObjectLRUDefault())
	if ref, err := refs.Reference(name); err == nil && ref.Type() == plumbing.HashReference && repo.ObjectFormat() == "sha1" {
		return ref.Hash().String(), nil
	}
	id, err := repo.Resolve(ctx, name.String())
	if errors.Is(err, gitrepo.ErrMissing) {
		return "", nil
	}
	return id, err
}

// outside makes a path from an input absolute, and refuses one in the work
// tree: what a proposal brings would judge itself.
func outside(workspace, tree, input, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(workspace, name)
	}
	within := func(dir, file string) bool {
		rel, err := filepath.Rel(dir, file)
		return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", &policy.Undecided{Message: "the file " + finding.Quote(name) + " of the input " + input + " cannot be read", Cause: err}
	}
	top, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return "", &policy.Undecided{Message: "the directory " + finding.Quote(tree) + " cannot be read", Cause: err}
	}
	if within(tree, name) || within(top, real) {
		return "", &policy.Undecided{
			Message: "the input " + input + " names " + finding.Quote(name) + " in the judged work tree, which would judge itself",
			Hint:    "without this input, policy and signers come from the base commit's .bridge/; or check out a repository that you trust beside this one",
		}
	}
	return real, nil
}
