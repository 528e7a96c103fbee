package hooks

import (
	"context"
	"iter"
	"slices"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// Threads is collectThreads.
var Threads = collectThreads

// AtOnce sets how many commits are judged together.
func (c *Checker) AtOnce(n int) { c.atOnce = n }

// LineOf divides the history of a commit. It returns how many parts there are, whether
// they are remembered as a line, and whether that says of each part what git says.
func (c *Checker) LineOf(ctx context.Context, tip string) (n int, remembered, same bool, err error) {
	p, err := c.parts(ctx, tip, "")
	if err != nil || p.line == nil {
		return len(p.tips), false, true, err
	}
	same = true
	var exclude []string
	for _, t := range p.tips {
		walk := func(r interface {
			RevList(context.Context, []string, []string, gitrepo.RevListOptions) iter.Seq2[gitrepo.Rev, error]
		}) (revs []gitrepo.Rev) {
			for rev, e := range r.RevList(ctx, []string{t}, exclude, gitrepo.RevListOptions{Reverse: true}) {
				if e != nil {
					err = e
				}
				revs = append(revs, rev)
			}
			return revs
		}
		same = same && slices.EqualFunc(walk(p.line), walk(c.Repo), func(a, b gitrepo.Rev) bool {
			return a.ID == b.ID && slices.Equal(a.Parents, b.Parents)
		})
		exclude = []string{t}
	}
	return len(p.tips), true, same, err
}
