//go:build unix

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/testkeys"
)

// operator makes a clone whose rig is a relay, with a signing key, and returns
// its line for the signers file.
func (w *world) operator(name string) string {
	w.t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		w.t.Skipf("ssh-keygen, with which git signs, is not installed: %v", err)
	}
	file, key := w.path("home/"+name), testkeys.Ed25519(name)
	w.write("home/"+name, string(key.PEM()))
	w.write("home/"+name+".pub", key.Authorized()+"\n")
	if err := os.Chmod(file, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.clone(name, name+"-relay")
	w.set(name, "gpg.format", "ssh")
	w.set(name, "user.signingkey", file+".pub")
	return name + "@example.com," + name + "-relay " + key.Authorized() + "\n"
}

func (w *world) frozenUntil(clone string) string {
	w.t.Helper()
	var o struct {
		Threads []struct {
			FrozenUntil string `json:"frozen_until"`
		} `json:"threads"`
	}
	if err := json.Unmarshal([]byte(w.ok(clone, "status", "--json").stdout), &o); err != nil || len(o.Threads) != 1 {
		w.t.Fatalf("%v: %d threads", err, len(o.Threads))
	}
	return o.Threads[0].FrozenUntil
}

// An operator's freeze shows in status, keeps what others have not pushed yet
// from getting on top of it, and ends with the next relay.
func TestFreeze(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	line := w.operator("op")
	w.commitFiles("a", map[string]string{
		".bridge/policy.yaml":     "version: 1\nrules:\n  relay-frozen: error\n",
		".bridge/allowed_signers": line,
	})
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "peer")
	question := w.bodyHash("a/t-one/REQUEST.md")
	w.pull("op")
	if until := w.frozenUntil("op"); until != "" {
		t.Errorf("frozen until %s before any freeze", until)
	}
	w.ok("op", "relay", "ACK", "--thread", "t-one", "--in-reply-to", question, "--status", "⏸ deciding")
	if until := w.frozenUntil("op"); !strings.HasSuffix(until, "Z") {
		t.Errorf("frozen until %q", until)
	}
	// Rig A has not seen it: its push is rejected, and nothing is put on top.
	o := w.run("a", handoff...)
	o.keeps(t, 1, "frozen", "t-one/HANDOFF.md is kept", "do not send the message again")
	if n := w.git("origin.git", "rev-list", "--count", "main"); n != "4\n" {
		t.Errorf("the server has %s commits, expected the seed, the policy, a request and a relay", n)
	}
	// The thaw ends it, and the kept message goes out with the next one.
	w.ok("op", "relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", question)
	if until := w.frozenUntil("op"); until != "" {
		t.Errorf("frozen until %s after the thaw", until)
	}
	w.ok("a", "send", "STATE", "--thread", "t-one", "--to", "peer")
	if names := w.git("origin.git", "ls-tree", "--name-only", "main", "t-one/"); !strings.Contains(names, "HANDOFF.md") || !strings.Contains(names, "STATE.md") {
		t.Errorf("the server holds\n%s", names)
	}
}

// A freeze counts only where the policy knows freezes.
func TestNoFreeze(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.commitFiles("a", map[string]string{".bridge/allowed_signers": w.operator("op")})
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "peer")
	w.pull("op")
	w.ok("op", "relay", "ACK", "--thread", "t-one", "--in-reply-to", w.bodyHash("a/t-one/REQUEST.md"), "--status", "⏸ deciding")
	if until := w.frozenUntil("op"); until != "" {
		t.Errorf("frozen until %s", until)
	}
	w.ok("a", handoff...)
}

// A relay that every gate would refuse is not even signed.
func TestUnlistedKey(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	line, other := w.operator("op"), w.operator("other")
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "peer")
	relay := []string{"relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", w.bodyHash("a/t-one/REQUEST.md"), "--no-push"}
	for _, c := range []struct{ words, line string }{
		{`for the rig "op-relay"`, strings.Replace(line, "op-relay", "other-relay", 1)},
		{"for user.email", strings.Replace(line, "op@example.com", "x@example.com", 1)},
		{"for commits", strings.Replace(line, " ", ` namespaces="file" `, 1)},
		{"has expired", strings.Replace(line, " ", ` valid-before="20200101" `, 1)},
		{"not yet valid", strings.Replace(line, " ", ` valid-after="29990101" `, 1)},
		{"is not listed in", other},
	} {
		w.commitFiles("a", map[string]string{".bridge/allowed_signers": c.line})
		w.pull("op")
		before := w.state("op")
		w.run("op", relay...).keeps(t, 1, c.words)
		if after := w.state("op"); after != before {
			t.Errorf("%s: state\n%s\nbefore\n%s", c.words, after, before)
		}
	}
	w.commitFiles("a", map[string]string{".bridge/allowed_signers": line})
	w.pull("op")
	w.ok("op", relay...)
}

// The whole way in a SHA-256 repository.
func TestSHA256(t *testing.T) {
	w := newWorld(t)
	w.git(".", "init", "-q", "--bare", "-b", "main", "--object-format=sha256", "origin.git")
	w.git(".", "init", "-q", "-b", "main", "--object-format=sha256", "seed")
	w.write("seed/seed.txt", "seed\n")
	w.git("seed", "add", ".")
	w.git("seed", "-c", "user.name=S", "-c", "user.email=s@example.com", "commit", "-q", "-m", "seed")
	w.git("seed", "push", "-q", w.path("origin.git"), "main")
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	for _, name := range []string{"a", "b"} {
		os.Mkdir(w.path(name+"/t-one"), 0o755)
	}
	w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "rig-b")
	// B was not first: its message is put on top.
	var sent struct {
		Commit  string `json:"commit"`
		Pushed  bool   `json:"pushed"`
		Retries int    `json:"retries"`
	}
	o := w.ok("b", "send", "HANDOFF", "--thread", "t-one", "--to", "rig-a", "--json")
	if err := json.Unmarshal([]byte(o.stdout), &sent); err != nil || len(sent.Commit) != 64 || !sent.Pushed || sent.Retries != 1 {
		t.Errorf("%v\n%s", err, o.stdout)
	}
	o = w.ok("a", "sync", "--auto")
	if !strings.Contains(o.stdout, "pulled=true") || !strings.Contains(o.stdout, "new_envelopes=1") {
		t.Error(o.stdout)
	}
	w.ok("a", "close", "t-one", "--status", "completed")
	o = w.ok("a", "status")
	if !strings.Contains(o.stdout, "open=0 closed=1 dirty=0 unpushed=0") {
		t.Error(o.stdout)
	}
	if o = w.ok("a", "thread", "t-one", "--json"); strings.Count(o.stdout, `"commit_sha":"`) != 3 {
		t.Error(o.stdout)
	}
}

// Where the policy keeps the threads below another directory the client says
// so instead of writing where nobody judges.
func TestThreadsElsewhere(t *testing.T) {
	w := faultWorld(t)
	w.commitFiles("a", map[string]string{".bridge/policy.yaml": "version: 1\nenvelopes:\n  root: bridge\n"})
	before := w.state("a")
	for _, args := range [][]string{handoff, {"new", "t-two"}, {"close", "t-one", "--status", "completed"}, {"status"}, {"thread", "t-one"}} {
		w.run("a", args...).keeps(t, 1, "envelopes.root", `"bridge"`)
	}
	if after := w.state("a"); after != before {
		t.Errorf("state\n%s\nbefore\n%s", after, before)
	}
}

// A relay with hidden text is not made.
func TestRelayHidden(t *testing.T) {
	w, question := crossing(t)
	head := w.git("op", "rev-parse", "HEAD")
	o := w.run("op", "relay", "RESPONSE", "--thread", "t-one", "--in-reply-to", question, "--tldr", "Yes\U000e0041")
	if o.code != 1 || !strings.Contains(o.stderr, "[hidden-text]") || w.git("op", "rev-parse", "HEAD") != head {
		t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}
