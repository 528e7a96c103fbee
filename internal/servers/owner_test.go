//go:build linux

package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// root runs a line as root, who sets up what belongs to the user of the stand.
func (s *stand) root(line string, code int, says ...string) string {
	s.Helper()
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = s.dir, append(s.env, "HOME="+s.dir)
	out, err := cmd.CombinedOutput()
	if _, exit := err.(*exec.ExitError); err != nil && !exit {
		s.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(out)), " ")
	if cmd.ProcessState.ExitCode() != code {
		s.Fatalf("%s: exit %d, expected %d\n%s", line, cmd.ProcessState.ExitCode(), code, out)
	}
	for _, want := range says {
		if !strings.Contains(text, want) {
			s.Errorf("%s: nothing says %q:\n%s", line, want, out)
		}
	}
	return string(out)
}

// as runs a command by the rights of another user, and returns what it printed.
func (s *stand) as(uid uint32, cmd *exec.Cmd) string {
	s.Helper()
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// copyProgram puts rig-hook into a directory of the stand.
func (s *stand) copyProgram(dir string, mode os.FileMode) string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(bin, "rig-hook"))
	if err != nil {
		s.Fatal(err)
	}
	dir = filepath.Join(s.dir, dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	program := filepath.Join(dir, "rig-hook")
	if err := os.WriteFile(program, data, 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		s.Fatal(err)
	}
	return program
}

// TestServerOfAnotherUser plays I12: a hook that whoever owns the repository
// cannot start is not installed, and doctor tries its canary as the owner.
func TestServerOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root installs for others")
	}
	s := newStand(t)
	os.Chmod(s.dir, 0o755)
	closed := s.copyProgram("closed/bin", 0o755)
	os.Chmod(filepath.Join(s.dir, "closed"), 0o700)
	open := s.copyProgram("open", 0o755)
	push := func() (string, int) {
		return s.sh(s.clone, "git push -q --no-verify ../server.git HEAD:main")
	}

	out := s.root(closed+" install --server server.git --bootstrap", 2, "belongs to nobody, who cannot run", "it may not enter the directory", "hint: install -m 755")
	if _, err := os.Lstat(filepath.Join(s.server, "hooks", "pre-receive")); err == nil {
		t.Error("a hook was written")
	}
	// The hint leads out; the place that it names is one of this test.
	_, hint, _ := strings.Cut(out, "hint: ")
	hint = strings.ReplaceAll(strings.TrimSpace(hint), "/usr/local/bin/", filepath.Join(s.dir, "open")+"/")
	s.root(hint, 0)
	s.root(open+" doctor --server server.git", 0, "canary: git push, a bad envelope: as it must be")
	if out, code := push(); code != 0 {
		t.Fatal(out)
	}
	// What becomes unreachable later is found, by root and by the owner.
	os.Chmod(filepath.Join(s.dir, "open"), 0o700)
	s.sh(s.clone, "git commit -q --no-verify --allow-empty -m more")
	if out, code := push(); code == 0 || !strings.Contains(out, "Permission denied") {
		t.Errorf("exit %d\n%s", code, out)
	}
	s.root(open+" doctor --server server.git", 1, "to whom the repository belongs, cannot: it may not enter the directory", "hint: install -m 755")
	s.root(open+" install --server server.git", 2, "who cannot run")
	os.Chmod(filepath.Join(s.dir, "open"), 0o755)

	// A hook that only root could run is found by the canary, not by its looks.
	chained := filepath.Join(s.server, "hooks", "pre-receive.before-rigward")
	s.root("printf '#!/bin/sh\\ncat closed/bin/rig-hook >/dev/null 2>&1 || cat "+closed+" >/dev/null || exit 1\\n' >"+chained+" && chmod +x "+chained+" && "+open+" install --server server.git", 0)
	s.root(open+" doctor --server server.git", 1, "canary: git push refused a good envelope")
	os.Remove(chained)
	s.root(open+" install --server server.git", 0)
	s.root(open+" doctor --server server.git", 0)

	// Somebody else can try nothing out.
	cmd := exec.Command(open, "doctor", "--server", s.server)
	cmd.Env = append(s.env, "HOME=/", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	if text := s.as(33, cmd); !strings.Contains(text, "what another user tries out says nothing of a push") || !strings.Contains(text, "hint: sudo -u nobody rig-hook doctor --server") {
		t.Error(text)
	}
}

// TestProgramOfACache is the rest of I12: no hook names what a cache holds.
func TestProgramOfACache(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	for _, dir := range []string{"go-build/ab", "go-build123456/b001/exe", "cache/ab/ab" + strings.Repeat("0", 62) + "-d", ".cache/pre-commit/repo1/golangenv/bin", ".npm/_npx/0123/node_modules/.bin"} {
		program := s.copyProgram(dir, 0o755)
		s.own()
		for _, words := range []string{"install", "install --server ../server.git"} {
			out, code := s.sh(s.clone, "'"+program+"' "+words)
			if code != 2 || !strings.Contains(out, "lies in the cache of") || !strings.Contains(out, "hint: ") {
				t.Errorf("%s: exit %d\n%s", program, code, out)
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(s.clone, ".git", "hooks", "pre-push")); err == nil {
		t.Error("a hook was written")
	}
	program := s.copyProgram("go-builders/bin", 0o755) // the lawful neighbour
	s.own()
	s.must(s.clone, "'"+program+"' install")
}

// TestCommittedHooks plays I14: hooks that others get by a commit look for
// rig-hook on PATH, and say so where it is missing.
func TestCommittedHooks(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.must(s.clone, "git config core.hooksPath .githooks && '"+bin+"/rig-hook' install --into-hooks-path")
	data, err := os.ReadFile(filepath.Join(s.clone, ".githooks", "pre-commit"))
	if err != nil || strings.Contains(string(data), bin) || strings.Contains(string(data), s.dir) {
		t.Fatalf("%v\n%s", err, data)
	}
	commit := "git -c user.name=N -c user.email=n@example.com commit -q --allow-empty -m x"
	if out, code := s.sh(s.clone, commit); code == 0 || !strings.Contains(out, "rig-hook is not on PATH, so pre-commit has checked nothing and refuses") || !strings.Contains(out, "hint: go install") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if out, code := s.sh(s.clone, "'"+bin+"/rig-hook' doctor"); code != 1 || !strings.Contains(out, "which is not on PATH") {
		t.Errorf("exit %d\n%s", code, out)
	}
	s.env = append(s.env, "PATH="+bin+":"+os.Getenv("PATH"))
	s.must(s.clone, commit)
	s.must(s.clone, "rig-hook doctor && rig-hook install --into-hooks-path && git add .githooks && "+commit)
	// A directory that nobody gets by a commit keeps the path.
	s.must(s.clone, "git config core.hooksPath ../own && rig-hook install --into-hooks-path")
	if data, err := os.ReadFile(filepath.Join(s.dir, "own", "pre-commit")); err != nil || !strings.Contains(string(data), filepath.Join(bin, "rig-hook")) {
		t.Errorf("%v\n%s", err, data)
	}
	s.must(s.clone, commit)
}

// gitoliteDoctor plays I13 in a gitolite that TestGitolite has set up: doctor
// knows whose update hook that is, tries the rest out, and names the step of
// gitolite's where something is missing; install leaves gitolite's hook alone.
func gitoliteDoctor(t *testing.T, home, repo string, env []string) {
	t.Helper()
	run := func(words string, code int, says ...string) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", "rig-hook "+words+" --server '"+repo+"'")
		cmd.Dir, cmd.Env = home, env
		out, err := cmd.CombinedOutput()
		if _, exit := err.(*exec.ExitError); err != nil && !exit {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(out)), " ")
		for _, want := range says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: nothing says %q:\n%s", words, want, out)
			}
		}
		if cmd.ProcessState.ExitCode() != code {
			t.Errorf("%s: exit %d, expected %d\n%s", words, cmd.ProcessState.ExitCode(), code, out)
		}
	}
	vref := filepath.Join(home, "local", "VREF", "rigward")
	update, err := os.Readlink(filepath.Join(repo, "hooks", "update"))
	if err != nil {
		t.Fatal(err)
	}
	run("doctor", 0, "update: gitolite's own, which asks the VREF rigward", "canary: git push, a bad envelope: as it must be", "canary: git push, a good envelope")
	run("install", 2, "whose own update hook must stay as it is", "hooks/common/pre-receive", "gitolite setup --hooks-only")
	if now, err := os.Readlink(filepath.Join(repo, "hooks", "update")); err != nil || now != update {
		t.Errorf("gitolite's update hook is %q, was %q (%v)", now, update, err)
	}
	if err := os.Rename(vref, vref+".away"); err != nil {
		t.Fatal(err)
	}
	run("doctor", 1, "there is no VREF rigward", "hint: mkdir -p", "VREF/rigward = @all")
	if err := os.Rename(vref+".away", vref); err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(repo, "hooks", "pre-receive")
	to, err := os.Readlink(hook)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(hook)
	run("doctor", 1, "pre-receive: there is no hook", "hint: mkdir -p", "gitolite setup --hooks-only")
	if err := os.Symlink(to, hook); err != nil {
		t.Fatal(err)
	}
	run("doctor", 0)
}
