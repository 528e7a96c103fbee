package rules

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// mustSign tells whether a commit needs a signature, and whether it is for
// changing who is trusted.
func (j *Judge) mustSign(c *commit) (sign, change bool) {
	if c.obj == nil {
		return false, false
	}
	change = len(c.trustPaths) > 0
	if change && !c.trust.Exists() {
		// Nobody is trusted yet who could sign for it: the first files come
		// in unsigned, at a server only with its consent (see Bootstrap).
		change = false
	}
	if change || c.policy.RequireSigned == policy.RequireAll {
		return true, change
	}
	return c.attested > 0, change
}

// verify judges the signatures of those commits of a batch that need one, or
// have one that is worth something where signers are listed, on all cores.
func (j *Judge) verify(batch []*commit) error {
	var todo []*commit
	for _, c := range batch {
		sign, _ := j.mustSign(c)
		if !sign && !c.maySpeak() {
			continue
		}
		if _, _, err := c.trust.Signers(); err != nil {
			if j.Told == nil || policy.UnlessUndecided(err) != nil {
				return err
			}
			c.undecided = err.Error()
			if c.isSigned() || !sign {
				continue
			}
		}
		todo = append(todo, c)
	}
	Parallel(len(todo), func(i int) {
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

// maySpeak tells whether a commit could be signed by a key that is listed, so
// that it speaks for somebody though it need not be signed.
func (c *commit) maySpeak() bool { return c.obj != nil && c.trust.Exists() && c.isSigned() }

// isSigned tells whether a commit has, or could be taken to have, a signature.
func (c *commit) isSigned() bool {
	head, _, _ := bytes.Cut(c.obj.Raw, []byte("\n\n"))
	return bytes.Contains(head, []byte("\ngpgsig"))
}

// signed judges commit-signed, signer-identity, signers-change and commit-clock,
// and finds out for whom sender-key is to be judged.
func (j *Judge) signed(_ context.Context, r Range, c *commit) error {
	if c.obj == nil {
		return nil
	}
	add := func(rule, message, hint string) {
		j.add(c.policy, finding.Finding{Rule: rule, Severity: finding.Error, Commit: c.id, Ref: r.Ref, Message: message, Hint: hint})
	}
	if j.Gate.server() {
		j.commitClock(r, c, add)
	}
	if j.Gate.server() || j.Receives {
		j.bootstrap(c, add)
	}
	sign, change := j.mustSign(c)
	if c.verdict == nil {
		return nil // not signed and need not be, or undecided
	}
	v := *c.verdict
	if !sign && !v.Good() {
		return nil // worth as much as none
	}
	forge := j.forge(c, &v)
	if forge && c.attested == 0 && !change {
		return nil
	}
	if !v.Good() {
		why := string(v.Reason)
		if v.Detail != "" {
			why += ": " + v.Detail
		}
		again := "git -c gpg.format=ssh rebase --exec 'git commit --amend --no-edit -S' " + short(firstParent(c))
		hint := "sign it: " + again
		switch v.Reason {
		case sshsign.Unsigned:
			why += ": the commit has no signature, expected that of an allowed signer"
		case sshsign.UnknownKey, sshsign.NotYetValid, sshsign.Expired, sshsign.Revoked:
			hint = "sign it with a key that is listed and valid: git config user.signingkey KEY.pub && " + again
		}
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
	// Only the last commit can be amended as it is.
	asCommitter, asAuthor := "amend", "git commit --amend --no-edit --reset-author -S"
	if c.id != r.New {
		asCommitter = "git rebase --no-ff --gpg-sign " + short(firstParent(c))
		asAuthor = "git rebase --interactive --gpg-sign " + short(firstParent(c)) + ", with edit before this commit; then " + asAuthor + "; then git rebase --continue"
	}
	switch {
	case !v.Speaks(committer.Email):
		add("signer-identity", fmt.Sprintf("the committer %s is no principal of the key %s that signed", finding.QuoteMax(committer.Email, 80), v.Fingerprint),
			"git config user.email to the address that the signers file lists for this key, then "+asCommitter)
	case c.attested == 0 && author.Email != committer.Email && len(c.policy.Forge.Keys) == 0:
		add("signer-identity", fmt.Sprintf("the author %s is not the committer %s", finding.QuoteMax(author.Email, 80), finding.QuoteMax(committer.Email, 80)), asAuthor)
	}
	c.speaks = &v
	return nil
}

func firstParent(c *commit) string {
	if len(c.parents) == 0 {
		return ""
	}
	return c.parents[0]
}

// forge tells whether a commit passes because a forge made it, by the policy.
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

// WillNeedSignature tells what of the staged changes makes the commit need a
// signature ("a relay", "every commit"), "" if nothing does.
func (j *Judge) WillNeedSignature(ctx context.Context, s Staged) (string, error) {
	if s.Policy.RequireSigned == policy.RequireAll {
		return "every commit", nil
	}
	c := &commit{diffs: []gitrepo.Diff{{Parent: s.Head, Changes: s.Changes}}, policy: s.Policy, trust: s.Trust}
	if err := j.prepare(ctx, []*commit{c}); err != nil {
		return "", err
	}
	if c.attested > 0 {
		return "a relay", nil
	}
	return "", nil
}
