//go:build unix

package main

import (
	"encoding/json"
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
