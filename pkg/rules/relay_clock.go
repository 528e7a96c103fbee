package rules

import (
	"context"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/relay"
)

// relayClock judges that attested_at is near the committer date; where several
// people have to stand for a relay, near the author date, which they sign: they
// take their time.
func (ps *pass) relayClock(_ context.Context, c *commit, e *entry) error {
	if !e.relay || c.obj == nil || !e.env.Conforms("attested_at") {
		return nil
	}
	at, _, err := envelope.ParseTime(e.env.AttestedAt)
	if err != nil {
		return nil // told by envelope-date
	}
	made := committed(c.obj)
	if author := time.Unix(c.obj.Author.When, 0).UTC(); author.Before(made) && c.policy.RelayQuorum(e.thread, e.env.Type) > 1 {
		made = author
	}
	if why := relay.Clock(at, made, c.policy.RelayClock); why != "" {
		out, err := ps.out(c.id, len(c.parents))
		if err != nil {
			return err
		}
		ps.tellAt(c, e, "attested_at", finding.Finding{Rule: "relay-clock", Message: why, Hint: anew(out, e.path)})
	}
	return nil
}
