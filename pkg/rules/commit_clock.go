package rules

import (
	"time"

	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/relay"
)

func (j *Judge) commitClock(r Range, c *commit, add func(rule, message, hint string)) {
	var parents []time.Time
	for _, p := range j.walk.parents(c.n) {
		when := int64(0)
		if p >= 0 {
			when = j.dates[p]
		} else {
			when = j.walk.bounds[^p].when
		}
		parents = append(parents, time.Unix(when, 0))
	}
	j.dates[c.n] = c.obj.Committer.When
	hint, sign := "set the clock, then: git commit --amend --no-edit", " -S"
	if c.id != r.New { // which alone can be amended as it is
		hint, sign = "set the clock, then: git rebase --no-ff "+short(firstParent(c)), " --gpg-sign"
	}
	if c.verdict != nil {
		hint += sign
	}
	if c.obj.Committer.When > lastSecond {
		add("commit-clock", "the committer date lies after the year 9999", hint)
		return
	}
	if why := relay.CommitClock(time.Unix(c.obj.Committer.When, 0), j.Now, parents, c.policy.ClockSkew); why != "" {
		add("commit-clock", why, hint)
	}
}

// lastSecond of the year 9999. Later dates are no dates, and too large a number
// could wrap into the past.
const lastSecond = 253402300799

// committed is the committer date of a commit.
func committed(c *gitrepo.Commit) time.Time { return time.Unix(c.Committer.When, 0).UTC() }
