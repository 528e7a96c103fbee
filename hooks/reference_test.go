package hooks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestReferenceClient lets the Node client rig-bridge 1.0.2 work through a
// server with our hooks: what it sends passes, and no tampering with it does.
func TestReferenceClient(t *testing.T) {
	modules := os.Getenv("RIGWARD_NPM_CLIENT")
	if modules == "" {
		t.Skip("RIGWARD_NPM_CLIENT does not name a node_modules directory with @mcptoolshop/rig-bridge 1.0.2")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	t.Parallel()
	w := newWorld(t, gittest.Options{})
	a := w.clone
	a.Config("push.default", "upstream")
	b := &gittest.Repo{T: t, Dir: filepath.Join(filepath.Dir(a.Dir), "b"), Home: a.Home, Env: append([]string(nil), a.Env...), Now: a.Now}
	a.Run("clone", "-q", w.server.Dir, b.Dir)
	a.Run("remote", "set-url", "origin", w.server.Dir)
	a.Run("fetch", "-q", "origin")
	a.Run("branch", "-q", "--set-upstream-to=origin/main")
	client := func(r *gittest.Repo, args ...string) gittest.Result {
		t.Helper()
		cmd := exec.Command(node, append([]string{filepath.Join(modules, "@mcptoolshop", "rig-bridge", "dist", "cli.js")}, args...)...)
		cmd.Dir, cmd.Env = r.Dir, append([]string{"NODE_NO_WARNINGS=1"}, r.Env...)
		var out, errOut strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errOut
		_ = cmd.Run()
		return gittest.Result{Stdout: out.String(), Stderr: errOut.String(), Code: cmd.ProcessState.ExitCode()}
	}
	body := filepath.Join(a.Home, "body.md")
	say := func(text string) string { write(t, body, text); return body }

	must(t, client(a, "init", "--rig-id", "rig-a"), 0)
	must(t, client(b, "init", "--rig-id", "rig-b"), 0)
	must(t, client(a, "new", "load-test"), 0)
	must(t, client(a, "send", "REQUEST", "--thread", "load-test", "--to", "rig-b", "--body-file", say("Can you take the load test?  \r\n\r\nÜber 9000.\n\n\n")), 0)
	w.settle()
	must(t, client(b, "sync", "--auto"), 0)
	must(t, client(b, "send", "HANDOFF", "--thread", "load-test", "--to", "rig-a,rig-c", "--tldr", "it's: \"done\" # yes", "--ref", w.base, "--body-file", say("Yes.\n")), 0)
	must(t, client(a, "sync", "--auto"), 0)
	must(t, client(a, "close", "load-test", "--status", "completed", "--note", "thanks"), 0)
	must(t, client(b, "sync", "--auto"), 0)
	w.settle()
	names := strings.Fields(w.server.Run("ls-tree", "--name-only", w.base, "load-test/"))
	if len(names) != 3 {
		t.Fatalf("the server has %q", names)
	}
	must(t, rig(a, a.Dir, "", "check", "--all"), 0, "4 envelopes checked")

	// Each kind of tampering with what it wrote.
	a.Run("reset", "-q", "--hard", w.base)
	read := func(path string) string {
		data, err := os.ReadFile(filepath.Join(a.Dir, filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	sent, good := "", ""
	for _, name := range names {
		if text := read(name); strings.Contains(text, "\ntype: HANDOFF\n") {
			sent, good = name, text
		}
	}
	for _, tt := range []struct {
		what, path, text, rule string
	}{
		{"edited in place", sent, good + "More.\n", "append-only"},
		{"its hash left alone", "load-test/STATE.md", strings.Replace(good, "Yes.", "No.", 1), "body-hash"},
		{"another thread's envelope", "other-test/HANDOFF.md", good, "envelope-path"},
		{"another type", "load-test/STATE.md", strings.Replace(good, "type: HANDOFF", "type: ORDER", 1), "envelope-schema"},
		{"no such day", "load-test/STATE.md", dateLine(good, "2026-02-30"), "envelope-date"},
		{"a second key", "load-test/STATE.md", strings.Replace(good, "from: rig-b", "from: rig-b\nfrom: rig-a", 1), "envelope-parse"},
	} {
		a.Write(tt.path, tt.text)
		a.Run("add", tt.path)
		a.Run("commit", "-q", "--no-verify", "-m", "HANDOFF: load-test")
		res := w.push("HEAD:main")
		if res.Code == 0 || !strings.Contains(unwrapped(res.Stderr), "["+tt.rule+"]") {
			t.Errorf("%s: exit %d\n%s", tt.what, res.Code, res.Stderr)
		}
		w.unmoved()
		a.Run("reset", "-q", "--hard", w.base)
	}
	a.Run("rm", "-q", sent)
	a.Run("commit", "-q", "--no-verify", "-m", "x")
	w.refused(w.push("HEAD:main"), "append-only")
	a.Run("reset", "-q", "--hard", w.base+"~1")
	a.Run("commit", "-q", "--no-verify", "--allow-empty", "-m", "x")
	w.refused(w.push("+HEAD:main"), "fast-forward")

	// It commits its own configuration nowhere, and what brings one is refused until the
	// hint has taken it out.
	if text := w.server.Run("ls-tree", "-r", "--name-only", w.base, ".bridge/"); strings.Contains(text, "config.yaml") {
		t.Errorf("the server has %s", text)
	}
	shell := func(script string) gittest.Result {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = b.Dir, b.Env
		var errOut strings.Builder
		cmd.Stderr = &errOut
		_ = cmd.Run()
		return gittest.Result{Stderr: errOut.String(), Code: cmd.ProcessState.ExitCode()}
	}
	res := shell("git add .bridge/config.yaml; git commit -q -m 'All of it'; git push -q origin HEAD:main")
	w.refused(res, "clone-config")
	_, hint, _ := strings.Cut(unwrapped(res.Stderr), "hint: ")
	hint, _, _ = strings.Cut(hint, "configuration'")
	must(t, shell(hint+"configuration'"), 0)
	must(t, client(b, "send", "STATE", "--thread", "load-test", "--to", "rig-a", "--body-file", say("On.\n")), 0)
	w.settle()
	a.Run("fetch", "-q", "origin")

	// The client's own push of a broken state is refused, and it says so.
	a.Run("reset", "-q", "--hard", w.base)
	a.Write(sent, good+"More.\n")
	a.Run("commit", "-q", "-a", "--no-verify", "-m", "x")
	res = client(a, "send", "STATE", "--thread", "load-test", "--to", "rig-b", "--body-file", say("On.\n"))
	if res.Code == 0 || !strings.Contains(res.Stdout+res.Stderr, "append-only") {
		t.Errorf("exit %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	w.unmoved()
}

// dateLine replaces the date of an envelope.
func dateLine(text, date string) string {
	head, tail, _ := strings.Cut(text, "\ndate: ")
	_, tail, _ = strings.Cut(tail, "\n")
	return head + "\ndate: " + date + "\n" + tail
}
