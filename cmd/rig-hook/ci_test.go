package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"gopkg.in/yaml.v3"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
)

// A forge is a server's repository: a default branch that moved on, and became
// stricter, after three proposals to it began.
type forge struct {
	*gittest.Repo
	base, tip           string
	good, warned, bad   string // proposals; the last one brings a policy by which it would pass
	goodMerge, badMerge string // of a proposal into the tip, as a forge makes them
}

func newForge(t *testing.T) *forge {
	turn := func(name string, edit ...string) map[string]string {
		body := []byte("x\n")
		text, err := envelope.Render(envelope.Fields{From: "rig-a", To: []string{"rig-b"}, Date: "2026-01-05", Status: "▶ x", Type: "STATE", Thread: "talk", Body: body, BodyHash: envelope.BodyHash(body)})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{"talk/" + name: strings.NewReplacer(edit...).Replace(string(text))}
	}
	f := &forge{Repo: gittest.New(t, gittest.Options{})}
	f.base = f.Commit("base", map[string]string{".bridge/policy.yaml": "version: 1\n"})
	on := func(from string, commit func() string) string {
		f.Run("checkout", "-q", "--detach", from)
		return commit()
	}
	f.good = on(f.base, func() string { return f.Commit("good", turn("STATE-1.md")) })
	f.warned = on(f.base, func() string { return f.Commit("warned", turn("STATE-1.md", "body_hash: ", "tldr: ")) })
	f.bad = on(f.base, func() string {
		files := turn("STATE-1.md", "type: STATE", "type: ORDER")
		files[".bridge/policy.yaml"] = "version: 1\nrules: {envelope-schema: off}\n"
		return f.Commit("bad", files)
	})
	f.Run("checkout", "-q", "main")
	f.tip = f.Commit("stricter", map[string]string{".bridge/policy.yaml": "version: 1\nfail-level: warning\n"})
	merge := func(head string) string {
		return on(f.tip, func() string {
			f.Run("merge", "-q", "--no-ff", "-X", "ours", "-m", "Merge", head)
			return f.Ref("HEAD")
		})
	}
	f.goodMerge, f.badMerge = merge(f.good), merge(f.bad)
	for name, id := range map[string]string{"good": f.good, "warned": f.warned, "bad": f.bad, "good-merge": f.goodMerge, "bad-merge": f.badMerge} {
		f.Run("update-ref", "refs/keep/"+name, id)
	}
	f.Run("update-ref", "refs/heads/release/1", f.base)
	f.Run("update-ref", "refs/heads/topic", f.good)
	return f
}

// checkout is what a runner makes of it: all branches, or the newest commits of
// the one that it runs for, and a detached HEAD.
func (f *forge) checkout(t *testing.T, head string, depth int) *gittest.Repo {
	c := gittest.New(t, gittest.Options{})
	c.Run("remote", "add", "origin", "file://"+f.Dir)
	f.Run("update-ref", "refs/pipelines/1", head)
	if depth > 0 {
		c.Run("fetch", "-q", fmt.Sprint("--depth=", depth), "origin", "+refs/pipelines/1:refs/pipelines/1")
	} else {
		c.Run("fetch", "-q", "origin", "+refs/pipelines/1:refs/pipelines/1", "+refs/heads/*:refs/remotes/origin/*", "+refs/keep/*:refs/keep/*")
	}
	c.Run("checkout", "-q", "--detach", head)
	return c
}

// judgeCI runs `rig-hook check` in a checkout.
func judgeCI(t *testing.T, c *gittest.Repo, environ []string, args ...string) (code int, told string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), &hooks.Env{
		Args: append([]string{"rig-hook", "check"}, args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Environ: append(c.Env, environ...), Dir: c.Dir, Now: func() time.Time { return time.Unix(gittest.Epoch, 0).Add(24 * time.Hour) }, Rand: rand.Reader,
	})
	return code, out.String() + errs.String()
}

// TestCI plays the recorded environments of CI systems: the good proposal
// passes, and one that brings its own policy is judged by the target's.
func TestCI(t *testing.T) {
	f := newForge(t)
	good, bad := f.checkout(t, f.good, 0), f.checkout(t, f.bad, 0)
	fill := func(head, merge string) *strings.Replacer {
		return strings.NewReplacer("@BASE@", f.base, "@SHORT@", f.base[:12], "@TIP@", f.tip, "@HEAD@", head, "@MERGE@", merge, "@ZERO@", zeros)
	}
	for _, file := range []string{"gitlab", "others"} {
		archive, err := txtar.ParseFile("../../internal/ci/testdata/" + file + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range archive.Files {
			t.Run(kind.Name, func(t *testing.T) {
				want, environ, _ := strings.Cut(string(kind.Data), "\n")
				args := []string{"--ci", file}
				if file == "others" {
					args[1], _, _ = strings.Cut(kind.Name, " ")
					args = append(args, "--branch", "main")
				}
				run := func(c *gittest.Repo, r *strings.Replacer) (int, string) {
					return judgeCI(t, c, strings.Split(strings.TrimSpace(r.Replace(environ)), "\n"), args...)
				}
				if says, ok := strings.CutPrefix(want, "error "); ok {
					if code, told := run(good, fill(f.good, f.goodMerge)); code != 2 || !strings.Contains(told, says) {
						t.Errorf("exit code %d\n%s", code, told)
					}
					return
				}
				if code, told := run(good, fill(f.good, f.goodMerge)); code != 0 || !strings.Contains(told, "1 envelope checked") {
					t.Errorf("a good one: exit code %d\n%s", code, told)
				}
				if code, told := run(bad, fill(f.bad, f.badMerge)); code != 1 || !strings.Contains(told, "[envelope-schema]") {
					t.Errorf("a bad one that brings its own policy: exit code %d\n%s", code, told)
				}
			})
		}
	}
	mergeRequest := func(head string) []string {
		return []string{"CI_PIPELINE_SOURCE=merge_request_event", "CI_DEFAULT_BRANCH=main", "CI_COMMIT_SHA=" + head, "CI_PROJECT_ID=7", "CI_MERGE_REQUEST_PROJECT_ID=7",
			"CI_MERGE_REQUEST_IID=3", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main", "CI_MERGE_REQUEST_DIFF_BASE_SHA=" + f.base}
	}
	expect := func(t *testing.T, c *gittest.Repo, environ []string, want int, says string, args ...string) {
		t.Helper()
		if code, told := judgeCI(t, c, environ, append([]string{"--ci", "gitlab"}, args...)...); code != want || !strings.Contains(told, says) {
			t.Errorf("exit code %d, expected %d and %q\n%s", code, want, says, told)
		}
	}
	t.Run("the policy is that of the target's tip", func(t *testing.T) {
		c := f.checkout(t, f.warned, 0)
		expect(t, c, mergeRequest(f.warned), 1, "[body-hash]")
		c.Run("update-ref", "refs/remotes/origin/main", f.base)
		expect(t, c, mergeRequest(f.warned), 0, "clean")
	})
	t.Run("a target that was kept from an earlier run", func(t *testing.T) {
		c := f.checkout(t, f.warned, 0)
		c.Run("update-ref", "refs/remotes/origin/main", f.base)
		expect(t, c, append(mergeRequest(f.warned), "CI_MERGE_REQUEST_DIFF_BASE_SHA="+f.tip), 2, "git fetch origin +refs/heads/main:refs/remotes/origin/main")
	})
	t.Run("a shallow clone", func(t *testing.T) {
		c := f.checkout(t, f.bad, 1)
		for _, kind := range [][]string{
			mergeRequest(f.bad),
			append(mergeRequest(f.bad), "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA="+f.bad, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA="+f.tip),
			{"CI_PIPELINE_SOURCE=push", "CI_DEFAULT_BRANCH=main", "CI_COMMIT_BRANCH=main", "CI_COMMIT_SHA=" + f.bad, "CI_COMMIT_BEFORE_SHA=" + f.base},
			{"CI_PIPELINE_SOURCE=push", "CI_DEFAULT_BRANCH=main", "CI_COMMIT_BRANCH=topic", "CI_COMMIT_SHA=" + f.bad, "CI_COMMIT_BEFORE_SHA=" + zeros},
		} {
			expect(t, c, kind, 2, `set GIT_DEPTH: "0"`)
		}
		// The whole history of a branch cannot be judged either.
		expect(t, c, []string{"CI_PIPELINE_SOURCE=schedule", "CI_DEFAULT_BRANCH=main", "CI_COMMIT_BRANCH=main", "CI_COMMIT_SHA=" + f.bad}, 2, "cannot decide")
	})
	t.Run("a tag that has the name of the target", func(t *testing.T) {
		c := f.checkout(t, f.bad, 0)
		c.Run("update-ref", "refs/tags/refs/remotes/origin/main", f.bad)
		expect(t, c, mergeRequest(f.bad), 1, "[envelope-schema]")
		c.Run("update-ref", "-d", "refs/remotes/origin/main")
		expect(t, c, mergeRequest(f.bad), 2, "is not in this checkout")
	})
	t.Run("a merge request in a fork says so", func(t *testing.T) {
		expect(t, good, append(mergeRequest(f.good), "CI_PROJECT_ID=8", "CI_MERGE_REQUEST_PROJECT_PATH=team/bridge"), 0, "note: this pipeline runs in the project of a fork")
	})
	t.Run("what goes with --ci", func(t *testing.T) {
		for _, args := range [][]string{{"--all"}, {"--stdin"}, {"--policy", "now"}, {"HEAD~1..HEAD"}} {
			expect(t, good, mergeRequest(f.good), 2, "--ci says which commits are judged", args...)
		}
		if code, told := judgeCI(t, good, nil, "--branch", "main"); code != 2 || !strings.Contains(told, "--branch goes with --ci") {
			t.Errorf("%d: %s", code, told)
		}
		if code, told := judgeCI(t, good, nil, "--ci", "travis"); code != 2 || !strings.Contains(told, "expected one of github, gitlab, bitbucket, jenkins") {
			t.Errorf("%d: %s", code, told)
		}
	})
}

// A ciFile is one of the files that are copied for a CI system: the shell
// commands of its job, and the variables that it sets for them.
type ciFile struct {
	name, script string
	vars         map[string]string
	event        func(f *forge, head string) []string
	reports      []string
}

func parseYAML(t *testing.T, name string, into ...any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	for _, v := range into {
		if err := d.Decode(v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Fatalf("%s: more documents than expected: %v", name, err)
	}
}

func ciFiles(t *testing.T) []ciFile {
	t.Helper()
	var spec struct {
		Spec struct {
			Inputs map[string]struct{ Default any }
		}
	}
	var jobs map[string]struct {
		Stage, Image string
		Variables    map[string]string
		Script       []string
		Artifacts    struct {
			When    string
			Reports map[string]string
		}
	}
	parseYAML(t, "../../templates/check.yml", &spec, &jobs)
	job := jobs["rigward"]
	input := regexp.MustCompile(`^\$\[\[ inputs\.(\w+) \]\]$`)
	used := map[string]bool{}
	for name, v := range job.Variables {
		if m := input.FindStringSubmatch(v); m != nil {
			in, ok := spec.Spec.Inputs[m[1]]
			if !ok {
				t.Errorf("check.yml has no input %s", m[1])
			}
			job.Variables[name], used[m[1]] = fmt.Sprint(in.Default), true
		}
	}
	if job.Variables["GIT_DEPTH"] != "0" || len(used) != 4 || job.Stage != "$[[ inputs.stage ]]" || job.Image != "$[[ inputs.image ]]" || job.Artifacts.When != "always" {
		t.Errorf("check.yml: %+v", job)
	}
	gitlab := ciFile{name: "templates/check.yml", script: strings.Join(job.Script, "\n"), vars: job.Variables, event: func(f *forge, head string) []string {
		return []string{"CI_PIPELINE_SOURCE=merge_request_event", "CI_DEFAULT_BRANCH=main", "CI_COMMIT_SHA=" + head, "CI_PROJECT_ID=7", "CI_MERGE_REQUEST_PROJECT_ID=7",
			"CI_MERGE_REQUEST_IID=3", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main", "CI_MERGE_REQUEST_DIFF_BASE_SHA=" + f.base}
	}}
	for _, file := range job.Artifacts.Reports {
		gitlab.reports = append(gitlab.reports, file)
	}

	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses, Run string
				With      map[string]string
				Env       map[string]string
			}
		}
	}
	parseYAML(t, "../../ci/gitea.yml", &workflow)
	steps := workflow.Jobs["rigward"].Steps
	if len(steps) != 2 || steps[0].With["fetch-depth"] != "0" || !regexp.MustCompile(`^https://github\.com/actions/checkout@[0-9a-f]{40}$`).MatchString(steps[0].Uses) {
		t.Errorf("gitea.yml: %+v", steps)
	}
	gitea := ciFile{name: "ci/gitea.yml", script: steps[1].Run, vars: steps[1].Env, event: func(f *forge, head string) []string {
		data, err := os.ReadFile("../../action/testdata/events/pull_request.json")
		if err != nil {
			t.Fatal(err)
		}
		event := filepath.Join(gittest.TempDir(t), "event.json")
		if err := os.WriteFile(event, []byte(strings.NewReplacer("@BASE@", f.tip, "@HEAD@", head).Replace(string(data))), 0o644); err != nil {
			t.Fatal(err)
		}
		return []string{"GITHUB_EVENT_NAME=pull_request", "GITHUB_EVENT_PATH=" + event}
	}}

	var pipelines struct {
		Definitions struct {
			Steps []struct {
				Step struct {
					Clone  map[string]string
					Script []string
				}
			}
		}
		Pipelines map[string]map[string][]struct {
			Step struct{ Name string }
		}
	}
	parseYAML(t, "../../ci/bitbucket-pipelines.yml", &pipelines)
	step := pipelines.Definitions.Steps[0].Step
	if step.Clone["depth"] != "full" || pipelines.Pipelines["pull-requests"]["**"][0].Step.Name != "rigward" || pipelines.Pipelines["branches"]["main"][0].Step.Name != "rigward" {
		t.Errorf("bitbucket-pipelines.yml: %+v", pipelines)
	}
	bitbucket := ciFile{name: "ci/bitbucket-pipelines.yml", vars: map[string]string{}, reports: []string{"test-results/rigward.xml"}, event: func(f *forge, head string) []string {
		return []string{"BITBUCKET_COMMIT=" + head, "BITBUCKET_BRANCH=topic", "BITBUCKET_PR_ID=3", "BITBUCKET_PR_DESTINATION_BRANCH=main", "BITBUCKET_PR_DESTINATION_COMMIT=" + f.tip[:12]}
	}}
	for _, line := range step.Script {
		if rest, ok := strings.CutPrefix(line, "export "); ok {
			name, value, _ := strings.Cut(rest, "=")
			bitbucket.vars[name] = strings.Trim(value, "'")
			continue
		}
		bitbucket.script += line
	}

	text, err := os.ReadFile("../../ci/Jenkinsfile")
	if err != nil {
		t.Fatal(err)
	}
	shell := regexp.MustCompile(`(?s)sh '''\n(.*?)'''`).FindSubmatch(text)
	outside := regexp.MustCompile(`(?s)'''.*?'''`).ReplaceAll(text, nil)
	if shell == nil || bytes.Count(outside, []byte("{")) != bytes.Count(outside, []byte("}")) || bytes.ContainsAny(shell[1], `\`) {
		t.Fatal("Jenkinsfile has no block of shell, or its braces do not fit")
	}
	jenkins := ciFile{name: "ci/Jenkinsfile", script: string(shell[1]), vars: map[string]string{}, reports: []string{"rigward.xml"}, event: func(_ *forge, head string) []string {
		return []string{"GIT_COMMIT=" + head, "BRANCH_NAME=PR-3", "CHANGE_ID=3", "CHANGE_TARGET=main"}
	}}
	for _, m := range regexp.MustCompile(`(?m)^ +(RIGWARD_\w+) = '(.*)'$`).FindAllSubmatch(text, -1) {
		jenkins.vars[string(m[1])] = string(m[2])
	}
	return []ciFile{gitlab, gitea, bitbucket, jenkins}
}

// installed is how a file gets rig-hook.
var installed = regexp.MustCompile(`(?s)if ! command -v rig-hook.*?\bfi\n`)

// TestCIFiles runs the commands of the files for CI systems on a repository,
// with a server of files in the place of the release.
func TestCIFiles(t *testing.T) {
	files := ciFiles(t)
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for _, c := range files {
		if got, want := squeeze(installed.FindString(c.script)), squeeze(installed.FindString(files[0].script)); got == "" || got != want {
			t.Errorf("%s gets the program in another way than %s:\n%s", c.name, files[0].name, got)
		}
		if c.vars["RIGWARD_SHA256"] != "" || c.vars["RIGWARD_VERSION"] != files[0].vars["RIGWARD_VERSION"] || !strings.HasPrefix(c.vars["RIGWARD_RELEASES"], "https://github.com/rigward/rigward/") {
			t.Errorf("%s: %v", c.name, c.vars)
		}
	}
	if runtime.GOOS == "windows" {
		t.Skip("the jobs run on Linux")
	}
	for _, program := range []string{"bash", "curl", "tar", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
	// This program is the rig-hook of the release.
	program, err := exec.LookPath("rig-hook")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	z, err := gzip.NewWriterLevel(&archive, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "rig-hook", Mode: 0o755, Size: int64(len(data))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(archive.Bytes())
	digest := hex.EncodeToString(sum[:])
	served := 0
	releases := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := fmt.Sprintf("/v%[1]s/rigward_%[1]s_linux_amd64.tar.gz", files[0].vars["RIGWARD_VERSION"]); r.URL.Path != want {
			http.NotFound(w, r)
			return
		}
		served++
		_, _ = w.Write(archive.Bytes())
	}))
	defer releases.Close()

	f := newForge(t)
	path := func(dirs ...string) string {
		for _, program := range []string{"git", "bash", "curl", "tar", "gzip", "sha256sum", "mktemp", "mkdir"} {
			found, err := exec.LookPath(program)
			if err != nil {
				t.Skip(program + " is not installed")
			}
			dirs = append(dirs, filepath.Dir(found))
		}
		return "PATH=" + strings.Join(dirs, string(filepath.ListSeparator))
	}
	run := func(t *testing.T, c ciFile, head, digest string, dirs ...string) (code int, told string, r *gittest.Repo) {
		t.Helper()
		r = f.checkout(t, head, 0)
		cmd := exec.Command("bash", "-c", c.script)
		cmd.Dir, cmd.Env = r.Dir, append(append(r.Env, c.event(f, head)...), "TMPDIR="+gittest.TempDir(t), path(dirs...))
		for name, value := range c.vars {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		cmd.Env = append(cmd.Env, "RIGWARD_RELEASES="+releases.URL, "RIGWARD_SHA256="+digest)
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out), r
	}
	for _, c := range files {
		t.Run(c.name, func(t *testing.T) {
			code, told, r := run(t, c, f.good, digest)
			if code != 0 || !strings.Contains(told, "check: clean: 1 commit, 1 envelope checked") {
				t.Errorf("a good proposal: exit code %d\n%s", code, told)
			}
			for _, report := range c.reports {
				if _, err := os.Stat(filepath.Join(r.Dir, report)); err != nil {
					t.Error(err)
				}
			}
			code, told, r = run(t, c, f.bad, digest)
			if code != 1 || !strings.Contains(told, "[envelope-schema]") {
				t.Errorf("a bad proposal: exit code %d\n%s", code, told)
			}
			if c.name == "templates/check.yml" {
				var issues []any
				data, err := os.ReadFile(filepath.Join(r.Dir, "gl-code-quality-report.json"))
				if err != nil || json.Unmarshal(data, &issues) != nil || len(issues) == 0 {
					t.Errorf("%v: %s", err, data)
				}
			}
			before := served
			for _, wrong := range []string{"", strings.Repeat("0", 64)} {
				if code, told, _ := run(t, c, f.good, wrong); code == 0 || strings.Contains(told, "check: ") {
					t.Errorf("a download without its digest ran: exit code %d\n%s", code, told)
				}
			}
			if served == before {
				t.Error("nothing was downloaded, so nothing was tested")
			}
			before = served
			if code, told, _ := run(t, c, f.good, "", filepath.Dir(program)); code != 0 || served != before {
				t.Errorf("an image that has the program: exit code %d, %d downloads\n%s", code, served-before, told)
			}
		})
	}
}
