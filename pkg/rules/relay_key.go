package rules

import (
	"context"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/relay"
)

// relayKey judges that attested_by names the key that signed a relay's commit.
// Without a good signature commit-signed tells.
func (ps *pass) relayKey(_ context.Context, c *commit, e *entry) error {
	if !e.relay || c.verdict == nil || !c.verdict.Good() || !e.env.Conforms("attested_by") {
		return nil
	}
	signed := c.verdict.Fingerprint
	f := finding.Finding{Rule: "relay-key", Hint: "attested_by: " + signed}
	switch relay.NamesKey(e.env.AttestedBy, c.verdict.Key) {
	case relay.OtherKey:
		f.Message = "attested_by does not name the key that signed, " + signed
	case relay.NoKey:
		f.Severity = c.policy.PathKey
		f.Message = "attested_by is a path, which names no key; the key that signed is " + signed
	default:
		return nil
	}
	ps.tellAt(c, e, "attested_by", f)
	return nil
}
