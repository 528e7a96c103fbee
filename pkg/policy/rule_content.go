package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// A pending entry has no fence and lies where no envelope was seen yet. If one
// comes later in the same push, the directory is a thread and the entry is
// judged after all.
type pending struct {
	commit    string
	policy    *Policy
	findings  []finding.Finding
	more      finding.Counts // of findings that are not kept
	envelopes int
}

// wait puts the findings of an entry aside. Of very many they are only counted.
func (j *Judge) wait(c *commit, e *entry) {
	dir := c.policy.under(e.thread)
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
		if f, ok := c.policy.apply(f); ok {
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
		dir := c.policy.under(e.thread)
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

// strange tells of names that are no envelopes' and have an envelope for a twin.
func (j *Judge) strange(r Range, c *commit, strangers []stranger) error {
	for _, s := range strangers {
		other, err := j.twin(c, s.thread, s.path)
		if err != nil {
			return err
		}
		if c.policy.Candidate(other) {
			j.twins(r, c, s.path, other)
		}
	}
	return nil
}

// joined tells of twins that a merge brings together: each came by a side of
// its own, and no side has both.
func (j *Judge) joined(ctx context.Context, r Range, c *commit) error {
	if len(c.diffs) < 2 {
		return nil
	}
	told := map[string]bool{} // by path
	for _, ch := range c.brought {
		told[ch.Path] = true
	}
	var lacks []map[string]bool // what each parent has not of the merge, once it is needed
	for _, d := range c.diffs {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, ch := range d.Changes {
			if !ch.Added() || told[ch.Path] || !c.policy.Candidate(ch.Path) {
				continue
			}
			t, err := j.thread(c.policy, c.policy.threadOf(ch.Path))
			if err != nil {
				return err
			}
			if !t.is {
				continue // no thread
			}
			other, err := j.twin(c, t, ch.Path)
			if err != nil {
				return err
			}
			if other == "" || told[other] {
				continue
			}
			if lacks == nil {
				for _, d := range c.diffs {
					paths := map[string]bool{}
					for _, ch := range d.Changes {
						if ch.Added() {
							paths[ch.Path] = true
						}
					}
					lacks = append(lacks, paths)
				}
			}
			if !slices.ContainsFunc(lacks, func(paths map[string]bool) bool { return !paths[ch.Path] && !paths[other] }) {
				told[ch.Path], told[other] = true, true
				j.twins(r, c, ch.Path, other)
			}
		}
	}
	return nil
}

func (j *Judge) twins(r Range, c *commit, path, other string) {
	if other == "" {
		return
	}
	f := envelope.Twin(other)
	f.Path, f.Commit, f.Ref = path, c.id, r.Ref
	j.add(c.policy, f)
}

// A stranger is a path that is no envelope's, but would be if names were
// folded.
type stranger struct {
	path   string
	thread *thread
}

// noteNames makes the names that a commit brings known, each to the thread that
// a file system could put it in, and returns those that are no envelopes.
func (j *Judge) noteNames(c *commit) (strangers []stranger, err error) {
	for _, ch := range c.brought {
		if ch.Deleted() {
			continue
		}
		p, ok := ch.Path, c.policy.Candidate(ch.Path)
		rest, _ := c.policy.below(p)
		if !ok {
			var place bool
			if p, place = c.policy.envelopePlace(ch.Path); !place {
				continue
			}
			rest, _ = c.policy.belowFolded(portable.Fold(p))
		}
		name, _, _ := cutSlash(rest)
		t, err := j.thread(c.policy, name)
		if err != nil {
			return nil, err
		}
		t.note(p)
		if !ok && ch.Added() {
			strangers = append(strangers, stranger{p, t})
		}
	}
	return strangers, nil
}

// envelopePlace returns the begin of a path that has as many components as an
// envelope's; ok tells whether a file system could take it for one. A directory
// takes an envelope's place as a file does.
func (p *Policy) envelopePlace(path string) (place string, ok bool) {
	if strings.IndexByte(path, '\\') >= 0 {
		place = path
	} else {
		n := 2
		if p.Root != "" {
			n += 1 + strings.Count(p.Root, "/")
		}
		for i := range len(path) + 1 {
			if i == len(path) || path[i] == '/' {
				if n--; n == 0 {
					place = path[:i]
					break
				}
			}
		}
	}
	if place == "" {
		return "", false
	}
	_, ok = p.belowFolded(portable.Fold(place))
	return place, ok
}

// outside judges paths that are no envelopes, where the policy denies them.
func (j *Judge) outside(r Range, c *commit, changes []gitrepo.Change) {
	if !c.policy.OutsideDeny {
		return
	}
	judged := map[string]bool{}
	for _, e := range c.entries {
		judged[e.path] = e.judged
	}
	for _, ch := range changes {
		if judged[ch.Path] || c.policy.ignored(ch.Path) || ch.Path == policyPath || ch.Path == c.policy.Signers || ch.Path == c.policy.Revoked {
			continue
		}
		if ch.Deleted() && c.policy.Candidate(ch.Path) {
			continue // append-only tells
		}
		j.add(c.policy, finding.Finding{
			Rule: "outside-thread", Severity: finding.Error, Path: ch.Path, Commit: c.id, Ref: r.Ref,
			Message: "the path lies outside threads, which the policy denies (envelopes.outside: deny)",
			Hint:    fmt.Sprintf("git rm --cached -- %s", finding.Word(ch.Path)),
		})
	}
}
