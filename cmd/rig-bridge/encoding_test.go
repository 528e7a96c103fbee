package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestEncodings: whatever encodings git's configuration names, a message that
// was sent is UTF-8, and so is what status prints; a commit in another encoding
// keeps it when it is put on top of what others pushed.
func TestEncodings(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	os.Mkdir(w.path("a/t-one"), 0o755)
	os.Mkdir(w.path("b/t-one"), 0o755)
	w.config("a", "i18n.commitEncoding", "ISO-8859-1")
	w.config("a", "i18n.logOutputEncoding", "ISO-8859-1")
	w.ok("a", append(handoff, "--tldr", "Zoë", "--no-push")...)

	// A message that its author committed himself, in Latin-1.
	w.write("a/t-one/ACK.md", "---\nfrom: rig-a\nto: peer\ndate: 2026-01-01\nstatus: ▶ x\ntype: ACK\nthread: t-one\n---\nx\n")
	w.git("a", "add", "t-one/ACK.md")
	cmd := exec.Command("git", "commit", "-q", "-F", "-")
	cmd.Dir, cmd.Env, cmd.Stdin = w.path("a"), w.vars, strings.NewReader("ACK: No\xebl\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git commit: %v\n%s", err, out)
	}

	var o struct {
		Unpushed []string `json:"unpushed_commits"`
	}
	out := w.ok("a", "status", "--json").stdout
	if err := json.Unmarshal([]byte(out), &o); err != nil || len(o.Unpushed) != 2 || !strings.HasSuffix(o.Unpushed[0], " ACK: Noël") || !strings.HasSuffix(o.Unpushed[1], " HANDOFF: Zoë") {
		t.Errorf("%v %s", err, out)
	}

	w.ok("b", "send", "STATE", "--thread", "t-one", "--to", "peer")
	w.ok("a", append(handoff, "--tldr", "Chloë")...)
	got := w.git("b", "--git-dir", w.path("origin.git"), "log", "--encoding=UTF-8", "--format=%e:%s", "main", "-4")
	if want := ":HANDOFF: Chloë\nISO-8859-1:ACK: Noël\n:HANDOFF: Zoë\n:STATE: t-one/STATE.md\n"; got != want {
		t.Errorf("the server has\n%s, expected\n%s", got, want)
	}
}
