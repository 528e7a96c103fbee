package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
	"github.com/rigward/rigward/pkg/yamlprofile"
)

// trustChanges returns the paths of policy, signers and revocation file that a
// commit changes. A merge changes them, too, if it takes them from another side
// than the one that the ref comes from: so a list could be rolled back. If no
// side comes from there, those count that have most of the accepted history.
func (ps *pass) trustChanges(ctx context.Context, c *commit) (paths []string, err error) {
	some := slices.ContainsFunc(c.parents, ps.fromTrusted)
	for i, d := range c.diffs {
		skip := false
		switch {
		case len(c.diffs) == 1 || !slices.ContainsFunc(d.Changes, func(ch gitrepo.Change) bool { return c.policy.Guards(ch.Path) }):
		case ps.OfTheTime != nil:
			skip = i != c.main
		case some:
			skip = !ps.fromTrusted(c.parents[i])
		default:
			if skip, err = ps.outdated(ctx, c, i); err != nil {
				return nil, err
			}
		}
		if skip {
			continue
		}
		for _, ch := range d.Changes {
			if c.policy.Guards(ch.Path) && !slices.Contains(paths, ch.Path) {
				paths = append(paths, ch.Path)
			}
		}
	}
	return paths, nil
}

// outdated reports whether another parent of a merge has all the accepted history
// that parent i has, and more.
func (ps *pass) outdated(ctx context.Context, c *commit, i int) (bool, error) {
	for k := range c.parents {
		within, err := ps.acceptedWithin(ctx, c.parents[i], c.parents[k])
		if err != nil {
			return false, err
		}
		if !within {
			continue
		}
		if back, err := ps.acceptedWithin(ctx, c.parents[k], c.parents[i]); err != nil || !back {
			return err == nil, err
		}
	}
	return false, nil
}

// maxBoundPairs is how many pairs of commits acceptedWithin compares at most.
const maxBoundPairs = 64

// acceptedWithin reports whether the accepted history of commit a is a part of
// that of commit b. If it would take long to find out, it is taken for none.
func (ps *pass) acceptedWithin(ctx context.Context, a, b string) (bool, error) {
	bounds := func(id string) []int32 {
		n, _ := ps.walk.find(id)
		return ps.walk.sets[ps.walk.setOf(n)]
	}
	as, bs := bounds(a), bounds(b)
	if len(as)*len(bs) > maxBoundPairs {
		return false, nil
	}
	for _, x := range as {
		found := slices.Contains(bs, x)
		for _, y := range bs {
			if found {
				break
			}
			var err error
			if found, err = ps.Repo.IsAncestor(ctx, ps.walk.bounds[x].id, ps.walk.bounds[y].id); err != nil {
				return false, err
			}
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// fromTrusted reports whether a parent is the commit whose policy and signers
// count, or descends from it.
func (ps *pass) fromTrusted(parent string) bool {
	n, ok := ps.walk.find(parent)
	return ok && slices.ContainsFunc(ps.walk.sets[ps.walk.setOf(n)], func(b int32) bool { return ps.walk.bounds[b].trusted })
}

// trustedBounds finds the commits just outside the range that are or contain
// the one whose policy and signers count. Only merges ask.
func (ps *pass) trustedBounds(ctx context.Context) error {
	w := ps.walk
	if ps.rng.Old != "" && (ps.rng.From == "" || ps.rng.From == ps.rng.Old) {
		for i := range w.bounds {
			w.bounds[i].trusted = w.bounds[i].id == ps.rng.Old // what does not contain it lies below it
		}
		return nil
	}
	if ps.rng.From == "" || !w.merges() {
		return nil
	}
	for i := range w.bounds {
		ok, err := ps.Repo.IsAncestor(ctx, ps.rng.From, w.bounds[i].id)
		if err != nil {
			return err
		}
		w.bounds[i].trusted = ok
	}
	return nil
}

// signersChange judges what changes who is trusted: that the next push can be
// judged by it, and that it is signed by somebody who was trusted before.
func (ps *pass) signersChange(_ context.Context, c *commit) error {
	if err := ps.trustFiles(c); err != nil {
		return err
	}
	if err := ps.revocations(c); err != nil {
		return err
	}
	if c.obj == nil {
		return nil
	}
	if err := ps.lockedOut(c); err != nil {
		return err
	}
	ps.bootstrap(c)
	if _, change := ps.mustSign(c); change && c.unfit != nil {
		ps.tell(c, finding.Finding{Rule: "signers-change", Message: "policy or signers are changed by a commit that no trusted signer made",
			Hint: "let a signer of the old file make this commit"})
	}
	return nil
}

// trustFiles judges that policy, signers and revocation files can be read: the
// next push is judged by them.
func (ps *pass) trustFiles(c *commit) error {
	for _, ch := range c.brought {
		if ch.Deleted() || !c.policy.Guards(ch.Path) {
			continue
		}
		add := func(line, col int, message, hint string) {
			ps.tell(c, finding.Finding{Rule: "signers-change", Path: ch.Path, Line: line, Col: col, Message: message, Hint: hint})
		}
		if !ch.NewMode.IsFile() {
			add(0, 0, fmt.Sprintf("an entry of mode %s, expected a regular file", ch.NewMode), "")
			continue
		}
		limit := int64(policy.MaxTrustBytes)
		if ch.Path == policy.Path {
			limit = policy.MaxPolicyBytes
		}
		data, large, err := ps.blob(ch.NewID, limit)
		if err != nil {
			return err
		}
		switch ch.Path {
		case policy.Path:
			_, err = policy.Decode(data, policy.FromRepository)
		case c.policy.Signers:
			_, err = sshsign.ParseSigners(data)
		default:
			_, err = sshsign.ParseRevocations(data)
		}
		var y *yamlprofile.Error
		var p *sshsign.ParseError
		switch {
		case large:
			add(0, 0, fmt.Sprintf("more than %d bytes", limit), "")
		case errors.As(err, &y):
			add(y.Line, y.Col, y.Message, y.Hint)
		case errors.As(err, &p):
			add(p.Line, p.Col, p.Message, p.Hint)
		case err != nil:
			add(0, 0, finding.Clean(err.Error()), "")
		}
	}
	return nil
}

// blob reads a blob of at most limit bytes; large tells of more.
func (j *Judge) blob(id string, limit int64) (data []byte, large bool, err error) {
	err = j.Repo.Objects([]string{id}, limit, func(o gitrepo.Object) error {
		if large = errors.Is(o.Err, gitrepo.ErrTooLarge); large {
			return nil
		}
		data = o.Data
		return o.Err
	})
	return data, large, err
}

// lockedOut refuses a change after which fewer people have a key than the policy
// wants for the next one: nobody could take it back (docs/spec/quorum.md#when-keys-are-lost).
func (ps *pass) lockedOut(c *commit) error {
	if len(c.trustPaths) == 0 && !touches(c.brought, policy.Path) && !touches(c.brought, c.policy.Signers) {
		return nil
	}
	p := c.policy
	if !p.Server {
		var err error
		if p, err = ps.brings(c); p == nil || err != nil {
			return err
		}
	}
	if p.QuorumTrust < 2 {
		return nil
	}
	id, err := policy.FileIn(ps.Repo, c.obj.Tree, p.Signers)
	if err != nil || id == "" {
		return policy.UnlessUndecided(err)
	}
	data, large, err := ps.blob(id, policy.MaxTrustBytes)
	if large || err != nil {
		return err
	}
	s, err := sshsign.ParseSigners(data)
	if err != nil {
		return nil // told by trustFiles
	}
	has := func(name string) bool {
		return slices.ContainsFunc(s.List(), func(l sshsign.Signer) bool { return sshsign.MatchPrincipals(l.Principals, name) })
	}
	var missing []string
	for _, name := range p.QuorumOf {
		if !has(name) {
			missing = append(missing, finding.QuoteMax(name, 80))
		}
	}
	if n := len(p.QuorumOf) - len(missing); n < p.QuorumTrust && !slices.ContainsFunc(p.QuorumRecovery, has) {
		ps.tell(c, finding.Finding{Rule: "signers-change", Path: p.Signers,
			Message: fmt.Sprintf("%d of quorum.of have a key here, and quorum.trust wants %d: nobody could change anything any more", n, p.QuorumTrust),
			Hint:    "list a key of " + strings.Join(missing, ", ") + ", or name others in quorum.of, in the same commit"})
	}
	return nil
}

// revocations judges that the revocation file that a commit's own policy names
// is there and can be read, where the commit changes one of the two: without it
// nothing signed could be decided any more.
func (ps *pass) revocations(c *commit) error {
	changes := c.diffs[0].Changes
	if c.obj == nil || len(changes) == c.envelopes {
		return nil // the index; envelopes alone
	}
	p := c.policy
	if !p.Server {
		var err error
		if p, err = ps.brings(c); p == nil || err != nil {
			return err
		}
	}
	if p.Revoked == "" || !touches(changes, p.Revoked) && (p.Server || !touches(changes, policy.Path)) {
		return nil
	}
	why, err := ps.unusable(c, p.Revoked)
	if err != nil {
		return err
	}
	if why != "" {
		ps.tell(c, finding.Finding{Rule: "signers-change", Path: p.Revoked,
			Message: "the policy names this revocation file, which " + why + ": nothing signed could be decided any more",
			Hint: "commit the policy together with the file: rig-hook keys revoke KEY writes it; " +
				"or take the key revoked out of the policy"})
	}
	return nil
}

// brings returns the policy that a commit's tree has, nil if it has none that
// can be read: what is wrong with it trustFiles tells, of the commit that brings
// it.
func (ps *pass) brings(c *commit) (*policy.Policy, error) {
	id, err := policy.FileIn(ps.Repo, c.obj.Tree, policy.Path)
	if err != nil || id == "" {
		return nil, policy.UnlessUndecided(err)
	}
	data, large, err := ps.blob(id, policy.MaxPolicyBytes)
	if large || err != nil {
		return nil, err
	}
	p, err := policy.Decode(data, policy.FromRepository)
	if err != nil {
		return nil, nil
	}
	return p, nil
}

// unusable says what is wrong with the revocation file of a commit's tree, ""
// if nothing is, or if trustFiles tells.
func (ps *pass) unusable(c *commit, path string) (why string, err error) {
	id, err := policy.FileIn(ps.Repo, c.obj.Tree, path)
	switch {
	case policy.UnlessUndecided(err) != nil:
		return "", err
	case err == nil && id == "":
		return "is missing", nil
	case path == c.policy.Revoked && touches(c.brought, path):
		return "", nil
	case err != nil:
		return "is not a regular file", nil
	}
	data, large, err := ps.blob(id, policy.MaxTrustBytes)
	if err != nil {
		return "", err
	}
	if large {
		return fmt.Sprintf("has more than %d bytes", policy.MaxTrustBytes), nil
	}
	if _, err := sshsign.ParseRevocations(data); err != nil {
		return "cannot be read: " + finding.Clean(err.Error()), nil
	}
	return "", nil
}

func touches(changes []gitrepo.Change, path string) bool {
	return slices.ContainsFunc(changes, func(ch gitrepo.Change) bool { return ch.Path == path })
}

// bootstrap refuses, at a server, policy and signers files where nobody is
// trusted yet, unless the server says that it takes them.
func (ps *pass) bootstrap(c *commit) {
	if c.trust.Exists() || ps.Bootstrap || len(c.trustPaths) == 0 || !ps.Gate.server() && !ps.Receives {
		return
	}
	ps.tell(c, finding.Finding{Rule: "signers-change",
		Message: "nobody is trusted yet who could sign for a change of " + finding.Quote(c.trustPaths[0]),
		Hint:    "on the server, for the push that brings it: git config rigward.bootstrap true"})
}
