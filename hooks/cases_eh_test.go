package hooks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestCasesE: what is in an envelope, as a server judges it.
func TestCasesE(t *testing.T) {
	t.Parallel()
	t.Run("contents", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		held := w.clone.FilesOf(w.base)
		good := turn("release-check", "STATE", "Fine.\n")
		with := func(line string) string { return strings.Replace(good, "thread:", line+"\nthread:", 1) }
		refs := func(item string) string { return with("references:\n  - " + item) }
		type content struct{ id, rule, says string }
		named, pushed := map[string]content{}, map[string]bool{}
		var lines strings.Builder
		for _, c := range []struct{ id, path, text, rule, says string }{
			{"E01 an id that is a number", "", refs("1234567"), "envelope-schema", `- "1234567"`},
			{"E01 infinite", "", refs("61e9540"), "envelope-schema", `- "61e9540"`},
			{"E01 a float", "", refs("12345e1"), "envelope-schema", `- "12345e1"`},
			{"E01 a leading zero", "", refs("0123456"), "envelope-schema", `- "0123456"`},
			{"E03 an alias", "", with("tldr: &a x\ndisplay_name: *a"), "envelope-parse", ""},
			{"E03 a merge key", "", with("<<: {tldr: x}"), "envelope-parse", ""},
			{"E03 a tag", "", with("tldr: !!str x"), "envelope-parse", ""},
			{"E04 duplicate keys", "", with("from: rig-b"), "envelope-parse", "line"},
			{"E07 the emoji selector", "", strings.Replace(good, "▶", "▶\ufe0f", 1), "envelope-schema", "U+FE0F"},
			{"E09 no such month", "", strings.Replace(good, "2026-01-05", "2026-13-05", 1), "envelope-date", ""},
			{"E10 invalid UTF-8", "", strings.Replace(good, "Fine.", "a\xf0\x9f\xffb\xc3", 1), "envelope-parse", ""},
			{"E13 a device", "release-check/con.md", good, "envelope-path", ""},
			{"E13 a colon", "release-check/a:b.md", good, "envelope-path", ""},
			{"E13 a trailing blank", "release-check/x.md ", good, "", ""}, // no envelope path: nobody's business
			{"E16 another body", "", strings.Replace(good, "Fine.", "Bad.", 1), "body-hash", "body_hash: "},
			{"E02 a date alone", "", good, "", ""},
			{"E01 quoted", "", refs(`"1234567"`), "", ""},
		} {
			path := c.path
			if path == "" {
				path = "release-check/STATE.md"
			}
			files := maps.Clone(held)
			gittest.Put(files, path, gittest.File{Mode: "100644", ID: w.clone.Blob(c.text)})
			tip := w.clone.CommitTree(w.clone.Files(files), "x", w.base)
			ref := fmt.Sprint("refs/heads/content-", len(named))
			w.server.SetRef(ref, w.base)
			lines.WriteString(w.base + " " + tip + " " + ref + "\n")
			named[tip] = content{c.id, c.rule, c.says}
			// The first of each rule is pushed.
			if pushed[c.rule] {
				continue
			}
			pushed[c.rule] = true
			if c.rule == "" {
				w.accepted(w.push(tip + ":refs/heads/main"))
				w.server.SetRef("refs/heads/main", w.base)
			} else {
				res := w.push(tip + ":refs/heads/main")
				w.refused(res, c.rule)
				if !strings.Contains(unwrapped(res.Stderr), c.says) {
					t.Errorf("%s: nothing says %q:\n%s", c.id, c.says, res.Stderr)
				}
			}
		}
		// All of them go through the same hook at once.
		w.copyObjects()
		w.policy("version: 1\nprotect: [\"refs/heads/*\"]\n")
		res := rig(w.server, w.server.Dir, lines.String(), "pre-receive", "--format", "json")
		var said struct {
			Findings []struct {
				Rule, Severity, Commit, Message, Hint string
				Line                                  int
			}
		}
		if err := json.Unmarshal([]byte(res.Stdout), &said); err != nil || res.Code != 1 {
			t.Fatalf("exit %d, %v\n%s%s", res.Code, err, res.Stdout, res.Stderr)
		}
		found := map[string]string{}
		for _, f := range said.Findings {
			if f.Severity == "error" {
				found[f.Commit] += fmt.Sprintf("[%s] line %d: %s; hint: %s\n", f.Rule, f.Line, f.Message, f.Hint)
			}
		}
		for tip, c := range named {
			if got := found[tip]; c.rule == "" && got != "" || c.rule != "" && !strings.Contains(got, "["+c.rule+"]") || !strings.Contains(got, c.says) {
				t.Errorf("%s: %q, expected %q and %q", c.id, got, c.rule, c.says)
			}
		}
	})

	formats(t, "E11 hashes are of blobs, whatever the checkout", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		c := w.clone
		for _, conf := range []string{"true", "input", "false"} {
			c.Config("core.autocrlf", conf)
			c.Write(".gitattributes", "*.md text eol=crlf\n")
			c.Run("checkout", "-q", "-f", "HEAD", "--", ".")
			must(t, rig(c, c.Dir, "", "pre-commit", request), 0)
		}
		c.Config("core.autocrlf", "true")
		text := strings.ReplaceAll(turn("release-check", "STATE", "Two\nlines.\n"), "\n", "\r\n")
		c.Commit("CRLF", map[string]string{"release-check/STATE.md": text})
		if got := c.Run("cat-file", "blob", "HEAD:release-check/STATE.md"); strings.Contains(got, "\r") {
			t.Fatal("the blob has CR")
		}
		w.accepted(w.push("main"))
	})

	everyFormat(t, "E14 only regular files", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		held := w.clone.FilesOf(w.base)
		push := func(path, mode, id string) gittest.Result {
			files := maps.Clone(held)
			gittest.Put(files, path, gittest.File{Mode: mode, ID: id})
			return w.push(w.clone.CommitTree(w.clone.Files(files), "x", w.base) + ":refs/heads/main")
		}
		target := w.clone.Blob("/etc/passwd")
		text := w.clone.Blob(turn("release-check", "STATE", "x\n"))
		for mode, id := range map[string]string{"120000": target, "160000": w.base, "100755": text} {
			w.refused(push("release-check/STATE.md", mode, id), "envelope-path")
			// An accepted one that is retyped.
			if mode == "100755" {
				id = held[request].ID
			}
			w.refused(push(request, mode, id), "append-only")
		}
		// A thread that becomes a link or a submodule.
		for mode, id := range map[string]string{"120000": target, "160000": w.base} {
			w.refused(push("release-check", mode, id), "append-only")
		}
	})

	formats(t, "E14 twins of an accepted path", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		held := w.clone.FilesOf(w.base)
		text := w.clone.Blob(turn("release-check", "STATE", "x\n"))
		for _, path := range []string{"release-check/request.md", "release-check/Request.md", "Release-Check/REQUEST.md", "release-check/REQUEST.MD"} {
			files := maps.Clone(held)
			files[path] = gittest.File{Mode: "100644", ID: text}
			w.refused(w.push(w.clone.CommitTree(w.clone.Files(files), "x", w.base)+":refs/heads/main"), "envelope-path")
		}
	})

	t.Run("E17 an answer to what is out of sight", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, gittest.Options{})
		for i := range 2 {
			w.clone.Commit("On", state(i))
		}
		w.accepted(w.push("main"))
		c := w.server.Clone("--depth=1")
		reply := turnBy("rig-b", "release-check", "HANDOFF", "Yes.\n", hashOf("Never said.\n"))
		c.Commit("Answer", map[string]string{"release-check/HANDOFF.md": reply})
		// Cut is not missing: no warning in the cut clone, one at the server.
		res := rig(c, c.Dir, "", "check", "HEAD~1..HEAD")
		must(t, res, 0)
		if strings.Contains(res.Stdout, "[references]") {
			t.Error(res.Stdout)
		}
		res = c.Push("--no-verify", "origin", "main")
		must(t, res, 0, "[references]")
	})

	formats(t, "E18 what is earlier", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		answer := func(n int, reply, body string) map[string]string {
			return map[string]string{fmt.Sprintf("release-check/H%d.md", n): turnBy("rig-b", "release-check", "HANDOFF", body, reply)}
		}
		warned := func(name string, want bool) {
			t.Helper()
			res := w.push("main")
			w.accepted(res)
			if got := strings.Contains(res.Stderr, "[references]"); got != want {
				t.Errorf("%s: warned is %v\n%s", name, got, res.Stderr)
			}
			w.server.SetRef("refs/heads/main", w.base)
			w.again()
		}
		w.clone.Commit("One", answer(1, hashOf("Is the release ready?\n"), "A\n"))
		w.clone.Commit("Two", answer(2, hashOf("A\n"), "B\n"))
		warned("in an earlier commit of the same push", false)
		w.clone.Commit("One", answer(1, hashOf("B\n"), "A\n"))
		w.clone.Commit("Two", answer(2, hashOf("Is the release ready?\n"), "B\n"))
		warned("in a later commit", true)
		files := answer(1, hashOf("B\n"), "A\n")
		for k, v := range answer(2, "", "B\n") {
			files[k] = v
		}
		w.clone.Commit("Both", files)
		warned("in the same commit", true)
		w.clone.Commit("Itself", answer(1, hashOf("A\n"), "A\n"))
		warned("itself", true)
		w.clone.Run("checkout", "-q", "-B", "side", w.base)
		w.clone.Commit("Side", answer(1, "", "A\n"))
		w.clone.Run("checkout", "-q", "main")
		w.clone.Commit("Main", answer(2, hashOf("A\n"), "B\n"))
		w.clone.Run("merge", "-q", "-m", "Merge", "side")
		warned("in a side branch that is merged later", true)
		w.clone.Run("checkout", "-q", "main")
		w.clone.Commit("Main", state(1))
		w.clone.Run("merge", "-q", "-m", "Merge", "side")
		w.clone.Commit("Then", answer(2, hashOf("A\n"), "B\n"))
		warned("in a side branch that was merged before", false)
		w.clone.Commit("Twin", map[string]string{"release-check/T.md": turnBy("rig-c", "release-check", "STATE", "Is the release ready?\n", "")})
		w.clone.Commit("One", answer(1, hashOf("Is the release ready?\n"), "A\n"))
		warned("a hash that occurs twice", false)
	})
}

// TestCasesH: formats of repositories, and odd trees.
func TestCasesH(t *testing.T) {
	t.Parallel()
	everyFormat(t, "H01 H05 odd clones", func(t *testing.T, o gittest.Options) {
		w := newWorld(t, o)
		w.server.Config("uploadpack.allowFilter", "true")
		judge := func(name string, c *gittest.Repo) {
			t.Helper()
			hooked(t, c)
			c.Commit("Good", state(1))
			c.Add(map[string]string{"release-check/B.md": bad("release-check")})
			res := c.Try(nil, "commit", "-q", "-m", "x")
			if res.Code != 1 || !strings.Contains(res.Stderr, "[envelope-schema]") {
				t.Errorf("%s: exit %d\n%s", name, res.Code, res.Stderr)
			}
			c.Run("commit", "-q", "--no-verify", "-m", "x")
			res = c.Push("origin", "HEAD:main")
			if res.Code != 1 || !strings.Contains(res.Stderr, "[envelope-schema]") {
				t.Errorf("%s: exit %d\n%s", name, res.Code, res.Stderr)
			}
		}
		c := w.server.Clone()
		c.Config("extensions.worktreeConfig", "true")
		c.Run("sparse-checkout", "set", "release-check")
		c.Run("update-index", "--split-index")
		c.Run("update-index", "--untracked-cache")
		c.Config("core.fsmonitor", "/nonexistent/monitor")
		judge("sparse, split index, worktree configuration, fsmonitor", c)
		judge("partial", w.server.Clone("--filter=blob:none"))
		borrowed := filepath.Join(gittest.TempDir(t), "borrowed")
		w.clone.Run("clone", "-q", "--shared", w.server.Dir, borrowed)
		b := *w.clone
		b.Dir = borrowed
		judge("alternates", &b)
	})

	formats(t, "H05 a dirty submodule", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		sub := gittest.New(t, o)
		sub.Commit("Sub", map[string]string{"f": "1\n"})
		w.clone.Run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.Dir, "sub")
		w.clone.Commit("Sub", state(1))
		w.clone.Write("sub/f", "dirty\n")
		w.clone.Commit("On", state(2))
		w.accepted(w.push("main"))
		// Hooks of the submodule itself.
		in := *w.clone
		in.Dir = filepath.Join(w.clone.Dir, "sub")
		hooked(t, &in)
		in.Add(map[string]string{"some-talk/REQUEST.md": bad("some-talk")})
		must(t, in.Try(nil, "commit", "-q", "-m", "x"), 1, "[envelope-schema]")
	})

	formats(t, "H06 rebase, cherry-pick and am", func(t *testing.T, o gittest.Options) {
		w := developer(t, o)
		c := w.clone
		c.Run("checkout", "-q", "-b", "topic")
		for i := range 3 {
			c.Commit("On", state(i))
		}
		c.Run("checkout", "-q", "-b", "onto", w.base)
		onto := c.Commit("Base", map[string]string{"x.txt": "x\n"})
		c.Run("checkout", "-q", "topic")
		for _, args := range [][]string{{"rebase", "-q", "onto"}, {"rebase", "-q", "--force-rebase", "--exec", "git commit --amend --no-edit -q", "onto"}} {
			res := c.Try(nil, args...)
			must(t, res, 0)
			if strings.Contains(res.Stdout+res.Stderr, "note:") {
				t.Errorf("not silent:\n%s%s", res.Stdout, res.Stderr)
			}
		}
		patch := c.Run("format-patch", "--stdout", onto+"..topic") + "\n"
		c.Run("checkout", "-q", "-b", "again", onto)
		must(t, c.Try([]byte(patch), "am", "-q"), 0)
		c.Run("checkout", "-q", "-b", "picked", onto)
		must(t, c.Try(nil, "cherry-pick", onto+"..topic"), 0)
		w.accepted(w.push("picked:main"))
		if _, err := os.Stat(filepath.Join(c.Dir, ".git", "rebase-merge")); err == nil {
			t.Error("a rebase is left in progress")
		}
	})
}
