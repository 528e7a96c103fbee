package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestTurn: one of those who push to a branch has the turn, and what cannot be had does
// not keep anybody from pushing; a remote of this machine shows that its branch moved.
func TestTurn(t *testing.T) {
	gittest.NotShort(t)
	dir := gittest.TempDir(t)
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x"}
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, environ
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "--bare", "-b", "main", "origin.git")
	git("clone", "-q", "origin.git", "a")
	git("-C", "a", "checkout", "-q", "-B", "main")
	commit := func(clone string) string {
		git("-C", clone, "commit", "-q", "--allow-empty", "-m", clone)
		return git("-C", clone, "rev-parse", "HEAD")
	}
	first := commit("a")
	git("-C", "a", "push", "-q", "-u", "origin", "main")
	git("clone", "-q", "origin.git", "b")
	sender := func(ctx context.Context, clone string, environ []string) *delivery {
		r := &run{env: &Env{Environ: environ, Dir: filepath.Join(dir, clone), Memory: &Memory{}}, ctx: ctx, cmd: program().Find("send")}
		w, err := r.open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.close)
		target, err := w.target()
		if err != nil {
			t.Fatal(err)
		}
		return &delivery{run: r, w: w, p: &posted{target: target}}
	}
	a, b := sender(t.Context(), "a", environ), sender(t.Context(), "b", environ)
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		own := a.takeTurn()
		if !own.lasts() {
			t.Error("nobody has the turn, and it is not given")
		}
		if c := sender(t.Context(), "b", append(environ, "HOME="+t.TempDir())).takeTurn(); !c.lasts() {
			t.Error("another user's turn is waited for")
		}
		b.ctx = impatient
		if none := b.takeTurn(); none.lasts() {
			t.Error("two have the turn")
		}
		b.ctx = t.Context()
		own.end()
		own.end()
		next := b.takeTurn()
		if own.lasts() || !next.lasts() {
			t.Error("a turn that ended is not passed on")
		}
		next.end()
	}
	if sender(t.Context(), "b", append(environ, "HOME=", "XDG_STATE_HOME=")).takeTurn().lasts() {
		t.Error("a turn without a place to keep it")
	}

	over := func(d *delivery, commit string) bool { return d.w.overtaken(t.Context(), d.p.target, commit) }
	if over(a, first) || over(b, first) {
		t.Error("what is there is overtaken by itself")
	}
	second := commit("a")
	if over(a, second) {
		t.Error("what is on top of the remote's branch is overtaken")
	}
	third := commit("b")
	git("-C", "b", "push", "-q")
	if !over(a, second) {
		t.Error("a commit that is not here has overtaken ours, and is not seen")
	}
	git("-C", "a", "fetch", "-q")
	if !over(a, second) || over(a, third) {
		t.Error("a commit that was fetched has overtaken ours, and is not seen")
	}
	git("-C", "a", "config", "remote.origin.pushurl", filepath.Join(dir, "elsewhere.git"))
	if over(sender(t.Context(), "a", environ), second) {
		t.Error("where others are pushed to tells of where we push")
	}
}

// TestLockedBranch: where a server's git died while it moved the branch, its lock keeps
// every push away. The sender is told so, also if the server dies once more; when the
// lock is gone the same command sends the message.
func TestLockedBranch(t *testing.T) {
	gittest.NotShort(t)
	dir := gittest.TempDir(t)
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	git := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, environ
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	now := time.Now().Add(-time.Hour)
	bridge := func(step time.Duration, args ...string) (code int, told string) {
		var out bytes.Buffer
		code = Main(t.Context(), Env{Args: args, Environ: environ, Dir: filepath.Join(dir, "a"), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Rand: rand.Reader,
			Now: func() time.Time { now = now.Add(step); return now }})
		return code, out.String()
	}
	git("init", "-q", "--bare", "-b", "main", "origin.git")
	git("clone", "-q", "origin.git", "a")
	git("-C", "a", "config", "user.name", "a")
	git("-C", "a", "config", "user.email", "a@example.com")
	git("-C", "a", "checkout", "-q", "-B", "main")
	git("-C", "a", "commit", "-q", "--allow-empty", "-m", "one")
	git("-C", "a", "push", "-q", "-u", "origin", "main")
	if code, told := bridge(0, "init", "--rig-id", "rig-a", "--no-hooks"); code != 0 {
		t.Fatal(told)
	}
	if err := os.Mkdir(filepath.Join(dir, "a", "t-one"), 0o755); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "origin.git", "refs", "heads", "main.lock")
	if err := os.WriteFile(lock, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	send := []string{"send", "ACK", "--thread", "t-one", "--to", "peer", "--key", "k"}
	code, told := bridge(8*time.Second, send...)
	if code != 1 || !strings.Contains(told, "the branch over there is locked, also after ") || !strings.Contains(told, "main.lock': File exists") ||
		!strings.Contains(told, "is kept, do not send the message again") || !strings.Contains(told, "hint: who looks after the server removes that file, if no git runs there; then git push origin main:main") {
		t.Errorf("exit %d\n%s", code, told)
	}
	// At the next push the server dies before it comes to the lock.
	hook := filepath.Join(dir, "origin.git", "hooks", "update")
	script := "#!/bin/sh\n[ -e again ] && kill -9 $PPID\n: >again\n"
	if err := os.WriteFile(hook, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	code, told = bridge(0, send...)
	if code != 2 || !strings.Contains(told, "hung up unexpectedly") || !strings.Contains(told, "at the try before: ") || !strings.Contains(told, "main.lock': File exists") {
		t.Errorf("exit %d\n%s", code, told)
	}
	if os.Remove(hook) != nil || os.Remove(lock) != nil {
		t.Fatal("the lock cannot be removed")
	}
	if code, told = bridge(0, send...); code != 0 || !strings.Contains(told, "repeated=true") {
		t.Errorf("exit %d\n%s", code, told)
	}
}
