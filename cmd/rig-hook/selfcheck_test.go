package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
)

// TestSelfCheck: versions are read out of files, which are not run.
func TestSelfCheck(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	dir := gittest.TempDir(t)
	build := func(name, release string) string {
		file := filepath.Join(dir, name, "rig-hook")
		args := []string{"build", "-trimpath", "-buildvcs=false", "-o", file}
		if release != "" {
			args = append(args, "-ldflags=-s -w -X github.com/rigward/rigward/cmd/internal/version.release=rigward-release="+release+";")
		}
		cmd := exec.Command("go", append(args, ".")...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return file
	}
	plain, released := build("plain", ""), build("released", "1.2.3-rc.1")
	for file, want := range map[string]string{plain: version.String(), released: "v1.2.3-rc.1"} {
		if v, ok, err := version.Of(file); v != want || !ok || err != nil {
			t.Errorf("%s: %q, %v, %v, expected %s", file, v, ok, err, want)
		}
		if out, err := exec.Command(file, "--version").Output(); err != nil || string(out) != "rig-hook "+want+"\n" {
			t.Errorf("%v: %q, expected %s", err, out, want)
		}
	}
	check := func(t *testing.T, program string, code int, path []string, words ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := Main(t.Context(), &hooks.Env{
			Args: []string{"rig-hook", "self-check"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Executable: program,
			Environ: append(r.Env, "PATH="+strings.Join(append(path, os.Getenv("PATH")), string(filepath.ListSeparator)), "PRE_COMMIT_HOME="+filepath.Join(dir, "cache")),
			Dir:     r.Dir, Now: time.Now, Rand: rand.Reader,
		})
		if got != code {
			t.Errorf("exit code %d, expected %d", got, code)
		}
		for _, w := range words {
			if !strings.Contains(out.String(), w) {
				t.Errorf("does not say %q", w)
			}
		}
		if t.Failed() {
			t.Logf("%s%s", out.String(), errs.String())
		}
	}
	t.Setenv("PATH", filepath.Dir(mustFind(t, "git"))) // without the rig-hook of the tests
	here := version.String()
	check(t, plain, 0, nil, "plain/rig-hook: "+here+" (this program)")
	check(t, plain, 1, []string{filepath.Dir(released)}, "released/rig-hook: v1.2.3-rc.1, not "+here+" (on PATH)", "hint: one version everywhere")
	script := filepath.Join(dir, "script", "rig-bridge")
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(dir, "ran")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	check(t, plain, 0, []string{filepath.Dir(script), filepath.Dir(plain)}, "script/rig-bridge: not a program of rigward's own")
	t.Run("hooks", func(t *testing.T) {
		if _, err := hooks.Install(filepath.Join(r.Dir, ".git", "hooks"), released, []string{"pre-push"}); err != nil {
			t.Fatal(err)
		}
		check(t, plain, 1, nil, "v1.2.3-rc.1, not "+here+" (the hook pre-push)")
		if err := os.Rename(released, released+".away"); err != nil {
			t.Fatal(err)
		}
		check(t, plain, 1, nil, "there is no such program (the hook pre-push)", "hint: rig-hook install")
		if err := os.Rename(released+".away", released); err != nil {
			t.Fatal(err)
		}
		if _, err := hooks.Uninstall(filepath.Join(r.Dir, ".git", "hooks"), []string{"pre-push"}, true); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("pre-commit", func(t *testing.T) {
		bin := filepath.Join(dir, "cache", "repo1a2b", "golangenv-default", "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(released, filepath.Join(bin, "rig-hook")); err != nil {
			t.Skip(err)
		}
		check(t, plain, 1, nil, "v1.2.3-rc.1, not "+here+" (in pre-commit's cache)")
	})
	if _, err := os.Stat(ran); err == nil {
		t.Error("what was found was run")
	}
}

func mustFind(t *testing.T, program string) string {
	t.Helper()
	file, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
