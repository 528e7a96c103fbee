package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// TestWhatCannotBeTakenBack plays I10: what nobody wrote is not sent, and what is
// piped in is.
func TestWhatCannotBeTakenBack(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	os.Mkdir(w.path("a/t-one"), 0o755)
	piped := func(text string, args ...string) outcome {
		cmd := w.command("a", args...)
		cmd.Stdin = strings.NewReader(text) // a pipe: it is not a file
		return finish(t, cmd)
	}
	send := []string{"send", "HANDOFF", "--thread", "t-one", "--to", "peer"}
	for name, body := range map[string]string{
		"empty": "", "white space": " \n\t\u00a0\u3000\n", "zero-width letters": "\u200b\u200d\ufeff\n", "controls": "\x01\x02", "a tag and a filler": "\U000e0041\u3164",
	} {
		w.write("body.md", body)
		before := w.state("a")
		w.run("a", append(send, "--body-file", "../body.md")...).keeps(t, 1, "holds no text", "hint: ")
		piped(body, append(send, "--body-file", "-")...).keeps(t, 1, "holds no text")
		if name != "empty" {
			piped(body, send...).keeps(t, 1, "standard input holds no text")
		}
		if after := w.state("a"); after != before {
			t.Errorf("%s: state\n%s\nbefore\n%s", name, after, before)
		}
	}
	last := func() string { return w.git("a", "show", "--format=", "HEAD") }
	if o := piped("Take over at 9.\n", send...); o.code != 0 || !strings.Contains(last(), "+Take over at 9.") {
		t.Error(o, last())
	}
	// A file is as good as a pipe, and a device is none.
	w.write("body.md", "From a file.\n")
	file, err := os.Open(w.path("body.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := w.command("a", send...)
	cmd.Stdin = file
	if o := finish(t, cmd); o.code != 0 || !strings.Contains(last(), "+From a file.") {
		t.Error(o, last())
	}
	if o := w.run("a", append(send, "--tldr", "nothing piped")...); o.code != 0 || !strings.Contains(last(), "+nothing piped") {
		t.Error(o, last())
	}
	if o := piped("", append(send, "--tldr", "an empty pipe")...); o.code != 0 || !strings.Contains(last(), "+an empty pipe") {
		t.Error(o, last())
	}
	// A slow writer is waited for, and one that writes nothing is not.
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd = w.command("a", send...)
	cmd.Stdin = r
	go func() {
		time.Sleep(300 * time.Millisecond)
		io.WriteString(wr, "Slowly")
		time.Sleep(time.Second)
		io.WriteString(wr, " said.\n")
		wr.Close()
	}()
	if o := finish(t, cmd); o.code != 0 || !strings.Contains(last(), "+Slowly said.") {
		t.Error(o, last())
	}
	r.Close()
	r, wr, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := w.state("a")
	cmd = w.command("a", send...)
	cmd.Stdin = r
	finish(t, cmd).keeps(t, 1, "nothing came", "hint: --body-file - waits for it; </dev/null says that there is none")
	wr.Close()
	r.Close()
	if after := w.state("a"); after != before {
		t.Errorf("state\n%s\nbefore\n%s", after, before)
	}
}

// TestScaffoldThatNobodyEdited is the rest of I10.
func TestScaffoldThatNobodyEdited(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.ok("a", "new", "t-one")
	const file = "a/t-one/REQUEST.md"
	made := w.read(file)
	front, _, _ := strings.Cut(made, "\n# ")
	send := []string{"send", "REQUEST", "--thread", "t-one", "--to", "peer"}
	for name, c := range map[string]struct{ text, words string }{
		"as it was made":           {made, "is as `rig-bridge new` made it"},
		"white space only":         {strings.ReplaceAll(made, "\n\n", "\n\n\n") + "  \n", "is as `rig-bridge new` made it"},
		"with a recipient only":    {strings.Replace(made, `"?"`, "peer", 1), "is as `rig-bridge new` made it"},
		"the heading only":         {front + "\n# t-one\n", "is as `rig-bridge new` made it"},
		"emptied":                  {front + "\n", "is as `rig-bridge new` made it"},
		"YAML that does not parse": {strings.Replace(made, "type: REQUEST", "type: [REQUEST", 1) + "Please.\n", "cannot be sent"},
		"from another rig":         {strings.Replace(made, "from: rig-a", "from: rig-b", 1) + "Please.\n", `it is from "rig-b"`},
		"without front matter":     {"Please build it.\n", "cannot be sent"},
		"with a body hash":         {strings.Replace(made, "thread: t-one", "thread: t-one\nbody_hash: "+strings.Repeat("0", 64), 1) + "Please.\n", "body_hash"},
	} {
		w.write(file, c.text)
		before := w.state("a")
		w.run("a", send...).keeps(t, 1, c.words, "hint: ")
		if after := w.state("a"); after != before || w.read(file) != c.text {
			t.Errorf("%s: state\n%s\nbefore\n%s", name, after, before)
		}
	}
	// Each way on that the hints name.
	w.write(file, made)
	for i, way := range []func() outcome{
		func() outcome {
			w.write("body.md", "By file.\n")
			return w.run("a", append(send, "--body-file", "../body.md")...)
		},
		func() outcome {
			cmd := w.command("a", send...)
			cmd.Stdin = strings.NewReader("By pipe.\n")
			return finish(t, cmd)
		},
		func() outcome { w.write(file, w.read(file)+"\nBy hand.\n"); return w.run("a", send...) },
	} {
		if i > 0 {
			w.git("a", "rm", "-q", "-r", "--cached", "t-one")
			w.git("a", "commit", "-q", "-m", "again")
			os.RemoveAll(w.path("a/t-one"))
			w.push("a")
			w.ok("a", "new", "t-one")
		}
		if o := way(); o.code != 0 || !strings.Contains(w.git("a", "show", "--format=", "HEAD"), []string{"+By file.", "+By pipe.", "+By hand."}[i]) ||
			!strings.Contains(o.stdout, "file=t-one/REQUEST.md") {
			t.Error(i, o, w.git("a", "show", "HEAD"))
		}
	}
	// What the scaffold says of itself is not sent along.
	if text := w.git("a", "show", "--format=", "HEAD"); strings.Contains(text, "What is asked") {
		t.Error(text)
	}
	// Two bodies are one too many.
	w.ok("a", "new", "t-two")
	w.write("a/t-two/REQUEST.md", w.read("a/t-two/REQUEST.md")+"\nBy hand.\n")
	w.run("a", "send", "REQUEST", "--thread", "t-two", "--to", "peer", "--body-file", "../body.md").keeps(t, 1, "two bodies")
}
