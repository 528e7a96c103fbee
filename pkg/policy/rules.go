package policy

import (
	"slices"

	"github.com/rigward/rigward/pkg/finding"
)

// A Rule is what a policy has to know of a rule that it names: how bad a
// violation is where it is silent, and whose policy may switch the rule off.
// Package rules adds how it is judged.
type Rule struct {
	ID      string
	Default finding.Severity
	// Off is FromServer for a rule that only a server's own policy may switch
	// off, FromRepository for one that a repository's policy may, too
	// (docs/spec/policy.md#file).
	Off Origin
}

// rules are in the order of the documentation.
var rules = [...]Rule{
	{"envelope-parse", finding.Error, FromRepository},
	{"envelope-schema", finding.Error, FromRepository},
	{"envelope-date", finding.Error, FromRepository},
	{"envelope-path", finding.Error, FromRepository},
	{"body-hash", finding.Error, FromRepository},
	{"tldr-length", finding.Warning, FromRepository},
	{"hidden-text", finding.Error, FromRepository},
	{"secret", finding.Error, FromRepository},
	{"references", finding.Warning, FromRepository},
	{"append-only", finding.Error, FromServer},
	{"fast-forward", finding.Error, FromServer},
	{"divergence", finding.Warning, FromRepository},
	{"thread-closed", finding.Warning, FromRepository},
	{"other-refs", finding.Error, FromRepository},
	{"outside-thread", finding.Error, FromRepository},
	{"clone-config", finding.Error, FromRepository},
	{"commit-signed", finding.Error, FromServer},
	{"signer-identity", finding.Error, FromRepository},
	{"sender-key", finding.Error, FromRepository},
	{"signers-change", finding.Error, FromServer},
	{"quorum", finding.Error, FromServer},
	{"commit-clock", finding.Error, FromRepository},
	{"push-cert", finding.Error, FromRepository},
	{"relay-suffix", finding.Error, FromServer},
	{"relay-fields", finding.Error, FromServer},
	{"relay-commit", finding.Error, FromServer},
	{"relay-author", finding.Error, FromServer},
	{"relay-key", finding.Error, FromServer},
	{"relay-nonce", finding.Error, FromServer},
	{"relay-reply", finding.Error, FromServer},
	{"relay-clock", finding.Error, FromServer},
	{"relay-frozen", finding.Off, FromRepository},
	{"bundle-drift", finding.Error, FromRepository},
	{"bundle-capability", finding.Warning, FromRepository},
}

// Rules returns what policies can name, in the order of the documentation.
func Rules() []Rule { return slices.Clone(rules[:]) }

// RuleByID returns the rule with that id.
func RuleByID(id string) (Rule, bool) {
	for _, r := range rules {
		if r.ID == id {
			return r, true
		}
	}
	return Rule{}, false
}
