package hooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/attest"
	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// AttestKey is the option that names the key by which a server attests.
const AttestKey = "rigward.attestKey"

const (
	// attestWait is how long a gate waits until its acceptance is on the disk: a
	// push that nobody could attest is not accepted.
	attestWait = 2 * time.Second
	// attestBytes is about how many bytes of refs one record tells.
	attestBytes = 24 << 10
)

// Attests returns where the gates of a repository tell what they accept, "" where
// no key is configured.
func Attests(repo *gitrepo.Repo) (string, error) {
	key, _, err := repo.ConfigLast(AttestKey)
	if err != nil || key == "" {
		return "", err
	}
	return attest.Dir(repo.CommonDir()), nil
}

// attests tells what is about to be accepted, before any ref moves
// (docs/spec/attestation.md#how). An error refuses the push.
func (g *gate) attests(d *Door, updates []change.RefUpdate) error {
	dir, err := Attests(g.repo)
	if err != nil || dir == "" {
		return err
	}
	v, err := json.Marshal(g.verified(d, updates))
	if err != nil {
		return err
	}
	moves := make([]outbox.Ref, len(updates))
	for i, u := range updates {
		if u.Ref, err = target(g.repo, u.Ref); err != nil {
			return err
		}
		if !utf8.ValidString(u.Ref) {
			return &policy.Undecided{Message: "the ref " + finding.Quote(u.Ref) + " is not UTF-8, so no attestation can name it", Hint: "give it another name"}
		}
		moves[i] = outbox.Ref{Name: u.Ref, Old: u.Old, New: u.New}
	}
	push := outbox.NewID()
	if g.name == "update" {
		if toldOf(dir, moves) {
			return nil
		}
	}
	for len(moves) > 0 {
		n, size := 0, 0
		for n < len(moves) && (n == 0 || size+2*len(moves[n].Name) < attestBytes) && n < maxLoggedRefs {
			size += 2*len(moves[n].Name) + 200
			n++
		}
		r := outbox.Record{ID: outbox.NewID(), Push: push, Stage: outbox.Judged, Hook: g.name, At: g.judge.Now.UTC().Format(outbox.Time), Refs: moves[:n], Verified: v}
		if err := outbox.Append(dir, r, attestWait); err != nil {
			return &policy.Undecided{Message: "what is to be attested cannot be written down, so the push is not accepted",
				Hint: "let the user of the hooks write to " + finding.Path(filepath.ToSlash(dir)) + ", on a disk with room", Cause: err}
		}
		moves = moves[n:]
	}
	return nil
}

// toldOf reports whether pre-receive has told of these ref updates already, and
// they have not landed since.
func toldOf(dir string, moves []outbox.Ref) bool {
	told := map[outbox.Ref]bool{}
	for _, r := range outbox.Latest(dir) {
		for _, ref := range r.Refs {
			told[ref] = r.Stage == outbox.Judged
		}
	}
	for _, m := range moves {
		if !told[m] {
			return false
		}
	}
	return true
}

// verified is what the gate judged by, and how much.
func (g *gate) verified(d *Door, updates []change.RefUpdate) attest.Verified {
	v := attest.Verified{Hook: g.name, Head: d.HeadID, Policy: g.pol.Digest, Commits: g.judge.Commits, Envelopes: g.judge.Envelopes, Relays: g.judge.Relays}
	v.Signers, v.Revoked = d.Trust.Digests()
	h := sha256.New()
	for _, r := range policy.Rules() {
		fmt.Fprintf(h, "%s %s\n", r.ID, g.pol.Level(r.ID))
	}
	v.Rules = hex.EncodeToString(h.Sum(nil))
	for _, u := range updates {
		if guarded, _ := d.Guard(u.Ref); guarded && len(v.Guarded) < maxLoggedRefs {
			v.Guarded = append(v.Guarded, u.Ref)
		}
	}
	return v
}

// attested tells which refs have moved, where a key is configured, and starts
// what signs. Nothing here refuses.
func attested(ctx context.Context, env *Env, updates []change.RefUpdate) error {
	repo, err := gitrepo.OpenIdle(ctx, gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
	if err != nil {
		return err
	}
	defer repo.Close()
	dir, err := Attests(repo)
	if err != nil || dir == "" {
		return err
	}
	at := env.Now().UTC().Format(outbox.Time)
	for len(updates) > 0 {
		r := outbox.Record{ID: outbox.NewID(), Push: "landed", Stage: outbox.Landed, Hook: "post-receive", At: at}
		for size := 0; len(updates) > 0 && size < attestBytes; updates = updates[1:] {
			u := updates[0]
			if u.Ref, err = target(repo, u.Ref); err != nil {
				return err
			}
			r.Refs, size = append(r.Refs, outbox.Ref{Name: u.Ref, Old: u.Old, New: u.New}), size+2*len(u.Ref)+200
		}
		if err := outbox.Append(dir, r, attestWait); err != nil {
			return err
		}
	}
	if env.Attest == nil {
		return nil
	}
	// Of pushes that land while a signer runs, the first starts the next one, which takes what
	// all of them have told above.
	turn, err := outbox.Turn(dir)
	if errors.Is(err, files.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer turn.Close()
	return env.Attest(turn)
}
