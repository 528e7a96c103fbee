package rules

import (
	"fmt"
	"strconv"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/relay"
)

// relayCommit judges relay-commit, relay-author, relay-key and relay-clock.
func (j *Judge) relayCommit(c *commit, e *entry, add func(rule, key, message, hint string)) {
	const alone = "rig-bridge relay commits a relay alone; take this commit apart"
	switch n := len(c.diffs[0].Changes); {
	case len(c.parents) > 1:
		add("relay-commit", "from", "a relay is added by a merge commit", alone)
	case n > 1 && c.attested > 1:
		add("relay-commit", "from", fmt.Sprintf("the commit brings %d relays, expected one", c.attested), alone)
	case n > 1:
		add("relay-commit", "from", "the commit changes other paths besides the relay ("+strconv.Itoa(n-1)+"), expected none", alone)
	}
	if v := c.verdict; v != nil && v.Good() {
		who := func(i gitrepo.Ident) relay.Person { return relay.Person{Name: i.Name, Email: i.Email} }
		if why := relay.Author(who(c.obj.Author), who(c.obj.Committer), v.Speaks, c.policy.DeniedAuthors); why != "" {
			add("relay-author", "from", why, "the operator commits it under their own name: rig-bridge relay")
		}
		if e.env.Conforms("attested_by") {
			switch relay.NamesKey(e.env.AttestedBy, v.Key) {
			case relay.OtherKey:
				add("relay-key", "attested_by", "attested_by does not name the key that signed, "+v.Fingerprint, "attested_by: "+v.Fingerprint)
			case relay.NoKey:
				line, col := e.env.Place("attested_by")
				j.add(c.policy, finding.Finding{Rule: "relay-key", Severity: c.policy.PathKey, Path: e.path, Line: line, Col: col, Commit: c.id,
					Message: "attested_by is a path, which names no key; the key that signed is " + v.Fingerprint, Hint: "attested_by: " + v.Fingerprint})
			}
		}
	}
	if e.env.Conforms("attested_at") {
		if at, _, err := envelope.ParseTime(e.env.AttestedAt); err == nil {
			if why := relay.Clock(at, committed(c.obj), c.policy.RelayClock); why != "" {
				add("relay-clock", "attested_at", why, "relay again: rig-bridge relay")
			}
		}
	}
}
