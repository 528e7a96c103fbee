//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
)

// TestKill kills send, close and relay at random moments, once with all their
// git children and once without. What is left is never half written, and the
// same command run again completes: the message is in the server's history
// once, and nothing of the clone is left over.
func TestKill(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.commitFiles("a", map[string]string{".bridge/allowed_signers": w.operator("op")})
	// The server is a child here; what kills a client with its children leaves
	// the server alone elsewhere.
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skipf("setsid does not run: %v", err)
	}
	for _, clone := range []string{"a", "op"} {
		w.git(clone, "config", "remote.origin.receivepack", "setsid git-receive-pack")
	}
	w.pull("op")

	// How long one run takes, to kill within it.
	os.Mkdir(w.path("a/t-first"), 0o755)
	start := time.Now()
	w.ok("a", "send", "REQUEST", "--thread", "t-first", "--to", "peer")
	typical := time.Since(start)

	rounds := stress(4, 200)
	seed := uint64(time.Now().UnixNano())
	// RIGWARD_STRESS_ROUNDS cuts the full length into parts, and
	// RIGWARD_STRESS_SEED repeats one.
	for name, set := range map[string]func(uint64){
		"RIGWARD_STRESS_ROUNDS": func(n uint64) { rounds = int(n) },
		"RIGWARD_STRESS_SEED":   func(n uint64) { seed = n },
	} {
		if v := os.Getenv(name); v != "" {
			n, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			set(n)
		}
	}
	t.Logf("seed %d, a run takes %s", seed, typical)
	random := rand.New(rand.NewPCG(seed, 0))
	killed := 0
	for i := range rounds {
		clone := "a"
		thread := fmt.Sprintf("t-%03d", i)
		args := []string{"send", "HANDOFF", "--thread", thread, "--to", "peer", "--tldr", fmt.Sprint("round ", i)}
		switch i % 3 {
		case 1:
			args = []string{"close", thread, "--status", "completed", "--to", "peer"}
		case 2:
			clone = "op"
		}
		os.Mkdir(w.path(clone+"/"+thread), 0o755)
		if clone == "op" {
			w.git("op", "pull", "-q", "--rebase")
			os.Mkdir(w.path("a/"+thread), 0o755)
			w.git("a", "pull", "-q", "--rebase")
			w.ok("a", "send", "REQUEST", "--thread", thread, "--to", "peer", "--tldr", "question")
			w.git("op", "pull", "-q", "--rebase")
			args = []string{"relay", "DECISIONS", "--thread", thread, "--to", "peer", "--in-reply-to", w.bodyHash("op/" + thread + "/REQUEST.md")}
		} else {
			w.git("a", "pull", "-q", "--rebase")
		}
		cmd := w.command(clone, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var told bytes.Buffer
		cmd.Stdout = &told
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.Int64N(int64(typical) * 5 / 4)))
		whole := random.IntN(2) == 0
		if whole {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		} else {
			cmd.Process.Kill()
		}
		if err := cmd.Wait(); err != nil {
			killed++
		}
		w.allComplete(clone)
		if _, err := os.Lstat(w.path(clone + "/.git/rig-bridge.journal")); err != nil && told.Len() > 0 {
			continue // it was done, and said so
		}
		o := w.run(clone, args...)
		if o.code != 0 {
			t.Fatalf("round %d: %v again: exit %d\n%s%s", i, args, o.code, o.stdout, o.stderr)
		}
		if s := w.git(clone, "status", "--porcelain", "--", thread); s != "" {
			t.Fatalf("round %d: left over:\n%s", i, s)
		}
		added, changed := w.history()
		if len(changed) > 0 {
			t.Fatalf("round %d: the history changes messages: %q", i, changed)
		}
		n := 0
		for text := range added {
			if strings.Contains(text, "\nthread: "+thread+"\n") && !strings.Contains(text, "\ntldr: question\n") {
				n += added[text]
			}
		}
		if n != 1 {
			t.Fatalf("round %d: %v reported success and is there %d times", i, args, n)
		}
	}
	for _, clone := range []string{"a", "op"} {
		w.git(clone, "fsck", "--strict")
		left, _ := filepath.Glob(w.path(clone + "/.git/rig-bridge.*"))
		for _, f := range left {
			if filepath.Base(f) != "rig-bridge.lock" {
				t.Errorf("%s is left over", f)
			}
		}
	}
	t.Logf("%d rounds, %d killed", rounds, killed)
}

// TestKillLocks kills a send with all its git children at each moment at which
// git holds locks. The same command run again removes them and completes.
func TestKillLocks(t *testing.T) {
	for _, c := range []struct{ name, hook, script, lock string }{
		{"commit", "pre-commit", "true", "index.lock"},
		{"branch", "reference-transaction", `test "$1" = prepared && grep -q ' refs/heads/main$'`, "refs/heads/main.lock"},
		{"push", "reference-transaction", `test "$1" = prepared && grep -q ' refs/remotes/origin/main$'`, "refs/remotes/origin/main.lock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.server()
			w.clone("a", "rig-a")
			os.Mkdir(w.path("a/t-one"), 0o755)
			hook := w.path("a/.git/hooks/" + c.hook)
			w.program("a/.git/hooks/"+c.hook, "#!/bin/sh\nif "+c.script+"; then : >"+w.path("reached")+"; sleep 60; fi\n")
			// An index that does not say which tree it is, so that git commits our
			// path alone, under a lock.
			w.write("a/other", "x")
			w.git("a", "add", "other")
			w.git("a", "rm", "-q", "-f", "--cached", "other")
			os.Remove(w.path("a/other"))
			args := []string{"send", "HANDOFF", "--thread", "t-one", "--to", "peer"}
			w.killAt(w.command("a", args...), "reached")
			if _, err := os.Lstat(w.path("a/.git/" + c.lock)); err != nil {
				t.Fatalf("no lock was left to remove: %v", err)
			}
			if err := os.Remove(hook); err != nil {
				t.Fatal(err)
			}
			w.ok("a", args...)
			filepath.WalkDir(w.path("a/.git"), func(path string, d fs.DirEntry, err error) error {
				if name := filepath.Base(path); err == nil && strings.HasSuffix(name, ".lock") && name != "rig-bridge.lock" && !strings.HasPrefix(name, "next-index-") {
					t.Errorf("%s is left over", path)
				}
				return err
			})
			w.git("a", "pull", "-q", "--rebase")
			if s := w.git("a", "status", "--porcelain", "--branch"); strings.Contains(s, "ahead") || strings.Contains(s, "t-one") {
				t.Errorf("left over: %s", s)
			}
			if added, _ := w.history(); len(added) != 1 {
				t.Errorf("%d messages are in the history, not one", len(added))
			}
		})
	}
}

// TestKillCommits: where a send that commits in git's place is killed between two of its
// writes, the same command run again removes its locks and completes it.
func TestKillCommits(t *testing.T) {
	for _, c := range []struct {
		name  string
		back  []string // files that are as before the send
		locks []string
	}{
		{"index locked", []string{"index", "refs/heads/main", "logs/HEAD", "logs/refs/heads/main"}, []string{"index.lock"}},
		{"branch locked", []string{"index", "refs/heads/main", "logs/HEAD", "logs/refs/heads/main"}, []string{"index.lock", "HEAD.lock", "refs/heads/main.lock"}},
		{"index written", []string{"refs/heads/main", "logs/HEAD"}, []string{"HEAD.lock", "refs/heads/main.lock"}},
		{"branch moved", nil, []string{"HEAD.lock"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.server()
			w.clone("a", "rig-a")
			os.Mkdir(w.path("a/t-one"), 0o755)
			w.program("a/.git/hooks/pre-push", "#!/bin/sh\n: >"+w.path("reached")+"; sleep 60\n")
			w.git("a", "commit", "-q", "--allow-empty", "-m", "one") // so that there are reflogs
			before := map[string]string{}
			for _, file := range c.back {
				before[file] = w.read("a/.git/" + file)
			}
			args := []string{"send", "HANDOFF", "--thread", "t-one", "--to", "peer"}
			cmd := w.command("a", args...)
			cmd.Env = append(cmd.Env, "GIT_TRACE="+w.path("trace"))
			w.killAt(cmd, "reached")
			if strings.Contains(w.read("trace"), "git commit") {
				t.Fatal("git committed it")
			}
			for file, text := range before {
				w.write("a/.git/"+file, text)
			}
			for _, lock := range c.locks {
				w.write("a/.git/"+lock, "")
			}
			journal := w.read("a/.git/rig-bridge.journal")
			w.write("a/.git/rig-bridge.journal", regexp.MustCompile(`"commit":"[0-9a-f]+"`).ReplaceAllString(journal, `"commit":""`))
			if err := os.Remove(w.path("a/.git/hooks/pre-push")); err != nil {
				t.Fatal(err)
			}
			w.ok("a", args...)
			for _, lock := range c.locks {
				if _, err := os.Lstat(w.path("a/.git/" + lock)); err == nil {
					t.Errorf("%s is left over", lock)
				}
			}
			if s := w.git("a", "status", "--porcelain", "--branch"); s != "## main...origin/main\n" {
				t.Errorf("left over: %s", s)
			}
			if added, _ := w.history(); len(added) != 1 {
				t.Errorf("%d messages are in the history, not one", len(added))
			}
			w.git("a", "fsck", "--strict")
		})
	}
}

// TestKillSyncs kills a sync with all its git children where git holds locks. What runs
// next in the clone removes them, whichever command that is.
func TestKillSyncs(t *testing.T) {
	for _, c := range []struct{ name, ref, lock string }{
		{"fetch", "refs/remotes/origin/main", "refs/remotes/origin/main.lock"}, {"merge", "refs/heads/main", "refs/heads/main.lock"},
	} {
		for _, next := range []string{"sync", "wait", "send"} {
			t.Run(c.name+" then "+next, func(t *testing.T) {
				t.Parallel()
				w := asked(t)
				hook := "b/.git/hooks/reference-transaction"
				w.program(hook, "#!/bin/sh\nif [ \"$1\" = prepared ] && grep -q ' "+c.ref+"$'; then : >"+w.path("reached")+"; sleep 60; fi\n")
				w.killAt(w.command("b", "sync", "--auto"), "reached")
				if _, err := os.Lstat(w.path("b/.git/" + c.lock)); err != nil {
					t.Fatalf("no lock was left to remove: %v", err)
				}
				if err := os.Remove(w.path(hook)); err != nil {
					t.Fatal(err)
				}
				switch next {
				case "sync":
					w.ok("b", "sync", "--auto")
				case "wait":
					w.ok("b", "wait", "--timeout", "60").says(t, 0, "message=t-one/REQUEST.md")
				case "send":
					os.Mkdir(w.path("b/t-two"), 0o755)
					w.ok("b", "send", "REQUEST", "--thread", "t-two", "--to", "rig-a", "--tldr", "y")
				}
				w.git("b", "pull", "-q")
				if s := w.git("b", "status", "--porcelain", "--branch"); s != "## main...origin/main\n" {
					t.Errorf("left over: %s", s)
				}
				for _, lock := range []string{c.lock, "HEAD.lock", "index.lock", "ORIG_HEAD.lock"} {
					if _, err := os.Lstat(w.path("b/.git/" + lock)); err == nil {
						t.Errorf("%s is left over", lock)
					}
				}
			})
		}
	}
	// A lock that is somebody else's stays.
	w := asked(t)
	w.write("b/.git/index.lock", "")
	w.run("b", "sync", "--auto").says(t, 2, "index.lock': File exists")
}

// TestKillResumes kills a send with all its git children at each step at which
// something is half done, and lets somebody else push in between. The same
// command run again completes the message and touches no other.
func TestKillResumes(t *testing.T) {
	for _, c := range []struct{ name, typ, hook, when string }{
		{"scaffold replaced", "REQUEST", "a/.git/hooks/pre-commit", "true"},
		{"scaffold committed", "REQUEST", "a/.git/hooks/pre-push", "true"},
		{"pushed", "ACK", "origin.git/hooks/post-receive", "true"},
		{"work tree moved", "ACK", "a/.git/hooks/reference-transaction", `test "$1" = prepared && grep -q ' refs/heads/main$' && { test -e twice || { : >twice; false; }; }`},
		{"branch moved", "ACK", "a/.git/hooks/reference-transaction", `test "$1" = committed && grep -q ' refs/heads/main$' && { test -e twice || { : >twice; false; }; }`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := answered(t)
			w.ok("a", "new", "t-one")
			args := []string{"send", c.typ, "--thread", "t-one", "--to", "peer"}
			if c.typ == "REQUEST" {
				args = args[:4]
				w.write("a/t-one/REQUEST.md", strings.Replace(w.read("a/t-one/REQUEST.md"), `"?"`, "peer", 1)+"And now?\n")
			} else if err := os.Remove(w.path("a/t-one/REQUEST.md")); err != nil {
				t.Fatal(err)
			}
			w.program(c.hook, "#!/bin/sh\nif "+strings.ReplaceAll(c.when, "twice", w.path("twice"))+"; then : >"+w.path("reached")+"; sleep 60; fi\n")
			w.killAt(w.command("a", args...), "reached")
			if err := os.Remove(w.path(c.hook)); err != nil {
				t.Fatal(err)
			}
			w.pull("b")
			w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "peer", "--tldr", "second")
			o := w.ok("a", args...)
			if strings.Contains(o.stderr, `from "rig-a"`) {
				t.Errorf("crossed by itself: %s", o.stderr)
			}
			w.git("a", "pull", "-q", "--rebase")
			if s := w.git("a", "status", "--porcelain", "--branch"); s != "## main...origin/main\n" {
				t.Errorf("left over: %s", s)
			}
			added, changed := w.history()
			if len(added) != 3 || len(changed) > 0 {
				t.Errorf("%d messages are in the history, not three; changed: %q", len(added), changed)
			}
			for text := range added {
				if c.typ == "REQUEST" && strings.Contains(text, "\nfrom: rig-a\n") && !strings.HasSuffix(text, "\nAnd now?\n") {
					t.Errorf("this was sent in place of the scaffold:\n%s", text)
				}
			}
			told := w.read("a/" + field(o.stdout, "file="))
			if !strings.HasPrefix(told, "---\nfrom: rig-a\n") {
				t.Errorf("the wrong file is named: %s", o.stdout)
			}
		})
	}
}

// answered is a server with clones a and b, of which b has sent a message that a does not have.
func answered(t *testing.T) *world {
	t.Helper()
	return answers.of(t, func(w *world) {
		clones(w)
		w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "peer", "--tldr", "first")
	})
}

// asked is a server with clones a and b, of which a has sent a request that b does not have.
func asked(t *testing.T) *world {
	t.Helper()
	return asks.of(t, func(w *world) {
		clones(w)
		w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "rig-b", "--tldr", "x")
	})
}

var answers, asks model

// TestServerDies kills the repository's server when it has taken a message that was put
// on top of another under another name, so that the sender is not told. Whatever is sent
// next, or fails, the message is in the history once.
func TestServerDies(t *testing.T) {
	message := func(key string) []string {
		return []string{"send", "ACK", "--thread", "t-one", "--to", "peer", "--tldr", "said once", "--key", key}
	}
	other := []string{"send", "STATE", "--thread", "t-one", "--to", "peer", "--tldr", "another"}
	for _, c := range []struct {
		name  string
		do    func(*world)
		count int // messages of a in the end
	}{
		{"the same again", func(w *world) { w.ok("a", message("k")...) }, 1},
		{"another first", func(w *world) { w.ok("a", other...); w.ok("a", message("k")...) }, 2},
		{"one that fails first", func(w *world) {
			w.program("a/.git/hooks/commit-msg", "#!/bin/sh\nexit 1\n")
			w.run("a", other...)
			os.Remove(w.path("a/.git/hooks/commit-msg"))
			w.ok("a", message("k")...)
		}, 1},
		{"one that is killed first", func(w *world) {
			w.program("a/.git/hooks/commit-msg", "#!/bin/sh\n: >"+w.path("reached")+"; sleep 60\n")
			w.killAt(w.command("a", other...), "reached")
			os.Remove(w.path("a/.git/hooks/commit-msg"))
			if o := w.ok("a", message("k")...); strings.Contains(o.stderr, `from "rig-a"`) {
				w.t.Errorf("crossed by itself: %s", o.stderr)
			}
		}, 1},
		{"without what the run kept", func(w *world) {
			os.Remove(w.path("a/.git/rig-bridge.journal"))
			w.ok("a", message("k")...)
		}, 1},
		{"the same words under another key", func(w *world) { w.ok("a", message("k2")...); w.ok("a", message("k")...) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := answered(t)
			os.Mkdir(w.path("a/t-one"), 0o755)
			w.program("origin.git/hooks/post-receive", "#!/bin/sh\nkill -9 $PPID\n")
			if o := w.run("a", message("k")...); o.code == 0 {
				t.Fatalf("the server died, and %s", o.stdout)
			}
			if err := os.Remove(w.path("origin.git/hooks/post-receive")); err != nil {
				t.Fatal(err)
			}
			w.pull("b")
			w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "peer", "--tldr", "second")
			c.do(w)
			w.git("a", "pull", "-q", "--rebase")
			if s := w.git("a", "status", "--porcelain", "--branch"); s != "## main...origin/main\n" {
				t.Errorf("left over: %s", s)
			}
			own := 0
			for _, text := range w.blobs("origin.git", strings.Fields(w.git("origin.git", "ls-tree", "-r", "--format=%(objectname)", "main", "t-one"))) {
				if strings.Contains(text, "\nfrom: rig-a\n") {
					own++
				}
			}
			if own != c.count {
				t.Errorf("%d messages of the sender are in the history, not %d", own, c.count)
			}
		})
	}
}

// killAt starts a command, and kills it with all its children once a file is
// there.
func (w *world) killAt(cmd *exec.Cmd, file string) {
	w.t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.waitFor(file)
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	cmd.Wait()
}

// field returns the value of a token of a text line.
func field(line, key string) string {
	_, rest, _ := strings.Cut(line, key)
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return value
}

// TestKillWaits kills only a sync, not the git merge that it started: the next
// command waits for that, which holds the index.
func TestKillWaits(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	os.Mkdir(w.path("b/t-two"), 0o755)
	w.ok("b", "send", "HANDOFF", "--thread", "t-two", "--to", "peer")
	w.write("a/.git/info/attributes", "t-two/* filter=slow\n")
	w.config("a", "filter.slow.smudge", ": >"+w.path("reached")+"; sleep 2; cat")
	os.Mkdir(w.path("a/t-one"), 0o755)
	cmd := w.command("a", "sync", "--auto")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.waitFor("reached")
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := os.Lstat(w.path("a/.git/index.lock")); err != nil {
		t.Fatalf("git merge does not hold the index: %v", err)
	}
	w.ok("a", "send", "HANDOFF", "--thread", "t-one", "--to", "peer")
	if s := w.git("a", "status", "--porcelain", "--branch"); strings.Contains(s, "ahead") || strings.Contains(s, "t-one") {
		t.Errorf("left over: %s", s)
	}
}

// waitFor waits until a file is there, which a hook or filter makes.
func (w *world) waitFor(rel string) {
	w.t.Helper()
	for range 1000 {
		if _, err := os.Lstat(w.path(rel)); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("%s did not come", rel)
}

// allComplete fails if any message of a clone's work tree is torn.
func (w *world) allComplete(clone string) {
	w.t.Helper()
	files, _ := filepath.Glob(w.path(clone + "/*/*.md"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			w.t.Fatal(err)
		}
		if e, fs := envelope.Parse(data, envelope.Options{}); e == nil || !e.Valid() || e.Hash != e.BodyHash {
			w.t.Fatalf("%s is half written: %v", f, fs)
		}
	}
}
