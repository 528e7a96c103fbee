package hooks_test

import (
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestPreCommitRootOfTrust: what is committed on a branch is judged by the policy
// of the remote's default branch, as at the server, and not by what the branch
// itself has in .bridge (J05).
func TestPreCommitRootOfTrust(t *testing.T) {
	t.Parallel()
	const policy = ".bridge/policy.yaml"
	ignoring := func(dir string) string { return "version: 1\nenvelopes:\n  ignore: [\"" + dir + "/**\"]\n" }
	staged := func(w *world, path string) gittest.Result {
		w.clone.Add(map[string]string{path: bad("release-check")})
		return w.clone.Try(nil, "commit", "-q", "-m", "x")
	}
	w := developer(t, gittest.Options{})
	c := w.clone
	main := c.Run("rev-parse", "HEAD")
	with := c.Commit("policy", map[string]string{policy: ignoring("release-check")})
	// Not even on the default branch, before the server has it.
	must(t, staged(w, "release-check/STATE.md"), 1, "[envelope-schema]")
	c.Run("reset", "-q", "--hard")
	c.SetRef("refs/remotes/origin/main", with)
	must(t, staged(w, "release-check/STATE.md"), 0)
	c.SetRef("refs/remotes/origin/main", main)
	c.Run("switch", "-q", "-c", "release", with)
	must(t, staged(w, "release-check/STATE-2.md"), 1, "[envelope-schema]")
	c.Run("reset", "-q", "--hard")
	// What the default branch allows is allowed on a branch without a policy.
	c.Run("switch", "-q", "-c", "older", main)
	c.SetRef("refs/remotes/origin/main", with)
	must(t, staged(w, "release-check/STATE.md"), 0)
	// Without a remote there is no other root than HEAD.
	c.Run("remote", "remove", "origin")
	must(t, staged(w, "release-check/STATE-2.md"), 1, "[envelope-schema]")
	c.Run("reset", "-q", "--hard")
	c.Run("switch", "-q", "release")
	must(t, staged(w, "release-check/STATE-2.md"), 0)
}
