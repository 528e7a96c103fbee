package policy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/relay"
	"github.com/rigward/rigward/pkg/sshsign"
)

// policyPath is where a repository keeps its policy.
const policyPath = ".bridge/policy.yaml"

// mustSign tells whether a commit needs a signature, and whether it is for
// changing who is trusted.
func (j *Judge) mustSign(c *commit) (sign, change bool) {
	if c.obj == nil {
		return false, false
	}
	for _, ch := range c.brought {
		if ch.Path == policyPath || ch.Path == c.policy.Signers || c.policy.Revoked != "" && ch.Path == c.policy.Revoked {
			change = true
		}
	}
	if change && !c.trust.Exists() {
		// Nobody is trusted yet who could sign for it: the first files come
		// in unsigned, at a server only with its consent (see Bootstrap).
		change = false
	}
	if change || c.policy.RequireSigned == RequireAll {
		return true, change
	}
	return c.relays() > 0, change
}

// relays counts the relays that a commit brings.
func (c *commit) relays() int {
	n := 0
	for _, e := range c.entries {
		if e.added && e.env != nil && e.env.IsRelay() {
			n++
		}
	}
	return n
}

// verify judges the signatures of those commits of a batch that need one, on
// all cores.
func (j *Judge) verify(batch []*commit) error {
	var todo []*commit
	for _, c := range batch {
		if sign, _ := j.mustSign(c); sign {
			if _, _, err := c.trust.Signers(); err != nil {
				return err
			}
			todo = append(todo, c)
		}
	}
	parallel(len(todo), func(i int) {
		c := todo[i]
		s, r, _ := c.trust.Signers()
		o := sshsign.Options{MinRSABits: c.policy.MinRSABits}
		if j.Gate.server() {
			o.Now = j.Now
		}
		v := sshsign.VerifyCommit(c.obj.Raw, j.format(), s, r, o)
		c.verdict = &v
	})
	return nil
}

// signed judges commit-signed, signer-identity, sender-key, signers-change and
// commit-clock.
func (j *Judge) signed(_ context.Context, r Range, c *commit) error {
	if c.obj == nil {
		return nil
	}
	add := func(rule, message, hint string) {
		j.add(c.policy, finding.Finding{Rule: rule, Severity: finding.Error, Commit: c.id, Ref: r.Ref, Message: message, Hint: hint})
	}
	if j.Gate.server() {
		if err := j.commitClock(c, add); err != nil {
			return err
		}
		j.bootstrap(c, add)
	}
	sign, change := j.mustSign(c)
	if !sign {
		return nil
	}
	v := *c.verdict
	forge := j.forge(c, &v)
	if forge && c.relays() == 0 && !change {
		return nil
	}
	if !v.Good() {
		why := string(v.Reason)
		if v.Detail != "" {
			why += ": " + v.Detail
		}
		hint := "sign it: git rebase --exec 'git commit --amend --no-edit -S' " + short(firstParent(c))
		if len(c.parents) > 1 && len(c.brought) == 0 {
			hint = "merge in a clone with git merge -S instead of the forge's merge button, or set forge-commits in the policy"
		}
		add("commit-signed", why, hint)
		if change {
			add("signers-change", "policy or signers are changed by a commit that no trusted signer made", "let a signer of the old file make this commit")
		}
		return nil
	}
	committer, author := c.obj.Committer, c.obj.Author
	switch {
	case !v.Speaks(committer.Email):
		add("signer-identity", fmt.Sprintf("the committer %s is no principal of the key %s that signed", finding.QuoteMax(committer.Email, 80), v.Fingerprint),
			"git config user.email to the address that the signers file lists for this key, then amend")
	case c.relays() == 0 && author.Email != committer.Email && len(c.policy.Forge.Keys) == 0:
		add("signer-identity", fmt.Sprintf("the author %s is not the committer %s", finding.QuoteMax(author.Email, 80), finding.QuoteMax(committer.Email, 80)),
			"git commit --amend --no-edit --reset-author -S")
	}
	s, _, err := c.trust.Signers()
	if err != nil {
		return err
	}
	if s.HasRigIDs() {
		for _, e := range c.entries {
			if c.policy.RequireSigned != RequireAll && (e.env == nil || !e.env.IsRelay()) {
				continue // need not be signed at all
			}
			if e.added && e.env != nil && e.env.Valid() && !v.Speaks(e.env.From) {
				line, col := e.env.Place("from")
				j.add(c.policy, finding.Finding{Rule: "sender-key", Severity: finding.Error, Path: e.path, Line: line, Col: col, Commit: c.id, Ref: r.Ref,
					Message: fmt.Sprintf("the key %s that signed may not speak for the rig %s", v.Fingerprint, finding.QuoteMax(e.env.From, 60)),
					Hint:    "add the rig id to the key's principals in the signers file, or send as a rig that is listed there"})
			}
		}
	}
	return nil
}

func firstParent(c *commit) string {
	if len(c.parents) == 0 {
		return ""
	}
	return c.parents[0]
}

// forge tells whether a commit passes because a forge made it, by the policy.
// If a forge's key signed, v becomes good.
func (j *Judge) forge(c *commit, v *sshsign.Verdict) bool {
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
	return sshsign.VerifyCommit(c.obj.Raw, j.format(), own, revoked, sshsign.Options{MinRSABits: c.policy.MinRSABits}).Good()
}

func (j *Judge) commitClock(c *commit, add func(rule, message, hint string)) error {
	var parents []time.Time
	for _, p := range c.parents {
		when, known := j.dates[p]
		if !known {
			pc, err := j.Repo.Commit(p)
			if err != nil {
				return err
			}
			when = pc.Committer.When
			j.dates[p] = when
		}
		parents = append(parents, time.Unix(when, 0))
	}
	j.dates[c.id] = c.obj.Committer.When
	if why := relay.CommitClock(time.Unix(c.obj.Committer.When, 0), j.Now, parents, c.policy.ClockSkew); why != "" {
		add("commit-clock", why, "set the clock, then: git commit --amend --no-edit")
	}
	return nil
}

// bootstrap refuses, at a server, policy and signers files where nobody is
// trusted yet, unless the server says that it takes them.
func (j *Judge) bootstrap(c *commit, add func(rule, message, hint string)) {
	if c.trust.Exists() || j.Bootstrap {
		return
	}
	for _, ch := range c.brought {
		if ch.Path == policyPath || ch.Path == c.policy.Signers {
			add("signers-change", "nobody is trusted yet who could sign for a change of "+finding.Quote(ch.Path),
				"on the server, for the push that brings it: git config rigward.bootstrap true")
			return
		}
	}
}

// committed is the committer date of a commit.
func committed(c *gitrepo.Commit) time.Time { return time.Unix(c.Committer.When, 0).UTC() }

// WillNeedSignature tells what of the staged changes makes the commit need a
// signature ("a relay", "every commit"), "" if nothing does.
func (j *Judge) WillNeedSignature(_ context.Context, s Staged) (string, error) {
	if s.Policy.RequireSigned == RequireAll {
		return "every commit", nil
	}
	c := &commit{diffs: []gitrepo.Diff{{Parent: s.Head, Changes: s.Changes}}, policy: s.Policy, trust: s.Trust}
	c.introduce()
	if err := j.read([]*commit{c}); err != nil {
		return "", err
	}
	for _, e := range c.entries {
		e.parse(c.policy)
	}
	if c.relays() > 0 {
		return "a relay", nil
	}
	return "", nil
}
