package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// modernGit refuses a git that is too old for the hooks, before any of them is
// relied on.
func modernGit(ctx context.Context, env *hooks.Env) error {
	run := gitrepo.Runner{Env: gitrepo.Env{Environ: env.Environ, Dir: env.Dir}}
	res, err := run.Run(ctx, gitrepo.Command{Args: []string{"version"}})
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(res.Stdout)), "git version ")
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || res.Code != 0 {
		return &policy.Undecided{Message: "git version says " + finding.QuoteMax(version, 80) + ", expected a version", Hint: "install git 2.36 or newer"}
	}
	if major < 2 || major == 2 && minor < 36 {
		return &policy.Undecided{Message: "git " + finding.Path(version) + " is too old, 2.36 or newer is needed", Hint: "install git 2.36 or newer"}
	}
	return nil
}

// hooksPlace tells why git can run no hook out of dir, however it is filled.
func hooksPlace(ctx context.Context, r *gitrepo.Repo, f cli.Line, dir string) error {
	info, err := os.Stat(dir)
	if err != nil || info.IsDir() {
		return nil
	}
	u := &policy.Undecided{
		Message: "git looks for hooks in " + finding.Quote(dir) + ", which is not a directory, so it runs none",
		Hint:    "rm " + finding.Word(filepath.ToSlash(dir)),
	}
	if custom, set, err := r.ConfigLast("core.hooksPath"); err != nil {
		return err
	} else if set {
		u.Message = "core.hooksPath is " + finding.Quote(custom) + ", which is not a directory, so git runs no hook"
		u.Hint = unset(ctx, r, f, "core.hooksPath")
	}
	return u
}

// hooksPath is where git looks for hooks.
func hooksPath(ctx context.Context, r *gitrepo.Repo, f cli.Line) (string, error) {
	dir, err := r.HooksPath(ctx)
	if err != nil {
		if custom, set, cerr := r.ConfigLast("core.hooksPath"); cerr == nil && set && custom == "" {
			return "", &policy.Undecided{Message: "core.hooksPath is empty, so git runs no hook", Hint: unset(ctx, r, f, "core.hooksPath"), Cause: err}
		}
	}
	return dir, err
}

// ownHooks refuses to change hooks that are not this repository's alone: those in a
// directory that core.hooksPath names, or that its hooks directory is a link to. What is
// put there judges the pushes of others, and what is taken out no longer does.
func ownHooks(r *gitrepo.Repo, f cli.Line, dir, command string) error {
	if f.Has("--into-hooks-path") {
		return nil
	}
	why, err := r.SharedHooks()
	if err != nil || why == "" {
		return err
	}
	again := atServer(f, "rig-hook "+command+" --into-hooks-path")
	if f.Has("--bootstrap") {
		again += " --bootstrap"
	}
	return &policy.Undecided{Message: why + ", so git looks for hooks in " + finding.Quote(dir) + " only, and other repositories may share it", Hint: again}
}

// unset is the command that takes a key out of the configuration.
func unset(ctx context.Context, r *gitrepo.Repo, f cli.Line, key string) string {
	run := gitrepo.Runner{Env: r.Env()}
	res, err := run.Run(ctx, gitrepo.Command{Args: []string{"config", "--show-scope", "--get", key}})
	scope, _, _ := strings.Cut(string(res.Stdout), "\t")
	if err != nil || !slices.Contains([]string{"system", "global", "local", "worktree"}, scope) {
		return "unset GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS, which set it"
	}
	command := "git "
	if f.Has("--server") && scope != "system" && scope != "global" {
		command += "-C " + finding.Word(f.Get("--server")) + " "
	}
	return command + "config --" + scope + " --unset-all " + finding.Word(key)
}

// atServer adds the repository that --server names to a command of ours.
func atServer(f cli.Line, command string) string {
	if f.Has("--server") {
		command += " --server " + finding.Word(f.Get("--server"))
	}
	return command
}

// unwritable adds what helps to an error of a hooks directory that takes no
// file.
func unwritable(dir string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &policy.Undecided{Message: err.Error(), Hint: "run it as the user who owns " + finding.Path(filepath.ToSlash(dir)) + ", or: chmod u+wx " + finding.Word(filepath.ToSlash(dir)), Cause: err}
}

// trustRead is what judgedBy says where there are signers.
const trustRead = "policy and signers can be read"

// judgedBy reads what the gates of a repository judge by now: policy, the
// client's own one, and signers.
func judgedBy(env *hooks.Env, r *gitrepo.Repo, server bool) (text string, err error) {
	l := hooks.NewLoader(r)
	if !server {
		if l.Own, err = hooks.OwnPolicy(r); err != nil {
			return "", err
		}
	}
	_, head, err := r.HEAD()
	if err != nil {
		return "", err
	}
	_, trust, err := l.AtCommit(head)
	if err == nil && trust.Exists() {
		_, _, err = trust.Signers()
	}
	if err != nil {
		return "", &policy.Undecided{Message: err.Error(), Hint: hooks.Hint(env, r, server, err), Cause: err}
	}
	if !trust.Exists() {
		return "the policy can be read; there is no signers file, so nothing that must be signed is accepted", nil
	}
	return trustRead, nil
}

// scratchDir makes a directory of the system's temporary ones.
func scratchDir(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		err = &policy.Undecided{Message: "no scratch directory can be made in " + finding.Quote(os.TempDir()), Hint: "set TMPDIR to a directory that can be written to", Cause: err}
	}
	return dir, err
}
