package main

import (
	"os"
	"strings"
	"testing"
)

// TestReplies finds the message that is answered by its hash, its file or as the
// newest of the others, and refers to the commit that brought it.
func TestReplies(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	for _, dir := range []string{"a", "b"} {
		os.Mkdir(w.path(dir+"/t-one"), 0o755)
	}
	say := func(dir, typ, text string, args ...string) outcome {
		w.write("body.md", text+"\n")
		return w.run(dir, append([]string{"send", typ, "--thread", "t-one", "--to", "rig-a,rig-b", "--body-file", "../body.md"}, args...)...)
	}
	done := func(o outcome) {
		t.Helper()
		if o.code != 0 {
			t.Fatal(o)
		}
	}
	done(say("a", "REQUEST", "first"))
	done(say("a", "STATE", "second"))
	w.ok("b", "sync", "--auto")
	first, second := w.bodyHash("a/t-one/REQUEST.md"), w.bodyHash("a/t-one/STATE.md")
	commit := func(path string) string {
		return strings.TrimSpace(w.git("b", "rev-list", "-1", "HEAD", "--", path))
	}
	for _, c := range []struct{ reply, hash, path string }{
		{first, first, "t-one/REQUEST.md"}, {"REQUEST.md", first, "t-one/REQUEST.md"}, {"t-one/STATE.md", second, "t-one/STATE.md"},
		{"last", second, "t-one/STATE.md"},
	} {
		o := say("b", "ACK", "answer to "+c.reply, "--in-reply-to", c.reply)
		done(o)
		text := w.git("b", "show", "--format=", "HEAD")
		if !strings.Contains(text, "+in_reply_to: "+c.hash) || !strings.Contains(text, commit(c.path)) || strings.Contains(o.stderr, "warning") {
			t.Errorf("%s: %s%s", c.reply, o.stderr, text)
		}
	}
	// A reference that was given is not repeated, and what is not pushed is not
	// referred to: its id may change.
	done(say("b", "ACK", "once", "--in-reply-to", "REQUEST.md", "--ref", commit("t-one/REQUEST.md")[:12]))
	if text := w.git("b", "show", "--format=", "HEAD"); strings.Count(text, commit("t-one/REQUEST.md")[:12]) != 1 {
		t.Error(text)
	}
	w.ok("a", "sync", "--auto")
	done(say("a", "HANDOFF", "not pushed", "--no-push"))
	done(say("a", "RESULT", "an answer to myself", "--in-reply-to", "HANDOFF.md"))
	if text := w.git("a", "show", "--format=", "HEAD"); !strings.Contains(text, "+in_reply_to: ") || strings.Contains(text, "references") {
		t.Error(text)
	}
	for reply, words := range map[string]string{
		"first": "is not a body hash", "other/REQUEST.md": "is not in the thread", "t-one/x/y.md": "is not a body hash",
		"NONE.md": "is not a committed message", strings.Repeat("0", 64): "is the body hash of no committed message",
	} {
		say("b", "ACK", "x", "--in-reply-to", reply).keeps(t, 1, words, "hint: ")
	}
	os.Mkdir(w.path("a/t-two"), 0o755)
	w.run("a", "send", "ACK", "--thread", "t-two", "--to", "rig-b", "--in-reply-to", "last").keeps(t, 1, "no other rig has a committed message")
}
