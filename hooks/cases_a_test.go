package hooks_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
)

// developer is a world whose clone has the client's hooks, and has fetched.
func developer(t *testing.T, o gittest.Options) *world {
	t.Helper()
	base := newWorld(t, o)
	return copyOf(t, "developer-"+o.ObjectFormat+o.RefFormat, func() *world {
		hooked(t, base.clone)
		base.clone.Run("fetch", "-q", "origin")
		base.clone.Run("branch", "-q", "--set-upstream-to=origin/main")
		return base
	})
}

// TestCasesA: the environment of hooks, and the index.
func TestCasesA(t *testing.T) {
	t.Parallel()
	const path = "release-check/STATE.md"
	good, broken := turn("release-check", "STATE", "Good.\n"), bad("release-check")

	formats(t, "A01 A02 a hook that works in a second repository", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		tree := filepath.Join(filepath.Dir(w.clone.Dir), "tree")
		w.clone.Run("worktree", "add", "-q", "-b", "topic", tree)
		l := *w.clone
		l.Dir = tree
		// doctor, run from a hook, makes repositories, commits and judges them.
		name, log := filepath.Join(w.clone.Dir, ".git", "hooks", "pre-commit"), filepath.Join(filepath.Dir(w.clone.Dir), "log")
		shim, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, name, "#!/bin/sh\ntest -n \"$RIGWARD_CANARY\" || '"+program+"' doctor >'"+log+"' || exit 9\n"+strings.SplitN(string(shim), "\n", 2)[1])
		l.Add(map[string]string{path: good, "other.txt": "x\n"})
		before := l.Run("ls-files", "-s")
		l.Run("commit", "-q", "-m", "Good")
		if after := l.Run("ls-files", "-s"); after != before {
			t.Errorf("the index was %q, is %q", before, after)
		}
		l.Add(map[string]string{"release-check/STATE-2.md": broken})
		must(t, l.Try(nil, "commit", "-q", "-m", "Bad"), 1, "[envelope-schema]")
		must(t, l.Try(nil, "fsck", "--strict"), 0)
		if data, err := os.ReadFile(log); err != nil || !bytes.Contains(data, []byte("a good envelope: as it must be")) {
			t.Errorf("doctor said %q, %v", data, err)
		}
		// A hook that calls doctor without asking does not start it for ever.
		l.Setenv("RIGWARD_CANARY", "1")
		must(t, rig(&l, tree, "", "doctor"), 2, "was started by a hook")
	})

	formats(t, "A03 --git-dir and --work-tree", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		dots := filepath.Join(filepath.Dir(w.clone.Dir), "dots")
		if err := os.Rename(filepath.Join(w.clone.Dir, ".git"), dots); err != nil {
			t.Fatal(err)
		}
		at := []string{"--git-dir=" + dots, "--work-tree=" + w.clone.Dir}
		w.clone.Write(path, broken)
		must(t, w.clone.Try(nil, append(at, "add", path)...), 0)
		must(t, w.clone.Try(nil, append(at, "commit", "-q", "-m", "Bad")...), 1, "[envelope-schema]")
		w.clone.Write(path, good)
		must(t, w.clone.Try(nil, append(at, "commit", "-q", "-a", "-m", "Good")...), 0)
	})

	everyFormat(t, "A04 commit -a, --only, --include", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		c := w.clone
		c.Commit("Plain", map[string]string{"a.txt": "1\n", "b.txt": "1\n", path: good})
		// -a: the lock file is the index.
		c.Write(path, broken)
		must(t, c.Try(nil, "commit", "-q", "-a", "-m", "x"), 1, "[envelope-schema]")
		c.Write(path, good)
		c.Write("a.txt", "2\n")
		must(t, c.Try(nil, "commit", "-q", "-a", "-m", "x"), 0)
		// --only: what is staged besides is not part of the commit.
		c.Add(map[string]string{"release-check/STAGED.md": broken})
		c.Write("a.txt", "3\n")
		must(t, c.Try(nil, "commit", "-q", "--only", "a.txt", "-m", "x"), 0)
		c.Write("a.txt", "4\n")
		must(t, c.Try(nil, "commit", "-q", "--include", "a.txt", "-m", "x"), 1, "[envelope-schema]", "release-check/STAGED.md")
		must(t, c.Try(nil, "commit", "-q", "-m", "x"), 1, "[envelope-schema]")
		c.Run("reset", "-q")
		c.Write(path, broken)
		must(t, c.Try(nil, "commit", "-q", "--only", path, "-m", "x"), 1, "[envelope-schema]")
		if _, err := os.Stat(filepath.Join(c.Dir, ".git", "index.lock")); err == nil {
			t.Error("a lock is left behind")
		}
	})

	formats(t, "A05 --only with a tree that is not written yet", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		c := w.clone
		c.Commit("Plain", map[string]string{"one/a.txt": "1\n", "two/b.txt": "1\n"})
		c.Add(map[string]string{"one/a.txt": "2\n", "three-talk/REQUEST.md": turn("three-talk", "REQUEST", "x\n")})
		c.Run("write-tree")
		c.Write("two/b.txt", "2\n")
		must(t, c.Try(nil, "commit", "-q", "--only", "two/b.txt", "-m", "x"), 0)
		sub := gittest.New(t, o)
		sub.Commit("Sub", map[string]string{"f": "1\n"})
		c.Run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.Dir, "sub")
		must(t, c.Try(nil, "commit", "-q", "--only", "sub", ".gitmodules", "-m", "x"), 0)
		must(t, c.Try(nil, "commit", "-q", "-m", "x"), 0)
	})

	formats(t, "A06 what is staged counts", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		w.clone.Add(map[string]string{path: good})
		w.clone.Write(path, broken)
		must(t, w.clone.Try(nil, "commit", "-q", "-m", "x"), 0)
		w.clone.Add(map[string]string{"release-check/STATE-2.md": broken})
		w.clone.Write("release-check/STATE-2.md", good)
		must(t, w.clone.Try(nil, "commit", "-q", "-m", "x"), 1, "[envelope-schema]")
	})

	formats(t, "A07 paths that were not read", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		c := w.clone
		c.Write("release-check/new.md", good)
		must(t, rig(c, c.Dir, "", "pre-commit", "release-check/new.md"), 2, "not in the index", "git add -- release-check/new.md")
		must(t, rig(c, c.Dir, "", "pre-commit", "../elsewhere.md"), 2, "outside the work tree")
		must(t, rig(c, c.Dir, "", "pre-commit", "README.md"), 0, "0 envelopes checked")
		must(t, rig(c, c.Dir, "", "pre-commit", request), 0, "1 envelope checked")
		must(t, rig(c, c.Dir, "", "pre-commit", filepath.Join(c.Dir, request)), 0, "1 envelope checked")
		c.Run("add", "release-check/new.md")
		must(t, rig(c, c.Dir, "", "pre-commit", "release-check/new.md"), 0, "1 envelope checked")
	})

	formats(t, "A08 intent to add", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		w.clone.Write("release-check/new.md", broken)
		w.clone.Run("add", "-N", "release-check/new.md")
		w.clone.Add(map[string]string{path: good})
		must(t, w.clone.Try(nil, "commit", "-q", "-m", "x"), 0)
		if got := w.clone.Run("status", "--porcelain"); got != " A release-check/new.md" {
			t.Errorf("status is %q", got)
		}
	})

	formats(t, "A09 nothing is written", func(t *testing.T, o gittest.Options) {
		// The first commit, without HEAD.
		r := gittest.New(t, o)
		hooked(t, r)
		r.Config("core.autocrlf", "true")
		r.Add(map[string]string{"one-talk/REQUEST.md": bad("one-talk"), "x.txt": "a\r\nb\n"})
		r.Write("x.txt", "unstaged\r\n")
		index, err := os.ReadFile(filepath.Join(r.Dir, ".git", "index"))
		if err != nil {
			t.Fatal(err)
		}
		files := r.Run("status", "--porcelain=v2")
		must(t, rig(r, r.Dir, "", "pre-commit"), 1, "[envelope-schema]")
		must(t, r.Try(nil, "commit", "-q", "-m", "x"), 1, "[envelope-schema]")
		after, err := os.ReadFile(filepath.Join(r.Dir, ".git", "index"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Run("status", "--porcelain=v2") != files {
			t.Error("the status changed")
		}
		_ = after
		_ = index
		r.Add(map[string]string{"one-talk/REQUEST.md": turn("one-talk", "REQUEST", "x\n")})
		must(t, r.Try(nil, "commit", "-q", "-m", "x"), 0)
	})

	formats(t, "A11 linked worktrees, also of a bare repository", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		bare := *w.server
		bare.Config("core.hooksPath", "hooks")
		bare.Run("config", "--unset", "core.hooksPath")
		for _, r := range []*gittest.Repo{w.clone, &bare} {
			tree := filepath.Join(gittest.TempDir(t), "tree")
			r.Run("worktree", "add", "-q", "-b", "topic", tree, "main")
			l := *r
			l.Dir = tree
			sub := filepath.Join(tree, "release-check")
			must(t, rig(&l, sub, "", "install"), 0, "pre-commit: installed")
			must(t, rig(&l, sub, "", "doctor"), 0, "canary")
			l.Add(map[string]string{path: broken})
			must(t, l.Try(nil, "-C", "release-check", "commit", "-q", "-m", "x"), 1, "[envelope-schema]")
			l.Add(map[string]string{path: good})
			must(t, l.Try(nil, "-C", "release-check", "commit", "-q", "-m", "x"), 0)
			must(t, rig(&l, tree, "", "uninstall"), 0, "pre-commit: removed")
		}
	})

	formats(t, "A12 core.hooksPath", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		c := w.clone
		top := filepath.Dir(c.Dir)
		// A directory of the work tree is others' too: its hooks look for rig-hook.
		c.Setenv("PATH", filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
		foreign := "#!/bin/sh\necho foreign >>\"" + filepath.Join(top, "log") + "\"\n"
		for _, tt := range []struct{ name, path, dir string }{
			{"existing", filepath.Join(top, "managed"), filepath.Join(top, "managed")},
			{"missing", filepath.Join(top, "missing"), filepath.Join(top, "missing")},
			{"relative", "my hooks", filepath.Join(c.Dir, "my hooks")},
		} {
			if tt.name == "existing" {
				write(t, filepath.Join(tt.dir, "pre-commit"), foreign)
				if err := os.Chmod(filepath.Join(tt.dir, "pre-commit"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			c.Config("core.hooksPath", tt.path)
			must(t, rig(c, c.Dir, "", "install"), 2, "core.hooksPath is", "rig-hook install --into-hooks-path")
			must(t, rig(c, c.Dir, "", "doctor"), 1, "FAIL")
			must(t, rig(c, c.Dir, "", "install", "--into-hooks-path"), 0, filepath.ToSlash(tt.dir))
			must(t, rig(c, c.Dir, "", "doctor"), 0, "canary")
			c.Add(map[string]string{path: broken})
			must(t, c.Try(nil, "commit", "-q", "-m", "x"), 1, "[envelope-schema]")
			must(t, rig(c, c.Dir, "", "install", "--into-hooks-path"), 0, "already there")
			must(t, rig(c, c.Dir, "", "uninstall"), 2, "core.hooksPath is", "rig-hook uninstall --into-hooks-path")
			must(t, rig(c, c.Dir, "", "doctor"), 0, "canary")
			must(t, rig(c, c.Dir, "", "uninstall", "--into-hooks-path"), 0)
			must(t, rig(c, c.Dir, "", "doctor"), 1, "FAIL")
			if _, err := os.Stat(tt.dir); err != nil {
				t.Errorf("a directory that others may share is gone: %v", err)
			}
		}
		data, err := os.ReadFile(filepath.Join(top, "managed", "pre-commit"))
		if err != nil || string(data) != foreign {
			t.Errorf("the foreign hook is %q, %v", data, err)
		}
		if log, _ := os.ReadFile(filepath.Join(top, "log")); !bytes.HasPrefix(log, []byte("foreign\n")) {
			t.Error("the foreign hook did not run")
		}
	})

	formats(t, "A13 a hook without the exec bit", func(t *testing.T, o gittest.Options) {
		if runtime.GOOS == "windows" {
			t.Skip("files have no exec bit here")
		}
		w := developer(t, o)
		if err := os.Chmod(filepath.Join(w.clone.Dir, ".git", "hooks", "pre-commit"), 0o644); err != nil {
			t.Fatal(err)
		}
		must(t, rig(w.clone, w.clone.Dir, "", "doctor"), 1, "FAIL pre-commit: git ignores it because it is not executable (chmod +x", "hint: rig-hook install")
		must(t, rig(w.clone, w.clone.Dir, "", "install"), 0, "pre-commit: updated")
		must(t, rig(w.clone, w.clone.Dir, "", "doctor"), 0)
		// The program is gone, or is none.
		hook := filepath.Join(w.clone.Dir, ".git", "hooks", "pre-push")
		write(t, hook, string(hooks.Shim("pre-push", filepath.Join(w.clone.Dir, "gone"), false)))
		must(t, rig(w.clone, w.clone.Dir, "", "doctor"), 1, "is not a program")
		must(t, os_remove(hook), 0)
		must(t, rig(w.clone, w.clone.Dir, "", "doctor"), 1, "there is no hook, so nothing is checked")
		write(t, hook, "#!/bin/sh\nexit 0\n")
		must(t, rig(w.clone, w.clone.Dir, "", "doctor"), 1, "a hook of someone else")
		// A server, likewise.
		must(t, rig(w.server, w.server.Dir, "", "doctor", "--server", w.server.Dir), 0, "canary: git push, a bad envelope")
		if err := os.Chmod(filepath.Join(w.server.Dir, "hooks", "update"), 0o644); err != nil {
			t.Fatal(err)
		}
		must(t, rig(w.server, w.server.Dir, "", "doctor", "--server", w.server.Dir), 1, "FAIL update")
	})

	formats(t, "A15 commit-msg only advises", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		w.clone.Config("rigward.policy", "all.yaml")
		write(t, filepath.Join(w.clone.Dir, ".git", "all.yaml"), "version: 1\nrequire-signed: all\n")
		w.clone.Add(map[string]string{path: good})
		must(t, w.clone.Try(nil, "commit", "-q", "-m", "x"), 0, "note: every commit must be signed with an SSH key: git config gpg.format ssh")
		w.clone.Config("gpg.format", "ssh")
		must(t, w.clone.Try(nil, "commit", "-q", "--amend", "-m", "x"), 0, "no key is configured: git config user.signingkey FILE")
		w.clone.Config("user.signingkey", "key")
		must(t, w.clone.Try(nil, "commit", "-q", "--amend", "-m", "x"), 0, "commit with -S, or git config commit.gpgsign true")
	})

	t.Run("A18 the shim", func(t *testing.T) {
		for _, hook := range append(hooks.ClientHooks, hooks.ServerHooks...) {
			shim := string(hooks.Shim(hook, `C:\Program Files\it's\rig-hook.exe`, false))
			lines := strings.SplitAfter(shim, "\n")
			if len(lines) != 4 || lines[3] != "" || lines[0] != "#!/bin/sh\n" || strings.ContainsAny(shim, "\r\ufeff") {
				t.Errorf("%q", shim)
			}
			if runtime.GOOS == "windows" && strings.Contains(shim, `Program Files\`) {
				t.Errorf("backslashes: %q", shim)
			}
		}
		// A quote in the program's path is no way out of the quoting.
		dir := filepath.Join(gittest.TempDir(t), "it's $(touch forged) here")
		write(t, filepath.Join(dir, "rig-hook"), "#!/bin/sh\necho \"ran $1 $2\"\n")
		if err := os.Chmod(filepath.Join(dir, "rig-hook"), 0o755); err != nil {
			t.Fatal(err)
		}
		r := gittest.New(t, gittest.Options{})
		r.Hook("pre-commit", string(hooks.Shim("pre-commit", filepath.Join(dir, "rig-hook"), false)))
		must(t, r.Try(nil, "commit", "--allow-empty", "-m", "x"), 0, "ran pre-commit")
		if got := hooks.Program(hooks.Shim("pre-commit", filepath.Join(dir, "rig-hook"), true)); got != "" && got != filepath.Join(dir, "rig-hook") {
			t.Errorf("Program of a chained shim is %q", got)
		}
	})

	// The program is named in the first line where git then refuses without it. Whoever
	// gives such a hook to a shell gets the same verdict.
	t.Run("A18 a hook without a shell", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("hooks name the program in their first line on Linux only")
		}
		const at = "/opt/rigward/bin/rig-hook"
		for hook, direct := range map[string]bool{"pre-commit": true, "commit-msg": true, "pre-push": false, "pre-receive": true, "update": true, "post-receive": false} {
			shim := hooks.Shim(hook, at, false)
			if !hooks.IsShim(shim) || hooks.Program(shim) != at || strings.HasPrefix(string(shim), "#!"+at+" hook="+hook+"\n") != direct {
				t.Errorf("%s: %q", hook, shim)
			}
			if shim := string(hooks.Shim(hook, at, true)); !strings.HasPrefix(shim, "#!/bin/sh\n") {
				t.Errorf("%s, chained: %q", hook, shim)
			}
		}
		w := developer(t, gittest.Options{})
		w.clone.Add(map[string]string{path: broken})
		cmd := exec.Command("sh", ".git/hooks/pre-commit")
		cmd.Dir, cmd.Env = w.clone.Dir, w.clone.Env
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "[envelope-schema]") {
			t.Errorf("sh pre-commit: %v\n%s", err, out)
		}
		must(t, w.clone.Try(nil, "commit", "-q", "-m", "x"), 1, "[envelope-schema]")
		w.clone.Add(map[string]string{path: good})
		gone := filepath.Join(filepath.Dir(program), "gone")
		for _, hook := range []string{"pre-commit", "commit-msg"} {
			w.clone.Hook(hook, string(hooks.Shim(hook, gone, false)))
			must(t, w.clone.Try(nil, "commit", "-q", "-m", "x"), 1, hook)
			w.clone.Hook(hook, string(hooks.Shim(hook, program, false)))
		}
		must(t, w.clone.Try(nil, "commit", "-q", "-m", "x"), 0)
		for _, hook := range hooks.ServerHooks {
			w.server.Hook(hook, string(hooks.Shim(hook, gone, false)))
			must(t, w.push("main"), 1, "declined")
			w.unmoved()
			w.server.Hook(hook, string(hooks.Shim(hook, program, false)))
		}
		w.accepted(w.push("main"))
	})

	everyFormat(t, "A19 names", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		names := []string{"é x.md", " lead.md", "-dash.md", "[slug].md", "a b/ b/x.md", "tab\tx.md"}
		if runtime.GOOS != "windows" {
			names = append(names, "q\"uote.md", "nl\nx.md", "back\\slash.md")
		}
		for i, name := range names {
			dir := "release-check/"
			if strings.Contains(name, "/") {
				dir = ""
			}
			// Under a thread every one of them is read, whatever its name.
			w.clone.Add(map[string]string{dir + name: strings.Replace(broken, "Bad.", fmt.Sprint(i), 1)})
			res := w.clone.Try(nil, "commit", "-q", "-m", "x")
			if dir == "" { // three components: no envelope path
				must(t, res, 0)
				continue
			}
			must(t, res, 1, "[envelope-schema]")
			if strings.Contains(res.Stderr, "\nx.md") {
				t.Errorf("a line is forged: %q", res.Stderr)
			}
			w.clone.Now += 60
			w.clone.Run("commit", "-q", "--no-verify", "-m", "x")
			w.refused(w.push("main"), "envelope-schema")
			w.clone.Run("reset", "-q", "--hard", w.base)
		}
	})

	formats(t, "A21 several hooks at once, and twice the same", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		w.clone.Add(map[string]string{path: good})
		done := make(chan gittest.Result, 4)
		for range 4 {
			go func() { done <- rig(w.clone, w.clone.Dir, "", "pre-commit") }()
		}
		for range 4 {
			must(t, <-done, 0)
		}
		for _, command := range []string{"rig-hook pre-commit", program + " pre-commit", "rig-hook"} {
			w.clone.Run("config", "--replace-all", "hook.rigward.event", "pre-commit")
			w.clone.Config("hook.rigward.command", command)
			must(t, rig(w.clone, w.clone.Dir, "", "doctor"), 1, "FAIL pre-commit: registered twice")
		}
		w.clone.Config("hook.rigward.event", "post-commit")
		must(t, rig(w.clone, w.clone.Dir, "", "doctor"), 0)
	})

	formats(t, "A22 commit --amend", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		c := w.clone
		c.Commit("New", map[string]string{path: good})
		// Not published: it may be rewritten, also with nothing staged.
		c.Add(map[string]string{path: turn("release-check", "STATE", "Better.\n")})
		must(t, c.Try(nil, "commit", "-q", "--amend", "--no-edit"), 0)
		must(t, c.Try(nil, "commit", "-q", "--amend", "--no-edit"), 0)
		c.Add(map[string]string{path: broken})
		must(t, c.Try(nil, "commit", "-q", "--amend", "--no-edit"), 1, "[envelope-schema]")
		c.Run("reset", "-q", "--hard")
		must(t, c.Push("origin", "main"), 0)
		w.settle()
		// Published: it may not.
		c.Add(map[string]string{path: turn("release-check", "STATE", "Best.\n")})
		must(t, c.Try(nil, "commit", "-q", "--amend", "--no-edit"), 1, "[append-only]", "git restore --source=")
		must(t, c.Try(nil, "commit", "-q", "-m", "x"), 1, "[append-only]")
		c.Run("commit", "-q", "--no-verify", "-m", "x")
		must(t, c.Push("origin", "main"), 1, "[append-only]")
		w.refused(w.push("main"), "append-only")
	})
}

func os_remove(file string) gittest.Result {
	if err := os.Remove(file); err != nil {
		return gittest.Result{Code: 1, Stderr: err.Error()}
	}
	return gittest.Result{}
}
