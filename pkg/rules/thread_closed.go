package rules

import (
	"context"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
)

// threadClosed warns of a turn after RESOLUTION.
func (j *Judge) threadClosed(_ context.Context, r Range, c *commit) error {
	for _, e := range c.entries {
		if !e.added || e.env == nil {
			continue
		}
		by, err := j.closedBy(c, e)
		if err != nil {
			return err
		}
		if by == nil {
			continue
		}
		line, col := e.env.Place("type")
		j.add(c.policy, finding.Finding{
			Rule: "thread-closed", Severity: finding.Warning, Path: e.path, Line: line, Col: col, Commit: c.id, Ref: r.Ref,
			Message: "the thread was closed by " + finding.Quote(by.path), Hint: "open a new thread: rig-bridge new THREAD",
		})
	}
	return nil
}

// closedBy returns what closed the thread of an entry in the history of its
// commit, the first that has another path; nil if nothing did.
func (j *Judge) closedBy(c *commit, e *entry) (*fact, error) {
	if f, asked := c.closed[e.thread]; asked && (f == nil || f.path != e.path) {
		return f, nil
	}
	t, err := j.thread(c.policy, e.thread)
	if err != nil {
		return nil, err
	}
	var first *fact
	for _, f := range t.closed {
		if c.obj != nil && f.commit == c.n {
			break // its own come last
		}
		if f.path != e.path && j.before(c, f) {
			first = f
			break
		}
	}
	if c.closed == nil {
		c.closed = map[string]*fact{}
	}
	if _, asked := c.closed[e.thread]; !asked && (first != nil || !slices.ContainsFunc(t.closed, func(f *fact) bool { return f.path == e.path })) {
		c.closed[e.thread] = first
	}
	return first, nil
}
