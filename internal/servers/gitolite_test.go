//go:build linux

package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestGitolite: the common hook and the VREF under a real gitolite, reached
// over ssh.
func TestGitolite(t *testing.T) {
	t.Parallel()
	program(t, "gitolite", "gitolite3")
	home := gittest.TempDir(t)
	key := keyPair(t, filepath.Join(home, "admin"))
	env := shell(home)
	setup := exec.Command("gitolite", "setup", "-pk", "admin.pub")
	setup.Dir, setup.Env = home, env
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	documented(t, "gitolite", 0).with("/usr/local/bin", bin).run(home, env)
	// gitolite works in HOME, which here is not that of the test's user.
	address, ssh := sshd(t, home, filepath.Join(home, ".ssh", "authorized_keys"), key, "SetEnv SHLVL=2 HOME="+home+"\n")

	admin := gittest.New(t, gittest.Options{})
	admin.Env = append(admin.Env, ssh)
	admin.Run("pull", "-q", address+"/gitolite-admin", "master")
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "servers.md"))
	if err != nil {
		t.Fatal(err)
	}
	const rules = "repo bridge\n    RW+ = @all\n    -   VREF/rigward = @all\n"
	if !strings.Contains(string(page), "```\n"+rules+"```\n") {
		t.Fatal("docs/servers.md has other rules for gitolite")
	}
	admin.Now = time.Now().Unix() // gitolite has made a commit by the clock
	admin.Commit("Bridge", map[string]string{"conf/gitolite.conf": "repo gitolite-admin\n    RW+ = admin\n" + rules})
	// gitolite's own repository is guarded, too, and works.
	if res := admin.Push(address+"/gitolite-admin", "HEAD:master"); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	documented(t, "gitolite", 1).run(home, env)
	s := &site{T: t, repo: bare(t, filepath.Join(home, "repositories", "bridge.git")), url: address + "/bridge", env: []string{ssh}}
	s.scenario()
	gitoliteDoctor(t, home, s.repo.Dir, env)

	// The VREF alone refuses as well.
	if err := os.Remove(filepath.Join(s.repo.Dir, "hooks", "pre-receive")); err != nil {
		t.Fatal(err)
	}
	c := s.client()
	c.Run("fetch", "-q", "origin", "main")
	c.Run("reset", "-q", "--hard", "FETCH_HEAD")
	c.Commit("Bad", map[string]string{"release-check/V.md": turn("release-check", "ORDER", "v\n")})
	s.refused(c.Push("origin", "main"), "main", s.tip("main"), "release-check/V.md:6:7", "[envelope-schema]")
	c.Run("reset", "-q", "--hard", "FETCH_HEAD")
	good := c.Commit("Good", map[string]string{"release-check/V.md": turn("release-check", "STATE", "v\n")})
	s.accepted(c.Push("origin", "main"), "main", good)
}
