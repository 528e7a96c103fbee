package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/layout"
)

var muslBase = map[string]string{"lib/ld-musl-x86_64.so.1": "loader", "bin/sh": "sh", "etc/os-release": "PRETTY_NAME=\"Alpine 3.20\"\n"}

// TestStageLooksAtTheBase: a base that does not fit is a finding, one that can't be read exit 2, and neither leaves a
// context behind.
func TestStageLooksAtTheBase(t *testing.T) {
	dir := t.TempDir()
	agentTree(t, filepath.Join(dir, "src"))
	agentObject(t, dir, nil, 0, "create", "src", "-o", dir)
	digest := layout.Write(t, filepath.Join(dir, "musl"), "amd64", muslBase)
	layout.Write(t, filepath.Join(dir, "glibc"), "amd64", map[string]string{"lib64/ld-linux-x86-64.so.2": "loader", "bin/sh": "sh"})
	layout.Write(t, filepath.Join(dir, "arm"), "arm64", muslBase)
	layout.Write(t, filepath.Join(dir, "shell-less"), "amd64", map[string]string{"lib/ld-musl-x86_64.so.1": "loader"})
	stage := func(want int, base, out string) map[string]any {
		t.Helper()
		v := agentObject(t, dir, nil, want, "stage", demoFile, "--target", "linux/amd64/musl", "--base", base, "--out", out)
		if _, err := os.Stat(filepath.Join(dir, out)); (err == nil) != (want == 0) {
			t.Errorf("%s: %s is there: %v", base, out, err == nil)
		}
		return v
	}
	v := stage(0, "oci:musl", "ctx")
	seen, _ := v["base_image"].(map[string]any)
	if seen["digest"] != digest || seen["distribution"] != "Alpine 3.20" || seen["platform"] != "linux/amd64" {
		t.Errorf("what was seen: %v", seen)
	}
	about, err := os.ReadFile(filepath.Join(dir, "ctx", "stage.json"))
	if err != nil || !strings.Contains(string(about), `"base_digest": "`+digest+`"`) {
		t.Errorf("stage.json: %s %v", about, err)
	}
	for base, code := range map[string]string{"oci:glibc": "base-libc", "oci:arm": "base-platform", "oci:shell-less": "base-runtime"} {
		if v := stage(1, base, "other"); v["code"] != code {
			t.Errorf("%s: %v", base, v)
		}
	}
	for _, base := range []string{"oci:none", "docker-archive:none.tar", "oci:src", "localhost:1/a/b:1"} {
		if v := stage(2, base, "other"); v["code"] != "image-unreadable" {
			t.Errorf("%s: %v", base, v)
		}
	}
	if v := stage(2, "oci:musl:none", "other"); v["code"] != "image-unreadable" {
		t.Errorf("a tag that is not there: %v", v)
	}
	code, out, errs := agentRun(t, dir, nil, "stage", demoFile, "--target", "linux/amd64/musl", "--base", "oci:glibc", "--out", "other")
	if code != 1 || !strings.HasPrefix(out, "base-libc "+demoFile+": the bundle is for musl") || errs != "" {
		t.Errorf("in text: %d %q %q", code, out, errs)
	}
}
