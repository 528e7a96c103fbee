//go:build linux

package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// A stand is a place for bad input: a clone and a server's repository with
// nothing wrong yet, owned by a user whom file modes bind.
type stand struct {
	*testing.T
	dir, clone, server string
	env                []string
	uid                int
	hint               string // of the last command
}

func newStand(t *testing.T) *stand {
	t.Helper()
	dir, err := os.MkdirTemp("", "rigward-bad-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &stand{T: t, dir: dir, clone: filepath.Join(dir, "clone"), server: filepath.Join(dir, "server.git"), uid: os.Getuid()}
	s.env = append(gittest.Environ(dir), "PATH="+os.Getenv("PATH"))
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main", s.clone}, {"init", "-q", "--bare", "-b", "main", s.server}, {"-C", s.clone, "remote", "add", "origin", s.server}, {"-C", s.clone, "commit", "-q", "--allow-empty", "-m", "Begin"}} {
		cmd := exec.Command("git", args...)
		cmd.Env = s.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if s.uid == 0 {
		s.uid = 65534 // nobody
	}
	s.own()
	return s
}

// own gives everything to the user of the stand.
func (s *stand) own() {
	s.Helper()
	if os.Getuid() != 0 {
		return
	}
	if out, err := exec.Command("chown", "-R", "65534:65534", s.dir).CombinedOutput(); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
}

// sh runs a line as the user of the stand.
func (s *stand) sh(dir, line string) (out string, code int) {
	s.Helper()
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = dir, s.env
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
	}
	text, err := cmd.CombinedOutput()
	if _, exit := err.(*exec.ExitError); err != nil && !exit {
		s.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func (s *stand) must(dir, line string) {
	s.Helper()
	if out, code := s.sh(dir, line); code != 0 {
		s.Fatalf("%s: exit %d\n%s", line, code, out)
	}
}

// undecided runs rig-hook and checks that it says one clear thing, exits with 2
// and changes nothing.
func (s *stand) undecided(dir, words string, says ...string) {
	s.Helper()
	before := snapshot(s.T, s.dir)
	out, code := s.sh(dir, "'"+bin+"/rig-hook' "+words)
	text := strings.Join(strings.Fields(out), " ")
	if code != 2 {
		s.Errorf("%s: exit %d\n%s", words, code, out)
	}
	for _, want := range says {
		if !strings.Contains(text, want) {
			s.Errorf("%s: nothing says %q:\n%s", words, want, out)
		}
	}
	if strings.Contains(out, "panic") || strings.Contains(out, "goroutine") {
		s.Errorf("%s:\n%s", words, out)
	}
	if snapshot(s.T, s.dir) != before {
		s.Errorf("%s: something changed", words)
	}
	_, s.hint, _ = strings.Cut(out, "hint: ")
	s.hint, _, _ = strings.Cut(s.hint, "\n")
}

const (
	zeros = "0000000000000000000000000000000000000000"
	ones  = "1111111111111111111111111111111111111111"
)

// TestBadInput: whatever is wrong with the place, the commands and the hooks say
// it in a sentence, exit with 2 and change nothing; where a command repairs it,
// the hint holds that command.
func TestBadInput(t *testing.T) {
	t.Parallel()
	// everything are the commands and hooks that need git and a repository.
	everything := func(s *stand, dir string, says ...string) {
		s.Helper()
		for _, words := range []string{"install", "uninstall", "doctor", "check --all", "pre-commit", "keys list",
			"update refs/heads/main " + zeros + " " + ones, "gerrit ref-update --refname main --oldrev " + zeros + " --newrev " + ones} {
			s.undecided(dir, words, says...)
		}
	}

	t.Run("wrong directory", func(t *testing.T) {
		s := newStand(t)
		none := filepath.Join(s.dir, "none")
		s.must(s.dir, "mkdir none")
		everything(s, none, "no git repository here")
		s.undecided(none, "install --server gone", `there is no directory "gone"`)
		s.undecided(none, "install --server ../clone", "is not a bare repository")
		s.undecided(none, "doctor --server .", "no git repository here")
		s.undecided(s.server, "install", "this repository is bare", "--server .")
		s.undecided(s.clone, "install --bootstrap", "--bootstrap is for a server")
	})

	t.Run("no git", func(t *testing.T) {
		s := newStand(t)
		s.must(s.dir, "mkdir none")
		s.env = append(s.env, "PATH="+filepath.Join(s.dir, "none"))
		everything(s, s.clone, "git is not in PATH", "install git 2.36 or newer")
		s.undecided(s.clone, "install --server ../server.git", "git is not in PATH")
	})

	t.Run("old git", func(t *testing.T) {
		s := newStand(t)
		real, err := exec.LookPath("git")
		if err != nil {
			t.Fatal(err)
		}
		// What git 2.20 says to the words that came later.
		write(t, filepath.Join(s.dir, "old", "git"), "#!/bin/sh\nfor word; do case $word in\n"+
			"version|--version) echo git version 2.20.1; exit;;\n"+
			"--batch-command*) echo \"error: unknown option\" >&2; exit 129;;\n"+
			"--path-format=*) echo \"$word\"; exit;;\n"+
			"esac; done\nexec '"+real+"' \"$@\"\n", 0o755)
		s.own()
		s.env = append(s.env, "PATH="+filepath.Join(s.dir, "old")+":"+os.Getenv("PATH"))
		everything(s, s.clone, "git 2.20.1 is too old, 2.36 or newer is needed", "install git 2.36 or newer")
		s.undecided(s.server, "update refs/heads/main "+zeros+" "+ones, "git 2.20.1 is too old")
		s.undecided(s.clone, "install --server ../server.git --bootstrap", "git 2.20.1 is too old")
		// One that only says so is taken at its word.
		write(t, filepath.Join(s.dir, "old", "git"), "#!/bin/sh\ntest \"$1\" != version || { echo git version 2.20.1; exit; }\nexec '"+real+"' \"$@\"\n", 0o755)
		s.undecided(s.clone, "install", "git 2.20.1 is too old")
		s.undecided(s.clone, "doctor", "git 2.20.1 is too old")
	})

	t.Run("unwritable hooks directory", func(t *testing.T) {
		s := newStand(t)
		for _, dir := range []string{filepath.Join(s.clone, ".git", "hooks"), filepath.Join(s.server, "hooks")} {
			s.must(s.dir, "mkdir -p '"+dir+"' && chmod 555 '"+dir+"'")
		}
		s.undecided(s.clone, "install", "cannot write", "permission denied", "chmod u+wx")
		_, repair, _ := strings.Cut(s.hint, "or: ")
		s.undecided(s.clone, "install --server ../server.git --bootstrap", "cannot write", "permission denied", "chmod u+wx")
		s.must(s.clone, repair)
		s.must(s.clone, "'"+bin+"/rig-hook' install")
		s.must(s.clone, "chmod 555 .git/hooks")
		s.undecided(s.clone, "uninstall", "cannot write", "permission denied", "chmod u+wx")
	})

	t.Run("hooks path that is not a directory", func(t *testing.T) {
		s := newStand(t)
		s.must(s.clone, "git config core.hooksPath /dev/null")
		for _, words := range []string{"install", "install --into-hooks-path", "doctor"} {
			s.undecided(s.clone, words, `core.hooksPath is "/dev/null"`, "git config --local --unset-all core.hooksPath")
		}
		s.must(s.clone, s.hint)
		s.must(s.clone, "rm -rf .git/hooks; echo x > .git/hooks")
		s.undecided(s.clone, "install", "which is not a directory", "rm ")
		s.undecided(s.clone, "doctor", "which is not a directory", "rm ")
		s.must(s.clone, s.hint)
		s.must(s.clone, "'"+bin+"/rig-hook' install")
		s.must(s.clone, "'"+bin+"/rig-hook' doctor")
	})

	t.Run("foreign hooks", func(t *testing.T) {
		s := newStand(t)
		s.must(s.clone, "mkdir -p .git/hooks; cd .git/hooks; for f in pre-push pre-push.before-rigward; do printf '#!/bin/sh\\n' > $f; chmod +x $f; done")
		s.undecided(s.clone, "install", "both", "are foreign hooks; remove one of them")
		s.must(s.clone, "cd .git/hooks; rm pre-push pre-push.before-rigward; mkdir pre-push")
		s.undecided(s.clone, "install", "cannot", "pre-push", "is a directory")
		// Others alone are run first, and come back as they were; so does a link
		// that leads nowhere.
		s.must(s.clone, "cd .git/hooks; rmdir pre-push; ln -s missing/hook pre-commit; printf '#!/bin/sh\\nexit 0\\n' > pre-push; chmod +x pre-push")
		before := snapshot(t, filepath.Join(s.clone, ".git", "hooks"))
		s.must(s.clone, "'"+bin+"/rig-hook' install && '"+bin+"/rig-hook' doctor && '"+bin+"/rig-hook' uninstall")
		if now := snapshot(t, filepath.Join(s.clone, ".git", "hooks")); now != before {
			t.Errorf("before:\n%s\nnow:\n%s", before, now)
		}
	})

	t.Run("broken policy", func(t *testing.T) {
		s := newStand(t)
		write(t, filepath.Join(s.clone, ".bridge", "policy.yaml"), "version: 1\nrule: {}\n", 0o644)
		write(t, filepath.Join(s.clone, ".bridge", "allowed_signers"), "op@example.com nonsense\n", 0o644)
		s.own()
		s.must(s.clone, "git add -f .bridge && git commit -q -m Broken && git push -q origin main")
		s.must(s.clone, "'"+bin+"/rig-hook' install --server ../server.git")
		s.undecided(s.clone, "doctor --server ../server.git", `policy .bridge/policy.yaml:2:1`, "git config rigward.policy FILE")
		s.undecided(s.clone, "doctor", `policy .bridge/policy.yaml:2:1`)
		s.must(s.clone, "git commit -q --allow-empty -m Good")
		out, code := s.sh(s.clone, "git push origin main")
		if text := strings.Join(strings.Fields(strings.ReplaceAll(out, "remote:", " ")), " "); code == 0 || !strings.Contains(text, "cannot decide") || !strings.Contains(text, "on the server: git config rigward.policy FILE") {
			t.Fatalf("exit %d\n%s", code, out)
		}
		// As the hint says; the signers are the next that cannot be read.
		write(t, filepath.Join(s.server, "policy.yaml"), "version: 1\n", 0o644)
		write(t, filepath.Join(s.server, "signers"), "", 0o644)
		s.own()
		s.must(s.server, "git config rigward.policy policy.yaml")
		s.undecided(s.clone, "doctor --server ../server.git", "the signers file .bridge/allowed_signers is malformed", "git config rigward.allowedSigners FILE")
		s.must(s.clone, "git push -q origin main")
		s.must(s.server, "printf 'version: 3\\n' > policy.yaml")
		s.undecided(s.clone, "doctor --server ../server.git", `policy policy.yaml:1:10`)
		if strings.Contains(s.hint, "rigward.policy") {
			t.Errorf("the hint names what is broken: %s", s.hint)
		}
		// The client's own.
		s.must(s.clone, "git rm -q -r .bridge && git commit -q -m Gone && printf 'version: 1\\nrule: {}\\n' > .git/rigward.yaml")
		for _, words := range []string{"doctor", "pre-commit"} {
			s.undecided(s.clone, words, "rigward.yaml:2:1")
		}
	})

	t.Run("files of a wrong mode", func(t *testing.T) {
		s := newStand(t)
		s.must(s.clone, "git commit -q --allow-empty -m Good && git push -q origin main && ssh-keygen -q -t ed25519 -N '' -f key")
		s.must(s.server, "printf 'version: 1\\n' > policy.yaml; echo \"op@example.com $(cut -d' ' -f1,2 ../clone/key.pub)\" > signers; git config rigward.policy policy.yaml; git config rigward.allowedSigners signers")
		s.must(s.clone, "'"+bin+"/rig-hook' install --server ../server.git && '"+bin+"/rig-hook' doctor --server ../server.git")
		tip := "update refs/heads/main $(git rev-parse main) $(git rev-parse main)"
		s.must(s.server, "chmod 0 policy.yaml")
		s.mode("policy.yaml", `the policy file "policy.yaml" cannot be read: permission denied`, "git config rigward.policy FILE", tip)
		s.must(s.server, "chmod 644 policy.yaml; chmod 0 signers")
		s.mode("signers", `the signers file "signers" cannot be read: permission denied`, "git config rigward.allowedSigners FILE", "")
		s.must(s.server, "chmod 644 signers")
		s.must(s.clone, "'"+bin+"/rig-hook' doctor --server ../server.git")

		s.must(s.clone, "mkdir .bridge; cp ../server.git/signers .bridge/allowed_signers; cp key.pub shut.pub; chmod 0 shut.pub")
		s.env = append(s.env, "GIT_CONFIG_COUNT=0")
		before, _ := s.sh(s.clone, "cat .bridge/allowed_signers")
		out, code := s.sh(s.clone, "'"+bin+"/rig-hook' keys add new@example.com shut.pub")
		if now, _ := s.sh(s.clone, "cat .bridge/allowed_signers"); code != 2 || now != before || !strings.Contains(out, "shut.pub") || !strings.Contains(out, "cannot be read") {
			t.Errorf("exit %d, signers %q\n%s", code, now, out)
		}
		s.must(s.clone, "chmod 0 .bridge/allowed_signers")
		out, code = s.sh(s.clone, "'"+bin+"/rig-hook' keys list")
		if code != 2 || !strings.Contains(out, "allowed_signers") || !strings.Contains(out, "cannot be read") {
			t.Errorf("exit %d\n%s", code, out)
		}
	})
}

// mode checks that a file that nobody may read leaves doctor and a hook
// undecided.
func (s *stand) mode(file, message, hint, hook string) {
	s.Helper()
	lines := []string{"doctor --server ."}
	if hook != "" {
		lines = append(lines, hook)
	}
	for _, words := range lines {
		out, code := s.sh(s.server, "'"+bin+"/rig-hook' "+words)
		text := strings.Join(strings.Fields(out), " ")
		if code != 2 || !strings.Contains(text, message) || !strings.Contains(text, hint) {
			s.Errorf("%s, %s: exit %d\n%s", file, words, code, out)
		}
	}
}
