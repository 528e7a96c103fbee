//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// relaying is a server with a thread, a rig and an operator, whose line of the
// signers file it returns without committing it.
func relaying(t *testing.T) (w *world, line string, relay []string) {
	t.Helper()
	w = related.of(t, func(w *world) {
		w.server()
		w.clone("a", "rig-a")
		w.write("home/line", w.operator("op"))
		os.Mkdir(w.path("a/t-one"), 0o755)
		w.ok("a", "send", "REQUEST", "--thread", "t-one", "--to", "op-relay")
		w.pull("op")
	})
	return w, w.read("home/line"), []string{"relay", "DECISIONS", "--thread", "t-one", "--in-reply-to", w.bodyHash("a/t-one/REQUEST.md")}
}

// relayingListed is relaying with the line in the server's signers file, which the operator has.
func relayingListed(t *testing.T) (w *world, line string, relay []string) {
	t.Helper()
	first, line, relay := relaying(t)
	w = relatedListed.of(t, func(w *world) {
		gittest.CopyDir(w.t, first.dir, w.dir, first.dir, w.dir)
		w.commitFiles("a", map[string]string{".bridge/allowed_signers": line})
		w.pull("op")
	})
	return w, line, relay
}

var related, relatedListed model

// TestRelayIsRefusedBeforeItIsWritten plays I09: wherever the push of a relay
// cannot pass, nothing is written, however often it is tried; and the hint leads
// to a relay that passes.
func TestRelayIsRefusedBeforeItIsWritten(t *testing.T) {
	refuse := func(t *testing.T, w *world, relay []string, words ...string) {
		t.Helper()
		before := w.state("op")
		for range 2 {
			w.run("op", relay...).keeps(t, 1, words...)
			if after := w.state("op"); after != before {
				t.Fatalf("state\n%s\nbefore\n%s", after, before)
			}
		}
	}
	t.Run("no signers file", func(t *testing.T) {
		w, _, relay := relaying(t)
		o := w.run("op", relay...)
		refuse(t, w, relay, "there is no .bridge/allowed_signers in HEAD", "hint: ")
		_, line, _ := strings.Cut(strings.TrimSuffix(o.stderr, "\n"), "with the line: ")
		w.commitFiles("a", map[string]string{".bridge/allowed_signers": line + "\n"})
		w.pull("op")
		w.ok("op", relay...)
	})
	t.Run("no signers file, and a list of the server's that the clone knows", func(t *testing.T) {
		w, line, relay := relaying(t)
		w.write("signers", line)
		w.config("op", "rigward.allowedSigners", w.path("signers"))
		w.ok("op", relay...)
	})
	t.Run("revoked", func(t *testing.T) {
		w, line, relay := relaying(t)
		_, key, _ := strings.Cut(line, " ")
		w.commitFiles("a", map[string]string{".bridge/allowed_signers": line, ".bridge/policy.yaml": "version: 1\nrevoked: .bridge/revoked_keys\n", ".bridge/revoked_keys": key})
		w.pull("op")
		refuse(t, w, relay, "is revoked")
	})
	t.Run("listed by what is not pushed yet", func(t *testing.T) {
		w, line, relay := relaying(t)
		w.config("op", "commit.gpgsign", "true")
		w.commitFiles("op", map[string]string{".bridge/allowed_signers": line})
		next := strings.Replace(w.operator("next"), "next@example.com,next-relay", "op@example.com,op-relay", 1)
		w.write("op/.bridge/allowed_signers", next)
		w.git("op", "commit", "-q", "-a", "-m", "rotate")
		w.config("op", "user.signingkey", w.path("home/next"))
		refuse(t, w, relay, "only commits that are not pushed yet let the key SHA256:", "hint: git push origin main:main, then the relay")
		w.git("op", "push", "origin", "main:main")
		w.ok("op", relay...)
	})
	t.Run("too short an RSA key", func(t *testing.T) {
		w, _, relay := relaying(t)
		key := w.path("home/rsa")
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		pub, _ := os.ReadFile(key + ".pub")
		w.config("op", "user.signingkey", key)
		files := map[string]string{".bridge/allowed_signers": "op@example.com,op-relay " + string(pub), ".bridge/policy.yaml": "version: 1\nmin-rsa-bits: 3072\n"}
		w.commitFiles("a", files)
		w.pull("op")
		refuse(t, w, relay, "2048 bits")
		files[".bridge/policy.yaml"] = "version: 1\nmin-rsa-bits: 2048\n"
		w.commitFiles("a", files)
		w.pull("op")
		w.ok("op", relay...)
	})
	t.Run("a signers file that is malformed", func(t *testing.T) {
		w, _, relay := relaying(t)
		w.commitFiles("a", map[string]string{".bridge/allowed_signers": "nobody\n"})
		w.pull("op")
		before := w.state("op")
		w.run("op", relay...).keeps(t, 2, "allowed_signers")
		if after := w.state("op"); after != before {
			t.Errorf("state\n%s\nbefore\n%s", after, before)
		}
	})
}

// TestKeyThatGitUses plays I07: the key that a relay names is the one that git
// signs with, in every way in which git is told of it.
func TestKeyThatGitUses(t *testing.T) {
	type setting map[string]string
	var fp struct {
		sync.Once
		of string
	}
	for name, of := range map[string]func(w *world, key string) setting{
		"a public key file":          func(w *world, key string) setting { return setting{"user.signingkey": key + ".pub"} },
		"a private key file":         func(w *world, key string) setting { return setting{"user.signingkey": key} },
		"a path from the home":       func(w *world, key string) setting { return setting{"user.signingkey": "~/op.pub"} },
		"a path from the work tree":  func(w *world, key string) setting { return setting{"user.signingkey": "../home/op.pub"} },
		"a command that names a key": func(w *world, key string) setting { return setting{"gpg.ssh.defaultKeyCommand": "cat " + key + ".pub"} },
		"a command that prints key::": func(w *world, key string) setting {
			return setting{"gpg.ssh.defaultKeyCommand": "sh -c 'printf key::; cat " + key + ".pub'"}
		},
		"a signing program of its own": func(w *world, key string) setting {
			w.program("home/sign", "#!/bin/sh\necho \"$@\" >>"+w.path("home/signed")+"\nexec ssh-keygen \"$@\"\n")
			return setting{"user.signingkey": key, "gpg.ssh.program": w.path("home/sign")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, relay := relayingListed(t)
			w.unset("op", "user.signingkey")
			if strings.Contains(name, "command") {
				// ssh-keygen finds the private key of a literal one in an agent only.
				w.agent("home/op")
			}
			for key, value := range of(w, w.path("home/op")) {
				w.config("op", key, value)
			}
			w.ok("op", relay...)
			fp.Do(func() { // the key is the same in all
				out, err := exec.Command("ssh-keygen", "-l", "-f", w.path("home/op.pub")).Output()
				if err != nil {
					t.Fatal(err)
				}
				fp.of = strings.Fields(string(out))[1]
			})
			if text := w.git("op", "show", "HEAD"); fp.of == "" || !strings.Contains(text, "attested_by: "+fp.of) {
				t.Error(text)
			}
			if strings.Contains(name, "program") && len(w.read("home/signed")) == 0 {
				t.Error("the program did not sign")
			}
		})
	}
	t.Run("a literal key and an agent", func(t *testing.T) {
		w, line, relay := relayingListed(t)
		w.agent("home/op")
		_, key, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, value := range []string{"key::" + key, key} {
			w.config("op", "user.signingkey", value)
			w.ok("op", append(relay, "--tldr", value[:5])...)
		}
	})
	t.Run("a certificate", func(t *testing.T) {
		w, _, relay := relaying(t)
		for _, args := range [][]string{
			{"-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "home/ca"},
			{"-q", "-s", "home/ca", "-I", "op", "-n", "op@example.com,op-relay", "home/op.pub"},
		} {
			cmd := exec.Command("ssh-keygen", args...)
			cmd.Dir = w.dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
		}
		ca, _ := os.ReadFile(w.path("home/ca.pub"))
		w.config("op", "user.signingkey", w.path("home/op-cert.pub"))
		w.commitFiles("a", map[string]string{".bridge/allowed_signers": "x@example.com cert-authority " + string(ca)})
		w.pull("op")
		before := w.state("op")
		w.run("op", relay...).keeps(t, 1)
		if after := w.state("op"); after != before {
			t.Errorf("state\n%s\nbefore\n%s", after, before)
		}
		w.commitFiles("a", map[string]string{".bridge/allowed_signers": "op@example.com,op-relay cert-authority " + string(ca)})
		w.pull("op")
		w.ok("op", relay...)
	})
	t.Run("none", func(t *testing.T) {
		w, _, relay := relayingListed(t)
		before := w.state("op")
		for _, c := range []struct{ key, value, words string }{
			{"user.signingkey", "../home/none.pub", `user.signingkey "../home/none.pub"`},
			{"user.signingkey", "key::ssh-ed25519 AAAA", "git signs with no key"},
			{"gpg.ssh.defaultKeyCommand", "false", `gpg.ssh.defaultKeyCommand "false"`},
			{"gpg.ssh.defaultKeyCommand", "echo no key", "git signs with no key"},
			{"gpg.ssh.defaultKeyCommand", "", "user.signingkey is not set"},
		} {
			w.unset("op", "user.signingkey")
			w.unset("op", "gpg.ssh.defaultKeyCommand")
			w.config("op", c.key, c.value)
			w.run("op", relay...).keeps(t, 1, c.words, "hint: git config")
			if after := w.state("op"); after != before {
				t.Errorf("%v: state\n%s\nbefore\n%s", c, after, before)
			}
		}
	})
}

// agent starts an ssh-agent that holds a key, and names it to every program of
// the world.
func (w *world) agent(key string) {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "agent") // a socket's path is short
	if err != nil {
		w.t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		w.t.Skipf("ssh-agent does not run: %v", err)
	}
	w.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait(); os.RemoveAll(dir) })
	w.vars = append(w.vars, "SSH_AUTH_SOCK="+socket)
	for try := 0; ; try++ {
		add := exec.Command("ssh-add", "-q", w.path(key))
		add.Env = w.vars
		out, err := add.CombinedOutput()
		if err == nil {
			return
		}
		if try == 100 {
			w.t.Fatal(err, string(out))
		}
		if _, err := os.Stat(socket); err != nil {
			exec.Command("sleep", "0.05").Run()
		}
	}
}

// TestUnsignedInWords: a new rig is told what keeps it from sending and from being
// verified, with the commands that mend it, and a message that could be signed and
// is not says so.
func TestUnsignedInWords(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.git(".", "clone", "-q", "origin.git", "a")
	command := func(o outcome, before string) string {
		t.Helper()
		_, rest, found := strings.Cut(o.stderr, before)
		c, _, _ := strings.Cut(rest, "`")
		if !found || o.code != 0 {
			t.Fatalf("%q is not in %+v", before, o)
		}
		return strings.NewReplacer("<name>", "A", "<address>", "rig@example.com", "<file of the public key>", w.path("home/rig.pub")).Replace(c)
	}
	again := []string{"init", "--rig-id", "rig-a", "--no-hooks"}
	o := w.ok("a", again...)
	o.says(t, 0, "user.name and user.email must be set")
	w.ok("a", "init", "--rig-id", "rig-a", "--no-hooks", "--json").says(t, 0, `"notes":["user.`)
	w.shell("a", command(o, "must be set before a message can be sent: `"))
	sign := command(w.ok("a", again...), "to sign them: `")
	if o := w.ok("a", again...); strings.Contains(o.stderr, "must be set") {
		t.Error(o.stderr)
	}
	os.Mkdir(w.path("a/t-one"), 0o755)
	send := []string{"send", "STATE", "--thread", "t-one", "--to", "rig-b"}
	if o := w.ok("a", send...); strings.Contains(o.stderr, "unsigned") { // nobody expects it
		t.Error(o.stderr)
	}
	line := strings.Replace(w.operator("rig"), ",rig-relay", ",rig-a", 1)
	w.commitFiles("a", map[string]string{".bridge/allowed_signers": line})
	if got := command(w.ok("a", again...), "and messages are not signed yet: `"); got != sign {
		t.Errorf("%q, expected %q", got, sign)
	}
	o = w.ok("a", append(send, "--json")...)
	if !strings.Contains(o.stdout, `"rule":"commit-signed"`) || !strings.Contains(o.stdout, "the message is unsigned, though .bridge/allowed_signers lists a key of rig-a") {
		t.Error(o.stdout)
	}
	// What is left to do is told, and doing it ends the warning.
	w.config("a", "gpg.format", "ssh")
	if got := command(w.ok("a", send...), "lists a key of rig-a; `"); got != strings.TrimPrefix(sign, "git config gpg.format ssh && ") {
		t.Errorf("%q", got)
	}
	w.shell("a", sign)
	for _, args := range [][]string{send, again} {
		if o := w.ok("a", args...); strings.Contains(o.stderr, "signed") {
			t.Error(o.stderr)
		}
	}
	w.ok("a", "thread", "t-one").says(t, 0, "signed by rig@example.com ", " as rig-a, verified")
}

// TestHookWithAHint: what a hook refuses with a hint of its own is refused again, however
// often it is pushed, until somebody does what the hook says.
func TestHookWithAHint(t *testing.T) {
	w := newWorld(t)
	w.server()
	w.clone("a", "rig-a")
	hook := w.path("a/.git/hooks/pre-push")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n[ -e ok ] || { echo 'm: error: not yet'; echo '  hint: touch ok'; exit 1; } >&2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(w.path("a/t-one"), 0o755)
	o := w.run("a", "send", "REQUEST", "--thread", "t-one", "--to", "rig-b")
	o.says(t, 1, "m: error: not yet hint: touch ok", "hint: do what it says, then git push origin main:main")
	w.write("a/ok", "")
	w.git("a", "push", "-q", "origin", "main:main")
}
