//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// npmModules are the clients of MCP from npm, which .ci/run installs.
func npmModules(t *testing.T) string {
	t.Helper()
	modules := os.Getenv("RIGWARD_NPM_MCP")
	if modules == "" {
		t.Skip("RIGWARD_NPM_MCP does not name a directory with the clients of MCP from npm")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	return modules
}

// node runs a script of modules in a directory of the world.
func (w *world) node(modules, script string, args ...string) string {
	w.t.Helper()
	file := filepath.Join(filepath.Dir(modules), "rigward-test.mjs")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		w.t.Fatal(err)
	}
	cmd := w.command(".", "node", append([]string{file}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("node: %v\n%s%s", err, out, errs.String())
	}
	return string(out)
}

// TestInspector: the official inspector lists and calls every tool.
func TestInspector(t *testing.T) {
	modules := npmModules(t)
	w := newWorld(t, "rig-a", "rig-b")
	w.bridge("rig-b", "new", "t-one")
	w.bridge("rig-b", "send", "REQUEST", "--thread", "t-one", "--to", "rig-a", "--tldr", "first", "--body-file", "../seed/.bridge/policy.yaml")
	inspect := func(args ...string) string {
		t.Helper()
		cmd := w.command(".", filepath.Join(modules, ".bin", "mcp-inspector"), append([]string{"--cli", filepath.Join(w.bin, "rig-bridge"), "mcp", "--clone", w.path("rig-a")}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var list struct{ Tools []json.RawMessage }
	if err := json.Unmarshal([]byte(inspect("--method", "tools/list")), &list); err != nil || len(list.Tools) != len(tools) {
		t.Fatalf("%v, %d tools", err, len(list.Tools))
	}
	calls := map[string][]string{
		"inbox": nil, "thread": {"thread=t-one"}, "status": nil, "explain": {"rule=relay-nonce"}, "wait": {"seconds=20"}, "ack": {"message=t-one/REQUEST.md"},
		"reply": {"message=t-one/REQUEST.md", "body=Done"}, "send": {"type=STATE", "thread=t-one", `to=["rig-b"]`, "tldr=more"}, "close": {"thread=t-one", "status=completed"},
	}
	w.git("rig-a", "pull", "-q")
	for _, name := range []string{"inbox", "thread", "status", "explain", "wait", "ack", "reply", "send", "close"} {
		args := []string{"--method", "tools/call", "--tool-name", name}
		for _, a := range calls[name] {
			args = append(args, "--tool-arg", a)
		}
		if out := inspect(args...); strings.Contains(out, `"isError": true`) || !strings.Contains(out, `"content"`) {
			t.Errorf("%s: %s", name, out)
		}
	}
	if len(calls) != len(tools) {
		t.Error("a tool is not called")
	}
}

// TestToolTokens: the definitions of all tools are small, by a real tokenizer.
func TestToolTokens(t *testing.T) {
	modules := npmModules(t)
	w := newWorld(t)
	var all []any
	for _, tool := range tools {
		all = append(all, tool.definition())
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	w.write("tools.json", string(data))
	out := w.node(modules, `import { getEncoding } from "js-tiktoken"; import fs from "fs";
const text = fs.readFileSync(process.argv[2], "utf8");
console.log(Math.max(...["o200k_base", "cl100k_base"].map(e => getEncoding(e).encode(text).length)));`, w.path("tools.json"))
	var n int
	if err := json.Unmarshal([]byte(out), &n); err != nil || n == 0 || n > 1500 {
		t.Errorf("%v: the definitions have %d tokens, at most 1500 are allowed", err, n)
	}
	t.Logf("%d tokens", n)
}

// TestTypeScriptClient has two rigs talk over the guarded server through the SDK
// from npm.
func TestTypeScriptClient(t *testing.T) {
	modules := npmModules(t)
	w := newWorld(t, "rig-a", "rig-b")
	out := w.node(modules, `import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
async function rig(name) {
  const c = new Client({ name: "test", version: "1" });
  await c.connect(new StdioClientTransport({ command: process.argv[2] + "/rig-bridge", args: ["mcp", "--clone", process.argv[3] + "/" + name], env: process.env }));
  return { c, async call(tool, args = {}) {
    const r = await c.callTool({ name: tool, arguments: args });
    const o = JSON.parse(r.content[0].text);
    if (r.isError) throw new Error(tool + ": " + r.content[0].text);
    return [o, r.content.slice(1).map(x => x.text)];
  } };
}
const a = await rig("rig-a"), b = await rig("rig-b");
const waiting = b.call("wait", { seconds: 30 });
await a.call("send", { type: "REQUEST", thread: "t-ts", to: ["rig-b"], body: "Which day is it?", key: "1" });
const [got] = await waiting;
const path = got.items[0].path;
const [, texts] = await b.call("thread", { thread: "t-ts" });
if (!texts[0].includes("\nWhich day is it?\nEND-")) throw new Error(texts[0]);
const [answer] = await b.call("reply", { message: path, body: "Sunday." });
const [back] = await a.call("wait", { seconds: 30 });
const [, said] = await a.call("thread", { thread: "t-ts", message: back.items[0].path });
await a.call("ack", { message: back.items[0].path });
await a.call("close", { thread: "t-ts", status: "completed" });
const r = await a.c.readResource({ uri: "rig-bridge://thread/t-ts" });
if (!r.contents[0].text.includes("Sunday.")) throw new Error("resource");
if ((await a.c.getPrompt({ name: "protocol" })).messages.length != 1) throw new Error("prompt");
console.log(answer.in_reply_to === got.items[0].body_hash, said[0].includes("Sunday."));
await a.c.close(); await b.c.close();`, w.bin, w.dir)
	if strings.TrimSpace(out) != "true true" {
		t.Error(out)
	}
	if files := w.git("origin.git", "ls-tree", "-r", "--name-only", "main", "t-ts"); files != "t-ts/ACK.md\nt-ts/REQUEST.md\nt-ts/RESOLUTION.md\nt-ts/RESPONSE.md\n" {
		t.Error(files)
	}
}

// TestAgentsPage: the settings of hosts in docs/agents.md are what hosts read, and
// start a server that answers; the hook at the start of a session shows an inbox.
func TestAgentsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "rig-a", "rig-b")
	w.bridge("rig-b", "new", "t-one")
	w.bridge("rig-b", "send", "REQUEST", "--thread", "t-one", "--to", "rig-a", "--body-file", "../seed/.bridge/policy.yaml")
	type start struct {
		Command string
		Args    []string
	}
	var starts []start
	hooked := ""
	for _, m := range regexp.MustCompile("(?s)```(json|toml)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		text := strings.ReplaceAll(m[2], "DIR", w.path("rig-a"))
		var c struct {
			MCPServers map[string]start `json:"mcpServers"`
			Servers    map[string]start `json:"servers"`
			Codex      map[string]start `toml:"mcp_servers"`
			Hooks      map[string][]struct {
				Hooks []struct{ Type, Command string }
			}
		}
		if m[1] == "json" {
			err = json.Unmarshal([]byte(text), &c)
		} else {
			err = toml.Unmarshal([]byte(text), &c)
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		for _, s := range []map[string]start{c.MCPServers, c.Servers, c.Codex} {
			if one, ok := s["rig-bridge"]; ok {
				starts = append(starts, one)
			}
		}
		for _, h := range c.Hooks["SessionStart"] {
			hooked = h.Hooks[0].Command
		}
	}
	if len(starts) != 3 || hooked == "" {
		t.Fatalf("%d settings of servers, hook %q", len(starts), hooked)
	}
	for _, s := range starts {
		if s.Command != "rig-bridge" || !slices.Equal(s.Args, []string{"mcp", "--clone", w.path("rig-a")}) {
			t.Errorf("%+v", s)
		}
	}
	w.agent("rig-a").ok("inbox", nil)
	out, err := w.command(".", "sh", "-c", hooked).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "message=t-one/REQUEST.md type=REQUEST from=rig-b why=unread,turn") {
		t.Errorf("%v %s", err, out)
	}
}

// TestTwoAgents plays the page: its commands set up a guarded server, an operator
// and two agents, whose messages and whose operator's decision are verified.
func TestTwoAgents(t *testing.T) {
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for _, key := range []string{"operator", "rig-a", "rig-b"} {
		w.write("home/.ssh/x", "")
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", w.path("home/.ssh/"+key)).CombinedOutput(); err != nil {
			t.Skipf("ssh-keygen does not run: %v %s", err, out)
		}
	}
	play := func(dir, has string, other ...string) string {
		t.Helper()
		for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
			if !strings.Contains(m[1], has) {
				continue
			}
			script := strings.NewReplacer(append(other, "URL", w.path("team.git"), "DIR", w.path("bridge-a"))...).Replace(m[1])
			out, err := w.command(dir, "sh", "-ec", script).CombinedOutput()
			if err != nil {
				t.Fatalf("%v %s\n%s", err, script, out)
			}
			return string(out)
		}
		t.Fatalf("no block of the page has %q", has)
		return ""
	}
	play(".", "rig-hook install --server")
	play(".", "Who may sign")
	w.git("team.git", "config", "--unset", "rigward.bootstrap")
	play(".", "bridge-a && cd")
	play(".", "bridge-a && cd", "bridge-a", "bridge-b", "rig-a", "rig-b", "Agent A", "Agent B", "a@example.com", "b@example.com")
	a, b := w.agent("bridge-a"), w.agent("bridge-b")
	a.ok("send", dict{"type": "REQUEST", "thread": "hello", "to": []string{"rig-b"}, "tldr": "Which day is it?"})
	verified := func(o dict, file string) {
		t.Helper()
		for _, i := range o["items"].([]any) {
			if m := i.(dict); strings.HasPrefix(m["path"].(string), file) && m["verdict"].(dict)["state"] == "verified" {
				return
			}
		}
		t.Errorf("no %s that is verified in %v", file, o)
	}
	o, _ := b.ok("wait", dict{"seconds": 20})
	verified(o, "hello/REQUEST.md")
	b.ok("reply", dict{"message": "hello", "tldr": "Sunday"})
	o, _ = a.ok("wait", dict{"seconds": 20})
	verified(o, "hello/RESPONSE.md")
	play("bridge-op", "rig-bridge relay DECISIONS")
	for _, rig := range []*agent{a, b} {
		o, _ = rig.ok("wait", dict{"seconds": 20})
		verified(o, "hello/RELAY-")
	}
	// What was decided last is shown last.
	if o, _ := a.ok("thread", dict{"thread": "hello", "last": 1}); !strings.Contains(fmt.Sprint(o["messages"]), "relay:true") {
		t.Errorf("%v", o)
	}
	if out := play(".", "notifications/initialized"); strings.Count(out, "\n") != 2 || !strings.Contains(out, "hello/RESPONSE.md") {
		t.Error(out)
	}
}
