package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An agent bundle is signed in its own namespace with a key file and with a key
// that only ssh-agent holds, and both are what ssh-keygen verifies.
func TestSignAgentBundle(t *testing.T) {
	for _, program := range []string{"ssh-keygen", "ssh-agent", "ssh-add"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
	dir, err := os.MkdirTemp("", "rb") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	agentTree(t, filepath.Join(dir, "src"))
	if code, _, errs := agentRun(t, dir, nil, "create", "src", "-o", "."); code != 0 {
		t.Fatal(errs)
	}
	socket := filepath.Join(dir, "socket")
	daemon := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { daemon.Process.Kill(); daemon.Wait() }()
	for i := 0; ; i++ {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		if i == 500 {
			t.Fatal("ssh-agent makes no socket")
		}
		time.Sleep(10 * time.Millisecond)
	}
	run := func(script string) {
		t.Helper()
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	run("ssh-keygen -q -t ed25519 -N '' -C '' -f key && ssh-keygen -q -t ed25519 -N '' -C '' -f other && printf 'op@example.com %s\\n' \"$(cat key.pub)\" > signers")
	judge := func() {
		t.Helper()
		run("ssh-keygen -Y verify -f signers -I op@example.com -n agent-bundle -s " + demoFile + ".sig < " + demoFile)
		v := agentObject(t, dir, nil, 0, "verify", demoFile, "--allowed-signers", "signers", "--require-signature", "--signer", "op@example.com")
		if v["code"] != "ok" {
			t.Errorf("%v", v)
		}
	}
	if code, out, errs := agentRun(t, dir, nil, "sign", demoFile, "--key", "key"); code != 0 || out != demoFile+".sig\n" {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	judge()
	run("rm " + demoFile + ".sig && ssh-add -q key && rm key")
	env := map[string]string{"SSH_AUTH_SOCK": socket}
	if code, out, errs := agentRun(t, dir, env, "sign", demoFile, "--key", "key.pub"); code != 0 || out != demoFile+".sig\n" {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	judge()
	run("rm " + demoFile + ".sig")
	for words, e := range map[string]map[string]string{
		"ssh-agent has no key":        env,
		"SSH_AUTH_SOCK is not set":    nil,
		"ssh-agent does not answer: ": {"SSH_AUTH_SOCK": filepath.Join(dir, "nobody")},
	} {
		if code, out, errs := agentRun(t, dir, e, "sign", demoFile, "--key", "other.pub"); code != 2 || out != "" || !strings.Contains(errs, words) {
			t.Errorf("%s: %d %s%s", words, code, out, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, demoFile+".sig")); err == nil {
		t.Error("a refused signature left a file")
	}
}

func TestMissingDirectory(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "rig.yaml"), "version: \"0.2\"\nname: demo\npods:\n  - id: dev\n    label: Dev\n    members:\n      - id: impl\n        agent_ref: local:agents/impl\n        profile: default\n        runtime: codex\n        cwd: .\n", 0o644)
	put(t, filepath.Join(dir, "agents/impl/agent.yaml"), "name: impl\nversion: \"1.0\"\nprofiles:\n  default: {}\n", 0o644)
	code, out, errs := agentRun(t, dir, nil, "create", "rig.yaml", "-o", "new/x.rigbundle")
	if code != 2 || out != "" || !strings.Contains(errs, "the directory ") || !strings.Contains(errs, "does not exist") || strings.Contains(errs, ".rigward-") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if hint := "\nhint: mkdir -p " + filepath.Join(dir, "new") + "\n"; !strings.Contains(errs, hint) {
		t.Errorf("no hint in %s", errs)
	}
	if code, _, errs := agentRun(t, dir, nil, "create", "no/such.yaml", "-o", "x.rigbundle"); code != 2 || strings.Contains(errs, "mkdir") {
		t.Errorf("a missing source: %d %s", code, errs)
	}
}

func TestCount(t *testing.T) {
	if got := count(1, "file") + ", " + count(int64(2), "byte") + ", " + count(0, "more file") + ", " + plural(1, "directory", "directories"); got != "1 file, 2 bytes, 0 more files, 1 directory" {
		t.Error(got)
	}
}
