package gitrepo

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
)

// ErrElsewhere says that git's variables name another repository than the one
// around the working directory.
var ErrElsewhere = errors.New("two repositories are named")

// choosing are the variables that name a repository or a part of one. A hook
// hands them on to all that it starts (githooks, ENVIRONMENT).
var choosing = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE",
	"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE",
}

// Tied reports whether a variable of e names a repository or a part of one, so
// that git would not look for it from e.Dir upwards.
func (e Env) Tied() bool {
	return slices.ContainsFunc(choosing, func(k string) bool { _, set := e.Lookup(k); return set })
}

// atTop reports whether GIT_DIR names e.Dir itself or its .git, as in the hooks
// of a server and of a clone.
func (e Env) atTop() bool {
	dir, set := e.Lookup("GIT_DIR")
	if !set {
		return false
	}
	named, err := os.Stat(e.path(dir))
	if err != nil {
		return false
	}
	for _, own := range []string{".", ".git"} {
		if st, err := os.Stat(e.path(own)); err == nil && os.SameFile(st, named) {
			return true
		}
	}
	return false
}

// OpenHere is Open for a command that is run by hand and not by git: where
// variables that a hook of another repository has handed on name that one, and
// another is around env.Dir, the error is ErrElsewhere and names both.
func OpenHere(ctx context.Context, env Env) (*Repo, error) {
	if env.Tied() && !env.atTop() {
		around, err := OpenIdle(ctx, env.Foreign(env.Dir))
		switch {
		case errors.Is(err, ErrNotRepository): // the variables say where it is
		case err != nil:
			return nil, err
		default:
			defer around.Close()
			if err := around.Only(ctx, env); err != nil {
				return nil, err
			}
		}
	}
	return Open(ctx, env)
}

// Only returns ErrElsewhere if the variables of env name another repository
// than r; r was opened without them.
func (r *Repo) Only(ctx context.Context, env Env) error {
	named, err := OpenIdle(ctx, env)
	if err != nil {
		return err
	}
	defer named.Close()
	a, aerr := os.Stat(r.gitDir)
	b, berr := os.Stat(named.gitDir)
	if aerr == nil && berr == nil && os.SameFile(a, b) {
		return nil
	}
	return &Error{Kind: ErrElsewhere,
		Message: "git's variables name the repository " + finding.Quote(named.gitDir) + ", and " +
			finding.Quote(r.env.Dir) + " lies in " + finding.Quote(r.gitDir) + ", expected one repository",
		Hint: "unset $(git rev-parse --local-env-vars)"}
}
