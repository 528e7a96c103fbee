package attest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
)

// bridge runs rig-bridge in a clone.
func (g *gated) bridge(t *testing.T, clone *gittest.Repo, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(filepath.Dir(g.hook), "rig-bridge"), args...)
	cmd.Dir, cmd.Env = clone.Dir, clone.Env
	out, _ := cmd.CombinedOutput() // its code says more
	return string(out), cmd.ProcessState.ExitCode()
}

// send lets a rig send a message in a thread of its own.
func (g *gated) send(t *testing.T, clone *gittest.Repo, thread string) {
	t.Helper()
	for _, args := range [][]string{{"sync", "--auto"}, {"new", thread}, {"send", "REQUEST", "--thread", thread, "--to", "rig-b", "--tldr", "Said"}} {
		if args[0] == "send" {
			path := filepath.Join(clone.Dir, thread, "REQUEST.md")
			data, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, append(data, "Is it ready?\n"...), 0o644))
		}
		if out, code := g.bridge(t, clone, args...); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, out)
		}
	}
	g.signed(t)
}

// TestLyingServer shows rigs, with the real programs, another history than the one
// that they, a witness or each other have seen; and moves the server, which is no lie.
func TestLyingServer(t *testing.T) {
	t.Parallel()
	g := newGated(t, "version: 1\n")
	g.signed(t)
	rig := func(name string) *gittest.Repo {
		c := g.Clone()
		c.Env = g.Env
		c.Run("config", "rigward.attestFollow", "true")
		c.Run("config", "rigward.attestTrust", g.pub)
		if out, code := g.bridge(t, c, "init", "--rig-id", name); code != 0 {
			t.Fatal(out)
		}
		return c
	}
	copied := func(name string) string {
		dir := filepath.Join(gittest.TempDir(t), name)
		must(t, os.CopyFS(dir, os.DirFS(g.Dir)))
		must(t, os.Chmod(filepath.Join(dir, "attest_key"), 0o600))
		return dir
	}
	says := func(c *gittest.Repo, server, text string) {
		t.Helper()
		if server != "" {
			c.Run("remote", "set-url", "origin", server)
		}
		out, code := g.bridge(t, c, "sync")
		if (code == 0) != (text == "") || !strings.Contains(out, text) {
			t.Errorf("sync: exit %d, expected %q: %s", code, text, out)
		}
	}
	a, b, late := rig("rig-a"), rig("rig-b"), rig("rig-c")
	g.send(t, a, "first")
	says(b, "", "")
	old := copied("old.git")
	g.send(t, a, "second")
	g.send(t, a, "third")
	message := a.Run("log", "-1", "--format=%B")
	if !strings.Contains(message, "\n"+trailer+"3 ") {
		t.Errorf("the message says nothing of what was seen: %s", message)
	}
	says(a, "", "")

	// The server moves, with all it has.
	moved := copied("moved.git")
	says(a, moved, "")
	// It shows an older state to who has seen a newer one; and nothing at all.
	says(a, old, "it was rolled back, or is withheld")
	empty := copied("empty.git")
	bare := *g.Repo
	bare.Dir = empty
	bare.Run("update-ref", "-d", Ref)
	says(a, empty, "there are no attestations any more")
	says(late, empty, "there are none")
	// Each hint leads out.
	says(a, empty, "hint: ask who looks after the server, and do not pull; rig-hook attest verify tells more")
	says(late, empty, "hint: on the server: rig-hook attest sign; or git config rigward.attestFollow false")
	late.Run("config", "--unset", "rigward.attestTrust")
	says(late, g.Dir, "hint: git config rigward.attestTrust FILE")
	late.Run("config", "rigward.attestTrust", g.pub)
	// What was refused is not remembered.
	says(a, g.Dir, "")

	// It begins a second history, with its own key, from what rig-b has seen.
	fork := *g
	fork.Repo = &bare
	fork.Dir = old
	other := rig("rig-d")
	other.Run("remote", "set-url", "origin", old)
	other.Run("fetch", "-q", "origin")
	other.Run("reset", "-q", "--hard", "origin/main")
	fork.send(t, other, "fourth")
	fork.send(t, other, "fifth")
	says(a, old, "there are two histories")
	// rig-b has seen neither, and cannot know: until a witness has.
	alone := b.Run("rev-parse", "refs/remotes/origin/main")
	says(b, old, "")
	w := g.Clone()
	w.Env = g.Env
	w.Run("config", "rigward.attestTrust", g.pub)
	w.Run("fetch", "-q", "origin", fetchIt)
	key, note := filepath.Join(w.Home, "witness"), filepath.Join(w.Home, "note")
	must(t, os.WriteFile(key, testkeys.Ed25519("witness").PEM(), 0o600))
	vkey, code := g.rig(t, w.Dir, "witness", "--name", "example.com/w", "--sign", key, "--out", note)
	if code != 0 {
		t.Fatal(vkey)
	}
	watch := strings.TrimSpace(vkey) + " " + note
	b.Run("config", "rigward.witness", watch)
	says(b, "", "the witness \"example.com/w\": it saw another statement")
	w.Run("fetch", "-q", old, fetchIt)
	if out, code := g.rig(t, w.Dir, "witness", "--name", "example.com/w", "--sign", key); code != 1 || !strings.Contains(out, "there are two histories") {
		t.Errorf("the witness: exit %d: %s", code, out)
	}
	late.Run("config", "rigward.witness", watch) // control: the true one
	says(late, g.Dir, "")
	g.says(t, w.Dir, 1, "which no statement names", "--key", g.pub)
	// Or until it gets a message of somebody who has.
	c := rig("rig-e")
	c.Run("remote", "set-url", "origin", old)
	c.Run("update-ref", "refs/remotes/origin/main", alone)
	c.Run("reset", "-q", "--hard", alone)
	says(c, "", "")
	o, code := g.bridge(t, c, "sync", "--auto")
	if code != 0 {
		t.Fatal(o)
	}
	other.Now = time.Now().Unix() // as the commits of rig-bridge have it
	other.Run("fetch", "-q", g.Dir, "main")
	other.Run("cherry-pick", "FETCH_HEAD")
	if r := other.Push("origin", "main"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	fork.signed(t)
	says(c, "", "it saw another statement")
	// A trailer that the server has not signed is nobody's word.
	a.Now = time.Now().Unix()
	a.Commit("forged\n\n"+trailer+"99 "+strings.Repeat("A", 43)+"= AAAA", map[string]string{"f": "forged"})
	if r := a.Push(g.Dir, "main"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	g.signed(t)
	says(late, "", "")

	// What was seen outlives the hooks.
	for range 2 {
		if out, code := g.rig(t, late.Dir, "uninstall"); code != 0 || !strings.Contains(out, "attest-seen: kept") {
			t.Errorf("uninstall: exit %d: %s", code, out)
		}
	}
	// Freshness.
	late.Run("config", "rigward.attestMaxAge", "1ns")
	says(late, "", "rigward.attestMaxAge is 1ns")
	late.Run("config", "rigward.attestMaxAge", "100000h")
	says(late, "", "")
	// The branch is withheld, though the chain is shown.
	stale := copied("stale.git")
	bare.Dir = stale
	bare.Run("update-ref", "refs/heads/main", fmt.Sprint(g.Run("rev-parse", "main"), "~2"))
	says(late, stale, "it was rolled back, or is withheld")
}
