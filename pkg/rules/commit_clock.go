package rules

import (
	"context"
	"time"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/relay"
)

// commitClock judges, at a server, the committer date against the clock and the
// parents' dates.
func (ps *pass) commitClock(_ context.Context, c *commit) error {
	if c.obj == nil || !ps.Gate.server() {
		return nil
	}
	var parents []time.Time
	for _, p := range ps.walk.parents(c.n) {
		when := int64(0)
		if p >= 0 {
			when = ps.dates[p]
		} else {
			when = ps.walk.bounds[^p].when
		}
		parents = append(parents, time.Unix(when, 0))
	}
	ps.dates[c.n] = c.obj.Committer.When
	why := "the committer date lies after the year 9999"
	if c.obj.Committer.When <= lastSecond {
		why = relay.CommitClock(time.Unix(c.obj.Committer.When, 0), ps.Now, parents, c.policy.ClockSkew)
	}
	if why == "" {
		return nil
	}
	sign := ""
	if c.verdict != nil {
		sign = " --gpg-sign"
	}
	hint := amend(c, sign)
	if c.id != ps.rng.New { // which alone can be amended as it is
		hint = "git " + remake(c, sign)
	}
	ps.tell(c, finding.Finding{Rule: "commit-clock", Message: why, Hint: "set the clock, then: " + hint})
	return nil
}

// lastSecond of the year 9999. Later dates are no dates, and too large a number
// could wrap into the past.
const lastSecond = 253402300799

// committed is the committer date of a commit.
func committed(c *gitrepo.Commit) time.Time { return time.Unix(c.Committer.When, 0).UTC() }
