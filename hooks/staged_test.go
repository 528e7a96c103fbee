package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// commit-msg takes what pre-commit has found of the same index, and of no other: after
// any change of what the answer depends on it reads the index itself. The message is
// read in any case.
func TestStagedIsReadOnce(t *testing.T) {
	t.Parallel()
	const note, path = "every commit must be signed", "release-check/STATE.md"
	w := developer(t, gittest.Options{})
	c := w.clone
	signed := "version: 1\nrequire-signed: all\n"
	own(t, c, signed)
	c.Write(path, turn("release-check", "STATE", "Good.\n"))
	c.Run("add", path)
	message, kept := filepath.Join(c.Dir, ".git", "MESSAGE"), filepath.Join(c.Dir, ".git", "rigward", "staged")
	write(t, message, "Say it\n")
	notes := func() bool {
		t.Helper()
		res := rig(c, c.Dir, "", "commit-msg", message)
		must(t, res, 0)
		return strings.Contains(res.Stderr, note)
	}
	judge := func() string {
		t.Helper()
		must(t, rig(c, c.Dir, "", "pre-commit"), 0)
		data, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if !notes() {
		t.Fatal("without a kept answer the index is not read")
	}
	// Who sees that nothing has to be signed has taken the answer that was kept.
	unsigned := strings.Replace(judge(), "every commit", "", 1)
	put := func() { write(t, kept, unsigned) }
	if put(); notes() {
		t.Fatal("the kept answer is not taken")
	}
	for _, change := range []struct {
		name     string
		do, undo func()
	}{
		{"another index", func() { c.Write("more.txt", "x"); c.Run("add", "more.txt") }, func() { c.Run("rm", "-q", "--cached", "more.txt") }},
		{"an index elsewhere", func() {
			data, err := os.ReadFile(filepath.Join(c.Dir, ".git", "index"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(c.Dir, ".git", "other"), string(data))
			c.Setenv("GIT_INDEX_FILE", filepath.Join(c.Dir, ".git", "other"))
		}, func() { c.Setenv("GIT_INDEX_FILE", filepath.Join(c.Dir, ".git", "index")) }},
		{"another policy of the client", func() { own(t, c, signed+"# another one\n") }, func() { own(t, c, signed) }},
		{"another root of trust", func() {
			c.SetRef("refs/remotes/origin/main", c.Run("commit-tree", "-m", "x", "HEAD^{tree}"))
		},
			func() { c.SetRef("refs/remotes/origin/main", w.base) }},
		{"a policy that the configuration names", func() { c.Config("rigward.policy", "rigward.yaml") }, func() { c.Run("config", "--unset", "rigward.policy") }},
		{"a line that is cut off", func() { write(t, kept, strings.TrimSuffix(unsigned, "\n")) }, put},
		{"another form", func() { write(t, kept, "2"+unsigned[1:]) }, put},
		{"an answer of another clone", func() { write(t, kept, "1 "+strings.Repeat("0", 64)+" \n") }, put},
	} {
		change.do()
		if !notes() {
			t.Errorf("%s: the answer of before is taken", change.name)
		}
		change.undo()
	}
	judge()
	put()
	write(t, message, "Say it\U000e0041\n")
	must(t, rig(c, c.Dir, "", "commit-msg", message), 1, "[hidden-text]")
	// An index without a checksum of its own is read.
	c.Run("-c", "index.skipHash=true", "update-index", "--force-write-index")
	os.Remove(kept)
	must(t, rig(c, c.Dir, "", "pre-commit"), 0)
}

// What the commit has whose policy counts is read once, and known of that commit only,
// as long as what is known is whole.
func TestRootIsReadOnce(t *testing.T) {
	t.Parallel()
	w := developer(t, gittest.Options{})
	c := w.clone
	known := filepath.Join(c.Dir, ".git", "rigward", "root")
	ignored := func() bool {
		t.Helper()
		res := rig(c, c.Dir, "", "pre-commit")
		if res.Code > 1 || res.Code == 1 && !strings.Contains(res.Stderr, "[envelope-schema]") {
			t.Fatalf("exit %d: %s", res.Code, res.Stderr)
		}
		return res.Code == 0
	}
	// The policy of the remote's default branch says that a directory holds no envelopes.
	root := c.Commit("policy", map[string]string{".bridge/policy.yaml": "version: 1\nenvelopes:\n  ignore: [\"release-check/**\"]\n"})
	tree := c.Run("rev-parse", root+"^{tree}")
	c.SetRef("refs/remotes/origin/main", root)
	c.Add(map[string]string{"release-check/STATE.md": bad("release-check")})
	os.Remove(known)
	for range 2 { // read, and known
		if !ignored() {
			t.Fatal("the policy is not heeded")
		}
	}
	text, err := os.ReadFile(known)
	if err != nil || !strings.HasPrefix(string(text), "1 "+root+" "+tree+"\n") || !strings.Contains(string(text), c.Run("rev-parse", root+":.bridge/policy.yaml")+" \".bridge/policy.yaml\"\n") {
		t.Fatalf("%v, known is %q", err, text)
	}
	// Who sees no policy has taken what was known.
	none := "1 " + root + " " + tree + "\n0 - \".bridge/policy.yaml\"\nend\n"
	write(t, known, none)
	if ignored() {
		t.Fatal("what is known is not taken")
	}
	for name, text := range map[string]string{
		"of another commit": strings.Replace(none, root, w.base, 1),
		"cut off":           strings.TrimSuffix(none, "end\n"),
		"cut in a line":     none[:len(none)-len("\"\nend\n")],
		"more after it":     none + "\n",
		"no id":             strings.Replace(none, "0 - ", "0 x ", 1),
		"no mode":           strings.Replace(none, "0 - ", "9 - ", 1),
		"of another form":   "2" + none[1:],
		"nothing":           "",
	} {
		write(t, known, text)
		if !ignored() {
			t.Errorf("%s: it is taken", name)
		}
	}
	write(t, known, none)
	c.SetRef("refs/remotes/origin/main", c.Run("commit-tree", "-m", "Fetched", root+"^{tree}"))
	if !ignored() {
		t.Error("what is known of another commit is taken")
	}
}
