package main

import (
	"context"
	"fmt"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// guarded lists every ref with what holds on it.
func guarded(ctx context.Context, env *hooks.Env, f cli.Line) int {
	r, err := repository(ctx, env, f)
	if err != nil {
		return fail(env, "explain", err)
	}
	defer r.Close()
	err = tellGuarded(ctx, r, func(ok bool, line string) {
		if !ok {
			line = "warning: " + line
		}
		fmt.Fprintln(env.Stdout, line)
	})
	if err != nil {
		return fail(env, "explain", err)
	}
	return report.ExitClean
}

// repository is the server that --server names, else the one at hand.
func repository(ctx context.Context, env *hooks.Env, f cli.Line) (*gitrepo.Repo, error) {
	if f.Has("--server") {
		r, _, err := openAt(ctx, env, "explain", f)
		return r, err
	}
	return gitrepo.OpenHere(ctx, gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
}

// tellGuarded gives say a line for every ref, and for what is to be warned of.
func tellGuarded(ctx context.Context, r *gitrepo.Repo, say func(ok bool, line string)) error {
	d, err := hooks.NewDoor(ctx, r)
	if err != nil {
		return err
	}
	g, err := d.Guarding(ctx)
	if err != nil {
		return err
	}
	for _, w := range g.Warnings {
		say(false, w)
	}
	for _, ref := range g.Refs {
		line := "free     "
		if ref.Guarded {
			line = "guarded  "
		}
		line += finding.Path(ref.Ref) + ": " + ref.Why
		if ref.Note != "" {
			line += "; " + ref.Note
		}
		say(ref.Note == "", line)
	}
	return nil
}

// accept lets a server take as judged what its protected refs have now.
func accept(ctx context.Context, env *hooks.Env, f cli.Line) int {
	if !f.Has("--server") || len(f.Words) != 1 {
		return fail(env, "accept", &policy.Undecided{Message: "expected --server DIR and one ref by its full name", Hint: "rig-hook explain --guarded --server DIR lists them"})
	}
	if err := gitrepo.CheckRefName(f.Words[0]); err != nil {
		return fail(env, "accept", &policy.Undecided{Message: err.Error() + ", such as refs/heads/main", Hint: atServer(f, "rig-hook explain --guarded") + " lists them", Cause: err})
	}
	r, _, err := openAt(ctx, env, "accept", f)
	if err != nil {
		return fail(env, "accept", err)
	}
	defer r.Close()
	d, err := hooks.NewDoor(ctx, r)
	if err != nil {
		return fail(env, "accept", err)
	}
	id, err := d.Accept(f.Words[0])
	if err != nil {
		return fail(env, "accept", err)
	}
	fmt.Fprintf(env.Stdout, "%s: commit %s and all before it count as judged\n", finding.Path(f.Words[0]), id)
	return report.ExitClean
}
