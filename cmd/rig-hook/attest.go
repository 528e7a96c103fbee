package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/cmd/internal/handover"
	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/attest"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// attestation signs statements of what the gates accepted, and verifies them
// (docs/spec/attestation.md).
func attestation(ctx context.Context, env *hooks.Env, f cli.Line) int {
	run := map[string]func(*attestor, context.Context) (int, error){"sign": (*attestor).sign, "verify": (*attestor).verify}[f.Word(0)]
	if run == nil {
		return fail(env, "attest", &policy.Undecided{Message: "expected sign or verify", Hint: "rig-hook attest verify"})
	}
	repo, err := repository(ctx, env, f)
	if err != nil {
		return fail(env, "attest", err)
	}
	defer repo.Close()
	code, err := run(&attestor{env: env, flags: f, repo: repo}, ctx)
	if err != nil {
		return fail(env, "attest "+f.Word(0), err)
	}
	return code
}

// startSigner starts this program, which lies at self, to sign what is due in the
// repository of a hook, which has taken the turn for it.
func startSigner(self, dir string, environ []string, turn *os.File) error {
	handOn(turn)
	return handover.Start(filepath.Base(self), self, "rig-hook", dir, []string{"attest", "sign"}, environ, turn)
}

// turn is what the hook that started this has taken for it, nil if none did; taken tells that
// another process has got it meanwhile, which does the work then.
func (a *attestor) turn() (turn *os.File, taken bool) {
	given, ok := a.env.Stdin.(*os.File)
	if !ok || !outbox.IsTurn(attest.Dir(a.repo.CommonDir()), given) {
		return nil, false
	}
	return given, errors.Is(files.TryLock(given), files.ErrLocked)
}

type attestor struct {
	env   *hooks.Env
	flags cli.Line
	repo  *gitrepo.Repo
	own   *attest.Key // of a server
}

// maxKeyFile is how many bytes of a key file are read.
const maxKeyFile = 1 << 20

// keyFile reads a file that the command line names, or the configuration,
// whose relative names are relative to the git directory.
func keyFile(dir, name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxKeyFile))
}

// private reads the key of a server, nil where none is configured.
func (a *attestor) private() error {
	name, _, err := a.repo.ConfigLast(hooks.AttestKey)
	if err != nil || name == "" {
		return err
	}
	unusable := func(err error) error {
		return &policy.Undecided{Message: hooks.AttestKey + " names " + finding.Quote(name) + ", which is of no use: " + finding.Clean(err.Error()),
			Hint: "as the user of the hooks: " + a.newKey(), Cause: err}
	}
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(a.repo.CommonDir(), file)
	}
	data, err := keyFile("", file)
	if err != nil {
		return unusable(err)
	}
	if info, err := os.Stat(file); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&fs.FileMode(0o077) != 0 {
		return &policy.Undecided{Message: "others can read " + finding.Quote(name) + ", and whoever reads it can attest", Hint: "chmod 600 " + finding.Word(file)}
	}
	if a.own, err = attest.ParseKey(data); err != nil {
		return unusable(err)
	}
	return nil
}

// keys are those whose statements count: those of --key, else those that
// rigward.attestTrust names, else those of the signers file; and at a server its own.
func (a *attestor) keys(ctx context.Context) (*attest.KeyRing, error) {
	d, err := hooks.NewDoor(ctx, a.repo)
	if err != nil {
		return nil, err
	}
	signers, revoked, err := d.Trust.Signers()
	if err != nil && d.Trust.Exists() {
		return nil, err
	}
	ring := &attest.KeyRing{}
	dir, names := a.env.Dir, a.flags.All("--key")
	if len(names) == 0 {
		dir = a.repo.CommonDir()
		if names, err = a.repo.Config("rigward.attestTrust"); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		data, err := keyFile(dir, name)
		if err == nil {
			err = ring.AddFile(data, revoked)
		}
		if err != nil {
			return nil, &policy.Undecided{Message: "the key file " + finding.Quote(name) + " is of no use: " + finding.Clean(err.Error()), Cause: err}
		}
	}
	if len(names) == 0 && signers != nil {
		ring.AddSigners(signers, revoked, a.env.Now())
	}
	if a.own != nil && !a.flags.Has("--key") {
		ring.AddKey(a.own.Public, revoked)
	}
	return ring, nil
}

// newKey is the command that makes a key and names it to the repository at hand,
// which looks for a relative name in its own directory.
func (a *attestor) newKey() string {
	git := "git"
	if a.flags.Has("--server") {
		git += " -C " + finding.Word(a.flags.Get("--server"))
	}
	return "ssh-keygen -q -t ed25519 -N '' -f KEY && " + git + " config " + hooks.AttestKey + ` "$PWD/KEY"`
}

// sign makes the statements that are due.
func (a *attestor) sign(ctx context.Context) (int, error) {
	if err := a.private(); err != nil {
		return 0, err
	}
	if a.own == nil {
		return 0, &policy.Undecided{Message: hooks.AttestKey + " names no key", Hint: a.newKey()}
	}
	var beat time.Duration
	if text := a.flags.Get("--beat"); text != "" {
		var err error
		if beat, err = time.ParseDuration(text); err != nil || beat <= 0 {
			return 0, &policy.Undecided{Message: "--beat is " + finding.QuoteMax(text, 40) + ", expected a duration such as 1h"}
		}
	}
	uuid, err := hooks.Identify(ctx, a.repo)
	if err != nil {
		return 0, err
	}
	uri, _, err := a.repo.ConfigLast("rigward.attestUri")
	if err != nil {
		return 0, err
	}
	keys, err := a.keys(ctx)
	if err != nil {
		return 0, err
	}
	if _, worth := keys.Judge(a.own.ID); worth != attest.Good {
		return 0, &policy.Undecided{Message: "the key " + a.own.ID + " is revoked", Hint: "make another one: " + a.newKey()}
	}
	s := attest.Signer{Repo: a.repo, Key: a.own, UUID: uuid, URI: cmp.Or(uri, "urn:uuid:"+uuid), Version: version.String(), Now: a.env.Now}
	turn, taken := a.turn()
	if taken {
		return report.ExitClean, nil
	}
	s.Turn = turn
	made, err := s.Sign(ctx, keys, beat)
	if err == nil {
		fmt.Fprintf(a.env.Stdout, "attest: %s signed\n", count(made, "statement"))
	}
	return report.ExitClean, err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// maxProblems is how many problems are told.
const maxProblems = 100

// verify reports whether every update has its statement.
func (a *attestor) verify(ctx context.Context) (int, error) {
	if err := a.private(); err != nil {
		a.own = nil // who verifies need not be who signs
	}
	keys, err := a.keys(ctx)
	if err != nil {
		return 0, err
	}
	if keys.Empty() {
		return 0, &policy.Undecided{Message: "no key is known whose statements count", Hint: atServer(a.flags, "rig-hook attest verify --key KEY.pub")}
	}
	tip, ok, err := a.repo.Ref(attest.Ref)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, &policy.Undecided{Message: "there is no " + attest.Ref, Hint: "git fetch origin " + attest.Ref + ":" + attest.Ref}
	}
	only := a.flags.Get("--ref")
	var chain attest.Chain
	updates, had := 0, map[string]map[string]bool{}
	since, from := a.flags.Get("--since"), int64(0)
	found, err := chain.Verify(ctx, attest.Git(a.repo), tip, keys, func(s *attest.Signed) {
		for _, m := range s.Predicate.Update.Moves {
			if had[m.Ref] == nil {
				had[m.Ref] = map[string]bool{}
			}
			had[m.Ref][m.New] = true
			if only == "" || only == m.Ref {
				updates++
			}
		}
		if since != "" && attest.Digest(s.Payload) == since {
			from = s.Predicate.Update.Sequence
		}
	})
	if err != nil {
		return 0, err
	}
	if since != "" && from == 0 {
		return 0, &policy.Undecided{Message: "no statement has the digest " + finding.QuoteMax(since, 80)}
	}
	found = append(found, chain.Ends()...)
	seen, err := a.witnessed(ctx, &attest.Memory{Chain: chain})
	if err != nil {
		return 0, err
	}
	found = append(found, seen...)
	more, err := a.against(ctx, &chain, had)
	if err != nil {
		return 0, err
	}
	found = slices.DeleteFunc(append(found, more...), func(p attest.Problem) bool {
		return only != "" && p.Ref != "" && p.Ref != only || p.Sequence >= 0 && p.Sequence < from
	})
	if only != "" && had[only] == nil && len(found) == 0 {
		return 0, &policy.Undecided{Message: "no statement names the ref " + finding.Quote(only), Hint: "name it in full, such as refs/heads/main"}
	}
	for i, p := range found {
		if i == maxProblems {
			fmt.Fprintf(a.env.Stdout, "%d more\n", len(found)-i)
			break
		}
		fmt.Fprintln(a.env.Stdout, p)
	}
	what := fmt.Sprintf("%s, %s of %s, the last of %s", count(int(chain.Size), "statement"), count(updates, "ref update"), finding.Path(cmp.Or(only, "all refs")), finding.Clean(chain.Time))
	if only == "" {
		what = fmt.Sprintf("%s, %s, the last of %s", count(int(chain.Size), "statement"), count(updates, "ref update"), finding.Clean(chain.Time))
	}
	if len(found) > 0 {
		fmt.Fprintf(a.env.Stdout, "attest: %s in %s\n", count(len(found), "problem"), what)
		return report.ExitFindings, nil
	}
	fmt.Fprintf(a.env.Stdout, "attest: clean: %s, repository %s, digest %s\n", what, chain.Repository, chain.Last)
	return report.ExitClean, nil
}

// witnessed compares a chain with what the witnesses have published that
// rigward.witness names.
func (a *attestor) witnessed(ctx context.Context, m *attest.Memory) (found []attest.Problem, err error) {
	lines, err := a.repo.Config("rigward.witness")
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		key, file, _ := strings.Cut(line, " ")
		data, err := keyFile(a.repo.CommonDir(), file)
		var seen *attest.Seen
		if err == nil {
			seen, err = attest.OpenNote(data, key)
		}
		if err != nil {
			return nil, &policy.Undecided{Message: "the note of a witness in " + finding.Quote(file) + " is of no use: " + finding.Clean(err.Error()), Cause: err}
		}
		text := ""
		if seen.Origin != m.Origin() {
			text = "it saw the chain " + finding.QuoteMax(seen.Origin, 80)
		} else if text, err = m.Check(ctx, attest.Git(a.repo), seen.Head); err != nil {
			return nil, err
		}
		if text != "" {
			name, _, _ := strings.Cut(key, "+")
			found = append(found, attest.Problem{Sequence: -1, Message: "the witness " + finding.QuoteMax(name, 60) + ": " + text})
		}
	}
	return found, nil
}

// witness follows a chain and cosigns its head, where it continues all that was seen
// before (docs/spec/attestation.md#witness).
func witness(ctx context.Context, env *hooks.Env, f cli.Line) int {
	repo, err := repository(ctx, env, f)
	if err != nil {
		return fail(env, "witness", err)
	}
	defer repo.Close()
	a := &attestor{env: env, flags: f, repo: repo}
	data, err := keyFile(env.Dir, f.Get("--sign"))
	var key *attest.Key
	if err == nil {
		key, err = attest.ParseKey(data)
	}
	if err != nil {
		return fail(env, "witness", &policy.Undecided{Message: "the key " + finding.Quote(f.Get("--sign")) + " is of no use: " + finding.Clean(err.Error()),
			Hint: "ssh-keygen -t ed25519 -N '' -f KEY", Cause: err})
	}
	code, err := a.witness(ctx, key, f.Get("--name"))
	if err != nil {
		return fail(env, "witness", err)
	}
	return code
}

func (a *attestor) witness(ctx context.Context, key *attest.Key, name string) (int, error) {
	keys, err := a.keys(ctx)
	if err != nil {
		return 0, err
	}
	tip, _, err := a.repo.Ref(attest.Ref)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(attest.SeenDir(a.repo.CommonDir()), "witness.json")
	m, err := attest.ReadMemory(file)
	if err != nil {
		return 0, err
	}
	if tip == "" && m.Size == 0 {
		return 0, &policy.Undecided{Message: "there is no " + attest.Ref, Hint: "git fetch origin +" + attest.Ref + ":" + attest.Ref}
	}
	found, gaps, err := m.Follow(ctx, attest.Git(a.repo), tip, keys)
	if err != nil {
		return 0, err
	}
	for _, p := range append(found, gaps...) {
		fmt.Fprintf(a.env.Stderr, "witness: %s\n", p)
	}
	if len(found) > 0 {
		return report.ExitFindings, nil
	}
	// It is remembered before anybody gets it.
	if err := m.Write(file); err != nil {
		return 0, err
	}
	note, err := m.Witnessed(a.repo, key, name, a.env.Now())
	if err != nil {
		return 0, &policy.Undecided{Message: err.Error()}
	}
	if out := a.flags.Get("--out"); out != "" {
		if !filepath.IsAbs(out) {
			out = filepath.Join(a.env.Dir, out)
		}
		if err := files.Replace(out, note, 0o644); err != nil {
			return 0, err
		}
		fmt.Fprintln(a.env.Stdout, key.VKey(name))
		return report.ExitClean, nil
	}
	_, err = a.env.Stdout.Write(note)
	return report.ExitClean, err
}

// against compares a chain with the repository at hand: whose it is, and what its
// refs have. A clone may be behind.
func (a *attestor) against(ctx context.Context, c *attest.Chain, had map[string]map[string]bool) (found []attest.Problem, err error) {
	bad := func(ref, text string) { found = append(found, attest.Problem{Sequence: -1, Ref: ref, Message: text}) }
	uuid, _, err := a.repo.ConfigLast("rigward.uuid")
	if err != nil {
		return nil, err
	}
	if uuid = cmp.Or(a.flags.Get("--uuid"), uuid); uuid != "" && uuid != c.Repository.UUID {
		bad("", "the chain is of another repository, "+c.Repository.String()+", expected UUID "+finding.QuoteMax(uuid, 40))
	}
	if c.Repository.Root != "" {
		types, err := a.repo.Has([]string{c.Repository.Root})
		if err != nil {
			return nil, err
		}
		if types[0] == "" {
			bad("", "the chain is of another repository: its first commit "+finding.Short(c.Repository.Root)+" is not here")
		}
	}
	refs := map[string]string{}
	if a.repo.Bare() {
		for ref, err := range a.repo.Refs(ctx) {
			if err != nil {
				return nil, err
			}
			if ref.Target == "" {
				refs[ref.Name] = ref.ID
			}
		}
		for _, name := range c.Refs() {
			if refs[name] == "" {
				bad(name, "it is gone, and no statement says so")
			}
		}
	} else {
		at, err := a.repo.Remote(ctx, "origin")
		if err != nil {
			return nil, err
		}
		refs = at.Refs
	}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		id := refs[name]
		switch {
		case c.At[name] == id || !attest.Names(name):
		case a.repo.Bare():
			bad(name, "it is at "+finding.Short(id)+", and no statement says how it came there; if it was pushed just now: rig-hook attest sign")
		case !had[name][id]:
			bad(name, "it is at "+finding.Short(id)+", which no statement names; if it was pushed just now: git fetch origin "+attest.Ref+":"+attest.Ref)
		}
	}
	return found, nil
}
