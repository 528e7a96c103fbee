package rules

import (
	"context"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/relay"
)

// relayAuthor judges that the author of a relay's commit is the operator whose
// key signed it. Without a good signature commit-signed tells.
func (ps *pass) relayAuthor(_ context.Context, c *commit, e *entry) error {
	if !e.relay || c.verdict == nil || !c.verdict.Good() {
		return nil
	}
	who := func(i gitrepo.Ident) relay.Person { return relay.Person{Name: i.Name, Email: i.Email} }
	why := relay.Author(who(c.obj.Author), who(c.obj.Committer), c.verdict.Speaks, c.policy.DeniedAuthors)
	if why != "" {
		ps.tellAt(c, e, "from", finding.Finding{Rule: "relay-author", Message: why,
			Hint: "the operator commits it under their own name: " + ps.asAuthor(c)})
	}
	return nil
}
