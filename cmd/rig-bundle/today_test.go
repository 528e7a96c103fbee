package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// publishedRig unpacks one of the rigs of testdata/rigbundle/published.
func publishedRig(t *testing.T, name string) string {
	t.Helper()
	a, err := txtar.ParseFile("../../testdata/rigbundle/published/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range a.Files {
		put(t, filepath.Join(dir, filepath.FromSlash(f.Name)), string(f.Data), 0o644)
	}
	return dir
}

// What the author of a published rig does, and who gets it: check, list the
// configurations, build one, look at it, plan, install (I03, I05).
func TestPublishedRigLife(t *testing.T) {
	dir := publishedRig(t, "workshop")
	env := []string{"SOURCE_DATE_EPOCH=1767225600", "XDG_STATE_HOME=" + t.TempDir()}
	run := func(want int, part string, args ...string) string {
		t.Helper()
		status, out, errs := command(dir, env, args...)
		if status != want || !strings.Contains(out+errs, part) {
			t.Fatalf("%v: %d, want %d and %q\n%s%s", args, status, want, part, out, errs)
		}
		return out + errs
	}
	run(0, "pass        configurations: every preset can be built", "check", ".")
	status, got := withJSON(t, dir, env, "check", ".", "--json")
	if status != 0 || field(t, got, "standardVersion") != "openrig.bundle-standard/v1" || field(t, got, "code") != "ok" {
		t.Errorf("%d %s", status, got)
	}
	run(0, "\"all-codex\": dev.build=codex,orch.lead=codex\n", "configurations", "rig.yaml")
	run(0, ", recommended, the rig as it is written", "configurations", "rig.yaml")
	run(1, "configuration-undeclared", "create", "rig.yaml", "-o", "x.rigbundle", "--preset", "best")
	run(2, "--seat takes POD.MEMBER=RUNTIME", "create", "rig.yaml", "-o", "x.rigbundle", "--seat", "dev.build")
	run(0, "", "create", "rig.yaml", "-o", "team.rigbundle", "--preset", "all-codex")
	run(0, "startup    every seat: it has to prove nothing (rig.yaml)", "inspect", "team.rigbundle")
	run(0, "permission dev.build: ACTS WITHOUT ASKING: codex runs outside its sandbox", "inspect", "team.rigbundle")
	run(0, "Package digest: sha256:", "inspect", "team.rigbundle")
	run(0, "does       needs      to be done before by the user:", "install", "team.rigbundle", "--plan")
	_, got = withJSON(t, dir, env, "install", "team.rigbundle", "--plan", "--target", "T", "--json")
	var b struct{ Facts []struct{ Kind, Text string } }
	if err := json.Unmarshal(got["behaviour"], &b); err != nil || len(b.Facts) == 0 {
		t.Errorf("%v %s", err, got["behaviour"])
	}
	run(0, "installed", "install", "team.rigbundle", "--target", "T")
	run(0, "ok team.rigbundle", "rebuild", "rig.yaml", "--against", "team.rigbundle")
	// a word of tomorrow has its place, in text and in JSON
	data, err := os.ReadFile(filepath.Join(dir, "rig.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "rig.yaml"), strings.Replace(string(data), "startup_proof", "startup_oath", 1), 0o644)
	run(0, "note: unknown-value: rig.yaml:10:13: startup.actions[0].type is ", "create", "rig.yaml", "-o", "new.rigbundle")
	run(1, "unknown-value", "create", "rig.yaml", "-o", "new.rigbundle", "--strict=unknown-value")
	run(2, "io-error", "check", "nowhere")
	put(t, filepath.Join(dir, ".env"), "A=1\n", 0o600)
	run(1, "finding     credential_paths", "check", ".")
}
