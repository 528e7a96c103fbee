package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/screen"
)

// Limits of what collectThreads collects.
const (
	maxThreads    = 50
	maxTurns      = 200  // of one thread
	maxOlder      = 2000 // files of one thread that were there before and are read
	maxReferences = 500  // that are looked up among older commits
	maxDiverging  = 1000 // pairs of turns of one thread
)

// collectThreads collects what a judged range brings to each thread: the envelopes
// that it adds, and the older ones that those answer, name or diverge from.
// It is for reports, and judges nothing: what is not an envelope is left out. At
// most 50 threads of 200 turns and 1000 diverging pairs are collected; notes
// say what is left out beyond the Cut and Untold of each thread.
func collectThreads(ctx context.Context, repo *gitrepo.Repo, r rules.Range) (threads []report.Thread, notes []string, err error) {
	t := &turns{repo: repo, policy: r.Policy, threads: map[string]*threadTurns{}, dropped: map[string]bool{}, inside: map[string]bool{}, bounds: map[string]int{}, before: map[string]mask{}}
	for rev, err := range repo.RevList(ctx, []string{r.New}, r.Exclude, gitrepo.RevListOptions{Reverse: true}) {
		if err != nil {
			return nil, nil, err
		}
		t.revs = append(t.revs, rev)
		t.inside[rev.ID] = true
	}
	for _, id := range r.Exclude {
		t.bound(id)
	}
	for _, rev := range t.revs {
		var m mask
		for _, p := range rev.Parents {
			if t.inside[p] {
				m |= t.before[p]
			} else {
				m |= t.bound(p)
			}
		}
		t.before[rev.ID] = m
	}
	if err := t.scan(ctx); err != nil {
		return nil, nil, err
	}
	for _, name := range t.order {
		thread, err := t.thread(name)
		if err != nil {
			return nil, nil, err
		}
		threads = append(threads, thread)
	}
	if left := len(t.dropped); left > 0 {
		notes = append(notes, fmt.Sprintf("%d further threads that the range adds to are not drawn", left))
	}
	return threads, notes, nil
}

// A mask is a set of the first 64 commits just outside a range.
type mask uint64

type turns struct {
	repo    *gitrepo.Repo
	policy  *policy.Policy
	revs    []gitrepo.Rev
	inside  map[string]bool
	bounds  map[string]int  // place in the mask of a commit just outside the range
	before  map[string]mask // of each commit, those that it descends from
	threads map[string]*threadTurns
	order   []string        // of threads, as the range comes to them
	dropped map[string]bool // threads beyond maxThreads
	lookups int
}

type threadTurns struct {
	news []*turn
	cut  int
}

// A turn is one envelope with what ties it to others.
type turn struct {
	report.Turn
	hash, reply string
	references  []string
	in          mask // commits just outside the range that hold it
}

func (t *turns) bound(id string) mask {
	n, known := t.bounds[id]
	if !known {
		n = len(t.bounds)
		t.bounds[id] = n
	}
	if n >= 64 {
		return 0
	}
	return 1 << n
}

// parse returns the turn of a blob, nil if it is not an envelope or can't be read.
func (t *turns) parse(file string, mode gitrepo.Mode, o gitrepo.Object) *turn {
	if !t.policy.Accepted(file, mode, o.Data) {
		return nil
	}
	e, _ := envelope.Parse(o.Data, envelope.Options{Limits: t.policy.AcceptedLimits(), Screen: true})
	if e == nil {
		return nil
	}
	e.HideSecrets()
	return &turn{
		Turn: report.Turn{Path: screen.HideIn(file), Type: e.Type, From: e.From, To: e.To, Date: e.Date, TLDR: e.TLDR, Relay: e.IsRelay()},
		hash: e.Hash, reply: e.InReplyTo, references: e.References,
	}
}

// scan finds the envelopes that the commits of the range add: at paths that no
// parent has.
func (t *turns) scan(ctx context.Context) error {
	opt := gitrepo.ScanOptions{BlobLimit: t.policy.MaxFile, BlobBytes: 16 << 20, Blob: func(_ *gitrepo.Commit, c gitrepo.Change) bool {
		return c.Added() && t.policy.Candidate(c.Path)
	}}
	seen := map[string]bool{}
	return t.repo.ScanCommits(ctx, gitrepo.Listed(t.revs), opt, func(s *gitrepo.Scanned) error {
		added := make([]map[string]bool, len(s.Diffs))
		for i, d := range s.Diffs[1:] {
			added[i+1] = map[string]bool{}
			for _, c := range d.Changes {
				if c.Added() {
					added[i+1][c.Path] = true
				}
			}
		}
		for _, c := range s.Diffs[0].Changes {
			if !c.Added() || !t.policy.Candidate(c.Path) || seen[c.Path] || slices.ContainsFunc(added[1:], func(at map[string]bool) bool { return !at[c.Path] }) {
				continue
			}
			o, read := s.Blobs.Get(c.NewID)
			if (!read || errors.Is(o.Err, gitrepo.ErrTooLarge)) && c.NewMode != gitrepo.ModeGitlink {
				err := t.repo.Objects([]string{c.NewID}, t.policy.AcceptedLimits().File, func(large gitrepo.Object) error {
					o = large
					return nil
				})
				if err != nil {
					return err
				}
			}
			if o.Err != nil && !errors.Is(o.Err, gitrepo.ErrTooLarge) {
				return o.Err
			}
			u := t.parse(c.Path, c.NewMode, o)
			if u == nil {
				continue
			}
			seen[c.Path] = true
			u.Commit, u.New = s.ID, true
			t.put(path.Base(path.Dir(c.Path)), u)
		}
		return nil
	})
}

func addedToAll(diffs []gitrepo.Diff, file string) bool {
	for _, d := range diffs {
		if !slices.ContainsFunc(d.Changes, func(c gitrepo.Change) bool { return c.Path == file && c.Added() }) {
			return false
		}
	}
	return true
}

func (t *turns) put(name string, u *turn) {
	th := t.threads[name]
	if th == nil {
		if len(t.threads) == maxThreads {
			t.dropped[name] = true
			return
		}
		th = &threadTurns{}
		t.threads[name] = th
		t.order = append(t.order, name)
	}
	if len(th.news) == maxTurns {
		th.cut++
		return
	}
	th.news = append(th.news, u)
}

// thread ties the turns of one thread to each other and to the older ones.
func (t *turns) thread(name string) (report.Thread, error) {
	th := t.threads[name]
	older, err := t.older(path.Dir(th.news[0].Path))
	if err != nil {
		return report.Thread{}, err
	}
	known := t.knowledge(th.news)
	used := map[*turn]bool{}
	use := func(list *[]string, o *turn) {
		if !slices.Contains(*list, o.Path) {
			*list = append(*list, o.Path)
			used[o] = used[o] || !o.New
		}
	}
	for i, u := range th.news {
		if o := t.answered(th.news[:i], older, u); o != nil {
			use(&u.Answers, o)
		}
		for _, ref := range u.references {
			for _, o := range t.named(th.news, older, u, ref) {
				use(&u.Names, o)
			}
		}
	}
	pairs := 0
	diverge := func(u, o *turn) {
		if pairs++; pairs <= maxDiverging {
			use(&u.Diverges, o)
			use(&o.Diverges, u)
		}
	}
	for i, u := range th.news {
		for k, o := range th.news[:i] {
			if !known[i].has(k) && !tied(u, o) {
				diverge(u, o)
			}
		}
		for _, o := range older {
			if len(t.bounds) <= 64 && t.before[u.Commit]&o.in == 0 && !tied(u, o) {
				diverge(u, o)
			}
		}
	}
	out := report.Thread{ID: name, Cut: th.cut, Untold: max(0, pairs-maxDiverging)}
	for _, o := range older {
		if used[o] && len(out.Turns) < maxTurns {
			out.Turns = append(out.Turns, o.Turn)
		} else if used[o] {
			out.Cut++
		}
	}
	for _, u := range th.news {
		out.Turns = append(out.Turns, u.Turn)
	}
	return out, nil
}

// tied reports whether one of two turns shows that it knew the other.
func tied(a, b *turn) bool {
	return slices.Contains(a.Answers, b.Path) || slices.Contains(a.Names, b.Path) || slices.Contains(b.Answers, a.Path) || slices.Contains(b.Names, a.Path)
}

// answered is the newest earlier turn that has the body hash of in_reply_to.
func (t *turns) answered(news, older []*turn, u *turn) *turn {
	if u.reply == "" {
		return nil
	}
	for _, list := range [][]*turn{news, older} {
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].hash == u.reply && list[i].Path != u.Path {
				return list[i]
			}
		}
	}
	return nil
}

// named are the turns of the thread that a referenced commit brought.
func (t *turns) named(news, older []*turn, u *turn, ref string) (found []*turn) {
	if len(ref) < 4 {
		return nil
	}
	for _, o := range news {
		if o != u && strings.HasPrefix(o.Commit, ref) {
			found = append(found, o)
		}
	}
	if len(found) > 0 || len(older) == 0 || t.lookups == maxReferences {
		return found
	}
	t.lookups++
	ids, err := t.repo.ResolvePrefix(ref)
	if err != nil || len(ids) != 1 {
		return nil // what rule references tells is not told again
	}
	c, err := t.repo.Commit(ids[0])
	if err != nil {
		return nil // not a commit
	}
	diffs, err := t.repo.DiffCommit(c)
	if err != nil {
		return nil // its parent is cut off
	}
	for _, o := range older {
		if addedToAll(diffs, o.Path) {
			o.Commit = c.ID
			found = append(found, o)
		}
	}
	return found
}

// older reads the envelopes of a thread directory that the commits just
// outside the range hold, in the order of their dates.
func (t *turns) older(dir string) ([]*turn, error) {
	type file struct{ path, blob string }
	in := map[string]mask{}
	listed := map[file]bool{}
	var files []file
	for _, id := range slices.Sorted(maps.Keys(t.bounds)) {
		c, err := t.repo.Commit(id)
		if err != nil {
			return nil, err
		}
		e, ok, err := t.repo.EntryAt(c.Tree, dir)
		if err != nil {
			return nil, err
		}
		if !ok || e.Mode != gitrepo.ModeTree {
			continue
		}
		tree, err := t.repo.Tree(e.ID)
		if err != nil {
			return nil, err
		}
		for e := range tree.Entries() {
			f := file{dir + "/" + e.Name, e.ID}
			if !e.Mode.IsFile() || !t.policy.Candidate(f.path) {
				continue
			}
			in[f.path] |= t.bound(id)
			if !listed[f] && len(files) < maxOlder {
				listed[f] = true
				files = append(files, f)
			}
		}
	}
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.blob
	}
	var list []*turn
	seen := map[string]bool{}
	i := 0
	err := t.repo.Objects(ids, t.policy.AcceptedLimits().File, func(o gitrepo.Object) error {
		f := files[i]
		i++
		if o.Err != nil && !errors.Is(o.Err, gitrepo.ErrTooLarge) {
			return o.Err
		}
		if u := t.parse(f.path, gitrepo.ModeFile, o); u != nil && !seen[f.path] {
			seen[f.path] = true
			u.in = in[f.path]
			list = append(list, u)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b *turn) int { return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.Path, b.Path)) })
	return list, nil
}

// A set is a set of at most maxTurns turns, by index.
type set [(maxTurns + 63) / 64]uint64

func (s set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// knowledge returns, for each new turn, which others lie in the history of its
// commit or came with it.
func (t *turns) knowledge(news []*turn) []set {
	own := map[string]set{}
	for i, u := range news {
		s := own[u.Commit]
		s[i/64] |= 1 << (i % 64)
		own[u.Commit] = s
	}
	at := make(map[string]set, len(t.revs))
	for _, rev := range t.revs {
		s := own[rev.ID]
		for _, p := range rev.Parents {
			for k, bits := range at[p] {
				s[k] |= bits
			}
		}
		at[rev.ID] = s
	}
	known := make([]set, len(news))
	for i, u := range news {
		known[i] = at[u.Commit]
	}
	return known
}
