package action

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/image"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
)

// turn renders an envelope; edit changes its text.
func turn(thread, name, from string, edit ...string) map[string]string {
	body := envelope.NormalizeBody([]byte("x\n"))
	text, err := envelope.Render(envelope.Fields{From: from, To: []string{"rig-b"}, Date: "2026-01-05", Status: "▶ x", Type: "STATE", Thread: thread, Body: body, BodyHash: envelope.BodyHash(body)})
	if err != nil {
		panic(err)
	}
	return map[string]string{thread + "/" + name: strings.NewReplacer(edit...).Replace(string(text))}
}

// A run is one step of a workflow and what it left behind.
type run struct {
	code                 int
	log, summary, stderr string
	outputs              map[string]string
}

// runStep runs the action as the runner does.
func runStep(t *testing.T, r *gittest.Repo, event string, payload []byte, vars ...string) run {
	t.Helper()
	dir := gittest.TempDir(t)
	file := func(name string, data []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var out, errs bytes.Buffer
	summary, outputs := file("summary", nil), file("outputs", nil)
	environ := append(r.Env, "GITHUB_EVENT_NAME="+event, "GITHUB_EVENT_PATH="+file("event.json", payload), "GITHUB_WORKSPACE="+r.Dir,
		"GITHUB_STEP_SUMMARY="+summary, "GITHUB_OUTPUT="+outputs, "GITHUB_REF=refs/heads/main", "GITHUB_SHA="+r.Try(nil, "rev-parse", "HEAD").Stdout)
	for i := range environ {
		environ[i] = strings.TrimSuffix(environ[i], "\n")
	}
	code := Run(t.Context(), &hooks.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: append(environ, vars...), Dir: r.Dir,
		Now: func() time.Time { return time.Unix(r.Now, 0) },
	}, &image.Network{UserAgent: "test"})
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	res := run{code: code, log: out.String(), summary: read(summary), stderr: errs.String(), outputs: map[string]string{}}
	for line := range strings.Lines(read(outputs)) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if _, twice := res.outputs[name]; !ok || twice || !regexp.MustCompile(`^[a-z-]+$`).MatchString(name) {
			t.Errorf("a line of the outputs is %q", line)
		}
		res.outputs[name] = value
	}
	return res
}

// payload fills in a fixture.
func payload(t *testing.T, name string, fill ...string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/events/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.NewReplacer(append(fill, "@ZERO@", strings.Repeat("0", 40))...).Replace(string(b)))
}

func (r run) check(t *testing.T, code int, result string, words ...string) {
	t.Helper()
	if r.code != code || r.outputs["result"] != result {
		t.Errorf("exit code %d and result %q, expected %d and %q\n%s%s", r.code, r.outputs["result"], code, result, r.log, r.stderr)
	}
	flat := strings.Join(strings.Fields(r.log), " ")
	for _, w := range words {
		if !strings.Contains(flat, w) {
			t.Errorf("the log does not say %q:\n%s", w, r.log)
		}
	}
	if r.summary == "" || r.log == "" {
		t.Error("no summary or no log")
	}
}

// bridge has a base commit, a good proposal and a bad one, as a clone of what
// GitHub has.
func bridge(t *testing.T) (r *gittest.Repo, base, good, bad string) {
	r = gittest.New(t, gittest.Options{})
	r.Commit("policy", map[string]string{".bridge/policy.yaml": "version: 1\n"})
	base = r.Commit("base", turn("talk", "REQUEST.md", "rig-a"))
	r.Run("update-ref", "refs/remotes/origin/main", base)
	good = r.Commit("good", turn("talk", "STATE-1.md", "rig-b"))
	bad = r.Commit("bad", turn("talk", "STATE-2.md", "rig-b", "type: STATE", "type: ORDER"))
	return r, base, good, bad
}

func TestEvents(t *testing.T) {
	r, base, good, bad := bridge(t)
	for _, c := range []struct {
		name, event, fixture string
		base, head           string
		code                 int
		result, says         string
	}{
		{"B11 push", "push", "push", base, good, 0, "clean", "1 commit, 1 envelope checked"},
		{"B11 push, bad", "push", "push", base, bad, 1, "findings", "type is \"ORDER\""},
		{"B11 push of a new branch, with no commit in the payload", "push", "push_new_branch", "", bad, 1, "findings", "type is \"ORDER\""},
		{"B11 push of a new branch, control", "push", "push_new_branch", "", good, 0, "clean", "1 commit, 1 envelope checked"},
		{"B11 first push", "push", "push_first", "", good, 0, "clean", "3 commits, 2 envelopes checked"},
		{"B11 push that deletes a protected branch", "push", "push_deleted", "", good, 1, "findings", "[fast-forward]"},
		{"B11 push of a tag", "push", "push_tag", "", bad, 1, "findings", "type is \"ORDER\""},
		{"B11 push by force", "push", "push_forced", bad, base, 1, "findings", "[fast-forward]"},
		{"B13 pull request", "pull_request", "pull_request", base, good, 0, "clean", "1 commit, 1 envelope checked"},
		{"B13 pull request, bad", "pull_request", "pull_request", base, bad, 1, "findings", "type is \"ORDER\""},
		{"G09 pull request of a fork, with the base's rights", "pull_request_target", "pull_request_target", base, bad, 1, "findings", "type is \"ORDER\""},
		{"B12 merge group behind another", "merge_group", "merge_group", good, bad, 1, "findings", "1 commit, 1 envelope checked"},
		{"B11 by hand", "workflow_dispatch", "workflow_dispatch", "", "", 1, "findings", "4 commits, 3 envelopes checked"},
		{"B11 by the clock", "schedule", "schedule", "", "", 1, "findings", "4 commits, 3 envelopes checked"},
		{"B11 release", "release", "release", "", "", 1, "findings", "4 commits, 3 envelopes checked"},
		{"B11 an event that says nothing of commits", "issues", "schedule", "", "", 2, "undecided", "the event \"issues\" does not say which commits are to be judged"},
		{"B11 the payload of another event", "pull_request", "push", base, good, 2, "undecided", "has no pull_request.base.sha"},
		{"B12 merge group without its base", "merge_group", "pull_request", base, good, 2, "undecided", "has no merge_group.base_sha"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runStep(t, r, c.event, payload(t, c.fixture, "@BASE@", c.base, "@HEAD@", c.head, "@REF@", "main")).check(t, c.code, c.result, c.says)
		})
	}
	t.Run("B11 push that deletes a free branch", func(t *testing.T) {
		runStep(t, r, "push", payload(t, "push_deleted", "@HEAD@", good, "@REF@", "topic")).check(t, 0, "clean")
	})
	t.Run("B11 push by force of a free branch", func(t *testing.T) {
		r := r.Copy(t)
		r.Run("checkout", "-q", "--detach", base)
		before := r.Commit("before", turn("talk", "STATE-3.md", "rig-b"))
		event := func(before, ref, head string) []byte {
			return bytes.ReplaceAll(payload(t, "push_forced", "@BASE@", before, "@HEAD@", head), []byte("refs/heads/main"), []byte(ref))
		}
		runStep(t, r, "push", event(before, "refs/heads/topic", good)).check(t, 0, "clean", "1 commit, 1 envelope checked")
		runStep(t, r, "push", event(before, "refs/heads/topic", bad)).check(t, 1, "findings", "type is \"ORDER\"")
		runStep(t, r, "push", event(before, "refs/heads/main", good)).check(t, 1, "findings", "[fast-forward]")
		// What it was is in no branch any more.
		gone := strings.Repeat("1", 40)
		runStep(t, r, "push", event(gone, "refs/heads/topic", good)).check(t, 0, "clean", "1 commit, 1 envelope checked")
		runStep(t, r, "push", event(gone, "refs/heads/topic", bad)).check(t, 1, "findings", "type is \"ORDER\"")
		runStep(t, r, "push", event(gone, "refs/heads/main", good)).check(t, 2, "undecided", "is not in this checkout")
		r.Run("update-ref", "-d", "refs/remotes/origin/main")
		runStep(t, r, "push", event(gone, "refs/heads/topic", good)).check(t, 2, "undecided", "is not in this checkout")
	})
	t.Run("B13 the merge that GitHub makes is nobody's", func(t *testing.T) {
		r := r.Copy(t)
		r.Run("checkout", "-q", "--detach", base)
		r.Run("merge", "-q", "--no-ff", "-m", "Merge", good)
		r.Run("update-ref", "refs/remotes/pull/7/merge", "HEAD")
		res := runStep(t, r, "pull_request", payload(t, "pull_request", "@BASE@", base, "@HEAD@", good, "@MERGE@", r.Ref("HEAD")))
		res.check(t, 0, "clean", "1 commit, 1 envelope checked")
	})
	t.Run("B11 push that deletes a free branch which nobody has any more", func(t *testing.T) {
		gone := strings.Repeat("1", 40)
		runStep(t, r, "push", payload(t, "push_deleted", "@HEAD@", gone, "@REF@", "topic")).check(t, 0, "clean")
		runStep(t, r, "push", payload(t, "push_deleted", "@HEAD@", gone, "@REF@", "main")).check(t, 1, "findings", "[fast-forward]")
	})
	t.Run("B11 push of a new branch to a checkout without the default branch", func(t *testing.T) {
		r := r.Copy(t)
		r.Run("update-ref", "-d", "refs/remotes/origin/main")
		runStep(t, r, "push", payload(t, "push_new_branch", "@HEAD@", bad)).check(t, 2, "undecided", "fetch-depth: 0")
		runStep(t, r, "push", payload(t, "push_deleted", "@HEAD@", strings.Repeat("1", 40), "@REF@", "topic")).check(t, 2, "undecided", "fetch-depth: 0")
		// A tag of that name is not it.
		r.Run("update-ref", "refs/tags/refs/remotes/origin/main", bad)
		runStep(t, r, "push", payload(t, "push_new_branch", "@HEAD@", bad)).check(t, 2, "undecided", "fetch-depth: 0")
	})
	t.Run("an event without a payload", func(t *testing.T) {
		runStep(t, r, "push", []byte("{")).check(t, 2, "undecided", "payload cannot be read")
	})
}

// TestRootOfTrust is case J05 on GitHub: what is proposed to, or pushed to, a
// branch is judged by the policy of the default branch, not by the branch's own.
func TestRootOfTrust(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	tip := r.Commit("policy", map[string]string{".bridge/policy.yaml": "version: 1\nprotect: [release/*]\n"})
	r.Run("update-ref", "refs/remotes/origin/main", tip)
	lax := r.Commit("lax", map[string]string{".bridge/policy.yaml": "version: 1\nrules: {envelope-schema: off, references: off}\n"})
	r.Run("update-ref", "refs/remotes/origin/release/1", lax)
	bad := r.Commit("bad", turn("talk", "STATE-1.md", "rig-b", "type: STATE", "type: ORDER"))
	r.Run("reset", "-q", "--hard", lax)
	good := r.Commit("good", turn("talk", "STATE-1.md", "rig-b"))
	on := func(ref string, data []byte) []byte {
		data = bytes.ReplaceAll(data, []byte(`"ref": "main"`), []byte(`"ref": "`+ref+`"`))
		return bytes.ReplaceAll(data, []byte(`"ref": "refs/heads/main"`), []byte(`"ref": "refs/heads/`+ref+`"`))
	}
	for head, want := range map[string]int{bad: 1, good: 0} {
		result := []string{"clean", "findings"}[want]
		runStep(t, r, "pull_request", on("release/1", payload(t, "pull_request", "@BASE@", lax, "@HEAD@", head))).check(t, want, result, "1 commit, 1 envelope checked")
		runStep(t, r, "push", on("release/1", payload(t, "push", "@BASE@", lax, "@HEAD@", head))).check(t, want, result, "1 commit, 1 envelope checked")
	}
	runStep(t, r, "push", on("release/1", payload(t, "push", "@BASE@", good, "@HEAD@", lax))).check(t, 1, "findings", "[fast-forward]")
	// Without the default branch nobody says what counts.
	r.Run("update-ref", "-d", "refs/remotes/origin/main")
	runStep(t, r, "pull_request", on("release/1", payload(t, "pull_request", "@BASE@", lax, "@HEAD@", good))).check(t, 2, "undecided", "fetch-depth: 0")
}

// TestOldEvent: a job that is run late, or again, judges by what the target branch
// has become, not by the commit that its event named.
func TestOldEvent(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	old := r.Commit("lax", map[string]string{".bridge/policy.yaml": "version: 1\nrules: {envelope-schema: off}\n"})
	bad := r.Commit("bad", turn("talk", "STATE-1.md", "rig-b", "type: STATE", "type: ORDER"))
	r.Run("reset", "-q", "--hard", old)
	good := r.Commit("good", turn("talk", "STATE-1.md", "rig-b"))
	merged := r.Commit("after it", map[string]string{".bridge/policy.yaml": "version: 1\n"})
	r.Run("reset", "-q", "--hard", old)
	now := r.Commit("strict", map[string]string{".bridge/policy.yaml": "version: 1\n"})
	r.Run("checkout", "-q", "--detach", old)
	other := r.Commit("forced", map[string]string{".bridge/policy.yaml": "version: 1\n# other\n"})
	judge := func(name, tip, head string, code int, result string, says ...string) {
		t.Run(name, func(t *testing.T) {
			r := r.Copy(t)
			r.Run("update-ref", "refs/remotes/origin/main", tip)
			runStep(t, r, "pull_request", payload(t, "pull_request", "@BASE@", old, "@HEAD@", head)).check(t, code, result, says...)
		})
	}
	judge("as it was", old, bad, 0, "clean", "1 commit, 1 envelope checked")
	judge("it moved on", now, bad, 1, "findings", "1 commit, 1 envelope checked", "type is \"ORDER\"", "refs/heads/main has moved on since the event")
	judge("it moved on, control", now, good, 0, "clean", "1 commit, 1 envelope checked")
	judge("it has the proposal", merged, good, 0, "clean", "1 commit, 1 envelope checked")
	r.Run("checkout", "-q", "--detach", now)
	old = r.Commit("thrown away", nil)
	judge("it was forced", other, good, 2, "undecided", "neither comes from the other", "push the proposal again")
	judge("the checkout is older", now, good, 0, "clean", "1 commit, 1 envelope checked")
}

// TestNonceScope: where nonces are unique over all protected refs, a push is
// compared with the others that the checkout has.
func TestNonceScope(t *testing.T) {
	relayed := func(name string) map[string]string {
		body := envelope.NormalizeBody([]byte("x\n"))
		text, err := envelope.Render(envelope.Fields{
			From: "op-relay", To: []string{"rig-b"}, Date: "2026-01-05", Status: "▶ x", Type: "ACK", Thread: "talk", Body: body, BodyHash: envelope.BodyHash(body),
			Nonce: "01JG0000000000000000000000", AttestedBy: "SHA256:" + strings.Repeat("a", 43), AttestedAt: "2026-01-05T09:03:00Z", InReplyTo: envelope.BodyHash(body),
		})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{"talk/" + name: string(text)}
	}
	for scope, want := range map[string]bool{"ref": false, "refs": true} {
		r := gittest.New(t, gittest.Options{})
		r.Commit("policy", map[string]string{
			".bridge/policy.yaml":     "version: 1\nprotect: [main, rel]\nrelay: {nonce-scope: " + scope + "}\n",
			".bridge/allowed_signers": testkeys.Ed25519("operator").Line(gittest.Email, "") + "\n",
		})
		base := r.Commit("base", turn("talk", "REQUEST.md", "rig-a"))
		r.Run("update-ref", "refs/remotes/origin/rel", r.Commit("one", relayed("ACK-1.md")))
		r.Run("reset", "-q", "--hard", base)
		r.Run("update-ref", "refs/remotes/origin/main", base)
		head := r.Commit("two", relayed("ACK-2.md"))
		res := runStep(t, r, "push", payload(t, "push", "@BASE@", base, "@HEAD@", head, "@REF@", "main"))
		if !strings.Contains(res.log, "[commit-signed]") || strings.Contains(res.log, "[relay-nonce]") != want {
			t.Errorf("%s: %s%s", scope, res.log, res.stderr)
		}
	}
}

func TestCutHistory(t *testing.T) {
	r, base, _, bad := bridge(t)
	shallow := func(t *testing.T, depth int, rev string) *gittest.Repo {
		c := gittest.New(t, gittest.Options{})
		c.Run("fetch", "-q", fmt.Sprintf("--depth=%d", depth), "file://"+r.Dir, rev)
		c.Run("checkout", "-q", "--detach", "FETCH_HEAD")
		return c
	}
	r.Run("config", "uploadpack.allowAnySHA1InWant", "true")
	t.Run("B07 only the tip is there", func(t *testing.T) {
		c := shallow(t, 1, bad)
		runStep(t, c, "pull_request", payload(t, "pull_request", "@BASE@", base, "@HEAD@", bad)).check(t, 2, "undecided", "fetch-depth: 0")
	})
	t.Run("B07 base and tip are there, what lies between is not", func(t *testing.T) {
		c := shallow(t, 1, bad)
		c.Run("fetch", "-q", "--depth=1", "file://"+r.Dir, base)
		runStep(t, c, "pull_request", payload(t, "pull_request", "@BASE@", base, "@HEAD@", bad)).check(t, 2, "undecided", "fetch-depth: 0")
	})
	t.Run("B08 a full clone that a later fetch cut still has every commit", func(t *testing.T) {
		r := r.Copy(t)
		r.Run("checkout", "-q", "--detach", base)
		moved := r.Commit("moved on", turn("talk", "STATE-9.md", "rig-a"))
		c := gittest.New(t, gittest.Options{})
		c.Run("fetch", "-q", "file://"+r.Dir, bad)
		c.Run("checkout", "-q", "--detach", "FETCH_HEAD")
		c.Run("fetch", "-q", "--depth=1", "file://"+r.Dir, moved)
		runStep(t, c, "pull_request", payload(t, "pull_request", "@BASE@", moved, "@HEAD@", bad)).check(t, 1, "findings", "2 commits, 2 envelopes checked")
	})
	t.Run("B09 a shallow file of no importance", func(t *testing.T) {
		c := shallow(t, 3, bad)
		runStep(t, c, "pull_request", payload(t, "pull_request", "@BASE@", base, "@HEAD@", bad)).check(t, 1, "findings", "type is \"ORDER\"")
	})
	t.Run("no common history", func(t *testing.T) {
		r := r.Copy(t)
		r.Run("checkout", "-q", "--orphan", "other")
		other := r.Commit("other", nil)
		runStep(t, r, "pull_request", payload(t, "pull_request", "@BASE@", base, "@HEAD@", other)).check(t, 2, "undecided", "no common history")
	})
}

// TestSchema holds envelopes to a schema of the user's own, which the proposal
// cannot change for itself.
func TestSchema(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	const named = ".bridge/own.json"
	base := r.Commit("base", map[string]string{
		named:       `{"properties": {"tldr": {"pattern": "^[a-z]"}}, "required": ["tldr"]}`,
		"look.json": `{"properties": {"tldr": {"pattern": "^(?!x)"}}}`,
	})
	good := r.Commit("good", turn("talk", "REQUEST.md", "rig-a", "type: STATE", "type: STATE\ntldr: short"))
	bad := r.Commit("bad and laxer", turn("talk", "STATE-1.md", "rig-b", "type: STATE", "type: STATE\ntldr: Short"))
	broken := r.Commit("broken", turn("talk", "STATE-2.md", "rig-b", "---\n", "--\n"))
	r.Run("checkout", "-q", bad)
	lax := r.Commit("lax", map[string]string{named: `{}`})
	judge := func(name, head, schema string, code int, result string, says ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			runStep(t, r, "pull_request", payload(t, "pull_request", "@BASE@", base, "@HEAD@", head), "INPUT_SCHEMA="+schema).check(t, code, result, says...)
		})
	}
	judge("none", bad, "", 0, "clean")
	judge("an envelope that satisfies it", good, named, 0, "clean", "1 envelope checked")
	judge("an envelope that violates it", bad, named, 1, "findings", `"tldr" violates the user's schema`, "[envelope-schema]", "STATE-1.md:")
	judge("G09 a proposal with a laxer one", lax, named, 1, "findings", `"tldr" violates the user's schema`)
	judge("an envelope that cannot be read", broken, named, 1, "findings", "[envelope-parse]")
	judge("E08 a pattern that RE2 does not know", good, "look.json", 2, "undecided", `the schema's property "tldr" has the pattern "^(?!x)"`)
	judge("no such file", good, "none.json", 2, "undecided", `the input schema names "none.json": no regular file of commit`)
	judge("a directory", good, ".bridge", 2, "undecided", "no regular file")
	judge("a way out of the tree", good, "../own.json", 2, "undecided")
}

func TestInputs(t *testing.T) {
	r, base, good, bad := bridge(t)
	strict := filepath.Join(gittest.TempDir(t), "policy.yaml")
	if err := os.WriteFile(strict, []byte("version: 1\nrequire-signed: all\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	pr := payload(t, "pull_request", "@BASE@", base, "@HEAD@", good)
	for _, c := range []struct {
		name   string
		vars   []string
		code   int
		result string
		says   string
	}{
		{"base and head", []string{"INPUT_BASE=" + good, "INPUT_HEAD=" + bad}, 1, "findings", "type is \"ORDER\""},
		{"base without head", []string{"INPUT_BASE=" + good}, 2, "undecided", "only one of the inputs"},
		{"a head that is an option", []string{"INPUT_BASE=" + good, "INPUT_HEAD=--all"}, 2, "undecided", ""},
		{"a policy beside the work tree", []string{"INPUT_POLICY=" + strict}, 2, "undecided", ""},
		{"G09 a policy in the work tree", []string{"INPUT_POLICY=.bridge/policy.yaml"}, 2, "undecided", "would judge itself"},
		{"G09 signers in the work tree, by another way", []string{"INPUT_SIGNERS=../" + filepath.Base(r.Dir) + "/.bridge/policy.yaml"}, 2, "undecided", "would judge itself"},
		{"G07 an unknown fail level", []string{"INPUT_FAIL_LEVEL=none"}, 2, "undecided", "expected error or warning"},
		{"an unknown report", []string{"INPUT_REPORTS=pdf=x.pdf"}, 2, "undecided", "the input formats: "},
		{"a report that cannot be written", []string{"INPUT_REPORTS=html=none/x.html"}, 2, "undecided", "cannot be written"},
		{"bundles neither yes nor no", []string{"INPUT_BUNDLES=maybe"}, 2, "undecided", "expected true or false"},
		{"no root", []string{"INPUT_ROOT=none"}, 2, "undecided", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			runStep(t, r, "pull_request", pr, c.vars...).check(t, c.code, c.result, c.says)
		})
	}
	t.Run("base and head by names that a push can take", func(t *testing.T) {
		r := r.Copy(t)
		judge := func(base, head string, code int, result, says string) {
			t.Helper()
			runStep(t, r, "pull_request", pr, "INPUT_BASE="+base, "INPUT_HEAD="+head).check(t, code, result, says)
		}
		judge("origin/main", bad, 1, "findings", "ORDER")
		judge(base[:8], bad, 1, "findings", "ORDER")
		judge("origin/main~0", bad+"^0", 1, "findings", "ORDER")
		r.Run("update-ref", "refs/tags/origin/main", bad)
		judge("origin/main", bad, 2, "undecided", `means both refs/tags/origin/main and refs/remotes/origin/main`)
		judge("origin/main~0", bad, 2, "undecided", "means both")
		judge("refs/remotes/origin/main", bad, 1, "findings", "ORDER")
		r.Run("update-ref", "refs/heads/"+base[:8], bad)
		judge(base[:8], bad, 2, "undecided", "means both")
		judge(base, bad, 1, "findings", "ORDER")
		r.Run("update-ref", "refs/tags/refs/heads/topic", bad)
		judge("refs/heads/topic", bad, 2, "undecided", "is not in this checkout")
	})
	t.Run("G09 a repository that the checkout brings as files", func(t *testing.T) {
		r := r.Copy(t)
		for name, text := range map[string]string{
			"sub/HEAD": "ref: refs/heads/main\n", "sub/refs/keep": "", "sub/objects/info/alternates": "../../.git/objects\n",
			"sub/config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[rigward]\n\tpolicy = ../lax.yaml\n",
			"lax.yaml":   "version: 1\nrules:\n  envelope-schema: off\n",
		} {
			name = filepath.Join(r.Dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		bad := payload(t, "pull_request", "@BASE@", base, "@HEAD@", bad)
		runStep(t, r, "pull_request", bad, "INPUT_ROOT=sub").check(t, 2, "undecided", "checked out as files")
		runStep(t, r, "pull_request", bad, "INPUT_ROOT=talk").check(t, 1, "findings", "ORDER")
		// A bare repository that nobody has checked out.
		free := filepath.Join(gittest.TempDir(t), "free.git")
		r.Run("clone", "-q", "--bare", ".", free)
		runStep(t, r, "pull_request", bad, "INPUT_ROOT="+free).check(t, 1, "findings", "ORDER")
	})
	t.Run("G08 what cannot be told is not a pass", func(t *testing.T) {
		none := filepath.Join(gittest.TempDir(t), "none", "x")
		runStep(t, r, "pull_request", pr).check(t, 0, "clean")
		if res := runStep(t, r, "pull_request", pr, "GITHUB_STEP_SUMMARY="+none); res.code != 2 || res.outputs["result"] != "undecided" || !strings.Contains(res.log, "GITHUB_STEP_SUMMARY cannot be written") {
			t.Errorf("no summary: %d, %v\n%s", res.code, res.outputs, res.log)
		}
		if res := runStep(t, r, "pull_request", pr, "GITHUB_OUTPUT="+none); res.code != 2 || !strings.Contains(res.stderr, "GITHUB_OUTPUT cannot be written") {
			t.Errorf("no outputs: %d\n%s", res.code, res.stderr)
		}
	})
	t.Run("G06 reports do not change the exit code", func(t *testing.T) {
		dir := gittest.TempDir(t)
		bad := payload(t, "pull_request", "@BASE@", base, "@HEAD@", bad)
		res := runStep(t, r, "pull_request", bad, "INPUT_REPORTS=sarif="+dir+"/a.sarif\nhtml="+dir+"/a.html junit="+dir+"/a.xml")
		res.check(t, 1, "findings")
		for _, name := range []string{"a.sarif", "a.html", "a.xml"} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(b), "envelope-schema") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if want := dir + "/a.sarif " + dir + "/a.html " + dir + "/a.xml"; res.outputs["reports"] != want {
			t.Errorf("reports %q, expected %q", res.outputs["reports"], want)
		}
	})
	t.Run("G09 a report's name that the checkout has made a link", func(t *testing.T) {
		r := r.Copy(t)
		outside := filepath.Join(gittest.TempDir(t), "victim")
		if err := os.WriteFile(outside, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		for link, to := range map[string]string{"a.html": outside, "away": filepath.Dir(outside)} {
			if err := os.Symlink(to, filepath.Join(r.Dir, link)); err != nil {
				t.Skipf("no symbolic links here: %v", err)
			}
		}
		runStep(t, r, "pull_request", pr, "INPUT_REPORTS=html=a.html").check(t, 0, "clean")
		if b, err := os.ReadFile(filepath.Join(r.Dir, "a.html")); err != nil || !strings.Contains(string(b), "<html") {
			t.Errorf("no report in the link's place: %v", err)
		}
		runStep(t, r, "pull_request", pr, "INPUT_REPORTS=html=away/victim").check(t, 2, "undecided", "cannot be written")
		runStep(t, r, "pull_request", pr, "INPUT_REPORTS=html="+r.Dir+"/away/victim").check(t, 2, "undecided", "cannot be written")
		if b, err := os.ReadFile(outside); err != nil || string(b) != "mine" {
			t.Errorf("a file outside the checkout was written: %q, %v", b, err)
		}
	})
	t.Run("G07 fail level", func(t *testing.T) {
		r := r.Copy(t)
		r.Run("checkout", "-q", "--detach", base)
		// Without body_hash there is a warning.
		head := r.Commit("warned", turn("talk", "STATE-3.md", "rig-b", "body_hash: ", "tldr: "))
		pr := payload(t, "pull_request", "@BASE@", base, "@HEAD@", head)
		runStep(t, r, "pull_request", pr).check(t, 0, "clean", "warning")
		runStep(t, r, "pull_request", pr, "INPUT_FAIL_LEVEL=warning").check(t, 1, "findings")
	})
	t.Run("G08 a repository that is none", func(t *testing.T) {
		r := &gittest.Repo{T: t, Dir: gittest.TempDir(t), Env: r.Env}
		runStep(t, r, "pull_request", pr).check(t, 2, "undecided", "not a git repository")
	})
	t.Run("G11 a repository of somebody else", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can give a directory away")
		}
		r := r.Copy(t)
		if err := os.Chown(r.Dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(r.Dir+"/.git", 65534, 65534); err != nil {
			t.Fatal(err)
		}
		runStep(t, r, "pull_request", pr).check(t, 2, "undecided", "safe.directory")
	})
}

// G01, G02: what a proposal names itself reaches log and annotations only in
// quotes, and at most ten annotations of a level are made.
func TestHostileNames(t *testing.T) {
	r, base, _, _ := bridge(t)
	files := map[string]string{}
	for _, name := range []string{"x\n::add-mask::a.md", "a,line=1.md", "100%.md", "b::c.md"} {
		for n, text := range turn("talk", name, "rig-b", "type: STATE", "type: \"::stop-commands::x\"") {
			files[n] = text
		}
	}
	for i := range 30 {
		for n, text := range turn("talk", fmt.Sprintf("STATE-1%d.md", i), "rig-b", "type: STATE", "type: ORDER") {
			files[n] = text
		}
	}
	head := r.Commit("hostile", files)
	res := runStep(t, r, "pull_request", payload(t, "pull_request", "@BASE@", base, "@HEAD@", head))
	res.check(t, 1, "findings")
	commands := map[string]int{}
	for line := range strings.Lines(res.log) {
		if word, _, ok := strings.Cut(strings.TrimPrefix(line, "::"), " "); ok && strings.HasPrefix(line, "::") {
			commands[word]++
		}
	}
	for word, n := range commands {
		if word != "error" && word != "warning" && word != "notice" || n > 11 {
			t.Errorf("%d commands %q in the log", n, word)
		}
	}
	if commands["error"] == 0 {
		t.Errorf("no annotation:\n%s", res.log)
	}
}
