package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// A burial is an entry that reads as a tombstone (docs/spec/tombstone.md). Whether it
// is one, and may be there, is decided here and nowhere else.
type burial struct {
	why   string              // it is none that counts; "" if it is
	stone *envelope.Tombstone // of the content that it replaces, nil if its form is another
}

// burials finds the entries of a commit that read as tombstones, and judges their
// form: a commit that brings one changes nothing else, so that nothing is hidden
// beside it. What there is to be said of signatures lawful says later.
func (ps *pass) burials(c *commit) error {
	for _, e := range c.entries {
		if e.env == nil || e.env.Tombstone == nil {
			continue
		}
		b := &burial{}
		if c.burials == nil {
			c.burials = map[string]*burial{}
		}
		c.burials[e.path] = b
		changes := c.diffs[0].Changes
		switch {
		case len(c.policy.ExpungeSigners) == 0:
			b.why = "the policy names nobody in expunge.signers"
		case !e.replaces:
			b.why = "it is about no message of this path"
		case len(c.diffs) > 1:
			b.why = "it comes with a merge"
		case len(changes) > 1:
			b.why = fmt.Sprintf("the commit changes other paths besides it (%d)", len(changes)-1)
		case changes[0].OldMode != gitrepo.ModeFile || changes[0].NewMode != gitrepo.ModeFile:
			b.why = "the mode of the file is not 100644"
		default:
			var err error
			if b.stone, err = ps.buries(c.policy, changes[0]); err != nil {
				if !errors.Is(err, errNoTombstone) {
					return err
				}
				b.why = err.Error()
			} else if c.obj != nil {
				c.burial = b
			}
		}
	}
	return nil
}

// errNoTombstone is what an error wraps that says why a content is no tombstone.
var errNoTombstone = errors.New("")

// buries reports whether a change replaces a message by a tombstone of it; the
// error wraps errNoTombstone if it does not.
func (ps *pass) buries(p *policy.Policy, ch gitrepo.Change) (*envelope.Tombstone, error) {
	var data [2][]byte
	large := false
	for i, id := range []string{ch.OldID, ch.NewID} {
		var more bool
		var err error
		if data[i], more, err = ps.blob(id, p.AcceptedLimits().File); err != nil {
			return nil, err
		}
		large = large || more
	}
	no := func(why string) error { return fmt.Errorf("%s%w", why, errNoTombstone) }
	if large {
		return nil, no("the file is too large to be compared")
	}
	t, err := envelope.Buries(data[0], data[1], p.AcceptedLimits())
	switch {
	case err != nil:
		return nil, no(err.Error())
	case t.Path != ch.Path:
		return nil, no("it is about " + finding.QuoteMax(t.Path, 100))
	}
	return t, nil
}

// lawful judges, once the signature of its commit is known, whether a tombstone may
// be where it is: by whom it is, for which repository and ref, and whether enough
// of those have approved of it whom the policy names.
func (ps *pass) lawful(ctx context.Context, c *commit) (err error) {
	if c.burial == nil {
		return nil
	}
	if c.burial.why, err = ps.unlawful(ctx, c, c.burial.stone); err != nil {
		return err
	}
	for _, e := range c.entries { // the one
		if c.burials[e.path] == c.burial && c.burial.why == "" {
			e.added = false // also where a policy lets others replace what there is
		}
	}
	return nil
}

func (ps *pass) unlawful(ctx context.Context, c *commit, t *envelope.Tombstone) (why string, err error) {
	p, v := c.policy, c.verdict
	switch {
	case c.undecided != "":
		return "", nil // nothing is told of its commit
	case v == nil || !v.Good():
		return "the signature of its commit does not count", nil
	case t.By != c.obj.Committer.Email || !v.Speaks(t.By):
		return "it is by " + finding.QuoteMax(t.By, 80) + ", who did not sign its commit", nil
	case !slices.Contains(p.ExpungeSigners, t.By):
		return finding.QuoteMax(t.By, 80) + " is not one of expunge.signers", nil
	case t.Time().After(committed(c.obj).Add(p.ClockSkew)):
		return "it was made after its commit", nil
	case ps.OfTheTime == nil && ps.rng.Ref != "" && t.Ref != ps.rng.Ref:
		// By which ref a commit came into a history is not known later.
		return "it is for the ref " + finding.QuoteMax(t.Ref, 100), nil
	}
	here, err := ps.begins(ctx, c, t.Repository)
	if err != nil || !here {
		return "it is for a repository whose first commit is " + finding.QuoteMax(t.Repository, 64), err
	}
	list := sshsign.Armored(t.Approvals)
	if len(list) >= policy.MaxQuorum {
		return fmt.Sprintf("it has %d approvals, at most %d are read", len(list), policy.MaxQuorum-1), nil
	}
	s, r, err := c.trust.Signers()
	if err != nil {
		return "", err
	}
	o := sshsign.Options{Namespace: sshsign.NamespaceApproval, MinRSABits: p.MinRSABits, At: committed(c.obj)}
	if ps.Gate.server() {
		o.Now = ps.Now
	}
	verdicts := []sshsign.Verdict{*v}
	var bad []string
	for _, a := range list {
		v := sshsign.VerifyMessage(t.Signed, a, s, r, o)
		if v.Key == nil {
			return "behind its approvals there is other text", nil
		}
		if verdicts = append(verdicts, v); !v.Good() {
			bad = append(bad, strings.TrimSpace(fmt.Sprintf("%s %s", v.Fingerprint, v.Reason)))
		}
	}
	people := sshsign.Voices(p.ExpungeSigners, verdicts...)
	if len(people) >= p.ExpungeQuorum {
		return "", nil
	}
	why = fmt.Sprintf("%d of expunge.signers stand for it, the policy wants %d (expunge.quorum)", len(people), p.ExpungeQuorum)
	if len(bad) > 0 {
		why += "; of its approvals these do not count: " + strings.Join(bad, ", ")
	}
	return why, nil
}

// begins reports whether the history of a commit begins with a commit of that id.
func (ps *pass) begins(ctx context.Context, c *commit, id string) (bool, error) {
	if len(id) != len(c.id) || strings.Trim(id, "0123456789abcdef") != "" {
		return false, nil
	}
	types, err := ps.Repo.Has([]string{id})
	if err != nil {
		return false, err
	}
	if types[0] != "commit" {
		cut, err := ps.cut()
		if cut && err == nil {
			err = &policy.Undecided{Message: "whether a tombstone is for this repository cannot be known: the history is cut",
				Hint: "git fetch --unshallow (in a GitHub workflow: fetch-depth: 0)"}
		}
		return false, err
	}
	root, err := ps.Repo.Commit(id)
	if err != nil || len(root.Parents) > 0 {
		return false, err
	}
	return ps.Repo.IsAncestor(ctx, id, c.id)
}

// takesStone reports whether a merge has at a path what one of its parents has
// there, and this is a tombstone of what another one has. Whether it came to that
// parent lawfully, the commit that brought it there says.
func (ps *pass) takesStone(c *commit, ch gitrepo.Change) (bool, error) {
	if c.obj == nil || len(c.diffs) < 2 || ch.OldMode != gitrepo.ModeFile || ch.NewMode != gitrepo.ModeFile {
		return false, nil
	}
	for change := range c.changesAt(ch.Path) {
		if change.NewID != ch.NewID {
			return false, nil
		}
	}
	n := 0
	for range c.changesAt(ch.Path) {
		n++
	}
	if n == len(c.diffs) { // it is the merge's own
		return false, nil
	}
	_, err := ps.buries(c.policy, ch)
	if errors.Is(err, errNoTombstone) {
		return false, nil
	}
	return err == nil, err
}

// newTombstone refuses a new message that reads as a tombstone: readers take one
// for the word of operators, and its body_hash for that of what was said.
func (ps *pass) newTombstone(_ context.Context, c *commit, e *entry) error {
	if e.env == nil || e.env.Tombstone == nil || !e.judged || e.replaces {
		return nil // told by appendOnly
	}
	ps.tell(c, NewTombstone(e.env, e.path))
	return nil
}

// NewTombstone is the finding for a new message at path that reads as a tombstone.
func NewTombstone(e *envelope.Envelope, path string) finding.Finding {
	return finding.Finding{Rule: "append-only", Severity: finding.Error, Path: path, Line: e.Closing + 1, Col: 1,
		Message: "a new message reads as a tombstone, which takes the place of a message that was accepted", Hint: "begin the body with other words"}
}
