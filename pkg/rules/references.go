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

// collect notes the references of an envelope, and judges in_reply_to if it is
// no relay.
func (ps *pass) collect(ctx context.Context, c *commit, e *entry) error {
	if c.obj == nil || e.env == nil || !e.judged || !e.added {
		return nil
	}
	if e.env.Conforms("references") {
		for i, text := range e.env.References {
			line, col := e.env.ItemPlace("references", i)
			ps.refs = append(ps.refs, reference{c.n, e.path, line, col, text, c.policy})
		}
	}
	if e.env.IsRelay() || !e.env.Conforms("in_reply_to") {
		return nil
	}
	found, err := ps.answered(ctx, c, e)
	if found || err != nil {
		return err
	}
	if cut, err := ps.cut(); cut || err != nil {
		return err
	}
	ps.tellAt(c, e, "in_reply_to", finding.Finding{Rule: "references",
		Message: "no earlier envelope of the thread has the body hash " + finding.Quote(e.env.InReplyTo),
		Hint:    "rig-bridge send writes the hash of the message that is answered: --in-reply-to FILE"})
	return nil
}

// references looks up what the envelopes of the range refer to
// (docs/spec/envelope.md#references).
func (ps *pass) references(ctx context.Context) error {
	if len(ps.refs) == 0 || ps.rng.Policy.Level("references") == finding.Off {
		return nil
	}
	cut, err := ps.cut()
	if err != nil {
		return err
	}
	resolved := map[string][]string{}
	older := lookups{}
	for _, ref := range ps.refs {
		ids, done := resolved[ref.text]
		if !done {
			if ids, err = ps.commitsOf(ref.text); err != nil {
				return err
			}
			resolved[ref.text] = ids
		}
		switch {
		case len(ids) == 0 && !cut:
			ps.tellRef(ref, "no commit has the id "+finding.Quote(ref.text))
		case len(ids) > 1:
			ps.tellRef(ref, "the id "+finding.Quote(ref.text)+" is ambiguous: several commits begin with it")
		case len(ids) == 1:
			if n, known := ps.walk.find(ids[0]); !known || n < 0 {
				older.add(ps.walk, ids[0], ref)
			} else if !ps.walk.ancestor(n, ref.commit) {
				ps.tellNoAncestor(ref)
			}
		}
	}
	return ps.lookUp(ctx, older)
}

func (ps *pass) tellRef(ref reference, message string) {
	ps.add(ref.policy, finding.Finding{Rule: "references", Path: ref.path, Line: ref.line, Col: ref.col,
		Commit: ps.walk.id(ref.commit), Ref: ps.rng.Ref, Message: message,
		Hint: "name commits that the branch has, as this tells them: git log --format=%H"})
}

func (ps *pass) tellNoAncestor(ref reference) {
	ps.tellRef(ref, "commit "+finding.Quote(ref.text)+" is not an ancestor of the commit that adds the envelope")
}

// lookups holds, for each set of commits just outside the range, the references
// that have to be looked up below it.
type lookups map[string]lookup

type lookup struct {
	bounds []string
	refs   map[string][]reference // by the commit that they name
}

func (all lookups) add(w *walk, id string, ref reference) {
	var bounds []string
	for _, b := range w.sets[w.below[ref.commit]] {
		bounds = append(bounds, w.bounds[b].id)
	}
	slices.Sort(bounds)
	key := strings.Join(bounds, " ")
	if _, known := all[key]; !known {
		all[key] = lookup{bounds, map[string][]reference{}}
	}
	all[key].refs[id] = append(all[key].refs[id], ref)
}

// lookUp tells of references to commits that the history below their bounds does
// not have.
func (ps *pass) lookUp(ctx context.Context, older lookups) error {
	for _, key := range sortedKeys(older) {
		l := older[key]
		for rev, err := range ps.Repo.RevList(ctx, sortedKeys(l.refs), l.bounds, gitrepo.RevListOptions{}) {
			if errors.Is(err, gitrepo.ErrCut) {
				break // unknown because cut is not reported
			}
			if err != nil {
				return err
			}
			for _, ref := range l.refs[rev.ID] {
				ps.tellNoAncestor(ref)
			}
		}
	}
	return nil
}

// cut reports whether the repository's history is cut off somewhere, so that
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
