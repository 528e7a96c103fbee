package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// bad is an envelope that the schema refuses.
func bad(thread string) string {
	return strings.Replace(turn(thread, "STATE", "Bad.\n"), "type: STATE", "type: ORDER", 1)
}

// TestCasesB: which commits are new.
func TestCasesB(t *testing.T) {
	t.Parallel()
	formats(t, "B01 a ref is deleted", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.accepted(w.push("main:refs/heads/other"))
		hooked(t, w.clone)
		w.clone.Run("fetch", "-q", "origin")
		// In the clone git says "(delete)"; at the server the new id is zero.
		if res := w.clone.Push("origin", ":other"); res.Code != 0 {
			t.Fatalf("an unprotected branch could not be deleted:\n%s", res.Stderr)
		}
		res := w.clone.Push("origin", ":main")
		must(t, res, 1, "[fast-forward]", "a protected ref is deleted", "git symbolic-ref HEAD")
		w.server.Config("receive.denyDeleteCurrent", "ignore")
		w.refused(w.push(":main"), "fast-forward")
	})

	formats(t, "B02 every ref of a push", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.server.Config("receive.denyDeleteCurrent", "ignore")
		w.policy("version: 1\nprotect: [main, 'team/**']\n")
		w.accepted(w.push("main:old"))
		w.clone.Run("checkout", "-q", "-b", "good")
		w.clone.Commit("Good", map[string]string{"release-check/STATE.md": turn("release-check", "STATE", "Good.\n")})
		w.clone.Run("checkout", "-q", "-b", "bad", w.base)
		w.clone.Commit("Bad", map[string]string{"release-check/STATE.md": bad("release-check")})
		w.clone.Run("tag", "v1", "bad")
		for _, refs := range [][]string{
			{":old", "good:main", "bad:team/b"},
			{":old", "bad:main", "good:team/b"},
			{"bad:team/a", "good:main", "good:team/b"},
			{"good:team/a", "good:team/b", "bad:main"},
			{":old", "good:team/a", "bad:team/b"},
		} {
			w.refused(w.push(refs...), "envelope-schema")
			if got := w.server.Run("for-each-ref", "--format=%(refname)"); got != "refs/heads/main\nrefs/heads/old" {
				t.Fatalf("%v: refs are %q", refs, got)
			}
		}
		w.accepted(w.push(":old", "good:main", "good:team/a"))
		// The client's hook, too, reads every line.
		hooked(t, w.clone)
		w.clone.Run("fetch", "-q", "--prune", "origin")
		own(t, w.clone, "version: 1\nprotect: ['**']\n")
		for _, refs := range [][]string{{":team/a", "bad:x"}, {"bad:x", ":team/a"}, {"good:y", "bad:x", "good:z"}} {
			must(t, w.clone.Push(append([]string{"origin"}, refs...)...), 1, "[envelope-schema]")
		}
	})

	everyFormat(t, "B03 the zero id has the length of the repository's ids", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		hooked(t, w.clone)
		w.clone.Run("fetch", "-q", "origin")
		w.clone.Run("branch", "--set-upstream-to=origin/main")
		for _, step := range [][]string{{"main:refs/heads/side"}, {"+main:refs/heads/side"}, {":refs/heads/side"}} {
			if res := w.clone.Push(append([]string{"origin"}, step...)...); res.Code != 0 {
				t.Fatalf("%v:\n%s", step, res.Stderr)
			}
		}
		other := strings.Repeat("0", 64)
		if o.ObjectFormat == "sha256" {
			other = strings.Repeat("0", 40)
		}
		must(t, rig(w.server, w.server.Dir, fmt.Sprintf("%s %s refs/heads/main\n", other, w.base), "pre-receive"), 2, "standard input")
	})

	formats(t, "B05 a new branch without an upstream", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		// The clone has one branch only, and is behind.
		c := w.server.Clone("--single-branch", "--branch=main")
		hooked(t, c)
		own(t, c, "version: 1\nprotect: ['**']\n")
		w.clone.Commit("Go on", map[string]string{"release-check/STATE.md": turn("release-check", "STATE", "Later.\n")})
		w.accepted(w.push("main"))
		c.Run("checkout", "-q", "-b", "topic")
		c.Commit("Good", map[string]string{"other-talk/REQUEST.md": turn("other-talk", "REQUEST", "Good.\n")})
		if res := c.Push("origin", "topic"); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
		// Nothing is known of a remote given by its address: all is judged.
		d := gittest.New(t, o)
		hooked(t, d)
		d.Commit("Bad", map[string]string{"one-talk/STATE.md": bad("one-talk")}, "--no-verify")
		d.Commit("Good", map[string]string{"two-talk/REQUEST.md": turn("two-talk", "REQUEST", "Good.\n")})
		must(t, d.Push("file://"+w.server.Dir, "main:refs/heads/main2"), 1, "[envelope-schema]")
	})

	formats(t, "B06 a hook manager keeps the ref lines", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		c := w.server.Clone()
		good := c.Commit("Good", map[string]string{"release-check/STATE.md": turn("release-check", "STATE", "Good.\n")})
		tip := c.Commit("Bad", map[string]string{"release-check/STATE-2.md": bad("release-check")})
		address := "file://" + w.server.Dir
		// The manager read standard input and gives none.
		must(t, rig(c, c.Dir, "", "pre-push", "origin", address), 1, "[envelope-schema]", "judged the branch against its upstream refs/remotes/origin/main")
		// pre-commit and prek say it in variables, for one ref.
		c.Env = append(c.Env, "PRE_COMMIT=1", "PRE_COMMIT_FROM_REF="+w.base, "PRE_COMMIT_TO_REF="+tip, "PRE_COMMIT_REMOTE_NAME=origin", "PRE_COMMIT_REMOTE_BRANCH=refs/heads/main")
		must(t, rig(c, c.Dir, "", "pre-push", "origin", address), 1, "[envelope-schema]", "PRE_COMMIT_FROM_REF")
		c.Setenv("PRE_COMMIT_TO_REF", good)
		must(t, rig(c, c.Dir, "", "pre-push"), 0, "PRE_COMMIT_FROM_REF")
		for _, v := range []string{"PRE_COMMIT", "PRE_COMMIT_FROM_REF", "PRE_COMMIT_TO_REF", "PRE_COMMIT_REMOTE_NAME", "PRE_COMMIT_REMOTE_BRANCH"} {
			c.Unsetenv(v)
		}
		// No upstream: against all that is known of the remote.
		c.Run("branch", "--unset-upstream")
		must(t, rig(c, c.Dir, "", "pre-push", "origin", address), 1, "[envelope-schema]", "judged the branch against what is known of the remote")
		// Nothing to push is not a finding, even when the branch is behind.
		c.Run("branch", "--set-upstream-to=origin/main")
		c.Run("reset", "-q", "--hard", w.base)
		must(t, rig(c, c.Dir, "", "pre-push", "origin", address), 0)
		w.clone.Commit("Go on", map[string]string{"release-check/STATE.md": turn("release-check", "STATE", "Later.\n")})
		w.accepted(w.push("main"))
		c.Run("fetch", "-q")
		must(t, rig(c, c.Dir, "", "pre-push", "origin", address), 0)
		// A chained foreign hook that eats its input leaves ours its own.
		hook := "#!/bin/sh\ncat >/dev/null\n"
		c.Hook("pre-push", hook)
		hooked(t, c)
		c.Run("reset", "-q", "--hard", tip)
		must(t, c.Push("--force", "origin", "main"), 1, "[envelope-schema]")
	})

	t.Run("B07 a shallow clone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		w.clone.Run("checkout", "-q", "-b", "topic")
		for i := range 3 {
			w.clone.Commit("Bad", map[string]string{fmt.Sprintf("release-check/S%d.md", i): bad("release-check")})
		}
		w.clone.Commit("Good", map[string]string{"release-check/STATE.md": turn("release-check", "STATE", "Good.\n")})
		w.accepted(w.push("topic"))
		c := w.server.Clone("--depth=1", "--no-single-branch")
		must(t, rig(c, c.Dir, "", "check", "origin/main..origin/topic"), 2, "history is cut", "fetch-depth: 0")
		must(t, rig(c, c.Dir, "", "check", "origin/main...origin/topic"), 2)
		c.Run("checkout", "-q", "topic")
		must(t, rig(c, c.Dir, "", "check", "--all"), 2, "cut")
		// With all of it the same command finds them.
		c.Run("fetch", "-q", "--unshallow")
		must(t, rig(c, c.Dir, "", "check", "origin/main..origin/topic"), 1, "3 errors", "4 commits")
	})

	t.Run("B08 a full clone, grafted by a later shallow fetch", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		c := w.server.Clone()
		c.Run("checkout", "-q", "-b", "topic")
		c.Commit("Good", map[string]string{"release-check/STATE.md": turn("release-check", "STATE", "Good.\n")})
		for i := range 3 {
			w.clone.Commit("On", map[string]string{fmt.Sprintf("release-check/M%d.md", i): turn("release-check", "STATE", fmt.Sprint(i, "\n"))})
		}
		w.accepted(w.push("main"))
		c.Run("fetch", "-q", "--depth=1", "origin", "main")
		must(t, rig(c, c.Dir, "", "check", "origin/main..topic"), 2, "cut")
	})

	formats(t, "B09 a stray shallow file", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		first := w.clone.Commit("One", map[string]string{"release-check/S1.md": turn("release-check", "STATE", "1\n")})
		w.clone.Commit("Two", map[string]string{"release-check/S2.md": turn("release-check", "STATE", "2\n")})
		if err := os.WriteFile(filepath.Join(w.clone.Dir, ".git", "shallow"), []byte(w.base+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		must(t, rig(w.clone, w.clone.Dir, "", "check", first+"..HEAD"), 0, "1 commit")
	})

	formats(t, "B14 merges are walked on all sides", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.clone.Run("checkout", "-q", "-b", "side")
		w.clone.Commit("Bad 1", map[string]string{"release-check/S1.md": bad("release-check")})
		w.clone.Commit("Bad 2", map[string]string{"release-check/S2.md": bad("release-check")})
		w.clone.Run("checkout", "-q", "main")
		w.clone.Run("merge", "-q", "--no-ff", "-m", "Merge", "side")
		w.refused(w.push("main"), "envelope-schema")
		must(t, rig(w.clone, w.clone.Dir, "", "check", w.base+"..HEAD"), 1, "2 errors", "3 commits")
	})

	everyFormat(t, "B15 by way of an unprotected branch", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.clone.Commit("Bad", map[string]string{"release-check/S1.md": bad("release-check")})
		w.accepted(w.push("main:scratch"))
		w.refused(w.push("main"), "envelope-schema")
		// A new protected ref, too, is judged against protected ones only.
		w.policy("version: 1\nprotect: [main, release]\n")
		w.refused(w.push("main:release"), "envelope-schema")
	})

	formats(t, "B17 tampered and restored", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		good := turn("release-check", "REQUEST", "Is the release ready?\n")
		w.clone.Commit("Tamper", map[string]string{request: turn("release-check", "REQUEST", "Ship it.\n")})
		w.clone.Commit("Restore", map[string]string{request: good})
		if w.clone.Run("diff", "--stat", w.base, "HEAD") != "" {
			t.Fatal("the tips differ")
		}
		w.refused(w.push("main"), "append-only")
		w.again()
		// Deleted and brought back, and moved and brought back.
		w.clone.Run("rm", "-q", request)
		w.clone.Commit("Delete", nil)
		w.clone.Commit("Restore", map[string]string{request: good})
		w.refused(w.push("main"), "append-only")
		w.again()
		w.clone.Run("mv", request, "release-check/OTHER.md")
		w.clone.Commit("Move", nil)
		res := w.push("main")
		w.refused(res, "append-only")
		if !strings.Contains(unwrapped(res.Stderr), `moved to "release-check/OTHER.md"`) {
			t.Error(res.Stderr)
		}
	})

	formats(t, "B18 an edit in the merge commit alone", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.clone.Run("checkout", "-q", "-b", "side")
		w.clone.Commit("Side", map[string]string{"side-talk/REQUEST.md": turn("side-talk", "REQUEST", "Hello.\n")})
		w.clone.Run("checkout", "-q", "main")
		w.clone.Commit("Main", map[string]string{"release-check/S1.md": turn("release-check", "STATE", "1\n")})
		w.clone.Run("merge", "-q", "--no-ff", "--no-commit", "side")
		w.clone.Commit("Merge", map[string]string{request: turn("release-check", "REQUEST", "Ship it.\n")})
		w.refused(w.push("main"), "append-only")
		// Also as a merge with the ours strategy that drops a side's envelope.
		w.again()
		w.clone.Commit("Main", map[string]string{"release-check/S1.md": turn("release-check", "STATE", "1\n")})
		w.clone.Run("merge", "-q", "-s", "ours", "-m", "Drop", "side")
		w.refused(w.push("main"), "append-only")
		// The honest merge passes.
		w.again()
		w.clone.Commit("Main", map[string]string{"release-check/S1.md": turn("release-check", "STATE", "1\n")})
		w.clone.Run("merge", "-q", "--no-ff", "-m", "Merge", "side")
		w.accepted(w.push("main"))
	})

	t.Run("B22 refs that are not needed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		// A broken ref beside, and a shallow history that is not asked for.
		name := filepath.Join(w.clone.Dir, ".git", "refs", "heads", "broken")
		if err := os.WriteFile(name, []byte(strings.Repeat("1", 40)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		w.clone.Commit("Good", map[string]string{"release-check/S1.md": turn("release-check", "STATE", "1\n")})
		must(t, rig(w.clone, w.clone.Dir, "", "check", w.base+"..HEAD"), 0)
		must(t, rig(w.clone, w.clone.Dir, fmt.Sprintf("%s %s refs/heads/main\n", w.base, w.clone.Ref("HEAD")), "pre-receive"), 0)
	})

	formats(t, "B23 no common history", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.clone.Run("checkout", "-q", "--orphan", "alien")
		w.clone.Commit("Root", map[string]string{"release-check/S1.md": turn("release-check", "STATE", "1\n")})
		must(t, rig(w.clone, w.clone.Dir, "", "check", "main...alien"), 2, "no common history")
		must(t, rig(w.clone, w.clone.Dir, "", "check", "main..nothing-of-this-name"), 2)
		w.refused(w.push("+alien:main"), "fast-forward")
		// A merge that brings a second root is none, either.
		w.clone.Run("checkout", "-q", "-f", "main")
		w.clone.Run("merge", "-q", "--allow-unrelated-histories", "-m", "Join", "alien")
		w.refused(w.push("main"), "fast-forward")
	})
}
