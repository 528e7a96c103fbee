package rules

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// A reference is one item of an envelope's references, to be looked up when
// the whole range is known.
type reference struct {
	commit    int32 // in the walk
	path      string
	line, col int
	text      string
	policy    *policy.Policy
}

// collect notes the references of the envelopes that a commit brings, and
// judges the in_reply_to of those that are no relays.
func (j *Judge) collect(r Range, c *commit) error {
	for _, e := range c.entries {
		if e.env == nil || !e.judged || !e.added {
			continue
		}
		if e.env.Conforms("references") {
			for i, text := range e.env.References {
				line, col := e.env.ItemPlace("references", i)
				j.refs = append(j.refs, reference{c.n, e.path, line, col, text, c.policy})
			}
		}
		if e.env.IsRelay() || !e.env.Conforms("in_reply_to") {
			continue
		}
		found, err := j.answered(c, e)
		if err != nil {
			return err
		}
		if !found {
			cut, err := j.cut()
			if err != nil {
				return err
			}
			if !cut {
				line, col := e.env.Place("in_reply_to")
				j.add(c.policy, finding.Finding{Rule: "references", Severity: finding.Warning, Path: e.path, Line: line, Col: col, Commit: c.id, Ref: r.Ref,
					Message: "no earlier envelope of the thread has the body hash " + finding.Quote(e.env.InReplyTo)})
			}
		}
	}
	return nil
}

// references looks up what the envelopes of the range refer to
// (docs/spec/envelope.md#references).
func (j *Judge) references(ctx context.Context, r Range) error {
	refs := j.refs
	j.refs = nil
	if len(refs) == 0 || r.Policy.Level("references") == finding.Off {
		return nil
	}
	cut, err := j.cut()
	if err != nil {
		return err
	}
	add := func(ref reference, message string) {
		j.add(ref.policy, finding.Finding{Rule: "references", Severity: finding.Warning, Path: ref.path, Line: ref.line, Col: ref.col, Commit: j.walk.id(ref.commit), Ref: r.Ref, Message: message})
	}
	resolved := map[string][]string{}
	// outside holds, for each set of commits just outside the range, what has
	// to be looked up below it.
	type group struct {
		bounds []string
		ids    map[string][]reference
	}
	groups := map[string]*group{}
	for _, ref := range refs {
		ids, done := resolved[ref.text]
		if !done {
			if ids, err = j.commitsOf(ref.text); err != nil {
				return err
			}
			resolved[ref.text] = ids
		}
		switch {
		case len(ids) == 0 && !cut:
			add(ref, "no commit has the id "+finding.Quote(ref.text))
		case len(ids) > 1:
			add(ref, "the id "+finding.Quote(ref.text)+" is ambiguous: several commits begin with it")
		case len(ids) == 1:
			if n, known := j.walk.find(ids[0]); known && n >= 0 {
				if !j.walk.ancestor(n, ref.commit) {
					add(ref, "commit "+finding.Quote(ref.text)+" is no ancestor of the commit that adds the envelope")
				}
				continue
			}
			var bounds []string
			for _, b := range j.walk.sets[j.walk.below[ref.commit]] {
				bounds = append(bounds, j.walk.bounds[b].id)
			}
			slices.Sort(bounds)
			key := strings.Join(bounds, " ")
			if groups[key] == nil {
				groups[key] = &group{bounds, map[string][]reference{}}
			}
			groups[key].ids[ids[0]] = append(groups[key].ids[ids[0]], ref)
		}
	}
	for _, key := range sortedKeys(groups) {
		g := groups[key]
		for rev, err := range j.Repo.RevList(ctx, sortedKeys(g.ids), g.bounds, gitrepo.RevListOptions{}) {
			if errors.Is(err, gitrepo.ErrCut) {
				break // unknown because cut is not reported
			}
			if err != nil {
				return err
			}
			for _, ref := range g.ids[rev.ID] {
				add(ref, "commit "+finding.Quote(ref.text)+" is no ancestor of the commit that adds the envelope")
			}
		}
	}
	return nil
}

// cut tells whether the repository's history is cut off somewhere, so that
// what is not found may only be out of sight.
func (j *Judge) cut() (bool, error) {
	shallow, err := j.Repo.Shallow()
	return len(shallow) > 0, err
}

// treeOf returns the tree of the commit that an abbreviated id names; "" if it
// is unknown or ambiguous.
func (j *Judge) treeOf(prefix string) (string, error) {
	ids, err := j.commitsOf(prefix)
	if err != nil || len(ids) != 1 {
		return "", err
	}
	c, err := j.Repo.Commit(ids[0])
	if err != nil {
		return "", err
	}
	return c.Tree, nil
}

func (j *Judge) commitsOf(prefix string) ([]string, error) {
	ids, err := j.Repo.ResolvePrefix(prefix)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	types, err := j.Repo.Has(ids)
	if err != nil {
		return nil, err
	}
	var commits []string
	for i, id := range ids {
		if types[i] == "commit" {
			commits = append(commits, id)
		}
	}
	return commits, nil
}
