package action

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

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
			Hint:    "without this input, policy and signers come from the base commit's " + policy.Dir + "/; or check out a repository that you trust beside this one",
		}
	}
	return real, nil
}
