package rules

import (
	"context"
	"slices"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/finding"
)

// threadClosed warns of a turn after RESOLUTION.
func (ps *pass) threadClosed(_ context.Context, c *commit, e *entry) error {
	if !e.added || e.env == nil {
		return nil
	}
	by, err := ps.closedBy(c, e)
	if by == nil || err != nil {
		return err
	}
	ps.tellAt(c, e, "type", finding.Finding{Rule: "thread-closed",
		Message: "the thread was closed by " + finding.Quote(by.path), Hint: "open a new thread: rig-bridge new THREAD"})
	return nil
}

// closedBy returns what closed the thread of an entry in the history of its
// commit, the first that has another path; nil if nothing did.
func (ps *pass) closedBy(c *commit, e *entry) (*fact, error) {
	if f, asked := c.closed[e.thread]; asked && (f == nil || f.path != e.path) {
		return f, nil
	}
	t, err := ps.thread(c.policy, e.thread)
	if err != nil {
		return nil, err
	}
	var first *fact
	same := false // one that closes it has its path
	if t.older != nil {
		for f, err := range t.older.of(history.Closes) {
			if err != nil {
				return nil, err
			}
			if same = same || f.path == e.path; f.path != e.path && ps.before(c, f) {
				first = f
				break
			}
		}
	}
	for _, f := range t.closed {
		if first != nil {
			break
		}
		if c.obj != nil && f.commit == c.n {
			break // its own come last
		}
		if f.path != e.path && ps.before(c, f) {
			first = f
			break
		}
	}
	if c.envelopes == 1 {
		return first, nil // nobody asks again
	}
	if c.closed == nil {
		c.closed = map[string]*fact{}
	}
	if _, asked := c.closed[e.thread]; !asked && (first != nil || !same && !slices.ContainsFunc(t.closed, func(f *fact) bool { return f.path == e.path })) {
		c.closed[e.thread] = first
	}
	return first, nil
}
