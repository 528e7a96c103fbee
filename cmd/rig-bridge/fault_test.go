package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// keeps checks what a failed command must leave: the outcome names its cause
// in at most four lines, and standard output is empty.
func (o outcome) keeps(t *testing.T, code int, words ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit %d, want %d\n%s%s", o.code, code, o.stdout, o.stderr)
	}
	if o.stdout != "" {
		t.Errorf("standard output is not empty: %s", o.stdout)
	}
	if n := strings.Count(o.stderr, "\n"); n == 0 || n > 4 {
		t.Errorf("%d lines on standard error:\n%s", n, o.stderr)
	}
	for _, word := range words {
		if !strings.Contains(o.stderr, word) {
			t.Errorf("standard error lacks %q:\n%s", word, o.stderr)
		}
	}
}

var handoff = []string{"send", "HANDOFF", "--thread", "t-one", "--to", "peer"}

func faultWorld(t *testing.T) *world {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	os.Mkdir(w.path("a/t-one"), 0o755)
	return w
}

// state is what must not change when nothing was committed: the id of HEAD, and how the
// index, with modes and ids, and the work tree differ from it.
func (w *world) state(clone string) string {
	return w.git(clone, "status", "--porcelain=v2", "--branch", "-uall")
}

func TestFaults(t *testing.T) {
	t.Run("no server", func(t *testing.T) {
		w := faultWorld(t)
		os.Rename(w.path("origin.git"), w.path("gone.git"))
		w.run("a", handoff...).keeps(t, 2, "git push", "t-one/HANDOFF.md is kept", "do not send the message again", "hint: git push origin main:main")
		// Nothing is lost: when the server is back the message goes out.
		os.Rename(w.path("gone.git"), w.path("origin.git"))
		w.git("a", "push", "-q", "origin", "main:main")
		if n := w.git("origin.git", "rev-list", "--count", "main"); n != "2\n" {
			t.Errorf("the server has %s commits", n)
		}
	})
	t.Run("refusing server", func(t *testing.T) {
		w := faultWorld(t)
		w.program("origin.git/hooks/pre-receive", "#!/bin/sh\necho 'not on a Sunday' >&2\nexit 1\n")
		w.run("a", handoff...).keeps(t, 1, "not on a Sunday", "t-one/HANDOFF.md is kept", "hint: git push")
	})
	t.Run("branch name that a shell would read", func(t *testing.T) {
		w := faultWorld(t)
		w.git("a", "checkout", "-q", "-b", "a;b$(x)")
		w.run("a", "sync").keeps(t, 1, "hint: git push --set-upstream origin 'a;b$(x)'\n")
		w.config("a", "remote.origin.url", w.path("gone.git"))
		w.run("a", handoff...).keeps(t, 2, "hint: git push origin 'a;b$(x):a;b$(x)'")
		w.git("a", "config", "--remove-section", "remote.origin")
		w.run("a", handoff...).keeps(t, 1, "git push origin 'a;b$(x)'")
	})
	t.Run("coloured messages of git", func(t *testing.T) {
		w := faultWorld(t)
		w.config("a", "color.ui", "always")
		w.config("a", "color.push", "always")
		w.program("a/.git/hooks/pre-push", "#!/bin/sh\nexit 1\n")
		w.run("a", handoff...).keeps(t, 1, "the pre-push hook said no: \"no message\";")
		os.Remove(w.path("a/.git/hooks/pre-push"))
		w.program("origin.git/hooks/pre-receive", "#!/bin/sh\nprintf 'error: \\033[1mnot\\033[0m on a Sunday\\n' >&2\nexit 1\n")
		w.run("a", handoff...).keeps(t, 1, `the push was refused: "error: not on a Sunday";`)
	})
	t.Run("flags without effect are read all the same", func(t *testing.T) {
		w := faultWorld(t)
		w.run("a", "thread", "t-one", "--format=").keeps(t, 1, "--format")
		w.run("a", "status", "--interval", "soon").keeps(t, 1, "--interval", "soon")
		w.run("a", "sync", "--interval", "0").keeps(t, 1, "--interval", "0")
		for _, args := range [][]string{{"status"}, {"sync"}, {"thread", "t-one"}} {
			w.run("a", append(args, "--interval", "1")...).keeps(t, 1, "--watch, which is not given")
		}
	})
	t.Run("refusing pre-push hook", func(t *testing.T) {
		w := faultWorld(t)
		w.program("a/.git/hooks/pre-push", "#!/bin/sh\necho 'not now' >&2\nexit 1\n")
		w.run("a", handoff...).keeps(t, 1, "pre-push", "not now", "is kept")
	})
	t.Run("hook that changes the message", func(t *testing.T) {
		w := faultWorld(t)
		before := w.state("a")
		w.program("a/.git/hooks/pre-commit", "#!/bin/sh\nfor f in $(git diff --cached --name-only); do echo more >> $f; git add $f; done\n")
		o := w.run("a", handoff...)
		if o.code != 1 || !strings.Contains(o.stderr, "hook") {
			t.Errorf("exit %d: %s", o.code, o.stderr)
		}
		if head := w.git("a", "rev-list", "--count", "HEAD"); head != "1\n" {
			t.Errorf("the commit stayed: %s\n%s", head, before)
		}
	})
	t.Run("detached HEAD", func(t *testing.T) {
		w := faultWorld(t)
		w.git("a", "checkout", "-q", "--detach")
		before := w.state("a")
		w.run("a", handoff...).keeps(t, 1, "detached", "git switch")
		if after := w.state("a"); after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
		w.run("a", "sync").keeps(t, 1, "detached")
	})
	t.Run("no upstream", func(t *testing.T) {
		w := faultWorld(t)
		w.git("a", "switch", "-q", "-c", "side")
		w.run("a", "sync").keeps(t, 1, "upstream", "git push --set-upstream origin side")
		w.ok("a", handoff...)
		if _, err := w.tryGit("origin.git", "rev-parse", "--verify", "side"); err != nil {
			t.Error("the branch of the same name was not pushed")
		}
	})
	t.Run("thread outside of a sparse checkout", func(t *testing.T) {
		w := newWorld(t)
		w.server()
		w.clone("a", "rig-a")
		w.git("a", "sparse-checkout", "set", "--cone", "t-one")
		os.Mkdir(w.path("a/t-two"), 0o755)
		w.run("a", "send", "ACK", "--thread", "t-two", "--to", "peer").keeps(t, 1, "outside of the sparse checkout", "git sparse-checkout add t-two")
	})

	t.Run("standard output that is full", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skipf("no full device: %v", err)
		}
		defer full.Close()
		w := faultWorld(t)
		cmd := w.command("a", handoff...)
		var errs strings.Builder
		cmd.Stdout, cmd.Stderr = full, &errs
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(errs.String(), "t-one/HANDOFF.md is pushed") {
			t.Errorf("%v: %s", err, errs.String())
		}
	})

	t.Run("no remote", func(t *testing.T) {
		w := faultWorld(t)
		w.git("a", "remote", "remove", "origin")
		w.run("a", handoff...).keeps(t, 1, "no remote", "t-one/HANDOFF.md is kept", "git remote add origin")
	})
	t.Run("thread that is a link, thread that is a device", func(t *testing.T) {
		w := faultWorld(t)
		os.Symlink("t-one", w.path("a/t-two"))
		w.run("a", "send", "ACK", "--thread", "t-two", "--to", "peer").keeps(t, 1, "symbolic link", "hint: rm t-two && mkdir t-two")
		w.run("a", "new", "con").keeps(t, 1, "not portable", "hint: rig-bridge new con-thread")
	})
	t.Run("no user.name", func(t *testing.T) {
		w := faultWorld(t)
		w.unset("a", "user.name")
		w.config("a", "user.useConfigOnly", "true")
		before := w.state("a")
		w.run("a", handoff...).keeps(t, 1, "user.name is not set", "hint: git config user.name <name>")
		if after := w.state("a"); after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
	})
	t.Run("disk full", func(t *testing.T) {
		w := faultWorld(t)
		mount(t, w.path("small"), "-t", "tmpfs", "-o", "size=4m", "tmpfs")
		w.git(".", "clone", "-q", "origin.git", "small/a")
		w.git("small/a", "config", "user.name", "A")
		w.git("small/a", "config", "user.email", "a@example.com")
		w.ok("small/a", "init", "--rig-id", "rig-a", "--no-hooks")
		os.Mkdir(w.path("small/a/t-one"), 0o755)
		w.write("body.md", strings.Repeat("not to be compressed away\n", 200_000))
		before := w.state("small/a")
		w.run("small/a", append(handoff, "--body-file", "../../body.md")...).keeps(t, 2, "space")
		if after := w.state("small/a"); after != before {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
		// There is room for a small one.
		w.ok("small/a", handoff...)
	})
	t.Run("read-only clone", func(t *testing.T) {
		w := faultWorld(t)
		mount(t, w.path("fixed"), "--bind", w.path("a"))
		if out, err := exec.Command("mount", "-o", "remount,bind,ro", w.path("fixed")).CombinedOutput(); err != nil {
			t.Skipf("cannot mount read-only: %s", out)
		}
		w.run("fixed", handoff...).keeps(t, 2, "read-only")
		w.ok("fixed", "status")
		w.ok("fixed", "sync", "--check")
	})
}

// mount mounts at a new directory until the test ends, or skips the test.
func mount(t *testing.T, dir string, args ...string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("mounting needs root on Linux")
	}
	os.Mkdir(dir, 0o755)
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Skipf("cannot mount: %s", out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
}

// The lock of another git is not removed, whenever it was made; nothing is
// left of the message.
func TestIndexHeldByAnother(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.write("a/.git/index.lock", "")
	o := w.run("a", "send", "HANDOFF", "--thread", "t-one", "--to", "peer")
	if o.code != 2 || !strings.Contains(o.stderr, "index.lock") {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
	for _, path := range []string{"a/t-one/HANDOFF.md", "a/.git/rig-bridge.journal"} {
		if _, err := os.Lstat(w.path(path)); err == nil {
			t.Errorf("%s is left over", path)
		}
	}
	if err := os.Remove(w.path("a/.git/index.lock")); err != nil {
		t.Errorf("the lock is gone: %v", err)
	}
}

// A branch that could not follow what was pushed under another name does not
// send it again.
func TestBranchThatCannotFollow(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	os.Mkdir(w.path("a/t-one"), 0o755)
	os.Mkdir(w.path("b/t-one"), 0o755)
	w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "peer")
	w.program("origin.git/hooks/post-receive", "#!/bin/sh\necho >"+w.path("a/t-one/ACK-2.md")+"\n")
	o := w.run("a", "send", "ACK", "--thread", "t-one", "--to", "peer")
	if o.code != 2 || !strings.Contains(o.stderr, "the message is pushed") {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	os.Remove(w.path("origin.git/hooks/post-receive"))
	os.Remove(w.path("a/t-one/ACK-2.md"))
	w.ok("a", "send", "HANDOFF", "--thread", "t-one", "--to", "peer")
	if added, _ := w.history(); len(added) != 3 {
		t.Errorf("%d messages are in the history, not three", len(added))
	} else {
		for text, n := range added {
			if n != 1 {
				t.Errorf("%d times there:\n%s", n, text)
			}
		}
	}
	if s := w.git("a", "status", "--porcelain", "--branch"); s != "## main...origin/main\n" {
		t.Errorf("left over: %s", s)
	}
}

// behind is a world whose clone a has not pulled yet what b sent.
func behind(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	os.Mkdir(w.path("b/t-one"), 0o755)
	w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "peer")
	return w
}

// What a user has configured for his own merges does not change a pull, but that
// he wants signatures.
func TestSyncMergeOptions(t *testing.T) {
	w := behind(t)
	w.config("a", "branch.main.mergeOptions", "--squash")
	w.config("a", "merge.verifySignatures", "true")
	head := w.git("a", "rev-parse", "HEAD")
	w.run("a", "sync", "--auto").keeps(t, 1, "does not have a GPG signature", "--no-verify-signatures")
	if now := w.git("a", "rev-parse", "HEAD"); now != head {
		t.Error("an unsigned commit was taken where the user wants signed ones")
	}
	w.config("a", "merge.verifySignatures", "false")
	if o := w.ok("a", "sync", "--auto"); !strings.Contains(o.stdout, "pulled=true") {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
}

// The hints fit what the clone has.
func TestHintsFit(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.git("a", "switch", "-q", "-c", "x'y")
	hint := func(want string, args ...string) {
		t.Helper()
		if o := w.run("a", args...); o.code != 1 || !strings.Contains(o.stderr, "hint: "+want+"\n") {
			t.Errorf("%v: exit %d, want the hint %s\n%s", args, o.code, want, o.stderr)
		}
	}
	hint(`git push --set-upstream origin 'x'\''y'`, "sync")
	w.git("a", "push", "-q", "origin", "HEAD")
	hint(`git branch --set-upstream-to='origin/x'\''y'`, "sync")
	w.git("a", "remote", "rm", "origin")
	hint(`git remote add origin <url> && git push --set-upstream origin 'x'\''y'`, "sync")
	os.Mkdir(w.path("a/t-one"), 0o755)
	os.WriteFile(w.path("a/.git/info/exclude"), []byte("t-one/\n"), 0o644)
	hint("git check-ignore -v t-one/ACK.md says which line does", "send", "ACK", "--thread", "t-one", "--to", "peer")
}

// A scaffold that was staged is not left behind for a stub.
func TestStagedScaffold(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.ok("a", "new", "t-one")
	w.write("a/t-one/REQUEST.md", w.read("a/t-one/REQUEST.md")+"\nPlease build it.\n")
	w.git("a", "add", ".")
	send := []string{"send", "REQUEST", "--thread", "t-one", "--to", "peer"}
	w.run("a", send...).keeps(t, 1, "t-one/REQUEST.md is staged", "hint: git reset -q -- t-one/REQUEST.md\n")
	w.git("a", "reset", "-q", "--", "t-one/REQUEST.md")
	if o := w.ok("a", send...); !strings.Contains(o.stdout, "file=t-one/REQUEST.md ") {
		t.Error(o.stdout)
	}
}

// Of two closings one stands. The other is named, with the command that lets the
// clone go on; a message under a name that is taken needs none.
func TestTwoClosings(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	for _, c := range []string{"a", "b"} {
		os.Mkdir(w.path(c+"/t-one"), 0o755)
		w.ok(c, "send", "ACK", "--thread", "t-one", "--to", "peer", "--no-push")
	}
	w.push("b")
	if o := w.run("a", "sync"); o.code != 1 || !strings.Contains(o.stderr, "the next send puts the unpushed messages on top, under free names") {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
	w.ok("b", "close", "t-one", "--status", "completed")
	drop := regexp.MustCompile(`git rebase --onto ([0-9a-f]+)\^ [0-9a-f]+`)
	o := w.run("a", "close", "t-one", "--status", "cancelled")
	hint := drop.FindString(o.stderr)
	if o.code != 1 || !strings.Contains(o.stderr, "hint: git rebase") || hint == "" {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	os.Mkdir(w.path("a/t-two"), 0o755)
	for _, args := range [][]string{{"send", "ACK", "--thread", "t-two", "--to", "peer"}, {"sync", "--auto"}} {
		if o := w.run("a", args...); o.code != 1 || drop.FindString(o.stderr) != hint {
			t.Errorf("%v: exit %d, %q is not told: %s", args, o.code, hint, o.stderr)
		}
	}
	w.git("a", strings.Fields(hint)[1:]...)
	w.ok("a", "send", "HANDOFF", "--thread", "t-two", "--to", "peer")
	w.ok("a", "sync")
	if added, _ := w.history(); len(added) != 5 {
		t.Errorf("%d messages are in the history: two ACK, one RESOLUTION, ACK and HANDOFF in t-two", len(added))
	}
}

// A branch that was rewritten over there is named as such, again and again, and
// nothing is put on top of it.
func TestRewrittenRemote(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.ok("a", "send", "ACK", "--thread", "t-one", "--to", "peer")
	seen := w.git("a", "rev-parse", "origin/main")
	w.git("seed", "-c", "user.name=S", "-c", "user.email=s@example.com", "commit", "-q", "--allow-empty", "-m", "other")
	w.git("seed", "push", "-q", "--force", w.path("origin.git"), "main")
	for _, args := range [][]string{{"sync"}, {"sync", "--auto"}} {
		o := w.run("a", args...)
		if o.code != 1 || !strings.Contains(o.stdout, "reason=remote_history_rewritten") || !strings.Contains(o.stderr, "t-one/ACK.md: deleted") {
			t.Errorf("%v: exit %d\n%s%s", args, o.code, o.stdout, o.stderr)
		}
	}
	w.run("a", "send", "HANDOFF", "--thread", "t-one", "--to", "peer").keeps(t, 1, "was rewritten", "is kept")
	if now := w.git("a", "rev-parse", "origin/main"); now != seen {
		t.Errorf("the tracking ref moved from %s to %s", seen, now)
	}
}

// Whatever another fetch writes to FETCH_HEAD meanwhile, the branch that was rewritten,
// and one that no ref of the clone follows, is what the remote has.
func TestFetchBesideFetch(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.ok("a", "send", "ACK", "--thread", "t-one", "--to", "peer")
	seen := strings.TrimSpace(w.git("a", "rev-parse", "origin/main"))
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	w.program("bin/git", "#!/bin/sh\n'"+real+"' \"$@\"; code=$?\ncase \" $* \" in *\" fetch \"*)\n"+
		"printf '"+seen+"\\t\\tbranch main of elsewhere\\n' >'"+w.path("a/.git/FETCH_HEAD")+"'; echo fetch >>'"+w.path("log")+"' ;;\nesac\nexit $code\n")
	w.vars = append(w.vars, "PATH="+w.path("bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	for i, follow := range []bool{true, false} {
		w.git("seed", "-c", "user.name=S", "-c", "user.email=s@example.com", "commit", "-q", "--amend", "--allow-empty", "-m", fmt.Sprint("other ", i))
		w.git("seed", "push", "-q", "--force", w.path("origin.git"), "main")
		theirs := strings.TrimSpace(w.git("seed", "rev-parse", "HEAD"))
		if !follow {
			w.unset("a", "remote.origin.fetch")
		}
		o := w.run("a", "sync", "--json")
		if o.code != 1 || !strings.Contains(o.stdout, `"remote_head":"`+theirs+`"`) || follow != strings.Contains(o.stdout, "remote_history_rewritten") {
			t.Errorf("followed: %t: exit %d, the remote is at %s\n%s%s", follow, o.code, theirs, o.stdout, o.stderr)
		}
	}
	if data, err := os.ReadFile(w.path("log")); err != nil || len(data) == 0 {
		t.Error("git did not fetch", err)
	}
}

// In a shallow clone what came on top of its history is taken, and a message is
// put on top of it: no rule needs what is cut off.
func TestShallowClone(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("b", "rig-b")
	os.Mkdir(w.path("b/t-one"), 0o755)
	for range 2 {
		w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "peer")
	}
	w.git(".", "clone", "-q", "--depth", "2", "file://"+w.path("origin.git"), "a")
	w.config("a", "user.name", "Op a")
	w.config("a", "user.email", "a@example.com")
	w.ok("a", "init", "--rig-id", "rig-a", "--no-hooks")
	w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "peer")
	if o := w.ok("a", "sync", "--auto"); !strings.Contains(o.stdout, "pulled=true") {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
	w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "peer")
	w.ok("a", "send", "HANDOFF", "--thread", "t-one", "--to", "peer")
	w.ok("a", "sync")
}

// TestSyncNamesWhatIsInTheWay: whatever lies where a pull would write is named,
// though the path that comes is another one.
func TestSyncNamesWhatIsInTheWay(t *testing.T) {
	w := behind(t)
	for _, c := range []struct {
		name, named string
		make        func() error
	}{
		{"a file in the thread's place", "in the way: t-one\n", func() error { return os.WriteFile(w.path("a/t-one"), nil, 0o644) }},
		{"a link in the thread's place", "in the way: t-one\n", func() error { return os.Symlink("seed.txt", w.path("a/t-one")) }},
		{"an entry of the index alone", "in the way: t-one/ACK.md\n", func() error {
			w.write("a/t-one/ACK.md", "x\n")
			w.git("a", "add", "t-one/ACK.md")
			return os.RemoveAll(w.path("a/t-one"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.make(); err != nil {
				t.Skip(err)
			}
			o := w.run("a", "sync", "--auto")
			if o.code != 1 || !strings.Contains(o.stdout, "reason=local_files_in_the_way") || !strings.Contains(o.stderr, c.named) {
				t.Errorf("exit %d, expected it to name %q\n%s%s", o.code, c.named, o.stdout, o.stderr)
			}
			os.RemoveAll(w.path("a/t-one"))
			w.git("a", "reset", "-q", "--hard")
		})
	}
	if o := w.ok("a", "sync", "--auto"); !strings.Contains(o.stdout, "pulled=true") {
		t.Error(o.stdout)
	}
}
