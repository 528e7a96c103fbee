package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// maxSince is how many commits may lie between what was approved of and its place
// in the history.
const maxSince = 10_000

// A standing is who stands for a commit: its signer, and those who approved of it.
type standing struct {
	verdicts []sshsign.Verdict
	why      string // why none of its approvals count, "" if they do
	bad      []string
}

// quorumOfTrust judges that as many people stand for a change of who is trusted
// as the policy before it wants.
func (ps *pass) quorumOfTrust(ctx context.Context, c *commit) error {
	p := c.policy
	if c.obj == nil || p.QuorumTrust < 2 || len(c.trustPaths) == 0 || !c.trust.Exists() {
		return nil
	}
	s, err := ps.standing(ctx, c, true)
	if err != nil {
		return err
	}
	for _, v := range s.verdicts {
		if slices.ContainsFunc(p.QuorumRecovery, v.Speaks) {
			return nil
		}
	}
	ps.tellQuorum(c, s, p.QuorumTrust, "", "a change of "+finding.Path(c.trustPaths[0]), "quorum.trust")
	return nil
}

// quorumOfRelay judges the same of a relay.
func (ps *pass) quorumOfRelay(ctx context.Context, c *commit, e *entry) error {
	if c.obj == nil || !e.counts || !e.relay || e.env == nil {
		return nil
	}
	want := c.policy.RelayQuorum(e.thread, e.env.Type)
	if want < 2 {
		return nil
	}
	s, err := ps.standing(ctx, c, false)
	if err != nil {
		return err
	}
	ps.tellQuorum(c, s, want, e.path, "this relay", "quorum.relays")
	return nil
}

func (ps *pass) tellQuorum(c *commit, s standing, want int, path, what, key string) {
	people := sshsign.Voices(c.policy.QuorumOf, s.verdicts...)
	if len(people) >= want {
		return
	}
	message := fmt.Sprintf("%d of quorum.of stand for %s, the policy wants %d (%s)", len(people), what, want, key)
	if s.why != "" {
		message += "; its approvals do not count: " + s.why
	} else if len(s.bad) > 0 {
		message += "; of its approvals these do not count: " + strings.Join(s.bad, ", ")
	}
	ps.tell(c, finding.Finding{Rule: "quorum", Path: path, Message: message,
		Hint: "rig-hook approve " + finding.Short(c.id) + " shows what others have to sign"})
}

// byHardware reports whether a good signature was made as quorum.hardware wants.
func byHardware(p *policy.Policy, v *sshsign.Verdict) bool {
	switch p.QuorumHardware {
	case policy.Presence:
		return v.Presence
	case policy.Verification:
		return v.Verification
	}
	return true
}

// standing verifies the approvals of a commit. Those of a change of who is trusted
// are lost where that was changed since they were given.
func (ps *pass) standing(ctx context.Context, c *commit, trust bool) (s standing, err error) {
	if c.verdict != nil && c.verdict.Good() && byHardware(c.policy, c.verdict) {
		s.verdicts = append(s.verdicts, *c.verdict)
	}
	signer := len(s.verdicts)
	a, _, found := ParseApproval(c.obj.Message)
	if !found {
		return s, nil
	}
	if !a.wellFormed(len(c.id)) {
		s.why = "they are not of their form"
		return s, nil
	}
	// By which ref a commit came into a history is not known later.
	if ps.OfTheTime == nil && ps.rng.Ref != "" && a.Ref != ps.rng.Ref {
		s.why = "they are for the ref " + finding.QuoteMax(a.Ref, 100)
		return s, nil
	}
	list := sshsign.Armored(a.Signatures)
	if len(list) >= policy.MaxQuorum {
		s.why = fmt.Sprintf("there are %d, at most %d are read", len(list), policy.MaxQuorum-1)
		return s, nil
	}
	text, err := ApprovalText(ps.Repo, c.obj, a.On, a.Ref)
	if errors.Is(err, ErrNotApprovable) {
		s.why = err.Error()
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if s.why, err = ps.changedSince(ctx, c, a.On, trust); s.why != "" || err != nil {
		return s, err
	}
	signers, revoked, err := c.trust.Signers()
	if err != nil {
		return s, err
	}
	o := sshsign.Options{Namespace: sshsign.NamespaceApproval, MinRSABits: c.policy.MinRSABits, At: committed(c.obj)}
	if ps.Gate.server() {
		o.Now = ps.Now
	}
	for _, armored := range list {
		v := sshsign.VerifyMessage(text, armored, signers, revoked, o)
		if v.Key == nil {
			s.why, s.verdicts = "there is other text between or behind them", s.verdicts[:signer]
			return s, nil
		}
		if v.Good() && byHardware(c.policy, &v) {
			s.verdicts = append(s.verdicts, v)
		} else if v.Good() {
			s.bad = append(s.bad, v.Fingerprint+" without the "+c.policy.QuorumHardware+" that quorum.hardware wants of a security key")
		} else {
			s.bad = append(s.bad, strings.TrimSpace(v.Fingerprint+" "+string(v.Reason)))
		}
	}
	return s, nil
}

// changedSince says what has happened between the commit that something was approved on
// and the one before c, "" if nothing that matters: so an approval cannot be used
// a second time.
func (ps *pass) changedSince(ctx context.Context, c *commit, on string, trust bool) (why string, err error) {
	types, err := ps.Repo.Has([]string{on})
	if err != nil {
		return "", err
	}
	unknown := "they are for a history with the commit " + finding.Short(on)
	if types[0] != "commit" {
		cut, err := ps.cut()
		if cut && err == nil {
			err = &policy.Undecided{Message: "whether an approval is for this history cannot be known: the history is cut",
				Hint: "git fetch --unshallow (in a GitHub workflow: fetch-depth: 0)"}
		}
		return unknown, err
	}
	parent := c.parents[0]
	if before, err := ps.Repo.IsAncestor(ctx, on, parent); err != nil || !before {
		return unknown, err
	}
	if !trust { // a relay has a nonce, which comes once
		return "", nil
	}
	was, err := ps.trusted(c, on)
	if err != nil {
		return "", err
	}
	n := 0
	for rev, err := range ps.Repo.RevList(ctx, []string{parent}, []string{on}, gitrepo.RevListOptions{}) {
		if err != nil {
			return "", err
		}
		if n++; n > maxSince {
			return fmt.Sprintf("more than %d commits came since they were given", maxSince), nil
		}
		is, err := ps.trusted(c, rev.ID)
		if err != nil {
			return "", err
		}
		if !slices.Equal(is, was) {
			return "who is trusted was changed since, by " + finding.Short(rev.ID), nil
		}
	}
	return "", nil
}

// trusted are the blobs of policy, signers and revocations in a commit's tree.
func (ps *pass) trusted(c *commit, id string) (ids []string, err error) {
	obj, err := ps.Repo.Commit(id)
	if err != nil {
		return nil, err
	}
	for _, path := range c.policy.TrustPaths() {
		e, ok, err := ps.Repo.EntryAt(obj.Tree, path)
		if err != nil {
			return nil, err
		}
		if !ok {
			e = gitrepo.TreeEntry{}
		}
		ids = append(ids, e.Mode.String()+e.ID)
	}
	return ids, nil
}
