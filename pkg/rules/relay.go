package rules

import (
	"context"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/relay"
)

// relays judges the attestation of the relays that a commit brings, by
// docs/spec/relay.md#commit, and collects what is looked up when the range is
// whole: nonces and references.
func (j *Judge) relays(ctx context.Context, r Range, c *commit) error {
	if c.obj != nil {
		if err := j.collect(r, c); err != nil {
			return err
		}
	}
	for _, e := range c.entries {
		if e.env != nil && e.env.Nonce != "" && j.Nonces != nil && len(j.brought) < maxBrought {
			j.brought = append(j.brought, history.Hit{Path: e.path, Blob: e.blob, Commit: c.id})
			j.nonced = append(j.nonced, e.env.Nonce)
		}
		if e.env == nil || !e.judged || !e.added || !e.env.Valid() && c.policy.Level(envelope.RuleSchema) == finding.Error {
			continue // nothing to judge, or told by another rule
		}
		if err := j.frozen(ctx, r, c, e); err != nil {
			return err
		}
		if !e.env.IsRelay() {
			continue
		}
		add := func(rule, key, message, hint string) {
			line, col := e.env.Place(key)
			j.add(c.policy, finding.Finding{Rule: rule, Severity: finding.Error, Path: e.path, Line: line, Col: col, Commit: c.id, Ref: r.Ref, Message: message, Hint: hint})
		}
		if c.obj != nil {
			j.relayCommit(c, e, add)
		}
		if err := j.relayReply(c, e, add); err != nil {
			return err
		}
		if c.obj != nil && e.env.Conforms("nonce") && relay.ValidNonce(e.env.Nonce) {
			line, col := e.env.Place("nonce")
			j.uses = append(j.uses, nonceUse{nonce: e.env.Nonce, path: e.path, blob: e.blob, commit: c.n, line: line, col: col, policy: c.policy})
		}
	}
	return nil
}
