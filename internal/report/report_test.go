package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
)

var update = flag.Bool("update", false, "write the golden files")

const evil = "x\n::error::y\x1b[2J\r\u202eremote: \u009b31m\xff"

// reports are what the golden files show, each in the formats of shown.
var reports = map[string]*Report{
	"clean":     {Gate: "check", Commits: 3, Envelopes: 4, Refs: 1},
	"findings":  {Gate: "pre-receive", Commits: 2, Envelopes: 1, Refs: 1, Findings: sample()},
	"warning":   {Gate: "check", Commits: 1, Envelopes: 1, Findings: sample()[1:2]},
	"warnfail":  {Gate: "check", Commits: 1, Envelopes: 1, Findings: sample()[1:2], Fail: finding.Warning},
	"undecided": {Gate: "pre-receive", Commits: 1, Problem: errors.New("object 0123 is not present"), Hint: "git fsck --connectivity-only", Notes: []string{"a note"}},
	"both":      {Gate: "pre-push", Commits: 1, Problem: errors.New("time was up"), Findings: sample()[:1]},
	"hostile": {Gate: "check", Commits: 1, Problem: errors.New(evil), Hint: evil, Notes: []string{evil}, Findings: []finding.Finding{
		{Rule: "envelope-path", Severity: finding.Error, Path: evil + ".md", Line: 1, Col: 1, Commit: strings.Repeat("ab", 20), Ref: evil, Message: "found " + evil, Hint: evil}},
		Threads: []Thread{hostileThread()}, Bundles: []Bundle{hostileBundle()}},
	"pull": {Gate: "pull-request", Commits: 4, Envelopes: 5, Refs: 1, Findings: sample()[:2], Notes: []string{"policy and signers of commit 4f1c02d8a9b3"},
		Rules: []Rule{{"envelope-schema", finding.Error, "the front matter satisfies schemas/bridge-message.schema.json"}}, Threads: threads(), Bundles: bundles()},
	"many": {Gate: "pre-receive", Commits: 1, Envelopes: 40, Findings: many(40)},
}

func sample() []finding.Finding {
	return []finding.Finding{
		{Rule: "envelope-schema", Severity: finding.Error, Path: "release-check/STATE.md", Line: 6, Col: 7, Commit: strings.Repeat("ab", 20), Ref: "refs/heads/main",
			Message: `type is "ORDER", expected one of REQUEST, HANDOFF, RESPONSE, ACK, RESOLUTION, STATE`, Hint: "type: STATE"},
		{Rule: "tldr-length", Severity: finding.Warning, Path: "release-check/STATE.md", Line: 9, Col: 7, Message: "tldr has 281 characters, at most 280 are shown everywhere"},
		{Rule: "fast-forward", Severity: finding.Error, Ref: "refs/heads/main", Message: "a protected ref is deleted", Hint: "take it out of the policy's protect list first"},
	}
}

// markup is text that every medium takes for markup of its own.
const markup = `"]; click m1 "javascript:alert(1)" <script>alert(1)</script> <img src=x onerror=alert(1)> | ` + "`*_[x](http://evil.example) &amp; {{x}} ]]> --> @everyone #1 :tada: $x$ www.evil.example\n```\n%% end\n"

func hostileThread() Thread {
	return Thread{ID: markup, Cut: 1, Untold: 2, Turns: []Turn{
		{Path: markup + "/A.md", Commit: "c\x1b", Type: markup, From: markup, To: []string{markup, evil}, Date: markup, TLDR: markup, New: true},
		{Path: evil + "/B.md", Type: "end", From: "graph", TLDR: evil, New: true, Relay: true, Answers: []string{markup + "/A.md", "gone.md"}, Names: []string{markup + "/A.md"}, Diverges: []string{markup + "/A.md"}},
	}}
}

func hostileBundle() Bundle {
	return Bundle{Name: markup, Format: markup, Source: evil, Output: markup, Touched: true, Deterministic: true, Drift: true, Committed: markup, Rebuilt: evil, Truncated: 2,
		FromBase: []MemberChange{{Path: markup, Kind: markup, Old: evil, New: markup, Diff: "@@ -1 +1 @@\n-" + markup + "\n+" + evil + "\n ``````` \n</details></span>"}}}
}

func threads() []Thread {
	commit := func(s string) string { return strings.Repeat(s, 20) }
	return []Thread{
		{ID: "release-check", Turns: []Turn{
			{Path: "release-check/REQUEST.md", Type: "REQUEST", From: "rig-alpha", To: []string{"rig-beta", "rig-gamma"}, Date: "2026-03-01", TLDR: "Check the release of 2.4 on both platforms"},
			{Path: "release-check/ACK.md", Commit: commit("1a"), Type: "ACK", From: "rig-beta", To: []string{"rig-alpha"}, Date: "2026-03-02", TLDR: "Started; Linux first", New: true, Answers: []string{"release-check/REQUEST.md"}},
			{Path: "release-check/RESPONSE-linux.md", Commit: commit("2b"), Type: "RESPONSE", From: "rig-beta", To: []string{"rig-alpha"}, Date: "2026-03-03", TLDR: "Linux passes, 412 tests in 6 minutes", New: true, Answers: []string{"release-check/REQUEST.md"}, Names: []string{"release-check/ACK.md"}},
			{Path: "release-check/RESPONSE-windows.md", Commit: commit("3c"), Type: "RESPONSE", From: "rig-gamma", To: []string{"rig-alpha"}, Date: "2026-03-03", TLDR: "Windows fails: the installer does not start without an administrator; log attached, and the same was seen in 2.3", New: true, Answers: []string{"release-check/REQUEST.md"}, Diverges: []string{"release-check/RESPONSE-linux.md"}},
			{Path: "release-check/DECISIONS.md", Commit: commit("4d"), Type: "DECISIONS", From: "rig-alpha-relay", To: []string{"rig-beta"}, Date: "2026-03-04", TLDR: "Hold the release until the installer works", New: true, Relay: true, Answers: []string{"release-check/RESPONSE-windows.md"}, Names: []string{"release-check/RESPONSE-linux.md"}},
		}},
		{ID: "über-uns", Turns: []Turn{{Path: "über-uns/STATE.md", Commit: commit("5e"), Type: "STATE", From: "rig-beta", To: []string{"rig-alpha"}, Date: "2026-03-04", New: true}}},
	}
}

func bundles() []Bundle {
	digest := func(s string) string { return "sha256:" + strings.Repeat(s, 32) }
	return []Bundle{
		{Name: "reviewer", Format: "agent", Source: "agents/reviewer", Output: "dist/reviewer.agent.tar.gz", Touched: true, Deterministic: true, Drift: true,
			Committed: digest("a1"), Rebuilt: digest("b2"), Base: digest("a1"),
			FromCommitted: []MemberChange{{Path: "prompt.md", Kind: "changed", Old: digest("01"), New: digest("02"),
				Diff: "--- a/prompt.md\n+++ b/prompt.md\n@@ -1,3 +1,4 @@\n # Reviewer\n-Read the diff.\n+Read the whole diff, and then what it touches.\n+Say what you have not read.\n Be brief.\n"}},
			FromBase: []MemberChange{
				{Path: "prompt.md", Kind: "changed", Old: digest("01"), New: digest("02")},
				{Path: "tools/search.json", Kind: "added", New: digest("03")},
				{Path: "run.sh", Kind: "mode", Old: "0644", New: "0755"},
				{Path: "model", Kind: "manifest", Old: "small", New: "large"}}},
		{Name: "fleet", Format: "rig", Source: "rigs/fleet", Output: "dist/fleet.rig", Touched: true, Deterministic: true, Committed: digest("c3"), Rebuilt: digest("c3"), Base: digest("c3")},
	}
}

func many(n int) (fs []finding.Finding) {
	for i := range n {
		f := sample()[0]
		f.Line = i + 1
		fs = append(fs, f)
	}
	return fs
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v (write it with -update)", err)
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (write it with -update):\n%s", file, got)
	}
}

// shown reports whether a report's golden file of a format is kept: not where it
// would show nothing new.
func shown(name, format string) bool {
	switch format {
	case "text", "json", "jsonl":
		return true
	case "html":
		return name == "pull" || name == "hostile"
	case "github":
		return name != "warnfail"
	}
	return slices.Contains([]string{"clean", "pull", "hostile", "undecided"}, name)
}

func TestGolden(t *testing.T) {
	for name, r := range reports {
		for _, format := range Formats() {
			var b bytes.Buffer
			if err := Write(&b, r, format); err != nil {
				t.Fatal(err)
			}
			if shown(name, format) {
				golden(t, name+"."+format, b.Bytes())
			}
			for line := range strings.Lines(b.String()) {
				if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\r\u202e\u009b") || strings.HasPrefix(line, "::") && format != "github" || !utf8.ValidString(line) {
					t.Errorf("%s.%s: %q", name, format, line)
				}
			}
			if slices.Contains([]string{"json", "jsonl", "sarif"}, format) {
				for d := json.NewDecoder(&b); d.More(); {
					var v map[string]any
					if err := d.Decode(&v); err != nil {
						t.Errorf("%s.%s: %v", name, format, err)
						break
					}
				}
			}
		}
		var b bytes.Buffer
		if err := WriteServer(&b, r, 20, ""); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".server", b.Bytes())
	}
}

// TestExitCode: G06, G07 and G08 of the cases: the code follows from the
// report, and no format changes it.
func TestExitCode(t *testing.T) {
	for name, want := range map[string]int{"clean": 0, "findings": 1, "warning": 0, "warnfail": 1, "undecided": 2, "both": 2, "hostile": 2, "many": 1, "pull": 1} {
		r := reports[name]
		if got := r.ExitCode(); got != want {
			t.Errorf("%s: exit %d, expected %d", name, got, want)
		}
		for _, format := range Formats() {
			var b bytes.Buffer
			if err := Write(&b, r, format); err != nil || r.ExitCode() != want {
				t.Errorf("%s: %v", format, err)
			}
			if format == "json" {
				var o struct {
					Exit   int
					Result string
				}
				if err := json.Unmarshal(b.Bytes(), &o); err != nil || o.Exit != want || o.Result != []string{"clean", "findings", "undecided"}[want] {
					t.Errorf("%s: %+v, %v", name, o, err)
				}
			}
		}
	}
	if err := Write(&bytes.Buffer{}, reports["clean"], "xml"); err == nil {
		t.Error("an unknown format is written")
	}
	if err := Write(broken{}, reports["clean"], "text"); err == nil {
		t.Error("a failed write is not an error")
	}
	if err := WriteServer(broken{}, reports["many"], 20, ""); err == nil {
		t.Error("a failed write is not an error")
	}
}

// TestServerHintInOneLine: what a server's answer tells to paste is pasted as one
// line, and nothing but a hint is longer than a terminal is wide.
func TestServerHintInOneLine(t *testing.T) {
	command := "git -c gpg.format=ssh rebase --no-ff --rebase-merges --gpg-sign 0123456789ab"
	body := "body_hash: " + strings.Repeat("0", 64)
	words := strings.Repeat("word ", 40)
	for _, r := range []*Report{
		{Gate: "pre-receive", Problem: errors.New(words), Hint: command},
		{Gate: "pre-receive", Findings: []finding.Finding{
			{Rule: "commit-signed", Severity: finding.Error, Ref: "refs/heads/main", Message: words, Hint: "sign it: " + command},
			{Rule: "body-hash", Severity: finding.Error, Path: "a/b.md", Message: words, Hint: body},
			{Rule: "append-only", Severity: finding.Error, Path: "a/b.md", Message: words, Hint: strings.Repeat("x", 5000)}}},
	} {
		var b bytes.Buffer
		if err := WriteServer(&b, r, 60, "GL-HOOK-ERR: "); err != nil {
			t.Fatal(err)
		}
		long := 0
		for line := range strings.Lines(b.String()) {
			text := strings.TrimSuffix(line, "\n")
			switch n := utf8.RuneCountInString(text); {
			case n > hintColumns+len("GL-HOOK-ERR: "):
				t.Errorf("%d columns: %q", n, text)
			case n > serverColumns:
				long++
			}
		}
		if r.Problem != nil {
			if !strings.HasSuffix(b.String(), "GL-HOOK-ERR:   hint: "+command+"\n") || long != 1 {
				t.Errorf("%s", b.String())
			}
			continue
		}
		if !strings.Contains(b.String(), "  hint: sign it: "+command+"\n") || !strings.Contains(b.String(), "  hint: "+body+"\n") || long != 15 {
			t.Errorf("%d long lines:\n%s", long, b.String())
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("closed") }

// FuzzWriteServer: whatever is in a report, the answer has its form, and its
// first line is the verdict.
func FuzzWriteServer(f *testing.F) {
	f.Add("a/b.md", "message", "hint", "problem", 20, 3, "")
	f.Add(evil, evil, evil, "", 3, 40, "GL-HOOK-ERR: ")
	f.Add(strings.Repeat("w", 500), strings.Repeat("ü ", 300), "", evil, 1000, 2, "")
	f.Fuzz(func(t *testing.T, path, message, hint, problem string, lines, n int, prefix string) {
		if prefix != "" {
			prefix = "GL-HOOK-ERR: "
		}
		r := &Report{Gate: "pre-receive", Hint: hint}
		if problem != "" {
			r.Problem = errors.New(problem)
		}
		for range min(max(n, 0), 50) {
			r.Findings = append(r.Findings, finding.Finding{Rule: "append-only", Severity: finding.Error, Path: path, Message: message, Hint: hint})
		}
		lines = min(max(lines, 0), 1000)
		var b bytes.Buffer
		if err := WriteServer(&b, r, lines, prefix); err != nil {
			t.Fatal(err)
		}
		if b.Len() == 0 {
			if r.Problem != nil || len(r.Findings) > 0 {
				t.Fatal("silent")
			}
			return
		}
		if !strings.HasPrefix(b.String(), prefix+"rigward: push ") {
			t.Fatalf("%q", b.String())
		}
		count := 0
		for line := range strings.Lines(b.String()) {
			count++
			line = strings.TrimSuffix(line, "\n")
			columns := serverColumns
			if strings.Contains(b.String(), "  hint: ") {
				columns = hintColumns + len(prefix)
			}
			if !strings.HasPrefix(line, prefix) || utf8.RuneCountInString(line) > columns || !utf8.ValidString(line) || strings.ContainsAny(line, "\r\x1b\u202e\u2028\u009b") {
				t.Fatalf("%q", line)
			}
		}
		if count > max(lines, 3) {
			t.Fatalf("%d lines of %d", count, lines)
		}
	})
}

// TestGainsComeFirst: what bundles may do more stands above all findings, in one table.
func TestGainsComeFirst(t *testing.T) {
	r := &Report{Gate: "check", Fail: finding.Error, Findings: []finding.Finding{{Rule: "bundle-capability", Severity: finding.Warning, Path: "dist/a", Message: "it may do more"}}}
	for _, name := range []string{"one", "two"} {
		b := Bundle{Name: name, Format: "agent", Output: "dist/" + name}
		for i := range maxGains - 1 {
			b.Capabilities = append(b.Capabilities, Capability{Kind: "hook", Where: fmt.Sprint("Stop ", i), New: "runs | x", Gain: true})
		}
		b.Capabilities = append(b.Capabilities, Capability{Kind: "network", Old: "gone.example"})
		r.Bundles = append(r.Bundles, b)
	}
	var b strings.Builder
	if err := Write(&b, r, "markdown"); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	gains, found := strings.Index(text, "Bundles may do more than before"), strings.Index(text, "it may do more")
	if gains < 0 || found < gains || strings.Count(text[:found], "| hook |") != maxGains || !strings.Contains(text[:found], "28 more gains") || strings.Contains(text[:found], "gone.example") {
		t.Errorf("%s", text)
	}
}
