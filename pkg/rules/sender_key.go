package rules

import (
	"context"
	"fmt"

	"github.com/rigward/rigward/pkg/finding"
)

// senderKey judges that the key that signed a commit may speak for the sender of
// an envelope that it brings.
func (ps *pass) senderKey(_ context.Context, c *commit, e *entry) error {
	if c.speaks == nil || !e.added || e.env == nil || !e.env.Valid() || c.speaks.Speaks(e.env.From) {
		return nil
	}
	s, _, err := c.trust.Signers()
	if err != nil || !s.HasRigIDs() {
		return err
	}
	ps.tellAt(c, e, "from", finding.Finding{Rule: "sender-key",
		Message: fmt.Sprintf("the key %s that signed may not speak for the rig %s", c.speaks.Fingerprint, finding.QuoteMax(e.env.From, 60)),
		Hint:    "add the rig id to the key's principals in the signers file, or send as a rig that is listed there"})
	return nil
}
