package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/relay"
	"github.com/rigward/rigward/pkg/sshsign"
)

// demo makes a server and two clones in a scratch directory and pushes with
// git: what is right goes through, and every kind of tampering is refused, by
// the clone's own hook and by the server alone.
func demo(ctx context.Context, env *hooks.Env, f cli.Line) int {
	dir, err := scratchDir("rigward-demo-")
	if err != nil {
		return fail(env, "demo", err)
	}
	if f.Has("--keep") {
		fmt.Fprintf(env.Stdout, "kept in %s\n", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	d := &demonstration{ctx: ctx, env: env, dir: dir}
	ok, err := d.play()
	if err != nil {
		return fail(env, "demo", err)
	}
	if !ok {
		fmt.Fprintln(env.Stdout, "NOT every outcome was as it must be")
		return report.ExitFindings
	}
	fmt.Fprintln(env.Stdout, "every outcome was as it must be")
	return report.ExitClean
}

type demonstration struct {
	ctx context.Context
	env *hooks.Env
	dir string
	as  *gitrepo.Account // whose rights git runs by; nil: this process's

	operator, stranger, old *signer
	request                 string // body hash of the turn that relays answer
	foreign                 string // of a turn in another thread
	nonce                   string // of the relay that was accepted
}

// A signer is a person with a key.
type signer struct {
	name, email string
	key         ssh.Signer
}

// An attempt is one push. do prepares it in a clone whose branch is at the
// server's tip.
type attempt struct {
	what string
	rule string // that refuses it; "" if it must be accepted
	do   func(clone string) error
	// force says that git itself would refuse the push without --force.
	force bool
}

func (d *demonstration) play() (bool, error) {
	if err := d.setUp(); err != nil {
		return false, err
	}
	fmt.Fprintf(d.env.Stdout, "%-46s %-10s %-30s %s\n", "attempt", "expected", "in the clone", "at the server")
	good := true
	for _, a := range d.attempts() {
		ok, err := d.try(a)
		if err != nil {
			return false, fmt.Errorf("%s: %w", a.what, err)
		}
		good = good && ok
	}
	return good, nil
}

// git runs git in a directory, away from the user's own configuration.
func (d *demonstration) git(dir string, stdin []byte, extra []string, args ...string) (gitrepo.Result, error) {
	environ := []string{"HOME=" + d.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", canaryVar + "=1"}
	for _, kv := range d.env.Environ {
		if k, _, _ := strings.Cut(kv, "="); k == "PATH" || k == "TMPDIR" || k == "SYSTEMROOT" || k == "SystemRoot" {
			environ = append(environ, kv)
		}
	}
	r := gitrepo.Runner{Env: gitrepo.Env{Environ: environ, Dir: dir, As: d.as}}
	return r.Run(d.ctx, gitrepo.Command{Args: args, Stdin: stdin, Env: extra})
}

// must is git where failure is not part of the play.
func (d *demonstration) must(dir string, args ...string) (string, error) {
	res, err := d.git(dir, nil, nil, args...)
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("git %s: %s", args[0], finding.QuoteMax(string(res.Stderr), 400))
	}
	return strings.TrimSpace(string(res.Stdout)), err
}

func (d *demonstration) setUp() error {
	for _, s := range []struct {
		to          **signer
		name, email string
	}{
		{&d.operator, "Operator", "op@example.com"}, {&d.stranger, "Stranger", "stranger@example.com"}, {&d.old, "Former", "former@example.com"},
	} {
		seed := make([]byte, ed25519.SeedSize)
		if _, err := d.env.Rand.Read(seed); err != nil {
			return err
		}
		key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
		if err != nil {
			return err
		}
		*s.to = &signer{s.name, s.email, key}
	}
	server := filepath.Join(d.dir, "server.git")
	if _, err := d.must(d.dir, "init", "--bare", "-q", "--initial-branch=main", server); err != nil {
		return err
	}
	if _, err := hooks.Install(filepath.Join(server, "hooks"), d.env.Executable, hooks.ServerHooks); err != nil {
		return err
	}
	if _, err := d.must(server, "config", "rigward.bootstrap", "true"); err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		clone := filepath.Join(d.dir, name)
		if _, err := d.must(d.dir, "clone", "-q", server, clone); err != nil {
			return err
		}
		if _, err := hooks.Install(filepath.Join(clone, ".git", "hooks"), d.env.Executable, hooks.ClientHooks); err != nil {
			return err
		}
		for _, kv := range [][2]string{{"user.name", "Rig " + strings.ToUpper(name)}, {"user.email", name + "@example.com"}, {"commit.gpgsign", "false"}, {"core.autocrlf", "false"}} {
			if _, err := d.must(clone, "config", kv[0], kv[1]); err != nil {
				return err
			}
		}
	}
	// The first push brings the signers; then the server trusts only them.
	a := filepath.Join(d.dir, "a")
	line := func(s *signer, principals, options string) string {
		return principals + " " + options + string(ssh.MarshalAuthorizedKey(s.key.PublicKey()))
	}
	signers := line(d.operator, "op@example.com,op-relay", "") +
		line(d.old, "former@example.com,op-relay", `valid-before="20240101Z" `)
	if err := d.write(a, policy.Signers, []byte(signers)); err != nil {
		return err
	}
	if _, err := d.must(a, "add", "."); err != nil {
		return err
	}
	if _, err := d.must(a, "commit", "-q", "-m", "Who may sign"); err != nil {
		return err
	}
	if _, err := d.must(a, "push", "-q", "origin", "HEAD:main"); err != nil {
		return err
	}
	_, err := d.must(server, "config", "--unset", "rigward.bootstrap")
	return err
}

func (d *demonstration) attempts() []attempt {
	first, second := "release-check/REQUEST.md", "release-check/HANDOFF.md"
	return []attempt{
		{what: "a request, and its answer in the other clone", do: func(clone string) error {
			d.request = d.hash("Is the release ready?\n")
			d.foreign = d.hash("Who is on call?\n")
			if err := d.send(clone, first, envelope.Fields{From: "rig-a", To: []string{"rig-b"}, Type: "REQUEST", Status: "▶ Asking", Body: []byte("Is the release ready?\n")}); err != nil {
				return err
			}
			if err := d.send(clone, "on-call/REQUEST.md", envelope.Fields{From: "rig-a", To: []string{"rig-b"}, Type: "REQUEST", Status: "▶ Asking", Body: []byte("Who is on call?\n")}); err != nil {
				return err
			}
			return d.send(clone, second, envelope.Fields{From: "rig-b", To: []string{"rig-a"}, Type: "HANDOFF", Status: "▶ Tests are green", InReplyTo: d.request, Body: []byte("Yes.\n")})
		}},
		{what: "an envelope edited in place", rule: "append-only", do: func(clone string) error {
			return d.edit(clone, first, "Is the release ready?", "Ship it now.")
		}},
		{what: "a body that does not fit its hash", rule: "body-hash", do: func(clone string) error {
			text, err := d.render("release-check", envelope.Fields{From: "rig-b", To: []string{"rig-a"}, Type: "STATE", Status: "▶ Busy", Body: []byte("One.\n")})
			if err != nil {
				return err
			}
			return d.commit(clone, "release-check/STATE.md", bytes.Replace(text, []byte("One."), []byte("Two."), 1))
		}},
		{what: "a type that does not exist", rule: "envelope-schema", do: func(clone string) error {
			text, err := d.render("release-check", envelope.Fields{From: "rig-b", To: []string{"rig-a"}, Type: "STATE", Status: "▶ Busy", Body: []byte("One.\n")})
			if err != nil {
				return err
			}
			return d.commit(clone, "release-check/STATE.md", bytes.Replace(text, []byte("type: STATE"), []byte("type: ORDER"), 1))
		}},
		{what: "tampered, then restored in the same push", rule: "append-only", do: func(clone string) error {
			if err := d.edit(clone, first, "ready", "late"); err != nil {
				return err
			}
			return d.edit(clone, first, "late", "ready")
		}},
		{what: "an edit hidden in a merge commit", rule: "append-only", do: func(clone string) error {
			if _, err := d.must(clone, "checkout", "-q", "-b", "side"); err != nil {
				return err
			}
			if err := d.send(clone, "side-talk/REQUEST.md", envelope.Fields{From: "rig-a", To: []string{"rig-b"}, Type: "REQUEST", Status: "▶ Asking", Body: []byte("Hello.\n")}); err != nil {
				return err
			}
			if _, err := d.must(clone, "checkout", "-q", "main"); err != nil {
				return err
			}
			if _, err := d.must(clone, "merge", "-q", "--no-ff", "--no-commit", "side"); err != nil {
				return err
			}
			return d.edit(clone, first, "ready", "late")
		}},
		{what: "an envelope deleted", rule: "append-only", do: func(clone string) error {
			if _, err := d.must(clone, "rm", "-q", second); err != nil {
				return err
			}
			_, err := d.must(clone, "commit", "-q", "--no-verify", "-m", "Forget it")
			return err
		}},
		{what: "history rewritten and pushed with --force", rule: "fast-forward", force: true, do: func(clone string) error {
			_, err := d.must(clone, "reset", "-q", "--hard", "HEAD~1")
			return err
		}},
		{what: "a decision relayed and signed by the operator", do: func(clone string) error {
			f, err := d.decision()
			d.nonce = f.Nonce
			if err != nil {
				return err
			}
			return d.relay(clone, f, d.operator, d.operator, d.env.Now())
		}},
		{what: "the same, not signed", rule: "commit-signed", do: func(clone string) error {
			f, err := d.decision()
			if err != nil {
				return err
			}
			return d.relay(clone, f, d.operator, nil, d.env.Now())
		}},
		{what: "with the nonce of an earlier one", rule: "relay-nonce", do: func(clone string) error {
			f, err := d.decision()
			if err != nil {
				return err
			}
			f.Nonce = d.nonce
			return d.relay(clone, f, d.operator, d.operator, d.env.Now())
		}},
		{what: "answering a turn of another thread", rule: "relay-reply", do: func(clone string) error {
			f, err := d.decision()
			if err != nil {
				return err
			}
			f.InReplyTo = d.foreign
			return d.relay(clone, f, d.operator, d.operator, d.env.Now())
		}},
		{what: "in another author's name", rule: "relay-author", do: func(clone string) error {
			f, err := d.decision()
			if err != nil {
				return err
			}
			return d.relay(clone, f, &signer{"Chief", "chief@example.com", nil}, d.operator, d.env.Now())
		}},
		{what: "signed by a key that nobody lists", rule: "commit-signed", do: func(clone string) error {
			f, err := d.decision()
			if err != nil {
				return err
			}
			return d.relay(clone, f, d.stranger, d.stranger, d.env.Now())
		}},
		{what: "signed by a key that has expired", rule: "commit-signed", do: func(clone string) error {
			f, err := d.decision()
			if err != nil {
				return err
			}
			return d.relay(clone, f, d.old, d.old, d.env.Now())
		}},
		{what: "a push that lists its own key and uses it", rule: "signers-change", do: func(clone string) error {
			file := filepath.Join(clone, filepath.FromSlash(policy.Signers))
			old, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			own := "stranger@example.com,op-relay " + string(ssh.MarshalAuthorizedKey(d.stranger.key.PublicKey()))
			if err := d.commit(clone, policy.Signers, append(old, own...)); err != nil {
				return err
			}
			f, err := d.decision()
			if err != nil {
				return err
			}
			return d.relay(clone, f, d.stranger, d.stranger, d.env.Now())
		}},
	}
}

// try plays one attempt: first as a person would, with the clone's own hooks,
// then past them.
func (d *demonstration) try(a attempt) (bool, error) {
	clone := filepath.Join(d.dir, "b")
	for _, args := range [][]string{{"fetch", "-q", "origin"}, {"checkout", "-q", "-B", "main", "origin/main"}} {
		if _, err := d.must(clone, args...); err != nil {
			return false, err
		}
	}
	_, _ = d.must(clone, "branch", "-q", "-D", "side")
	if err := a.do(clone); err != nil {
		return false, err
	}
	push := []string{"push", "-q"}
	if a.force {
		push = append(push, "--force")
	}
	here := "accepted"
	if a.rule != "" {
		res, err := d.git(clone, nil, nil, append(push, "origin", "HEAD:main")...)
		if err != nil {
			return false, err
		}
		here = outcome(res, a.rule)
		push = append(push, "--no-verify")
	}
	res, err := d.git(clone, nil, nil, append(push, "origin", "HEAD:main")...)
	if err != nil {
		return false, err
	}
	there := outcome(res, a.rule)
	want := "accepted"
	if a.rule != "" {
		want = "refused"
	}
	expected := want
	if a.rule != "" {
		expected += ": " + a.rule
	}
	ok := there == expected && here == expected
	mark := ""
	if !ok {
		mark = "  <- expected " + expected + "\n" + finding.Clean(string(res.Stderr))
	}
	_, err = fmt.Fprintf(d.env.Stdout, "%-46s %-10s %-30s %s%s\n", a.what, want, here, there, mark)
	return ok, err
}

var ruleInBrackets = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[([a-z-]+)\]`) })

// outcome says what became of a push, in words.
func outcome(res gitrepo.Result, rule string) string {
	if res.Code == 0 {
		return "accepted"
	}
	first := ""
	for _, m := range ruleInBrackets().FindAllStringSubmatch(string(res.Stderr), -1) {
		if m[1] == rule {
			return "refused: " + rule
		}
		if first == "" {
			first = m[1]
		}
	}
	return "refused: " + first
}

func (d *demonstration) hash(body string) string {
	return envelope.BodyHash(envelope.NormalizeBody([]byte(body)))
}

func (d *demonstration) write(clone, path string, data []byte) error {
	file := filepath.Join(clone, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

func (d *demonstration) commit(clone, path string, data []byte) error {
	if err := d.write(clone, path, data); err != nil {
		return err
	}
	if _, err := d.must(clone, "add", "--", path); err != nil {
		return err
	}
	_, err := d.must(clone, "commit", "-q", "--no-verify", "-m", "Send "+path)
	return err
}

func (d *demonstration) render(thread string, f envelope.Fields) ([]byte, error) {
	f.Thread = thread
	f.Date = d.env.Now().UTC().Format(time.DateOnly)
	f.BodyHash = envelope.BodyHash(envelope.NormalizeBody(f.Body))
	return envelope.Render(f)
}

// send commits an envelope as a client would, with the hooks on.
func (d *demonstration) send(clone, path string, f envelope.Fields) error {
	thread, _, _ := strings.Cut(path, "/")
	text, err := d.render(thread, f)
	if err != nil {
		return err
	}
	if err := d.write(clone, path, text); err != nil {
		return err
	}
	if _, err := d.must(clone, "add", "--", path); err != nil {
		return err
	}
	_, err = d.must(clone, "commit", "-q", "-m", f.Type+": "+path)
	return err
}

func (d *demonstration) edit(clone, path, old, now string) error {
	data, err := os.ReadFile(filepath.Join(clone, filepath.FromSlash(path)))
	if err != nil {
		return err
	}
	return d.commit(clone, path, bytes.ReplaceAll(data, []byte(old), []byte(now)))
}

func (d *demonstration) decision() (envelope.Fields, error) {
	nonce, err := relay.NewNonce(d.env.Now(), d.env.Rand)
	return envelope.Fields{
		From: "op-relay", To: []string{"rig-b"}, Type: "DECISIONS", Status: "▶ Relayed DECISIONS",
		InReplyTo: d.request, AttestedAt: d.env.Now().UTC().Format("2006-01-02T15:04:05.000Z"), Nonce: nonce, Body: []byte("Ship it.\n"),
	}, err
}

// relay commits a relay, signed by a key of the demo's own; a nil by leaves it
// unsigned.
func (d *demonstration) relay(clone string, f envelope.Fields, author, by *signer, when time.Time) error {
	committer := author
	if by != nil {
		committer = by
	}
	f.AttestedBy = ssh.FingerprintSHA256(committer.key.PublicKey())
	text, err := d.render("release-check", f)
	if err != nil {
		return err
	}
	path := "release-check/RELAY-" + f.Nonce + ".md"
	if _, err := os.Stat(filepath.Join(clone, filepath.FromSlash(path))); err == nil {
		path = "release-check/RELAY-again.md"
	}
	if err := d.commit(clone, path, text); err != nil {
		return err
	}
	tree, err := d.must(clone, "rev-parse", "HEAD^{tree}")
	if err != nil {
		return err
	}
	parent, err := d.must(clone, "rev-parse", "HEAD^")
	if err != nil {
		return err
	}
	head := fmt.Sprintf("tree %s\nparent %s\nauthor %s <%s> %d +0000\ncommitter %s <%s> %d +0000\n", tree, parent,
		author.name, author.email, when.Unix(), committer.name, committer.email, when.Unix())
	message := fmt.Sprintf("\n%s (relay): release-check nonce=%s\n", f.Type, f.Nonce)
	if by != nil {
		armor, err := sshsign.Sign([]byte(head+message), by.key, sshsign.NamespaceGit)
		if err != nil {
			return err
		}
		head += "gpgsig " + strings.ReplaceAll(strings.TrimSuffix(string(armor), "\n"), "\n", "\n ") + "\n"
	}
	res, err := d.git(clone, []byte(head+message), nil, "hash-object", "-t", "commit", "-w", "--stdin")
	if err != nil || res.Code != 0 {
		return fmt.Errorf("git hash-object failed: %w", err)
	}
	_, err = d.must(clone, "reset", "-q", "--hard", strings.TrimSpace(string(res.Stdout)))
	return err
}
