package rules

import (
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// A pending entry has no fence and lies where no envelope was seen yet. If one
// comes later in the same push, the directory is a thread and the entry is
// judged after all. In a whole history it is not: in which push what came is not
// known, and a document that a server has taken stays one, whoever makes a thread of
// its directory later.
type pending struct {
	commit    string
	policy    *policy.Policy
	findings  []finding.Finding
	more      finding.Counts // of findings that are not kept
	envelopes int
}

// wait puts the findings of an entry aside. Of very many they are only counted.
func (ps *pass) wait(c *commit, e *entry) {
	dir := c.policy.Under(e.thread)
	list := ps.waiting[dir]
	if ps.held < maxFindings {
		ps.held += len(e.findings)
		ps.waiting[dir] = append(list, pending{commit: c.id, policy: c.policy, findings: e.findings, envelopes: 1})
		return
	}
	if len(list) == 0 {
		list = append(list, pending{commit: c.id, policy: c.policy})
	}
	last := &list[len(list)-1]
	last.envelopes++
	for _, f := range e.findings {
		if f, ok := c.policy.Apply(f); ok {
			last.more.Add(f.Severity)
		}
	}
	ps.waiting[dir] = list
}

// place finds out whether an entry is an envelope, or stands where only envelopes may.
func (ps *pass) place(c *commit, e *entry) (err error) {
	if e.in, err = ps.thread(c.policy, e.thread); err == nil {
		e.judged = e.fenced || c.fenced[e.thread] || e.in.is
	}
	return err
}

// content finds out what stands at an envelope's path, and tells what is wrong
// with it as far as the file alone says.
func (ps *pass) content(c *commit, e *entry) (err error) {
	if err := ps.place(c, e); err != nil {
		return err
	}
	if !e.judged {
		if ps.OfTheTime == nil {
			ps.wait(c, e)
		}
		return nil
	}
	c.tells = true
	dir := c.policy.Under(e.thread)
	for _, p := range append(ps.waiting[dir], pending{commit: c.id, policy: c.policy, findings: e.findings, envelopes: 1}) {
		ps.Envelopes += p.envelopes
		ps.More = ps.More.Plus(p.more)
		for _, f := range p.findings {
			f.Commit, f.Ref = p.commit, ps.rng.Ref
			ps.add(p.policy, f)
		}
	}
	delete(ps.waiting, dir)
	// What breaks the schema is not judged further, unless the policy lets it pass.
	e.counts = e.added && e.env != nil && (e.env.Valid() || c.policy.Level(envelope.RuleSchema) != finding.Error)
	if e.relay = e.counts && e.env.IsRelay(); e.relay {
		ps.Relays++
	}
	return nil
}
