package ci

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// A Gate judges what a CI system asks for, in a checkout.
type Gate struct {
	Check  *hooks.Checker
	Whole  string                    // what makes the checkout hold the whole history, a hint
	Before func(commit string) error // is told the trusted commit before each range; nil if nobody asks
}

// Judge finds the commits of a span and has them judged; what is found goes to
// the checker. An error means that it could not be decided.
func (g *Gate) Judge(ctx context.Context, span Span) error {
	c := g.Check
	repo := c.Repo
	if span.Branch != "" {
		c.Default = span.head()
	}
	if span.Note != "" {
		c.Report.Notes = append(c.Report.Notes, span.Note)
	}
	if span.Kind == proposal {
		c.Judge.Gate = rules.PullRequest
	}
	if span.Kind == deleted {
		return g.deleted(ctx, span)
	}
	head, err := g.commit(ctx, span.Head, "head")
	if err != nil {
		return err
	}
	r := rules.Range{Ref: span.Ref, New: head, History: true}
	switch span.Kind {
	case proposal:
		base, err := g.commit(ctx, span.Base, "base")
		if err != nil {
			return err
		}
		if err := g.fresh(ctx, span, base); err != nil {
			return err
		}
		if base, err = g.newest(ctx, span, base, head); err != nil {
			return err
		}
		// Whether a cut history matters is for the range to say.
		bases, err := repo.MergeBases(ctx, base, head)
		if err != nil && !errors.Is(err, gitrepo.ErrCut) {
			return err
		}
		if err == nil && len(bases) == 0 {
			return &policy.Undecided{Message: "base and head have no common history", Hint: g.Whole + ", and open the pull request against the branch that it came from"}
		}
		r.Exclude = []string{base}
		if span.Ref != "" && span.Ref != span.head() {
			if r.From, err = g.tip(span); err != nil {
				return err
			}
			if r.Policy, r.Trust, err = c.Loader.AtCommit(r.From); err != nil {
				return err
			}
			if r.From != base {
				r.Exclude = append(r.Exclude, r.From)
			}
		}
	case moved:
		from, err := g.commit(ctx, span.Base, "commit before the push")
		if errors.Is(err, gitrepo.ErrMissing) && span.Ref != span.head() {
			// A free branch that was forced: no branch has what it was. It is
			// compared to the default branch, as a new one.
			if tip, terr := g.tip(span); terr == nil {
				if p, _, perr := c.Loader.AtCommit(tip); perr == nil && !p.Protected(span.Ref, span.head()) {
					from, err = tip, nil
				}
			}
		}
		if err != nil {
			return err
		}
		return g.update(ctx, span, from, head)
	case created:
		if span.Ref != span.head() {
			return g.update(ctx, span, strings.Repeat("0", len(head)), head)
		}
		r.First = true // nothing was there before
	case whole:
		if span.head() != "" && strings.HasPrefix(span.Ref, "refs/heads/") && span.Ref != span.head() {
			// Its own history would say by which policy it is judged.
			return g.update(ctx, span, strings.Repeat("0", len(head)), head)
		}
		r.First = true
	}
	return g.judgeRange(ctx, r)
}

// fresh refuses a base that is an old state of its branch: a clone that was kept
// from an earlier run could have a policy or a signer of which the branch has
// none any more.
func (g *Gate) fresh(ctx context.Context, span Span, base string) error {
	if span.Since == "" {
		return nil
	}
	since, err := g.commit(ctx, span.Since, "commit of the target branch")
	if err != nil {
		return err
	}
	if ok, err := g.Check.Repo.IsAncestor(ctx, since, base); err != nil || ok {
		return err
	}
	return &policy.Undecided{
		Message: "the checkout has " + finding.Path(span.Base) + " at " + base[:12] + ", from before " + since[:12] + ", to which the proposal was compared",
		Hint:    "git fetch origin " + finding.Word("+"+span.Ref+":"+span.Base),
	}
}

// newest is the commit of the target branch that a proposal is judged against:
// base, or the branch as the checkout has it, if that has moved on from base. An
// event keeps the commit that it named when it was made, however late its job is
// run or run again, and by then the branch may have taken a key or a rule out. A
// proposal that the branch has taken is judged against what was before it.
func (g *Gate) newest(ctx context.Context, span Span, base, head string) (string, error) {
	repo, name := g.Check.Repo, strings.TrimPrefix(span.Ref, "refs/heads/")
	if span.Foreign || name == span.Ref || !isID(span.Base) {
		return base, nil
	}
	now, err := tip(repo, name)
	if err != nil || now == "" || now == base {
		return base, err
	}
	if moved, err := repo.IsAncestor(ctx, base, now); err != nil && !errors.Is(err, gitrepo.ErrCut) {
		return "", err
	} else if moved {
		if in, err := repo.IsAncestor(ctx, head, now); in {
			return base, nil
		} else if err != nil && !errors.Is(err, gitrepo.ErrCut) {
			return "", err
		}
		g.Check.Report.Notes = append(g.Check.Report.Notes, finding.Path(span.Ref)+" has moved on since the event, and counts as it is now, at "+now[:12])
		return now, nil
	}
	older, err := repo.IsAncestor(ctx, now, base)
	if err != nil || older || span.Ref != span.head() {
		return base, err
	}
	return "", &policy.Undecided{
		Message: "the event names " + base[:12] + " as the commit of " + finding.Path(span.Ref) + ", which the checkout has at " + now[:12] + ", and neither comes from the other",
		Hint:    "if the branch was forced, push the proposal again, so that an event names its commit of now; if the checkout is old: git fetch origin " + finding.Word("+"+span.Ref+":refs/remotes/origin/"+name),
	}
}

// update judges what a ref update brings, through the door of all gates.
func (g *Gate) update(ctx context.Context, span Span, old, after string) error {
	at := hooks.Receiver{Head: span.head()}
	u := change.RefUpdate{Ref: span.Ref, Old: old, New: after}
	var err error
	if span.Ref == at.Head && !u.Create() {
		at.HeadID = old
	} else if at.HeadID, err = g.tip(span); err != nil {
		return err
	}
	known, err := hooks.RemoteReceiver(ctx, g.Check.Repo, "origin")
	if err != nil {
		return err
	}
	at.Refs, at.After = known.Refs, true
	d := &hooks.Door{Receiver: at, Repo: g.Check.Repo, Loader: g.Check.Loader, Judge: g.Check.Judge, Free: true}
	if err := d.Open([]change.RefUpdate{u}); err != nil {
		return err
	}
	err = d.Each(ctx, []change.RefUpdate{u}, func(r rules.Range) error { return g.judgeRange(ctx, r) })
	rep := g.Check.Report
	rep.Refs, rep.Notes = d.Refs, append(rep.Notes, d.Notes...)
	return err
}

// judgeRange judges a range, and says which commit was before it.
func (g *Gate) judgeRange(ctx context.Context, r rules.Range) error {
	c := g.Check
	base := r.New
	if len(r.Exclude) == 0 {
		c.All = true
	} else {
		base = r.Exclude[0]
	}
	if g.Before != nil {
		if err := g.Before(base); err != nil {
			return err
		}
	}
	return c.Range(ctx, r)
}

// tip is that of the default branch: what new refs are compared to, and whose
// policy counts where no other commit was before.
func (g *Gate) tip(span Span) (string, error) {
	id, err := tip(g.Check.Repo, span.Branch)
	if err == nil && id == "" {
		err = &policy.Undecided{
			Message: "the default branch " + finding.QuoteMax(span.Branch, 80) + " is not in this checkout, so nothing says which policy counts for " + finding.QuoteMax(span.Ref, 80),
			Hint:    g.Whole,
		}
	}
	return id, err
}

// deleted judges that a ref is gone. The last commit of the default branch may
// be in no checkout any more; then it is as if there had been none.
func (g *Gate) deleted(ctx context.Context, span Span) error {
	old, err := g.Check.Repo.Resolve(ctx, span.Base)
	if errors.Is(err, gitrepo.ErrMissing) {
		old, err = span.Base, nil
		if span.Ref == span.head() {
			old, err = g.tip(span)
		}
	}
	if err != nil {
		return err
	}
	return g.update(ctx, span, old, strings.Repeat("0", len(span.Base)))
}

// commit looks up what the event or an input names.
func (g *Gate) commit(ctx context.Context, name, what string) (string, error) {
	id, err := resolve(ctx, g.Check.Repo, name)
	if errors.Is(err, gitrepo.ErrMissing) {
		return "", &policy.Undecided{
			Message: "the " + what + " " + finding.QuoteMax(name, 64) + " is not in this checkout: the history is cut, or was rewritten",
			Hint:    g.Whole + "; if the branch was forced or the checkout is of the base: git fetch origin " + finding.QuoteMax(name, 64),
			Cause:   err,
		}
	}
	return id, err
}

// tip returns the commit of a branch as the checkout knows it from its remote,
// "" if it does not: a new ref is compared to it. No ref of another name counts,
// whatever git would take the name for.
func tip(repo *gitrepo.Repo, branch string) (string, error) {
	if branch == "" {
		return "", nil
	}
	id, _, err := repo.Ref("refs/remotes/origin/" + branch)
	return id, err
}

// resolve looks up the commit that an event or an input names. A name that
// could mean more than one thing is refused: git would take a tag before a
// branch, and either before an abbreviated id, and who may push can make one.
func resolve(ctx context.Context, repo *gitrepo.Repo, name string) (string, error) {
	word := name
	for _, suffix := range []string{"~", "^", "@{", ":"} { // gitrevisions(7)
		word, _, _ = strings.Cut(word, suffix)
	}
	if word == "" || repo.ValidID(word) {
		return repo.Resolve(ctx, name)
	}
	var means []string
	prefixes := []string{"", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"}
	if strings.HasPrefix(word, "refs/") {
		prefixes = prefixes[:1] // git takes a full name first
	}
	for _, prefix := range prefixes {
		ref := prefix + word
		if !strings.HasPrefix(ref, "refs/") || gitrepo.CheckRefName(ref) != nil {
			continue
		}
		if _, ok, err := repo.Ref(ref); err != nil {
			return "", err
		} else if ok {
			means = append(means, ref)
		}
	}
	if strings.Trim(word, "0123456789abcdefABCDEF") == "" {
		ids, err := repo.ResolvePrefix(strings.ToLower(word))
		if err != nil && !errors.Is(err, gitrepo.ErrInvalid) && !errors.Is(err, gitrepo.ErrMissing) {
			return "", err
		}
		means = append(means, ids...)
	}
	switch {
	case len(means) > 1:
		return "", &policy.Undecided{
			Message: finding.QuoteMax(name, 80) + " means both " + finding.Path(means[0]) + " and " + finding.Path(means[1]),
			Hint:    "name a commit by its full id, such as ${{ github.event.pull_request.base.sha }}, or a ref by its full name, such as refs/remotes/origin/main",
		}
	case strings.HasPrefix(word, "refs/") && !slices.Contains(means, word):
		return "", &gitrepo.Error{Kind: gitrepo.ErrMissing, Message: "no commit is named " + finding.QuoteMax(name, 80)}
	}
	return repo.Resolve(ctx, name)
}
