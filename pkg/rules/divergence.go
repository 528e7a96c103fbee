package rules

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
)

// maxPairs is how many divergences of one merge are named one by one, maxCompared
// how many pairs of envelopes, with what they refer to, are looked at for them.
// maxBases is of how many merges of a range it is said since when: git takes a
// process for each, and long where histories cross often.
const (
	maxPairs    = 20
	maxCompared = 1 << 17
	maxBases    = 50
)

// divergence names, at a merge, the envelopes of one thread that were written
// on two sides without knowledge of each other.
func (ps *pass) divergence(ctx context.Context, c *commit) error {
	if len(c.diffs) < 2 {
		return nil
	}
	news, err := ps.newToSides(ctx, c)
	if err != nil {
		return err
	}
	d := diverged{told: map[[2]int]sides{}}
	pairs := 0
	for theirs, ours := range d.allPairs(news) {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.compared += len(theirs.refs()) + len(ours.refs())
		knew, err := ps.knew(theirs.fact, ours.fact)
		if err != nil {
			return err
		}
		if knew {
			continue
		}
		if pairs++; pairs > maxPairs {
			continue
		}
		since, err := ps.since(ctx, c, &d, theirs, ours)
		if err != nil {
			return err
		}
		ps.tell(c, finding.Finding{Rule: "divergence", Path: theirs.path,
			Message: fmt.Sprintf("%s wrote this and %s wrote %s without knowledge of each other%s",
				finding.QuoteMax(theirs.from, 60), finding.QuoteMax(ours.from, 60), finding.Quote(ours.path), since),
			Hint: "answer both: rig-bridge send with --ref for each",
		})
	}
	rest := ""
	if pairs > maxPairs {
		rest = fmt.Sprintf("%d more pairs of envelopes were written without knowledge of each other", pairs-maxPairs)
	}
	if d.compared > maxCompared {
		rest = cmp.Or(rest, "envelopes were written on both sides") + "; there are too many to compare all"
	}
	if rest != "" {
		ps.tell(c, finding.Finding{Rule: "divergence", Message: rest})
	}
	return nil
}

// since says from where on the sides of a pair went apart; for a merge it is
// asked once, of the first pair, and for no more than maxBases merges.
func (ps *pass) since(ctx context.Context, c *commit, d *diverged, theirs, ours *newFact) (string, error) {
	if d.since != "" || ps.bases >= maxBases {
		return d.since, nil
	}
	ps.bases++
	at := d.apart(theirs, ours)
	ids, err := ps.Repo.MergeBases(ctx, c.parents[at.has], c.parents[at.lacks])
	if err != nil {
		return "", err
	}
	if d.since = ", since no common commit"; len(ids) > 0 {
		d.since = ", since commit " + finding.Short(ids[0])
	}
	return d.since, nil
}

// A newFact is an envelope that a merge has and some of its parents lack.
type newFact struct {
	*fact
	lacks []int32 // these parents, sorted
	group int     // the same for all with the same parents
}

// newToSides returns, by thread, the envelopes that a merge takes from some of
// its parents, in the order in which the parents that lack them show them.
func (ps *pass) newToSides(ctx context.Context, c *commit) (map[string][]*newFact, error) {
	brought := map[string]bool{}
	for _, ch := range c.brought {
		brought[ch.Path] = true
	}
	news := map[string][]*newFact{}
	found := map[version]*newFact{} // nil: not an envelope that can be read
	known := factsByVersion{}
	older, err := ps.olderVersions(c, brought)
	if err != nil {
		return nil, err
	}
	for i, d := range c.diffs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, ch := range d.Changes {
			if !ch.Added() || brought[ch.Path] || !c.policy.Candidate(ch.Path) {
				continue
			}
			at := version{ch.Path, oidOf(ch.NewID)}
			n, asked := found[at]
			if !asked {
				name := c.policy.ThreadOf(ch.Path)
				t, err := ps.thread(c.policy, name)
				if err != nil {
					return nil, err
				}
				f := older[at]
				if f == nil {
					f = known.find(name, t, at, len(d.Changes) > smallThread)
				}
				if f != nil {
					n = &newFact{fact: f}
					news[name] = append(news[name], n)
				}
				found[at] = n
			}
			if n != nil {
				n.lacks = append(n.lacks, int32(i))
			}
		}
	}
	group(news)
	return news, nil
}

// olderVersions returns those contents that a merge takes from some of its parents
// which long threads had before the range.
func (ps *pass) olderVersions(c *commit, brought map[string]bool) (map[version]*fact, error) {
	asked := map[*older][]version{}
	for _, d := range c.diffs {
		for _, ch := range d.Changes {
			if !ch.Added() || brought[ch.Path] || !c.policy.Candidate(ch.Path) {
				continue
			}
			t, err := ps.thread(c.policy, c.policy.ThreadOf(ch.Path))
			if err != nil {
				return nil, err
			}
			if t.older != nil {
				asked[t.older] = append(asked[t.older], version{ch.Path, oidOf(ch.NewID)})
			}
		}
	}
	all := map[version]*fact{}
	for o, list := range asked {
		found, err := o.versions(list)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, found)
	}
	return all, nil
}

// group gives all envelopes that the same parents lack the same number.
func group(news map[string][]*newFact) {
	groups := map[string]int{}
	for _, list := range news {
		for _, n := range list {
			key := fmt.Sprint(n.lacks)
			if _, known := groups[key]; !known {
				groups[key] = len(groups)
			}
			n.group = groups[key]
		}
	}
}

// A version is a content at a path.
type version struct {
	path string
	blob oid
}

// factsByVersion holds the facts of threads of which much is new.
type factsByVersion map[string]map[version]*fact

// find returns the fact of a thread that is about a version, nil if there is
// none. many says that it will be asked often.
func (all factsByVersion) find(name string, t *thread, at version, many bool) *fact {
	if all[name] == nil && many {
		all[name] = make(map[version]*fact, len(t.facts))
		for _, f := range slices.Backward(t.facts) {
			all[name][version{f.path, f.blob}] = f
		}
	}
	if all[name] != nil {
		return all[name][at]
	}
	i := slices.IndexFunc(t.facts, func(f *fact) bool { return f.path == at.path && f.blob == at.blob })
	if i < 0 {
		return nil
	}
	return t.facts[i]
}

// A diverged finds pairs of envelopes of which neither side knew the other.
type diverged struct {
	compared int
	told     map[[2]int]sides // by groups
	since    string           // see pass.since
}

// allPairs yields the pairs of all threads.
func (d *diverged) allPairs(news map[string][]*newFact) iter.Seq2[*newFact, *newFact] {
	return func(yield func(theirs, ours *newFact) bool) {
		for _, name := range sortedKeys(news) {
			for theirs, ours := range d.pairs(news[name]) {
				if !yield(theirs, ours) {
					return
				}
			}
		}
	}
}

// sides are two parents of a merge: one has an envelope that the other lacks,
// and lacks one that the other has. Without them, has is lacks.
type sides struct{ lacks, has int32 }

// pairs yields the envelopes of a thread that came apart: some parent has the
// one and lacks the other, and some parent has the other and lacks the one. So
// what one side of an octopus knew of another is not named because a third
// lacks both. Of each pair that one comes first that the earlier parent lacks.
func (d *diverged) pairs(news []*newFact) iter.Seq2[*newFact, *newFact] {
	return func(yield func(theirs, ours *newFact) bool) {
		for i, a := range news {
			for _, b := range news[i+1:] {
				if d.compared > maxCompared {
					return
				}
				d.compared++
				if a.fact == b.fact {
					continue
				}
				at := d.apart(a, b)
				switch {
				case at.lacks == at.has:
					continue
				case at.lacks < at.has:
					if !yield(a, b) {
						return
					}
				case !yield(b, a):
					return
				}
			}
		}
	}
}

// apart returns the first parent that lacks a and has b, and the first that
// has a and lacks b.
func (d *diverged) apart(a, b *newFact) sides {
	if a.group == b.group {
		return sides{}
	}
	key := [2]int{a.group, b.group}
	at, known := d.told[key]
	if !known {
		d.compared += (len(a.lacks) + len(b.lacks)) / 8
		lacks, okA := firstWithout(a.lacks, b.lacks)
		has, okB := firstWithout(b.lacks, a.lacks)
		if okA && okB {
			at = sides{lacks, has}
		}
		d.told[key] = at
	}
	return at
}

// firstWithout returns the first of a that is not in b; both are sorted.
func firstWithout(a, b []int32) (int32, bool) {
	for _, v := range a {
		for len(b) > 0 && b[0] < v {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != v {
			return v, true
		}
	}
	return 0, false
}

// knew reports whether one of two envelopes shows that it knew the other: by
// in_reply_to, or by a reference to a commit that holds it.
func (ps *pass) knew(a, b *fact) (bool, error) {
	if a.hash != (oid{}) && b.reply == a.hash || b.hash != (oid{}) && a.reply == b.hash {
		return true, nil
	}
	for _, p := range [][2]*fact{{a, b}, {b, a}} {
		for _, ref := range p[0].refs() {
			tree, known := ps.holds[ref]
			if !known {
				var err error
				if tree, err = ps.treeOf(ref); err != nil {
					return false, err
				}
				ps.holds[ref] = tree
			}
			if tree == "" {
				continue
			}
			if ok, err := ps.present(p[1], tree); ok || err != nil {
				return ok, err
			}
		}
	}
	return false, nil
}
