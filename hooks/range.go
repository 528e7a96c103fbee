package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rigward/rigward/internal/drift"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// A Checker judges commits that are in a repository already, range by range:
// what `rig-hook check` and the action do.
type Checker struct {
	Repo    *gitrepo.Repo
	Loader  *policy.Loader
	Judge   *rules.Judge // with Gate Check
	Report  *report.Report
	Draw    bool         // fill Report.Threads
	Now     bool         // judge a whole history by the policy of Head, not of the time
	Head    string       // commit
	All     bool         // judge all bundles, as they are at the end of the range
	Bundles bool         // judge bundles
	Images  drift.Images // composes the images of bundles, nil if nobody does
	Default string       // full name of the default branch, "" to find it out
}

// NewChecker returns a Checker for an open repository. What its policy names
// by a path is read as the hooks read it.
func NewChecker(env *Env, repo *gitrepo.Repo, rep *report.Report) *Checker {
	return &Checker{
		Repo: repo, Report: rep, Bundles: true,
		Loader: NewLoader(repo),
		Judge:  &rules.Judge{Repo: repo, Gate: rules.Check, Now: env.Now()},
	}
}

// Range judges one range and adds what was found to the report. Policy and
// signers are those of the range; where it has none, they come from the commit
// before it: from r.Old, else the first of r.Exclude; a whole history is judged
// by those of the time. An error means that it could not be decided.
func (c *Checker) Range(ctx context.Context, r rules.Range) (err error) {
	base := r.Old
	if base == "" && len(r.Exclude) > 0 {
		base = r.Exclude[0]
	}
	if r.Policy == nil {
		if c.Now {
			base = c.Head
		} else if len(r.Exclude) == 0 || c.All {
			c.Judge.OfTheTime = c.Loader.Accepted
			if len(r.Exclude) > 0 { // from a baseline on
				from, err := c.Repo.Commit(r.Exclude[len(r.Exclude)-1])
				if err != nil {
					return err
				}
				c.Judge.Eras = rules.ErasFrom(from.Tree)
			}
		}
		r.From = base
		if r.Policy, r.Trust, err = c.Loader.AtCommit(base); err != nil {
			return err
		}
	}
	if c.Report.Fail == finding.Off || r.Policy.FailLevel < c.Report.Fail {
		c.Report.Fail = r.Policy.FailLevel
	}
	if len(r.Exclude) > 0 {
		c.Judge.Nonces = Nonces(c.Repo, r.Policy)
	}
	if r.Policy.NonceRefs && r.NonceTips == nil {
		if r.NonceTips, err = c.protectedTips(ctx, r.Policy); err != nil {
			return err
		}
	}
	if err := c.Judge.Range(ctx, r); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = &policy.Undecided{Message: fmt.Sprintf("%d of %d commits checked, then the time was up", c.Judge.Commits, c.Judge.Total), Hint: "raise --timeout", Cause: err}
		}
		return err
	}
	if c.Draw {
		addThreads(ctx, c.Repo, r, c.Report)
	}
	if !c.Bundles {
		return nil
	}
	d := drift.Judge{Repo: c.Repo, Now: c.Judge.Now, Images: c.Images}
	if c.All {
		// Those that the newest policy names, as they are now.
		d.All, d.Trusted = true, r.New
		if r.Policy, r.Trust, err = c.Loader.AtCommit(r.New); err != nil {
			return err
		}
	}
	err = d.Range(ctx, r)
	c.Report.Bundles = append(c.Report.Bundles, d.Bundles...)
	c.Judge.Findings = append(c.Judge.Findings, d.Findings...)
	return err
}

// protectedTips returns the commits of the protected branches: of a bare
// repository its own, elsewhere those that are known of the remote origin.
func (c *Checker) protectedTips(ctx context.Context, p *policy.Policy) (tips []string, err error) {
	at := gitrepo.Remote{Refs: map[string]string{}}
	if c.Repo.Bare() {
		if at.Head, _, err = c.Repo.HEAD(); err != nil {
			return nil, err
		}
		for ref, err := range c.Repo.Refs(ctx, "refs/heads/") {
			if err != nil {
				return nil, err
			}
			if ref.Target == "" {
				at.Refs[ref.Name] = ref.ID
			}
		}
	} else if at, err = c.Repo.Remote(ctx, "origin"); err != nil {
		return nil, err
	}
	return p.ProtectedTips(at.Refs, cmp.Or(c.Default, at.Head)), nil
}

// Tell moves what the judge found into the report.
func (c *Checker) Tell() {
	c.Report.Findings, c.Report.More = c.Judge.Findings, c.Judge.More
	c.Report.Commits, c.Report.Envelopes = c.Judge.Commits, c.Judge.Envelopes
	finding.Sort(c.Report.Findings)
}
