package hooks_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestRefsOfNoCommit: what refs point at that nobody judged is anybody's choice. A tag of
// something large must not stop the pushes, the commits and the lists of all others once
// refs of its name are protected; and no such ref may come to a protected name.
func TestRefsOfNoCommit(t *testing.T) {
	formats(t, "free refs that become protected", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		large := strings.Repeat("x", 5<<20) // more than is read of a commit
		head := w.clone.Ref("HEAD")
		tag := func(of, typ, text string) string {
			return w.clone.WriteObject("tag", []byte("object "+of+"\ntype "+typ+"\ntag x\ntagger A <a@b> 1700000000 +0000\n\n"+text+"\n"))
		}
		blob := w.clone.Blob(large)
		deep := head
		for range 12 {
			deep = tag(deep, map[bool]string{true: "commit", false: "tag"}[deep == head], "One more")
		}
		refs := map[string]string{
			"blob": w.clone.Blob("x"), "large-blob": blob, "tag-of-blob": tag(blob, "blob", "A key"), "tree": w.clone.Run("rev-parse", "HEAD^{tree}"),
			"deep": deep, "large-tag": tag(head, "commit", large),
		}
		var all []string
		for name, id := range refs {
			all = append(all, id+":refs/tags/"+name)
		}
		w.accepted(w.push(all...))
		w.policy("version: 1\nprotect: [main, \"release/*\", \"refs/tags/*\"]\nrelay: {nonce-scope: refs}\n")

		w.clone.Commit("Answer", map[string]string{"release-check/ACK.md": turn("release-check", "ACK", "Yes\n")})
		w.accepted(w.push("HEAD:refs/heads/release/1", "main"))
		must(t, rig(w.server, w.server.Dir, "", "explain", "--guarded"), 0, "guarded refs/tags/large-blob")

		for name, id := range refs {
			if name == "large-tag" {
				w.accepted(w.push(id + ":refs/tags/again")) // it stands for a commit that was judged
				continue
			}
			line := strings.Repeat("0", len(id)) + " " + id + " refs/heads/release/" + name + "\n"
			must(t, rig(w.server, w.server.Dir, line, "pre-receive"), 2, "cannot decide")
		}

		// A clone that follows tags, on a branch without an upstream.
		hooked(t, w.clone)
		w.clone.Run("config", "--add", "remote.origin.fetch", "+refs/tags/*:refs/remotes/origin/tags/*")
		w.clone.Run("fetch", "-q", "origin")
		w.clone.Run("checkout", "-q", "--no-track", "-b", "other")
		w.clone.Run("rm", "-q", "release-check/ACK.md")
		must(t, w.clone.Try(nil, "commit", "-q", "-m", "Take it back"), 1, "[append-only]")
		w.clone.Run("reset", "-q", "--hard")
		w.clone.Write("README.md", "# Somebody's\n")
		w.clone.Run("commit", "-q", "-a", "-m", "A lawful change")
		must(t, rig(w.clone, filepath.Join(w.clone.Dir), "", "check", "--all"), 0)
	})
}
