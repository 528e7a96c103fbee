package bridge

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

func TestToken(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "ÜBER.md": "ÜBER.md", "": `""`, "a b": `"a b"`, `q"`: `"q\""`, "k=v": `"k=v"`, "x\ny": `"x\ny"`,
		"\x1b[31m": `"\u001b[31m"`, "a\u202eb": `"a\u202eb"`, "\u0085": `"\u0085"`, "a\u00a0b": "\"a\u00a0b\"", "\u2028": `"\u2028"`,
	} {
		if got := token(in); got != want {
			t.Errorf("token(%q) = %s, want %s", in, got, want)
		}
	}
}

func FuzzOutput(f *testing.F) {
	f.Add("a b\x1b[31m\u202e\xff\n")
	f.Fuzz(func(t *testing.T, s string) {
		tok := token(s)
		if strings.ContainsAny(tok, "\n\t\r") || strings.HasPrefix(tok, `"`) != (tok != s) {
			t.Fatalf("token(%q) = %q", s, tok)
		}
		for _, text := range []string{tok, escapeLine(s), escape(s)} {
			if !utf8.ValidString(text) {
				t.Fatalf("invalid UTF-8 from %q", s)
			}
			for _, r := range text {
				if !finding.Printable(r) && r != '\n' && r != '\t' {
					t.Fatalf("%U reaches the terminal from %q", r, s)
				}
			}
		}
		data, err := finding.JSON(s)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(data, &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Fatalf("%q became %q: %v", s, back, err)
		}
		for _, r := range string(data) {
			if !finding.Printable(r) {
				t.Fatalf("%U in JSON of %q", r, s)
			}
		}
	})
}

func TestParseConfig(t *testing.T) {
	for text, want := range map[string]config{
		"rig_id: mac\n": {rigID: "mac"},
		"\ufeffrig_id: mac\r\ndisplay_name: Mac\r\n":                   {rigID: "mac", displayName: "Mac"},
		"rig_id: mac\ndisplay_name: ''\ndefault_thread: ~\n":           {rigID: "mac"},
		"rig_id: mac\ndefault_thread: t-one\nother: [1, 2]\n":          {rigID: "mac"},
		"rig_id: mac\ndisplay_name: " + strings.Repeat("🎯", 80) + "\n": {rigID: "mac", displayName: strings.Repeat("🎯", 80)},
	} {
		if got, err := parseConfig([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "rig_id: 5\n", "rig_id: Mac\n", "rig_id: mac\nrig_id: win\n", "display_name: x\n", "rig_id: [x\n",
		"rig_id: mac\ndisplay_name: 5\n", "rig_id: mac\ndefault_thread: 5\n", "rig_id: &a mac\n", "rig_id: mac\ndisplay_name: " + strings.Repeat("x", 81) + "\n", "rig_id: \xff\n"} {
		_, err := parseConfig([]byte(text))
		if err == nil || !strings.Contains(err.Error(), "config.yaml:") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("rig_id: mac\ndisplay_name: \"a\\nb\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if err != nil {
			return
		}
		text, err := c.render()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseConfig(text); err != nil || again != c {
			t.Fatalf("%+v written as %q is read as %+v, %v", c, text, again, err)
		}
	})
}

func TestOrder(t *testing.T) {
	names := []string{"ACK.md", "HANDOFF.md", "HANDOFF-2.md", "HANDOFF-9.md", "HANDOFF-10.md", "HANDOFF-100.md", "STATE.md"}
	shuffled := slices.Clone(names)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.SortFunc(shuffled, compareNames)
	if !slices.Equal(shuffled, names) {
		t.Errorf("%v", shuffled)
	}
	if compareNames("a-01.md", "a-1.md") == 0 || compareNames("a.md", "a.md") != 0 {
		t.Error("different names must not be equal")
	}
	m := func(file, typ, date, hash, reply string) *message {
		x := &message{file: file, day: noDay, env: &envelope.Envelope{Type: typ, Hash: hash, InReplyTo: reply}}
		x.dated(date)
		return x
	}
	want := []*message{
		m("Z.md", "ACK", "yesterday", "", ""),                 // no date
		m("A.md", "RESOLUTION", "2026-05-14", "", ""),         // the day before
		m("E.md", "REQUEST", "2026-05-15", "", ""),            // REQUEST first
		m("D.md", "ACK", "2026-05-15", "", ""),                //
		m("H-3.md", "HANDOFF", "2026-05-15", "h3", ""),        // before what answers it
		m("G.md", "STATE", "2026-05-15", "g", "h3"),           //
		m("F.md", "STATE", "2026-05-15", "f", "g"),            //
		m("H-2.md", "HANDOFF", "2026-05-15", "", "x"),         // answers nothing that is here
		m("H-10.md", "HANDOFF", "2026-05-15", "", ""),         // numbers as numbers
		m("A.md", "RESOLUTION", "2026-05-15", "", ""),         // RESOLUTION last
		m("C.md", "ACK", "2026-05-15T01:00:00Z", "", ""),      // instant before type
		m("K.md", "ACK", "2026-05-15T11:00:00Z", "k", ""),     // before what answers it, whatever the clocks say
		m("A3.md", "ACK", "2026-05-15T09:00:00Z", "", "k"),    //
		m("A.md", "ACK", "2026-05-15T12:00:00+02:00", "", ""), //
		m("A2.md", "REQUEST", "2026-05-15T10:00:01Z", "", ""), //
		m("R1.md", "ACK", "2026-05-15T22:00:00Z", "r1", "r2"), // a ring of forged hashes ends
		m("R2.md", "ACK", "2026-05-15T23:00:00Z", "r2", "r1"), //
		m("F.md", "ACK", "2026-05-15T23:59:59-00:30", "", ""), // the next day in UTC
	}
	want[15], want[16] = want[16], want[15]
	got := slices.Clone(want)
	rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	sortMessages(got)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("place %d holds %s %s", i, got[i].file, got[i].env.Type)
		}
	}
}

// What is read from one porcelain is what the other prints.
func TestParseStatus(t *testing.T) {
	dir := gittest.TempDir(t)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
		out, err := cmd.Output()
		if err != nil && args[0] != "merge" {
			t.Fatalf("git %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q", "-b", "main")
	if s := parseStatus(git("status", "--porcelain=v2", "--branch", "-z")); s.head != "" || s.ahead || len(s.lines) != 0 {
		t.Errorf("an empty repository: %+v", s)
	}
	for _, name := range []string{"t-one/a b.md", "t-one/old name.md", "t-one/gone.md", "both.md"} {
		write(name, strings.Repeat(name+"\n", 9))
	}
	git("add", ".")
	git("commit", "-qm", "one")
	git("branch", "other")
	git("branch", "base")
	git("branch", "-q", "-u", "base")
	write("both.md", "ours\n")
	git("commit", "-qam", "two")
	git("switch", "-q", "other")
	write("both.md", "theirs\n")
	git("commit", "-qam", "three")
	git("switch", "-q", "main")
	git("merge", "other")
	write("t-one/a b.md", "changed\n")
	git("mv", "t-one/old name.md", "t-one/new name.md")
	git("rm", "-q", "t-one/gone.md")
	write("t-one/intended é.md", "x\n")
	git("add", "-N", "t-one/intended é.md")
	write("docs/new.md", "x\n")
	write("odd -> name.md", "x\n")
	s := parseStatus(git("status", "--porcelain=v2", "--branch", "-z"))
	if s.head != strings.TrimSpace(git("rev-parse", "HEAD")) || !s.ahead {
		t.Errorf("head %s, ahead %t", s.head, s.ahead)
	}
	var want []string
	items := strings.Split(git("status", "--porcelain", "-z"), "\x00")
	for i := 0; i < len(items)-1; i++ {
		line := items[i]
		if strings.ContainsAny(line[:2], "RC") {
			i++
			line = line[:3] + items[i] + " -> " + line[3:]
		}
		want = append(want, line)
	}
	var got []string
	for _, l := range s.lines {
		got = append(got, l.text)
		if l.xy != l.text[:2] || !strings.HasSuffix(l.text, l.paths[0]) {
			t.Errorf("%+v", l)
		}
	}
	if len(want) != 7 || !slices.Equal(got, want) {
		t.Errorf("%q\nexpected %q", got, want)
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add("# branch.oid (initial)\x002 R. N... 100644 100644 100644 a b R100 new\x00old\x00? c\x00")
	f.Fuzz(func(t *testing.T, s string) {
		for _, l := range parseStatus(s).lines {
			if len(l.paths) == 0 || l.text == "" || !strings.HasPrefix(l.text, l.xy+" ") {
				t.Fatalf("%+v", l)
			}
		}
	})
}

func TestTrackingRef(t *testing.T) {
	for _, c := range []struct{ spec, ref, want string }{
		{"+refs/heads/*:refs/remotes/origin/*", "refs/heads/main", "refs/remotes/origin/main"},
		{"+refs/heads/*:refs/remotes/origin/*", "refs/heads/a/b", "refs/remotes/origin/a/b"},
		{"refs/heads/main:refs/remotes/o/m", "refs/heads/main", "refs/remotes/o/m"},
		{"refs/heads/main:refs/remotes/o/m", "refs/heads/side", ""},
		{"+refs/heads/x*y:refs/remotes/o/*", "refs/heads/xy", "refs/remotes/o/"},
		{"refs/heads/main", "refs/heads/main", ""},
	} {
		if got := gitrepo.ParseRefspecs([]string{c.spec}).Tracking(c.ref); got != c.want {
			t.Errorf("%s %s: %q", c.spec, c.ref, got)
		}
	}
}

func TestReadPush(t *testing.T) {
	for _, c := range []struct {
		code           int
		stdout, stderr string
		want           pushAnswer
		says           string
	}{
		{0, "To x\n*\tabc:refs/heads/main\t[new branch]\nDone\n", "", accepted, ""},
		{1, "To x\n!\tabc:refs/heads/main\t[rejected] (fetch first)\nDone\n", "error: failed", raced, "fetch first"},
		{1, "To x\n!\tabc:refs/heads/main\t[remote rejected] (cannot lock ref 'refs/heads/main': is at a but expected b)\n", "", raced, "lock"},
		{1, "To x\n!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)\n", "remote: no\x1b[2J\nerror: failed\n", denied, `no\x1b`},
		{1, "To x\n!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)\n", "remote: rigward: push refused: 2 errors        \nremote: refs/heads/main: error [push-cert]        \nremote:   the push has\nremote:   no certificate\nremote:   hint: git push --signed\nremote: t-one/A.md: error [append-only]\nremote:   changed\n", denied,
			`"rigward: push refused: 2 errors: refs/heads/main: error [push-cert] the push has no certificate hint: git push --signed"`},
		{1, "To x\n!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)\n", "remote: rigward: push refused: cannot decide\nremote:   the time was up\n", denied, `"rigward: push refused: cannot decide the time was up"`},
		{1, "", "no way\nerror: failed to push some refs to 'x'\n", hookDenied, "no way"},
		{1, "", "refs/heads/main: error: unsigned [commit-signed]\n  hint: sign it\npre-push: refused\nerror: failed to push some refs to 'x'\n", hookDenied, `"refs/heads/main: error: unsigned [commit-signed] hint: sign it"`},
		{1, "To x\n!\tabc:refs/heads/main\t[remote rejected] (failed to update ref)\nDone\n",
			"remote: error: cannot lock ref 'refs/heads/main': Unable to create '/s.git/./refs/heads/main.lock': File exists.        \nremote: \nremote: Another git process\n", locked,
			`"error: cannot lock ref 'refs/heads/main': Unable to create '/s.git/./refs/heads/main.lock': File exists."`},
		{1, "To x\n!\tabc:refs/heads/main\t[remote rejected] (failed to update ref)\nDone\n", "remote: error: cannot lock ref 'refs/heads/main': is at a but expected b\n", raced, "failed to update"},
		{128, "", "fatal: Could not read from remote repository.\n", unreached, "Could not read"},
		{128, "", "remote: fatal: out of memory, malloc failed\x1b[2J        \nsend-pack: unexpected disconnect while reading sideband packet\nfatal: the remote end hung up unexpectedly\n", unreached,
			`"remote: fatal: out of memory, malloc failed\x1b[2J"`},
		{128, "", "remote: hello\nfatal: the remote end hung up unexpectedly\n", unreached, `"fatal: the remote end hung up unexpectedly"`},
	} {
		got, why := readPush(gitrepo.Result{Code: c.code, Stdout: []byte(c.stdout), Stderr: []byte(c.stderr)})
		if got != c.want || !strings.Contains(why, c.says) {
			t.Errorf("%q: %v %q", c.stdout+c.stderr, got, why)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{"a\n\nSigned-off-by: x": "a Signed-off-by: x", "  a \t b\u2028c\x00d ": "a b c d", "\n": ""} {
		if got := oneLine(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// TestQuick holds the short way of status against the full judgement, on every
// vector and on rendered messages.
func TestQuick(t *testing.T) {
	taken := 0
	check := func(data []byte, thread string) {
		t.Helper()
		e, ok := quick(data, thread)
		if !ok {
			return
		}
		taken++
		full, fs := content(data, thread+"/ACK.md", 0o100644)
		if full == nil || len(fs) > 0 {
			t.Fatalf("quick takes what is refused: %v\n%q", fs, data)
		}
		if e.From != full.From || !slices.Equal(e.To, full.To) || e.Date != full.Date || e.Status != full.Status || e.Type != full.Type ||
			e.Thread != full.Thread || e.Hash != full.Hash || e.TLDR != full.TLDR || e.DisplayName != full.DisplayName || string(e.Body) != string(full.Body) || e.ToList != full.ToList {
			t.Fatalf("quick reads otherwise: %+v\n%+v\n%q", e, full, data)
		}
	}
	files, _ := filepath.Glob("../../testdata/envelopes/*/*")
	more, _ := filepath.Glob("../../testdata/envelopes/*")
	for _, f := range append(files, more...) {
		if data, err := os.ReadFile(f); err == nil {
			for _, thread := range []string{"t-one", "thread-one", "t"} {
				check(data, thread)
			}
		}
	}
	words := []string{"mac", "null", "true", "~", "123", "0x1f", "12e3", "1.5", "2026-05-15", "2026-02-30", "▶ Go", "▶Go", "❌ No", "a b", "a: b", "a #b", "-", "yes", "x-relay", "HANDOFF", "t-one", "é", ".inf", "Infinity", "+1", "1-2-3", strings.Repeat("7", 64)}
	pick := func() string { return words[rand.IntN(len(words))] }
	for range 20000 {
		f := envelope.Fields{From: "mac", To: []string{"win"}, Date: "2026-05-15", Status: "▶ Go", Type: "HANDOFF", Thread: "t-one", Body: []byte("x\n")}
		for range rand.IntN(3) {
			switch rand.IntN(8) {
			case 0:
				f.From = pick()
			case 1:
				f.To = []string{pick()}
			case 2:
				f.Date = pick()
			case 3:
				f.Status = pick()
			case 4:
				f.Type = pick()
			case 5:
				f.TLDR = pick()
			case 6:
				f.DisplayName = pick()
			case 7:
				f.Body = []byte(pick() + "\n")
			}
		}
		f.BodyHash = bodyHash(f.Body)
		data, err := envelope.Render(f)
		if err != nil {
			continue
		}
		check(data, "t-one")
		// The same without quotes, as careless writers do.
		check([]byte(strings.ReplaceAll(string(data), `"`, "")), "t-one")
	}
	if taken < 5000 {
		t.Errorf("quick took only %d messages", taken)
	}
}

func FuzzQuick(f *testing.F) {
	data, err := envelope.Render(envelope.Fields{From: "mac", To: []string{"win"}, Date: "2026-05-15", Status: "▶ Go", Type: "HANDOFF", Thread: "t-one", TLDR: "a", BodyHash: bodyHash([]byte("x\n")), Body: []byte("x\n")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		e, ok := quick(data, "t-one")
		if !ok {
			return
		}
		full, fs := content(data, "t-one/ACK.md", 0o100644)
		if full == nil || finding.Worst(fs) > finding.Off || e.Status != full.Status || e.Hash != full.Hash || e.TLDR != full.TLDR || e.Date != full.Date {
			t.Fatalf("%q: %v", data, fs)
		}
	})
}

func TestGraph(t *testing.T) {
	ms := []*message{
		{file: "REQUEST.md", commit: "aaaaaaaa", env: &envelope.Envelope{Type: "REQUEST", From: "a", Hash: "h1"}},
		{file: "ACK.md", commit: "bbbbbbbb", env: &envelope.Envelope{Type: "ACK", From: "b", Hash: "h2", InReplyTo: "h1"}},
		{file: "R\"]x.md", commit: "cccccccc", env: &envelope.Envelope{Type: "RESULT", From: "b", Hash: "h3", InReplyTo: "h2", References: []string{"aaaaaaa"}}},
		{file: "STATE.md", env: &envelope.Envelope{Type: "STATE", From: "c\x1b", InReplyTo: "h1"}},
	}
	want := "* REQUEST.md type=REQUEST from=a\n" +
		"|-- ACK.md type=ACK from=b\n" +
		"|   `-- \"R\\\"]x.md\" type=RESULT from=b (refers REQUEST.md)\n" +
		"`-- STATE.md type=STATE from=\"c\\u001b\"\n"
	if got := asciiGraph(ms); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	m := mermaid(ms)
	if strings.ContainsRune(m, 0x1b) || strings.Contains(m, `R"]x`) || !strings.Contains(m, "m3 -->|answers| m2") || !strings.Contains(m, "m3 -.->|refers| m1") {
		t.Error(m)
	}
}

// TestMachineInTheWay: a full disk is nobody's refusal, on this side and over there; what a hook or git's checks refuse is.
func TestMachineInTheWay(t *testing.T) {
	for _, said := range []string{
		"error: unable to write file t/x.md\nfatal: sha1 file '/c/.git/index.lock' write error. Out of diskspace\n",
		"fatal: cannot update ref 'refs/heads/main': couldn't write '/c/.git/refs/heads/main.lock'\n",
		"fatal: cannot update ref 'refs/heads/main': unable to append to '.git/logs/HEAD': No space left on device\n",
		"error: failed to write new configuration file /c/.git/config.lock\n",
		"fatal: unable to write loose object file: No space left on device\n",
	} {
		if f := gitFailed("git add", gitrepo.Result{Code: 128, Stderr: []byte(said)}); f.exit != 2 || strings.Contains(said, "pace") != (f.hint != "") {
			t.Errorf("%q: exit %d, hint %q", said, f.exit, f.hint)
		}
	}
	if f := gitFailed("git commit", gitrepo.Result{Code: 1, Stderr: []byte("no ticket in the message\n")}); f.exit != 1 {
		t.Errorf("a hook's refusal: exit %d", f.exit)
	}
	const line = "!\tmain:refs/heads/main\t[remote rejected] (unpacker error)\nDone\n"
	for said, want := range map[string]pushAnswer{
		"remote: fatal: unable to write loose object file: No space left on device\nerror: remote unpack failed: unpack-objects abnormal exit\n":                    unreached,
		"remote: error: object 0123: zeroPaddedFilemode: contains zero-padded file modes\nremote: fatal: fsck error\nerror: remote unpack failed: unpack-objects\n": denied,
	} {
		if got, why := readPush(gitrepo.Result{Code: 1, Stdout: []byte(line), Stderr: []byte(said)}); got != want {
			t.Errorf("%q: %v %s", said, got, why)
		}
	}
}
