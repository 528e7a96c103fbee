//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inboxed is what a test reads of an inbox or a wait.
type inboxed struct {
	Unread, Turns, Decisions int
	Items                    []struct {
		Path, From, Type string
		Why              []string
		Acknowledged     bool
		Verdict          struct{ State string }
	}
	Refused []struct {
		Path    string
		Verdict struct{ Rules []string }
	}
	Frozen  []struct{ Path string }
	Untaken *struct {
		Reason, Hint string
		Items        []struct{ Path string }
	}
	More       bool
	TimedOut   bool   `json:"timed_out"`
	NotFetched string `json:"not_fetched"`
	Cursor     string
}

func (w *world) box(dir string, args ...string) (in inboxed) {
	w.t.Helper()
	o := w.ok(dir, append(args, "--json")...)
	if err := json.Unmarshal([]byte(o.stdout), &in); err != nil {
		w.t.Fatalf("%v in %s", err, o.stdout)
	}
	return in
}

// shown lists what waits as "PATH why".
func (in inboxed) shown() string {
	var b strings.Builder
	for _, i := range in.Items {
		fmt.Fprintf(&b, "%s %s\n", i.Path, strings.Join(i.Why, ","))
	}
	return b.String()
}

// TestInbox: what waits is told with why, the oldest first, and nothing is read
// by being listed; a turn stays until somebody else has the last word.
func TestInbox(t *testing.T) {
	w := talking(t)
	for range 2 {
		in := w.box("b", "inbox")
		if got := in.shown(); got != "t-one/REQUEST.md unread\nt-one/STATE.md unread,turn\nt-two/REQUEST.md unread,turn\n" &&
			len(in.Items) != 3 || in.Unread != 3 || in.Turns != 2 || in.More {
			t.Errorf("%+v\n%s", in, got)
		}
		w.ok("b", "inbox").says(t, 0, "rig-bridge: inbox rig=rig-b unread=3 turns=2 decisions=0 frozen=0 refused=0\n", "message=t-one/REQUEST.md type=REQUEST from=rig-a why=unread verdict=unsigned age=")
	}
	if in := w.box("b", "inbox", "--thread", "t-two"); in.shown() != "t-two/REQUEST.md unread,turn\n" || in.Unread != 1 {
		t.Errorf("%+v", in)
	}
	w.ok("b", "read", "t-two")
	if in := w.box("b", "inbox", "--thread", "t-two"); in.shown() != "t-two/REQUEST.md turn\n" || in.Unread != 0 {
		t.Errorf("read, and still its turn: %+v", in)
	}
	if in := w.box("b", "inbox", "--thread", "t-two", "--unread"); in.shown() != "" {
		t.Errorf("%+v", in)
	}
	// An ACK is no last word, an answer is, and what is closed waits for nobody.
	w.ok("b", "ack", "t-two")
	if in := w.box("b", "inbox", "--thread", "t-two"); in.shown() != "t-two/REQUEST.md turn\n" {
		t.Errorf("%+v", in)
	}
	w.ok("b", "reply", "t-two", "--tldr", "done")
	if in := w.box("b", "inbox", "--thread", "t-two"); in.shown() != "" {
		t.Errorf("%+v", in)
	}
	w.ok("a", "sync", "--auto")
	if in := w.box("a", "inbox"); in.shown() != "t-two/ACK.md unread\nt-two/RESPONSE.md unread,turn\n" {
		t.Errorf("%+v", in)
	}
	w.ok("b", "read", "t-one")
	w.ok("b", "close", "t-one", "--status", "completed")
	if in := w.box("b", "inbox"); in.shown() != "" {
		t.Errorf("%+v", in)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"inbox", "--limit", "0"}, "--limit"}, {[]string{"inbox", "--limit", "1001"}, "--limit"}, {[]string{"inbox", "--after", "x"}, "is not a cursor"},
		{[]string{"inbox", "--thread", "../x"}, "not valid"}, {[]string{"inbox", "--thread", "t-none"}, "does not exist"},
		{[]string{"wait", "--timeout", "0"}, "--timeout"}, {[]string{"wait", "--timeout", "NaN"}, "--timeout"}, {[]string{"wait", "--after", "AAAA"}, "is not a cursor"},
	} {
		w.run("b", c.args...).keeps(t, 1, c.says)
	}
}

// TestInboxPages: pages show each message once, also those that come meanwhile
// and are committed at an earlier time, and marks that move change nothing.
func TestInboxPages(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	send := func(name string, at int) {
		t.Helper()
		w.write("a/t-one/"+name+".md", fmt.Sprintf("---\nfrom: rig-a\nto: rig-b\ndate: 2026-05-15\nstatus: ▶ Go\ntype: STATE\nthread: t-one\n---\n%s\n", name))
		w.git("a", "add", "t-one")
		cmd := exec.Command("git", "commit", "-q", "-m", name)
		date := fmt.Sprintf("%d +0000", 1790000000+at)
		cmd.Dir, cmd.Env = w.path("a"), append(append([]string(nil), w.vars...), "GIT_COMMITTER_DATE="+date, "GIT_AUTHOR_DATE="+date)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	arrive := func() {
		w.push("a")
		w.pull("b")
	}
	for i := range 7 {
		send(fmt.Sprintf("STATE-%d", i), i)
	}
	arrive()
	seen := map[string]int{}
	page := func(cursor string, args ...string) inboxed {
		t.Helper()
		args = append([]string{"inbox", "--limit", "2"}, args...)
		if cursor != "" {
			args = append(args, "--after", cursor)
		}
		in := w.box("b", args...)
		for _, i := range in.Items {
			seen[i.Path]++
		}
		return in
	}
	in := page("")
	if in.shown() != "t-one/STATE-0.md unread\nt-one/STATE-1.md unread\n" || !in.More || in.Unread != 7 {
		t.Fatalf("%+v", in)
	}
	again := page(in.Cursor)
	if same := page(in.Cursor); same.shown() != again.shown() || same.Cursor != again.Cursor {
		t.Error("a cursor shows something else the second time")
	}
	seen["t-one/STATE-2.md"], seen["t-one/STATE-3.md"] = 1, 1
	// What was shown is read, and late ones come with the earliest times of all.
	w.ok("b", "read", "t-one", "STATE-0.md", "STATE-3.md")
	send("LATE-1", -1000)
	send("LATE-2", -900)
	send("LATE-3", -800)
	arrive()
	for cursor := again.Cursor; ; {
		in := page(cursor)
		if cursor = in.Cursor; !in.More {
			break
		}
	}
	for i := range 7 {
		if n := seen[fmt.Sprintf("t-one/STATE-%d.md", i)]; n != 1 {
			t.Errorf("STATE-%d was shown %d times", i, n)
		}
	}
	for i := range 3 {
		if n := seen[fmt.Sprintf("t-one/LATE-%d.md", i+1)]; n != 1 {
			t.Errorf("LATE-%d was shown %d times", i+1, n)
		}
	}
}

// TestInboxMany: however many messages there are that wait, that are to others, that
// are marked or that are none, pages of any size show the same ones in the same order,
// and the counts are those of all.
func TestInboxMany(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	const threads, each = 40, 8
	for turn := range each {
		for n := range threads {
			thread, to := fmt.Sprintf("t-%02d", n), "rig-b"
			if (turn+n)%3 == 0 {
				to = "rig-c"
			}
			w.write(fmt.Sprintf("a/%s/STATE-%d.md", thread, turn), fmt.Sprintf("---\nfrom: rig-a\nto: %s\ndate: 2026-05-15\nstatus: ▶ Go\ntype: STATE\nthread: %s\n---\n%d\n", to, thread, turn))
			if turn == 2 {
				w.write("a/"+thread+"/README.md", "Not a message.\n")
			}
		}
		w.git("a", "add", ".")
		w.git("a", "commit", "-q", "-m", "turn")
	}
	w.push("a")
	w.pull("b")
	w.ok("b", "read", "t-01")
	w.ok("b", "read", "t-02", "STATE-0.md", "STATE-2.md")
	unread := 0
	for turn := range each {
		for n := range threads {
			if (turn+n)%3 > 0 && n != 1 && (n != 2 || turn != 0 && turn != 2) {
				unread++
			}
		}
	}
	all := w.box("b", "inbox", "--limit", "1000")
	if len(all.Items) < unread || all.Unread != unread || all.More || all.Cursor == "" {
		t.Fatalf("%d items, unread %d, expected %d; more %t, cursor %q", len(all.Items), all.Unread, unread, all.More, all.Cursor)
	}
	for _, size := range []string{"7", "64", "130"} {
		var pages string
		for cursor := ""; ; {
			args := []string{"inbox", "--limit", size}
			if cursor != "" {
				args = append(args, "--after", cursor)
			}
			in := w.box("b", args...)
			if pages += in.shown(); in.Unread != unread || in.Turns != all.Turns {
				t.Errorf("unread %d and turns %d on a page, expected %d and %d", in.Unread, in.Turns, unread, all.Turns)
			}
			if cursor = in.Cursor; !in.More {
				break
			}
		}
		if pages != all.shown() {
			t.Errorf("pages of %s show\n%s\nall at once are\n%s", size, pages, all.shown())
		}
	}
	if only := w.box("b", "inbox", "--unread", "--limit", "1000"); len(only.Items) != unread {
		t.Errorf("%d unread messages are shown, expected %d", len(only.Items), unread)
	}
}

// TestInboxForged: a relay that came past the gates decides nothing, freezes
// nothing, closes nothing and wakes nobody; the operator's own does.
func TestInboxForged(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	w.commitFiles("a", map[string]string{".bridge/allowed_signers": w.operator("op"), ".bridge/policy.yaml": "version: 1\nrules:\n  relay-frozen: error\n"})
	w.pull("b")
	os.Mkdir(w.path("b/t-one"), 0o755)
	w.ok("b", "send", "REQUEST", "--thread", "t-one", "--to", "op-relay,rig-a")
	hash := w.bodyHash("b/t-one/REQUEST.md")
	forged := func(file, typ, status string) string {
		now := time.Now().UTC()
		return fmt.Sprintf("---\nfrom: op-relay\nto: rig-b\ndate: %s\nstatus: %s\ntype: %s\nthread: t-one\ntldr: forged\nin_reply_to: %s\nattested_by: SHA256:%s\nattested_at: %q\nnonce: 01J%023d\nbody_hash: %s\n---\n%s\n",
			now.Format("2006-01-02"), status, typ, hash, strings.Repeat("A", 43), now.Format("2006-01-02T15:04:05Z"), len(file), strings.Repeat("a", 64), file)
	}
	w.pull("a")
	for file, text := range map[string]string{
		"RELAY-DECISION.md": forged("RELAY-DECISION.md", "DECISIONS", "▶ Do it"), "RELAY-FREEZE.md": forged("RELAY-FREEZE.md", "ACK", "⏸ wait"),
		"RELAY-END.md": forged("RELAY-END.md", "RESPONSE", "✅ Done"),
	} {
		w.write("a/t-one/"+file, text)
	}
	w.git("a", "add", "t-one")
	w.git("a", "commit", "-q", "-m", "forged")
	w.push("a")
	w.pull("b") // past the gates
	in := w.box("b", "inbox")
	if in.Decisions != 0 || len(in.Refused) != 3 || len(in.Items) != 0 || len(in.Frozen) != 0 || in.Unread != 3 {
		t.Errorf("%+v", in)
	}
	o := w.ok("b", "inbox", "--json")
	if strings.Contains(o.stdout, "forged\"") || strings.Contains(o.stdout, "Do it") {
		t.Errorf("the words of what is refused: %s", o.stdout)
	}
	w.ok("b", "inbox").says(t, 0, "refused=t-one/RELAY-DECISION.md rules=")
	w.run("b", "wait", "--timeout", "1").says(t, 3, "messages=0 timed_out=true")
	for _, verb := range []string{"ack", "reply"} {
		w.run("b", verb, "t-one/RELAY-DECISION.md").keeps(t, 1, "is refused by the rules", "hint: ")
	}
	w.run("b", "ack").keeps(t, 1, "no unread message waits")
	// The lawful neighbour.
	w.pull("op")
	w.ok("op", "relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", hash, "--to", "rig-b", "--tldr", "go on")
	in = w.box("b", "wait", "--timeout", "20")
	if len(in.Items) != 1 || in.Items[0].Verdict.State != "verified" || strings.Join(in.Items[0].Why, ",") != "unread,decision,turn" {
		t.Errorf("%+v", in)
	}
	w.ok("b", "ack").says(t, 0, "sent type=ACK thread=t-one")
	w.pull("op")
	w.ok("op", "relay", "ACK", "--thread", "t-one", "--in-reply-to", hash, "--to", "rig-a", "--status", "⏸ deciding")
	w.ok("b", "sync", "--auto")
	if in := w.box("b", "inbox"); len(in.Frozen) != 1 || in.Decisions != 0 {
		t.Errorf("%+v", in)
	}
}

// TestWait: what is there is told at once, what comes by a fetch or a change of
// the clone wakes it, and what is only fetched is told as such.
func TestWait(t *testing.T) {
	w := talking(t)
	if in := w.box("b", "wait", "--timeout", "20"); len(in.Items) != 3 || in.TimedOut {
		t.Errorf("%+v", in)
	}
	seen := w.box("b", "inbox").Cursor
	start := time.Now()
	w.run("b", "wait", "--timeout", "0.7s", "--after", seen, "--json").says(t, 3, `"timed_out":true`)
	if took := time.Since(start); took < 600*time.Millisecond {
		t.Errorf("it waited %s", took)
	}
	waiting := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := w.command("b", append([]string{"wait", "--json"}, args...)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, &out
	}
	// Fetched.
	cmd, out := waiting("--timeout", "60", "--after", seen)
	time.Sleep(300 * time.Millisecond)
	w.ok("a", "send", "STATE", "--thread", "t-two", "--to", "rig-c") // for another
	w.ok("a", "send", "HANDOFF", "--thread", "t-two", "--to", "rig-b")
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), `"path":"t-two/HANDOFF.md"`) || strings.Count(out.String(), `"path"`) != 1 {
		t.Errorf("%v %s", err, out)
	}
	// A local change, in a clone that cannot fetch.
	w.ok("b", "read", "t-one")
	w.ok("b", "read", "t-two")
	w.config("b", "remote.origin.url", w.path("away.git"))
	cmd, out = waiting("--timeout", "60")
	time.Sleep(300 * time.Millisecond)
	w.ok("a", "send", "RESULT", "--thread", "t-two", "--to", "rig-b")
	w.git("b", "pull", "-q", w.path("origin.git"), "main")
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), `"path":"t-two/RESULT.md"`) {
		t.Errorf("%v %s", err, out)
	}
	// What is there is told where nothing can be fetched, and that it is not all that is known.
	if in := w.box("b", "wait", "--timeout", "20"); len(in.Items) != 1 || !strings.Contains(in.NotFetched, "git fetch failed") {
		t.Errorf("%+v", in)
	}
	// What cannot be asked is no silence.
	w.ok("b", "read", "t-two")
	w.run("b", "wait", "--timeout", "1").keeps(t, 2, "git fetch failed")
	w.config("b", "remote.origin.url", w.path("origin.git"))
	w.ok("b", "sync", "--auto")
	// Signals.
	for sig, code := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		cmd, out = waiting()
		time.Sleep(300 * time.Millisecond)
		_ = cmd.Process.Signal(sig)
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), `"code":"interrupted"`) {
			t.Errorf("%v: exit %d %s", sig, got, out)
		}
	}
	// Both sides moved: nothing is merged, and what is there is told.
	w.ok("b", "send", "STATE", "--thread", "t-one", "--to", "rig-c", "--no-push")
	head := w.git("b", "rev-parse", "HEAD")
	w.ok("a", "send", "VERIFY", "--thread", "t-one", "--to", "rig-b")
	o := w.run("b", "wait", "--timeout", "20", "--json")
	o.says(t, 1, `"items":[]`, `"untaken":{"reason":"both_sides_diverged"`, `"path":"t-one/VERIFY.md"`, "the next send puts the unpushed messages on top")
	w.run("b", "wait", "--timeout", "20").says(t, 1, "untaken=t-one/VERIFY.md", "fetched and not taken")
	if w.git("b", "rev-parse", "HEAD") != head {
		t.Error("something was merged")
	}
	w.ok("b", "send", "STATE", "--thread", "t-one", "--to", "rig-c")
	if in := w.box("b", "wait", "--timeout", "20"); in.shown() != "t-one/VERIFY.md unread\n" && in.shown() != "t-one/VERIFY.md unread,turn\n" {
		t.Errorf("%+v", in)
	}
}

// TestNewestLast: of the messages of one day the one that was committed last is
// last, whatever its name is, for thread, status, inbox and reply.
func TestNewestLast(t *testing.T) {
	w := talking(t)
	for _, typ := range []string{"RESPONSE", "VERIFY", "RESPONSE", "DECISIONS", "RESULT", "ACK"} { // DECISIONS.md stands before all of them
		if typ == "RESULT" {
			if in := w.box("b", "wait", "--timeout", "20"); !strings.Contains(in.shown(), "t-two/DECISIONS.md unread,turn\n") || strings.Count(in.shown(), "turn") != 2 {
				t.Errorf("%s", in.shown())
			}
			w.ok("b", "reply", "t-two", "--tldr", "answers the newest")
			if text := w.read("b/t-two/RESPONSE-3.md"); !strings.Contains(text, "in_reply_to: "+w.bodyHash("b/t-two/DECISIONS.md")) {
				t.Error(text)
			}
		}
		w.ok("a", "send", typ, "--thread", "t-two", "--to", "rig-b")
	}
	w.ok("b", "sync", "--auto")
	want := "REQUEST.md RESPONSE.md VERIFY.md RESPONSE-2.md DECISIONS.md RESPONSE-3.md RESULT.md ACK.md"
	var files []string
	for line := range strings.Lines(w.ok("b", "thread", "t-two").stdout) {
		if _, file, found := strings.Cut(line, " file="); found {
			files = append(files, strings.Fields(file)[0])
		}
	}
	if got := strings.Join(files, " "); got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	for _, flag := range []string{"--wide", "--to"} {
		if o := w.ok("b", "status", flag, "--json"); !strings.Contains(o.stdout, `"filename":"ACK.md"`) {
			t.Errorf("%s: %s", flag, o.stdout)
		}
	}
	if in := w.box("b", "inbox"); !strings.Contains(in.shown(), "t-two/RESULT.md unread,turn\n") {
		t.Error(in.shown())
	}
	// What is not committed yet comes behind it.
	w.write("b/t-two/AAA.md", strings.Replace(w.read("b/t-two/ACK.md"), "type: ACK", "type: STATE", 1))
	if out := w.ok("b", "thread", "t-two").stdout; !strings.Contains(out[strings.LastIndex(out, "envelope="):], "file=AAA.md") {
		t.Error(out)
	}
}

// TestWaitFetchesFirst: what is there already does not keep wait from telling what
// the server has, and a thread that nobody has opened yet is waited for.
func TestWaitFetchesFirst(t *testing.T) {
	w := talking(t)
	w.ok("b", "read", "t-two")
	w.ok("a", "send", "HANDOFF", "--thread", "t-two", "--to", "rig-b") // one old and one new
	if in := w.box("b", "wait", "--timeout", "20"); !strings.Contains(in.shown(), "t-two/HANDOFF.md unread") || len(in.Items) != 3 || in.NotFetched != "" {
		t.Errorf("%+v", in)
	}
	w.ok("a", "send", "REQUEST", "--thread", "t-late", "--to", "rig-b", "--open")
	if in := w.box("b", "wait", "--thread", "t-late", "--timeout", "20"); in.shown() != "t-late/REQUEST.md unread,turn\n" {
		t.Errorf("%+v", in)
	}
	w.run("b", "wait", "--thread", "t-never", "--timeout", "0.5", "--json").says(t, 3, `"timed_out":true`)
	os.Symlink("..", w.path("b/t-link"))
	w.run("b", "wait", "--thread", "t-link", "--timeout", "5").keeps(t, 1, "symbolic link")
	// A server that does not answer keeps back what is there for a time only.
	w.config("b", "remote.origin.uploadpack", "sleep 30; git-upload-pack")
	start := time.Now()
	if in := w.box("b", "wait", "--timeout", "1"); len(in.Items) == 0 || in.NotFetched == "" || in.TimedOut {
		t.Errorf("%+v", in)
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestAcknowledged: what the rig has acknowledged says so while it is still its turn;
// an ACK that somebody else made in its name counts for nothing.
func TestAcknowledged(t *testing.T) {
	w := talking(t)
	acked := func() (out string) {
		for _, i := range w.box("b", "inbox").Items {
			out += fmt.Sprintf("%s %t\n", i.Path, i.Acknowledged)
		}
		return out
	}
	w.ok("b", "read", "t-one")
	w.ok("b", "read", "t-two")
	if got := acked(); got != "t-two/REQUEST.md false\nt-one/STATE.md false\n" && got != "t-one/STATE.md false\nt-two/REQUEST.md false\n" {
		t.Error(got)
	}
	w.ok("b", "ack", "t-two")
	if got := acked(); !strings.Contains(got, "t-two/REQUEST.md true") || !strings.Contains(got, "t-one/STATE.md false") {
		t.Error(got)
	}
	w.ok("b", "inbox").says(t, 0, "message=t-two/REQUEST.md type=REQUEST from=rig-a why=turn verdict=unsigned acknowledged=true")
	// Somebody's ACK in its name, past the gates.
	w.pull("a")
	w.commitFiles("a", map[string]string{".bridge/allowed_signers": w.operator("op"), ".bridge/policy.yaml": "version: 1\nrequire-signed: all\n"})
	text := strings.NewReplacer("thread: t-two", "thread: t-one", w.bodyHash("b/t-two/REQUEST.md"), w.bodyHash("b/t-one/STATE.md")).Replace(w.read("b/t-two/ACK.md"))
	w.write("a/t-one/ACK.md", text)
	w.git("a", "add", "t-one")
	w.git("a", "commit", "-q", "-m", "ACK: forged")
	w.push("a")
	w.pull("b")
	w.ok("b", "thread", "t-one").says(t, 0, "refused by the rules commit-signed")
	if got := acked(); !strings.Contains(got, "t-two/REQUEST.md true") || !strings.Contains(got, "t-one/STATE.md false") {
		t.Error(got)
	}
}

// TestWaitWatchesRemote: a remote in this file system is looked at and not asked
// again and again; what comes by any other one is found by asking.
func TestWaitWatchesRemote(t *testing.T) {
	w := talking(t)
	w.ok("b", "sync", "--auto")
	w.ok("b", "read", "t-one")
	w.ok("b", "read", "t-two")
	w.config("b", "fetch.writeCommitGraph", "false") // so that what is asked is asked by git
	cmd := w.command("b", "wait", "--timeout", "0.5")
	cmd.Env = append(cmd.Env, "GIT_TRACE2="+w.path("trace"))
	finish(t, cmd)
	trace, _ := os.ReadFile(w.path("trace"))
	if n := strings.Count(string(trace), " fetch --no-tags"); n != 1 {
		t.Errorf("the remote was asked %d times:\n%s", n, trace)
	}
	w.config("b", "remote.origin.url", "file://"+strings.Replace(w.path("origin.git"), "origin", "%6frigin", 1))
	cmd = w.command("b", "wait", "--timeout", "60")
	done := make(chan outcome)
	go func() { done <- finish(t, cmd) }()
	w.ok("a", "send", "HANDOFF", "--thread", "t-two", "--to", "rig-b")
	(<-done).says(t, 0, "message=t-two/HANDOFF")
}

// TestEmptyServer: where nobody has sent anything yet there is nothing to fetch,
// which is no failure; a branch that others do not have is one.
func TestEmptyServer(t *testing.T) {
	w := newWorld(t)
	w.git(".", "init", "-q", "--bare", "-b", "main", "origin.git")
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	w.ok("b", "sync").says(t, 0, "sync pulled=false fast_forward=true diverged=false new_envelopes=0")
	w.ok("b", "sync", "--auto", "--json")
	w.run("b", "wait", "--timeout", "0.7").says(t, 3, "messages=0 timed_out=true")
	w.ok("b", "inbox").says(t, 0, "unread=0")
	w.ok("b", "status")
	cmd := w.command("b", "wait", "--timeout", "60", "--json")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	w.ok("a", "send", "REQUEST", "--thread", "t-first", "--to", "rig-b", "--open", "--tldr", "first").says(t, 0, "file=t-first/REQUEST.md")
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), `"path":"t-first/REQUEST.md"`) {
		t.Errorf("%v %s", err, &out)
	}
	// A clone from before the first message joins in with its own, and keeps what
	// is in the way of that.
	w.git(".", "init", "-q", "--bare", "-b", "main", "origin2.git")
	w.git(".", "clone", "-q", "origin2.git", "c")
	w.git(".", "clone", "-q", "origin2.git", "d")
	for _, dir := range []string{"c", "d"} {
		w.git(dir, "config", "user.name", dir)
		w.git(dir, "config", "user.email", dir+"@example.com")
		w.ok(dir, "init", "--rig-id", "rig-"+dir, "--no-hooks")
	}
	w.ok("c", "send", "REQUEST", "--thread", "t-first", "--to", "rig-d", "--open", "--tldr", "first")
	w.write("d/t-first/REQUEST.md", "mine\n")
	w.run("d", "send", "REQUEST", "--thread", "t-second", "--to", "rig-c", "--open", "--tldr", "second").keeps(t, 1, "cannot be taken first", "hint: rig-bridge sync")
	if _, err := os.Stat(w.path("d/t-second")); err == nil || w.read("d/t-first/REQUEST.md") != "mine\n" {
		t.Error("a refused message left something")
	}
	os.RemoveAll(w.path("d/t-first"))
	w.ok("d", "send", "REQUEST", "--thread", "t-second", "--to", "rig-c", "--open", "--tldr", "second").says(t, 0, "file=t-second/REQUEST.md")
	if log := w.git("origin2.git", "log", "--format=%s", "main"); log != "REQUEST: second\nREQUEST: first\n" {
		t.Errorf("%q", log)
	}
	if status := w.git("d", "status", "--porcelain"); status != "" {
		t.Error(status)
	}
	w.config("a", "branch.main.merge", "refs/heads/typo")
	w.run("a", "sync").keeps(t, 2, "git fetch failed")
	w.run("a", "wait", "--timeout", "1").keeps(t, 2, "git fetch failed")
}

// TestWaitNothingMissed: messages that come at any moment between two waits, or
// while one looks, are told once each, in the order in which they came.
func TestWaitNothingMissed(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	os.Mkdir(w.path("a/t-one"), 0o755)
	const n = 12
	done := make(chan error, 1)
	go func() {
		for i := range n {
			if out, err := w.command("a", "send", "STATE", "--thread", "t-one", "--to", "rig-b", "--tldr", fmt.Sprint(i)).CombinedOutput(); err != nil {
				done <- fmt.Errorf("%w: %s", err, out)
				return
			}
		}
		done <- nil
	}()
	seen := map[string]int{}
	args := []string{"wait", "--timeout", "20"}
	for len(seen) < n {
		in := w.box("b", args...)
		if in.Cursor == "" || len(in.Items) == 0 {
			t.Fatalf("%+v", in)
		}
		for _, i := range in.Items {
			seen[i.Path]++
		}
		args = []string{"wait", "--timeout", "20", "--after", in.Cursor}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for path, times := range seen {
		if times != 1 {
			t.Errorf("%s was told %d times", path, times)
		}
	}
}

// TestWaitWatch prints a line for what comes, each message once.
func TestWaitWatch(t *testing.T) {
	w := talking(t)
	next, end := w.watching("wait", "--watch")
	if line := next(); !strings.Contains(line, `"event":"snapshot"`) || strings.Count(line, `"path"`) != 3 {
		t.Error(line)
	}
	for _, typ := range []string{"HANDOFF", "RESULT"} {
		w.ok("a", "send", typ, "--thread", "t-two", "--to", "rig-b")
		if line := next(); !strings.Contains(line, `"event":"change"`) || !strings.Contains(line, "t-two/"+typ+".md") || strings.Count(line, `"path"`) != 1 {
			t.Error(line)
		}
	}
	if code, _ := end(os.Interrupt); code != 130 {
		t.Errorf("exit %d", code)
	}
}

// TestAckAndReply: an answer finds thread, recipient, hash and commit by itself,
// and what it answers is read, nothing else.
func TestAckAndReply(t *testing.T) {
	w := talking(t)
	w.run("b", "ack").keeps(t, 1, "3 messages wait", "t-one/REQUEST.md", "hint: rig-bridge ack t-")
	request := w.bodyHash("b/t-one/REQUEST.md")
	commit := strings.TrimSpace(w.git("b", "rev-list", "-1", "HEAD", "--", "t-one/REQUEST.md"))
	w.ok("b", "ack", "t-one/REQUEST.md", "--tldr", "seen").says(t, 0, "sent type=ACK thread=t-one file=t-one/ACK.md")
	if text := w.read("b/t-one/ACK.md"); !strings.Contains(text, "to: rig-a\n") || !strings.Contains(text, "in_reply_to: "+request) || !strings.Contains(text, commit) {
		t.Error(text)
	}
	if in := w.box("b", "inbox", "--unread"); in.Unread != 2 || strings.Contains(in.shown(), "t-one/REQUEST.md") {
		t.Errorf("%+v", in)
	}
	// Again, in each way to name it: one ACK.
	for _, word := range []string{"t-one/REQUEST.md", "t-one/" + request} {
		w.ok("b", "ack", word).says(t, 0, "file=t-one/ACK.md", "repeated=true")
	}
	// The newest of a thread that is to this rig, and the only one that is left.
	w.ok("b", "reply", "t-one", "--type", "RESULT").says(t, 0, "sent type=RESULT thread=t-one")
	if text := w.read("b/t-one/RESULT.md"); !strings.Contains(text, "in_reply_to: "+w.bodyHash("b/t-one/STATE.md")) {
		t.Error(text)
	}
	w.ok("b", "reply", "--to", "rig-a,rig-c").says(t, 0, "thread=t-two file=t-two/RESPONSE.md")
	if in := w.box("b", "inbox"); in.shown() != "" {
		t.Errorf("%+v", in)
	}
	w.run("b", "ack").keeps(t, 1, "no unread message waits")
	// What must not be acknowledged.
	w.ok("a", "sync", "--auto")
	for args, says := range map[string]string{
		"ack t-one/ACK.md": "is a ACK", "ack t-one/REQUEST.md": "is of this rig", "ack t-one/NONE.md": "is not a committed message", "ack ../x": "not valid",
		"ack t-one/x": "is neither a thread nor a message", "ack t-one/../x.md": "is neither", "ack " + strings.Repeat("0", 64): "is the body hash of no message",
		"reply t-none": "does not exist", "reply t-one --type RELAY": "--type", "reply t-one --to x,": "",
	} {
		o := w.run("a", strings.Fields(args)...)
		if says != "" {
			o.keeps(t, 1, says)
		}
	}
	// A message of one's own is followed up, to those whom it was to.
	w.ok("a", "reply", "t-two/REQUEST.md", "--type", "STATE")
	if text := w.read("a/t-two/STATE.md"); !strings.Contains(text, "to: rig-b\n") {
		t.Error(text)
	}
	// A relay does neither.
	w.clone("op", "op-relay")
	for _, verb := range []string{"ack", "reply"} {
		w.run("op", verb, "t-one").keeps(t, 1, "a relay only relays")
	}
}

// TestKeys: the same key sends once, over runs, killed runs, changed file names
// and two runs at once; another message with it is refused.
func TestKeys(t *testing.T) {
	w := talking(t)
	send := func(args ...string) outcome {
		return w.run("a", append([]string{"send", "HANDOFF", "--thread", "t-one", "--to", "rig-b", "--tldr", "once"}, args...)...)
	}
	count := func(dir string) int { return strings.Count(w.git(dir, "ls-files", "t-one"), "HANDOFF") }
	send("--key", "k 1").says(t, 0, "file=t-one/HANDOFF.md")
	send("--key", "k 1").says(t, 0, "file=t-one/HANDOFF.md", "repeated=true")
	if count("a") != 1 {
		t.Fatal(count("a"))
	}
	send("--key", "k 1", "--ref", "abcdef1").keeps(t, 1, "was used for another message", "hint: ")
	send("--key", "k 2").says(t, 0, "file=t-one/HANDOFF-2.md") // the neighbours
	send().says(t, 0, "file=t-one/HANDOFF-3.md")
	for _, bad := range []string{"", "a\nb", "a\x1b", strings.Repeat("x", 201), "\xff"} {
		send("--key="+bad).keeps(t, 1, "--key")
	}
	// The commit is there and the push failed: the key pushes it.
	w.config("a", "remote.origin.pushurl", w.path("away.git"))
	send("--key", "k 3").says(t, 2, "is kept")
	w.unset("a", "remote.origin.pushurl")
	// Somebody else takes the name meanwhile.
	w.ok("b", "sync", "--auto")
	w.ok("b", "send", "HANDOFF", "--thread", "t-one", "--to", "rig-a")
	send("--key", "k 3").says(t, 0, "repeated=true", "file=t-one/HANDOFF-5.md")
	send("--key", "k 3").says(t, 0, "repeated=true", "file=t-one/HANDOFF-5.md")
	// Two at once.
	var all []*exec.Cmd
	for range 4 {
		cmd := w.command("a", "send", "STATE", "--thread", "t-two", "--to", "rig-b", "--key", "at once")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(w.git("a", "ls-files", "t-two"), "STATE"); n != 1 {
		t.Errorf("%d messages", n)
	}
	// Killed at any moment, and run again until it is done.
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("setsid does not run")
	}
	w.config("a", "remote.origin.receivepack", "setsid git-receive-pack")
	for i := range stress(6, 100) {
		tldr := fmt.Sprintf("killed %d", i)
		args := []string{"send", "VERIFY", "--thread", "t-two", "--to", "rig-b", "--tldr", tldr, "--key", tldr}
		for try := range 3 {
			cmd := w.command("a", args...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration((i*37+try*53)%160) * time.Millisecond)
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
			if try == 1 && i%2 == 0 { // another message in between
				w.ok("a", "send", "STATE", "--thread", "t-two", "--to", "rig-b", "--tldr", "between")
			}
		}
		w.ok("a", args...)
		w.ok("a", args...).says(t, 0, "repeated=true")
		if n := strings.Count(w.git("origin.git", "grep", "-h", "tldr: "+tldr+"$", "main", "--", "t-two"), tldr); n != 1 {
			t.Fatalf("%s: %d messages", tldr, n)
		}
	}
	// A record that is not one is no permission.
	keys, _ := filepath.Glob(w.path("a/.git/rigward/keys/*"))
	for _, file := range keys {
		os.WriteFile(file, []byte("noise"), 0o644)
	}
	send("--key", "k 1").keeps(t, 2, "whether --key was used cannot be read", "hint: ")
	os.RemoveAll(w.path("a/.git/rigward/keys"))
	os.Mkdir(w.path("elsewhere"), 0o755)
	os.Symlink(w.path("elsewhere"), w.path("a/.git/rigward/keys"))
	send("--key", "k 9").keeps(t, 2, "is not followed")
}

// TestHintsOfAnswers does what the hints of inbox, wait, ack, reply and --key
// say, which leads out.
func TestHintsOfAnswers(t *testing.T) {
	w := talking(t)
	// The command behind `hint: `, up to a word that does not belong to it.
	hint := func(o outcome, upTo string) string {
		t.Helper()
		_, h, found := strings.Cut(o.stderr, "hint: ")
		if h, _, _ = strings.Cut(strings.TrimSpace(h), upTo); !found || o.code == 0 {
			t.Fatalf("no hint: %+v", o)
		}
		return h
	}
	follow := func(clone string, o outcome, upTo string) {
		t.Helper()
		w.ok(clone, strings.Fields(strings.TrimPrefix(hint(o, upTo), "rig-bridge "))...)
	}
	follow("b", w.run("b", "ack"), "\n") // rig-bridge ack t-
	o := w.run("b", "reply", strings.Repeat("0", 64))
	o.keeps(t, 1, "hint: name it THREAD/FILE, as rig-bridge thread THREAD shows it")
	w.ok("b", "reply", "t-one/STATE.md")
	w.ok("a", "sync", "--auto")
	for _, file := range []string{"RESPONSE.md", "ACK.md"} {
		if o := w.run("a", "ack", "t-one/"+file); o.code != 0 {
			follow("a", o, "\n") // hint: rig-bridge read t-one
		}
	}
	w.ok("a", "read", "t-one")
	follow("a", w.run("a", "ack"), "\n")                   // hint: rig-bridge inbox
	follow("a", w.run("a", "ack", "t-one/STATE.md"), "\n") // of this rig
	w.run("a", "ack", "t-other").keeps(t, 1, "hint: rig-bridge sync --auto")
	// A cursor of another clone.
	w.ok("b", "send", "STATE", "--thread", "t-one", "--to", "rig-a", "--no-push")
	cursor := w.box("b", "inbox").Cursor
	follow("a", w.run("a", "inbox", "--after", cursor), ",") // hint: rig-bridge inbox, which shows all that waits
	// Keys.
	send := []string{"send", "VERIFY", "--thread", "t-two", "--to", "rig-b", "--key", "one"}
	w.ok("a", send...)
	other := append(append([]string(nil), send...), "--tldr", "other")
	w.run("a", other...).keeps(t, 1, "hint: another key for another message")
	w.ok("a", append(other, "--key", "two")...)
	record, _ := filepath.Glob(w.path("a/.git/rigward/keys/*"))
	for _, file := range record {
		os.WriteFile(file, []byte("noise"), 0o644)
	}
	o = w.run("a", send...)
	_, remove, _ := strings.Cut(hint(o, " lets the key be used anew"), "rm ") // hint: rig-bridge thread THREAD shows what was sent; rm
	w.shell("a", "rm "+remove)
	w.ok("a", send...)
	gone := append(append([]string(nil), send...), "--key", "three", "--tldr", "gone")
	w.ok("a", append(gone, "--no-push")...)
	w.git("a", "reset", "-q", "--hard", "HEAD~1")
	w.shell("a", hint(w.run("a", gone...), "; another --key sends it anew"))
	w.ok("a", append(gone, "--key", "four")...)
	// Refused by the gates.
	w.write("a/t-two/BROKEN.md", fmt.Sprintf("---\nfrom: rig-a\nto: rig-b\ndate: 2026-05-15\nstatus: ▶ Go\ntype: STATE\nthread: t-two\nbody_hash: %s\n---\nx\n", strings.Repeat("a", 64)))
	w.git("a", "add", "t-two")
	w.git("a", "commit", "-q", "-m", "broken")
	w.push("a")
	w.git("b", "pull", "-q", "--rebase")
	o = w.run("b", "reply", "t-two/BROKEN.md")
	show, read, _ := strings.Cut(hint(o, "\n"), " shows it apart; rig-bridge ")
	w.ok("b", strings.Fields(strings.TrimPrefix(show, "rig-bridge "))...)
	w.ok("b", strings.Fields(read)...)
	// A fetch that takes longer than the waiting.
	w.ok("b", "read", "t-two")
	w.ok("b", "read", "t-one")
	w.config("b", "remote.origin.uploadpack", "sleep 2; git-upload-pack")
	w.run("b", "wait", "--timeout", "0.3").keeps(t, 2, "hint: rig-bridge wait with a longer --timeout")
	if o := w.run("b", "wait", "--timeout", "8"); o.code != 3 && o.code != 0 {
		t.Errorf("%+v", o)
	}
	// No rig-mcp beside this program or on PATH.
	w.run("b", "mcp").keeps(t, 2, "hint: go install github.com/rigward/rigward/cmd/rig-mcp@latest")
}

// TestFetchHead: what fetches beside a pull of somebody else leaves what that one has
// brought, whether the remote answers or not.
func TestFetchHead(t *testing.T) {
	w := talking(t)
	file := filepath.Join(w.path("b"), ".git", "FETCH_HEAD")
	const brought = "brought by a pull\n"
	if err := os.WriteFile(file, []byte(brought), 0o644); err != nil {
		t.Fatal(err)
	}
	w.config("b", "rigward.attestFollow", "true")
	for _, remote := range []string{"away.git", "origin.git"} {
		w.config("b", "remote.origin.url", "file://"+w.path(remote))
		w.ok("a", "send", "STATE", "--thread", "t-two", "--to", "rig-b")
		w.run("b", "wait", "--timeout", "0.5s")
		w.run("b", "sync")
		if data, err := os.ReadFile(file); err != nil || string(data) != brought {
			t.Errorf("%s: FETCH_HEAD is %q, %v", remote, data, err)
		}
	}
	if in := w.box("b", "inbox"); !strings.Contains(fmt.Sprint(in.Items), "t-two/STATE") {
		t.Errorf("%+v", in)
	}
}
