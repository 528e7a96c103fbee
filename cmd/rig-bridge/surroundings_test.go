package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// code makes a code repository with a linked worktree beside the bridge clone,
// and returns the hook that git runs there for name.
func (w *world) code(name string) (hook string) {
	w.t.Helper()
	w.git(".", "init", "-q", "--bare", "-b", "main", "code.git")
	w.git(".", "clone", "-q", "code.git", "code")
	w.config("code", "user.name", "Coder")
	w.config("code", "user.email", "coder@example.com")
	w.write("code/x", "x\n")
	w.git("code", "add", "x")
	w.git("code", "commit", "-q", "-m", "base")
	w.git("code", "push", "-q", "origin", "HEAD:main")
	w.git("code", "worktree", "add", "-q", "-b", "feat", "../wt")
	return "code/.git/hooks/" + name
}

// script installs a hook that runs the given line in the clone a, with rig, and keeps what it printed in hook.log.
func (w *world) script(hook, line string) {
	w.t.Helper()
	w.program(hook, "#!/bin/sh\nrig() { '"+program(w.t)+"' \"$@\"; }\ncd '"+w.path("a")+"' || exit 1\n{ "+line+"; echo \"exit $?\"; } >'"+w.path("hook.log")+"' 2>&1\n")
}

func (w *world) hookLog() string {
	w.t.Helper()
	data, err := os.ReadFile(w.path("hook.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

// TestStartedByAHookOfAnotherRepository plays I01: each command that a hook of
// another repository starts in a clone works on that clone.
func TestStartedByAHookOfAnotherRepository(t *testing.T) {
	for _, hook := range []string{"pre-commit", "post-commit", "post-checkout", "commit-msg"} {
		t.Run(hook, func(t *testing.T) {
			w := newWorld(t)
			w.server()
			w.clone("a", "alpha-1")
			w.ok("a", "new", "base")
			w.write("a/base/REQUEST.md", w.read("a/base/REQUEST.md")+"\nSay hello.\n")
			w.ok("a", "send", "REQUEST", "--thread", "base", "--to", "beta-1")
			w.script(w.code(hook), "echo hello | rig send HANDOFF --thread base --to beta-1 --body-file - && rig status && rig thread base && rig sync && "+
				"echo more | rig close base --status completed")
			if hook == "post-checkout" {
				w.git("wt", "checkout", "-q", "-b", "other")
			} else {
				w.write("wt/y", "y\n")
				w.git("wt", "add", "y")
				w.git("wt", "commit", "-q", "-a", "-m", "feature work")
			}
			if log := w.hookLog(); !strings.HasSuffix(log, "exit 0\n") || !strings.Contains(log, "sent type=HANDOFF") || !strings.Contains(log, "open=1") {
				t.Fatal(log)
			}
			if out := w.git("origin.git", "ls-tree", "--name-only", "main", "base/"); out != "base/HANDOFF.md\nbase/REQUEST.md\nbase/RESOLUTION.md\n" {
				t.Error(out)
			}
			for _, dir := range []string{"code", "wt"} {
				if out := w.git(dir, "ls-tree", "-r", "--name-only", "HEAD"); strings.Contains(out, "base/") {
					t.Errorf("%s: %s", dir, out)
				}
			}
			if out := w.git("a", "status", "--porcelain"); out != "" {
				t.Error(out)
			}
			if hook != "post-checkout" {
				if out := w.git("wt", "show", "--stat", "--format=%s", "HEAD"); !strings.Contains(out, "feature work") || !strings.Contains(out, "1 file changed") {
					t.Error(out)
				}
			}
		})
	}
}

// TestTwoRepositoriesAreNamed is the rest of I01: where the clone says nothing of
// itself, both are named, and a repository that the variables alone name still works.
func TestTwoRepositoriesAreNamed(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "alpha-1")
	w.code("pre-commit")
	w.git(".", "init", "-q", "plain")
	for _, v := range [][]string{
		{"GIT_DIR=" + w.path("code/.git")},
		{"GIT_DIR=" + w.path("code/.git"), "GIT_WORK_TREE=" + w.path("code")},
		{"GIT_DIR=" + w.path("code/.git/worktrees/wt"), "GIT_INDEX_FILE=" + w.path("code/.git/worktrees/wt/index")},
	} {
		for _, args := range [][]string{{"init", "--rig-id", "beta-1", "--no-hooks"}, {"status"}, {"new", "x1"}, {"sync"}, {"thread", "x1"}} {
			cmd := w.command("plain", args...)
			cmd.Env = append(cmd.Env, v...)
			o := finish(t, cmd)
			if o.code != 2 || !strings.Contains(o.stderr, w.path("plain/.git")) || !strings.Contains(o.stderr, w.path("code/.git")) || !strings.Contains(o.stderr, "hint: unset $(git rev-parse") {
				t.Errorf("%v %v: %d %s", v, args, o.code, o.stderr)
			}
		}
		if _, err := os.Stat(w.path("plain/.bridge")); err == nil {
			t.Error("a configuration was written")
		}
	}
	// The same repository under two names, and one that only a variable names.
	if err := os.Symlink(w.path("a"), w.path("link")); err == nil {
		cmd := w.command("a", "status")
		cmd.Env = append(cmd.Env, "GIT_DIR="+w.path("link/.git"))
		if o := finish(t, cmd); o.code != 0 {
			t.Error(o)
		}
	}
	cmd := w.command("home", "status")
	cmd.Env = append(cmd.Env, "GIT_DIR="+w.path("a/.git"), "GIT_WORK_TREE="+w.path("a"))
	if o := finish(t, cmd); o.code != 0 || !strings.Contains(o.stdout, "open=0") {
		t.Error(o)
	}
}

// TestOwnNameAndClock plays I02: what a surrounding git command says of its author
// and of the time does not reach our commits, unless it is asked for.
func TestOwnNameAndClock(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "alpha-1")
	w.config("a", "gpg.format", "ssh")
	os.Mkdir(w.path("a/base"), 0o755)
	today := time.Now().UTC().Format("2006")
	commits := 0
	last := func() string {
		return strings.TrimSpace(w.git("a", "log", "-1", "--format=%an <%ae> %ad %cn <%ce> %cd", "--date=format:%Y"))
	}
	own := "Op a <a@example.com> " + today + " Op a <a@example.com> " + today
	send := func(to string, args ...string) string {
		return "echo hello | rig send HANDOFF --thread base --to beta-1 --body-file - " + strings.Join(args, " ")
	}
	hook := w.code("post-commit")
	for _, run := range [][]string{
		{"commit", "-q", "--allow-empty", "--author=Bob <bob@example.net>", "--date=2019-01-01T00:00:00Z", "-m", "z"},
		{"-c", "user.name=Bob", "-c", "user.email=bob@example.net", "commit", "-q", "--allow-empty", "-m", "z"},
		{"commit", "-q", "--allow-empty", "--amend", "--reset-author", "-m", "z"},
	} {
		w.script(hook, send("beta-1"))
		w.git("code", run...)
		if log := w.hookLog(); !strings.HasSuffix(log, "exit 0\n") {
			t.Fatal(log)
		}
		if commits++; last() != own {
			t.Errorf("%v: %s", run, last())
		}
	}
	foreign := []string{"GIT_AUTHOR_NAME=Bob", "GIT_AUTHOR_EMAIL=bob@example.net", "GIT_AUTHOR_DATE=2019-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=Bob", "GIT_COMMITTER_EMAIL=bob@example.net", "GIT_COMMITTER_DATE=2019-01-01T00:00:00Z", "EMAIL=bob@example.net"}
	with := func(args ...string) outcome {
		cmd := w.command("a", args...)
		cmd.Env = append(cmd.Env, foreign...)
		cmd.Stdin = strings.NewReader("hello\n")
		return finish(t, cmd)
	}
	if o := with("send", "HANDOFF", "--thread", "base", "--to", "beta-1", "--body-file", "-"); o.code != 0 || last() != own {
		t.Error(o, last())
	}
	if o := with("close", "base", "--status", "completed", "--to", "beta-1"); o.code != 0 || last() != own {
		t.Error(o, last())
	}
	if o := with("send", "HANDOFF", "--thread", "base", "--to", "beta-1", "--body-file", "-", "--author-from-env"); o.code != 0 ||
		last() != "Bob <bob@example.net> 2019 Bob <bob@example.net> 2019" {
		t.Error(o, last())
	}
	// Nobody's name is not made up.
	for _, key := range []string{"user.email", "user.name"} {
		value := strings.TrimSpace(w.git("a", "config", key))
		w.git("a", "config", "--unset", key)
		before := w.git("a", "rev-parse", "HEAD")
		o := with("send", "HANDOFF", "--thread", "base", "--to", "beta-1", "--body-file", "-")
		if o.code != 1 || !strings.Contains(o.stderr, key+" is not set") || !strings.Contains(o.stderr, "hint: git config "+key) || !strings.Contains(o.stderr, "--author-from-env") {
			t.Error(o)
		}
		if w.git("a", "rev-parse", "HEAD") != before || w.git("a", "status", "--porcelain") != "" {
			t.Error("something stayed")
		}
		w.config("a", key, value)
	}
}

// TestAnotherRepositoryIsFaster makes a message again on top of what came, under a
// surrounding git command's identity (I02).
func TestAnotherRepositoryIsFaster(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "alpha-1")
	w.clone("b", "beta-1")
	for _, dir := range []string{"a", "b"} {
		os.Mkdir(filepath.Join(w.path(dir), "base"), 0o755)
	}
	cmd := w.command("b", "send", "HANDOFF", "--thread", "base", "--to", "alpha-1", "--body-file", "-")
	cmd.Stdin = strings.NewReader("first\n")
	if o := finish(t, cmd); o.code != 0 {
		t.Fatal(o)
	}
	cmd = w.command("a", "send", "ACK", "--thread", "base", "--to", "beta-1", "--body-file", "-")
	cmd.Stdin = strings.NewReader("second\n")
	cmd.Env = append(cmd.Env, "GIT_COMMITTER_NAME=Bob", "GIT_COMMITTER_EMAIL=bob@example.net", "GIT_COMMITTER_DATE=2019-01-01T00:00:00Z")
	if o := finish(t, cmd); o.code != 0 {
		t.Fatal(o)
	}
	out := w.git("origin.git", "log", "-1", "--format=%an %cn %cd", "--date=format:%Y", "main")
	if want := "Op a Op a " + time.Now().UTC().Format("2006") + "\n"; out != want {
		t.Errorf("%q, expected %q", out, want)
	}
}

// TestWorkTreeElsewhere: where core.worktree names another directory than the one that .git
// lies in, each command works on the repository that it was started in (I01), also if the
// directory holds another one.
func TestWorkTreeElsewhere(t *testing.T) {
	for _, other := range []bool{false, true} {
		t.Run(map[bool]string{false: "a plain directory", true: "another repository"}[other], func(t *testing.T) {
			w := newWorld(t)
			w.server()
			w.clone("a", "alpha-1")
			w.git(".", "init", "-q", "-b", "main", "files")
			w.git("files", "-c", "user.name=o", "-c", "user.email=o@example.com", "commit", "-q", "--allow-empty", "-m", "theirs")
			theirs := w.git("files", "rev-parse", "HEAD")
			if !other {
				if err := os.RemoveAll(w.path("files/.git")); err != nil {
					t.Fatal(err)
				}
			}
			w.git("a", "config", "core.worktree", w.path("files"))
			w.git("a", "checkout", "-q", "-f")
			w.ok("a", "init", "--rig-id", "alpha-1")
			w.ok("a", "new", "base")
			w.write("files/base/REQUEST.md", w.read("files/base/REQUEST.md")+"\nSay hello.\n")
			w.ok("a", "send", "REQUEST", "--thread", "base", "--to", "beta-1")
			w.ok("a", "sync")
			if got := w.ok("a", "status"); !strings.Contains(got.stdout, "open=1 closed=0 dirty=0 unpushed=0") {
				t.Errorf("%+v", got)
			}
			if got := w.git("a", "log", "-1", "--format=%s", "origin/main"); !strings.HasPrefix(got, "REQUEST: ") {
				t.Errorf("the clone's last commit is %q", got)
			}
			if other && w.git("files", "rev-parse", "HEAD") != theirs {
				t.Error("the other repository has a new commit")
			}
		})
	}
}
