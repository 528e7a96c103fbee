package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/verdict"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// What the gates say of a commit is said by the judge of the gates, of the time:
// by the policy and the trust that were accepted before the commit. The history
// of the main ref is judged once, from where it was judged before; what other
// refs have beyond it, whenever they or it have moved.

// A judged is up to where the main ref was judged, as the database keeps it.
type judged struct {
	Tip  string
	Eras []rules.Era
	Now  int // the era after Tip
}

// A court is what the judge says of the commits of one run.
type court struct {
	state   judged
	paths   map[string]map[string]*rules.Verdict // by commit and path
	refused map[string]map[string][]string       // rules by commit and path, "" where they are about no path
	gone    map[string]string                    // by path of a message whose body was taken out, the blob that stands for it

	kept    map[string]*gitrepo.Scanned // what was read of commits
	reading reading                     // and parsed
	lent    chan struct{}               // holds one while the database may be asked
}

// A hearing is the judging of a span, which goes on while the one before it is written.
type hearing struct {
	s        *span
	recorded map[string][]string // when the span begins
	court    *court
	err      error
	cancel   context.CancelFunc
	over     chan struct{}
}

// hear begins to judge a span.
func (x *Indexer) hear(ctx context.Context, s *span, recorded map[string][]string, from judged) *hearing {
	h := &hearing{s: s, recorded: recorded, over: make(chan struct{})}
	h.court = &court{state: from, paths: map[string]map[string]*rules.Verdict{}, refused: map[string]map[string][]string{}, gone: map[string]string{},
		kept: map[string]*gitrepo.Scanned{}, reading: reading{said: map[parsed]*message{}}, lent: make(chan struct{}, 1)}
	ctx, h.cancel = context.WithCancel(ctx)
	go func() {
		defer close(h.over)
		h.err = x.judge(ctx, h.court, s, from)
	}()
	return h
}

// verdicts waits for what the judge says of the span that was heard, who may ask the database meanwhile.
func (x *Indexer) verdicts() (*court, error) {
	h := x.heard
	x.heard = nil
	h.court.lent <- struct{}{}
	<-h.over
	h.cancel()
	return h.court, h.err
}

// dismiss ends a hearing that is of no use any more.
func (x *Indexer) dismiss() {
	if x.heard != nil {
		x.heard.cancel()
		<-x.heard.over
		x.heard = nil
	}
}

// asking lets one question of the judge reach the database when nothing is being written.
func (c *court) asking(ctx context.Context, ask func() error) error {
	select {
	case <-c.lent:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { c.lent <- struct{}{} }()
	return ask()
}

// accepted is Accepted, for one at a time.
func (x *Indexer) accepted(a policy.Accepted) (*policy.Policy, *policy.Trust, error) {
	x.loading.Lock()
	defer x.loading.Unlock()
	return x.Accepted(a)
}

// errStrayed says that what was judged before is to be judged anew.
var errStrayed = errors.New("the history follows another line than before")

// judge judges what a span brings. A malformed commit and what else nobody can
// decide leave the commits without a verdict, and are judged again next time.
func (x *Indexer) judge(ctx context.Context, c *court, s *span, from judged) error {
	main := s.tips[x.Main]
	if from.Tip != "" && from.Tip != s.after {
		known := false
		if types, err := x.Repo.Has([]string{from.Tip}); err != nil {
			return err
		} else if types[0] == "commit" && main != "" {
			if known, err = x.Repo.IsAncestor(ctx, from.Tip, main); err != nil {
				return err
			}
		}
		if !known {
			from = judged{}
		}
	}
	if main == "" {
		c.state = judged{}
	} else if main != from.Tip {
		r := rules.Range{Ref: x.Main, Old: from.Tip, New: main, History: true, First: from.Tip == "", Policy: policy.Default(), Trust: policy.Untrusting("")}
		if from.Tip != "" {
			r.Exclude = []string{from.Tip}
		}
		k := x.keeping(c)
		if s.full && (s.part || len(s.tips) == 1) && from.Tip == s.after { // then git need not be asked again
			k.walked = walked{[]string{main}, r.Exclude, s.revs}
		}
		j, err := x.try(ctx, c, k, r, from)
		if err != nil || j == nil {
			return err
		}
		if j.Strayed() {
			return errStrayed
		}
		c.state = judged{Tip: main, Eras: j.Eras, Now: j.Latest()}
	}
	for _, ref := range slices.Sorted(maps.Keys(s.tips)) {
		if ref == x.Main {
			continue
		}
		r := rules.Range{Ref: ref, New: s.tips[ref], Policy: policy.Default(), Trust: policy.Untrusting("")}
		if main != "" {
			r.Exclude = []string{main}
		}
		if _, err := x.try(ctx, c, x.keeping(c), r, c.state); err != nil {
			return err
		}
	}
	return nil
}

// A keeper is a repository that keeps of the commits that the judge reads what is asked of
// them when he is done, up to some bytes, so that they are read once.
type keeper struct {
	Repo
	kept   map[string]*gitrepo.Scanned
	bytes  int
	walked walked
}

// A walked is what a walk over commits gave, parents first.
type walked struct {
	include, exclude []string
	revs             []gitrepo.Rev
}

func (x *Indexer) keeping(c *court) *keeper { return &keeper{Repo: x.Repo, kept: c.kept} }

// RevList is that of the repository.
func (k *keeper) RevList(ctx context.Context, include, exclude []string, o gitrepo.RevListOptions) iter.Seq2[gitrepo.Rev, error] {
	w := k.walked
	if len(w.revs) > 0 && slices.Equal(include, w.include) && slices.Equal(exclude, w.exclude) && o == (gitrepo.RevListOptions{Reverse: true}) {
		return gitrepo.Listed(w.revs)
	}
	return k.Repo.RevList(ctx, include, exclude, o)
}

// keptBytes is about how much is kept.
const keptBytes = 32 << 20

// ScanCommits is that of the repository.
func (k *keeper) ScanCommits(ctx context.Context, walk iter.Seq2[gitrepo.Rev, error], o gitrepo.ScanOptions, fn func(*gitrepo.Scanned) error) error {
	return k.Repo.ScanCommits(ctx, walk, o, func(s *gitrepo.Scanned) error {
		if o.Blob != nil && k.bytes < keptBytes {
			k.bytes += 1024
			for _, d := range s.Diffs {
				k.bytes += 256 * len(d.Changes)
			}
			k.kept[s.ID] = slender(s)
		}
		return fn(s)
	})
}

// slender is a commit without its own bytes and those of its files, which the judge parses: they
// would be the greater part of what is held of a piece.
func slender(s *gitrepo.Scanned) *gitrepo.Scanned {
	c := s.Commit
	return &gitrepo.Scanned{Commit: &gitrepo.Commit{ID: c.ID, Tree: c.Tree, Parents: c.Parents, Committer: gitrepo.Ident{When: c.Committer.When}}, Diffs: s.Diffs}
}

// try judges one range; nil if it cannot be decided.
func (x *Indexer) try(ctx context.Context, c *court, repo *keeper, r rules.Range, from judged) (*rules.Judge, error) {
	j := &rules.Judge{Repo: repo, Gate: rules.Check, OfTheTime: x.accepted, Eras: from.Eras, Held: from.Now}
	j.Used = func(nonces []string) (found map[string][]history.Hit, err error) {
		err = c.asking(ctx, func() (err error) { found, err = x.used(ctx, nonces); return err })
		return found, err
	}
	j.Said = func(dir, hash string) (commits []string, err error) {
		err = c.asking(ctx, func() (err error) { commits, err = x.said(ctx, dir, hash); return err })
		return commits, err
	}
	j.Read = c.reading.keep
	var told []*rules.Verdict
	j.Told = func(v rules.Verdict) { told = append(told, &v) }
	err := j.Range(ctx, r)
	var undecided *policy.Undecided
	if errors.As(err, &undecided) && !x.Strict {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if j.Commits < j.Total { // behind a malformed commit nothing is decided
		return nil, nil
	}
	for _, v := range told {
		if c.paths[v.Commit] == nil {
			c.paths[v.Commit] = map[string]*rules.Verdict{}
		}
		c.paths[v.Commit][v.Path] = v
		if v.Tombstone && len(v.Rules) == 0 {
			c.gone[v.Path] = v.Blob
		}
	}
	for _, f := range j.Findings {
		if f.Severity != finding.Error || f.Commit == "" {
			continue
		}
		if c.refused[f.Commit] == nil {
			c.refused[f.Commit] = map[string][]string{}
		}
		if of := c.refused[f.Commit]; !slices.Contains(of[f.Path], f.Rule) {
			of[f.Path] = append(of[f.Path], f.Rule)
		}
	}
	return j, nil
}

// used finds the envelopes with nonces that are written already.
func (x *Indexer) used(ctx context.Context, nonces []string) (map[string][]history.Hit, error) {
	found := map[string][]history.Hit{}
	for part := range slices.Chunk(nonces, 500) {
		keys, err := listed(part)
		if err != nil {
			return nil, err
		}
		err = each(ctx, x.DB.conn, "SELECT DISTINCT nonce, path, blob, commit_sha, commit_time FROM bridge_messages WHERE repo_id = $1 AND nonce "+among(x.DB.conn, 2, "text")+
			" AND lifecycle_state <> 'superseded' ORDER BY commit_time, commit_sha, path", []any{x.id, keys}, func(r rows) error {
			var nonce, at string
			var hit history.Hit
			err := r.Scan(&nonce, &hit.Path, &hit.Blob, &hit.Commit, &at)
			found[nonce] = append(found[nonce], hit)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// said finds the commits that brought an envelope with a body hash to a directory.
func (x *Indexer) said(ctx context.Context, dir, hash string) (commits []string, err error) {
	if err := x.sought(ctx, "body_hash"); err != nil {
		return nil, err
	}
	err = each(ctx, x.DB.conn, "SELECT DISTINCT path, commit_sha FROM bridge_messages WHERE repo_id = $1 AND body_hash = $2 AND lifecycle_state <> 'superseded' ORDER BY 2", []any{x.id, hash},
		func(r rows) error {
			var file, commit string
			err := r.Scan(&file, &commit)
			if path.Dir(file) == dir {
				commits = append(commits, commit)
			}
			return err
		})
	return commits, err
}

// A ruling is what is kept of the verdict on a message.
type ruling struct {
	state  string // "pending" where there is no verdict
	rules  string
	good   any // whether the signature is good; nil if there is none
	signer string
	by     string
}

// of returns the ruling on what a commit brings at a path.
func (c *court) of(commit, path string) ruling {
	v := c.paths[commit][path]
	if v == nil {
		return ruling{state: "pending"}
	}
	r := ruling{state: string(verdict.Of(*v)), rules: strings.Join(v.Rules, " "), signer: v.Fingerprint, by: v.Principal}
	if v.Signature != "" && v.Signature != "unsigned" {
		r.good = v.Signature == "good"
	}
	return r
}

// writeRefused writes which commits of a run the gates refuse, and gives what was
// written before of commits that are judged anew its new verdict.
func (x *Indexer) writeRefused(ctx context.Context, s *span, c *court) error {
	db := x.DB.conn
	inside := map[string]bool{}
	for _, rev := range s.revs {
		inside[rev.ID] = true
	}
	again := map[string]bool{}
	for id := range c.paths {
		again[id] = true
	}
	for id := range c.refused {
		again[id] = true
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(again)), 500) {
		keys, err := listed(part)
		if err != nil {
			return err
		}
		if err := db.exec(ctx, "DELETE FROM rigward_refused WHERE repo_id = $1 AND commit_sha "+among(db, 2, "text"), x.id, keys); err != nil {
			return err
		}
	}
	root := ""
	if n := len(c.state.Eras); n > 0 {
		if p, _, err := c.state.Eras[n-1].Read(x.accepted); err == nil {
			root = rootOf(p)
		}
	}
	var args []any
	for _, id := range slices.Sorted(maps.Keys(c.refused)) {
		obj, err := x.Repo.Commit(id)
		if err != nil {
			return err
		}
		paths := c.refused[id]
		if all := paths[""]; len(paths) > 1 { // what the commit breaks, it breaks for each of its paths
			for path := range paths {
				for _, rule := range all {
					if path != "" && !slices.Contains(paths[path], rule) {
						paths[path] = append(paths[path], rule)
					}
				}
			}
			delete(paths, "")
		} else if len(all) > 0 && len(c.paths[id]) > 0 {
			for path := range c.paths[id] {
				paths[path] = all
			}
			delete(paths, "")
		}
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			thread, file := split(strings.TrimPrefix(path, root))
			slices.Sort(paths[path])
			args = append(args, x.id, id, name(path), thread, file, optional(obj.Committer.Email), strings.Join(paths[path], " "), stamp(time.Unix(obj.Committer.When, 0)))
		}
	}
	err := insert(ctx, db, "rigward_refused", strings.Fields("repo_id commit_sha path thread filename committer rules commit_time"), args, "ON CONFLICT DO NOTHING", nil)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(c.gone)) {
		thread, file := split(strings.TrimPrefix(path, root))
		err := db.exec(ctx, "UPDATE bridge_messages SET status_text = $1, tldr = NULL, words = NULL, blob = $2 WHERE thread = $3 AND repo_id = $4 AND filename = $5 AND path = $6",
			expunged, c.gone[path], thread, x.id, file, name(path))
		if err != nil {
			return err
		}
	}
	threads := map[string]bool{}
	for id, paths := range c.paths {
		if inside[id] {
			continue
		}
		for path := range paths {
			thread, _ := split(strings.TrimPrefix(path, root))
			if len(threads) == 0 {
				if err := x.sought(ctx, "commit_sha"); err != nil {
					return err
				}
			}
			threads[thread] = true
			r := c.of(id, path)
			err := db.exec(ctx, "UPDATE bridge_messages SET verdict = $1, rules = $2, signature_good = $3, signer = $4, signer_principal = $5 WHERE repo_id = $6 AND commit_sha = $7 AND path = $8",
				r.state, optional(r.rules), r.good, optional(r.signer), optional(r.by), x.id, id, name(path))
			if err != nil {
				return err
			}
		}
	}
	return x.writeThreads(ctx, slices.Sorted(maps.Keys(threads)))
}

// readJudged and writeJudged keep up to where the main ref was judged.
func (x *Indexer) readJudged(ctx context.Context) (j judged, err error) {
	var data string
	err = each(ctx, x.DB.conn, "SELECT coalesce(judged, '') FROM rigward_repositories WHERE repo_id = $1", []any{x.id}, func(r rows) error { return r.Scan(&data) })
	if err != nil || data == "" || json.Unmarshal([]byte(data), &j) != nil {
		return judged{}, err
	}
	return j, nil
}

func (x *Indexer) writeJudged(ctx context.Context, j judged) error {
	var text any
	if j.Tip != "" {
		data, err := json.Marshal(j)
		if err != nil {
			return err
		}
		text = string(data)
	}
	return x.DB.conn.exec(ctx, "UPDATE rigward_repositories SET judged = $1, indexed_at = $2 WHERE repo_id = $3", text, stamp(x.Now()), x.id)
}
