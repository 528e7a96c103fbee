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
	switch {
	case !c.speaks.Speaks(committer.Email):
		ps.tell(c, finding.Finding{Rule: "signer-identity",
			Message: fmt.Sprintf("the committer %s is not a principal of the key %s that signed",
				finding.QuoteMax(committer.Email, 80), c.speaks.Fingerprint),
			Hint: ps.asCommitter(c)})
	case c.attested == 0 && author.Email != committer.Email && len(c.policy.Forge.Keys) == 0:
		ps.tell(c, finding.Finding{Rule: "signer-identity",
			Message: fmt.Sprintf("the author %s is not the committer %s",
				finding.QuoteMax(author.Email, 80), finding.QuoteMax(committer.Email, 80)),
			Hint: ps.asAuthor(c)})
	}
	return nil
}

// asAuthor is the command that makes who runs it the author of a commit. Only the
// last one can be amended as it is.
func (ps *pass) asAuthor(c *commit) string {
	once := amend(c, " --reset-author -S")
	if c.id == ps.rng.New {
		return once
	}
	return "git rebase --interactive --gpg-sign " + onto(c) + ", with edit before this commit; then " + once + "; then git rebase --continue"
}

// asCommitter is the hint to commit again as whom the signers file lists for the
// key of a commit; as its author, too, if that is nobody whom it lists.
func (ps *pass) asCommitter(c *commit) string {
	hint := "git config user.email to the address that the signers file lists for this key, then "
	if address := c.speaks.Address(); address != "" {
		hint = "git config user.email " + finding.Word(address) + " && "
	}
	switch {
	case !c.speaks.Speaks(c.obj.Author.Email):
		return hint + ps.asAuthor(c)
	case c.id == ps.rng.New:
		return hint + amend(c, " -S")
	}
	return hint + "git " + remake(c, " --gpg-sign")
}
