package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/gittest"
	"github.com/rigward/rigward/internal/testkeys"
	"github.com/rigward/rigward/pkg/policy"
)

var update = flag.Bool("update", false, "write docs/rules.md")

// good is an envelope that breaks no rule.
const good = "---\nfrom: rig-a\nto: rig-b\ndate: 2026-01-05\nstatus: ▶ Asking\ntype: STATE\nthread: release-check\nbody_hash: 87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7\n---\na\n"

func edited(old, now string) string { return strings.Replace(good, old, now, 1) }

// examples has, for each rule that a commit alone can break, the commits of a
// push: path to content, "" to delete.
var examples = map[string][]map[string]string{
	"envelope-parse":  {{"release-check/B.md": edited("from: rig-a\n", "from: rig-a\nfrom: rig-c\n")}},
	"envelope-schema": {{"release-check/B.md": edited("type: STATE", "type: ORDER")}},
	"envelope-date":   {{"release-check/B.md": edited("2026-01-05", "2026-02-30")}},
	"envelope-path":   {{"release-check/B.md": edited("thread: release-check", "thread: on-call")}},
	"body-hash":       {{"release-check/B.md": edited("\na\n", "\nb\n")}},
	"tldr-length":     {{"release-check/B.md": edited("body_hash", "tldr: "+strings.Repeat("long ", 57)+"end\nbody_hash")}},
	"references":      {{"release-check/B.md": edited("body_hash", "references:\n  - abcdef0\nbody_hash")}},
	"append-only":     {{"release-check/STATE.md": edited("Asking", "Demanding")}},
	"thread-closed":   {{"release-check/RESOLUTION.md": edited("type: STATE", "type: RESOLUTION")}, {"release-check/B.md": good}},
	"relay-suffix":    {{"release-check/B.md": edited("body_hash", "nonce: 01JHZZZZZZZZZZZZZZZZZZZZZZ\nbody_hash")}},
}

// TestRulesPage makes docs/rules.md from what check really says, and fails if
// the file is another.
func TestRulesPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Rules\n\nMade from a test by `go test ./cmd/rig-hook -run RulesPage -update`: the outputs are those of `rig-hook check`.\n")
	for _, rule := range policy.Rules() {
		off := ""
		if rule.Locked {
			off = " Only a server's own policy file switches it off."
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\nDefault: %s. Gates: %s.%s\n", rule.ID, strings.ToUpper(rule.Says[:1])+rule.Says[1:], rule.Default, rule.Gates, off)
		commits, ok := examples[rule.ID]
		if !ok {
			continue
		}
		r := gittest.New(t, gittest.Options{})
		base := r.Commit("Begin", map[string]string{"release-check/STATE.md": good,
			".bridge/allowed_signers": testkeys.Ed25519("op").Line("op@example.com", "") + "\n"})
		for _, files := range commits {
			r.Commit("Next", files)
		}
		var out, errOut bytes.Buffer
		code := Main(context.Background(), &hooks.Env{Args: []string{"rig-hook", "check", base + "..HEAD"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut,
			Environ: r.Env, Dir: r.Dir, Now: func() time.Time { return time.Unix(gittest.Epoch+3600, 0) }})
		if !strings.Contains(out.String(), "["+rule.ID+"]") {
			t.Errorf("%s: exit %d\n%s%s", rule.ID, code, out.String(), errOut.String())
		}
		b.WriteString("\nInput:\n")
		for _, files := range commits {
			for path, text := range files {
				fmt.Fprintf(&b, "\n`%s`\n\n```\n%s```\n", path, text)
			}
		}
		fmt.Fprintf(&b, "\nOutput, exit code %d; the repair is in the hint where one line does it:\n\n```\n%s```\n", code, out.String())
	}
	file := filepath.Join("..", "..", "docs", "rules.md")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Error("docs/rules.md is not what the rules say now; write it with -update")
	}
}
