//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/programs"
)

// TestRelayOfTwo makes a decision for which the policy wants two people: on a
// branch that is not guarded, approved of by the other one, and then pushed.
func TestRelayOfTwo(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "op-relay", "--tldr", "May I?", "--open")
	question := w.bodyHash("a/t-one/REQUEST.md")
	w.commitFiles("a", map[string]string{
		".bridge/allowed_signers": w.operator("op") + w.operator("bob"),
		".bridge/policy.yaml":     "version: 1\nquorum: {of: [op@example.com, bob@example.com], relays: [{quorum: 2}]}\n",
	})
	w.push("a")
	w.hookServer()
	w.ok("op", "sync", "--auto")
	w.git("op", "remote", "set-head", "origin", "-a")

	// On the guarded branch nothing is written that could not be pushed.
	before := w.git("op", "rev-parse", "HEAD")
	relay := []string{"relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", question, "--tldr", "You may."}
	o := w.run("op", relay...)
	if o.code != 1 || !strings.Contains(o.stderr, "1 of quorum.of stand for this relay, the policy wants 2") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
	// The commit is gone, so that no hint names it.
	if !strings.Contains(o.stderr, "git switch -c proposal && git push -u origin proposal") || strings.Contains(o.stderr, "rig-hook approve") {
		t.Errorf("the hint: %s", o.stderr)
	}
	if now := w.git("op", "rev-parse", "HEAD"); now != before {
		t.Errorf("HEAD moved to %s", now)
	}

	w.git("op", "switch", "-q", "-c", "proposal")
	w.git("op", "push", "-q", "-u", "origin", "proposal")
	w.ok("op", relay...)
	if out, err := w.tryGit("op", "push", "-q", "origin", "HEAD:main"); err == nil || !strings.Contains(out, "[quorum]") {
		t.Fatalf("%v: %s", err, out)
	}
	hook := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(programs.Dir(t), "rig-hook"), args...)
		cmd.Dir, cmd.Env = w.path(dir), w.vars
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("rig-hook %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	// Bob reads it in his own clone, when his inbox tells of it.
	w.ok("bob", "sync", "--auto")
	w.git("bob", "fetch", "-q")
	w.git("bob", "remote", "set-head", "origin", "-a")
	if o := w.ok("bob", "inbox"); !strings.Contains(o.stdout, "approve=proposal by=op@example.com approvals=0") || !strings.Contains(o.stdout, " refused=0 proposals=1\n") ||
		!strings.Contains(o.stdout, "rig-hook approve origin/proposal --ref refs/heads/main") {
		t.Errorf("%s", o.stdout)
	}
	shown := hook("bob", "approve", "origin/proposal", "--ref", "refs/heads/main", "--write", w.path("text"))
	if !strings.Contains(shown, "You may.") || !strings.Contains(shown, "from: op-relay") {
		t.Errorf("what is approved of is not shown: %s", shown)
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-Y", "sign", "-n", "rigward-approval", "-f", w.path("home/bob"), w.path("text")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	hook("op", "approve", "HEAD", "--ref", "refs/heads/main", "--approval", w.path("text.sig"))
	w.git("op", "push", "-q", "origin", "HEAD:main")
	w.ok("bob", "sync", "--auto")
	if o := w.ok("bob", "inbox"); strings.Contains(o.stdout, "approve=") || strings.Contains(o.stdout, "proposals=") {
		t.Errorf("what is done still waits: %s", o.stdout)
	}
	w.ok("a", "sync", "--auto")
	if o := w.ok("a", "thread", "t-one"); !strings.Contains(o.stdout, "You may.") || !strings.Contains(o.stdout, "verified") || strings.Contains(o.stdout, "refused") {
		t.Errorf("%s", o.stdout)
	}

	// A reader does not take a decision of one for a decision, wherever it came from.
	w.git("op", "switch", "-q", "main")
	w.git("op", "reset", "-q", "--hard", "origin/main")
	w.git("op", "switch", "-q", "-C", "proposal")
	w.git("op", "push", "-q", "-f", "-u", "origin", "proposal")
	w.ok("op", "relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", question, "--tldr", "And more.")
	w.git("origin.git", "update-ref", "refs/heads/main", "refs/heads/proposal")
	w.pull("a")
	if o := w.ok("a", "thread", "t-one"); !strings.Contains(o.stdout, "quorum") {
		t.Errorf("a decision of one is shown as one: %s", o.stdout)
	}
}
