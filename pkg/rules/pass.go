package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// A pass is one look at a range, or at the index: what is known of it while it
// is judged. The rules are its methods. What outlives it is in the Judge.
type pass struct {
	*Judge
	rng Range

	walk     *walk              // the commits of the range
	eras     eras               // where OfTheTime is set
	moving   bool               // the range changes policy, signers or revocations
	listing  string             // see listedFirst
	unlisted bool               // a commit that changes them was not signed by who may
	threads  map[string]*thread // by directory
	heads    heads              // of what the batch takes the place of
	dates    []int64            // committer dates, at a server
	waiting  map[string][]pending
	held     int       // findings that wait for their directory to become a thread
	verdicts []Verdict // what Told is to be told

	configs map[string]string // by path of a clone's own configuration, the commit that touched it last

	oddDirs map[string][]string // by folded path, directories that another one could be mistaken for
	oddSeen map[string]bool     // those
	// oddNames are the names of those beside the threads, dirNames all names
	// there, once a short name among what comes asks for them.
	oddNames portable.Shorts
	dirNames *portable.Shorts
	dirSeen  map[string]bool // those of dirNames that the range brings

	refs    []reference
	holds   map[string]string // trees of the commits that references name, "" for no one commit
	bases   int               // merges of the range of which the base was asked for
	uses    []nonceUse
	brought []history.Hit // every envelope of the range with a nonce, in step with nonced
	nonced  []string
}

func (j *Judge) newPass(r Range) *pass {
	digits := 40
	if j.Repo.ObjectFormat() == "sha256" {
		digits = 64
	}
	return &pass{Judge: j, rng: r, walk: newWalk(digits),
		threads: map[string]*thread{}, waiting: map[string][]pending{}, holds: map[string]string{}}
}

// run judges the range.
func (ps *pass) run(ctx context.Context) error {
	r := ps.rng
	if ps.Nonces != nil {
		IndexBy(r.Policy, ps.Nonces)
	}
	if ps.Turns != nil {
		TurnsBy(r.Policy, ps.Turns)
	}
	if err := ps.begin(ctx); err != nil {
		return err
	}
	ps.Total += ps.walk.len()
	portion := cmp.Or(ps.portion, defaultPortion)
	var batch []*commit
	changes, pending, bytes := 0, 0, 0
	flush := func() error {
		err := ps.judge(ctx, batch)
		clear(batch)
		batch, pending, bytes = batch[:0], 0, 0
		return err
	}
	opt := gitrepo.ScanOptions{BlobLimit: r.Policy.MaxFile, BlobBytes: portionBytes, BlobCount: maxAhead, Blob: func(_ *gitrepo.Commit, c gitrepo.Change) bool {
		return r.Policy.Candidate(c.Path)
	}}
	err := ps.Repo.ScanCommits(ctx, ps.walk.revs, opt, func(s *gitrepo.Scanned) error {
		c := ps.newCommit(s)
		if err := ps.ofTheTime(c); err != nil {
			return err
		}
		if ps.Clock != nil {
			var err error
			if c.came, err = ps.Clock.Tick(s.ID, s.Committer.When, s.Parents); err != nil {
				return err
			}
		}
		n := 0
		for _, d := range s.Diffs {
			n = max(n, len(d.Changes))
			ps.moving = ps.moving || ps.Later != nil && slices.ContainsFunc(d.Changes, func(ch gitrepo.Change) bool { return r.Policy.Guards(ch.Path) })
		}
		if changes += n; changes > r.Policy.MaxChanges && ps.Gate != Check {
			return &policy.Undecided{Message: fmt.Sprintf("more than %d paths change (limits.changes)", r.Policy.MaxChanges), Hint: "push fewer commits at a time"}
		}
		batch = append(batch, c)
		bytes += len(s.Raw)
		for _, o := range s.Blobs {
			bytes += len(o.Data)
		}
		if pending += n + 1; pending >= portion || bytes >= portionBytes || ps.moves(c) {
			return flush() // what comes after it may be judged by what it brings
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	var bad *gitrepo.MalformedCommitError
	if errors.As(err, &bad) {
		// Nothing after it can be judged, so no policy makes it a pass.
		ps.keep(finding.Finding{Rule: "commit-signed", Severity: finding.Error, Commit: bad.ID, Ref: r.Ref,
			Message: "malformed commit: " + bad.Reason, Hint: "git fsck --no-dangling"})
		return nil
	}
	if err != nil {
		return err
	}
	// Not before all commits were parsed: git reads the parents of a malformed
	// one in its own way.
	for _, rule := range steps.whole {
		if err := rule(ps, ctx); err != nil {
			return err
		}
	}
	return ps.noteTurns()
}

// IndexBy makes a nonce index take for envelopes what the policy does.
func IndexBy(p *policy.Policy, x *history.Index) {
	x.Use(indexScope(p), p.Candidate, p.AcceptedLimits().Frontmatter)
}

// indexScope names what an index of a policy holds: one of another scope is not
// used for it.
func indexScope(p *policy.Policy) string {
	scope, front := p.Root+"\x00"+strings.Join(p.Ignore, "\x00"), p.AcceptedLimits().Frontmatter
	if front != policy.Default().AcceptedLimits().Frontmatter {
		scope += fmt.Sprintf("\x00%d", front)
	}
	return scope
}

// TurnsBy makes what is kept of long threads that of a policy.
func TurnsBy(p *policy.Policy, x *history.Turns) {
	limits := p.AcceptedLimits()
	x.Use(fmt.Sprintf("%s\x00%d %d %d %d", indexScope(p), p.MaxFile, p.MaxFrontmatter, limits.File, limits.Frontmatter))
}

// defaultPortion is how many changed paths are judged together, portionBytes
// after how much content a portion ends, however few paths it has.
const (
	defaultPortion = 512
	portionBytes   = 16 << 20
)

// maxAhead is how many blobs are read together with the commits that bring them.
const maxAhead = 8192

// begin lists the commits of the range and its bounds: parents that are not in it.
func (ps *pass) begin(ctx context.Context) error {
	var roots []gitrepo.Rev
	add := func(rev gitrepo.Rev) error {
		ps.walk.add(rev)
		if len(rev.Parents) == 0 {
			roots = append(roots, rev)
		}
		if ps.Most > 0 && ps.walk.len() > ps.Most {
			return ErrMany
		}
		if ps.walk.len() > ps.rng.Policy.MaxCommits && ps.Gate != Check {
			return &policy.Undecided{Message: fmt.Sprintf("more than %d commits are new (limits.commits)", ps.rng.Policy.MaxCommits), Hint: "push fewer commits at a time"}
		}
		if ps.walk.weight > maxWeight {
			return &policy.Undecided{Message: "the commits merge too many different older commits to be judged together", Hint: "push fewer commits at a time"}
		}
		return nil
	}
	line, short := []gitrepo.Rev(nil), false
	if len(ps.rng.Exclude) == 1 {
		line, short = ps.Repo.Line(ps.rng.New, ps.rng.Exclude[0])
	}
	if short {
		for _, rev := range line {
			if err := add(rev); err != nil {
				return err
			}
		}
	} else {
		for rev, err := range ps.Repo.RevList(ctx, []string{ps.rng.New}, ps.rng.Exclude, gitrepo.RevListOptions{Reverse: true}) {
			if err == nil {
				err = add(rev)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := ps.Repo.CutIn(roots, ps.rng.Exclude); err != nil {
		return err
	}
	i := 0
	err := ps.Repo.EachCommit(ps.walk.boundIDs(), func(c *gitrepo.Commit) error {
		ps.walk.bounds[i].tree, ps.walk.bounds[i].when = c.Tree, c.Committer.When
		i++
		return nil
	})
	if err != nil {
		return err
	}
	if ps.Gate.server() {
		ps.dates = make([]int64, ps.walk.len())
	}
	if ps.OfTheTime != nil {
		if err := ps.beginEras(ctx); err != nil {
			return err
		}
	}
	return ps.trustedBounds(ctx)
}

// maxWeight is how many members the sets of a walk may have in all: 16 MiB of
// them. A range without merges of older commits has one set of one member.
const maxWeight = 4 << 20

// prepare finds what a batch of commits brings, and reads it.
func (ps *pass) prepare(ctx context.Context, batch []*commit) error {
	for _, c := range batch {
		c.introduce(ps.Told == nil)
	}
	if err := ps.lookBack(batch); err != nil {
		return err
	}
	if err := ps.read(batch); err != nil {
		return err
	}
	for _, c := range batch {
		if err := ps.survey(ctx, c); err != nil {
			return err
		}
		if err := ps.burials(c); err != nil {
			return err
		}
	}
	return nil
}

// judge reads what a batch of commits brings, verifies their signatures, and
// then applies the rules commit by commit, parents first.
func (ps *pass) judge(ctx context.Context, batch []*commit) error {
	if err := ps.prepare(ctx, batch); err != nil {
		return err
	}
	for _, c := range batch {
		if c.obj != nil {
			var err error
			if c.trustPaths, err = ps.trustChanges(ctx, c); err != nil {
				return err
			}
		}
	}
	if err := ps.verify(batch); err != nil {
		return err
	}
	for _, c := range batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ps.lawful(ctx, c); err != nil {
			return err
		}
		if err := ps.commit(ctx, c); err != nil {
			return err
		}
		ps.Commits++
		if ps.Progress != nil && ps.Commits%256 == 0 {
			ps.Progress(ps.Commits, ps.Total)
		}
	}
	return nil
}

// commit applies the rules to one commit, or to the index.
func (ps *pass) commit(ctx context.Context, c *commit) error {
	before := len(ps.Findings)
	for _, rule := range steps.commit {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := rule(ps, ctx, c); err != nil {
			return err
		}
	}
	err := ps.portions(ctx, c, func() error {
		for _, e := range c.entries {
			if err := ps.entry(ctx, c, e); err != nil {
				return err
			}
		}
		if !c.wide {
			return nil
		}
		return ps.remember(c)
	})
	if err != nil {
		return err
	}
	for _, rule := range steps.done {
		if err := rule(ps, ctx, c); err != nil {
			return err
		}
	}
	if err := ps.passed(c); err != nil {
		return err
	}
	if err := ps.takeOver(c); err != nil {
		return err
	}
	if ps.Told != nil {
		if err := ps.record(c, ps.Findings[before:]); err != nil {
			return err
		}
	}
	if c.wide {
		return nil
	}
	return ps.remember(c)
}

// entry applies the rules to one envelope that a commit brings, or to what
// stands where one may.
func (ps *pass) entry(ctx context.Context, c *commit, e *entry) error {
	if err := ps.content(c, e); err != nil {
		return err
	}
	for _, rule := range steps.entry {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := rule(ps, ctx, c, e); err != nil {
			return err
		}
	}
	return nil
}

// tell adds what is wrong with a commit, or with a path of it. Without a
// severity it has that of its rule.
func (ps *pass) tell(c *commit, f finding.Finding) {
	f.Commit, f.Ref = c.id, ps.rng.Ref
	level, on := ps.add(c.policy, f)
	if on && level == finding.Error && slices.Contains(authority, f.Rule) {
		c.refused = true
	}
}

// tellAt is tell for what an envelope says at a key of its front matter.
func (ps *pass) tellAt(c *commit, e *entry, key string, f finding.Finding) {
	f.Path = e.path
	f.Line, f.Col = e.env.Place(key)
	f.Message, f.Hint = e.env.Secrets.Hide(f.Message), e.env.Secrets.Hide(f.Hint)
	ps.tell(c, f)
}
