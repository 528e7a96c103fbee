package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// agentRun runs the command in dir and returns its status and streams.
func agentRun(t *testing.T, dir string, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), Env{
		Args: args, Stdout: &out, Stderr: &errs,
		Getenv: func(k string) string {
			if v, ok := env[k]; ok || k != "XDG_STATE_HOME" {
				return v
			}
			return testState
		}, Environ: []string{"PATH=" + os.Getenv("PATH")},
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }, Dir: dir,
	})
	return code, out.String(), errs.String()
}

// agentObject runs the command with --json and reads the one object it prints.
func agentObject(t *testing.T, dir string, env map[string]string, want int, args ...string) map[string]any {
	t.Helper()
	code, out, errs := agentRun(t, dir, env, append(args, "--json")...)
	if code != want {
		t.Fatalf("%q: exit %d, want %d\n%s%s", args, code, want, out, errs)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%q printed %q: %v", args, out, err)
	}
	return v
}

func put(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func agentTree(t *testing.T, dir string) {
	t.Helper()
	put(t, filepath.Join(dir, "manifest.json"), `{"bundleVersion":"1","name":"demo","version":"1.0.0","entry":"bin/agent","platform":"linux","arch":"amd64","libc":"musl"}`, 0o644)
	put(t, filepath.Join(dir, "bin", "agent"), "#!/bin/sh\n", 0o755)
}

const demoFile = "agent-bundle-demo-1.0.0-linux-amd64-musl.tar.gz"

// TestInstallAgent: install knows an agent bundle and says what to do with it.
func TestInstallAgent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the execute bit of the entry cannot be set here")
	}
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "src"))
	for _, file := range []string{demoFile, strings.TrimSuffix(demoFile, "gz") + "zst"} {
		if code, _, errs := agentRun(t, dir, nil, "create", "src", "-o", filepath.Join(dir, file)); code != 0 {
			t.Fatalf("create: %d %s", code, errs)
		}
		want := "hint: an agent bundle is staged, not installed: rig-bundle stage " + file + " --base IMAGE --out DIR\n"
		if code, out, errs := agentRun(t, dir, nil, "install", file, "--target", "T"); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("install %s: %d %s%s", file, code, out, errs)
		}
		if _, err := os.Stat(filepath.Join(dir, "T")); !os.IsNotExist(err) {
			t.Error("install left a directory")
		}
	}
	put(t, filepath.Join(dir, "x.rigbundle"), "no bundle", 0o644)
	if code, _, errs := agentRun(t, dir, nil, "install", "x.rigbundle", "--target", "T"); code != 1 || strings.Contains(errs, "stage") {
		t.Errorf("a file that is not a bundle: %d %s", code, errs)
	}
}

func TestAgentLife(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the execute bit of the entry cannot be set here")
	}
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "src"))
	code, out, _ := agentRun(t, dir, nil, "create", "src", "-o", dir)
	if code != 0 || !strings.HasPrefix(out, "ok "+filepath.Join(dir, demoFile)+"\n  file digest sha256:") || !strings.Contains(out, "\n  tar digest  sha256:") {
		t.Fatalf("create: %d %q", code, out)
	}
	v := agentObject(t, dir, nil, 0, "verify", demoFile, "--require-checksum", "--target", "linux/amd64/musl")
	if v["code"] != "ok" || v["name"] != "demo" || len(v["notes"].([]any)) != 0 || v["tar_digest"] == "" {
		t.Errorf("verify: %v", v)
	}
	if v := agentObject(t, dir, nil, 1, "verify", demoFile, "--target", "linux/amd64/glibc"); v["code"] != "compat-libc" {
		t.Errorf("verify for another target: %v", v)
	}
	if v := agentObject(t, dir, nil, 1, "verify", demoFile+"#sha256="+strings.Repeat("0", 64)); v["code"] != "checksum-mismatch" {
		t.Errorf("verify with another digest: %v", v)
	}
	if v := agentObject(t, dir, nil, 1, "verify", "gh:acme/tools@v1"); v["code"] != "ref-not-found" {
		t.Errorf("verify without a mirror: %v", v)
	}
	if v := agentObject(t, dir, nil, 0, "inspect", demoFile); v["manifest"].(map[string]any)["libc"] != "musl" || v["counts"].(map[string]any)["files"] != 2.0 {
		t.Errorf("inspect: %v", v)
	}
	if v := agentObject(t, dir, nil, 0, "rebuild", demoFile); v["code"] != "ok" || v["tar_digest"] != v["rebuilt_tar_digest"] {
		t.Errorf("rebuild: %v", v)
	}
	if v := agentObject(t, dir, map[string]string{"SOURCE_DATE_EPOCH": "1"}, 1, "rebuild", "src", "--against", demoFile); v["code"] != "tar-differs" || len(v["changes"].([]any)) != 0 {
		t.Errorf("rebuild at another time: %v", v)
	}
	put(t, filepath.Join(dir, "src", "bin", "new"), "", 0o644)
	if v := agentObject(t, dir, nil, 1, "rebuild", "src", "--against", demoFile); v["code"] != "tar-differs" || len(v["changes"].([]any)) != 1 {
		t.Errorf("rebuild after a change: %v", v)
	}
	if code, out, _ := agentRun(t, dir, nil, "rebuild", "src", "--against", demoFile); code != 1 || !strings.HasPrefix(out, "added bin/new\ntar-differs ") {
		t.Errorf("rebuild in text: %d %q", code, out)
	}
	if err := os.Mkdir(filepath.Join(dir, "two"), 0o755); err != nil {
		t.Fatal(err)
	}
	agentObject(t, dir, nil, 0, "create", "src", "-o", "two")
	if v := agentObject(t, dir, nil, 1, "diff", demoFile, filepath.Join("two", demoFile)); v["code"] != "content-differs" || v["same_content"] != false {
		t.Errorf("diff: %v", v)
	}
	if v := agentObject(t, dir, nil, 0, "stage", demoFile, "--target", "linux/amd64/musl", "--base", "alpine:3", "--unchecked-base", "--out", "ctx"); v["target"] != "linux/amd64/musl" || v["notes"].([]any)[0].(map[string]any)["code"] != "base-not-pinned" {
		t.Errorf("stage: %v", v)
	}
	if _, err := os.Stat(filepath.Join(dir, "ctx", "agent", "bin", "agent")); err != nil {
		t.Error(err)
	}
	if v := agentObject(t, dir, nil, 1, "stage", demoFile, "--target", "darwin/arm64", "--base", "alpine:3", "--unchecked-base", "--out", "other"); v["code"] != "compat-platform" {
		t.Errorf("stage for another target: %v", v)
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err == nil {
		t.Error("a bundle that does not fit was staged")
	}
}

// TestAgentLocalBuild: only the typed command runs, once per key.
func TestAgentLocalBuild(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the build command is a shell line")
	}
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "bundle"))
	agentObject(t, dir, nil, 0, "create", "bundle", "-o", dir)
	put(t, filepath.Join(dir, "src", "main.js"), "1\n", 0o644)
	put(t, filepath.Join(dir, "src", "scripts", "build.sh"), "#!/bin/sh\ntouch "+filepath.Join(dir, "ran-by-itself")+"\n", 0o755)
	put(t, filepath.Join(dir, "src", "lock.json"), "{}\n", 0o644)
	build := "echo run >> " + filepath.Join(dir, "log") + `; test "$RIG_BUNDLE_TARGET" = linux/amd64/musl && cp ` + filepath.Join(dir, demoFile) + ` "$RIG_BUNDLE_OUT"`
	stage := func(out string, more ...string) (int, string) {
		t.Helper()
		code, text, errs := agentRun(t, dir, nil, append([]string{"stage", "--source", "src", "--lock", "lock.json", "--target", "linux/amd64/musl", "--cache", "cache",
			"--build-cmd", build, "--base", "alpine:3", "--unchecked-base", "--out", out}, more...)...)
		return code, text + errs
	}
	runs := func() int {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return bytes.Count(log, []byte("run\n"))
	}
	code, key := stage("none", "--print-key")
	if code != 0 || len(strings.TrimSpace(key)) != 64 || runs() != 0 {
		t.Fatalf("key: %d %q, %d builds", code, key, runs())
	}
	for i, out := range []string{"one", "two"} {
		if code, text := stage(out); code != 0 || runs() != 1 {
			t.Fatalf("stage %d: %d %s, %d builds", i, code, text, runs())
		}
	}
	kept := filepath.Join(dir, "cache", strings.TrimSpace(key)+".tar.gz")
	put(t, kept, "damaged", 0o644)
	if code, text := stage("three"); code != 0 || runs() != 2 {
		t.Fatalf("stage from a damaged cache: %d %s, %d builds", code, text, runs())
	}
	put(t, filepath.Join(dir, "src", "main.js"), "2\n", 0o644)
	if code, text := stage("four"); code != 0 || runs() != 3 {
		t.Fatalf("stage of a changed source: %d %s, %d builds", code, text, runs())
	}
	if _, err := os.Stat(filepath.Join(dir, "ran-by-itself")); err == nil {
		t.Error("a script of the source tree ran")
	}
	build = "exit 3"
	put(t, filepath.Join(dir, "src", "main.js"), "3\n", 0o644)
	if code, text := stage("five"); code != 2 || !strings.Contains(text, "build-failed") {
		t.Errorf("a build that fails: %d %s", code, text)
	}
	build = `echo x > "$RIG_BUNDLE_OUT"/agent-bundle-x.tar.gz`
	if code, text := stage("six"); code != 1 || !strings.Contains(text, "container-unknown") {
		t.Errorf("a build that makes no bundle: %d %s", code, text)
	}
	for _, out := range []string{"five", "six"} {
		if _, err := os.Stat(filepath.Join(dir, out)); err == nil {
			t.Errorf("%s was made", out)
		}
	}
}

func TestAgentUsage(t *testing.T) {
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "src"))
	put(t, filepath.Join(dir, demoFile), "x", 0o644)
	for _, args := range [][]string{
		{"create", "src", "--format", "agent", "-o", "src"},
		{"create", "src", "--format", "agent", "-o", "src/bin"},
		{"create", "src", "--format", "agent", "-o", dir, "--compression", "xz"},
		{"verify", "--format", "agent"},
		{"verify", demoFile, "--target", "linux/x86_64/glibc"},
		{"verify", demoFile, "--runtime", "node@1"},
		{"verify", demoFile, "--target", "linux/amd64/glibc", "--runtime", "node"},
		{"verify", demoFile, "--require-signature", "--format", "agent"},
		{"verify", demoFile, demoFile, "--sha256-file", "x", "--format", "agent"},
		{"diff", demoFile},
		{"rebuild", "src", "--format", "agent"},
		{"stage", demoFile},
		{"stage", demoFile, "--target", "linux/amd64/musl", "--base", "a b", "--out", "x"},
		{"stage", demoFile, "--source", "src", "--target", "linux/amd64/musl", "--print-key"},
		{"stage", "--source", "src", "--target", "linux/amd64/musl", "--base", "a", "--out", "x"},
	} {
		if v := agentObject(t, dir, nil, 2, args...); v["code"] != "usage" {
			t.Errorf("%q: %v", args, v)
		}
	}
	if v := agentObject(t, dir, map[string]string{"SOURCE_DATE_EPOCH": "1e3"}, 2, "create", "src", "--format", "agent", "-o", dir); v["code"] != "usage" {
		t.Errorf("SOURCE_DATE_EPOCH: %v", v)
	}
	if v := agentObject(t, dir, nil, 1, "verify", demoFile); v["code"] != "container-unknown" {
		t.Errorf("one byte: %v", v)
	}
	if v := agentObject(t, dir, nil, 1, "create", "src", "--format", "agent", "-o", filepath.Join(dir, "agent-bundle-x.tar.gz")); v["code"] != "naming-mismatch" {
		t.Errorf("another name: %v", v)
	}
}
