package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/pkg/rules"
)

// TestGatesOfOtherRules holds what the registry says of two of the three rules that
// package rules does not judge: each is told at just those gates of git and of
// rig-hook check. (That a pull request tells bundle-drift, package action
// shows.)
func TestGatesOfOtherRules(t *testing.T) {
	t.Parallel()
	if err := programs.Build(filepath.Dir(program), "rig-bundle"); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, gittest.Options{})
	const policy = "version: 1\npush-cert: require\nbundles:\n  - {format: agent, source: agent, output: dist}\n"
	w.policy(policy)
	file := filepath.Join(w.clone.Home, "policy.yaml")
	write(t, file, policy)
	w.clone.Config("rigward.policy", file)
	hooked(t, w.clone)
	w.clone.Add(map[string]string{
		"agent/manifest.json": `{"bundleVersion": "1", "name": "demo", "version": "1.0.0", "entry": "run", ` +
			`"platform": "linux", "arch": "amd64", "libc": "musl"}`,
		"agent/run": "#!/bin/sh\n",
	})
	w.clone.Run("update-index", "--chmod=+x", "agent/run")
	said := map[rules.Gate]string{}
	said[rules.PreCommit] = w.clone.Try(nil, "commit", "-q", "-m", "A source without its bundle").Stderr
	said[rules.PrePush] = w.clone.Push("--dry-run", "origin", "main").Stderr
	said[rules.Check] = rig(w.clone, w.clone.Dir, "", "check", w.base+"..HEAD").Stdout
	said[rules.PreReceive] = unwrapped(w.push("main").Stderr)
	if err := os.Remove(filepath.Join(w.server.Dir, "hooks", "pre-receive")); err != nil {
		t.Fatal(err)
	}
	said[rules.Update] = unwrapped(w.push("main").Stderr)
	for _, id := range []string{"push-cert", "bundle-drift"} {
		rule, _ := rules.ByID(id)
		var at []string
		for g := rules.PreCommit; g <= rules.Check; g++ {
			if strings.Contains(said[g], "["+id+"]") || g == rules.PullRequest && id == "bundle-drift" {
				at = append(at, strings.Replace(g.String(), "-request", " request", 1))
			}
		}
		if got := strings.Join(at, ", "); got != rule.Gates.String() {
			t.Errorf("%s is told at: %s; the registry says: %s\n%q", id, got, rule.Gates, said)
		}
	}
}
