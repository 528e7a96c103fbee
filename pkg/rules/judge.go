// Package rules judges a change by what a policy demands, rule by rule, over the
// pure packages envelope, relay and sshsign. A rule that looks at commits has a file of its name.
// It knows no hook and no output format.
package rules

import (
	"context"
	"errors"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/screen"
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

// A Judge holds what one run of a gate needs, and collects its findings.
// Make one for each run; the zero value is not usable.
type Judge struct {
	Repo   Repo
	Gate   Gate
	Now    time.Time      // of receipt at a server; zero where no clock counts
	Nonces *history.Index // finds older envelopes by nonce; nil: only those of the range
	Memory *Memory        // of what was read before; nil: none
	Turns  *history.Turns // of long threads; nil: what lies in a thread is read

	// OfTheTime, if set, reads policy and trust: each commit is then judged by
	// those that were accepted before it came, not by those of the range. See
	// era. Loader.Accepted is one.
	OfTheTime func(policy.Accepted) (*policy.Policy, *policy.Trust, error)
	// Eras are those that the history before the range went through, oldest
	// first, where OfTheTime is set and the range excludes one commit whose
	// history was judged before; Range adds those of the range.
	Eras []Era
	// Held, if set, is which of Eras holds after the commit that the range excludes, as
	// Latest told of it; else that is found in the history.
	Held int
	// Later, if set and OfTheTime is not, reads policy and trust as that does: what a range
	// changes of them then counts as well for what comes after it. Loader.Accepted is one.
	Later func(policy.Accepted) (*policy.Policy, *policy.Trust, error)
	// Told, if set, is called at the end of Range with what is to be said of
	// each envelope that the commits of the range bring, change or delete,
	// parents first. Signatures that no rule asks for are then judged as well,
	// and where the signers cannot be read this is said of the commit alone.
	Told func(Verdict)
	// Clock, if set, is asked for the moment of each commit of a range.
	Clock *order.Clock
	// Used, if set, is asked for older envelopes by nonce where Nonces is nil.
	Used func(nonces []string) (map[string][]history.Hit, error)
	// Said, if set, is asked for the commits that brought an envelope with a body
	// hash to a directory before the range, where the trees before it have none.
	Said func(dir, hash string) (commits []string, err error)
	// Brought, if set, is called for each envelope with a nonce that the range
	// brings; more than once where the range is judged twice.
	Brought func(nonce string, hit history.Hit)
	// Most is up to how many commits a range may have, or the error is ErrMany; 0:
	// any number.
	Most int
	// Signs is, after Index, what of the staged must be signed, in words; "" for
	// nothing.
	Signs string
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
	// Read, if set, is called for each file that is parsed, with what envelope.Parse made of
	// it by the options and has not been changed since, by several goroutines at once. It may
	// not change it.
	Read func(blob string, o envelope.Options, e *envelope.Envelope)
	Outcome

	// long is from how many entries on a thread is long; 0 stands for longThread. What
	// is found does not depend on it.
	long int
	// portion is how many changed paths are read and judged together; 0 stands
	// for defaultPortion. What is found does not depend on it.
	portion int

	noted   []func()          // see Keep
	claims  []claim           // of all ranges
	senders map[string]string // rig ids that were seen, each once
	resigns map[string]string // see Resign
	// erasOf, if set, makes the eras that the bounds of a range are in, by id: Eras do not
	// say it. heldAt is what it has made of them.
	erasOf  func([]bound) ([]Era, map[string]int32, error)
	heldAt  map[string]int32
	latest  int  // see Latest
	strayed bool // see Strayed
	moved   bool // see Moved
}

// An Outcome is what a Judge has come to so far.
type Outcome struct {
	Findings  []finding.Finding
	More      finding.Counts // findings that were counted and not kept, by severity
	Commits   int            // judged so far
	Envelopes int
	Relays    int // of Envelopes
	Total     int // commits of the ranges begun
	// Rewritten is how many accepted envelopes commits change or delete where the
	// policy has the rule against it off.
	Rewritten int

	kept      finding.Counts // of Findings, what keep put there
	keptBytes [finding.Error + 1]int
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
	// Beside says that there was no default branch before the push, and that Ref is not to
	// be it: what it changes of policy and signers counts for nothing.
	Beside bool
}

// ErrMany says that a range has more commits than Judge.Most.
var ErrMany = errors.New("the range has too many commits to be judged at once")

// Range judges one range, and adds what it finds to j. An error means that it
// could not decide.
func (j *Judge) Range(ctx context.Context, r Range) error {
	ps, err := j.judge(ctx, r)
	if err != nil {
		return err
	}
	return j.later(ctx, r, ps)
}

// judge is Range by one policy, or of the time.
func (j *Judge) judge(ctx context.Context, r Range) (*pass, error) {
	before := j.Outcome
	ps := j.newPass(r)
	err := ps.run(ctx)
	if err == nil && j.OfTheTime != nil && ps.eras.settle(ps.walk) {
		// Commits of a side branch were judged by what held there. Once more,
		// by what held where it was merged.
		j.Outcome = before
		settled := ps.eras
		ps = j.newPass(r)
		ps.eras = settled
		err = ps.run(ctx)
	}
	if err != nil {
		return nil, err
	}
	j.Eras, j.latest, j.strayed, j.moved = ps.eras.list, ps.latest(), ps.strays(), ps.moved()
	if j.Told != nil {
		ps.tellVerdicts(j.Findings[len(before.Findings):])
	}
	return ps, nil
}

// Staged is what is about to be committed: the changes of the index against
// HEAD.
type Staged struct {
	Head      string // commit, "" if there is none yet
	Changes   []gitrepo.Change
	Index     Index    // nil if nothing is to be looked up
	Published []string // commits that other clones may have
	Policy    *policy.Policy
	Trust     *policy.Trust
}

// An Index is what is about to be committed as a whole.
type Index interface {
	Lookup(path string) (gitrepo.IndexEntry, bool)
	HasDir(dir string) bool // whether a path lies below it
}

// Index judges what is about to be committed.
func (j *Judge) Index(ctx context.Context, s Staged) error {
	ps, c, err := j.stage(s)
	if err != nil {
		return err
	}
	j.Total = 1
	err = ps.judge(ctx, []*commit{c})
	j.Signs = c.signs()
	return err
}

// stage makes of what is staged a commit on top of HEAD.
func (j *Judge) stage(s Staged) (*pass, *commit, error) {
	ps := j.newPass(Range{Policy: s.Policy, Trust: s.Trust})
	changes := slices.SortedFunc(slices.Values(s.Changes), func(a, b gitrepo.Change) int { return strings.Compare(a.Path, b.Path) })
	c := &commit{n: -1, diffs: []gitrepo.Diff{{Parent: s.Head, Changes: changes}}, policy: s.Policy, trust: s.Trust, index: s.Index}
	if s.Head != "" {
		head, err := j.Repo.Commit(s.Head)
		if err != nil {
			return nil, nil, err
		}
		c.parents = []string{s.Head}
		ps.walk.addBound(s.Head)
		ps.walk.bounds[0].tree = head.Tree
	}
	for _, id := range s.Published {
		p, err := j.Repo.Commit(id)
		if err != nil {
			return nil, nil, err
		}
		c.published, c.publishedIDs = append(c.published, p.Tree), append(c.publishedIDs, id)
	}
	return ps, c, nil
}

// maxFindings is how many findings of one severity a Judge keeps, and
// maxFindingBytes how much text of them. The others are counted.
const (
	maxFindings     = 10_000
	maxFindingBytes = 8 << 20
)

// add maps a finding by the policy and keeps or counts it, unless its rule is
// off; level is what became of its severity.
func (j *Judge) add(p *policy.Policy, f finding.Finding) (level finding.Severity, on bool) {
	if f, on = p.Apply(f); on {
		if (j.OfTheTime != nil || j.Told != nil) && f.Severity >= p.FailLevel {
			f.Severity = finding.Error // what refuses a commit, whatever the fail-level of another time
		}
		j.keep(f)
	} else if f.Rule == "append-only" {
		j.Rewritten++
	}
	return f.Severity, on
}

// keep keeps a finding, or counts it where many of its severity were kept.
func (j *Judge) keep(f finding.Finding) {
	f.Path, f.Message, f.Hint = screen.HideIn(f.Path), screen.HideIn(f.Message), screen.HideIn(f.Hint)
	if j.Told != nil { // to be told, all must be known
		j.Findings = append(j.Findings, f)
		return
	}
	size := len(f.Path) + len(f.Message) + len(f.Hint)
	if j.kept.Of(f.Severity) >= maxFindings || j.keptBytes[f.Severity]+size > maxFindingBytes {
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

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
