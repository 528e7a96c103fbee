package rules

import (
	"context"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// A pending entry has no fence and lies where no envelope was seen yet. If one
// comes later in the same push, the directory is a thread and the entry is
// judged after all.
type pending struct {
	commit    string
	policy    *policy.Policy
	findings  []finding.Finding
	more      finding.Counts // of findings that are not kept
	envelopes int
}

// wait puts the findings of an entry aside. Of very many they are only counted.
func (j *Judge) wait(c *commit, e *entry) {
	dir := c.policy.Under(e.thread)
	list := j.waiting[dir]
	if j.held < MaxFindings {
		j.held += len(e.findings)
		j.waiting[dir] = append(list, pending{commit: c.id, policy: c.policy, findings: e.findings, envelopes: 1})
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
	j.waiting[dir] = list
}

// content tells what is wrong with the envelopes that a commit brings: the
// rules that a file alone can break, and the twins of its path.
func (j *Judge) content(_ context.Context, r Range, c *commit) error {
	for _, e := range c.entries {
		t, err := j.thread(c.policy, e.thread)
		if err != nil {
			return err
		}
		e.judged = e.fenced || c.fenced[e.thread] || t.is
		if !e.judged {
			j.wait(c, e)
			continue
		}
		dir := c.policy.Under(e.thread)
		for _, p := range append(j.waiting[dir], pending{commit: c.id, policy: c.policy, findings: e.findings, envelopes: 1}) {
			j.Envelopes += p.envelopes
			j.More = j.More.Plus(p.more)
			for _, f := range p.findings {
				f.Commit, f.Ref = p.commit, r.Ref
				j.add(p.policy, f)
			}
		}
		delete(j.waiting, dir)
		other, err := j.twin(c, t, e.path)
		if err != nil {
			return err
		}
		j.twins(r, c, e.path, other)
	}
	return nil
}
