package rules

import (
	"fmt"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// outside judges paths that are no envelopes, where the policy denies them.
func (j *Judge) outside(r Range, c *commit, changes []gitrepo.Change) {
	if !c.policy.OutsideDeny {
		return
	}
	judged := map[string]bool{}
	for _, e := range c.entries {
		judged[e.path] = e.judged
	}
	for _, ch := range changes {
		if judged[ch.Path] || c.policy.Ignored(ch.Path) || ch.Path == policy.Path || ch.Path == c.policy.Signers || ch.Path == c.policy.Revoked {
			continue
		}
		if ch.Deleted() && c.policy.Candidate(ch.Path) {
			continue // append-only tells
		}
		j.add(c.policy, finding.Finding{
			Rule: "outside-thread", Severity: finding.Error, Path: ch.Path, Commit: c.id, Ref: r.Ref,
			Message: "the path lies outside threads, which the policy denies (envelopes.outside: deny)",
			Hint:    fmt.Sprintf("git rm --cached -- %s", finding.Word(ch.Path)),
		})
	}
}
