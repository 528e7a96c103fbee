package rules

import (
	"context"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// answered reports whether in_reply_to is the body hash of an envelope of the
// same thread in the history of the commit (docs/spec/relay.md#reply).
func (ps *pass) answered(ctx context.Context, c *commit, e *entry) (bool, error) {
	t, err := ps.thread(c.policy, e.thread)
	if err != nil {
		return false, err
	}
	for f := range t.withHash(hashOf(e.env.InReplyTo)) {
		if c.obj != nil && f.commit == c.n {
			break // its own come last
		}
		if ps.before(c, f) {
			return true, nil
		}
	}
	if hash := hashOf(e.env.InReplyTo); t.older != nil && hash != (oid{}) {
		for f, err := range t.older.withHash(hash) {
			if err != nil || ps.before(c, f) {
				return err == nil, err
			}
		}
	}
	return ps.said(ctx, c, e)
}

// said asks whether the history before the range had the turn that a relay
// answers, though its trees have it no more: what was said stays said.
func (ps *pass) said(ctx context.Context, c *commit, e *entry) (bool, error) {
	if ps.Said == nil || c.obj == nil {
		return false, nil
	}
	commits, err := ps.Said(c.policy.Under(e.thread), e.env.InReplyTo)
	if err != nil {
		return false, err
	}
	for _, id := range commits {
		if id == c.id { // asked about before, and no earlier than itself
			continue
		}
		if known, err := ps.Repo.IsAncestor(ctx, id, c.id); known || err != nil {
			return known, err
		}
	}
	return false, nil
}

// relayReply judges that a relay answers an earlier turn of its thread.
func (ps *pass) relayReply(ctx context.Context, c *commit, e *entry) error {
	if !e.relay || !e.env.Conforms("in_reply_to") {
		return nil // absent or malformed: told by relay-fields, envelope-schema
	}
	found, err := ps.answered(ctx, c, e)
	if found || err != nil {
		return err
	}
	cut, err := ps.cut()
	if err != nil {
		return err
	}
	if cut {
		return &policy.Undecided{
			Message: "whether the turn that " + finding.Quote(e.path) + " answers is in the history cannot be known: the history is cut",
			Hint:    "git fetch --unshallow (in a GitHub workflow: fetch-depth: 0)",
		}
	}
	ps.tellAt(c, e, "in_reply_to", finding.Finding{Rule: "relay-reply",
		Message: "no earlier envelope of the thread has this body hash", Hint: "rig-bridge thread " + e.thread + " --json lists the hashes"})
	return nil
}
