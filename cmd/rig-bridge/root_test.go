//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
)

// TestBranchIsNotItsOwnRootOfTrust plays J05 where it is read: on another branch
// than the remote's default one, what is in the branch's own .bridge counts for
// nothing. What the default branch's signers sign is taken there as well.
func TestBranchIsNotItsOwnRootOfTrust(t *testing.T) {
	w, line, relay := relaying(t)
	w.config("op", "commit.gpgsign", "true")
	w.commitFiles("op", map[string]string{".bridge/allowed_signers": line})
	bad := w.operator("bad")
	w.config("bad", "commit.gpgsign", "true")
	w.git("bad", "switch", "-q", "-c", "release")
	w.git("bad", "push", "-q", "-u", "origin", "release")
	w.commitFiles("bad", map[string]string{".bridge/allowed_signers": bad})
	w.clone("victim", "rig-v")
	w.git("victim", "switch", "-q", "release")
	// Its own machine may believe what it likes.
	w.write("theirs", bad)
	w.run("bad", relay...).keeps(t, 1, "is not listed in .bridge/allowed_signers")
	w.config("bad", "rigward.allowedSigners", w.path("theirs"))
	w.ok("bad", relay...)
	before := w.git("victim", "rev-parse", "HEAD")
	o := w.run("victim", "sync", "--auto")
	if o.code != 1 || !strings.Contains(o.stderr, "[commit-signed]") || w.git("victim", "rev-parse", "HEAD") != before {
		t.Error(o)
	}
	if strings.Contains(o.stderr, "allowed_signers changes") {
		t.Error("it is asked whom to trust by a file that does not count:", o)
	}
	// The lawful neighbour: a branch that has no signers file at all.
	w.git("op", "switch", "-q", "-c", "lawful", "HEAD~")
	w.git("op", "push", "-q", "-u", "origin", "lawful")
	w.clone("reader", "rig-r")
	w.git("reader", "switch", "-q", "lawful")
	w.ok("op", relay...)
	if o := w.ok("reader", "sync", "--auto"); !strings.Contains(o.stdout, "pulled=true") {
		t.Error(o)
	}
	if o := w.ok("reader", "thread", "t-one"); !strings.Contains(o.stdout, "verified") {
		t.Error(o.stdout)
	}
}

// TestSyncComparesNonces: where the policy wants nonces to be new among all
// protected refs, a clone compares what comes with the protected branches that it
// has fetched.
func TestSyncComparesNonces(t *testing.T) {
	for _, scope := range []string{"refs", "ref"} {
		w, line, relay := relaying(t)
		w.config("op", "commit.gpgsign", "true")
		w.commitFiles("op", map[string]string{".bridge/allowed_signers": line,
			".bridge/policy.yaml": "version: 1\nprotect: [\"release/*\"]\nrelay:\n  nonce-scope: " + scope + "\n"})
		w.git("op", "push", "-q", "origin", "HEAD:refs/heads/release/1")
		w.clone("b", "rig-b")
		w.git("b", "switch", "-q", "release/1")
		w.ok("op", relay...)
		first := w.read("op/" + strings.TrimSpace(w.git("op", "ls-files", "t-one/RELAY-*")))
		w.git("op", "switch", "-q", "release/1")
		w.write("op/t-one/DECISIONS-other.md", again(first, "Something else\n"))
		w.git("op", "add", ".")
		w.git("op", "commit", "-q", "-m", "again")
		w.push("op")
		w.git("b", "fetch", "-q")
		o := w.run("b", "sync", "--auto")
		if refused := o.code == 1 && strings.Contains(o.stderr, "[relay-nonce]"); refused != (scope == "refs") || !refused && o.code != 0 {
			t.Error(scope, o)
		}
	}
}

// again is a relay with another body, and the nonce that it had.
func again(text, body string) string {
	head, _, _ := strings.Cut(strings.TrimPrefix(text, "---\n"), "\n---\n")
	lines := strings.Split(head, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "body_hash: ") {
			lines[i] = `body_hash: "` + envelope.BodyHash([]byte(body)) + `"`
		}
	}
	return "---\n" + strings.Join(lines, "\n") + "\n---\n" + body
}
