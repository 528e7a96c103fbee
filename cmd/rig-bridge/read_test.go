//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// talking is two clones of which a has sent three messages to b's rig and one
// to another, all of which b has.
func talking(t *testing.T) *world {
	t.Helper()
	return talked.of(t, func(w *world) {
		w.server()
		w.clone("a", "rig-a")
		w.clone("b", "rig-b")
		for _, thread := range []string{"t-one", "t-two"} {
			os.Mkdir(w.path("a/"+thread), 0o755)
			w.ok("a", "send", "REQUEST", "--thread", thread, "--to", "rig-b", "--tldr", "in "+thread)
		}
		w.ok("a", "send", "STATE", "--thread", "t-one", "--to", "rig-b,rig-c")
		os.Mkdir(w.path("a/t-other"), 0o755)
		w.ok("a", "send", "STATE", "--thread", "t-other", "--to", "rig-c")
		w.ok("b", "sync", "--auto")
	})
}

var talked model

// TestReadMark: what is unread is told until `read` marks it, and by nothing
// else; a message that comes later with an earlier date is unread.
func TestReadMark(t *testing.T) {
	w := talking(t)
	for range 2 { // listing and showing marks nothing
		w.ok("b", "status", "--to").says(t, 0, "open=2 closed=0", "to=rig-b unread=3\n", "thread=t-one ", " unread=2\n", "thread=t-two ", " unread=1\n")
		w.ok("b", "status", "--json").says(t, 0, `"to":"rig-b","unread":3`)
		w.ok("b", "thread", "t-one").says(t, 0, "file=REQUEST.md unread=true\n", "file=STATE.md unread=true\n")
		w.ok("b", "sync")
	}
	if o := w.ok("b", "status", "--to", "me"); strings.Contains(o.stdout, "t-other") {
		t.Errorf("a thread without messages to it: %s", o.stdout)
	}
	if o := w.ok("b", "status"); strings.Contains(o.stdout, "unread") || strings.Contains(o.stdout, " at=") {
		t.Errorf("the plain lines have changed: %s", o.stdout)
	}
	shown := w.ok("b", "thread", "t-one", "--json")
	var o struct {
		Mark      string
		Envelopes []struct {
			File        string
			Unread      bool
			CommittedAt string `json:"committed_at"`
		}
	}
	if err := json.Unmarshal([]byte(shown.stdout), &o); err != nil {
		t.Fatal(err)
	}
	for _, e := range o.Envelopes {
		if at, err := time.Parse(time.RFC3339, e.CommittedAt); err != nil || time.Since(at).Abs() > time.Hour || !e.Unread {
			t.Errorf("%+v", e)
		}
	}
	w.ok("b", "read", "t-one", "t-one/STATE.md").says(t, 0, "rig-bridge: read thread=t-one rig=rig-b marked=1 unread=1\n")
	w.ok("b", "read", "t-one", w.bodyHash("b/t-one/STATE.md")).says(t, 0, "marked=0 unread=1")
	// While b reads, two more come: one of them is dated before all others.
	w.ok("a", "send", "ACK", "--thread", "t-one", "--to", "rig-b")
	late := strings.Replace(w.read("a/t-one/ACK.md"), "date: ", "date: 2020-01-01 # ", 1)
	w.write("a/t-one/ACK-2.md", late)
	w.git("a", "add", "t-one")
	w.git("a", "commit", "-q", "-m", "late")
	w.push("a")
	w.pull("b")
	w.ok("b", "read", "t-one/", "--at", o.Mark, "--json").says(t, 0, `"marked":1,"unread":2,"messages":["t-one/REQUEST.md"]`)
	w.ok("b", "status", "--to", "rig-b").says(t, 0, "unread=3\n")
	w.ok("b", "read", "t-one").says(t, 0, "marked=2 unread=0")
	w.ok("b", "status", "--to", "--wide").says(t, 0, "unread=0\n", "unread=1\n", " at=20", " verdict=")
	// What this rig sends itself is not unread, nor read for another rig.
	w.ok("b", "send", "ACK", "--thread", "t-one", "--to", "rig-a,rig-b")
	w.ok("b", "status", "--to").says(t, 0, "to=rig-b unread=1\n")
	w.ok("b", "status", "--to", "rig-c").says(t, 0, "to=rig-c unread=2\n", "thread=t-other ")
	if s := w.git("b", "status", "--porcelain"); s != "" {
		t.Errorf("the marks are in the work tree: %s", s)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"read"}, "<thread-id> is missing"},
		{[]string{"read", "../x"}, "not valid"},
		{[]string{"read", "t-none"}, "does not exist"},
		{[]string{"read", "t-one", "NONE.md"}, "hint: rig-bridge thread t-one --json"},
		{[]string{"read", "t-one", "--at", "x\x1b"}, `\x1b`},
		{[]string{"read", "t-one", "--at", strings.Repeat("0", 40)}, "is not a mark"},
		{[]string{"read", "t-one", "--at", strings.Repeat("1", 40)}, "is not a mark of this clone"},
		{[]string{"read", "t-one", "--at", o.Mark, "ACK.md"}, "use one of them"},
		{[]string{"status", "--to", "no rig"}, "--to"},
	} {
		w.run("b", c.args...).keeps(t, 1, c.says)
	}
	w.run("b", "thread", "t-one", "--watch", "--graph").says(t, 1, "not a graph")
}

// TestBrokenMarks: marks that are not what `read` writes are no marks: nothing
// is told as read or unread by them, nothing is written over or through them,
// and the hint leads out.
func TestBrokenMarks(t *testing.T) {
	w := talking(t)
	file := w.path("b/.git/rigward/read-rig-b")
	w.ok("b", "read", "t-two")
	good := w.read("b/.git/rigward/read-rig-b")
	w.write("victim", good)
	for name, make := range map[string]func() error{
		"noise":       func() error { return os.WriteFile(file, []byte("noise\x1b[2J\n"), 0o644) },
		"cut":         func() error { return os.WriteFile(file, []byte(good[:len(good)-1]), 0o644) },
		"empty":       func() error { return os.WriteFile(file, nil, 0o644) },
		"twice":       func() error { return os.WriteFile(file, []byte(good+strings.SplitN(good, "\n", 2)[1]), 0o644) },
		"a path":      func() error { return os.WriteFile(file, []byte(strings.Replace(good, "t-two", "../two", 1)), 0o644) },
		"a link":      func() error { return os.Symlink(w.path("victim"), file) },
		"a pipe":      func() error { return syscall.Mkfifo(file, 0o644) },
		"a directory": func() error { return os.Mkdir(file, 0o755) },
	} {
		os.RemoveAll(file)
		if err := make(); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"status", "--to"}, {"read", "t-one"}} {
			w.run("b", args...).keeps(t, 2, "cannot be read", "hint: rm ")
		}
		if o := w.ok("b", "status", "--json"); strings.Contains(o.stdout, "unread") {
			t.Errorf("%s: a guess: %s", name, o.stdout)
		}
		w.ok("b", "status", "--wide").says(t, 0, "the read marks in ")
		if o := w.ok("b", "thread", "t-one"); strings.Contains(o.stdout, "unread=true") || !strings.Contains(o.stderr, "the read marks in ") {
			t.Errorf("%s: %s%s", name, o.stdout, o.stderr)
		}
		if name != "a directory" {
			_, hint, _ := strings.Cut(w.run("b", "read", "t-one").stderr, "hint: ")
			command, _, _ := strings.Cut(hint, ",")
			w.shell("b", command)
			w.ok("b", "read", "t-one").says(t, 0, "marked=2 unread=0")
			w.ok("b", "status", "--to").says(t, 0, "unread=1\n")
		}
		if w.read("victim") != good {
			t.Fatalf("%s: the file at the end of the link was written", name)
		}
	}
	// The directory of it leads elsewhere.
	os.RemoveAll(w.path("b/.git/rigward"))
	os.Mkdir(w.path("elsewhere"), 0o755)
	os.Symlink(w.path("elsewhere"), w.path("b/.git/rigward"))
	for _, args := range [][]string{{"status", "--to"}, {"read", "t-one"}} {
		w.run("b", args...).keeps(t, 2, "is not a directory, and is not followed", "hint: rm ")
	}
	if entries, _ := os.ReadDir(w.path("elsewhere")); len(entries) > 0 {
		t.Errorf("written through the link: %v", entries)
	}
	_, hint, _ := strings.Cut(w.run("b", "read", "t-one").stderr, "hint: ")
	w.shell("b", strings.TrimSpace(hint))
	w.ok("b", "read", "t-one")
	// A link in the place of the lock is not followed either, and one in that of
	// the new file is replaced.
	os.Remove(w.path("b/.git/rigward/read.lock"))
	os.Symlink(w.path("victim"), w.path("b/.git/rigward/read.lock"))
	w.run("b", "read", "t-two").keeps(t, 2, "cannot write")
	os.Remove(w.path("b/.git/rigward/read.lock"))
	os.Symlink(w.path("victim"), file+".new")
	w.ok("b", "read", "t-two")
	if w.read("victim") != good {
		t.Error("written through a link")
	}
}

// TestMarkingAtOnce: several runs that mark at once, of which some are killed,
// lose no mark and leave none half written.
func TestMarkingAtOnce(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	const n = 24
	for i := range n {
		w.write(fmt.Sprintf("a/t-one/STATE-%d.md", i), fmt.Sprintf("---\nfrom: rig-a\nto: rig-b\ndate: 2026-05-15\nstatus: ▶ Go\ntype: STATE\nthread: t-one\n---\n%d\n", i))
	}
	w.git("a", "add", "t-one")
	w.git("a", "commit", "-q", "-m", "many")
	w.push("a")
	w.pull("b")
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for try := 0; ; try++ {
				cmd := w.command("b", "read", "t-one", fmt.Sprintf("STATE-%d.md", i))
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				if try < 2 && i%2 == 0 { // killed, and run again
					time.AfterFunc(time.Duration(20+i*5+try*20)*time.Millisecond, func() { cmd.Process.Kill() })
				}
				err := cmd.Wait()
				if err == nil {
					return
				}
				if cmd.ProcessState.ExitCode() >= 0 {
					t.Errorf("STATE-%d.md: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	w.ok("b", "status", "--to").says(t, 0, "unread=0\n")
	w.ok("b", "read", "t-one").says(t, 0, "marked=0 unread=0")
	if text := w.read("b/.git/rigward/read-rig-b"); strings.Count(text, " ") != 4 {
		t.Errorf("a thread that is read whole is one tree: %s", text)
	}
	entries, err := os.ReadDir(w.path("b/.git/rigward"))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "read") && e.Name() != "read-rig-b" && e.Name() != "read.lock" && e.Name() != "read-rig-b.new" {
			t.Errorf("%s is left over (%v)", e.Name(), err)
		}
	}
}

// TestInvalidThreadAppears: a thread whose only message is invalid is listed,
// also one of which nothing can be read; another document's directory is not.
func TestInvalidThreadAppears(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.write("a/t-broken/REQUEST.md", "---\nfrom: rig-b\nto: [rig-a\nthread: t-broken\n---\nx\n")
	w.write("a/t-elsewhere/REQUEST.md", "---\nfrom: rig-b\nto: rig-a\ndate: 2026-05-15\nstatus: ▶ Go\ntype: REQUEST\nthread: t-one\n---\nx\n")
	w.write("a/docs/readme.md", "---\ntitle: x\n---\nx\n")
	for range 2 {
		o := w.ok("a", "status", "--wide")
		o.says(t, 0, "open=2 ", "invalid=2\n", "thread=t-broken last=unknown status=unknown type=\"\" dirty=", "thread=t-elsewhere last=2026-05-15 status=active type=REQUEST", "t-broken/REQUEST.md:3:")
		if strings.Contains(o.stdout, "docs") {
			t.Error(o.stdout)
		}
		w.ok("a", "status", "--json").says(t, 0, `"thread_id":"t-broken","last":"","last_modified":"","status_class":"unknown"`)
		w.ok("a", "status", "--to") // and again when they are committed, from what is kept
		w.git("a", "add", "-A")
		w.tryGit("a", "commit", "-q", "-m", "broken")
	}
}

// watching starts a watch in b and returns what reads its next line, the
// process, and a way to wait for its end.
func (w *world) watching(args ...string) (next func() string, end func(os.Signal) (code int, stderr string)) {
	w.t.Helper()
	cmd := w.command("b", args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	slow := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	lines := bufio.NewReaderSize(out, 1<<20)
	next = func() string {
		w.t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			w.t.Fatalf("%v after %q\n%s", err, line, errs.String())
		}
		return line
	}
	return next, func(s os.Signal) (int, string) {
		defer slow.Stop()
		if s == nil {
			out.Close()
		} else {
			cmd.Process.Signal(s)
		}
		cmd.Wait()
		return cmd.ProcessState.ExitCode(), errs.String()
	}
}

// TestWatchThread: messages are shown when they come, once, with their verdicts;
// one that is being written is waited for; and the end is told.
func TestWatchThread(t *testing.T) {
	w := talking(t)
	next, end := w.watching("thread", "t-one", "--watch", "--interval", "0.1")
	type object struct {
		Event     string
		Seq       int
		Count     int `json:"envelope_count"`
		Mark      string
		Envelopes []struct {
			File, Body string
			Unread     bool
			Verdict    struct{ State string }
		}
		Refused []struct{ File string }
		Error   struct{ Code string }
	}
	read := func() (o object) {
		t.Helper()
		line := next()
		holds(t, []string{"thread", "--watch"}, line)
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := read(); o.Event != "snapshot" || o.Seq != 1 || len(o.Envelopes) != 2 || !o.Envelopes[0].Unread {
		t.Fatalf("%+v", o)
	}
	w.ok("a", "send", "ACK", "--thread", "t-one", "--to", "rig-b", "--tldr", "now")
	w.ok("b", "sync", "--auto")
	seen := map[string]bool{}
	for !seen["ACK.md unsigned"] { // it may be seen before HEAD has it
		o := read()
		if o.Event != "change" || o.Count != 3 || len(o.Envelopes) != 1 || o.Envelopes[0].File != "ACK.md" || seen["ACK.md "+o.Envelopes[0].Verdict.State] {
			t.Fatalf("%+v", o)
		}
		seen["ACK.md "+o.Envelopes[0].Verdict.State] = true
	}
	// A name and a text that would speak to the terminal.
	w.write("b/t-one/x\x1b[2J\u202e.md", "---\nfrom: rig-z\nto: rig-b\ndate: 2026-05-15\nstatus: ▶ \x1b[31m\ntype: STATE\nthread: t-one\n---\n\x1b]0;x\x07\n")
	w.write("b/t-one/Y.md", "---\nfrom: rig-z\nto: rig-b\ndate: 2026-05-15\nstatus: ▶ Go\ntype: STATE\nthread: t-one\n---\n\u009b31m\n")
	for line := ""; !strings.Contains(line, "Y.md"); { // the other one may be seen first
		if line = next(); strings.ContainsAny(line, "\x1b\u009b\u202e\a") {
			t.Errorf("%q", line)
		}
	}
	os.Rename(w.path("b/t-one"), w.path("b/t-away"))
	if o := read(); o.Event != "error" || o.Error.Code != "thread" {
		t.Errorf("%+v", o)
	}
	os.Rename(w.path("b/t-away"), w.path("b/t-one"))
	if o := read(); o.Event != "change" || o.Count < 3 {
		t.Errorf("%+v", o)
	}
	if code, _ := end(nil); code != 0 {
		t.Errorf("nobody reads any more: exit %d", code)
	}
	w.ok("b", "status", "--to").says(t, 0, "unread=4\n")

	next, end = w.watching("thread", "t-two", "--watch", "--format", "text", "--interval", "0.1")
	until := func(word string) (text string) {
		t.Helper()
		for !strings.Contains(text, word) {
			text += next()
		}
		return text
	}
	if text := until("===="); !strings.HasPrefix(text, "rig-bridge: thread t-two envelope=1 of 1 type=REQUEST file=REQUEST.md unread=true\nunsigned, committed 20") {
		t.Errorf("%s", text)
	}
	w.write("b/t-two/HALF.md", "---\nfrom: rig-z\nto: rig-b\ndate: 2026-05-15\nstatus: ▶ Go\ntype: STATE\nthread: t-two\n---\n<text>\n")
	if text := until("===="); !strings.Contains(text, "envelope=1 of 2 type=STATE file=HALF.md") || !strings.Contains(text, "<text>") {
		t.Errorf("%q", text)
	}
	w.git("b", "add", "t-two")
	w.git("b", "commit", "-q", "-m", "half")
	if text := until("===="); !strings.Contains(text, "\nnot pushed, unsigned, committed 20") || !strings.Contains(text, "\nits text was shown before\n") || strings.Contains(text, "<text>") {
		t.Errorf("%q", text)
	}
	if code, stderr := end(syscall.SIGTERM); code != 143 || !strings.Contains(stderr, "rig-bridge: interrupted (SIGTERM)") || !strings.Contains(stderr, "nobody else has it yet: HALF.md") {
		t.Errorf("exit %d %s", code, stderr)
	}
	for wait := 300 * time.Millisecond; ; wait *= 2 { // some looks, or the time to start is longer
		_, end = w.watching("thread", "t-none", "--watch", "--format", "text", "--interval", "0.1")
		time.Sleep(wait)
		code, stderr := end(os.Interrupt)
		if code == 130 && strings.Count(stderr, "does not exist") == 1 {
			break
		}
		if n := strings.Count(stderr, "does not exist"); n > 1 || wait > 10*time.Second {
			t.Fatalf("exit %d %s", code, stderr)
		}
	}
	if err := w.watchesTo("/dev/full"); err != nil {
		t.Error(err)
	}
}

// watchesTo runs a watch whose output goes to a device that takes nothing.
func (w *world) watchesTo(device string) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	cmd := w.command("b", "thread", "t-two", "--watch", "--interval", "0.1")
	cmd.Stdout = f
	slow := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer slow.Stop()
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 {
		return errors.Join(errors.New("what cannot be written is a failure"), err)
	}
	return nil
}
