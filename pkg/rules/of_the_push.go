package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// What a push changes of policy and signers counts for nothing in its favour: all of it is
// judged by what was there before. But where the push ended nobody knows who reads the
// history later: each commit is then judged by what was accepted before it (see Era). So
// that no reader and no audit refuses what a gate has let pass, a gate judges a range that
// changes policy or signers a second time, as they do, and what either pass refuses is
// refused (docs/spec/policy.md#of-the-push).

// later judges a range of the default branch, which was judged by what was there before,
// as a history is read.
func (j *Judge) later(ctx context.Context, r Range, first *pass) error {
	if j.Later == nil || j.OfTheTime != nil || !first.moving || !ofDefault(j.Gate, r) {
		return nil
	}
	own := &Judge{Repo: j.Repo, Gate: j.Gate, Now: j.Now, Nonces: j.Nonces, Memory: j.Memory, Extra: j.Extra,
		OfTheTime: j.Later, Bootstrap: true, portion: j.portion} // who may come first, the first pass says
	old := cmp.Or(r.Old, r.From)
	if old != "" {
		own.erasOf = own.boundEras(ctx, r, old)
	}
	ps, err := own.judge(ctx, r)
	if err == nil {
		j.union(own.Outcome)
		if era := ps.eras.list[ps.latest()]; era.Torn != nil {
			err = era.torn()
		}
	}
	var torn *policy.Undecided
	if errors.Is(err, errTorn) && errors.As(err, &torn) {
		j.add(r.Policy, finding.Finding{Rule: "signers-change", Severity: finding.Error, Ref: r.Ref, Message: torn.Message, Hint: torn.Hint})
		return nil
	}
	if err != nil {
		return err
	}
	return j.overtaken(ctx, r, ps, old)
}

// ofDefault reports whether a range comes on top of the commit whose policy judges it, or
// is to: what it changes then counts from there on.
func ofDefault(g Gate, r Range) bool {
	return !r.Beside && (r.Old == r.From || r.From == "" ||
		(g == Check || g == PullRequest) && r.Old == "" && len(r.Exclude) == 1 && r.Exclude[0] == r.From)
}

// boundEras makes the eras that old and the bounds of a range are in, by id, as who reads the
// history finds them: it judges what lies between old and its neck.
func (j *Judge) boundEras(ctx context.Context, r Range, old string) func([]bound) ([]Era, map[string]int32, error) {
	return func(bounds []bound) ([]Era, map[string]int32, error) {
		base, err := j.neck(ctx, r, old, bounds)
		if err != nil {
			return nil, nil, err
		}
		own := &Judge{Repo: j.Repo, Gate: Check, Now: j.Now, Memory: j.Memory, OfTheTime: j.OfTheTime, Bootstrap: true, portion: j.portion}
		before := Range{New: old, First: true, Policy: policy.Default(), Trust: policy.Untrusting("")}
		if base != "" {
			c, err := j.Repo.Commit(base)
			if err != nil {
				return nil, nil, err
			}
			own.Eras = ErasFrom(c.Tree)
			if base == old {
				return own.Eras, map[string]int32{}, nil
			}
			before = Range{New: old, Exclude: []string{base}, From: base}
			if before.Policy, before.Trust, err = j.OfTheTime(own.Eras[0].Files); err != nil {
				return nil, nil, err
			}
		}
		ps, err := own.judge(ctx, before)
		if err != nil {
			return nil, nil, err
		}
		heldAt := map[string]int32{old: int32(ps.latest())}
		for _, b := range bounds {
			if n, ok := ps.walk.find(b.id); ok {
				heldAt[b.id] = ps.eras.after(n)
			}
		}
		return ps.eras.list, heldAt, nil
	}
}

// neck returns the commit next to old that all its history goes through which lies behind
// those of the bounds that are in it, "" for none.
func (j *Judge) neck(ctx context.Context, r Range, old string, bounds []bound) (string, error) {
	sought := map[string]bool{}
	for _, b := range bounds {
		within := b.id != old
		if within && len(r.Exclude) > 1 {
			var err error
			if within, err = j.Repo.IsAncestor(ctx, b.id, old); err != nil {
				return "", err
			}
		}
		if within {
			sought[b.id] = true
		}
	}
	if len(sought) == 0 {
		return old, nil
	}
	seen, next := map[string]bool{}, map[string]bool{} // next are parents of what was seen
	for rev, err := range j.Repo.RevList(ctx, []string{old}, nil, gitrepo.RevListOptions{}) {
		if err != nil {
			return "", err
		}
		if len(seen) == r.Policy.MaxCommits {
			sign, err := j.Resign(r.New)
			if err != nil {
				return "", err
			}
			return "", &policy.Undecided{Message: fmt.Sprintf("policy or signers change on a side, and more than %d commits lie between where it began and %s (limits.commits)",
				r.Policy.MaxCommits, finding.Short(old)), Hint: "make the change on top of what the branch has: git rebase" + sign + " " + finding.Short(old)}
		}
		seen[rev.ID] = true
		delete(next, rev.ID)
		delete(sought, rev.ID)
		for _, p := range rev.Parents {
			if !seen[p] {
				next[p] = true
			}
		}
		if len(next) != 1 {
			continue
		}
		for id := range next {
			if len(sought) == 0 || len(sought) == 1 && sought[id] {
				return id, nil
			}
		}
	}
	return "", nil
}

// union adds what another judge has found of the same commits.
func (j *Judge) union(o Outcome) {
	for _, f := range o.Findings {
		same := func(g finding.Finding) bool { return g.Rule == f.Rule && g.Commit == f.Commit && g.Path == f.Path }
		i := slices.IndexFunc(j.Findings, same)
		if i >= 0 && slices.ContainsFunc(j.Findings[i:], func(g finding.Finding) bool { return same(g) && g.Severity >= f.Severity }) {
			continue
		}
		f.Message += ", by what comes with it of policy or signers"
		if i >= 0 {
			j.Findings[i] = f
		} else {
			j.keep(f)
		}
	}
	if j.More.Total() == 0 {
		j.More = o.More
	}
}

// overtaken refuses that a merge follows a side which changes policy or signers and lacks
// what the branch got meanwhile, if that would be refused by them: who reads the history
// cannot know that it was there first.
func (j *Judge) overtaken(ctx context.Context, r Range, ps *pass, old string) error {
	at, held := ps.line(old), ps.heldAt[old]
	if old == "" || at.from == "" || at.from == old || at.era == held {
		return nil
	}
	if n, known := ps.heldAt[at.from]; known && n != held && at.merge == "" {
		return nil // two changes will meet, and who merges them decides
	}
	from, err := j.Repo.Commit(at.from)
	if err != nil {
		return err
	}
	judged := func(own *Judge, p *policy.Policy, t *policy.Trust) ([]finding.Finding, error) {
		own.Repo, own.Gate, own.Memory = j.Repo, Check, j.Memory
		_, err := own.judge(ctx, Range{New: old, Exclude: []string{at.side}, Policy: p, Trust: t, From: at.from})
		return own.Findings, err
	}
	was, t, err := j.Later(policy.Accepted{Tree: from.Tree})
	if err != nil {
		return err
	}
	before, err := judged(&Judge{OfTheTime: j.Later, Eras: ErasFrom(from.Tree)}, was, t)
	if err != nil {
		return err
	}
	set, err := ps.set(at.era)
	if err != nil {
		return err
	}
	fixed := func(policy.Accepted) (*policy.Policy, *policy.Trust, error) { return set.policy, set.trust, nil }
	after, err := judged(&Judge{OfTheTime: fixed, Eras: ErasFrom(from.Tree)}, set.policy, set.trust)
	var none *policy.Undecided
	if errors.As(err, &none) {
		after, err = []finding.Finding{{Rule: none.Message, Commit: old, Severity: finding.Error}}, nil
	}
	if err != nil {
		return err
	}
	for _, f := range after {
		known := func(g finding.Finding) bool {
			return g.Rule == f.Rule && g.Commit == f.Commit && g.Path == f.Path && g.Severity == finding.Error
		}
		if f.Severity < finding.Error || slices.ContainsFunc(before, known) {
			continue
		}
		sign, err := j.Resign(r.New)
		if err != nil {
			return err
		}
		j.add(r.Policy, finding.Finding{Rule: "signers-change", Severity: finding.Error, Commit: cmp.Or(at.merge, r.New), Ref: r.Ref,
			Message: fmt.Sprintf("policy or signers change on a side that lacks commit %s, and whoever reads the history would judge that by them: %s",
				finding.Short(f.Commit), f.Rule),
			Hint: "make the change on top of what the branch has: git rebase" + sign + " " + finding.Short(old)})
		return nil
	}
	return nil
}

// A joint is where the line along which a history is read meets the commit that a ref had.
type joint struct {
	era   int32  // what counts on the line before that commit is merged
	merge string // the commit of the line that merges it, "" for none
	side  string // the commit of the line before that, or its end
	from  string // the bound that the line comes from, "" for none
}

// line follows the line that a history is read along, back from the end of the range.
func (ps *pass) line(old string) (at joint) {
	bound, ok := ps.walk.find(old)
	has := func(n int32) bool {
		return ok && slices.Contains(ps.walk.sets[ps.walk.setOf(n)], ^bound)
	}
	id := func(n int32) string {
		if n < 0 {
			return ps.walk.bounds[^n].id
		}
		return ps.walk.id(n)
	}
	n := int32(ps.walk.len() - 1)
	if n < 0 {
		return at
	}
	at.era, at.side = ps.eras.of[n], id(n)
	for n >= 0 {
		parents := ps.walk.parents(n)
		if len(parents) == 0 {
			return at
		}
		next := parents[ps.eras.main[n]]
		if has(n) && !has(next) {
			at.era, at.merge, at.side = ps.eras.after(next), id(n), id(next)
		}
		n = next
	}
	at.from = id(n)
	return at
}
