package rules

import (
	"context"
	"fmt"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/relay"
)

// anew is the hint to make a relay of a commit again, with a nonce and a time of
// its own. The commit goes out of the branch, for no gate would take it, by a
// command, "" for none.
func anew(out, file string) string {
	hint := "relay again: "
	if out != "" {
		hint += out + " && "
	}
	return hint + relay.Command(file)
}

// relayCommit judges that a relay's commit adds exactly its own path and is no
// merge (docs/spec/relay.md#commit).
func (ps *pass) relayCommit(_ context.Context, c *commit, e *entry) error {
	if !e.relay || c.obj == nil {
		return nil
	}
	why := ""
	switch n := len(c.diffs[0].Changes); {
	case len(c.parents) > 1:
		why = "a relay is added by a merge commit"
	case n > 1 && c.attested > 1:
		why = fmt.Sprintf("the commit brings %d relays, expected one", c.attested)
	case n > 1:
		why = fmt.Sprintf("the commit changes other paths besides the relay (%d), expected none", n-1)
	default:
		return nil
	}
	ps.tellAt(c, e, "from", finding.Finding{Rule: "relay-commit", Message: why,
		Hint: "rig-bridge relay commits a relay alone; take this commit apart"})
	return nil
}
