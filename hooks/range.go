package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rigward/rigward/internal/drift/ask"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// A Checker judges commits that are in a repository already, range by range:
// what `rig-hook check` and the action do.
type Checker struct {
	Repo      *gitrepo.Repo
	Loader    *policy.Loader
	Judge     *rules.Judge // with Gate Check
	Report    *report.Report
	Draw      bool      // fill Report.Threads
	Now       bool      // judge a whole history by the policy of Head, not of the time
	Head      string    // commit
	All       bool      // judge all bundles, as they are at the end of the range
	Bundles   ask.Judge // judges bundles
	NoBundles bool      // leave bundles out
	Default   string    // full name of the default branch, "" to find it out

	atOnce int // up to how many commits are judged together; 0 stands for maxAtOnce
}

// NewChecker returns a Checker for an open repository. What its policy names
// by a path is read as the hooks read it.
func NewChecker(env *Env, repo *gitrepo.Repo, rep *report.Report) *Checker {
	l := NewLoader(repo)
	return &Checker{
		Repo: repo, Report: rep, Bundles: env.Bundles,
		Loader: l,
		Judge:  &rules.Judge{Repo: repo, Gate: rules.Check, Now: env.Now(), Later: l.Accepted},
	}
}

// Range judges one range and adds what was found to the report. Policy and
// signers are those of the range; where it has none, they come from the commit
// before it: from r.Old, else the first of r.Exclude; a whole history is judged
// by those of the time. An error means that it could not be decided.
func (c *Checker) Range(ctx context.Context, r rules.Range) (err error) {
	if err := c.rules(ctx, &r); err != nil {
		return err
	}
	if err := c.Judge.Range(ctx, r); err != nil {
		return c.timeUp(err)
	}
	return c.others(ctx, r)
}

// rules finds the policy and the signers of a range, and of what its nonces are
// compared with.
func (c *Checker) rules(ctx context.Context, r *rules.Range) (err error) {
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
		c.Judge.Nonces, c.Judge.Turns = Nonces(c.Repo, r.Policy), Turns(c.Repo, r.Policy)
	}
	if r.Policy.NonceRefs && r.NonceTips == nil {
		if r.NonceTips, err = c.protectedTips(ctx, r.Policy); err != nil {
			return err
		}
	}
	return nil
}

// timeUp says of an error how far the judge came, where the time was up.
func (c *Checker) timeUp(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &policy.Undecided{Message: fmt.Sprintf("%d of %d commits checked, then the time was up", c.Judge.Commits, c.Judge.Total), Hint: "raise --timeout", Cause: err}
	}
	return err
}

// others judges bundles, and draws threads, of a range that is judged.
func (c *Checker) others(ctx context.Context, r rules.Range) (err error) {
	if c.Draw {
		addThreads(ctx, c.Repo, r, c.Report)
	}
	if c.NoBundles {
		return nil
	}
	q := ask.Question{Now: c.Judge.Now}
	if c.All {
		// Those that the newest policy names, as they are now.
		q.All, q.Trusted = true, r.New
		r.Policy, r.Trust, err = c.Loader.AtCommit(r.New)
		if err != nil {
			return unlessTold(err, c.Judge)
		}
	}
	q.Range = r
	return judgeBundles(ctx, c.Bundles, q, c.Repo, c.Report, c.Judge)
}

// judgeBundles adds what is found in the bundles of a range to a report.
func judgeBundles(ctx context.Context, judge ask.Judge, q ask.Question, repo *gitrepo.Repo, rep *report.Report,
	j *rules.Judge) error {
	if q.Range.Policy == nil || len(q.Range.Policy.Bundles) == 0 {
		return nil
	}
	if judge == nil {
		return &policy.Undecided{Message: "the policy names bundles, which this program cannot judge"}
	}
	found, err := judge(ctx, repo, q)
	rep.Bundles = append(rep.Bundles, found.Bundles...)
	j.Findings = append(j.Findings, found.Findings...)
	return unlessTold(err, j)
}

// unlessTold is an error, nil for a malformed commit that was found: nothing of it can be
// judged further.
func unlessTold(err error, j *rules.Judge) error {
	var bad *gitrepo.MalformedCommitError
	if errors.As(err, &bad) && slices.ContainsFunc(j.Findings, func(f finding.Finding) bool { return f.Commit == bad.ID && f.Severity == finding.Error }) {
		return nil
	}
	return err
}

// maxAtOnce is up to how many commits of a history are judged together. What later
// ones need of earlier ones is held in memory, some hundred bytes of each; behind so
// many it is read again.
const maxAtOnce = 250_000

// Whole judges a whole history as Range does, and finds the same. What is marked as
// judged before is not read again, and what was judged is marked; a is nil where
// neither may be.
//
// Nothing is left out of a report by a mark: where behind it anything is found that
// could look other in the light of what is before, all is judged together.
func (c *Checker) Whole(ctx context.Context, r rules.Range, a *verdict.Audit) error {
	if a == nil || c.Now || c.Draw || len(r.Exclude) > 0 {
		return c.Range(ctx, r)
	}
	if err := c.rules(ctx, &r); err != nil {
		return err
	}
	if r.Policy.NonceRefs { // other branches count, which may have changed
		a = nil
	}
	err := c.whole(ctx, r, a)
	if err != nil {
		return c.timeUp(err)
	}
	return c.others(ctx, r)
}

func (c *Checker) whole(ctx context.Context, r rules.Range, a *verdict.Audit) error {
	if a == nil {
		return c.Judge.Range(ctx, r)
	}
	known, err := a.Of(ctx, c.Repo, r.New)
	if err != nil {
		return err
	}
	fresh := *c.Judge
	p := parts{tips: []string{r.New}}
	if !known {
		a.Forget()
		most := cmp.Or(c.atOnce, maxAtOnce)
		if c.Repo.Packed() > 3*int64(most) { // a commit, a tree and a file each
			if p, err = c.parts(ctx, r.New, ""); err != nil {
				return err
			}
		}
		if len(p.tips) == 1 {
			a.Prepare(c.Judge)
			c.Judge.Most = most
			if err = c.Judge.Range(ctx, r); err == nil {
				a.Passed(r.New, c.Judge)
			}
			if !errors.Is(err, rules.ErrMany) {
				return err
			}
			if p, err = c.parts(ctx, r.New, ""); err != nil {
				return err
			}
		}
	}
	*c.Judge = fresh
	if c.beyond(ctx, r, a, p) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	*c.Judge = fresh
	a.Forget()
	a.Prepare(c.Judge)
	if err = c.Judge.Range(ctx, r); err == nil {
		a.Passed(r.New, c.Judge)
	}
	return err
}

// beyond judges what lies behind the mark, part after part. It is false where all is
// to be judged together.
func (c *Checker) beyond(ctx context.Context, r rules.Range, a *verdict.Audit, p parts) bool {
	marked, divided := a.Commits(), len(p.tips) > 1
	for len(p.tips) > 0 {
		before, done := a.Tip(), a.Commits()
		j := &rules.Judge{Repo: p.repo(c.Repo), Gate: c.Judge.Gate, Now: c.Judge.Now, OfTheTime: c.Judge.OfTheTime}
		if c.Judge.Progress != nil {
			j.Progress = func(n, total int) { c.Judge.Progress(done+n, done+total) }
		}
		a.Prepare(j)
		part := r
		if part.New, part.Old = p.tips[0], before; before != "" {
			part.First, part.Exclude = false, []string{before}
		}
		if !divided {
			j.Most = cmp.Or(c.atOnce, maxAtOnce)
		}
		err := j.Range(ctx, part)
		c.Judge.Commits, c.Judge.Total = done+j.Commits, done+j.Total
		if errors.Is(err, rules.ErrMany) {
			divided = true
			if p, err = c.parts(ctx, r.New, before); err != nil {
				return false
			}
			continue
		}
		if err != nil || !a.Passed(p.tips[0], j) {
			return false
		}
		p.tips = p.tips[1:]
	}
	if a.Fill(c.Judge); marked > 0 {
		c.Report.Notes = append(c.Report.Notes, fmt.Sprintf("%d of %d commits were judged before by the same rules, and not read again; to read all: rig-hook check --all --no-cache", marked, c.Judge.Commits))
	}
	return true
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
