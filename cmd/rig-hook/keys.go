package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// keys shows and edits who may sign as whom. It edits the signers file of the
// work tree; the change takes effect when a trusted signer has committed and
// pushed it.
func keys(ctx context.Context, env *hooks.Env, f cli.Line) int {
	if len(f.Words) == 0 {
		return fail(env, "keys", &policy.Undecided{Message: "expected one of list, add, remove, revoke, test", Hint: "rig-hook keys list"})
	}
	repo, err := repository(ctx, env, f)
	if err != nil {
		return fail(env, "keys", err)
	}
	defer repo.Close()
	k := &keyring{ctx: ctx, env: env, repo: repo, flags: f}
	verb := f.Words[0]
	k.words = f.Words[1:]
	run := map[string]func() error{"list": k.list, "add": k.add, "remove": k.remove, "revoke": k.revoke, "test": k.test}[verb]
	if run == nil {
		err = &policy.Undecided{Message: "unknown word " + finding.QuoteMax(verb, 40) + ", expected one of list, add, remove, revoke, test"}
	} else if f.Has("--server") && verb != "revoke" {
		err = &policy.Undecided{Message: "--server is for revoke alone", Hint: "rig-hook keys revoke --server DIR KEY"}
	} else if given := f.Given("--namespaces", "--valid-after", "--valid-before"); len(given) > 0 && verb != "add" {
		err = &policy.Undecided{Message: given[0] + " is for add alone", Hint: "rig-hook keys --help"}
	} else if f.Has("--server") {
		err = k.revokeAtServer()
	} else if err = k.open(); err == nil && verb != "list" && verb != "test" {
		err = alone(filepath.Join(repo.CommonDir(), "rigward", "keys.lock"), run)
	} else if err == nil {
		err = run()
	}
	if errors.Is(err, errRefused) {
		return report.ExitFindings
	}
	if err != nil {
		return fail(env, "keys "+verb, err)
	}
	return report.ExitClean
}

var errRefused = errors.New("refused")

type keyring struct {
	ctx    context.Context
	env    *hooks.Env
	repo   *gitrepo.Repo
	flags  cli.Line
	words  []string
	policy *policy.Policy
	file   string        // of the signers, in the work tree or as --file names it
	key    ssh.PublicKey // that a word names by its file
}

func (k *keyring) open() error {
	if err := k.readPolicy(); err != nil {
		return err
	}
	if name := k.flags.Get("--file"); name != "" {
		k.file = name
		if !filepath.IsAbs(name) {
			k.file = filepath.Join(k.env.Dir, name)
		}
		return nil
	}
	if k.repo.WorkTree() == "" {
		return &policy.Undecided{Message: "this repository has no work tree", Hint: "name the signers file: --file FILE"}
	}
	k.file = filepath.Join(k.repo.WorkTree(), filepath.FromSlash(k.policy.Signers))
	return nil
}

// readPolicy reads the policy of the work tree, for that is what will be
// committed along with the files it names, else that of HEAD.
func (k *keyring) readPolicy() error {
	_, set, err := k.repo.ConfigLast("rigward.policy")
	if err != nil {
		return err
	}
	if top := k.repo.WorkTree(); top != "" && !set {
		data, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(policy.Path)))
		if err == nil {
			k.policy, err = policy.DecodeFile(data, policy.FromRepository, policy.Path)
			return err
		}
		if !errors.Is(err, os.ErrNotExist) {
			return &policy.Undecided{Message: "the policy " + policy.Path + " cannot be read", Cause: err}
		}
	}
	l := hooks.NewLoader(k.repo)
	_, head, err := k.repo.HEAD()
	if err != nil {
		return err
	}
	k.policy, _, err = l.AtCommit(head)
	return err
}

func (k *keyring) read() ([]byte, *sshsign.Signers, error) {
	data, err := os.ReadFile(k.file)
	if err != nil {
		return nil, nil, &policy.Undecided{Message: "the signers file " + finding.Quote(k.file) + " cannot be read", Hint: "rig-hook keys add PRINCIPALS KEY-FILE", Cause: err}
	}
	s, err := sshsign.ParseSigners(data)
	if err != nil {
		return nil, nil, malformed("the signers file "+finding.Quote(k.file)+" is", err)
	}
	return data, s, nil
}

// malformed tells of a file of keys what is wrong with a line of it, and what repairs that.
func malformed(what string, err error) error {
	u := &policy.Undecided{Message: what + " malformed: " + finding.Clean(err.Error()), Cause: err}
	var p *sshsign.ParseError
	if errors.As(err, &p) {
		u.Hint = p.Hint
	}
	return u
}

// list prints one line a signer: who, with which key, from when until when.
func (k *keyring) list() error {
	_, s, err := k.read()
	if err != nil {
		return err
	}
	revoked, err := k.revocations()
	if err != nil {
		return err
	}
	now := k.env.Now()
	for _, line := range s.List() {
		state := "valid"
		v := k.judge(s, revoked, line, now)
		switch {
		case !line.ValidAfter.IsZero() && now.Before(line.ValidAfter):
			state = "not yet valid"
		case !line.ValidBefore.IsZero() && now.After(line.ValidBefore):
			state = "expired"
		case v.Reason == sshsign.UnknownKey:
			state = "not for commits (namespaces)"
		case !v.Good():
			state = "not accepted: " + finding.Clean(cmp.Or(v.Detail, string(v.Reason)))
		}
		window := ""
		if !line.ValidAfter.IsZero() {
			window += " from " + line.ValidAfter.UTC().Format(time.RFC3339)
		}
		if !line.ValidBefore.IsZero() {
			window += " until " + line.ValidBefore.UTC().Format(time.RFC3339)
		}
		kind := line.Key.Type()
		if line.CertAuthority {
			kind += " (certificate authority)"
		}
		fmt.Fprintf(k.env.Stdout, "%s %s %s: %s%s\n", finding.Clean(line.Principals), kind, line.Fingerprint(), state, window)
	}
	return nil
}

// judge says what a signature by the key of a line would be worth, by all that
// commits are judged by. Of a certificate authority that is its own key.
func (k *keyring) judge(s *sshsign.Signers, revoked *sshsign.Revocations, line sshsign.Signer, at time.Time) sshsign.Verdict {
	if line.CertAuthority {
		own, err := sshsign.ParseSigners(append([]byte("* "), ssh.MarshalAuthorizedKey(line.Key)...))
		if err != nil {
			return sshsign.Verdict{Reason: sshsign.UnsupportedType, Detail: err.Error()}
		}
		s = own
	}
	return s.Judge(line.Key, revoked, sshsign.Options{At: at, MinRSABits: k.policy.MinRSABits})
}

// revocations reads the revocation file of the work tree that the policy names,
// nil if it names none.
func (k *keyring) revocations() (*sshsign.Revocations, error) {
	if k.policy.Revoked == "" || k.repo.WorkTree() == "" {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(k.repo.WorkTree(), filepath.FromSlash(k.policy.Revoked)))
	if err != nil {
		return nil, &policy.Undecided{Message: "the revocation file " + finding.Path(k.policy.Revoked) + " that the policy names cannot be read", Hint: "rig-hook keys revoke KEY, or take the key revoked out of " + policy.Path, Cause: err}
	}
	revoked, err := sshsign.ParseRevocations(data)
	if err != nil {
		return nil, malformed("the revocation file is", err)
	}
	return revoked, nil
}

// add appends a line for a public key: rig-hook keys add PRINCIPALS KEY-FILE.
func (k *keyring) add() error {
	if len(k.words) != 2 {
		return &policy.Undecided{Message: "expected PRINCIPALS and a public key file", Hint: "rig-hook keys add op@example.com,op-relay ~/.ssh/id_ed25519.pub"}
	}
	key, err := k.publicKey(k.words[1])
	if err != nil {
		return err
	}
	principals := k.words[0]
	if strings.HasPrefix(principals, ",") { // as "$(git config user.email),rig-a" is where nobody has set it
		return &policy.Undecided{Message: "the first of the principals " + finding.Quote(principals) + " is empty, the address of commits was expected",
			Hint: "git config user.email, which names it, prints nothing where none is set: git config --global user.email ADDRESS"}
	}
	if strings.ContainsAny(principals, " \t") {
		principals = `"` + principals + `"`
	}
	line := principals + " "
	var options []string
	for _, o := range []string{"namespaces", "valid-after", "valid-before"} {
		if v := k.flags.Get("--" + o); k.flags.Has("--" + o) {
			options = append(options, o+`="`+v+`"`)
		}
	}
	if len(options) > 0 {
		line += strings.Join(options, ",") + " "
	}
	line += strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\n"
	old, err := os.ReadFile(k.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(old) > 0 && !bytes.HasSuffix(old, []byte("\n")) {
		old = append(old, '\n')
	}
	if bytes.HasPrefix(old, []byte(line)) || bytes.Contains(old, []byte("\n"+line)) {
		fmt.Fprintf(k.env.Stdout, "already listed: %s\n", ssh.FingerprintSHA256(key))
		return nil
	}
	revoked, err := k.revocations()
	if err != nil {
		return err
	}
	if s, err := sshsign.ParseSigners([]byte(line)); err == nil {
		added := s.List()[0]
		at := k.env.Now()
		if at.Before(added.ValidAfter) {
			at = added.ValidAfter
		}
		// Until when it holds and what for is the caller's word.
		if v := k.judge(s, revoked, added, at); v.Reason == sshsign.UnsupportedType || v.Reason == sshsign.Revoked {
			fmt.Fprintf(k.env.Stderr, "rig-hook: keys add: no commit that this key signs would be accepted: %s\n", finding.Clean(v.Detail))
			fmt.Fprintf(k.env.Stderr, "hint: ssh-keygen -t ed25519, then rig-hook keys add %s ~/.ssh/id_ed25519.pub\n", finding.Word(k.words[0]))
			return errRefused
		}
	}
	return k.write(append(old, line...), "added "+ssh.FingerprintSHA256(key))
}

// publicKey reads a public key file.
func (k *keyring) publicKey(name string) (ssh.PublicKey, error) {
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(k.env.Dir, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, &policy.Undecided{Message: "the key file " + finding.Quote(name) + " cannot be read", Hint: "ssh-keygen -t ed25519 makes ~/.ssh/id_ed25519.pub; name the file that ends in .pub", Cause: err}
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, &policy.Undecided{Message: finding.Quote(name) + " is not a public key", Hint: "name the file that ends in .pub"}
	}
	return key, nil
}

// remove takes every line of a key out: rig-hook keys remove KEY.
func (k *keyring) remove() error {
	data, s, err := k.read()
	if err != nil {
		return err
	}
	fp, err := k.fingerprint()
	if err != nil {
		return err
	}
	drop := map[int]bool{}
	for _, line := range s.List() {
		if line.Fingerprint() == fp {
			drop[line.Line] = true
		}
	}
	if len(drop) == 0 {
		return k.unlisted(fp)
	}
	var kept []byte
	n := 0
	for line := range bytes.Lines(data) {
		if n++; !drop[n] {
			kept = append(kept, line...)
		}
	}
	lines := "1 line"
	if len(drop) > 1 {
		lines = fmt.Sprintf("%d lines", len(drop))
	}
	return k.write(kept, "removed "+lines+" of "+fp)
}

// revoke adds a key to the revocation file that the policy names: it counts
// for signatures of any date. A key that is no longer listed is named by its
// file.
func (k *keyring) revoke() error {
	fp, err := k.fingerprint()
	if err != nil {
		return err
	}
	if k.repo.WorkTree() == "" {
		return &policy.Undecided{Message: "this repository has no work tree"}
	}
	if k.policy.Revoked == "" {
		const line, file = "revoked: " + policy.Revoked, policy.Path
		hint := "echo '" + line + "' >>" + file
		if _, err := os.Stat(filepath.Join(k.repo.WorkTree(), filepath.FromSlash(file))); err != nil {
			hint = "printf 'version: 1\\n" + line + "\\n' >" + file
		}
		return &policy.Undecided{Message: "the policy names no revocation file", Hint: hint}
	}
	file := filepath.Join(k.repo.WorkTree(), filepath.FromSlash(k.policy.Revoked))
	key := k.key
	if key == nil {
		_, s, err := k.read()
		if err != nil {
			return err
		}
		if key = listedKey(s, fp); key == nil {
			return k.unlisted(fp)
		}
	}
	if err := addRevoked(file, k.policy.Revoked, key); err != nil {
		return err
	}
	fmt.Fprintf(k.env.Stdout, "revoked %s; commit %s and the policy that names it together, signed\n", fp, finding.Path(k.policy.Revoked))
	return nil
}

// alone runs what reads a file and writes it anew while nobody else does: of two
// revocations at once neither may be lost. The lock is a file that stays.
func alone(lock string, run func() error) error {
	if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE|files.NoFollow, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	files.Share(lock)
	if err := files.Lock(f); err != nil {
		return fmt.Errorf("lock %s: %w", finding.Quote(lock), err)
	}
	return run()
}

// listedKey returns the key of that fingerprint, nil if no line has it.
func listedKey(s *sshsign.Signers, fp string) (key ssh.PublicKey) {
	for _, line := range s.List() {
		if line.Fingerprint() == fp {
			key = line.Key
		}
	}
	return key
}

// addRevoked adds a key to a revocation file. name is how people call it.
func addRevoked(file, name string, key ssh.PublicKey) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if bytes.HasPrefix(old, []byte("SSHKRL")) {
		return &policy.Undecided{Message: finding.Quote(file) + " is a KRL, which only ssh-keygen edits", Hint: "ssh-keygen -k -u -f " + finding.Word(name) + " KEY-FILE"}
	}
	if len(old) > 0 && !bytes.HasSuffix(old, []byte("\n")) {
		old = append(old, '\n')
	}
	if r, err := sshsign.ParseRevocations(old); err == nil && r.Revokes(key) {
		return nil
	}
	text := append(old, ssh.MarshalAuthorizedKey(key)...)
	if _, err := sshsign.ParseRevocations(text); err != nil {
		return malformed("the revocation file would be", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return files.Replace(file, text, 0o644)
}

// revokeAtServer adds a key to the server's own revocation file, which its
// configuration names, and which it makes if there is none.
func (k *keyring) revokeAtServer() error {
	fp, err := k.fingerprint()
	if err != nil {
		return err
	}
	key := k.key
	if key == nil {
		d, err := hooks.NewDoor(k.ctx, k.repo)
		if err != nil {
			return err
		}
		s, _, err := d.Trust.Signers()
		if err != nil {
			return err
		}
		if key = listedKey(s, fp); key == nil {
			return &policy.Undecided{Message: "no line of the signers file has the key " + finding.QuoteMax(fp, 80), Hint: "name its public key file: " + atServer(k.flags, "rig-hook keys revoke") + " FILE.pub"}
		}
	}
	const option, own = "rigward.revoked", "rigward-revoked"
	name, _, err := k.repo.ConfigLast(option)
	if err != nil {
		return err
	}
	file := name
	if name == "" {
		file = own
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(k.repo.CommonDir(), file)
	}
	err = alone(file+".lock", func() error {
		if err := addRevoked(file, file, key); err != nil {
			return err
		}
		files.Share(file)
		if name == "" {
			return hooks.Configure(k.ctx, k.repo, option, own)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(k.env.Stdout, "revoked %s in %s; it counts from now on, for signatures of any date\n", fp, finding.Quote(filepath.ToSlash(file)))
	return nil
}

// fingerprint is that of the one key that the words name, by itself or by a
// file.
func (k *keyring) fingerprint() (string, error) {
	if len(k.words) != 1 {
		return "", &policy.Undecided{Message: "expected one key, its fingerprint or its public key file", Hint: "rig-hook keys list"}
	}
	word := k.words[0]
	if strings.HasPrefix(word, "SHA256:") {
		return strings.TrimSuffix(word, "="), nil
	}
	key, err := k.publicKey(word)
	if err != nil {
		return "", &policy.Undecided{Message: finding.QuoteMax(word, 80) + " is neither a fingerprint (SHA256:…) nor a public key file", Hint: "rig-hook keys list", Cause: err}
	}
	k.key = key
	return ssh.FingerprintSHA256(key), nil
}

func (k *keyring) unlisted(fp string) error {
	return &policy.Undecided{Message: "no line of " + finding.Quote(k.file) + " has the key " + finding.QuoteMax(fp, 80), Hint: "rig-hook keys list"}
}

// test tells what the signature of a commit is worth under the signers file
// of the work tree: exit 0 if it is good, 1 if not.
func (k *keyring) test() error {
	word := "HEAD"
	if len(k.words) > 0 {
		word = k.words[0]
	}
	id, err := k.repo.Resolve(k.ctx, word)
	if err != nil {
		return err
	}
	_, s, err := k.read()
	if err != nil {
		return err
	}
	revoked, err := k.revocations()
	if err != nil {
		return err
	}
	c, err := k.repo.Commit(id)
	if err != nil {
		return err
	}
	v := sshsign.VerifyCommit(c.Raw, sshsign.ObjectFormat(k.repo.ObjectFormat()), s, revoked, sshsign.Options{MinRSABits: k.policy.MinRSABits})
	text := id + ": " + v.Why()
	if v.Fingerprint != "" {
		text += ", key " + v.Fingerprint
	}
	if v.Good() {
		text += fmt.Sprintf(", principals %s (line %d)", finding.Clean(strings.Join(v.Principals, " ")), v.Line)
		if !v.Speaks(c.Committer.Email) {
			text += ", which does not list the committer " + finding.Quote(c.Committer.Email)
		}
	}
	fmt.Fprintln(k.env.Stdout, text)
	if !v.Good() || !v.Speaks(c.Committer.Email) {
		return errRefused
	}
	return nil
}

// write replaces the signers file if its new content is well-formed.
func (k *keyring) write(data []byte, did string) error {
	if len(bytes.TrimSpace(data)) > 0 {
		if _, err := sshsign.ParseSigners(data); err != nil {
			return malformed("the signers file would be", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(k.file), 0o755); err != nil {
		return err
	}
	if err := files.Replace(k.file, data, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(k.env.Stdout, "%s; commit the signers file, signed\n", did)
	if s, err := sshsign.ParseSigners(data); err != nil || len(s.List()) == 0 { // on the way from one key to another
		fmt.Fprintf(k.env.Stderr, "rig-hook: keys remove: the file lists no key any more, and no gate takes such a one\n"+
			"hint: list another one in the same commit: rig-hook keys add PRINCIPALS KEY-FILE\n")
	}
	return nil
}
