package rules

import (
	"context"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// mustSign reports whether a commit needs a signature, and whether it is for
// changing who is trusted.
func (ps *pass) mustSign(c *commit) (sign, change bool) {
	if c.obj == nil {
		return false, false
	}
	change = len(c.trustPaths) > 0
	if change && !c.trust.Exists() {
		// Nobody is trusted yet who could sign for it: the first files come
		// in unsigned, at a server only with its consent (see Bootstrap). Of a
		// commit that brings the signers themselves nothing else asks for a
		// signature, not even require-signed: all: nobody could give one.
		if change = false; slices.Contains(c.trustPaths, c.policy.Signers) {
			return c.attested > 0 || c.burial != nil, false
		}
	}
	if change || c.policy.RequireSigned == policy.RequireAll {
		return true, change
	}
	return c.attested > 0 || c.burial != nil, change
}

// verify judges the signatures of those commits of a batch that need one, or
// have one that is worth something where signers are listed, on all cores.
func (ps *pass) verify(batch []*commit) error {
	var todo []*commit
	for _, c := range batch {
		sign, _ := ps.mustSign(c)
		if !sign && !c.maySpeak() {
			continue
		}
		if _, _, err := c.trust.Signers(); err != nil {
			if ps.Told == nil || policy.UnlessUndecided(err) != nil {
				return err
			}
			c.undecided = err.Error()
			if c.obj.Signed() || !sign {
				continue
			}
		}
		todo = append(todo, c)
	}
	Parallel(len(todo), func(i int) {
		c := todo[i]
		s, r, _ := c.trust.Signers()
		o := sshsign.Options{MinRSABits: c.policy.MinRSABits}
		if ps.Gate.server() {
			o.Now = ps.Now
		}
		v := sshsign.VerifyCommit(c.obj.Raw, ps.format(), s, r, o)
		c.verdict = &v
		ps.weigh(c)
	})
	return nil
}

// weigh says what the verdict on a commit's signature comes to: that it speaks
// for somebody, that it is needed and unfit, or neither.
func (ps *pass) weigh(c *commit) {
	sign, change := ps.mustSign(c)
	v := c.verdict
	switch {
	case !sign && !v.Good(): // worth as much as none
	case c.attested == 0 && c.burial == nil && !change && ps.forge(c, v):
	case v.Good():
		c.speaks = v
	default:
		c.unfit = v
	}
}

// maySpeak reports whether a commit could be signed by a key that is listed, so
// that it speaks for somebody though it need not be signed.
func (c *commit) maySpeak() bool { return c.obj != nil && c.trust.Exists() && c.obj.Signed() }

// commitSigned tells of a commit that needs a good signature and has none.
func (ps *pass) commitSigned(_ context.Context, c *commit) error {
	if c.unfit == nil {
		return nil
	}
	first := ""    // what is to be pushed before
	other := false // another key would do
	switch c.unfit.Reason {
	case sshsign.UnknownKey, sshsign.NotYetValid, sshsign.Expired, sshsign.Revoked:
		other = true
		var err error
		if first, err = ps.listedFirst(c); err != nil {
			return err
		}
	}
	if _, change := ps.mustSign(c); change && first == "" {
		ps.unlisted = true
	}
	why := c.unfit.Why()
	sign := "git -c gpg.format=ssh " + remake(c, " --gpg-sign")
	hint := "sign it: " + sign
	switch {
	case c.unfit.Reason == sshsign.Unsigned:
		why += ": the commit has no signature, expected that of an allowed signer"
	case first != "" && ps.Gate == PullRequest:
		hint = "the key counts once commit " + finding.Short(first) + " is merged: propose that first, by itself"
	case first != "":
		hint = "the key counts from the next push on: git push origin " + finding.Word(finding.Short(first)+":"+ps.rng.Ref) + ", then push again"
	case other:
		hint = "sign it with a key that is listed and valid: git config user.signingkey KEY.pub && " + sign
	}
	if len(c.parents) > 1 && len(c.brought) == 0 {
		hint = "merge in a clone with git merge -S instead of the forge's merge button, or set forge-commits in the policy"
	}
	ps.tell(c, finding.Finding{Rule: "commit-signed", Message: why, Hint: hint})
	return nil
}

// listedFirst returns the commit that would have to be accepted by itself so that the
// signature of a commit counts: what a push changes of the signers counts from the next
// one on. It is "" where that would not help, as where what lists the key is refused.
func (ps *pass) listedFirst(c *commit) (first string, err error) {
	if ps.unlisted || !ps.moving || ps.OfTheTime != nil || ps.rng.Ref == "" || len(c.parents) != 1 || !ofDefault(ps.Gate, ps.rng) {
		return "", nil
	}
	parent, err := ps.Repo.Commit(c.parents[0])
	if err != nil {
		return "", err
	}
	p, trust, err := ps.Later(policy.Accepted{Tree: parent.Tree})
	if err != nil {
		return "", policy.UnlessUndecided(err)
	}
	s, r, err := trust.Signers()
	if err != nil {
		return "", policy.UnlessUndecided(err)
	}
	if !sshsign.VerifyCommit(c.obj.Raw, ps.format(), s, r, sshsign.Options{MinRSABits: p.MinRSABits, Now: ps.Now}).Good() {
		return "", nil
	}
	if ps.listing == "" { // the first of several commits by such keys
		ps.listing = parent.ID
	}
	return ps.listing, nil
}

// forge reports whether a commit passes because a forge made it, by the policy.
func (ps *pass) forge(c *commit, v *sshsign.Verdict) bool {
	if len(c.parents) > 1 && len(c.brought) == 0 && c.policy.Forge.EmptyMerge {
		return true
	}
	if !slices.Contains(c.policy.Forge.Keys, v.Fingerprint) || v.Key == nil {
		return false
	}
	if !v.Good() && v.Reason != sshsign.UnknownKey {
		return false
	}
	line := append([]byte(`* namespaces="git" `), ssh.MarshalAuthorizedKey(v.Key)...)
	own, err := sshsign.ParseSigners(line)
	if err != nil {
		return false
	}
	_, revoked, err := c.trust.Signers()
	if err != nil {
		return false
	}
	return sshsign.VerifyCommit(c.obj.Raw, ps.format(), own, revoked, sshsign.Options{MinRSABits: c.policy.MinRSABits}).Good()
}

// brought is what a commit changes against its first parent.
func (j *Judge) brought(id string) (d gitrepo.Diff, err error) {
	c, err := j.Repo.Commit(id)
	if err != nil {
		return d, err
	}
	old := ""
	if len(c.Parents) > 0 {
		parent, err := j.Repo.Commit(c.Parents[0])
		if err != nil {
			return d, err
		}
		d.Parent, old = parent.ID, parent.Tree
	}
	d.Changes, err = j.Repo.DiffTrees(old, c.Tree)
	return d, err
}

// Message judges the message of a commit that is about to be made of what is
// staged, if it brings an envelope or what stands where only envelopes may, and tells
// what of it makes the commit need a signature: "" if nothing does.
func (j *Judge) Message(ctx context.Context, s Staged, text []byte) (signs string, err error) {
	if len(s.Changes) == 0 && s.Head != "" { // HEAD is amended, as far as can be told: what it brings stays
		amended, err := j.brought(s.Head)
		if err != nil {
			return "", err
		}
		s.Changes = amended.Changes
	}
	ps, c, err := j.stage(s)
	if err != nil {
		return "", err
	}
	if err := ps.prepare(ctx, []*commit{c}); err != nil {
		return "", err
	}
	found := screenedMessage(text, "", false)
	if len(found) > 0 {
		err = ps.portions(ctx, c, func() error {
			for _, e := range c.entries {
				if err := ps.place(c, e); err != nil {
					return err
				}
				c.tells = c.tells || e.judged
			}
			return nil
		})
	}
	if c.tells {
		for _, f := range found {
			j.add(s.Policy, f)
		}
	}
	return c.signs(), err
}

// signs returns what of a commit must be signed, in words; "" for nothing.
func (c *commit) signs() string {
	switch {
	case c.policy.RequireSigned == policy.RequireAll:
		return "every commit"
	case c.attested > 0:
		return "a relay"
	}
	return ""
}
