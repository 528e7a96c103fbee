package rules

import (
	"context"
	"slices"

	"github.com/rigward/rigward/pkg/policy"
)

// A Rule is a row of the registry: what policy.Rule says of it (its id, how bad
// a violation is where the policy file is silent, and whose policy may switch it
// off), the gates that can know enough to tell it, and what it says.
type Rule struct {
	policy.Rule
	Gates Gates
	Says  string // a clause without capital and period, in Markdown

	judge judge
}

// A judge is how a rule is judged; every part may be nil. Rules without any are
// told where envelopes are parsed (entry.parse, by packages envelope and relay),
// by Judge.Ref, or outside this package.
type judge struct {
	commit commitRule // first, of each commit, parents first
	entry  entryRule  // then of each entry at an envelope's path
	done   commitRule // then of the commit once more
	whole  rangeRule  // after all commits
}

type (
	commitRule func(*pass, context.Context, *commit) error
	entryRule  func(*pass, context.Context, *commit, *entry) error
	rangeRule  func(*pass, context.Context) error
)

const (
	everywhere = 1<<(Check+1) - 1
	ofCommits  = everywhere &^ (1 << PreCommit) // where there is a commit to look at
	atServer   = 1<<PreReceive | 1<<Update | 1<<PullRequest
)

// registry is in the order of the documentation, which is that of judging.
var registry = [...]Rule{
	{named("envelope-parse"), everywhere, "the file is one fenced YAML mapping in UTF-8, within its limits, " +
		"without anchors, aliases, tags or duplicate keys", judge{}},
	{named("envelope-schema"), everywhere, "the front matter satisfies schemas/bridge-message.schema.json", judge{}},
	{named("envelope-date"), everywhere, "dates are real dates", judge{}},
	{named("envelope-path"), everywhere, "the thread is the directory, the entry a regular file of mode 100644, " +
		"the name portable and without a twin",
		judge{commit: (*pass).guardedNames, entry: (*pass).twinOf, done: (*pass).twinsTogether}},
	{named("body-hash"), everywhere, "body_hash is the hash of the normalised body", judge{}},
	{named("tldr-length"), everywhere, "tldr has at most 280 characters", judge{}},
	{named("hidden-text"), everywhere, "nothing in envelopes, their commits' messages and file names is read by models " +
		"and not seen by people", judge{commit: (*pass).screenNames, done: (*pass).screenMessage}},
	{named("secret"), everywhere, "envelopes, their commits' messages and file names hold no keys and tokens", judge{}},
	{named("references"), ofCommits, "references are ancestors; in_reply_to is known in the thread",
		judge{entry: (*pass).collect, whole: (*pass).references}},
	{named("append-only"), everywhere, "an accepted envelope is never changed, moved, retyped or deleted; " +
		"only its body is taken out, as the policy's expunge says",
		judge{commit: (*pass).appendOnly, entry: (*pass).newTombstone}},
	{named("fast-forward"), ofCommits, "protected refs only move forward, are not deleted, and gain no second root commit",
		judge{whole: (*pass).fastForward}},
	{named("divergence"), ofCommits, "envelopes of one thread that were written without knowledge of each other are named",
		judge{commit: (*pass).divergence}},
	{named("thread-closed"), everywhere, "no turn after RESOLUTION", judge{entry: (*pass).threadClosed}},
	{named("other-refs"), ofCommits, "refs that are not protected are created and moved as the policy allows", judge{}},
	{named("outside-thread"), everywhere, "paths outside threads are changed only if the policy allows it",
		judge{commit: (*pass).outside, entry: (*pass).outsideEntry}},
	{named("clone-config"), everywhere, "nobody gets another clone's configuration, `" + policy.CloneConfig + "`, with the repository",
		judge{commit: (*pass).cloneConfig, whole: (*pass).cloneConfigs}},
	{named("commit-signed"), ofCommits, "a commit carries exactly one canonical SSH signature of an allowed signer",
		judge{commit: (*pass).commitSigned}},
	{named("signer-identity"), ofCommits, "where a listed key signed, the committer's address is one of its principals; " +
		"author and committer are one", judge{commit: (*pass).signerIdentity}},
	{named("sender-key"), ofCommits, "where a listed key signed, the sender's rig id is one of its principals, " +
		"if signers list rig ids", judge{entry: (*pass).senderKey}},
	{named("signers-change"), everywhere, "policy and signers are changed only by a commit that the old signers accept",
		judge{commit: (*pass).signersChange}},
	{named("quorum"), ofCommits, "as many people stand for a change of policy or signers, or for a relay, as the policy wants",
		judge{commit: (*pass).quorumOfTrust, entry: (*pass).quorumOfRelay}},
	{named("commit-clock"), atServer, "the committer date is neither ahead of the clock nor before its parent's",
		judge{commit: (*pass).commitClock}},
	{named("push-cert"), 1 << PreReceive, "the push carries a good push certificate, where the policy requires one", judge{}},
	{named("relay-suffix"), everywhere, "attestation and a sender ending in -relay go together", judge{}},
	{named("relay-fields"), everywhere, "a relay has all attestation fields and a type that may be relayed", judge{}},
	{named("relay-commit"), ofCommits, "a relay's commit adds exactly its own path and is not a merge",
		judge{entry: (*pass).relayCommit}},
	{named("relay-author"), ofCommits, "the author of a relay's commit is the operator", judge{entry: (*pass).relayAuthor}},
	{named("relay-key"), ofCommits, "attested_by names the key that signed", judge{entry: (*pass).relayKey}},
	{named("relay-nonce"), everywhere, "the nonce has its form and is unique in the history of the new tip",
		judge{entry: (*pass).useNonce, whole: (*pass).nonces}},
	{named("relay-reply"), everywhere, "in_reply_to is the body hash of an earlier envelope of the thread",
		judge{entry: (*pass).relayReply}},
	{named("relay-clock"), ofCommits, "attested_at is near the committer date", judge{entry: (*pass).relayClock}},
	{named("relay-frozen"), everywhere, "nothing but ACKs enters a frozen thread", judge{entry: (*pass).frozen}},
	{named("bundle-drift"), 1<<PrePush | 1<<PullRequest | 1<<Check, "a committed bundle equals its rebuild", judge{}},
	{named("bundle-capability"), 1<<PrePush | 1<<PullRequest | 1<<Check, "a bundle may do no more than at the base without being named", judge{}},
}

// named is what a policy knows of a rule; a test holds that it knows each.
func named(id string) policy.Rule {
	r, _ := policy.RuleByID(id)
	return r
}

// steps are what is run of the registry.
var steps = func() (s struct {
	commit, done []commitRule
	entry        []entryRule
	whole        []rangeRule
}) {
	for _, r := range registry {
		if r.judge.commit != nil {
			s.commit = append(s.commit, r.judge.commit)
		}
		if r.judge.entry != nil {
			s.entry = append(s.entry, r.judge.entry)
		}
		if r.judge.done != nil {
			s.done = append(s.done, r.judge.done)
		}
		if r.judge.whole != nil {
			s.whole = append(s.whole, r.judge.whole)
		}
	}
	return s
}()

// All returns the registry in the order of the documentation.
func All() []Rule { return slices.Clone(registry[:]) }

// ByID returns the rule with that id.
func ByID(id string) (r Rule, ok bool) {
	for _, r := range registry {
		if r.ID == id {
			return r, true
		}
	}
	return Rule{}, false
}
