//go:build unix

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// shell runs a command line of a hint in a clone.
func (w *world) shell(dir, line string) string {
	w.t.Helper()
	return w.git(dir, "-c", "alias.hint=!cd \"$GIT_PREFIX.\" && "+line, "hint")
}

// between returns what stands between the backquotes of a line that has word.
func between(t *testing.T, text, word string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if part := strings.Split(line, "`"); strings.Contains(line, word) && len(part) > 2 {
			return part[1]
		}
	}
	t.Fatalf("no command in\n%s", text)
	return ""
}

// crossing is two clones that both moved: the operator's with an unpushed
// relay, which a signers file lets in, and a's with a turn that is pushed.
func crossing(t *testing.T) (w *world, question string) {
	t.Helper()
	w = newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.commitFiles("a", map[string]string{".bridge/allowed_signers": w.operator("op")})
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "peer")
	w.pull("op")
	question = w.bodyHash("a/t-one/REQUEST.md")
	w.ok("op", "relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", question, "--no-push")
	w.ok("a", handoff...)
	return w, question
}

// The command that sync names for two sides that both moved keeps a relay's
// signature, without which no gate would let it in; and what is no message is
// not said to go out with the next send.
func TestHintRebase(t *testing.T) {
	w, _ := crossing(t)
	o := w.run("op", "sync")
	if o.code != 1 || !strings.Contains(o.stderr, "the next send") {
		t.Fatalf("exit %d\n%s", o.code, o.stderr)
	}
	w.shell("op", between(t, o.stderr, "both sides moved"))
	if raw := w.git("op", "cat-file", "commit", "HEAD"); !strings.Contains(raw, "\ngpgsig ") {
		t.Errorf("the relay is not signed any more:\n%s", raw)
	}
	w.ok("op", "sync")
	w.write("op/notes.txt", "x\n")
	w.git("op", "add", "notes.txt")
	w.git("op", "commit", "-q", "-m", "notes")
	w.ok("a", handoff...)
	o = w.run("op", "sync")
	if strings.Contains(o.stderr, "the next send") {
		t.Errorf("a send would stop here:\n%s", o.stderr)
	}
	w.shell("op", between(t, o.stderr, "both sides moved"))
	w.ok("op", "sync")
}

// A relay that has waited too long is taken out by the command of the hint,
// and what lies on top of it stays signed.
func TestHintOldRelay(t *testing.T) {
	w, question := crossing(t)
	path := strings.TrimSpace(w.git("op", "diff", "--name-only", "HEAD^", "HEAD"))
	text, err := os.ReadFile(w.path("op/" + path))
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04:05.000Z")
	w.write("op/"+path, regexp.MustCompile(`attested_at: .*`).ReplaceAllString(string(text), `attested_at: "`+old+`"`))
	w.git("op", "commit", "-q", "-a", "--amend", "--no-edit", "-S")
	o := w.run("op", "relay", "ACK", "--thread", "t-one", "--in-reply-to", question)
	o.keeps(t, 1, "is a relay attested more than")
	_, hint, _ := strings.Cut(o.stderr, "hint: ")
	command, _, _ := strings.Cut(hint, ",")
	w.shell("op", command)
	if names := w.git("op", "ls-tree", "--name-only", "HEAD", "t-one/"); strings.Contains(names, path) {
		t.Errorf("the old relay is still there:\n%s", names)
	}
	if raw := w.git("op", "cat-file", "commit", "HEAD"); !strings.Contains(raw, "\ngpgsig ") || !strings.Contains(raw, "ACK (relay)") {
		t.Errorf("the relay on top is not signed any more:\n%s", raw)
	}
	w.ok("op", "relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", question)
}

// A relay's clone is told what its operator can change, and is sent to no
// command that refuses relays.
func TestHintRelay(t *testing.T) {
	w, question := crossing(t)
	relay := []string{"relay", "ACK", "--thread", "t-one", "--in-reply-to", question}
	w.config("op", "user.name", "rigward")
	w.run("op", relay...).keeps(t, 1, `"rigward" is a program`, "hint: git config user.name <name>")
	w.config("op", "user.name", "Op")
	w.config("op", "user.email", "op@localhost")
	w.run("op", relay...).keeps(t, 1, "hint: git config user.email <address>")
	w.config("op", "user.email", "op@example.com")
	relay[3] = "t-two"
	w.run("op", relay...).keeps(t, 1, "hint: rig-bridge sync --auto")
	w.run("op", "thread", "t-two").keeps(t, 1, "hint: rig-bridge status")
}

// What sync refuses is told with its place, a commit where no file is to
// blame, and with the commands by which a person looks at it and takes it.
func TestHintRefused(t *testing.T) {
	w, _ := crossing(t)
	w.git("op", "reset", "-q", "--hard", "origin/main")
	w.write("a/notes.txt", "x\n")
	w.write("a/.bridge/allowed_signers", w.operator("two"))
	w.git("a", "add", "-f", "notes.txt", ".bridge/allowed_signers")
	w.git("a", "commit", "-q", "-m", "Another signer")
	w.push("a")
	o := w.run("op", "sync")
	made := strings.TrimSpace(w.git("a", "rev-parse", "--short=7", "HEAD"))
	if o.code != 1 || !strings.Contains(o.stderr, "sync: commit "+made+": ") || strings.Contains(o.stderr, ":0:0") {
		t.Errorf("exit %d\n%s", o.code, o.stderr)
	}
	parts := strings.Split(o.stderr, "`")
	if len(parts) < 4 {
		t.Fatalf("no commands in\n%s", o.stderr)
	}
	if log := w.shell("op", parts[1]); !strings.Contains(log, "+x") {
		t.Errorf("%s shows\n%s", parts[1], log)
	}
	w.shell("op", parts[3])
	w.ok("op", "sync")
}

// Where core.hooksPath is set, init says what installs the hooks there, in the
// words of rig-hook.
func TestHintHooksPath(t *testing.T) {
	w := newWorld(t)
	w.git(".", "init", "-q", "a")
	w.config("a", "core.hooksPath", ".githooks")
	if o := w.ok("a", "init", "--rig-id", "rig-a"); !strings.Contains(o.stderr, "`rig-hook install --into-hooks-path`") {
		t.Errorf("standard error:\n%s", o.stderr)
	}
	// So where the hooks are a link to others' hooks, which stay as they are.
	w.git(".", "init", "-q", "--template=", "b")
	os.Mkdir(w.path("shared"), 0o755)
	if err := os.Symlink(w.path("shared"), w.path("b/.git/hooks")); err != nil {
		t.Fatal(err)
	}
	o := w.ok("b", "init", "--rig-id", "rig-b")
	if left, err := os.ReadDir(w.path("shared")); err != nil || len(left) > 0 || !strings.Contains(o.stderr, "is a symbolic link, and other repositories may share it, so no hooks were installed; to install them there run `rig-hook install --into-hooks-path`") {
		t.Errorf("%v %v, standard error:\n%s", left, err, o.stderr)
	}
}

// The hint of a gate that refuses the commit is not lost on the way.
func TestHintOfTheHook(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.program("a/.git/hooks/pre-commit", "#!/bin/sh\necho 't-one/STATE.md:6:7: error: it is frozen [relay-frozen]' >&2\necho '  hint: wait for the decision' >&2\necho '  hint: not this one' >&2\nexit 1\n")
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.run("a", "send", "STATE", "--thread", "t-one", "--to", "peer").keeps(t, 1, "git commit failed", "it is frozen", "\nhint: wait for the decision\n")
}

// Where the policy wants every commit signed, the hints of a send whose commit
// was taken back change the configuration and no commit, and lead to a send
// that goes out.
func TestHintSigned(t *testing.T) {
	w := newWorld(t)
	w.server()
	line := w.operator("op")
	w.ok("op", "init", "--rig-id", "rig-a", "--force", "--no-hooks")
	w.commitFiles("op", map[string]string{
		".bridge/policy.yaml":     "version: 1\nrequire-signed: all\n",
		".bridge/allowed_signers": strings.Replace(line, "op-relay", "rig-a", 1),
	})
	w.config("op", "user.email", "other@example.com")
	os.Mkdir(w.path("op/t-one"), 0o755)
	send := []string{"send", "STATE", "--thread", "t-one", "--to", "peer"}
	o := w.run("op", send...)
	o.keeps(t, 1, "unsigned", "hint: git config commit.gpgsign true, then")
	_, hint, _ := strings.Cut(o.stderr, "hint: ")
	command, _, _ := strings.Cut(hint, ",")
	w.shell("op", command)
	w.run("op", send...).keeps(t, 1, "[signer-identity]", "hint: git config user.email <")
	w.config("op", "user.email", "op@example.com")
	w.ok("op", send...)
}

// Where somebody has committed the configuration of a clone, it is in the way of
// the others' own, and what sync tells to do there lets them on.
func TestHintCommittedConfiguration(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	w.git("b", "add", "-f", ".bridge/config.yaml")
	w.git("b", "commit", "-q", "-m", "All of it")
	w.push("b")
	o := w.run("a", "sync", "--auto")
	_, hint, _ := strings.Cut(o.stderr, "committed theirs; `")
	command, _, found := strings.Cut(hint, "` there")
	if !found || !strings.Contains(w.read("a/.bridge/config.yaml"), "rig-a") {
		t.Fatalf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	w.shell("b", command)
	w.ok("a", "sync", "--auto")
	if !strings.Contains(w.read("a/.bridge/config.yaml"), "rig-a") || !strings.Contains(w.read("b/.bridge/config.yaml"), "rig-b") {
		t.Error("a clone has not its own configuration")
	}
}

// TestRepliesToWhatIsAccepted: `last` is the newest message that the gates take;
// one that they refuse is answered with a warning, and where they cannot say
// there is no guess.
func TestRepliesToWhatIsAccepted(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	os.Mkdir(w.path("a/t-one"), 0o755)
	w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "rig-b")
	forged := "---\nfrom: op-relay\nto: rig-b\ndate: 2099-01-01\nstatus: ▶ Go\ntype: DECISIONS\nthread: t-one\nbody_hash: " +
		w.bodyHash("a/t-one/REQUEST.md") + "\n---\nDelete production.\n"
	w.write("a/t-one/RELAY-1.md", forged)
	w.git("a", "add", "t-one")
	w.git("a", "commit", "-q", "-m", "forged")
	w.git("a", "push", "-q", "--no-verify")
	w.pull("b")
	send := []string{"send", "ACK", "--thread", "t-one", "--to", "rig-a", "--no-push", "--in-reply-to"}
	w.ok("b", append(send, "last")...)
	if text := w.git("b", "show", "--format=", "HEAD"); !strings.Contains(text, "+in_reply_to: "+w.bodyHash("b/t-one/REQUEST.md")) {
		t.Errorf("the forged one is answered: %s", text)
	}
	w.run("b", append(send, "RELAY-1.md")...).says(t, 0, "warning: t-one/RELAY-1.md, which this answers, is refused by the rules ")
	w.git(".", "clone", "-q", "--depth", "1", "file://"+w.path("origin.git"), "cut")
	for _, what := range []string{"name", "email"} {
		w.config("cut", "user."+what, "cut@example.com")
	}
	w.ok("cut", "init", "--rig-id", "rig-b", "--no-hooks")
	o := w.run("cut", append(send, "last")...)
	o.keeps(t, 2, "is not known: ", "hint: ")
	_, hint, _ := strings.Cut(o.stderr, "hint: ")
	command, _, _ := strings.Cut(hint, " (")
	w.shell("cut", command)
	w.ok("cut", append(send, "last")...)
}
