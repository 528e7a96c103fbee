package attest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/internal/test/testkeys"
)

func TestMain(m *testing.M) { programs.Main(m) }

// gated is a server whose hooks attest, and a clone that pushes to it.
type gated struct {
	*gittest.Repo
	clone *gittest.Repo
	hook  string // the program
	pub   string // file of the public key
}

func newGated(t *testing.T, policy string) *gated {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("hooks are scripts for a shell")
	}
	g := &gated{Repo: gittest.New(t, gittest.Options{Bare: true}), hook: filepath.Join(programs.Dir(t), "rig-hook")}
	key := testkeys.Ed25519("gate")
	must(t, os.WriteFile(filepath.Join(g.Dir, "attest_key"), key.PEM(), 0o600))
	g.pub = filepath.Join(g.Home, "attest.pub")
	must(t, os.WriteFile(g.pub, []byte(key.Authorized()+"\n"), 0o644))
	g.Run("config", "rigward.attestKey", "attest_key")
	g.Run("config", "core.logAllRefUpdates", "always")
	if out, code := g.rig(t, g.Dir, "install", "--server", g.Dir, "--bootstrap"); code != 0 {
		t.Fatal(out)
	}
	g.clone = g.Clone()
	g.clone.Commit("first", map[string]string{".bridge/policy.yaml": policy, ".bridge/allowed_signers": testkeys.Ed25519("op").Line(gittest.Email, "") + "\n"})
	if r := g.clone.Push("origin", "main"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	return g
}

func (g *gated) rig(t *testing.T, dir string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(g.hook, args...)
	cmd.Dir, cmd.Env = dir, g.Env
	out, _ := cmd.CombinedOutput() // its code says more
	return string(out), cmd.ProcessState.ExitCode()
}

// signed waits for nobody: it signs what is due.
func (g *gated) signed(t *testing.T) {
	t.Helper()
	if out, code := g.rig(t, g.Dir, "attest", "sign"); code != 0 {
		t.Fatal(out)
	}
}

// says expects an exit code and a text of verify, and returns the output.
func (g *gated) says(t *testing.T, dir string, code int, text string, args ...string) {
	t.Helper()
	out, got := g.rig(t, dir, append([]string{"attest", "verify"}, args...)...)
	if got != code || !strings.Contains(out, text) {
		t.Errorf("verify %v: exit %d, expected %d and %q:\n%s", args, got, code, text, out)
	}
}

const fetchIt = "+refs/rigward/attestations:refs/rigward/attestations"

// TestGates plays a server and its clones with the real programs.
func TestGates(t *testing.T) {
	t.Parallel()
	g := newGated(t, "version: 1\nallow-refs: ['refs/**']\nrules: {other-refs: off}\n")
	for i := range 3 {
		g.clone.Commit(fmt.Sprint(i), map[string]string{"f": fmt.Sprint(i)})
		if r := g.clone.Push("origin", "main", fmt.Sprintf("main:refs/heads/side%d", i)); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
	}
	if r := g.clone.Push("--force", "origin", "main~2:side2", ":side1"); r.Code != 0 { // free refs
		t.Fatal(r.Stderr)
	}
	g.signed(t)
	g.says(t, g.Dir, 0, " statements, 9 ref updates") // of one push in two, where the signer of the push before was late
	c := g.clone
	c.Run("fetch", "-q", "origin", fetchIt)
	g.says(t, c.Dir, 0, " statements, 9 ref updates", "--key", g.pub)
	g.says(t, c.Dir, 0, "4 ref updates of refs/heads/main", "--key", g.pub, "--ref", "refs/heads/main")
	g.says(t, c.Dir, 2, "no key is known")
	g.says(t, c.Dir, 2, "no statement names the ref", "--key", g.pub, "--ref", "refs/heads/none")

	// Who may write there: nobody who pushes, whatever the policy says.
	g.Run("symbolic-ref", "refs/heads/link", Ref)
	for name, spec := range map[string][]string{"new": {"main:" + Ref + "2"}, "moved": {"--force", "main:" + Ref}, "deleted": {":" + Ref}, "by another name": {"--force", "main:refs/heads/link"}, "with others": {"main:refs/heads/more", "--force", "main:" + Ref}} {
		before := g.Run("for-each-ref")
		r := c.Push(append([]string{"origin"}, spec...)...)
		if r.Code == 0 || !strings.Contains(r.Stderr, "refs below refs/rigward are written by the server alone") || g.Run("for-each-ref") != before {
			t.Errorf("%s: exit %d: %s", name, r.Code, r.Stderr)
		}
	}
	g.Run("symbolic-ref", "-d", "refs/heads/link")
	c.Run("notes", "add", "-m", "x")
	if r := c.Push("origin", "refs/notes/commits", "main:refs/rigwards/x"); r.Code != 0 {
		t.Errorf("control: %s", r.Stderr)
	}

	// The administrator goes around the gates.
	old := g.Run("rev-parse", "main")
	g.Run("update-ref", "refs/heads/main", old+"~1")
	g.signed(t)
	g.says(t, g.Dir, 1, "refs/heads/main: it moved from "+old[:12])
	g.says(t, g.Dir, 0, "clean", "--ref", "refs/heads/side0")
	g.Run("update-ref", "refs/heads/side0", old+"~1")
	g.says(t, g.Dir, 1, "refs/heads/side0: it is at", "--ref", "refs/heads/side0")
	g.signed(t)
	g.Run("update-ref", "refs/heads/side0", old)
	g.signed(t)
	// From a statement on that somebody has looked at, all is well again.
	out, _ := g.rig(t, g.Dir, "attest", "verify")
	var digest string
	lines := func() [][]byte {
		s := site{Repo: g.Repo}
		s.opens(t)
		var all [][]byte
		must(t, read(context.Background(), s.signer.Repo, g.Run("rev-parse", Ref), "", func(_ string, _ int, l [][]byte) error { all = append(all, l...); return nil }))
		return all
	}()
	if last, err := parse(lines[len(lines)-1]); err == nil {
		digest = Digest(last.Payload)
	}
	c.Run("fetch", "-q", "origin", fetchIt)
	c.Run("checkout", "-q", "-B", "main", "origin/main~1")
	c.Commit("on", map[string]string{"f": "on"})
	if r := c.Push("origin", "main:refs/heads/on"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	g.signed(t)
	g.says(t, g.Dir, 2, "no statement has the digest", "--since", strings.Repeat("0", 64))
	g.says(t, g.Dir, 1, "side0", "--since", digest)
	if !strings.Contains(out, "3 problems") {
		t.Errorf("%s", out)
	}

	// A clone that has only the end of the chain cannot say anything.
	shallow := g.Clone("--depth", "1")
	shallow.Run("fetch", "-q", "--depth", "1", "origin", fetchIt)
	g.says(t, shallow.Dir, 2, "cut", "--key", g.pub)
	// Nor one that has none of it.
	g.says(t, g.Clone().Dir, 2, "there is no refs/rigward/attestations", "--key", g.pub)
	// Another repository's chain, and one whose end was left out.
	other := newGated(t, "version: 1\n")
	other.signed(t)
	c.Run("fetch", "-q", other.Dir, fetchIt)
	g.says(t, c.Dir, 1, "which no statement names", "--key", g.pub)
	g.says(t, c.Dir, 1, "of another repository", "--key", g.pub, "--uuid", g.Run("config", "rigward.uuid"))
	c.Run("fetch", "-q", g.Dir, "+"+Ref+":"+Ref)
	c.Run("update-ref", Ref, Ref+"~1")
	c.Run("fetch", "-q", "origin")
	g.says(t, c.Dir, 1, "refs/heads/on: it is at", "--key", g.pub)

	// What cannot be told of is not accepted.
	dir := filepath.Join(g.Dir, "rigward", "attest")
	must(t, os.Rename(dir, dir+".away"))
	must(t, os.WriteFile(dir, nil, 0o600))
	c.Commit("more", map[string]string{"f": "more"})
	if r := c.Push("origin", "main:refs/heads/on"); r.Code == 0 || !strings.Contains(r.Stderr, "what is to be attested cannot be written down") {
		t.Errorf("exit %d: %s", r.Code, r.Stderr)
	}
	must(t, os.Remove(dir))
	must(t, os.Rename(dir+".away", dir))
	if r := c.Push("origin", "main:refs/heads/on"); r.Code != 0 {
		t.Errorf("control: %s", r.Stderr)
	}
	// A key that others can read signs nothing.
	must(t, os.Chmod(filepath.Join(g.Dir, "attest_key"), 0o644))
	if out, code := g.rig(t, g.Dir, "attest", "sign"); code != 2 || !strings.Contains(out, "chmod 600") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestSignersFile lets the key count by the signers file of the default branch, as
// clones get it, and by nothing that looks like it.
func TestSignersFile(t *testing.T) {
	t.Parallel()
	gate := testkeys.Ed25519("gate")
	for name, c := range map[string]struct {
		line string
		code int
		text string
	}{
		"for attestations":             {gate.Line("gate@example.com", `namespaces="rigward-attestation"`), 0, "clean"},
		"for everything":               {gate.Line("gate@example.com", ""), 2, "no key is known"},
		"for commits":                  {gate.Line("gate@example.com", `namespaces="git"`), 2, "no key is known"},
		"another key for attestations": {testkeys.Ed25519("other").Line("gate@example.com", `namespaces="rigward-attestation"`), 1, "which is not trusted"},
		"not any more":                 {gate.Line("gate@example.com", `namespaces="rigward-attestation",valid-before="20250101"`), 1, "by a revoked key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGated(t, "version: 1\n")
			g.signed(t)
			clone := gittest.New(t, gittest.Options{})
			clone.Commit("signers", map[string]string{".bridge/allowed_signers": c.line + "\n"})
			clone.Run("fetch", "-q", g.Dir, "main", "+"+Ref+":"+Ref)
			clone.Env = g.Env
			g.says(t, clone.Dir, c.code, c.text)
		})
	}
}

// TestKilled ends pushes and signers at any moment. In the end every move of every
// ref, as git's own log of the server has it, has one statement, in order.
func TestKilled(t *testing.T) {
	t.Parallel()
	rounds := 15
	if os.Getenv("RIGWARD_ATTEST_FULL") != "" {
		rounds = 400
	}
	g := newGated(t, "version: 1\n")
	rng := rand.New(rand.NewPCG(26, 2))
	after := func(cmd *exec.Cmd, most int) {
		must(t, cmd.Start())
		timer := time.AfterFunc(time.Duration(rng.IntN(most))*time.Millisecond, func() { killAll(cmd) })
		_ = cmd.Wait() // killed, or not
		timer.Stop()
	}
	for i := range rounds {
		g.clone.Commit(fmt.Sprint(i), map[string]string{"f": fmt.Sprint(i)})
		for range 2 {
			push := exec.Command("git", "push", "-q", "origin", "main", fmt.Sprintf("main:refs/heads/b%d", i%3), "--force")
			push.Dir, push.Env = g.clone.Dir, g.clone.Env
			apart(push)
			after(push, 250)
		}
		sign := exec.Command(g.hook, "attest", "sign")
		sign.Dir, sign.Env = g.Dir, g.Env
		apart(sign)
		after(sign, 60)
		must(t, removeLocks(g.Dir)) // of git, as its user would
	}
	g.signed(t)
	g.says(t, g.Dir, 0, "clean")
	s := site{Repo: g.Repo}
	s.opens(t)
	told := map[string]string{}
	n := 0
	must(t, read(context.Background(), s.signer.Repo, g.Run("rev-parse", Ref), "", func(_ string, _ int, lines [][]byte) error {
		for _, line := range lines {
			st, err := parse(line)
			must(t, err)
			for _, m := range st.Predicate.Update.Moves {
				told[m.Ref] += m.Old + " " + m.New + "\n"
				n++
			}
		}
		return nil
	}))
	for _, ref := range strings.Fields(g.Run("for-each-ref", "--format=%(refname)", "refs/heads")) {
		data, err := os.ReadFile(filepath.Join(g.Dir, "logs", ref))
		must(t, err)
		happened := ""
		for line := range strings.Lines(string(data)) {
			happened += line[:81] + "\n"
		}
		if told[ref] != happened {
			t.Errorf("%s: told\n%shappened\n%s", ref, told[ref], happened)
		}
	}
	t.Logf("%d rounds, %d updates", rounds, n)
}

// removeLocks removes the locks that git left when it was killed.
func removeLocks(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".lock") && !strings.Contains(path, "rigward") {
			return os.Remove(path)
		}
		return nil
	})
}
