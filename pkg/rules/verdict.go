package rules

import (
	"slices"

	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// A Verdict is what the rules say of an envelope that a commit brings, changes
// or deletes.
type Verdict struct {
	Commit string
	Came   order.Moment // of the commit, where the judge has a clock
	Path   string       // raw bytes
	Blob   string       // "" if it is deleted
	Added  bool         // no parent has an envelope there
	Relay  bool         // it is, or claims to be, a relay
	// Tombstone says that it takes the place of a message's body lawfully, as far as
	// that can be decided.
	Tombstone bool
	Nonce     string // "" if it has none
	// Signature is the outcome for the commit's signature, "" if nobody is
	// trusted who could have made it. Principal is who made a good one: the
	// committer's address if the key may speak for it, else what the signers
	// file lists for it.
	Signature   sshsign.Reason
	Principal   string
	Fingerprint string
	Certificate bool // the key signed as that of a certificate
	// Speaks reports whether the signature is good, and its key may speak for the
	// committer and, where signers list rig ids, for the sender.
	Speaks bool
	// Rules are those for which the gates refuse the commit, in the order of
	// the registry.
	Rules []string
	// Undecided says why the gates cannot decide, "" if they can.
	Undecided string
}

// record keeps what is to be told of the envelopes that a commit brings, and
// of those that are no longer what they were.
func (ps *pass) record(c *commit, found []finding.Finding) error {
	v := Verdict{Commit: c.id, Came: c.came, Undecided: c.undecided}
	if c.verdict != nil {
		if v.Signature = c.verdict.Reason; c.verdict.Good() {
			v.Fingerprint, v.Principal = c.verdict.Fingerprint, c.obj.Committer.Email
			v.Certificate = c.verdict.Certificate != nil
			if !c.verdict.Speaks(v.Principal) {
				v.Principal = slices.Concat(c.verdict.Principals, []string{""})[0]
			}
		}
	}
	told := map[string]bool{}
	for _, e := range c.entries {
		if !e.judged {
			continue
		}
		told[e.path] = true
		own := v
		own.Path, own.Blob, own.Added = e.path, e.blob, e.added
		own.Tombstone = c.burial != nil && c.burial == c.burials[e.path] && c.burial.why == ""
		if e.env != nil {
			own.Relay, own.Nonce = e.env.IsRelay(), e.env.Nonce
			if c.verdict != nil && c.verdict.Speaks(c.obj.Committer.Email) {
				s, _, err := c.trust.Signers()
				// A tombstone is the word of the operators, whoever sent the message.
				own.Speaks = err == nil && (!s.HasRigIDs() || own.Tombstone || c.verdict.Speaks(e.env.From))
			}
		}
		ps.verdicts = append(ps.verdicts, own)
	}
	for _, f := range found {
		if f.Rule != "append-only" || f.Path == "" || told[f.Path] {
			continue
		}
		told[f.Path] = true
		own := v
		own.Path = f.Path
		e, ok, err := ps.lookup(c, f.Path)
		if err != nil {
			return err
		}
		if ok {
			own.Blob = e.ID
		}
		ps.verdicts = append(ps.verdicts, own)
	}
	return nil
}

// tellVerdicts tells what was recorded, with the rules that found is about.
func (ps *pass) tellVerdicts(found []finding.Finding) {
	broken := map[string][]string{}
	for _, f := range found {
		if f.Rule == "clone-config" {
			continue // no message is worth less for what lies beside it
		}
		if f.Severity == finding.Error && f.Commit != "" && !slices.Contains(broken[f.Commit], f.Rule) {
			broken[f.Commit] = append(broken[f.Commit], f.Rule)
		}
	}
	for _, list := range broken {
		slices.SortFunc(list, func(a, b string) int { return place(a) - place(b) })
	}
	for _, v := range ps.verdicts {
		v.Rules = broken[v.Commit]
		ps.Told(v)
	}
	ps.verdicts = nil
}

// place is where a rule stands in the registry.
func place(id string) int {
	return slices.IndexFunc(policy.Rules(), func(r policy.Rule) bool { return r.ID == id })
}
