package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/ci"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// check judges commits that are in the repository already: a range, a whole
// history, or ref updates as pre-receive gets them.
func check(ctx context.Context, env *hooks.Env, f cli.Line) int {
	format := "text"
	if f.Has("--format") {
		format = f.Get("--format")
	}
	rep := report.Report{Gate: "check", Fail: finding.Error, Rules: hooks.Rules()}
	draw := report.Draws(format)
	var targets []report.Target
	for _, v := range f.All("--report") {
		t, err := report.ParseTarget(v)
		if err != nil {
			return fail(env, "check", err)
		}
		targets, draw = append(targets, t), draw || report.Draws(t.Format)
	}
	if v := f.Get("--timeout"); f.Has("--timeout") {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fail(env, "check", fmt.Errorf("--timeout is %s, expected a duration such as 60s", finding.Quote(v)))
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	judged := rep
	ended, err := hooks.Within(ctx, func() error { return judgeRange(ctx, env, f, draw, &judged) })
	if !ended {
		rep.Problem, rep.Hint = &policy.Undecided{Message: "the time was up within one commit", Cause: err}, "raise --timeout"
	} else if rep = judged; err != nil {
		rep.Problem, rep.Hint = err, policy.HintOf(err)
	}
	err = hooks.WriteReports(env.Dir, &rep, targets)
	if format == "github" { // annotations are few: the log holds the full list
		err = errors.Join(err, report.Write(env.Stdout, &rep, "text"))
	}
	if err := errors.Join(err, report.Write(env.Stdout, &rep, format)); err != nil {
		return fail(env, "check", err)
	}
	return rep.ExitCode()
}

func judgeRange(ctx context.Context, env *hooks.Env, f cli.Line, draw bool, rep *report.Report) (err error) {
	repo, err := gitrepo.OpenHere(ctx, gitrepo.Env{Environ: env.Environ, Dir: env.Dir})
	if err != nil {
		return err
	}
	defer repo.Close()
	c := hooks.NewChecker(env, repo, rep)
	c.Draw, c.Now, c.All = draw, f.Get("--policy") == "now", f.Has("--all")
	j := c.Judge
	if env.StderrTTY {
		j.Progress = func(done, total int) { fmt.Fprintf(env.Stderr, "\r%d of %d commits", done, total) }
		defer func() { fmt.Fprint(env.Stderr, "\r\x1b[K") }()
	}
	defer c.Tell()
	switch when := f.Get("--policy"); {
	case f.Has("--policy") && when != "now" && when != "then":
		return &policy.Undecided{Message: "--policy is " + finding.Quote(when) + ", expected now or then"}
	case f.Has("--baseline") && !f.Has("--all"):
		return &policy.Undecided{Message: "--baseline goes with --all", Hint: "rig-hook check --all --baseline " + finding.Word(f.Get("--baseline"))}
	case f.Has("--no-cache") && !f.Has("--all"):
		return &policy.Undecided{Message: "--no-cache goes with --all", Hint: "rig-hook check --all --no-cache"}
	case f.Has("--against") && (len(f.Words) > 0 || f.Has("--all") || f.Has("--stdin") || f.Has("--ci") || f.Has("--policy")):
		return &policy.Undecided{Message: "--against compares the history of HEAD, expected no range, --all, --stdin, --ci or --policy beside it",
			Hint: "rig-hook check --against " + finding.Word(f.Get("--against"))}
	case f.Has("--all") && f.Has("--stdin") || len(f.Words) > 1 || len(f.Words) == 1 && (f.Has("--all") || f.Has("--stdin")):
		return &policy.Undecided{Message: "expected one of BASE..HEAD, --all and --stdin", Hint: "rig-hook --help"}
	}
	if f.Has("--ci") || f.Has("--branch") {
		return judgeEvent(ctx, env, f, c)
	}
	_, head, err := repo.HEAD()
	if err != nil {
		return err
	}
	var r rules.Range
	switch {
	case f.Has("--against"):
		old, err := repo.Resolve(ctx, f.Get("--against"))
		if err != nil {
			return err
		}
		p, _, err := c.Loader.AtCommit(old)
		if err != nil {
			return err
		}
		return against(ctx, repo, p, rep, j, head, old)
	case f.Has("--stdin"):
		return judgeUpdates(ctx, env, c)
	case f.Has("--all") && head == "":
		return &policy.Undecided{Message: "there is no commit yet, so nothing was read", Hint: switchBranch(repo)}
	case f.Has("--all"):
		r, err = whole(ctx, repo, c.Loader, f, head)
	default:
		r, err = named(ctx, repo, f.Words)
	}
	if err != nil {
		return err
	}
	c.Head = head
	var kept *verdict.Audit
	if f.Has("--all") && !f.Has("--no-cache") {
		kept = audit(env, c)
	}
	if err := c.Whole(ctx, r, kept); err != nil {
		return err
	}
	if finding.Worst(j.Findings) >= rep.Fail && f.Has("--all") && !f.Has("--baseline") {
		rep.Notes = append(rep.Notes, "what was there before anybody checked can be taken as it is, once somebody has looked at it: rig-hook check --all --baseline "+finding.Short(head)+" judges only what comes after")
	}
	return nil
}

// audit is what earlier audits have kept of the repository; nil where nothing can be
// kept.
func audit(env *hooks.Env, c *hooks.Checker) *verdict.Audit {
	program, err := env.Program()
	if err != nil {
		return nil
	}
	// What the mark holds for is what commits are judged by: each file is read once.
	read, files := c.Loader.ReadFile, map[string][]byte{}
	c.Loader.ReadFile = func(name string) (data []byte, err error) {
		data, known := files[name]
		if !known {
			if data, err = read(name); err == nil {
				files[name] = data
			}
		}
		return data, err
	}
	getenv := func(key string) (string, bool) { v := env.Getenv(key); return v, v != "" }
	return verdict.OpenAudit(verdict.Options{
		Repo: c.Repo, Loader: c.Loader, Dir: filepath.Join(c.Repo.CommonDir(), "rigward"), Secret: verdict.Secret(getenv, env.Rand), Now: c.Judge.Now,
	}, program+" "+version.String())
}

// judgeEvent judges what the event of a CI system asks for.
func judgeEvent(ctx context.Context, env *hooks.Env, f cli.Line, c *hooks.Checker) error {
	if !f.Has("--ci") {
		return &policy.Undecided{Message: "--branch goes with --ci", Hint: "rig-hook check --help"}
	}
	for _, other := range []string{"--all", "--stdin", "--policy"} {
		if len(f.Words) > 0 || f.Has(other) {
			return &policy.Undecided{Message: "--ci says which commits are judged, and by which policy, expected no range, --all, --stdin or --policy beside it", Hint: "rig-hook check --ci " + finding.Word(f.Get("--ci"))}
		}
	}
	system, err := ci.Find(f.Get("--ci"))
	if err != nil {
		return err
	}
	span, err := system.Span(env.Getenv, f.Get("--branch"))
	if err != nil {
		return err
	}
	return (&ci.Gate{Check: c, Whole: system.Whole}).Judge(ctx, span)
}

// whole is the range of all that HEAD has, but for what is taken as it is: the
// history of the commit that --baseline names, and of those that a server's own
// policy names.
func whole(ctx context.Context, repo *gitrepo.Repo, l *policy.Loader, f cli.Line, head string) (r rules.Range, err error) {
	r = rules.Range{New: head, History: true, First: true}
	p, _, err := l.AtCommit(head)
	var bad *gitrepo.MalformedCommitError
	if errors.As(err, &bad) { // which the judge finds, and behind which it decides nothing
		p, err = policy.Default(), nil
	}
	if err != nil {
		return r, err
	}
	if r.Exclude, err = repo.PresentCommits(p.Baseline); err != nil {
		return r, err
	}
	if f.Has("--baseline") {
		id, err := repo.Resolve(ctx, f.Get("--baseline"))
		if err != nil {
			return r, err
		}
		r.Exclude = append(r.Exclude, id)
	}
	for _, id := range r.Exclude {
		before, err := repo.IsAncestor(ctx, id, head)
		if err != nil {
			return r, err
		}
		if !before && f.Has("--baseline") {
			return r, &policy.Undecided{Message: "the baseline " + finding.Path(id) + " is not in the history of HEAD", Hint: "git log --oneline shows what is"}
		}
		r.First = r.First && !before
	}
	return r, nil
}

// judgeUpdates judges ref updates, as pre-receive gets them, of this repository.
// They may have been made already.
func judgeUpdates(ctx context.Context, env *hooks.Env, c *hooks.Checker) error {
	data, err := hooks.ReadLines(env.Stdin)
	if err != nil {
		return err
	}
	updates, err := change.ParseReceive(data)
	if err != nil {
		return err
	}
	if len(updates) == 0 {
		return &policy.Undecided{Message: "no ref lines on standard input", Hint: "echo OLD NEW REF | rig-hook check --stdin, with full ids and a full ref name"}
	}
	at, err := hooks.OwnReceiver(c.Repo)
	if err != nil {
		return err
	}
	if at.After = true; !c.Repo.Bare() {
		at.Judged = nil // a clone judges for no ref
	}
	d := &hooks.Door{Receiver: at, Repo: c.Repo, Loader: c.Loader, Judge: c.Judge}
	if err := d.Open(updates); err != nil {
		return err
	}
	c.Report.Fail = d.Policy.FailLevel
	err = d.Each(ctx, updates, func(r rules.Range) error { return c.Range(ctx, r) })
	c.Report.Refs, c.Report.Notes = d.Refs, append(c.Report.Notes, d.Notes...)
	return err
}

// named turns BASE..HEAD, BASE...HEAD or nothing (the upstream) into a range.
func named(ctx context.Context, repo *gitrepo.Repo, words []string) (r rules.Range, err error) {
	word := "@{upstream}..HEAD"
	if len(words) == 1 {
		word = words[0]
	}
	from, to, ok := strings.Cut(word, "..")
	symmetric := strings.HasPrefix(to, ".")
	to = strings.TrimPrefix(to, ".")
	if !ok {
		return r, &policy.Undecided{Message: finding.QuoteMax(word, 80) + " is not a range, expected BASE..HEAD", Hint: "rig-hook check " + finding.Path(word) + "~1.." + finding.Path(word) + ", or rig-hook check --all"}
	}
	if from == "" {
		from = "HEAD"
	}
	if to == "" {
		to = "HEAD"
	}
	base, err := repo.Resolve(ctx, from)
	if err != nil {
		if len(words) == 0 {
			return r, &policy.Undecided{Message: "the branch has no upstream to compare with", Hint: "rig-hook check BASE..HEAD, or rig-hook check --all", Cause: err}
		}
		return r, err
	}
	if r.New, err = repo.Resolve(ctx, to); err != nil {
		return r, err
	}
	if symmetric {
		bases, err := repo.MergeBases(ctx, base, r.New)
		if err != nil {
			return r, err
		}
		if len(bases) == 0 {
			return r, &policy.Undecided{Message: "the two commits have no common history"}
		}
		base = bases[0]
	}
	r.Exclude, r.History = []string{base}, true
	return r, nil
}

// switchBranch is the hint where HEAD names no commit. Where there is no work tree git
// switch refuses, and a server's HEAD says whom it trusts.
func switchBranch(repo *gitrepo.Repo) string {
	if repo.WorkTree() == "" {
		return "HEAD names a branch without commits here; in a clone of one that has some, git switch BRANCH first"
	}
	return "git switch BRANCH, one that has commits; git branch --all lists them"
}
