package rules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// frozen judges relay-frozen (docs/spec/relay.md#freeze): nothing but ACKs and
// the freezer's own words enters a thread while a freeze holds.
func (ps *pass) frozen(ctx context.Context, c *commit, e *entry) error {
	if !e.counts || e.env.Type == "ACK" || c.policy.Level("relay-frozen") == finding.Off {
		return nil
	}
	freezes, err := ps.freezes(c, e.thread)
	if err != nil {
		return err
	}
	var holds *freeze
	for i := range freezes {
		z := &freezes[i]
		if z.from == e.env.From {
			continue
		}
		if err := ps.hold(ctx, c, e.thread, z); err != nil {
			return err
		}
		if z.holds {
			holds = z
			break
		}
	}
	if holds == nil {
		return nil
	}
	ps.tellAt(c, e, "type", finding.Finding{Rule: "relay-frozen",
		Message: fmt.Sprintf("%s froze the thread with %s until %s", finding.QuoteMax(holds.from, 60), finding.Quote(holds.path), holds.until.UTC().Format(time.RFC3339)),
		Hint:    "wait for the decision, or send an ACK"})
	return nil
}

// A freeze is a fact that freezes its thread, as a commit sees it.
type freeze struct {
	*fact
	until        time.Time
	asked, holds bool // holds says nothing before it was asked for
}

// freezes returns what may freeze a thread when c comes, the longest first.
func (ps *pass) freezes(c *commit, name string) ([]freeze, error) {
	if list, known := c.freezes[name]; known {
		return list, nil
	}
	t, err := ps.thread(c.policy, name)
	if err != nil {
		return nil, err
	}
	now := ps.Now
	if c.obj != nil && !ps.Gate.server() {
		now = committed(c.obj)
	}
	var list []freeze
	for z, err := range t.those(history.Freezes) {
		if err != nil {
			return nil, err
		}
		if !z.freezes {
			continue
		}
		if end := z.more.attested.Add(time.Duration(c.policy.FreezeMinutes) * time.Minute); !now.After(end) {
			list = append(list, freeze{fact: z, until: end})
		}
	}
	slices.SortStableFunc(list, func(a, b freeze) int { return b.until.Compare(a.until) })
	if c.freezes == nil {
		c.freezes = map[string][]freeze{}
	}
	c.freezes[name] = list
	return list, nil
}

// hold finds out, once, whether a freeze holds for c: it lies in its history,
// and no thaw of it does.
func (ps *pass) hold(ctx context.Context, c *commit, name string, z *freeze) error {
	if z.asked {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if z.asked = true; !ps.before(c, z.fact) {
		return nil
	}
	t, err := ps.thread(c.policy, name)
	if err != nil {
		return err
	}
	thawed, err := ps.thawed(ctx, c, t, z.fact)
	z.holds = !thawed
	return err
}

// thawed reports whether the history of c holds a relay by the same sender that
// is no freeze and knew z.
func (ps *pass) thawed(ctx context.Context, c *commit, t *thread, z *fact) (bool, error) {
	for f, err := range t.those(history.Relay) {
		if err != nil {
			return false, err
		}
		if !f.valid || !f.relay || f.freezes || f.from != z.from {
			continue
		}
		if !ps.before(c, f) {
			continue
		}
		if knew, err := ps.after(ctx, f, z); knew || err != nil {
			return knew, err
		}
	}
	return false, nil
}

// after reports whether z is in the history of the commit that brought f.
func (ps *pass) after(ctx context.Context, f, z *fact) (bool, error) {
	switch {
	case f.commit >= 0 && z.commit >= 0:
		return ps.walk.ancestor(z.commit, f.commit), nil
	case f.commit < 0 && z.commit >= 0:
		return false, nil // f was there before the range, z came with it
	case f.commit < 0:
		// A freeze that counts is young, f may be as old as the history: what
		// was there when z came did not come after it.
		with, err := ps.broughtBy(ctx, z)
		if err != nil {
			return false, err
		}
		c, err := ps.Repo.Commit(with)
		if err != nil {
			return false, err
		}
		if older, err := ps.present(f, c.Tree); older || err != nil {
			return false, err
		}
	}
	from := ""
	if f.commit >= 0 {
		from = ps.walk.id(f.commit)
	} else {
		var err error
		if from, err = ps.broughtBy(ctx, f); err != nil {
			return false, err
		}
	}
	gc, err := ps.Repo.Commit(from)
	if err != nil {
		return false, err
	}
	for _, p := range gc.Parents {
		pc, err := ps.Repo.Commit(p)
		if err != nil {
			return false, err
		}
		if ok, err := ps.present(z, pc.Tree); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// broughtBy finds, once, the commit outside the range that brought a fact's
// path. It walks back from the range, and is used only for what is recent.
func (ps *pass) broughtBy(ctx context.Context, f *fact) (string, error) {
	if f.detail().brought != "" {
		return f.more.brought, nil
	}
	tips := ps.walk.boundIDs()
	slices.Sort(tips)
	for rev, err := range ps.Repo.RevList(ctx, tips, nil, gitrepo.RevListOptions{}) {
		if err != nil {
			return "", err
		}
		c, err := ps.Repo.Commit(rev.ID)
		if err != nil {
			return "", err
		}
		if ok, err := ps.present(f, c.Tree); err != nil || !ok {
			if err != nil {
				return "", err
			}
			continue
		}
		first := true
		for _, p := range rev.Parents {
			pc, err := ps.Repo.Commit(p)
			if err != nil {
				return "", err
			}
			ok, err := ps.present(f, pc.Tree)
			if err != nil {
				return "", err
			}
			first = first && !ok
		}
		if first {
			f.more.brought = rev.ID
			return rev.ID, nil
		}
	}
	return "", &policy.Undecided{Message: "the commit that brought " + finding.Quote(f.path) + " is not in the history"}
}
