package rules

import (
	"context"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/relay"
)

// relayClock judges that attested_at is near the committer date.
func (ps *pass) relayClock(_ context.Context, c *commit, e *entry) error {
	if !e.relay || c.obj == nil || !e.env.Conforms("attested_at") {
		return nil
	}
	at, _, err := envelope.ParseTime(e.env.AttestedAt)
	if err != nil {
		return nil // told by envelope-date
	}
	if why := relay.Clock(at, committed(c.obj), c.policy.RelayClock); why != "" {
		ps.tellAt(c, e, "attested_at", finding.Finding{Rule: "relay-clock", Message: why, Hint: "relay again: rig-bridge relay"})
	}
	return nil
}
