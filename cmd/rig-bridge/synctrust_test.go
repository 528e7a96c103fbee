//go:build unix

package main

import (
	"os"
	"strings"
	"testing"
)

// TestFirstSignersArrive plays I08: a clone that was there before anybody signed
// gets the signers file together with the first relay. sync shows who is to be
// trusted from then on and takes it; so does send.
func TestFirstSignersArrive(t *testing.T) {
	for _, how := range []string{"sync", "send"} {
		w, line, relay := relaying(t)
		w.clone("old", "rig-old")
		w.config("op", "commit.gpgsign", "true")
		w.commitFiles("op", map[string]string{".bridge/allowed_signers": line})
		w.ok("op", relay...)
		o := w.run("old", "sync")
		for _, word := range []string{"new_envelopes=1", "fast_forward=true"} {
			if !strings.Contains(o.stdout, word) {
				t.Errorf("nothing says %s: %s%s", word, o.stdout, o.stderr)
			}
		}
		for _, word := range []string{".bridge/allowed_signers changes by commit", "Op op", "and this clone knows no signers yet", "+ \"op@example.com,op-relay ssh-ed25519 ", "`rig-bridge sync --auto` takes it"} {
			if !strings.Contains(o.stderr, word) {
				t.Errorf("nothing says %q: %s", word, o.stderr)
			}
		}
		if o.code != 0 {
			t.Errorf("exit %d", o.code)
		}
		if how == "sync" {
			if o = w.ok("old", "sync", "--auto"); !strings.Contains(o.stdout, "pulled=true") || !strings.Contains(o.stderr, "allowed_signers changes") {
				t.Error(o)
			}
			if o = w.ok("old", "thread", "t-one"); !strings.Contains(o.stdout, "verified") {
				t.Error(o.stdout)
			}
		} else {
			w.ok("old", "send", "ACK", "--thread", "t-one", "--to", "op-relay", "--tldr", "seen")
		}
	}
}

// TestKeysRotate: a clone that was away while keys changed takes the change that
// a listed signer made, and what the new key signed; and not one by anybody else.
func TestKeysRotate(t *testing.T) {
	w, line, relay := relaying(t)
	w.config("op", "commit.gpgsign", "true")
	w.commitFiles("op", map[string]string{".bridge/allowed_signers": line})
	w.clone("away", "rig-away")
	w.clone("fooled", "rig-fooled")
	next := w.operator("next")
	next = strings.Replace(next, "next@example.com,next-relay", "op@example.com,op-relay", 1)
	w.commitFiles("op", map[string]string{".bridge/allowed_signers": next})
	w.config("op", "user.signingkey", w.path("home/next"))
	w.ok("op", relay...)
	o := w.ok("away", "sync", "--auto")
	if !strings.Contains(o.stdout, "pulled=true") || !strings.Contains(o.stderr, "signed by op@example.com,op-relay SHA256:") || !strings.Contains(o.stderr, "- \"op@example.com") {
		t.Error(o)
	}
	// A stranger changes the signers: nobody takes it.
	bad := w.operator("bad")
	w.config("bad", "commit.gpgsign", "true")
	w.commitFiles("bad", map[string]string{".bridge/allowed_signers": next + bad})
	for _, clone := range []string{"away", "fooled"} {
		before := w.git(clone, "rev-parse", "HEAD")
		o = w.run(clone, "sync", "--auto")
		if o.code != 1 || w.git(clone, "rev-parse", "HEAD") != before || !strings.Contains(o.stderr, "which is not accepted") || !strings.Contains(o.stderr, "[commit-signed]") && !strings.Contains(o.stderr, "[signers-change]") {
			t.Error(clone, o)
		}
	}
}

// TestRelayWithoutSigners: where only the server knows who signs, the one who
// pulls is told what helps, not what the one who pushes could do.
func TestRelayWithoutSigners(t *testing.T) {
	w, line, relay := relaying(t)
	w.clone("b", "rig-b")
	w.write("signers", line)
	w.config("op", "rigward.allowedSigners", w.path("signers"))
	w.ok("op", relay...)
	o := w.run("b", "sync", "--auto")
	o.keeps(t, 2, "this clone knows no signers", "hint: ask who looks after the server for its signers file, then: git config rigward.allowedSigners FILE")
	w.config("b", "rigward.allowedSigners", w.path("signers"))
	if o := w.ok("b", "sync", "--auto"); !strings.Contains(o.stdout, "pulled=true") {
		t.Error(o)
	}
}

// TestCodeBesideThreads plays I11: what send takes, sync takes: a commit beside
// threads is no divergence where the policy allows it.
func TestCodeBesideThreads(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "rig-b")
	push := func(args ...string) {
		for _, c := range [][]string{{"pull", "-q", "--rebase", "--autostash"}, args, {"commit", "-q", "-m", "code"}, {"push", "-q"}} {
			w.git("a", c...)
		}
	}
	w.write("a/src/a.go", "package a\n")
	w.write("a/src/README.md", "# no envelope\n")
	push("add", "src")
	w.ok("b", "sync")
	if o := w.ok("b", "sync", "--auto"); !strings.Contains(o.stdout, "pulled=true fast_forward=true diverged=false new_envelopes=1") {
		t.Error(o)
	}
	w.write("a/src/a.go", "package b\n")
	push("add", "src")
	w.git("a", "mv", "src/README.md", "src/notes.md")
	push("rm", "-q", "src/a.go")
	w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "rig-a", "--tldr", "over code")
	w.ok("b", "sync", "--auto")
	// An edit in place is one as ever, and so is code where the policy denies it.
	w.pull("a")
	w.write("a/t-one/REQUEST.md", w.read("a/t-one/REQUEST.md")+"more\n")
	push("add", "t-one")
	w.run("b", "sync", "--auto").says(t, 1, "reason=non_append_change_on_remote", "t-one/REQUEST.md: modified by commit")
	w.git("a", "reset", "-q", "--hard", "HEAD~1")
	w.git("a", "push", "-q", "--force")
	w.git("b", "update-ref", "-d", "refs/remotes/origin/main")
	w.commitFiles("a", map[string]string{".bridge/policy.yaml": "version: 1\nenvelopes: {outside: deny}\n"})
	w.ok("b", "sync", "--auto")
	w.write("a/src/c.go", "package c\n")
	push("add", "src")
	w.run("b", "sync", "--auto").says(t, 1, "outside-thread")
}

// says checks the exit code, and words in either output.
func (o outcome) says(t testing.TB, code int, words ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit %d, expected %d\n%s%s", o.code, code, o.stdout, o.stderr)
	}
	for _, word := range words {
		if !strings.Contains(o.stdout+o.stderr, word) {
			t.Errorf("nothing says %q\n%s%s", word, o.stdout, o.stderr)
		}
	}
}

// TestKeysRotateTwice: a clone that was away for both pushes of a rotation, and for a
// revocation, is told who signed each change by whom was trusted at its time, and which
// keys are revoked; and what it has not pushed itself is not said to be others' doing.
func TestKeysRotateTwice(t *testing.T) {
	w, line, relay := relaying(t)
	w.config("op", "commit.gpgsign", "true")
	w.commitFiles("op", map[string]string{".bridge/allowed_signers": line})
	w.clone("away", "rig-away")
	next := strings.Replace(w.operator("next"), "next@example.com,next-relay", "op@example.com,op-relay", 1)
	w.commitFiles("op", map[string]string{".bridge/allowed_signers": line + next})
	w.config("op", "user.signingkey", w.path("home/next"))
	w.commitFiles("op", map[string]string{".bridge/allowed_signers": next})
	w.ok("op", relay...)
	_, key, _ := strings.Cut(line, " ")
	w.commitFiles("op", map[string]string{".bridge/policy.yaml": "version: 1\nrevoked: .bridge/revoked_keys\n", ".bridge/revoked_keys": key})
	o := w.ok("away", "sync")
	for _, word := range []string{".bridge/allowed_signers changes by commit", ".bridge/policy.yaml changes by commit", ".bridge/revoked_keys changes by commit"} {
		if _, told, ok := strings.Cut(o.stderr, word); !ok || !strings.HasPrefix(told[strings.Index(told, ">"):], ">\", signed by op@example.com,op-relay SHA256:") {
			t.Errorf("%s: %s", word, o.stderr)
		}
	}
	if !strings.Contains(o.stderr, "+ \"ssh-ed25519 ") || strings.Contains(o.stderr, "not accepted") {
		t.Error(o.stderr)
	}
	// This clone lists another key, unpushed, while others change the file.
	mine := w.operator("mine")
	w.git("mine", "reset", "-q", "--hard", "origin/main~1")
	w.write("mine/.bridge/allowed_signers", next+mine)
	w.git("mine", "commit", "-q", "-a", "-m", "mine")
	other := strings.Replace(mine, "mine", "other", 2)
	w.commitFiles("op", map[string]string{".bridge/allowed_signers": next + other})
	w.run("mine", "sync").says(t, 1, "reason=both_sides_diverged", "+ \"other@example.com,other-relay ")
	if o := w.run("mine", "sync"); strings.Contains(o.stderr, "- \"mine@example.com") {
		t.Error(o.stderr)
	}
	if o := w.ok("away", "sync", "--auto"); !strings.Contains(o.stdout, "pulled=true") {
		t.Error(o)
	}
}

// TestKeyTakenOutMeanwhile: a relay by a key that others took out, which this clone does
// not know yet, is refused, and the commit that the branch has is the one that is named.
func TestKeyTakenOutMeanwhile(t *testing.T) {
	w, line, relay := relaying(t)
	next := w.operator("next")
	for _, clone := range []string{"op", "next"} {
		w.git(clone, "config", "commit.gpgsign", "true")
	}
	w.commitFiles("op", map[string]string{".bridge/allowed_signers": line + next})
	w.pull("next")
	w.commitFiles("next", map[string]string{".bridge/allowed_signers": next})
	o := w.run("op", relay...)
	o.says(t, 1, "unknown key: no line lists the key SHA256:", "; the commit "+w.git("op", "rev-parse", "HEAD")[:7]+" of t-one/RELAY-", "is kept, do not send the message again")
	if ahead := strings.TrimSpace(w.git("op", "rev-list", "--count", "origin/main..HEAD")); ahead != "1" {
		t.Errorf("%s commits wait", ahead)
	}
	// The other one lists it again: the relay that is kept goes out.
	w.commitFiles("next", map[string]string{".bridge/allowed_signers": line + next})
	w.git("op", "pull", "-q", "--rebase", "--gpg-sign")
	w.push("op")
	w.pull("next")
	if o := w.ok("next", "thread", "t-one"); !strings.Contains(o.stdout, "signed by op@example.com") {
		t.Error(o.stdout)
	}
}
