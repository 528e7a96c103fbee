//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// traces are what a clone shows of a message: files, index, branch, and what the
// client remembers of a run.
func (w *world) traces(rig string) string {
	w.t.Helper()
	var b strings.Builder
	_ = filepath.WalkDir(w.path(rig), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.Name() == ".git" {
			return filepath.SkipDir
		}
		b.WriteString(path + " " + e.Type().String() + "\n")
		return nil
	})
	kept, _ := filepath.Glob(w.path(rig + "/.git/rig-bridge.[^l]*")) // the lock stays
	keys, _ := filepath.Glob(w.path(rig + "/.git/rigward/keys/*"))
	// This tells HEAD's id, and how the index, with modes and ids, differs from it.
	status, _ := w.command(rig, "git", "status", "--porcelain=v2", "--branch", "--ignored").CombinedOutput()
	fmt.Fprintln(&b, kept, keys, string(status))
	return b.String()
}

// TestFailedSend: a send that fails, for whatever reason, leaves nothing behind in
// the clone, so that what another rig opens in the same place can be taken.
func TestFailedSend(t *testing.T) {
	w := newWorld(t, "rig-a", "rig-b")
	a, b := w.agent("rig-a"), w.agent("rig-b")
	good := func() dict {
		return dict{"type": "REQUEST", "thread": "t-new", "to": []string{"rig-b"}, "body": "# Please\n", "key": "k"}
	}
	with := func(name string, value any) dict { d := good(); d[name] = value; return d }
	without := func(names ...string) dict {
		d := good()
		for _, n := range names {
			delete(d, n)
		}
		return d
	}
	config := func(key, value string) func() { return func() { w.repo("rig-a").Config(key, value) } }
	unset := func(key string) func() { return func() { w.repo("rig-a").Unset(key) } }
	hook := func(name string) (func(), func()) {
		file := "rig-a/.git/hooks/" + name
		return func() { w.write(file, "#!/bin/sh\nexit 1\n"); os.Chmod(w.path(file), 0o755) }, func() { os.Remove(w.path(file)) }
	}
	preCommit, noPreCommit := hook("pre-commit")
	commitMsg, noCommitMsg := hook("commit-msg")
	exclude := w.path("rig-a/.git/info/exclude")
	excluded, _ := os.ReadFile(exclude)
	for _, c := range []struct {
		name     string
		args     dict
		do, undo func()
		code     string
		says     string
	}{
		{"no recipient", with("to", []string{}), nil, nil, "usage", "to is missing"},
		{"an empty recipient", with("to", []string{""}), nil, nil, "usage", "to has an empty rig id"},
		{"a recipient that is no rig id", with("to", []string{"?"}), nil, nil, "usage", "to \"?\""},
		{"a recipient that is no list", with("to", "rig-b"), nil, nil, "usage", "to cannot be read: a JSON string, a list of texts was expected"},
		{"no words", without("body"), nil, nil, "usage", "body and tldr are missing"},
		{"a blank tldr only", func() dict { d := without("body"); d["tldr"] = " "; return d }(), nil, nil, "usage", "body and tldr are missing"},
		{"a blank body", with("body", " \n"), nil, nil, "invalid", "body holds no text"},
		{"a status that is none", with("status", "no marker"), nil, nil, "invalid", "status"},
		{"an answer to what is not there", with("in_reply_to", "NONE.md"), nil, nil, "refused", `in_reply_to "NONE.md" is not a committed message`},
		{"an answer to nothing", with("in_reply_to", "x y"), nil, nil, "usage", "in_reply_to"},
		{"an answer to the last of none", with("in_reply_to", "last"), nil, nil, "refused", "no other rig"},
		{"a key that is none", with("key", "a\nb"), nil, nil, "usage", "key"},
		{"an unknown argument", with("what", 1), nil, nil, "usage", "unknown field"},
		{"a thread that is none", with("thread", "t/x"), nil, nil, "thread", "not valid"},
		{"no name", good(), unset("user.name"), config("user.name", "rig-a"), "refused", "user.name is not set"},
		{"no identity", good(), func() { unset("user.name")(); unset("user.email")() },
			func() { config("user.name", "rig-a")(); config("user.email", "a@example.com")() }, "refused", "user.name and user.email are not set"},
		{"a hook that refuses", good(), preCommit, noPreCommit, "refused", "git commit failed"},
		{"a hook of the message that refuses", good(), commitMsg, noCommitMsg, "refused", "git commit failed"},
		{"a key that cannot sign", good(), func() {
			config("commit.gpgsign", "true")()
			config("gpg.format", "ssh")()
			config("user.signingkey", "/none")()
		},
			func() { unset("commit.gpgsign")(); unset("user.signingkey")() }, "refused", "git commit failed"},
		{"a detached HEAD", good(), func() { w.git("rig-a", "checkout", "-q", "--detach") }, func() { w.git("rig-a", "checkout", "-q", "main") }, "refused", "HEAD is detached"},
		{"an ignored path", good(), func() { w.write("rig-a/.git/info/exclude", "t-new\n") }, func() { os.WriteFile(exclude, excluded, 0o644) }, "refused", "is ignored"},
		{"bytes that git would change", good(), func() {
			w.write("rig-a/.git/info/attributes", "*.md ident filter=f\n")
			config("filter.f.clean", "tr a-z A-Z")()
		},
			func() { os.Remove(w.path("rig-a/.git/info/attributes")) }, "refused", "would change the bytes"},
		{"a file in the thread's place", good(), func() { w.write("rig-a/t-new", "x") }, func() { os.Remove(w.path("rig-a/t-new")) }, "thread", "is not a directory"},
		{"a link in the thread's place", good(), func() { os.Symlink("..", w.path("rig-a/t-new")) }, func() { os.Remove(w.path("rig-a/t-new")) }, "thread", "symbolic link"},
		{"an index that is locked", good(), func() { w.write("rig-a/.git/index.lock", "") }, func() { os.Remove(w.path("rig-a/.git/index.lock")) }, "runtime", "index.lock"},
	} {
		if c.do != nil {
			c.do()
		}
		before := w.traces("rig-a")
		a.fails("send", c.args, c.code, c.says)
		if after := w.traces("rig-a"); after != before {
			t.Errorf("%s: the clone was\n%s\nand is\n%s", c.name, before, after)
		}
		if c.undo != nil {
			c.undo()
		}
	}
	// A person has begun the thread: the scaffold stays as it is, and a body is sent
	// in its place.
	w.bridge("rig-a", "new", "t-draft")
	before := w.traces("rig-a")
	a.fails("send", dict{"type": "REQUEST", "thread": "t-draft", "to": []string{"rig-b"}, "tldr": "x"}, "invalid", "t-draft/REQUEST.md is a scaffold that nobody edited")
	if after := w.traces("rig-a"); after != before {
		t.Errorf("%s\n%s", before, after)
	}
	a.ok("send", dict{"type": "REQUEST", "thread": "t-draft", "to": []string{"rig-b"}, "body": "words"})
	// A server that is killed at any moment leaves what the next call takes back or
	// completes.
	for i := range 8 {
		k, err := w.connect("rig-a", "")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Duration(10+i*12) * time.Millisecond)
			_ = syscall.Kill(-k.cmd.Process.Pid, syscall.SIGKILL)
		}()
		_, _, _, _ = k.call("send", dict{"type": "REQUEST", "thread": "t-kill", "to": []string{"rig-b"}, "body": "x", "key": fmt.Sprint("kill", i)})
		_ = k.session.Close()
	}
	// Here the remote's receive-pack died with it, and with it who would have
	// removed the locks of its refs.
	for _, pattern := range []string{"*.lock", "refs/heads/*.lock"} {
		locks, _ := filepath.Glob(w.path("origin.git/" + pattern))
		for _, lock := range locks {
			os.Remove(lock)
		}
	}
	a.fails("send", with("in_reply_to", "last"), "refused", "no other rig")
	// The lawful neighbour, by the other rig and by this one.
	if o, _ := b.ok("send", dict{"type": "REQUEST", "thread": "t-new", "to": []string{"rig-a"}, "tldr": "mine"}); o["file_path"] != "t-new/REQUEST.md" {
		t.Errorf("%v", o)
	}
	if o, _ := a.ok("send", good()); o["file_path"] != "t-new/REQUEST-2.md" || o["pushed"] != true {
		t.Errorf("%v", o)
	}
	if s := w.git("rig-a", "status", "--porcelain"); s != "" {
		t.Error(s)
	}
}

// commandLine finds words of the command line.
var commandLine = regexp.MustCompile(`(^|[\s"'(])--[a-z]|rig-bridge [a-z]+|<[a-z]+>`)

// TestWordsOfTools: what fails is told in the words of the tools and their
// arguments. A hint for the command line says that it is one.
func TestWordsOfTools(t *testing.T) {
	w := newWorld(t, "rig-a", "rig-b", "op-relay")
	a, b, op := w.agent("rig-a"), w.agent("rig-b"), w.agent("op-relay")
	a.ok("send", dict{"type": "REQUEST", "thread": "t-one", "to": []string{"rig-b", "op-relay"}, "tldr": "x", "key": "k"})
	b.ok("wait", dict{"seconds": 20})
	hash := strings.Repeat("0", 64)
	for i, c := range []struct {
		agent *agent
		tool  string
		args  dict
		hint  string
	}{
		{a, "send", dict{}, ""}, {a, "send", dict{"type": "x", "thread": "t-one", "to": []string{"rig-b"}, "tldr": "x"}, ""},
		{a, "send", dict{"type": "STATE", "thread": "t-none", "to": []string{"rig-b"}, "tldr": "x"}, "a REQUEST opens a thread"},
		{a, "send", dict{"type": "STATE", "thread": "t-one", "to": []string{}, "tldr": "x"}, ""},
		{a, "send", dict{"type": "STATE", "thread": "t-one", "to": "x", "tldr": "x"}, ""},
		{a, "send", dict{"type": "STATE", "thread": "t-one", "to": []string{"x", "?"}, "tldr": "x"}, ""},
		{a, "send", dict{"type": "STATE", "thread": "t-one", "to": []string{"rig-b"}, "body": "  "}, "tldr"},
		{a, "send", dict{"type": "STATE", "thread": "t-one", "to": []string{"rig-b"}, "tldr": "x", "in_reply_to": hash}, "latest turns"},
		{a, "send", dict{"type": "STATE", "thread": "t-one", "to": []string{"rig-b"}, "tldr": "x", "in_reply_to": "t-two/X.md"}, ""},
		{a, "send", dict{"type": "STATE", "thread": "t-one", "to": []string{"rig-b"}, "tldr": "x", "in_reply_to": "last"}, "wait fetches"},
		{a, "send", dict{"type": "STATE", "thread": "t-one", "to": []string{"rig-b"}, "tldr": "x", "status": "x"}, ""},
		{a, "send", dict{"type": "STATE", "thread": "t-one", "to": []string{"rig-b"}, "tldr": "x", "key": "k"}, "another key"},
		{a, "send", dict{"type": "STATE", "thread": "con", "to": []string{"rig-b"}, "tldr": "x"}, "con-thread"},
		{a, "send", dict{"x": 1}, "there are: "}, {a, "send", dict{"thread": 1}, ""},
		{a, "reply", dict{}, ""}, {a, "reply", dict{"message": "t-none", "tldr": "x"}, "inbox"}, {a, "reply", dict{"message": "t-one", "tldr": "x"}, "wait fetches"},
		{a, "reply", dict{"message": "t-one/NONE.md", "tldr": "x"}, "latest turns"}, {a, "reply", dict{"message": hash, "tldr": "x"}, "as thread shows it"},
		{a, "reply", dict{"message": "t-one", "type": "x", "tldr": "x"}, ""}, {a, "reply", dict{"message": "t-one"}, ""},
		{a, "ack", dict{}, "wait fetches"}, {a, "ack", dict{"message": "t-one/NONE.md"}, "latest turns"}, {a, "ack", dict{"message": "t-one/REQUEST.md"}, "inbox"},
		{a, "ack", dict{"message": "t-one/x/y"}, ""}, {a, "ack", dict{"mark_only": true}, ""}, {a, "ack", dict{"message": "t-one/NONE.md", "mark_only": true}, "thread names"},
		{a, "close", dict{}, ""}, {a, "close", dict{"thread": "t-one", "status": "x"}, ""}, {a, "close", dict{"thread": "t-none", "status": "completed"}, "status with all"},
		{a, "thread", dict{}, ""}, {a, "thread", dict{"thread": "t-none"}, "status with all"}, {a, "thread", dict{"thread": "t-one", "message": "x"}, "thread without message"},
		{a, "inbox", dict{"limit": 0}, ""}, {a, "inbox", dict{"after": "x"}, ""}, {a, "inbox", dict{"thread": "t-none"}, "status with all"},
		{a, "wait", dict{"seconds": 0}, ""}, {a, "wait", dict{"after": "x"}, ""}, {a, "wait", dict{"thread": "x/"}, ""}, {a, "status", dict{"limit": 0}, ""}, {a, "explain", dict{"rule": "x"}, "explain without"},
		{op, "send", dict{"type": "STATE", "thread": "t-one", "to": []string{"rig-b"}, "tldr": "x"}, "the operator decides"}, {op, "ack", dict{"message": "t-one"}, "the operator decides"},
	} {
		o, _, failed, err := c.agent.call(c.tool, c.args)
		if err != nil || !failed {
			t.Errorf("%d %s %v: %v %v", i, c.tool, c.args, err, o)
			continue
		}
		e := o["error"].(dict)
		hint, _ := e["hint"].(string)
		if commandLine.MatchString(fmt.Sprint(e["message"])) || strings.Contains(fmt.Sprint(e["message"]), "Go ") {
			t.Errorf("%s %v: %v", c.tool, c.args, e)
		}
		if told := strings.HasPrefix(hint, "at the command line, ") || strings.Contains(hint, "rig-bridge relay, at the command line"); commandLine.MatchString(hint) && !told {
			t.Errorf("%s %v: the hint %q is for the command line and does not say so", c.tool, c.args, hint)
		}
		if !strings.Contains(hint, c.hint) || c.hint == "" && e["hint"] != nil && e["code"] == "usage" {
			t.Errorf("%s %v: the hint is %q, expected %q", c.tool, c.args, hint, c.hint)
		}
	}
	// What is in the way of what came is named.
	w.write("rig-b/t-way/REQUEST.md", "mine\n")
	a.ok("send", dict{"type": "REQUEST", "thread": "t-way", "to": []string{"rig-b"}, "tldr": "x"})
	in, _ := b.ok("inbox", nil)
	way, _ := b.ok("wait", dict{"seconds": 20, "after": in["cursor"]})
	if u, _ := way["untaken"].(dict); u["reason"] != "local_files_in_the_way" || u["hint"] != "at the command line, in the clone: move away what is in the way: t-way/REQUEST.md" {
		t.Errorf("%v", way)
	}
	// What no tool repairs is for the command line.
	w.git("rig-a", "config", "--unset", "user.email")
	o, _, _, _ := a.call("send", dict{"type": "STATE", "thread": "t-one", "to": []string{"rig-b"}, "tldr": "x"})
	if got := o["error"].(dict)["hint"]; got != "at the command line, in the clone: git config user.email <address>" {
		t.Errorf("%v", got)
	}
}
