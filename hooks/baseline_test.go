package hooks_test

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestBaseline plays I15: a history that broke rules before anybody checked is
// taken as it is up to a commit, and no further; and only a person at hand or the
// server's own policy can say so.
func TestBaseline(t *testing.T) {
	edit := func(w *world, body string) string {
		return w.clone.Commit("Edit", map[string]string{"release-check/STATE.md": turn("release-check", "STATE", body)})
	}
	t.Run("check", func(t *testing.T) {
		w := newWorld(t, gittest.Options{})
		edit(w, "One\n")
		old := edit(w, "Two\n")
		here := func(words ...string) gittest.Result {
			return rig(w.clone, w.clone.Dir, "", append([]string{"check"}, words...)...)
		}
		must(t, here("--all"), 1, "[append-only]", "rig-hook check --all --baseline "+old[:12])
		must(t, here("--all", "--baseline", old[:12]), 0)
		w.clone.Commit("More", map[string]string{"release-check/MORE.md": turn("release-check", "STATE", "More\n")})
		must(t, here("--all", "--baseline", old), 0, "1 commit")
		edit(w, "Three\n") // what the baseline has is still frozen
		must(t, here("--all", "--baseline", old), 1, "[append-only]")
		must(t, here("--all", "--baseline", "HEAD~3"), 1, "[append-only]")
		must(t, here("--baseline", old), 2, "--baseline goes with --all")
		must(t, here("--all", "--baseline", "none"), 2)
		w.clone.Run("checkout", "-q", "--orphan", "side")
		side := w.clone.Commit("Side", map[string]string{"x.txt": "x"})
		w.clone.Run("checkout", "-q", "-f", "main")
		must(t, here("--all", "--baseline", side), 2, "is not in the history of HEAD", "hint:")
	})
	t.Run("a server's own policy", func(t *testing.T) {
		w := newWorld(t, gittest.Options{})
		edit(w, "One\n")
		old := edit(w, "Two\n")
		protect := "version: 1\nprotect: [refs/heads/old]\n"
		w.policy(protect)
		w.refused(w.push("main:old"), "append-only")
		w.policy(protect + "baseline: [" + old + "]\n")
		if res := w.push("main:old"); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
		must(t, rig(w.server, w.server.Dir, "", "check", "--all"), 0)
		edit(w, "Three\n")
		w.refused(w.push("main:old"), "append-only")
		w.clone.Run("reset", "-q", "--hard", old)
		w.clone.Commit("More", map[string]string{"release-check/MORE.md": turn("release-check", "STATE", "More\n")})
		if res := w.push("main:old"); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
	})
	t.Run("not by what is pushed", func(t *testing.T) {
		w := newWorld(t, gittest.Options{})
		old := edit(w, "One\n")
		w.clone.Commit("Policy", map[string]string{".bridge/policy.yaml": "version: 1\nbaseline: [" + old + "]\n"})
		if res := w.push("main"); res.Code == 0 || !strings.Contains(unwrapped(res.Stderr), "only a server's own policy has a baseline") {
			t.Fatal(res.Stderr)
		}
		w.unmoved()
	})
}
