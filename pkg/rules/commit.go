package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/relay"
	"github.com/rigward/rigward/pkg/sshsign"
)

// A commit is what the rules look at: a commit with its changes against each
// parent, or the index with its changes against HEAD.
type commit struct {
	obj     *gitrepo.Commit // nil for the index
	id      string          // "" for the index
	came    order.Moment    // where there is a clock
	n       int32           // in the walk; -1 for the index
	parents []string
	diffs   []gitrepo.Diff // against each parent; one against nothing for a root
	blobs   gitrepo.Blobs

	index        Index    // of what is staged
	published    []string // trees that other clones may have; for the index only
	publishedIDs []string // their commits

	policy *policy.Policy
	trust  *policy.Trust

	strangers  []stranger          // of what it brings, names beside those of envelopes
	brought    []gitrepo.Change    // differ from every parent
	entries    []*entry            // of brought, those at envelope paths; of a wide commit, of the portion at hand
	surveyed   bool                // only survey reads
	wide       bool                // it brings too much to hold all of it parsed
	envelopes  int                 // of brought, how many are at envelope paths
	attested   int                 // new relays among them
	fenced     map[string]bool     // threads of those that begin with a fence
	verdict    *sshsign.Verdict    // of the signature, if it was asked for
	speaks     *sshsign.Verdict    // that verdict, if it is good; see weigh
	unfit      *sshsign.Verdict    // that verdict, if a good one is needed
	refused    bool                // what was found forbids that it changes who is trusted
	closed     map[string]*fact    // by thread, what closed it before, once it was asked for
	trustPaths []string            // of policy, signers and revocation file, what it changes
	freezes    map[string][]freeze // by thread
	main       int                 // the parent whose policy and trust count, where they are those of the time
	moves      bool                // it changes what counts of these
	tells      bool                // it brings an envelope, or what stands where only envelopes may
	burials    map[string]*burial  // by path, of entries that read as tombstones
	burial     *burial             // the one that it is about, if that has the form of one
	undecided  string              // why its signature cannot be judged, where that is told
}

// An entry is a path at which a commit brings an envelope, or what claims to
// be one.
type entry struct {
	path     string // in the repository
	thread   string // directory
	mode     gitrepo.Mode
	blob     string
	added    bool // it comes as a new envelope, see fresh
	data     []byte
	size     int64
	tooLarge bool
	unread   bool // until read has its bytes

	fenced   bool
	replaces bool    // an accepted envelope of a parent
	in       *thread // what is known of its thread, once its rules are applied
	judged   bool    // it is an envelope, or stands where only envelopes may
	counts   bool    // it is a new envelope, and what it says can be judged
	relay    bool    // so it is, and a relay
	env      *envelope.Envelope
	findings []finding.Finding
}

func (ps *pass) newCommit(s *gitrepo.Scanned) *commit {
	n, _ := ps.walk.find(s.ID)
	return &commit{obj: s.Commit, id: s.ID, n: n, parents: s.Parents, diffs: s.Diffs, blobs: s.Blobs, policy: ps.rng.Policy, trust: ps.rng.Trust}
}

// introduce finds what the commit itself brings: paths that differ from every
// parent. A merge brings only what no side had. split allows that its entries
// are looked at in portions.
func (c *commit) introduce(split bool) {
	c.brought = c.diffs[0].Changes
	for _, d := range c.diffs[1:] {
		at := make(map[string]gitrepo.Change, len(d.Changes))
		for _, ch := range d.Changes {
			at[ch.Path] = ch
		}
		var both []gitrepo.Change
		for _, ch := range c.brought {
			if other, ok := at[ch.Path]; ok {
				if ch.OldMode == gitrepo.ModeNone {
					ch.OldMode, ch.OldID = other.OldMode, other.OldID
				}
				both = append(both, ch)
			}
		}
		c.brought = both
	}
	for _, ch := range c.brought {
		if !ch.Deleted() && c.policy.Candidate(ch.Path) {
			c.envelopes++
		}
	}
	if c.wide = split && len(c.brought) > maxEntries; !c.wide {
		c.entries = c.entriesOf(c.brought)
		c.blobs = nil
	}
}

// maxEntries is up to how many changed paths all envelopes of a commit are held
// parsed until its rules were applied. Those of a wider one are read twice, in
// portions of so many.
const maxEntries = 1024

// entriesOf returns the entries at envelope paths among changes that the commit
// brings.
func (c *commit) entriesOf(changes []gitrepo.Change) []*entry {
	var entries []*entry
	for _, ch := range changes {
		if ch.Deleted() || !c.policy.Candidate(ch.Path) {
			continue
		}
		rest, _ := c.policy.Below(ch.Path)
		thread, _, _ := strings.Cut(rest, "/")
		e := &entry{path: ch.Path, thread: thread, mode: ch.NewMode, blob: ch.NewID, added: true}
		if o, ok := c.blobs.Get(ch.NewID); ok && !errors.Is(o.Err, gitrepo.ErrMissing) {
			e.fill(o)
		}
		entries = append(entries, e)
	}
	return entries
}

// portions calls fn for all that a commit brings: at once, or for one portion
// after the other of a wide commit, with the entries of each in turn.
func (ps *pass) portions(ctx context.Context, c *commit, fn func() error) error {
	if !c.wide {
		return fn()
	}
	for changes := range slices.Chunk(c.brought, maxEntries) {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.entries = c.entriesOf(changes)
		if err := ps.read([]*commit{c}); err != nil {
			return err
		}
		if err := fn(); err != nil {
			return err
		}
		c.entries = nil
	}
	return nil
}

// survey finds out what of a commit must be known before its rules are applied:
// how many relays it brings, and where it makes threads.
func (ps *pass) survey(ctx context.Context, c *commit) error {
	c.attested = 0
	c.fenced = map[string]bool{}
	c.surveyed = c.wide
	defer func() { c.surveyed = false }()
	return ps.portions(ctx, c, func() error {
		for _, e := range c.entries {
			if e.fenced && e.mode.IsFile() {
				c.fenced[e.thread] = true
			}
			if e.added && e.env != nil && e.env.IsRelay() {
				c.attested++
			}
		}
		return nil
	})
}

// changesAt yields what the commit changes at a path, against each parent.
func (c *commit) changesAt(path string) iter.Seq[gitrepo.Change] {
	return func(yield func(gitrepo.Change) bool) {
		for _, d := range c.diffs {
			i, ok := slices.BinarySearchFunc(d.Changes, path, func(ch gitrepo.Change, path string) int { return strings.Compare(ch.Path, path) })
			if ok && !yield(d.Changes[i]) {
				return
			}
		}
	}
}

func (e *entry) fill(o gitrepo.Object) {
	e.data, e.size = o.Data, o.Size
	e.tooLarge = errors.Is(o.Err, gitrepo.ErrTooLarge)
	e.fenced = envelope.HasFence(e.data) // the rest of Accepted holds for every entry
}

// known reports whether the entry's bytes were read, or never will be.
func (e *entry) known() bool {
	return e.mode == gitrepo.ModeGitlink || e.data != nil || e.tooLarge
}

// read parses the entries of a batch, and reads before what the scan has not:
// blobs of the index, many large ones, the beginnings of files over the limit,
// and of what the entries take the place of.
func (ps *pass) read(batch []*commit) error {
	type user struct {
		*entry
		*commit
	}
	users := map[string][]user{}
	var ids []string
	limit := int64(0)
	for _, c := range batch {
		for _, e := range c.entries {
			if !e.known() {
				if users[e.blob] == nil {
					ids = append(ids, e.blob)
				}
				users[e.blob] = append(users[e.blob], user{e, c})
				e.unread = true
				limit = max(limit, c.policy.MaxFile)
			}
		}
	}
	if err := ps.fresh(batch); err != nil {
		return err
	}
	Parallel(len(batch), func(i int) {
		for _, e := range batch[i].entries {
			if !e.unread {
				e.parse(batch[i], ps.Judge)
			}
		}
	})
	var portion []user
	bytes := 0
	flush := func() {
		Parallel(len(portion), func(i int) { portion[i].parse(portion[i].commit, ps.Judge) })
		portion, bytes = portion[:0], 0
	}
	err := ps.Repo.Objects(ids, limit, func(o gitrepo.Object) error {
		if o.Err != nil && !errors.Is(o.Err, gitrepo.ErrTooLarge) {
			return o.Err
		}
		for _, e := range users[o.ID] {
			e.fill(o)
			if e.data == nil && !e.tooLarge {
				e.data = []byte{}
			}
			e.unread = false
			portion = append(portion, e)
		}
		if bytes += len(o.Data); bytes >= portionBytes {
			flush()
		}
		return nil
	})
	flush()
	if err != nil {
		return err
	}
	return ps.peek(batch)
}

// mayBeRelay tells quickly of most files that they are no relays, whatever
// their front matter is: the words of a relay are not in them.
func mayBeRelay(data []byte) bool {
	return slices.ContainsFunc([]string{envelope.RelaySuffix, "attested_", "nonce", `\`}, func(word string) bool { return bytes.Contains(data, []byte(word)) })
}

// parse judges the bytes of an entry. It is pure, so that entries are parsed
// in parallel.
func (e *entry) parse(c *commit, j *Judge) {
	p := c.policy
	if c.surveyed && e.data != nil && !mayBeRelay(e.data) {
		e.data = nil
		return
	}
	if e.mode == gitrepo.ModeGitlink || e.mode == gitrepo.ModeSymlink {
		_, e.findings = envelope.Parse(nil, envelope.Options{Path: e.path, Mode: uint32(e.mode)})
	} else if e.tooLarge {
		e.findings = []finding.Finding{{Rule: envelope.RuleParse, Severity: finding.Error, Line: 1, Col: 1,
			Message: fmt.Sprintf("the file has %d bytes, at most %d are allowed", e.size, p.MaxFile)}}
	} else {
		o := envelope.Options{Limits: p.EnvelopeLimits(), Path: e.path, Mode: uint32(e.mode), Screen: !c.surveyed}
		if e.env, e.findings = envelope.Parse(e.data, o); e.env != nil && j.Read != nil {
			j.Read(e.blob, o, e.env)
		}
	}
	if e.env == nil && e.mode.IsFile() && e.data != nil && !p.Refuses(envelope.RuleParse) {
		// Who lets it pass though it is too large must not let a relay pass unread.
		var more []finding.Finding
		if e.env, more = envelope.Parse(e.data, envelope.Options{Limits: p.AcceptedLimits(), Path: e.path, Mode: uint32(e.mode), Screen: e.tooLarge}); e.env != nil {
			e.findings = append(e.findings, more...)
		}
	}
	if e.env != nil {
		e.findings = append(e.findings, relay.CheckContent(e.env, p.RelayTypes...)...)
		if j.Extra != nil {
			e.findings = append(e.findings, j.Extra(e.env)...)
		}
		finding.Sort(envelope.Hide(e.findings, e.env.Secrets))
		e.env.Body = nil // its hash is known
	}
	for i := range e.findings {
		e.findings[i].Path = e.path
	}
	e.data = nil
}

// lookup returns the entry of a path in the commit's own tree or the index.
func (ps *pass) lookup(c *commit, path string) (gitrepo.TreeEntry, bool, error) {
	if c.obj == nil {
		if c.index == nil {
			return gitrepo.TreeEntry{}, false, nil
		}
		e, ok := c.index.Lookup(path)
		return gitrepo.TreeEntry{Name: e.Path, Mode: e.Mode, ID: e.ID}, ok, nil
	}
	return ps.Repo.EntryAt(c.obj.Tree, path)
}

// names returns the names in a directory of a tree.
func (j *Judge) names(root, dir string) ([]string, error) {
	t, err := j.dir(root, dir)
	if t == nil || err != nil {
		return nil, err
	}
	names := make([]string, t.Len())
	for i := range names {
		names[i] = t.Name(i)
	}
	return names, nil
}

// dir returns a directory of a tree, nil if there is none of that name.
func (j *Judge) dir(root, dir string) (*gitrepo.Tree, error) {
	id := root
	if dir != "" {
		e, ok, err := j.Repo.EntryAt(root, dir)
		if err != nil || !ok || e.Mode != gitrepo.ModeTree {
			return nil, err
		}
		id = e.ID
	}
	return j.Repo.Tree(id)
}
