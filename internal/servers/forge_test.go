//go:build linux

package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// forge makes a repository in the layout of a forge: hooks of git's own names
// that run what lies in directories beside them.
func forge(t *testing.T, preReceive, update string) *site {
	t.Helper()
	r := gittest.New(t, gittest.Options{Bare: true})
	for _, name := range []string{"pre-receive.d", "update.d"} {
		write(t, filepath.Join(r.Dir, "hooks", name, "00-forge"), "#!/bin/sh\ntest \"$#\" -gt 0 || cat > '"+r.Home+"/lines'\n", 0o755)
		write(t, filepath.Join(r.Dir, "hooks", name, "zz-last"), "#!/bin/sh\necho x >> '"+r.Home+"/last'\n", 0o755)
		write(t, filepath.Join(r.Dir, "hooks", name, "README"), "not executable\n", 0o644)
	}
	r.Hook("pre-receive", preReceive)
	r.Hook("update", update)
	return &site{T: t, repo: r, url: "file://" + r.Dir}
}

// gitea runs every executable file, also after one has failed, and fails if one
// did. (Gitea documentation, "Git hooks"; environment variables as its
// documents name them.)
const gitea = `#!/bin/sh
export GITEA_REPO_USER_NAME=owner GITEA_REPO_NAME=bridge GITEA_PUSHER_NAME=op GITEA_PUSHER_ID=1 GITEA_REPO_IS_WIKI=false SSH_ORIGINAL_COMMAND="git-receive-pack 'owner/bridge.git'"
status=0
lines=; test "$#" -gt 0 || lines=$(cat)
for hook in "$GIT_DIR"/hooks/${0##*/}.d/*; do
	test -x "$hook" && test -f "$hook" || continue
	if test "$#" -gt 0; then "$hook" "$@"; else echo "$lines" | "$hook"; fi || status=$?
done
exit $status
`

// TestGitea: the layout of Gitea and Forgejo.
func TestGitea(t *testing.T) {
	t.Parallel()
	s := forge(t, gitea, gitea)
	documented(t, "Gitea and Forgejo", 0).with("/usr/local/bin", bin).run(s.repo.Dir, shell(s.repo.Home))
	s.scenario()
	last(s, true)
}

// gitlab runs the files in the order of their names and stops at the first
// that fails, with the variables that are supported and nothing else: no HOME,
// no configuration of a system or a user. (GitLab documentation, "Git server
// hooks".)
func gitlab(dir, protocol string) string {
	return `#!/bin/sh
lines=$(cat)
for hook in '` + dir + `'/pre-receive.d/* "$GIT_DIR"/hooks/pre-receive.d/*; do
	case $hook in *~) continue;; esac
	test -x "$hook" && test -f "$hook" || continue
	echo "$lines" | env -i PATH="$PATH" GIT_DIR="$GIT_DIR" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null \
		GIT_OBJECT_DIRECTORY="$GIT_OBJECT_DIRECTORY" GIT_ALTERNATE_OBJECT_DIRECTORIES="$GIT_ALTERNATE_OBJECT_DIRECTORIES" \
		GL_ID=user-1 GL_REPOSITORY=project-1 GL_USERNAME=op GL_PROJECT_PATH=group/bridge ` + protocol + ` "$hook" || exit $?
done
`
}

// TestGitLab: a global server hook among others, C08 C09.
func TestGitLab(t *testing.T) {
	t.Parallel()
	for name, protocol := range map[string]string{"ssh": "GL_PROTOCOL=ssh", "web": "GL_PROTOCOL=web", "not told": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := gittest.TempDir(t)
			hooks := filepath.Join(dir, "custom_hooks")
			s := forge(t, gitlab(hooks, protocol), "#!/bin/sh\n")
			documented(t, "GitLab", 0).with("/var/opt/gitlab/gitaly/custom_hooks", hooks).with("/usr/local/bin", bin).with("/etc/rigward", dir).run(dir, shell(dir))
			write(t, filepath.Join(hooks, "pre-receive.d", "rigward~"), "#!/bin/sh\nexit 1\n", 0o755)
			write(t, filepath.Join(dir, "allowed_signers"), "", 0o644)
			c := s.client()
			c.Commit("Ask", map[string]string{"release-check/REQUEST.md": turn("release-check", "STATE", "x\n"),
				".bridge/policy.yaml": "version: 1\nprotect: ['**']\n", "README.md": "# x\n"})
			// The server's own policy is not there yet.
			s.refused(c.Push("origin", "main"), "main", "", "cannot decide", "policy.yaml", "cannot be read")
			write(t, filepath.Join(dir, "policy.yaml"), "version: 1\nprotect: ['**']\n", 0o644)
			c.Run("rm", "-q", "-r", ".bridge")
			c.Run("commit", "-q", "--amend", "-m", "Ask")
			first := c.Ref("HEAD")
			s.accepted(c.Push("origin", "main"), "main", first)
			if protocol == "GL_PROTOCOL=ssh" {
				s.pushes(c, first)
			}
			last(s, false)
			c.Run("reset", "-q", "--hard", first)
			c.Commit("Bad", map[string]string{"release-check/B.md": turn("release-check", "ORDER", "b\n")})
			res := c.Push("origin", "main:bad")
			s.refused(res, "bad", "", "[envelope-schema]")
			n := 0
			for line := range strings.Lines(res.Stderr) {
				text, ok := strings.CutPrefix(line, "remote: ")
				if !ok || strings.TrimSpace(text) == "" {
					continue
				}
				if n++; !strings.HasPrefix(text, "GL-HOOK-ERR: ") {
					t.Errorf("GitLab shows no such line: %q", line)
				}
			}
			if n < 2 || n > 20 {
				t.Errorf("%d lines:\n%s", n, res.Stderr)
			}
		})
	}
}

// last checks that the forge's other hooks got the ref lines, and whether the
// one after ours is run when ours has refused.
func last(s *site, always bool) {
	s.Helper()
	lines, err := os.ReadFile(filepath.Join(s.repo.Home, "lines"))
	if err != nil || len(strings.Fields(string(lines))) != 3 {
		s.Errorf("the forge's hook read %q", lines)
	}
	count := func() int { data, _ := os.ReadFile(filepath.Join(s.repo.Home, "last")); return len(data) / 2 }
	before := count()
	c := s.client()
	c.Run("fetch", "-q", "origin", "main")
	c.Run("reset", "-q", "--hard", "FETCH_HEAD")
	c.Commit("Bad", map[string]string{"release-check/L.md": turn("release-check", "ORDER", "l\n")})
	s.refused(c.Push("origin", "main"), "main", s.tip("main"))
	if ran := count() > before; before == 0 || ran != always {
		s.Errorf("the hook after ours ran %d times before and then: %v", before, ran)
	}
}

// TestUnsafe: a forge starts the hook as a user that does not own the
// repository, through a wrapper that drops GIT_DIR, so that git refuses it.
func TestUnsafe(t *testing.T) {
	t.Parallel()
	s := forge(t, "#!/bin/sh\nunset GIT_DIR HOME XDG_CONFIG_HOME; GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec '"+bin+"/rig-hook' pre-receive\n", "#!/bin/sh\n")
	s.repo.Run("config", "rigward.bootstrap", "true")
	c := s.client()
	first := c.Commit("Ask", map[string]string{"release-check/REQUEST.md": turn("release-check", "STATE", "x\n")})
	res := c.Push("origin", "main")
	s.refused(res, "main", "", "cannot decide git refuses this repository because another user owns it", "git config --system --add safe.directory "+s.repo.Dir)

	// The line of the page repairs it; here in a file of the test's own.
	system := filepath.Join(s.repo.Home, "system")
	documented(t, "When a hook cannot decide", 0).with("/srv/git/bridge.git", s.repo.Dir).
		run(s.repo.Home, append(shell(s.repo.Home), "GIT_CONFIG_NOSYSTEM=0", "GIT_CONFIG_SYSTEM="+system))
	s.repo.Hook("pre-receive", "#!/bin/sh\nunset GIT_DIR HOME XDG_CONFIG_HOME; export GIT_CONFIG_NOSYSTEM=0 GIT_CONFIG_SYSTEM='"+system+"' GIT_TEST_ASSUME_DIFFERENT_OWNER=1\nexec '"+bin+"/rig-hook' pre-receive\n")
	s.accepted(c.Push("origin", "main"), "main", first)
}

// TestGerrit: the hooks of Gerrit's hooks plugin, with the flags of its
// documentation; Gerrit itself does not run here. C12.
func TestGerrit(t *testing.T) {
	t.Parallel()
	dir := gittest.TempDir(t)
	write(t, filepath.Join(dir, "hooks", "README"), "", 0o644)
	r := gittest.New(t, gittest.Options{Bare: true})
	if err := os.MkdirAll(filepath.Join(dir, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.Dir, filepath.Join(dir, "git", "bridge.git")); err != nil {
		t.Fatal(err)
	}
	r.Dir = filepath.Join(dir, "git", "bridge.git")
	documented(t, "Gerrit", 0).with("/usr/local/bin", bin).with("$GERRIT_SITE", dir).run(dir, shell(dir))
	s := &site{T: t, repo: r, url: "file://" + r.Dir}
	// Gerrit has stored what came before it asks its hooks: here a ref that
	// git moves without any of them.
	come := func(c *gittest.Repo) string {
		t.Helper()
		tip := c.Ref("HEAD")
		if res := c.Push("origin", "+HEAD:refs/changes/"+tip[:8]); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
		return tip
	}
	call := func(hook, old, tip string) gittest.Result {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "hooks", hook), "--project", "bridge", "--refname", "refs/heads/main",
			"--uploader", "Op <op@example.com>", "--uploader-username", "op", "--oldrev", old, "--newrev", tip)
		if hook == "commit-received" {
			cmd.Args = append(cmd.Args, "--cmdref", "refs/for/main")
		}
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_DIR=" + r.Dir, "GERRIT_SITE=" + dir}
		out, err := cmd.CombinedOutput()
		if _, exit := err.(*exec.ExitError); err != nil && !exit {
			t.Fatal(err)
		}
		return gittest.Result{Stderr: string(out), Code: cmd.ProcessState.ExitCode()}
	}
	zero := strings.Repeat("0", 40)
	c := s.client()
	c.Commit("Ask", map[string]string{"release-check/REQUEST.md": turn("release-check", "STATE", "Is it ready?\n"),
		".bridge/policy.yaml": "version: 1\nprotect: ['**']\n", "README.md": "# Nobody's business\n"})
	first := come(c)
	if res := call("ref-update", zero, first); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	r.Run("update-ref", "refs/heads/main", first)
	r.Run("config", "--unset-all", "rigward.bootstrap")
	good := c.Commit("Good", map[string]string{"release-check/S1.md": turn("release-check", "STATE", "1\n")})
	come(c)
	c.Commit("Bad", map[string]string{"release-check/B.md": turn("release-check", "ORDER", "b\n")})
	bad := come(c)
	goodRes, badRes := together(func() gittest.Result { return call("ref-update", first, good) }, func() gittest.Result { return call("ref-update", first, bad) })
	if goodRes.Code != 0 {
		t.Fatal(goodRes.Stderr)
	}
	s.refused(badRes, "main", first, "release-check/B.md:6:7", "[envelope-schema]")
	s.refused(call("commit-received", good, bad), "main", first, "[envelope-schema]")
	if res := call("commit-received", first, good); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	s.refused(call("ref-update", first, zero), "main", first, "[fast-forward]")
	r.Run("update-ref", "refs/heads/main", good)
	c.Run("reset", "-q", "--hard", good)
	next := c.Commit("Good", map[string]string{"release-check/S2.md": turn("release-check", "STATE", "2\n")})
	come(c)
	r.Run("update-ref", "refs/heads/main", next)

	many := thousands(t, c, next)
	for branch, code := range map[string]int{"bulk": 0, "worse": 1} {
		tip := many.Run("rev-parse", branch)
		if res := many.Push(s.url, tip+":refs/changes/"+branch); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
		res := call("ref-update", next, tip)
		switch {
		case res.Code == code && (code == 0 || strings.Contains(res.Stderr, "[envelope-schema]")):
		case res.Code == 2 && strings.Contains(said(res), "then the time was up"):
		default:
			t.Errorf("%s: exit %d\n%s", branch, res.Code, res.Stderr)
		}
		t.Logf("%s, %d commits: exit %d", branch, bulk, res.Code)
	}
}

// TestPage: the blocks of the page that no server runs.
func TestPage(t *testing.T) {
	t.Parallel()
	r := gittest.New(t, gittest.Options{Bare: true})
	documented(t, "When time is short", 0).with("/srv/git/bridge.git", r.Dir).run(r.Dir, shell(r.Home))
	documented(t, "When a hook cannot decide", 1).with("/srv/git/bridge.git", r.Dir).run(r.Dir, shell(r.Home))
	for key, want := range map[string]string{"timeout": "30s", "policy": "/etc/rigward/policy.yaml", "allowedSigners": "/etc/rigward/allowed_signers"} {
		if got := r.Run("config", "rigward."+key); got != want {
			t.Errorf("rigward.%s is %q", key, got)
		}
	}
}
