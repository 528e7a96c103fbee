package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// ours are the programs of a release that people call.
var ours = []string{"rig-hook", "rig-bridge", "rig-bundle", "rig-control", "rig-mcp"}

// selfCheck tells which versions of rigward are where they would be run from:
// beside this program, on PATH, in the hooks of a repository and in pre-commit's
// cache. It reads the files and runs none of them. Exit code 1: a hook names a
// program that is not there, or there is a version other than this program's.
func selfCheck(ctx context.Context, env *hooks.Env, f cli.Line) int {
	s := &survey{env: env, seen: map[string]bool{}}
	s.file(env.Executable, "this program", true)
	s.found(filepath.Dir(env.Executable), "beside it")
	for _, dir := range filepath.SplitList(env.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			s.found(dir, "on PATH")
		}
	}
	if err := s.hooks(ctx, f); err != nil {
		return fail(env, "self-check", err)
	}
	for _, dir := range preCommitCaches(env) {
		s.found(dir, "in pre-commit's cache")
	}
	switch {
	case s.undecided:
		return report.ExitUndecided
	case s.other > 0 || s.missing > 0:
		hint := "one version everywhere: install " + version.String() + " there, too"
		if s.missing > 0 {
			hint = atServer(f, "rig-hook install")
		}
		fmt.Fprintf(env.Stdout, "hint: %s\n", hint)
		return report.ExitFindings
	}
	return report.ExitClean
}

type survey struct {
	env            *hooks.Env
	seen           map[string]bool
	other, missing int
	undecided      bool
}

// found looks at what a directory has under the names of our programs.
func (s *survey) found(dir, where string) {
	for _, name := range ours {
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		s.file(filepath.Join(dir, name), where, false)
	}
}

// file tells the version of a file. needed: that there is none is told, too.
func (s *survey) file(name, where string, needed bool) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil && !needed || s.seen[real] {
		return
	}
	s.seen[real] = true
	shown := finding.Path(filepath.ToSlash(name))
	v, is := "", false
	if err == nil {
		v, is, err = version.Of(real)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		s.missing++
		fmt.Fprintf(s.env.Stdout, "FAIL  %s: there is no such program (%s)\n", shown, where)
	case err != nil:
		s.undecided = true
		fmt.Fprintf(s.env.Stdout, "FAIL  %s: cannot be read: %s (%s)\n", shown, finding.Clean(err.Error()), where)
	case !is:
		fmt.Fprintf(s.env.Stdout, "note  %s: not a program of rigward's own, such as a script that starts one (%s)\n", shown, where)
	case v != version.String():
		s.other++
		fmt.Fprintf(s.env.Stdout, "FAIL  %s: %s, not %s (%s)\n", shown, finding.Clean(v), version.String(), where)
	default:
		fmt.Fprintf(s.env.Stdout, "ok    %s: %s (%s)\n", shown, v, where)
	}
}

// hooks looks at the programs that the hooks of a repository name, if there is
// one here.
func (s *survey) hooks(ctx context.Context, f cli.Line) error {
	if !f.Has("--server") {
		r, err := gitrepo.OpenHere(ctx, gitrepo.Env{Environ: s.env.Environ, Dir: s.env.Dir})
		switch {
		case errors.Is(err, gitrepo.ErrNotRepository):
			fmt.Fprintf(s.env.Stdout, "note  no repository here, so no hooks\n")
			return nil
		case err != nil: // one that cannot be looked at, as that of another user
			return err
		}
		r.Close()
	}
	r, names, err := openAt(ctx, s.env, "self-check", f)
	if err != nil {
		return err
	}
	defer r.Close()
	dir, err := hooksPath(ctx, r, f)
	if err != nil {
		return err
	}
	for _, name := range names {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case !hooks.IsShim(data):
			s.file(file, "the hook "+name, false)
		case filepath.IsAbs(hooks.Program(data)):
			s.file(hooks.Program(data), "the hook "+name, true)
		default:
			fmt.Fprintf(s.env.Stdout, "note  the hook %s looks rig-hook up on PATH\n", name)
		}
	}
	return nil
}

// preCommitCaches are the directories of programs that pre-commit has built.
func preCommitCaches(env *hooks.Env) (dirs []string) {
	home := env.Getenv("PRE_COMMIT_HOME")
	if cache := env.Getenv("XDG_CACHE_HOME"); home == "" && cache != "" {
		home = filepath.Join(cache, "pre-commit")
	}
	if user := env.Getenv("HOME"); home == "" && user != "" {
		home = filepath.Join(user, ".cache", "pre-commit")
	}
	if filepath.IsAbs(home) {
		dirs, _ = filepath.Glob(filepath.Join(home, "repo*", "golangenv-*", "bin"))
	}
	return dirs
}
