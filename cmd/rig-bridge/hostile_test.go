package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// clean tells that text for people cannot act on a terminal or forge a line:
// every line is one of ours.
func clean(t *testing.T, o outcome) {
	t.Helper()
	for _, r := range o.stdout + o.stderr {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == 0x2028 || r == 0x2029) {
			t.Errorf("U+%04X is printed:\n%q", r, o.stdout+o.stderr)
			break
		}
	}
	for line := range strings.Lines(o.stdout + o.stderr) {
		if !strings.HasPrefix(line, "rig-bridge: ") && !strings.HasPrefix(line, "hint: ") && !strings.HasPrefix(line, "thread=") {
			t.Errorf("a line that is not ours: %q", line)
		}
	}
}

// What others named so that it acts on a terminal is shown quoted by sync:
// files, rigs, branches and what a hook of the server says.
func TestHostileNames(t *testing.T) {
	names := []string{"a\nrig-bridge: sync pulled=true", "\x1b[2J\x1b[31mred", "\u202egnp.dm", "c1\u009b2J", "\u2028line", "tab\tname", "del\x7f", "bad\xff\xfeutf8", `quote"s`, "-n"}
	t.Run("files and rigs", func(t *testing.T) {
		w := newWorld(t)
		w.server()
		w.clone("a", "rig-a")
		w.git(".", "clone", "-q", "origin.git", "b")
		w.config("b", "user.name", "B")
		w.config("b", "user.email", "b@example.com")
		for i, name := range names {
			w.write("b/outside/"+name, "x")
			w.write("b/t-one/"+name+".md", fmt.Sprintf("---\nfrom: %q\nto: rig-a\ndate: 2026-05-01\nstatus: ▶ x\ntype: ACK\nthread: t-one\n---\nbody %d\n", strings.ToValidUTF8(name, "?"), i))
			w.write("b/"+name+"/REQUEST.md", "---\nfrom: rig-b\nto: rig-a\ndate: 2026-05-01\nstatus: ▶ x\ntype: REQUEST\nthread: t-one\n---\nbody\n")
		}
		w.git("b", "add", "-A")
		w.git("b", "commit", "-q", "-m", "names\n\n\x1b[2J")
		w.git("b", "push", "-q", "origin", "main")
		o := w.run("a", "sync", "--auto")
		if o.code != 1 || !strings.Contains(o.stdout, "reason=invalid_content") || !strings.Contains(o.stderr, `\x1b[2J`) {
			t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
		}
		clean(t, o)
		clean(t, w.run("b", "status"))
		w.write("a/t-one/REQUEST.md", "mine")
		clean(t, w.run("a", "sync"))
	})
	t.Run("branches", func(t *testing.T) {
		w := newWorld(t)
		w.server()
		w.clone("a", "rig-a")
		const branch = "f\u202erof\u2028x"
		w.git("a", "switch", "-q", "-c", branch)
		o := w.run("a", "sync")
		if o.code != 1 || !strings.Contains(o.stderr, "no upstream") {
			t.Errorf("exit %d\n%s", o.code, o.stderr)
		}
		clean(t, o)
		w.git("a", "push", "-q", "-u", "origin", branch)
		w.clone("b", "rig-b")
		w.git("b", "switch", "-q", branch)
		for _, clone := range []string{"a", "b"} {
			os.Mkdir(w.path(clone+"/t-one"), 0o755)
			w.ok(clone, "send", "ACK", "--thread", "t-one", "--to", "peer", "--no-push")
		}
		w.git("b", "push", "-q", "origin", branch)
		o = w.run("a", "sync")
		if o.code != 1 || !strings.Contains(o.stdout, "reason=both_sides_diverged") {
			t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
		}
		clean(t, o)
	})
	t.Run("the server's hook", func(t *testing.T) {
		w := faultWorld(t)
		w.program("origin.git/hooks/pre-receive", "#!/bin/sh\nprintf '\\033[2J\\302\\233no \\342\\200\\256way\\n' >&2\nexit 1\n")
		o := w.run("a", handoff...)
		o.keeps(t, 1, "way", "is kept")
		clean(t, o)
	})
}

// git is never asked in another language than C, whose messages are looked at,
// and a push that lost a race is known in every locale.
func TestLocale(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	w.clone("b", "rig-b")
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	w.program("bin/git", "#!/bin/sh\necho \"$LC_ALL $1\" >> '"+w.path("log")+"'\nexec '"+real+"' \"$@\"\n")
	vars := w.vars
	w.vars = nil
	for _, kv := range vars {
		if !strings.HasPrefix(kv, "LC_ALL=") {
			w.vars = append(w.vars, strings.Replace(kv, "PATH=", "PATH="+w.path("bin")+string(filepath.ListSeparator), 1))
		}
	}
	w.vars = append(w.vars, "LANG=de_DE.UTF-8", "LC_MESSAGES=de_DE.UTF-8", "LC_ALL=de_DE.UTF-8", "LANGUAGE=de")
	for _, clone := range []string{"a", "b"} {
		os.Mkdir(w.path(clone+"/t-"+clone), 0o755)
		// The second one is rejected first, and goes out on top of the first.
		o := w.ok(clone, "send", "ACK", "--thread", "t-"+clone, "--to", "peer", "--json")
		if want := map[string]string{"a": `"retries":0`, "b": `"retries":1`}[clone]; !strings.Contains(o.stdout, want) {
			t.Errorf("%s lacks %s", o.stdout, want)
		}
	}
	w.ok("a", "sync", "--auto")
	w.ok("a", "status")
	w.ok("a", "thread", "t-a")
	log, err := os.ReadFile(w.path("log"))
	if err != nil || len(log) == 0 {
		t.Fatal("git was not called", err)
	}
	for line := range strings.Lines(string(log)) {
		if !strings.HasPrefix(line, "C ") {
			t.Errorf("git was called in another locale: %s", line)
		}
	}
}
