package policy

import "github.com/rigward/rigward/pkg/finding"

// A Rule is one entry of the registry: what it is called, how bad a violation
// is by default, where it can be judged, and what it says.
type Rule struct {
	ID      string
	Default finding.Severity
	Gates   string // "all", or the gates that can know enough
	Says    string
	// Locked rules cannot be switched off by the repository's own policy,
	// only by the server's (docs/spec/policy.md#file).
	Locked bool
}

const (
	atAll    = "all"
	atPush   = "pre-push, pre-receive, update, pull request, check"
	atServer = "pre-receive, update, pull request"
)

// rules is the registry, in the order of the documentation.
var rules = [...]Rule{
	{ID: "envelope-parse", Default: finding.Error, Gates: atAll, Says: "the file is one fenced YAML mapping in UTF-8, within its limits, without anchors, aliases, tags or duplicate keys"},
	{ID: "envelope-schema", Default: finding.Error, Gates: atAll, Says: "the front matter satisfies schemas/bridge-message.schema.json"},
	{ID: "envelope-date", Default: finding.Error, Gates: atAll, Says: "dates are real dates"},
	{ID: "envelope-path", Default: finding.Error, Gates: atAll, Says: "the thread is the directory, the entry a regular file of mode 100644, the name portable and without a twin"},
	{ID: "body-hash", Default: finding.Error, Gates: atAll, Says: "body_hash is the hash of the normalised body"},
	{ID: "tldr-length", Default: finding.Warning, Gates: atAll, Says: "tldr has at most 280 characters"},
	{ID: "references", Default: finding.Warning, Gates: atPush, Says: "references are ancestors; in_reply_to is known in the thread"},
	{ID: "append-only", Default: finding.Error, Gates: atAll, Locked: true, Says: "an accepted envelope is never changed, moved, retyped or deleted"},
	{ID: "fast-forward", Default: finding.Error, Gates: atPush, Locked: true, Says: "protected refs only move forward, are not deleted, and gain no second root commit"},
	{ID: "divergence", Default: finding.Warning, Gates: atPush, Says: "envelopes of one thread that were written without knowledge of each other are named"},
	{ID: "thread-closed", Default: finding.Warning, Gates: atAll, Says: "no turn after RESOLUTION"},
	{ID: "other-refs", Default: finding.Error, Gates: atPush, Says: "refs that are not protected are created and moved as the policy allows"},
	{ID: "outside-thread", Default: finding.Error, Gates: atAll, Says: "paths outside threads are changed only if the policy allows it"},
	{ID: "commit-signed", Default: finding.Error, Gates: atPush, Locked: true, Says: "a commit carries exactly one canonical SSH signature of an allowed signer"},
	{ID: "signer-identity", Default: finding.Error, Gates: atPush, Says: "where a listed key signed, the committer's address is one of its principals; author and committer are one"},
	{ID: "sender-key", Default: finding.Error, Gates: atPush, Says: "where a listed key signed, the sender's rig id is one of its principals, if signers list rig ids"},
	{ID: "signers-change", Default: finding.Error, Gates: atServer, Locked: true, Says: "policy and signers are changed only by a commit that the old signers accept"},
	{ID: "commit-clock", Default: finding.Error, Gates: atServer, Says: "the committer date is neither ahead of the clock nor before its parent's"},
	{ID: "push-cert", Default: finding.Error, Gates: "pre-receive", Says: "the push carries a good push certificate, where the policy requires one"},
	{ID: "relay-suffix", Default: finding.Error, Gates: atAll, Locked: true, Says: "attestation and a sender ending in -relay go together"},
	{ID: "relay-fields", Default: finding.Error, Gates: atAll, Locked: true, Says: "a relay has all attestation fields and a type that may be relayed"},
	{ID: "relay-commit", Default: finding.Error, Gates: atPush, Locked: true, Says: "a relay's commit adds exactly its own path and is no merge"},
	{ID: "relay-author", Default: finding.Error, Gates: atPush, Locked: true, Says: "the author of a relay's commit is the operator"},
	{ID: "relay-key", Default: finding.Error, Gates: atPush, Locked: true, Says: "attested_by names the key that signed"},
	{ID: "relay-nonce", Default: finding.Error, Gates: atPush, Locked: true, Says: "the nonce has its form and is unique in the history of the new tip"},
	{ID: "relay-reply", Default: finding.Error, Gates: atAll, Locked: true, Says: "in_reply_to is the body hash of an earlier envelope of the thread"},
	{ID: "relay-clock", Default: finding.Error, Gates: atPush, Locked: true, Says: "attested_at is near the committer date"},
	{ID: "relay-frozen", Default: finding.Off, Gates: atPush, Says: "nothing but ACKs enters a frozen thread"},
	{ID: "bundle-drift", Default: finding.Error, Gates: "pre-push, pull request, check", Says: "a committed bundle equals its rebuild"},
}

// Rules returns the registry in the order of the documentation.
func Rules() []Rule { return rules[:] }

// RuleByID returns the rule with that id.
func RuleByID(id string) (Rule, bool) {
	for _, r := range rules {
		if r.ID == id {
			return r, true
		}
	}
	return Rule{}, false
}
