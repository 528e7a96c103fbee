package rules

import (
	"context"

	"github.com/rigward/rigward/pkg/finding"
)

// outside judges paths at which no envelope can lie, where the policy denies
// them.
func (ps *pass) outside(_ context.Context, c *commit) error {
	if !c.policy.OutsideDeny {
		return nil
	}
	for _, ch := range c.brought {
		if !c.policy.Candidate(ch.Path) {
			ps.tellOutside(c, ch.Path)
		} // else outsideEntry tells, and append-only if it is deleted
	}
	return nil
}

// outsideEntry judges, as outside does, a file at an envelope's path that is not
// an envelope.
func (ps *pass) outsideEntry(_ context.Context, c *commit, e *entry) error {
	if c.policy.OutsideDeny && !e.judged {
		ps.tellOutside(c, e.path)
	}
	return nil
}

func (ps *pass) tellOutside(c *commit, path string) {
	if c.policy.TakesOutside(path) || c.policy.Guards(path) {
		return
	}
	ps.tell(c, finding.Finding{Rule: "outside-thread", Path: path,
		Message: "the path lies outside threads, which the policy denies (envelopes.outside: deny)",
		Hint:    "git rm --cached -- " + finding.Word(path)})
}
