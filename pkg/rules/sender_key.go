package rules

import (
	"context"
	"fmt"

	"github.com/rigward/rigward/pkg/finding"
)

// senderKey judges that the key that signed a commit may speak for the senders
// of the envelopes that it brings.
func (j *Judge) senderKey(_ context.Context, r Range, c *commit) error {
	if c.speaks == nil {
		return nil
	}
	s, _, err := c.trust.Signers()
	if err != nil || !s.HasRigIDs() {
		return err
	}
	for _, e := range c.entries {
		if e.added && e.env != nil && e.env.Valid() && !c.speaks.Speaks(e.env.From) {
			line, col := e.env.Place("from")
			j.add(c.policy, finding.Finding{Rule: "sender-key", Severity: finding.Error, Path: e.path, Line: line, Col: col, Commit: c.id, Ref: r.Ref,
				Message: fmt.Sprintf("the key %s that signed may not speak for the rig %s", c.speaks.Fingerprint, finding.QuoteMax(e.env.From, 60)),
				Hint:    "add the rig id to the key's principals in the signers file, or send as a rig that is listed there"})
		}
	}
	return nil
}
