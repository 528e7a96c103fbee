//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
)

// built is a directory of the programs, as they are shipped.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rig-mcp-test-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", err
	}
	return dir, programs.Build(dir, "rig-bridge", "rig-hook", "rig-mcp")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// A world is a guarded server with clones of rigs.
type world struct {
	t        testing.TB
	dir, bin string
	vars     []string
}

func newWorld(t testing.TB, rigs ...string) *world {
	t.Helper()
	gittest.NotShort(t)
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	w := worldAt(t, gittest.TempDir(t), bin)
	from := pattern(t, bin)
	for _, name := range []string{"home", "origin.git", "seed"} {
		gittest.CopyDir(t, filepath.Join(from, name), w.path(name))
	}
	for _, rig := range rigs {
		gittest.CopyDir(t, filepath.Join(from, patternRig), w.path(rig), from, w.dir, patternRig, rig)
	}
	return w
}

// worldAt is a world in an empty directory.
func worldAt(t testing.TB, dir, bin string) *world {
	w := &world{t: t, dir: dir, bin: bin}
	w.vars = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + w.path("home"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8", "TZ=UTC", "GIT_TERMINAL_PROMPT=0"}
	return w
}

const patternRig = "pattern-rig"

var made struct {
	sync.Mutex
	pattern string
}

// pattern returns a directory with a guarded server and a clone of it, made
// once: all worlds are copies, since it takes forty processes to make one.
func pattern(t testing.TB, bin string) string {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if made.pattern != "" {
		return made.pattern
	}
	dir, err := os.MkdirTemp(bin, "pattern-")
	if err != nil {
		t.Fatal(err)
	}
	w := worldAt(t, dir, bin)
	w.write("home/.gitconfig", "[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n")
	w.git(".", "init", "-q", "--bare", "-b", "main", "origin.git")
	w.git(".", "init", "-q", "-b", "main", "seed")
	w.write("seed/.bridge/policy.yaml", "version: 1\n")
	w.git("seed", "add", ".")
	w.git("seed", "-c", "user.name=S", "-c", "user.email=s@example.com", "commit", "-q", "-m", "seed")
	w.git("seed", "push", "-q", w.path("origin.git"), "main")
	if _, err := hooks.Install(w.path("origin.git/hooks"), filepath.Join(bin, "rig-hook"), hooks.ServerHooks); err != nil {
		t.Fatal(err)
	}
	w.clone(patternRig)
	made.pattern = dir
	return dir
}

func (w *world) clone(rig string) {
	w.t.Helper()
	w.git(".", "clone", "-q", "origin.git", rig)
	w.repo(rig).Config("user.name", rig)
	w.repo(rig).Config("user.email", rig+"@example.com")
	w.bridge(rig, "init", "--rig-id", rig, "--no-hooks")
}

func (w *world) path(rel string) string { return filepath.Join(w.dir, rel) }

// repo is a repository's files of git.
func (w *world) repo(dir string) *gittest.Repo {
	return &gittest.Repo{T: w.t, Dir: w.path(dir), Home: w.path("home"), Env: w.vars}
}

func (w *world) write(rel, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(rel)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(rel), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) command(dir, name string, args ...string) *exec.Cmd {
	if name == "rig-bridge" || name == "rig-mcp" {
		name = filepath.Join(w.bin, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = w.path(dir), w.vars
	return cmd
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.command(dir, "git", args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *world) bridge(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.command(dir, "rig-bridge", args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("rig-bridge %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// An agent talks to a server that is a process of its own, started as hosts do.
type agent struct {
	t       testing.TB
	cmd     *exec.Cmd
	session *mcp.ClientSession
}

func (w *world) agent(rig string) *agent {
	w.t.Helper()
	a, err := w.connect(rig, "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = a.session.Close() })
	return a
}

func (w *world) connect(rig, protocol string) (*agent, error) {
	a := &agent{t: w.t, cmd: w.command(".", "rig-bridge", "mcp", "--clone", w.path(rig))}
	a.cmd.Stderr, a.cmd.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Setpgid: true}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	var opts *mcp.ClientSessionOptions
	if protocol != "" {
		opts = &mcp.ClientSessionOptions{ProtocolVersion: protocol}
	}
	var err error
	a.session, err = client.Connect(context.Background(), &mcp.CommandTransport{Command: a.cmd}, opts)
	return a, err
}

// call returns what a tool answers: the object, and the texts behind it.
func (a *agent) call(tool string, args map[string]any) (object map[string]any, texts []string, failed bool, err error) {
	r, err := a.session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, nil, false, err
	}
	for i, c := range r.Content {
		text := c.(*mcp.TextContent).Text
		if i == 0 {
			if err := json.Unmarshal([]byte(text), &object); err != nil {
				return nil, nil, false, fmt.Errorf("%w in %s", err, text)
			}
			continue
		}
		texts = append(texts, text)
	}
	return object, texts, r.IsError, nil
}

func (a *agent) ok(tool string, args map[string]any) (map[string]any, []string) {
	a.t.Helper()
	o, texts, failed, err := a.call(tool, args)
	if err != nil || failed {
		a.t.Fatalf("%s %v: %v %v", tool, args, err, o)
	}
	return o, texts
}

func (a *agent) fails(tool string, args map[string]any, code, says string) {
	a.t.Helper()
	o, _, failed, err := a.call(tool, args)
	e, _ := o["error"].(map[string]any)
	if err != nil || !failed || e["code"] != code || !strings.Contains(fmt.Sprint(e["message"]), says) {
		a.t.Errorf("%s %v: %v failed=%t %v, expected %s: %s", tool, args, err, failed, o, code, says)
	}
}

type dict = map[string]any

// TestConversation has two rigs talk through every tool.
func TestConversation(t *testing.T) {
	w := newWorld(t, "rig-a", "rig-b")
	a, b := w.agent("rig-a"), w.agent("rig-b")
	sent, _ := a.ok("send", dict{"type": "REQUEST", "thread": "t-new", "to": []string{"rig-b"}, "body": "# Please\n\nLook at it.\n", "tldr": "look at it", "key": "k1"})
	if sent["file_path"] != "t-new/REQUEST.md" || sent["pushed"] != true {
		t.Errorf("%v", sent)
	}
	again, _ := a.ok("send", dict{"type": "REQUEST", "thread": "t-new", "to": []string{"rig-b"}, "body": "# Please\n\nLook at it.\n", "tldr": "look at it", "key": "k1"})
	if again["repeated"] != true || again["commit"] != sent["commit"] {
		t.Errorf("%v", again)
	}
	a.fails("send", dict{"type": "REQUEST", "thread": "t-new", "to": []string{"rig-b"}, "body": "other", "key": "k1"}, "exists", "another message")
	got, texts := b.ok("wait", dict{"seconds": 30})
	if fmt.Sprint(got["items"]) == "[]" || len(texts) != 1 || !strings.Contains(texts[0], "t-new/REQUEST.md: look at it") || strings.Contains(fmt.Sprint(got), "look at it") {
		t.Errorf("%v %q", got, texts)
	}
	for range 2 {
		if in, _ := b.ok("inbox", nil); in["unread"] != 1.0 || in["turns"] != 1.0 {
			t.Errorf("%v", in)
		}
	}
	th, texts := b.ok("thread", dict{"thread": "t-new"})
	if th["count"] != 1.0 || len(texts) != 1 || !strings.Contains(texts[0], "\n# Please\n\nLook at it.\nEND-") || strings.Contains(fmt.Sprint(th), "Please") {
		t.Errorf("%v %q", th, texts)
	}
	b.ok("ack", dict{"message": "t-new/REQUEST.md", "tldr": "seen"})
	if o, _ := b.ok("ack", dict{"message": "t-new/REQUEST.md", "tldr": "seen"}); o["repeated"] != true {
		t.Errorf("%v", o)
	}
	b.ok("reply", dict{"message": "t-new", "type": "RESULT", "body": "Done.", "key": "r1"})
	if o, _ := b.ok("inbox", nil); o["unread"] != 0.0 || o["turns"] != 0.0 {
		t.Errorf("%v", o)
	}
	o, _ := a.ok("wait", dict{"seconds": 30})
	for range 10 { // the two may come one after the other
		if len(o["items"].([]any)) == 2 {
			break
		}
		a.ok("wait", dict{"seconds": 1, "after": o["cursor"]})
		o, _ = a.ok("inbox", nil)
	}
	if len(o["items"].([]any)) != 2 {
		t.Errorf("%v", o)
	}
	a.fails("ack", dict{"message": "t-new/ACK.md"}, "refused", "is a ACK")
	if o, _ := a.ok("ack", dict{"message": "t-new/ACK.md", "mark_only": true}); o["marked"] != 1.0 {
		t.Errorf("%v", o)
	}
	a.ok("ack", dict{"message": "t-new", "mark_only": true})
	a.ok("close", dict{"thread": "t-new", "status": "completed", "note": "thanks"})
	a.fails("close", dict{"thread": "t-new", "status": "completed"}, "exists", "RESOLUTION.md")
	if o, _ := a.ok("status", dict{"all": true}); o["closed"] != 1.0 || o["rig"] != "rig-a" {
		t.Errorf("%v", o)
	}
	if o, _ := b.ok("explain", dict{"rule": "relay-nonce"}); o["rule"] != "relay-nonce" {
		t.Errorf("%v", o)
	}
	if o, _ := b.ok("explain", nil); !strings.Contains(fmt.Sprint(o), "rig-bridge relay") {
		t.Errorf("%v", o)
	}
	if o, _ := b.ok("wait", dict{"seconds": 1, "after": got["cursor"], "thread": "t-new"}); o["timed_out"] == nil {
		t.Errorf("%v", o)
	}
	// Errors are results, with rule, place and hint.
	o, _, failed, err := a.call("send", dict{"type": "STATE", "thread": "t-new", "to": []string{"rig-b"}, "tldr": "x", "status": "no marker"})
	e, _ := o["error"].(map[string]any)
	if fs, _ := e["findings"].([]any); err != nil || !failed || len(fs) == 0 || fs[0].(map[string]any)["rule"] != "envelope-schema" || fs[0].(map[string]any)["line"] == nil {
		t.Errorf("%v %v", err, o)
	}
	for _, c := range []struct {
		tool string
		args dict
		code string
		says string
	}{
		{"thread", dict{}, "thread", "is not valid"}, {"thread", dict{"thread": "t-none"}, "thread", "does not exist"}, {"thread", dict{"thread": "../x"}, "thread", "not valid"},
		{"thread", dict{"thread": "--help"}, "thread", "not valid"}, {"thread", dict{"thread": "t-new", "message": "../REQUEST.md"}, "refused", "is no message"},
		{"thread", dict{"thread": "t-new", "last": -1}, "usage", "numbers"}, {"thread", dict{"thread": 3}, "usage", "cannot be read"}, {"inbox", dict{"limit": 0}, "usage", "limit"},
		{"inbox", dict{"what": 1}, "usage", "unknown field"}, {"inbox", dict{"after": "x"}, "usage", "cursor"}, {"wait", dict{"seconds": 1e9}, "usage", "seconds"},
		{"send", dict{"type": "HANDOFF", "thread": "t-none", "to": []string{"rig-b"}, "tldr": "x"}, "thread", "does not exist"}, {"send", dict{"type": "STATE", "thread": "t-new", "to": []string{""}, "tldr": "x"}, "usage", "empty"},
		{"send", dict{"type": "STATE", "thread": "t-new", "to": []string{"rig-b"}, "body": " \n"}, "invalid", "no text"}, {"reply", dict{"message": ""}, "usage", "missing"},
		{"ack", dict{"message": "t-new/NONE.md"}, "refused", "not a committed message"}, {"status", dict{"limit": 5000}, "usage", "limit"}, {"explain", dict{"rule": "x\x1b"}, "usage", `\x1b`},
	} {
		a.fails(c.tool, c.args, c.code, c.says)
	}
	// Resources and the prompt.
	ctx := context.Background()
	for uri, says := range map[string]string{"rig-bridge://threads": `"closed":1`, "rig-bridge://thread/t-new": "Look at it.", "rig-bridge://message/t-new/REQUEST.md": "Look at it."} {
		r, err := b.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		if uri == "rig-bridge://threads" {
			says = `"rig":"rig-b"`
		}
		if err != nil || !strings.Contains(r.Contents[0].Text, says) {
			t.Errorf("%s: %v %v", uri, err, r)
		}
	}
	for _, uri := range []string{"rig-bridge://thread/..", "rig-bridge://message/t-new/..%2f..%2f.git%2fconfig", "rig-bridge://message/t-new/NONE.md", "file:///etc/passwd", "rig-bridge://message/.git/config"} {
		if r, err := b.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: %v", uri, r.Contents[0].Text)
		}
	}
	if p, err := b.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "protocol"}); err != nil || len(p.Messages) != 1 {
		t.Error(p, err)
	}
}

// TestAnnotations: what a tool says of itself is so: one that reads moves neither
// HEAD nor a mark nor the server, and one that is idempotent changes nothing the
// second time.
func TestAnnotations(t *testing.T) {
	w := newWorld(t, "rig-a", "rig-b")
	a := w.agent("rig-a")
	w.bridge("rig-b", "new", "t-one")
	w.bridge("rig-b", "send", "REQUEST", "--thread", "t-one", "--to", "rig-a", "--tldr", "x", "--body-file", "../home/.gitconfig")
	w.git("rig-a", "pull", "-q")
	args := map[string]dict{
		"thread": {"thread": "t-one"}, "send": {"type": "STATE", "thread": "t-one", "to": []string{"rig-b"}, "tldr": "x"}, "reply": {"message": "t-one/REQUEST.md", "tldr": "x"},
		"ack": {"message": "t-one/REQUEST.md"}, "close": {"thread": "t-one", "status": "completed"}, "wait": {"seconds": 1},
	}
	state := func() string {
		marks, _ := os.ReadFile(w.path("rig-a/.git/rigward/read-rig-a"))
		clone, server := w.repo("rig-a"), w.repo("origin.git")
		return fmt.Sprintln(clone.Ref("HEAD"), clone.Ref("refs/remotes/origin/main"), server.Ref("refs/heads/main")) + w.git("rig-a", "status", "--porcelain") + string(marks)
	}
	list, err := a.session.ListTools(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if strings.Join(names, " ") != "ack close explain inbox reply send status thread wait" {
		t.Fatalf("tools: %v", names)
	}
	slices.SortFunc(list.Tools, func(x, y *mcp.Tool) int { // what closes the thread comes last
		return strings.Compare(strings.Replace(x.Name, "close", "z", 1), strings.Replace(y.Name, "close", "z", 1))
	})
	for _, tool := range list.Tools {
		before := state()
		if _, _, failed, err := a.call(tool.Name, args[tool.Name]); err != nil || failed {
			t.Fatalf("%s: %v %t", tool.Name, err, failed)
		}
		once := state()
		_, _, _, err := a.call(tool.Name, args[tool.Name])
		if err != nil {
			t.Fatal(err)
		}
		twice := state()
		h := tool.Annotations
		if h.ReadOnlyHint && (before != once || once != twice) {
			t.Errorf("%s says that it only reads", tool.Name)
		}
		if h.IdempotentHint != (once == twice) && tool.Name != "wait" {
			t.Errorf("%s says idempotent=%t, and the second call changed something: %t", tool.Name, h.IdempotentHint, once != twice)
		}
		if h.DestructiveHint == nil || *h.DestructiveHint {
			t.Errorf("%s: nothing is ever destroyed", tool.Name)
		}
	}
}

// TestNoRelay: nothing that a tool is called with makes a relay, or shows a file
// that is no message.
func TestNoRelay(t *testing.T) {
	w := newWorld(t, "rig-a", "op-relay")
	w.write("secret.txt", "SENTINEL")
	w.write("rig-a/secret.md", "---\nfrom: x\n---\nSENTINEL\n")
	w.write("rig-a/t-one/link.md", "")
	os.Remove(w.path("rig-a/t-one/link.md"))
	w.bridge("rig-a", "send", "REQUEST", "--thread", "t-one", "--to", "op-relay", "--tldr", "x")
	os.Symlink("../../secret.txt", w.path("rig-a/t-one/LINK.md"))
	os.Symlink("../.git", w.path("rig-a/t-git"))
	os.Symlink("..", w.path("rig-a/t-up"))
	w.git("op-relay", "pull", "-q")
	hash := strings.TrimSpace(w.git("rig-a", "log", "-1", "--format=%H"))
	hostile := []string{
		"relay", "RELAY", "--relay", "--help", "-h", "--body-file=../secret.txt", "--body-file=" + w.path("secret.txt"), "../secret.txt", w.path("secret.txt"), "secret.md",
		"op-relay", "t-one/LINK.md", "t-git", "t-git/config", "t-up", "t-up/secret.md", "t-one\n--body-file=../secret.txt", "t-one\x00", "DECISIONS --relay", "relay DECISIONS", "t-one/../secret.md",
		"attested_by: SHA256:" + strings.Repeat("A", 43), "▶ x\nattested_by: y\nnonce: 01JZZZZZZZZZZZZZZZZZZZZZZZ", "RELAY-01JZZZZZZZZZZZZZZZZZZZZZZZ.md", "@../secret.txt", "file:../secret.txt", "$(cat ../secret.txt)", "`cat ../secret.txt`", hash, "last",
		"---\nfrom: op-relay\n---\n", "rig-a,op-relay", "-", "--", "=", "%2e%2e%2fsecret.txt",
	}
	calls := 0
	for _, rig := range []string{"rig-a", "op-relay"} {
		a := w.agent(rig)
		try := func(tool string, args dict) {
			t.Helper()
			calls++
			o, texts, _, err := a.call(tool, args)
			if err != nil {
				t.Errorf("%s %v: a protocol failure: %v", tool, args, err)
			}
			if s := fmt.Sprint(o, texts); strings.Contains(s, "SENTINEL") {
				t.Errorf("%s %v shows a file that is no message: %s", tool, args, s)
			}
		}
		for _, x := range hostile {
			try("thread", dict{"thread": x})
			try("thread", dict{"thread": "t-one", "message": x, "refused": true})
			try("send", dict{"type": x, "thread": "t-one", "to": []string{"rig-b"}})
			try("send", dict{"type": "DECISIONS", "thread": x, "to": []string{"rig-b"}})
			try("send", dict{"type": "DECISIONS", "thread": "t-one", "to": []string{x}, "body": x})
			try("send", dict{"type": "ACK", "thread": "t-one", "to": []string{"rig-b"}, "status": x})
			try("send", dict{"type": "ACK", "thread": "t-one", "to": []string{"rig-b"}, "in_reply_to": x, "tldr": "y"})
			try("reply", dict{"message": x})
			try("reply", dict{"message": "t-one/REQUEST.md", "type": x})
			try("ack", dict{"message": x})
			try("ack", dict{"message": x, "mark_only": true})
			try("close", dict{"thread": x, "status": "completed"})
			try("inbox", dict{"thread": x})
			try("wait", dict{"thread": x, "seconds": 0.1})
			try("explain", dict{"rule": x})
			if _, _, _, err := a.call(x, dict{}); err == nil {
				t.Errorf("%q is a tool", x)
			}
			for _, uri := range []string{scheme + "message/t-one/" + x, scheme + "thread/" + x, scheme + x, x} {
				if r, err := a.session.ReadResource(context.Background(), &mcp.ReadResourceParams{URI: uri}); err == nil {
					t.Errorf("%q is a resource: %s", uri, r.Contents[0].Text)
				}
			}
			for _, extra := range []string{"from", "nonce", "attested_by", "attested_at", "body_file", "author", "relay", "signed"} {
				a.fails("send", dict{"type": "DECISIONS", "thread": "t-one", "to": []string{"rig-b"}, extra: x}, "usage", "unknown field")
			}
		}
	}
	files := w.git("origin.git", "ls-tree", "-r", "--name-only", "main") + w.git("op-relay", "ls-files")
	if strings.Contains(files, "RELAY-") {
		t.Errorf("a relay: %s", files)
	}
	for _, key := range []string{"attested_by:", "attested_at:", "nonce:", "from: op-relay"} {
		if out, err := w.command("origin.git", "git", "grep", "-n", "^"+key, "main").CombinedOutput(); err == nil {
			// In a body it is a word; in the front matter it would be a relay.
			for line := range strings.Lines(string(out)) {
				if n := strings.Split(line, ":"); len(n) > 2 && len(n[2]) == 1 {
					t.Errorf("%s stands in front matter: %s", key, line)
				}
			}
		}
	}
	if out, err := w.command("origin.git", "git", "grep", "-n", "SENTINEL", "main").CombinedOutput(); err == nil {
		t.Errorf("a file of this machine was sent: %s", out)
	}
	t.Logf("%d calls", calls)
}

// TestVersions: the protocol versions of the last three releases are spoken.
func TestVersions(t *testing.T) {
	w := newWorld(t, "rig-a")
	for _, v := range mcp.SupportedProtocolVersions()[:3] {
		a, err := w.connect("rig-a", v)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		if got := a.session.InitializeResult(); got == nil || got.ProtocolVersion != v {
			t.Errorf("asked for %s, got %v", v, got)
		}
		a.ok("inbox", nil)
		a.session.Close()
	}
}

// TestNoClone: a server that cannot serve says why, and how to go on.
func TestNoClone(t *testing.T) {
	w := newWorld(t)
	for dir, says := range map[string]string{".": "is not inside a git repository", "seed": "rig-bridge init --rig-id", "nowhere": "there is no directory"} {
		cmd := w.command(".", "rig-bridge", "mcp", "--clone", dir)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), says) || !strings.Contains(string(out), "hint: ") ||
			dir != "seed" && !strings.Contains(string(out), "hint: rig-bridge mcp --clone DIR") {
			t.Errorf("%d %s", cmd.ProcessState.ExitCode(), out)
		}
	}
}

// TestIdle: an idle server is small.
func TestIdle(t *testing.T) {
	w := newWorld(t, "rig-a")
	a := w.agent("rig-a")
	a.ok("inbox", nil)
	time.Sleep(200 * time.Millisecond)
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		t.Skipf("the memory of a process cannot be read: %v", err)
	}
	var rss int
	for line := range strings.Lines(string(data)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &rss)
	}
	t.Logf("an idle server has %.1f MiB", float64(rss)/1024)
	if rss == 0 || rss > 32<<10 {
		t.Errorf("an idle server has %d KiB, at most 32 MiB are allowed", rss)
	}
}
