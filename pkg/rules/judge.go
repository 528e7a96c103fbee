// Package rules judges a change by what a policy demands, rule by rule, over the
// pure packages envelope, relay and sshsign. The files are named as the rules.
// It knows no hook and no output format.
package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// Repo is what the rules need of a repository: objects by id and walks over
// commits. *gitrepo.Repo is one.
type Repo interface {
	ObjectFormat() string
	Objects(ids []string, limit int64, fn func(gitrepo.Object) error) error
	Heads(ids []string, most int64, fn func(gitrepo.Object) error) error
	Commit(id string) (*gitrepo.Commit, error)
	EachCommit(ids []string, fn func(*gitrepo.Commit) error) error
	Tree(id string) (*gitrepo.Tree, error)
	EntryAt(root, path string) (gitrepo.TreeEntry, bool, error)
	DiffTrees(old, new string) ([]gitrepo.Change, error)
	RevList(ctx context.Context, include, exclude []string, o gitrepo.RevListOptions) iter.Seq2[gitrepo.Rev, error]
	ScanCommits(ctx context.Context, walk iter.Seq2[gitrepo.Rev, error], o gitrepo.ScanOptions, fn func(*gitrepo.Scanned) error) error
	Line(new, old string) (revs []gitrepo.Rev, ok bool)
	CutIn(walk []gitrepo.Rev, exclude []string) error
	MergeBases(ctx context.Context, a, b string) ([]string, error)
	IsAncestor(ctx context.Context, a, b string) (bool, error)
	ResolvePrefix(prefix string) ([]string, error)
	Has(ids []string) (types []string, err error)
	Shallow() (map[string]bool, error)
}

// Gate is who asks. It decides which rules can be judged.
type Gate int

// Gates.
const (
	PreCommit Gate = iota
	PrePush
	PreReceive
	Update
	PullRequest
	Check
)

// String returns git's or GitHub's name of the gate.
func (g Gate) String() string {
	return [...]string{"pre-commit", "pre-push", "pre-receive", "update", "pull-request", "check"}[g]
}

// server tells whether commits arrive here for the first time from someone
// who is not trusted, with a clock that is.
func (g Gate) server() bool { return g == PreReceive || g == Update || g == PullRequest }

// A Judge holds what one run of a gate needs, and collects its findings.
// Make one for each run; the zero value is not usable.
type Judge struct {
	Repo   Repo
	Gate   Gate
	Now    time.Time      // of receipt at a server; zero where no clock counts
	Nonces *history.Index // finds older envelopes by nonce; nil: only those of the range

	// OfTheTime, if set, reads policy and trust: each commit is then judged by
	// those that were accepted before it came, not by those of the range. See
	// era. Loader.Accepted is one.
	OfTheTime func(policy.Accepted) (*policy.Policy, *policy.Trust, error)
	// Eras are those that the history before the range went through, oldest
	// first, where OfTheTime is set and the range excludes one commit whose
	// history was judged before; Range adds those of the range.
	Eras []Era
	// Told, if set, is called at the end of Range with what is to be said of
	// each envelope that the commits of the range bring, change or delete,
	// parents first. Signatures that no rule asks for are then judged as well,
	// and where the signers cannot be read this is said of the commit alone.
	Told func(Verdict)
	// Used, if set, is asked for older envelopes by nonce where Nonces is nil.
	Used func(nonces []string) (map[string][]history.Hit, error)
	// Bootstrap says that a server takes the first policy and signers files
	// though nobody is trusted yet who could sign for them.
	Bootstrap bool
	// Receives says that ref updates are judged that the repository at hand
	// gets, whether or not their time of receipt is known.
	Receives bool
	// Progress, if set, is called now and then with the commits judged so far.
	Progress func(done, total int)
	// Extra, if set, is asked about every new envelope besides the protocol's
	// rules, by several goroutines at once.
	Extra func(*envelope.Envelope) []finding.Finding
	// Portion is how many changed paths are read and judged together; 0 stands
	// for 512. What is found does not depend on it.
	Portion int

	Findings  []finding.Finding
	More      finding.Counts // findings beyond MaxFindings of their severity
	Commits   int            // judged so far
	Envelopes int
	Total     int // commits of the ranges begun

	kept      finding.Counts // of Findings, what keep put there
	keptBytes [finding.Error + 1]int
	at        string // the commit that is judged
	refused   bool   // what was found in it forbids that it changes who is trusted
	held      int    // findings that wait for their directory to become a thread

	walk    *walk               // the commits of the range
	threads map[string]*thread  // by directory
	heads   heads               // of what the batch takes the place of
	oddDirs map[string][]string // by folded path, directories that another one could be mistaken for
	oddSeen map[string]bool     // those
	// oddNames are the names of those beside the threads, dirNames all names
	// there, once a short name among what comes asks for them.
	oddNames portable.Shorts
	dirNames *portable.Shorts
	dirSeen  map[string]bool // those of dirNames that the range brings
	eras     eras            // where OfTheTime is set
	briefs   []brief         // what Told is to be told
	dates    []int64         // committer dates, at a server
	waiting  map[string][]pending
	refs     []reference
	uses     []nonceUse
	claims   []claim       // of all ranges
	brought  []history.Hit // every envelope of the range with a nonce, in step with nonced
	nonced   []string
	senders  map[string]string // rig ids that were seen, each once
	bases    int               // merges of the range of which the base was asked for
	holds    map[string]string // trees of the commits that references name, "" for no one commit

}

// A Range is what a ref gains: the commits that are reachable from New but not
// from the excluded ones.
type Range struct {
	Ref     string
	Old     string   // the ref's commit before; "" if it is new or has none
	New     string   // the ref's commit afterwards
	Exclude []string // commits whose history is accepted already; holds Old
	// History says that the ref is protected, so that it may only move
	// forward; First that nothing is protected yet, so that a root may come.
	History bool
	First   bool
	// NonceTips are further commits in whose history no nonce of the range may
	// occur.
	NonceTips []string

	Policy *policy.Policy
	Trust  *policy.Trust
	// From is the commit whose files Policy and Trust are: the default branch's
	// before the push. "" stands for Old.
	From string
}

// Range judges one range, and adds what it finds to j. An error means that it
// could not decide.
func (j *Judge) Range(ctx context.Context, r Range) error {
	before, more, kept, keptBytes := len(j.Findings), j.More, j.kept, j.keptBytes
	commits, envelopes, total := j.Commits, j.Envelopes, j.Total
	j.eras = eras{}
	err := j.pass(ctx, r)
	if err == nil && j.OfTheTime != nil && j.eras.settle(j.walk) {
		// Commits of a side branch were judged by what held there. Once more,
		// by what held where it was merged.
		j.Findings, j.More, j.kept, j.keptBytes = j.Findings[:before], more, kept, keptBytes
		j.Commits, j.Envelopes, j.Total = commits, envelopes, total
		err = j.pass(ctx, r)
	}
	if err == nil {
		j.Eras = j.eras.list
		if j.Told != nil {
			j.tell(j.Findings[before:])
		}
	}
	return err
}

// pass judges a range once.
func (j *Judge) pass(ctx context.Context, r Range) error {
	if j.Nonces != nil {
		IndexBy(r.Policy, j.Nonces)
	}
	if err := j.begin(ctx, r); err != nil {
		return err
	}
	j.Total += j.walk.len()
	portion := cmp.Or(j.Portion, defaultPortion)
	var batch []*commit
	changes, pending, bytes := 0, 0, 0
	flush := func() error {
		err := j.judge(ctx, r, batch)
		clear(batch)
		batch, pending, bytes = batch[:0], 0, 0
		return err
	}
	opt := gitrepo.ScanOptions{BlobLimit: r.Policy.MaxFile, BlobBytes: portionBytes, BlobCount: maxAhead, Blob: func(_ *gitrepo.Commit, c gitrepo.Change) bool {
		return r.Policy.Candidate(c.Path)
	}}
	err := j.Repo.ScanCommits(ctx, j.walk.revs, opt, func(s *gitrepo.Scanned) error {
		c := j.newCommit(s, r)
		if err := j.ofTheTime(c); err != nil {
			return err
		}
		n := 0
		for _, d := range s.Diffs {
			n = max(n, len(d.Changes))
		}
		if changes += n; changes > r.Policy.MaxChanges && j.Gate != Check {
			return &policy.Undecided{Message: fmt.Sprintf("more than %d paths change (limits.changes)", r.Policy.MaxChanges), Hint: "push fewer commits at a time"}
		}
		batch = append(batch, c)
		bytes += len(s.Raw)
		for _, o := range s.Blobs {
			bytes += len(o.Data)
		}
		if pending += n + 1; pending >= portion || bytes >= portionBytes || j.moves(c) {
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
		j.keep(finding.Finding{Rule: "commit-signed", Severity: finding.Error, Commit: bad.ID, Ref: r.Ref,
			Message: "malformed commit: " + bad.Reason, Hint: "git fsck --no-dangling"})
		return nil
	}
	if err != nil {
		return err
	}
	// Not before all commits were parsed: git reads the parents of a malformed
	// one in its own way.
	if r.History {
		if err := j.fastForward(ctx, r); err != nil {
			return err
		}
	}
	if err := j.references(ctx, r); err != nil {
		return err
	}
	return j.nonces(ctx, r)
}

// IndexBy makes a nonce index take for envelopes what the policy does.
func IndexBy(p *policy.Policy, x *history.Index) {
	scope, front := p.Root+"\x00"+strings.Join(p.Ignore, "\x00"), p.AcceptedLimits().Frontmatter
	if front != policy.Default().AcceptedLimits().Frontmatter {
		scope += fmt.Sprintf("\x00%d", front)
	}
	x.Use(scope, p.Candidate, front)
}

// defaultPortion is Judge.Portion where that is not set, portionBytes after how
// much content a portion ends, however few paths it has.
const (
	defaultPortion = 512
	portionBytes   = 16 << 20
)

// maxAhead is how many blobs are read together with the commits that bring them.
const maxAhead = 8192

// begin forgets the range before and finds the commits of this one, with what
// lies just outside.
func (j *Judge) begin(ctx context.Context, r Range) error {
	j.reset()
	var roots []gitrepo.Rev
	add := func(rev gitrepo.Rev) error {
		j.walk.add(rev)
		if len(rev.Parents) == 0 {
			roots = append(roots, rev)
		}
		if j.walk.len() > r.Policy.MaxCommits && j.Gate != Check {
			return &policy.Undecided{Message: fmt.Sprintf("more than %d commits are new (limits.commits)", r.Policy.MaxCommits), Hint: "push fewer commits at a time"}
		}
		if j.walk.weight > maxWeight {
			return &policy.Undecided{Message: "the commits merge too many different older commits to be judged together", Hint: "push fewer commits at a time"}
		}
		return nil
	}
	line, short := []gitrepo.Rev(nil), false
	if len(r.Exclude) == 1 {
		line, short = j.Repo.Line(r.New, r.Exclude[0])
	}
	if short {
		for _, rev := range line {
			if err := add(rev); err != nil {
				return err
			}
		}
	} else {
		for rev, err := range j.Repo.RevList(ctx, []string{r.New}, r.Exclude, gitrepo.RevListOptions{Reverse: true}) {
			if err == nil {
				err = add(rev)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := j.Repo.CutIn(roots, r.Exclude); err != nil {
		return err
	}
	i := 0
	err := j.Repo.EachCommit(j.walk.boundIDs(), func(c *gitrepo.Commit) error {
		j.walk.bounds[i].tree, j.walk.bounds[i].when = c.Tree, c.Committer.When
		i++
		return nil
	})
	if err != nil {
		return err
	}
	if j.Gate.server() {
		j.dates = make([]int64, j.walk.len())
	}
	if j.OfTheTime != nil {
		if err := j.beginEras(ctx); err != nil {
			return err
		}
	}
	return j.trustedBounds(ctx, r)
}

// maxWeight is how many members the sets of a walk may have in all: 16 MiB of
// them. A range without merges of older commits has one set of one member.
const maxWeight = 4 << 20

func (j *Judge) reset() {
	digits := 40
	if j.Repo.ObjectFormat() == "sha256" {
		digits = 64
	}
	j.walk = newWalk(digits)
	j.threads, j.waiting, j.holds = map[string]*thread{}, map[string][]pending{}, map[string]string{}
	j.bases, j.held = 0, 0
	j.dirNames, j.dirSeen = nil, nil
	j.oddDirs, j.dates, j.refs, j.uses, j.brought, j.nonced, j.briefs = nil, nil, nil, nil, nil, nil, nil
}

// Staged is what is about to be committed: the changes of the index against
// HEAD.
type Staged struct {
	Head      string // commit, "" if there is none yet
	Changes   []gitrepo.Change
	Entries   []gitrepo.IndexEntry // the whole index
	Published []string             // commits that other clones may have
	Policy    *policy.Policy
	Trust     *policy.Trust
}

// Index judges what is about to be committed.
func (j *Judge) Index(ctx context.Context, s Staged) error {
	j.reset()
	j.Total = 1
	changes := slices.SortedFunc(slices.Values(s.Changes), func(a, b gitrepo.Change) int { return strings.Compare(a.Path, b.Path) })
	c := &commit{n: -1, diffs: []gitrepo.Diff{{Parent: s.Head, Changes: changes}}, policy: s.Policy, trust: s.Trust, index: map[string]gitrepo.TreeEntry{}}
	for _, e := range s.Entries {
		c.index[e.Path] = gitrepo.TreeEntry{Name: e.Path, Mode: e.Mode, ID: e.ID}
	}
	if s.Head != "" {
		head, err := j.Repo.Commit(s.Head)
		if err != nil {
			return err
		}
		c.parents = []string{s.Head}
		j.walk.addBound(s.Head)
		j.walk.bounds[0].tree = head.Tree
	}
	for _, id := range s.Published {
		p, err := j.Repo.Commit(id)
		if err != nil {
			return err
		}
		c.published, c.publishedIDs = append(c.published, p.Tree), append(c.publishedIDs, id)
	}
	return j.judge(ctx, Range{Policy: s.Policy, Trust: s.Trust}, []*commit{c})
}

// prepare finds what a batch of commits brings, and reads it.
func (j *Judge) prepare(ctx context.Context, batch []*commit) error {
	for _, c := range batch {
		c.introduce(j.Told == nil)
	}
	if err := j.lookBack(batch); err != nil {
		return err
	}
	if err := j.read(batch); err != nil {
		return err
	}
	for _, c := range batch {
		if err := j.survey(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// judge reads what a batch of commits brings, verifies their signatures, and
// then applies the rules commit by commit, parents first.
func (j *Judge) judge(ctx context.Context, r Range, batch []*commit) error {
	if err := j.prepare(ctx, batch); err != nil {
		return err
	}
	for _, c := range batch {
		if c.obj != nil {
			var err error
			if c.trustPaths, err = j.trustChanges(ctx, c); err != nil {
				return err
			}
		}
	}
	if err := j.verify(batch); err != nil {
		return err
	}
	for _, c := range batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.commit(ctx, r, c); err != nil {
			return err
		}
		j.Commits++
		if j.Progress != nil && j.Commits%256 == 0 {
			j.Progress(j.Commits, j.Total)
		}
	}
	return nil
}

// commit applies the rules to one commit, or to the index.
func (j *Judge) commit(ctx context.Context, r Range, c *commit) error {
	before := len(j.Findings)
	j.at, j.refused = c.id, false
	apply := func(rules ...func(context.Context, Range, *commit) error) error {
		for _, rule := range rules {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := rule(ctx, r, c); err != nil {
				return err
			}
		}
		return nil
	}
	if err := apply(j.trustFiles, j.revocations, j.guardedNames); err != nil {
		return err
	}
	strangers, err := j.noteNames(c)
	if err != nil {
		return err
	}
	if err := apply(j.appendOnly, j.divergence, j.signed); err != nil {
		return err
	}
	err = j.portions(ctx, c, func(changes []gitrepo.Change) error {
		if err := apply(j.content, j.threadClosed, j.senderKey, j.relays); err != nil {
			return err
		}
		j.outside(r, c, changes)
		if !c.wide {
			return nil
		}
		return j.remember(c)
	})
	if err != nil {
		return err
	}
	if err := j.strange(r, c, strangers); err != nil {
		return err
	}
	if err := apply(j.joined); err != nil {
		return err
	}
	if err := j.passed(c, j.refused); err != nil {
		return err
	}
	if j.Told != nil {
		if err := j.record(c, j.Findings[before:]); err != nil {
			return err
		}
	}
	if c.wide {
		return nil
	}
	return j.remember(c)
}

// MaxFindings is how many findings of one severity a Judge keeps, and
// maxFindingBytes how much text of them. The others are counted.
const (
	MaxFindings     = 10_000
	maxFindingBytes = 8 << 20
)

// add maps a finding by the policy and keeps or counts it, unless its rule is
// off.
func (j *Judge) add(p *policy.Policy, f finding.Finding) {
	if f, ok := p.Apply(f); ok {
		j.keep(f)
	}
}

// keep keeps a finding, or counts it where many of its severity were kept.
func (j *Judge) keep(f finding.Finding) {
	if f.Severity == finding.Error && f.Commit == j.at && slices.Contains(authority, f.Rule) {
		j.refused = true
	}
	if j.Told != nil { // to be told, all must be known
		j.Findings = append(j.Findings, f)
		return
	}
	size := len(f.Path) + len(f.Message) + len(f.Hint)
	if j.kept.Of(f.Severity) >= MaxFindings || j.keptBytes[f.Severity]+size > maxFindingBytes {
		j.More.Add(f.Severity)
		return
	}
	j.kept.Add(f.Severity)
	j.keptBytes[f.Severity] += size
	j.Findings = append(j.Findings, f)
}

// Parallel calls fn for 0 … n-1 on all cores, and returns when all calls have.
func Parallel(n int, fn func(int)) {
	workers := min(runtime.GOMAXPROCS(0), (n+15)/16)
	if workers <= 1 {
		for i := range n {
			fn(i)
		}
		return
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				fn(i)
			}
		})
	}
	wg.Wait()
}

func (j *Judge) format() sshsign.ObjectFormat {
	if j.Repo.ObjectFormat() == "sha256" {
		return sshsign.SHA256
	}
	return sshsign.SHA1
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	if id == "" {
		return "--root"
	}
	return id
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
