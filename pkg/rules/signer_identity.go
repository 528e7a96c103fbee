package rules

import (
	"context"
	"fmt"

	"github.com/rigward/rigward/pkg/finding"
)

// signerIdentity judges that the key that signed a commit may speak for its
// committer, who is its author, too.
func (ps *pass) signerIdentity(_ context.Context, c *commit) error {
	if c.speaks == nil {
		return nil
	}
	committer, author := c.obj.Committer, c.obj.Author
	// Only the last commit can be amended as it is.
	asCommitter, asAuthor := "amend", "git commit --amend --no-edit --reset-author -S"
	if c.id != ps.rng.New {
		asCommitter = "git rebase --no-ff --gpg-sign " + onto(c)
		asAuthor = "git rebase --interactive --gpg-sign " + onto(c) +
			", with edit before this commit; then " + asAuthor + "; then git rebase --continue"
	}
	switch {
	case !c.speaks.Speaks(committer.Email):
		ps.tell(c, finding.Finding{Rule: "signer-identity",
			Message: fmt.Sprintf("the committer %s is not a principal of the key %s that signed",
				finding.QuoteMax(committer.Email, 80), c.speaks.Fingerprint),
			Hint: "git config user.email to the address that the signers file lists for this key, then " + asCommitter})
	case c.attested == 0 && author.Email != committer.Email && len(c.policy.Forge.Keys) == 0:
		ps.tell(c, finding.Finding{Rule: "signer-identity",
			Message: fmt.Sprintf("the author %s is not the committer %s",
				finding.QuoteMax(author.Email, 80), finding.QuoteMax(committer.Email, 80)),
			Hint: asAuthor})
	}
	return nil
}
