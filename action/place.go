package action

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
// "" if it does not: a new ref is compared to it. No ref of another name counts,
// whatever git would take the name for. A repository of a form that go-git does
// not know is git's to read.
func tip(repo *gitrepo.Repo, branch string) (string, error) {
	if branch == "" {
		return "", nil
	}
	name := plumbing.NewRemoteReferenceName("origin", branch)
	if err := gitrepo.CheckRefName(name.String()); err != nil {
		return "", err
	}
	refs := filesystem.NewStorage(osfs.New(repo.CommonDir()), cache.NewObjectLRUDefault())
	if ref, err := refs.Reference(name); err == nil && ref.Type() == plumbing.HashReference && repo.ObjectFormat() == "sha1" {
		return ref.Hash().String(), nil
	}
	id, ok, err := repo.Ref(name.String())
	if err != nil || !ok {
		return "", err
	}
	return id, nil
}

// resolve looks up the commit that an event or an input names. A name that
// could mean more than one thing is refused: git would take a tag before a
// branch, and either before an abbreviated id, and who may push can make one.
func resolve(ctx context.Context, repo *gitrepo.Repo, name string) (string, error) {
	word := name
	for _, suffix := range []string{"~", "^", "@{", ":"} { // gitrevisions(7)
		word, _, _ = strings.Cut(word, suffix)
	}
	if word == "" || repo.ValidID(word) {
		return repo.Resolve(ctx, name)
	}
	var means []string
	for _, prefix := range []string{"", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"} {
		ref := prefix + word
		if !strings.HasPrefix(ref, "refs/") || gitrepo.CheckRefName(ref) != nil {
			continue
		}
		if _, ok, err := repo.Ref(ref); err != nil {
			return "", err
		} else if ok {
			means = append(means, ref)
		}
	}
	if strings.Trim(word, "0123456789abcdefABCDEF") == "" {
		ids, err := repo.ResolvePrefix(strings.ToLower(word))
		if err != nil && !errors.Is(err, gitrepo.ErrInvalid) && !errors.Is(err, gitrepo.ErrMissing) {
			return "", err
		}
		means = append(means, ids...)
	}
	switch {
	case len(means) > 1:
		return "", &policy.Undecided{
			Message: finding.QuoteMax(name, 80) + " means both " + finding.Path(means[0]) + " and " + finding.Path(means[1]),
			Hint:    "name a commit by its full id, such as ${{ github.event.pull_request.base.sha }}, or a ref by its full name, such as refs/remotes/origin/main",
		}
	case strings.HasPrefix(word, "refs/") && !slices.Contains(means, word):
		return "", &gitrepo.Error{Kind: gitrepo.ErrMissing, Message: "no commit is named " + finding.QuoteMax(name, 80)}
	}
	return repo.Resolve(ctx, name)
}

// embedded reports whether a git directory is part of what another repository
// has checked out. Who proposes a change can make one: files with the names
// HEAD, config, objects and refs. Git never checks out one called .git.
func embedded(gitDir string) bool {
	for dir := gitDir; ; dir = filepath.Dir(dir) {
		if strings.EqualFold(filepath.Base(dir), ".git") {
			return false
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	for dir := gitDir; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
	}
	return false
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
