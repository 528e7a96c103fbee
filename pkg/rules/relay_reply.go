package rules

import (
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// answered tells whether in_reply_to is the body hash of an envelope of the
// same thread in the history of the commit (docs/spec/relay.md#reply).
func (j *Judge) answered(c *commit, e *entry) (bool, error) {
	t, err := j.thread(c.policy, e.thread)
	if err != nil {
		return false, err
	}
	for f := range t.withHash(hashOf(e.env.InReplyTo)) {
		if c.obj != nil && f.commit == c.n {
			break // its own come last
		}
		if j.before(c, f) {
			return true, nil
		}
	}
	return false, nil
}

func (j *Judge) relayReply(c *commit, e *entry, add func(rule, key, message, hint string)) error {
	if !e.env.Conforms("in_reply_to") {
		return nil // absent or malformed: told by relay-fields, envelope-schema
	}
	found, err := j.answered(c, e)
	if found || err != nil {
		return err
	}
	cut, err := j.cut()
	if err != nil {
		return err
	}
	if cut {
		return &policy.Undecided{
			Message: "whether the turn that " + finding.Quote(e.path) + " answers is in the history cannot be known: the history is cut",
			Hint:    "git fetch --unshallow (in a GitHub workflow: fetch-depth: 0)",
		}
	}
	add("relay-reply", "in_reply_to", "no earlier envelope of the thread has this body hash", "rig-bridge thread "+e.thread+" --json lists the hashes")
	return nil
}
