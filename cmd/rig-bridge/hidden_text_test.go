package main

import (
	"os"
	"strings"
	"testing"
)

// What holds hidden text is refused before anything is written, by every verb
// that sends; what is lawful goes out.
func TestHiddenText(t *testing.T) {
	const hidden = "Ready?\U000e004f\U000e004b\n"
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	w.write("body.md", hidden)
	os.Mkdir(w.path("a/t-one"), 0o755)
	head := w.git("a", "rev-parse", "HEAD")
	refused := func(dir string, args ...string) {
		t.Helper()
		o := w.run(dir, args...)
		if o.code != 1 || !strings.Contains(o.stderr, "[hidden-text]") || !strings.Contains(o.stderr, "\nhint: say it without that character") || strings.ContainsRune(o.stdout+o.stderr, 0xe004f) {
			t.Errorf("rig-bridge %s: exit %d\n%s%s", strings.Join(args, " "), o.code, o.stdout, o.stderr)
		}
	}
	refused("a", "send", "REQUEST", "--thread", "t-one", "--to", "rig-b", "--body-file", w.path("body.md"))
	refused("a", "send", "REQUEST", "--thread", "t-one", "--to", "rig-b", "--tldr", "Ready\u200b")
	refused("a", "send", "REQUEST", "--thread", "t-one", "--to", "rig-b", "--status", "▶ Ready\u2060")
	if now := w.git("a", "rev-parse", "HEAD"); now != head {
		t.Error("a commit was made")
	}
	if files, _ := os.ReadDir(w.path("a/t-one")); len(files) > 0 {
		t.Errorf("%v was written", files)
	}
	w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "rig-b", "--tldr", "می\u200cخواهم 👩\u200d🚀")
	w.pull("b")
	refused("b", "reply", "t-one", "--type", "STATE", "--body-file", w.path("body.md"))
	refused("b", "close", "t-one", "--status", "completed", "--note", "Done\u200b")
	w.write("a/t-one/x.md", strings.Replace(w.read("a/t-one/REQUEST.md"), "Ready", "", 1)+hidden)
	if o := w.run("a", "validate", "t-one/x.md"); o.code != 1 || !strings.Contains(o.stdout, "[hidden-text]") {
		t.Errorf("validate: exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	os.Remove(w.path("a/t-one/x.md"))
	// A policy may lower the rule.
	w.commitFiles("b", map[string]string{".bridge/policy.yaml": "version: 1\nrules: {hidden-text: warning}\n"})
	w.pull("a")
	w.ok("a", "send", "STATE", "--thread", "t-one", "--to", "rig-b", "--body-file", w.path("body.md"))
}
