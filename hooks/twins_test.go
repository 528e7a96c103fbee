package hooks_test

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestTwinsOfGuardedRefs: where a file system takes one name for another, a push to
// refs/heads/MAIN is one to refs/heads/main, whatever git says that it is. So no ref
// beside a protected one may come to be that some file system takes for it, as no file
// beside a thread may (J06).
func TestTwinsOfGuardedRefs(t *testing.T) {
	formats(t, "twins", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.accepted(w.push("main:refs/heads/release/1"))
		w.policy("version: 1\nprotect: [main, \"release/*\", \"Fix/*\"]\nallow-refs: [\"refs/notes/**\"]\n")
		w.server.SetRef("refs/heads/Fix/it", w.base)
		zero := strings.Repeat("0", len(w.base))
		main := "refs/heads/main"
		for ref, other := range map[string]string{
			"refs/heads/MAIN": main, "refs/heads/Main": main, "refs/Heads/main": main, "refs/heads/ma\u200cin": main, "refs/heads/ｍain": main,
			"refs/heads/Release/1": "refs/heads/release/1", "refs/heads/fix/it": "refs/heads/Fix/it", "refs/heads/FIX/IT": "refs/heads/Fix/it",
		} {
			says := "take this ref for the protected " + other
			must(t, rig(w.server, w.server.Dir, zero+" "+w.base+" "+ref+"\n", "pre-receive"), 1, says)
		}
		w.refused(w.push("main:refs/heads/MAIN"), "fast-forward")
		for _, line := range []string{w.base + " " + zero, w.base + " " + w.base} { // as a client that says what it likes
			must(t, rig(w.server, w.server.Dir, line+" refs/heads/MAIN\n", "pre-receive"), 1, main)
			must(t, rig(w.server, w.server.Dir, "", append([]string{"update", "refs/heads/MAIN"}, strings.Fields(line)...)...), 1, main)
			must(t, rig(w.server, w.server.Dir, line+" refs/heads/MAIN\n", "check", "--stdin"), 1, main)
		}
		for _, ref := range []string{"refs/Replace/" + w.base, "refs/NOTES/x", "refs/Rigward/attestations"} {
			res := w.push("main:" + ref)
			if ref == "refs/NOTES/x" {
				w.accepted(res) // as allow-refs has it
			} else {
				w.refused(res, "other-refs")
			}
		}

		// Controls: other names, what was there before the rule, and the refs themselves.
		w.accepted(w.push("main:refs/heads/mainly", "main:refs/heads/Release", "main:refs/heads/release/2", "main:refs/heads/Other"))
		if res := w.server.Try(nil, "update-ref", "refs/heads/Main", w.base); res.Code == 0 { // the file system tells them apart
			w.clone.Commit("Something", map[string]string{"src/a": "a\n"})
			w.accepted(w.push("HEAD:refs/heads/Main", "HEAD:refs/heads/release/1", "HEAD:refs/heads/Fix/it", "HEAD:main"))
			w.accepted(w.push(":refs/heads/Main"))
		}

		// A clone says so before.
		hooked(t, w.clone)
		w.clone.Run("fetch", "-q", "origin")
		must(t, w.clone.Push("origin", "HEAD:refs/heads/MAIN"), 1, "take this ref for the protected "+main)
		must(t, w.clone.Push("origin", "HEAD:refs/heads/good"), 0)
	})
	formats(t, "where the default branch alone is protected", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.accepted(w.push("main:refs/heads/release/1", "main:refs/heads/Release/1"))
		w.refused(w.push("main:refs/heads/MAIN"), "fast-forward")
		w.policy("version: 1\nprotect: [\"**\"]\n")
		w.accepted(w.push("main:refs/heads/one"))
		w.refused(w.push("main:refs/heads/One"), "fast-forward")
		w.refused(w.push("main:refs/heads/two", "main:refs/heads/Two"), "fast-forward")
	})
}
