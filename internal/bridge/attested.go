package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/attest"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// follows reports whether this clone follows the attestations of its remotes
// (docs/spec/attestation.md#memory).
func (w *work) follows() (bool, error) {
	on, _, err := w.repo.ConfigBool("rigward.attestFollow")
	return on, gitProblemOrNil(err)
}

// memoryFile is where this clone remembers what it saw of a remote's chain.
func (w *work) memoryFile(remote string) string {
	sum := sha256.Sum256([]byte(remote))
	return filepath.Join(attest.SeenDir(w.repo.CommonDir()), hex.EncodeToString(sum[:8])+".json")
}

// A sighting is the head of a chain that a witness saw, before this clone looked.
type sighting struct {
	attest.Head
	by string
	at time.Time

	origin string // of the chain, "" where it is known to be this one
}

// witnessed reads what the witnesses have published that rigward.witness names, each
// as its key and the file that its note comes to. It is read before the chain is.
func (w *work) witnessed() (all []sighting, err error) {
	lines, err := w.repo.Config("rigward.witness")
	if err != nil {
		return nil, gitProblem(err)
	}
	for _, line := range lines {
		key, file, _ := strings.Cut(line, " ")
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, cannotRead(file, err)
		}
		seen, err := attest.OpenNote(data, key)
		if err != nil {
			return nil, fail(codeRefused, "the note of a witness in %s is of no use: %s", quote(file), err.Error())
		}
		name, _, _ := strings.Cut(key, "+")
		all = append(all, sighting{seen.Head, "the witness " + finding.QuoteMax(name, 60), seen.At, seen.Origin})
	}
	return all, nil
}

// attested fetches the chain of a remote's attestations, refuses what does not
// continue what was seen, by this clone, by witnesses, or by who sent the messages
// of theirs that head lacks, and remembers the rest.
func (r *run) attested(w *work, t target, before []sighting, head, theirs string) error {
	refuse := func(format string, args ...any) *failure {
		return fail(codeRefused, "the attestations of %s: %s", quote(t.remote), fmt.Sprintf(format, args...)).
			withHint("ask who looks after the server, and do not pull; rig-hook attest verify tells more")
	}
	file := w.memoryFile(t.remote)
	m, err := attest.ReadMemory(file)
	if err != nil {
		return err
	}
	tracking := "refs/rigward/remotes/" + t.remote
	res, err := w.gitFetch(r.ctx, "--no-write-fetch-head", "--", t.remote, "+"+attest.Ref+":"+tracking)
	if err != nil {
		return err
	}
	tip := ""
	switch {
	case res.Code == 0:
		if tip, err = w.ref(tracking); err != nil {
			return err
		}
	case !bytes.Contains(res.Stderr, []byte("find remote ref")):
		return gitFailed("git fetch", res)
	case m.Size == 0:
		return refuse("there are none").withHint("on the server: rig-hook attest sign; or git config rigward.attestFollow false")
	}
	if err := w.refresh(r.ctx); err != nil {
		return err
	}
	keys, err := w.attestKeys(r.env.Now(), head)
	if err != nil {
		return err
	}
	source, old := attest.Git(w.repo), m.At
	found, gaps, err := m.Follow(r.ctx, source, tip, keys)
	if err != nil {
		return gitProblem(err)
	}
	if len(found) > 0 {
		return refuse("%s", found[0])
	}
	for _, g := range gaps {
		r.note("warning: %s", g)
	}
	gossip, err := w.gossip(r.ctx, m, keys, head, theirs)
	if err != nil {
		return err
	}
	for _, s := range append(before, gossip...) {
		if s.origin != "" && s.origin != m.Origin() {
			return refuse("%s saw the chain %s, and this one is %s", s.by, quote(s.origin), quote(m.Origin()))
		}
		text, err := m.Check(r.ctx, source, s.Head)
		if err != nil {
			return gitProblem(err)
		}
		if text != "" {
			return refuse("%s: %s", s.by, text)
		}
	}
	// What the chain said when this clone last looked has been so before the branch
	// was fetched.
	if had := old[t.ref]; had != "" && theirs != m.At[t.ref] {
		if back, err := w.ancestor(r.ctx, theirs, had); err != nil {
			return err
		} else if back && theirs != had {
			return refuse("%s is shown at %s, and was at %s when this clone last looked: it was rolled back, or is withheld", t.ref, short(theirs), short(had))
		}
	}
	if text, _, err := w.repo.ConfigLast("rigward.attestMaxAge"); err != nil {
		return gitProblem(err)
	} else if text != "" {
		most, err := time.ParseDuration(text)
		if err != nil || most <= 0 {
			return fail(codeConfig, "rigward.attestMaxAge is %s, expected a duration such as 24h", quote(text))
		}
		newest, _ := time.Parse(time.RFC3339, m.Time) // none is very old
		for _, s := range before {
			if s.at.After(newest) {
				newest = s.at
			}
		}
		if age := r.env.Now().Sub(newest); age > most {
			return refuse("the last word that is signed is %s old, and rigward.attestMaxAge is %s: nothing happened, or it is withheld", age.Round(time.Second), text)
		}
	}
	return m.Write(file)
}

// attestKeys are the keys whose statements count: those of rigward.attestTrust, else
// those of the signers file of what was accepted here.
func (w *work) attestKeys(now time.Time, head string) (*attest.KeyRing, error) {
	_, trust, err := w.policyAt(head)
	if err != nil {
		return nil, err
	}
	signers, revoked, err := trust.Signers()
	if err != nil && trust.Exists() {
		return nil, err
	}
	names, err := w.repo.Config("rigward.attestTrust")
	if err != nil {
		return nil, gitProblem(err)
	}
	ring := &attest.KeyRing{}
	for _, name := range names {
		if !filepath.IsAbs(name) {
			name = filepath.Join(w.repo.CommonDir(), name)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, cannotRead(name, err)
		}
		if err := ring.AddFile(data, revoked); err != nil {
			return nil, fail(codeConfig, "the key file %s is of no use: %s", quote(name), err.Error())
		}
	}
	if len(names) == 0 && signers != nil {
		ring.AddSigners(signers, revoked, now)
	}
	if ring.Empty() {
		return nil, fail(codeConfig, "no key is known whose attestations count").withHint("git config rigward.attestTrust FILE")
	}
	return ring, nil
}

// maxGossip is in how many of the commits that came it is looked for what their
// senders had seen.
const maxGossip = 10_000

// gossip returns what the senders of the commits that head lacks had seen.
func (w *work) gossip(ctx context.Context, m *attest.Memory, keys *attest.KeyRing, head, theirs string) (all []sighting, err error) {
	if theirs == "" || theirs == head {
		return nil, nil
	}
	var exclude, ids []string
	if head != "" {
		exclude = []string{head}
	}
	for rev, err := range w.repo.RevList(ctx, []string{theirs}, exclude, gitrepo.RevListOptions{Max: maxGossip}) {
		if err != nil {
			return nil, gitProblem(err)
		}
		ids = append(ids, rev.ID)
	}
	err = w.repo.EachCommit(ids, func(c *gitrepo.Commit) error {
		for _, h := range keys.Heads(m.Origin(), c.Message) {
			all = append(all, sighting{Head: h, by: "who sent " + short(c.ID)})
		}
		return nil
	})
	return all, gitProblemOrNil(err)
}

// told is what the message of a commit says of the chain that this clone has seen
// of its remote: nothing, or a trailer.
func (w *work) told() (string, error) {
	on, err := w.follows()
	if err != nil || !on {
		return "", err
	}
	t, err := w.target()
	if err != nil || t.remote == "" {
		return "", err
	}
	m, err := attest.ReadMemory(w.memoryFile(t.remote))
	if err != nil {
		return "", err
	}
	line, err := m.Told(w.repo)
	if err != nil || line == "" {
		return "", gitProblemOrNil(err)
	}
	return "\n" + line + "\n", nil
}
