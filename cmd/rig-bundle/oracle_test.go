//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDiffoscope: diffoscope finds no difference between what GNU tar extracts
// of a bundle and what install writes, and does find a changed byte.
func TestDiffoscope(t *testing.T) {
	for _, program := range []string{"tar", "diffoscope"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s here", program)
		}
	}
	dir := newRig(t)
	for name, text := range map[string]string{
		"agents/impl/" + strings.Repeat("long/", 40) + "name.md": "long\n", "agents/impl/ü/日本.md": "other letters\n", "agents/impl/empty": "", "agents/impl/data.bin": "\x00\xff\x01",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status, _, errs := command(dir, nil, "create", "rig.yaml", "-o", "x.rigbundle", "--source-root", ".", "--created-at", "2026-01-01T00:00:00Z"); status != exitOK {
		t.Fatal(errs)
	}
	run := func(name string, args ...string) (string, error) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C.UTF-8")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(name string, args ...string) string {
		t.Helper()
		out, err := run(name, args...)
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return out
	}
	must("mkdir", "theirs")
	must("tar", "-xzf", "x.rigbundle", "-C", "theirs")
	if status, _, errs := command(dir, nil, "install", "x.rigbundle", "--target", "ours"); status != exitOK {
		t.Fatal(errs)
	}
	// What is in one tree only, by design: the manifest is not installed.
	must("rm", "theirs/bundle.yaml", "ours/.rigbundle-lock.json")
	if n := strings.Count(must("find", "theirs", "-type", "f"), "\n"); n != 8 {
		t.Errorf("tar extracts %d files, want 8", n)
	}
	must("diffoscope", "--exclude-directory-metadata=yes", "--no-progress", "ours", "theirs")
	if err := os.WriteFile(filepath.Join(dir, "theirs/agents/impl/role.md"), []byte("Build it!\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := run("diffoscope", "--exclude-directory-metadata=yes", "--no-progress", "ours", "theirs"); err == nil || !strings.Contains(out, "+Build it!") {
		t.Errorf("diffoscope overlooks a changed byte: %v\n%s", err, out)
	}
}
