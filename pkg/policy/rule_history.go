package policy

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

func cutSlash(path string) (dir, rest string, ok bool) { return strings.Cut(path, "/") }

// fastForward judges that a protected ref only moves forward and gains no
// second root.
func (j *Judge) fastForward(ctx context.Context, r Range) error {
	add := func(commit, message, hint string) {
		j.add(r.Policy, finding.Finding{Rule: "fast-forward", Severity: finding.Error, Ref: r.Ref, Commit: commit, Message: message, Hint: hint})
	}
	if r.Old != "" && r.Old != r.New {
		_, forward := j.walk.find(r.Old)
		if !forward && slices.ContainsFunc(r.Exclude, func(id string) bool { return id != r.Old }) {
			// What lies between may be excluded, too, or the old commit itself.
			var err error
			if forward, err = j.Repo.IsAncestor(ctx, r.Old, r.New); err != nil {
				return err
			}
		}
		if !forward {
			lost, err := j.lost(r)
			if err != nil {
				return err
			}
			add(r.New, "a protected ref moves from "+short(r.Old)+" to a commit that does not contain it"+lost, "git fetch, then git rebase onto the ref's new tip, then push without --force")
		}
	}
	roots := 0
	for n := range int32(j.walk.len()) {
		if len(j.walk.parents(n)) > 0 {
			continue
		}
		if roots++; roots > 1 || !r.First {
			add(j.walk.id(n), "a root commit: its history begins anew beside the protected one", "git rebase --root --onto "+ontoOf(r))
		}
	}
	return nil
}

// ontoOf names the commit that a side history is to be put on.
func ontoOf(r Range) string {
	if r.Old != "" {
		return short(r.Old)
	}
	if len(r.Exclude) > 0 {
		return short(r.Exclude[0])
	}
	return "the first root"
}

// lost names the envelopes that a ref would no longer have.
func (j *Judge) lost(r Range) (string, error) {
	old, err := j.Repo.Commit(r.Old)
	if err != nil {
		return "", err
	}
	after, err := j.Repo.Commit(r.New)
	if err != nil {
		return "", err
	}
	changes, err := j.Repo.DiffTrees(old.Tree, after.Tree)
	if err != nil {
		return "", err
	}
	n, first := 0, ""
	for _, ch := range changes {
		if ch.Deleted() && r.Policy.Candidate(ch.Path) {
			if n++; n == 1 {
				first = ch.Path
			}
		}
	}
	switch n {
	case 0:
		return "", nil
	case 1:
		return "; it would lose " + finding.Quote(first), nil
	}
	return fmt.Sprintf("; it would lose %d files in threads, the first %s", n, finding.Quote(first)), nil
}

// appendOnly judges each change against each parent: an accepted envelope that
// a parent has stays as it is. In the index, what counts is what is published:
// until then an envelope may be rewritten.
func (j *Judge) appendOnly(ctx context.Context, r Range, c *commit) error {
	told := map[string]bool{}
	for _, d := range c.diffs {
		if err := ctx.Err(); err != nil {
			return err
		}
		var moved map[string]string // paths that are added, by blob; nil: not asked yet
		for _, ch := range d.Changes {
			if ch.Added() || told[ch.Path] {
				continue
			}
			hint := "write a new envelope instead; to take the change back: git rebase --interactive " + short(d.Parent)
			if c.obj == nil {
				source, err := j.publishedIn(c, ch)
				if err != nil {
					return err
				}
				if source == "" {
					continue
				}
				hint = "write a new envelope instead; to take the change back: git restore --source=" + short(source) + " --staged --worktree -- " + finding.Word(ch.Path)
			} else if was, err := j.replaces(c.policy, ch); err != nil {
				return err
			} else if !was {
				continue
			}
			if len(c.diffs) > 1 {
				told[ch.Path] = true
			}
			if ch.Deleted() && moved == nil {
				moved = additions(d.Changes)
			}
			j.add(c.policy, finding.Finding{
				Rule: "append-only", Severity: finding.Error, Path: ch.Path, Commit: c.id, Ref: r.Ref,
				Message: "an accepted envelope is " + how(ch, moved[ch.OldID]), Hint: hint,
			})
		}
	}
	return nil
}

// publishedIn returns a published commit that has an accepted envelope at the
// path, with another content or mode than the index, "" if none does.
func (j *Judge) publishedIn(c *commit, ch gitrepo.Change) (string, error) {
	if !c.policy.Candidate(ch.Path) {
		return "", nil
	}
	for i, tree := range c.published {
		e, ok, err := j.Repo.EntryAt(tree, ch.Path)
		if err != nil {
			return "", err
		}
		if !ok || e.ID == ch.NewID && e.Mode == ch.NewMode {
			continue
		}
		if was, err := j.accepted(c.policy, ch.Path, e.Mode, e.ID); err != nil || was {
			return c.publishedIDs[i], err
		}
	}
	return "", nil
}

// additions returns the first path that is added of each blob.
func additions(changes []gitrepo.Change) map[string]string {
	paths := map[string]string{}
	for _, ch := range changes {
		if _, known := paths[ch.NewID]; ch.Added() && !known {
			paths[ch.NewID] = ch.Path
		}
	}
	return paths
}

// how says in words what happens to a path; moved is where its content went.
func how(ch gitrepo.Change, moved string) string {
	switch {
	case ch.Deleted() && moved != "":
		return "moved to " + finding.Quote(moved)
	case ch.Deleted():
		return "deleted"
	case ch.NewMode == gitrepo.ModeSymlink && ch.OldMode != ch.NewMode:
		return "replaced by a symbolic link"
	case ch.NewMode == gitrepo.ModeGitlink && ch.OldMode != ch.NewMode:
		return "replaced by a submodule"
	case ch.OldID == ch.NewID:
		return fmt.Sprintf("changed in mode from %s to %s", ch.OldMode, ch.NewMode)
	}
	return "changed in place"
}

// threadClosed warns of a turn after RESOLUTION.
func (j *Judge) threadClosed(_ context.Context, r Range, c *commit) error {
	for _, e := range c.entries {
		if !e.added || e.env == nil {
			continue
		}
		by, err := j.closedBy(c, e)
		if err != nil {
			return err
		}
		if by == nil {
			continue
		}
		line, col := e.env.Place("type")
		j.add(c.policy, finding.Finding{
			Rule: "thread-closed", Severity: finding.Warning, Path: e.path, Line: line, Col: col, Commit: c.id, Ref: r.Ref,
			Message: "the thread was closed by " + finding.Quote(by.path), Hint: "open a new thread: rig-bridge new THREAD",
		})
	}
	return nil
}

// closedBy returns what closed the thread of an entry in the history of its
// commit, the first that has another path; nil if nothing did.
func (j *Judge) closedBy(c *commit, e *entry) (*fact, error) {
	if f, asked := c.closed[e.thread]; asked && (f == nil || f.path != e.path) {
		return f, nil
	}
	t, err := j.thread(c.policy, e.thread)
	if err != nil {
		return nil, err
	}
	var first *fact
	for _, f := range t.closed {
		if c.obj != nil && f.commit == c.n {
			break // its own come last
		}
		if f.path != e.path && j.before(c, f) {
			first = f
			break
		}
	}
	if c.closed == nil {
		c.closed = map[string]*fact{}
	}
	if _, asked := c.closed[e.thread]; !asked && (first != nil || !slices.ContainsFunc(t.closed, func(f *fact) bool { return f.path == e.path })) {
		c.closed[e.thread] = first
	}
	return first, nil
}

// maxPairs is how many divergences of one merge are named one by one, maxCompared
// how many pairs of envelopes, with what they refer to, are looked at for them.
// maxBases is of how many merges of a range it is said since when: git takes a
// process for each, and long where histories cross often.
const (
	maxPairs    = 20
	maxCompared = 1 << 17
	maxBases    = 50
)

// divergence names, at a merge, the envelopes of one thread that were written
// on two sides without knowledge of each other.
func (j *Judge) divergence(ctx context.Context, r Range, c *commit) error {
	if len(c.diffs) < 2 {
		return nil
	}
	news, err := j.newToSides(ctx, c)
	if err != nil {
		return err
	}
	d := diverged{told: map[[2]int]sides{}}
	pairs, base := 0, ""
	for _, name := range sortedKeys(news) {
		for theirs, ours := range d.pairs(news[name]) {
			if err := ctx.Err(); err != nil {
				return err
			}
			d.compared += len(theirs.refs()) + len(ours.refs())
			if knew, err := j.knew(theirs.fact, ours.fact); err != nil {
				return err
			} else if knew {
				continue
			}
			if pairs++; pairs > maxPairs {
				continue
			}
			if base == "" && j.bases < maxBases {
				j.bases++
				at := d.apart(theirs, ours)
				if base, err = j.since(ctx, c.parents[at.has], c.parents[at.lacks]); err != nil {
					return err
				}
			}
			j.add(c.policy, finding.Finding{
				Rule: "divergence", Severity: finding.Warning, Path: theirs.path, Commit: c.id, Ref: r.Ref,
				Message: fmt.Sprintf("%s wrote this and %s wrote %s without knowledge of each other%s",
					finding.QuoteMax(theirs.from, 60), finding.QuoteMax(ours.from, 60), finding.Quote(ours.path), base),
				Hint: "answer both: rig-bridge send with --ref for each",
			})
		}
	}
	rest := ""
	if pairs > maxPairs {
		rest = fmt.Sprintf("%d more pairs of envelopes were written without knowledge of each other", pairs-maxPairs)
	}
	if d.compared > maxCompared {
		rest = cmp.Or(rest, "envelopes were written on both sides") + "; there are too many to compare all"
	}
	if rest != "" {
		j.add(c.policy, finding.Finding{Rule: "divergence", Severity: finding.Warning, Commit: c.id, Ref: r.Ref, Message: rest})
	}
	return nil
}

// since says from where on two sides went apart.
func (j *Judge) since(ctx context.Context, a, b string) (string, error) {
	ids, err := j.Repo.MergeBases(ctx, a, b)
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return ", since no common commit", nil
	}
	return ", since commit " + short(ids[0]), nil
}

// A newFact is an envelope that a merge has and some of its parents lack.
type newFact struct {
	*fact
	lacks []int32 // these parents, sorted
	group int     // the same for all with the same parents
}

// newToSides returns, by thread, the envelopes that a merge takes from some of
// its parents, in the order in which the parents that lack them show them.
func (j *Judge) newToSides(ctx context.Context, c *commit) (map[string][]*newFact, error) {
	brought := map[string]bool{}
	for _, ch := range c.brought {
		brought[ch.Path] = true
	}
	type file struct {
		path string
		blob oid
	}
	news := map[string][]*newFact{}
	found := map[file]*newFact{}         // nil: not an envelope that can be read
	facts := map[string]map[file]*fact{} // of threads of which much is new
	for i, d := range c.diffs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, ch := range d.Changes {
			if !ch.Added() || brought[ch.Path] || !c.policy.Candidate(ch.Path) {
				continue
			}
			at := file{ch.Path, oidOf(ch.NewID)}
			n, known := found[at]
			if !known {
				name := c.policy.threadOf(ch.Path)
				t, err := j.thread(c.policy, name)
				if err != nil {
					return nil, err
				}
				if facts[name] == nil && len(d.Changes) > smallThread {
					facts[name] = make(map[file]*fact, len(t.facts))
					for _, f := range slices.Backward(t.facts) {
						facts[name][file{f.path, f.blob}] = f
					}
				}
				f := facts[name][at]
				if facts[name] == nil {
					if k := slices.IndexFunc(t.facts, func(f *fact) bool { return f.path == at.path && f.blob == at.blob }); k >= 0 {
						f = t.facts[k]
					}
				}
				if f != nil {
					n = &newFact{fact: f}
					news[name] = append(news[name], n)
				}
				found[at] = n
			}
			if n != nil {
				n.lacks = append(n.lacks, int32(i))
			}
		}
	}
	groups := map[string]int{}
	for _, list := range news {
		for _, n := range list {
			key := fmt.Sprint(n.lacks)
			if _, known := groups[key]; !known {
				groups[key] = len(groups)
			}
			n.group = groups[key]
		}
	}
	return news, nil
}

// A diverged finds pairs of envelopes of which neither side knew the other.
type diverged struct {
	compared int
	told     map[[2]int]sides // by groups
}

// sides are two parents of a merge: one has an envelope that the other lacks,
// and lacks one that the other has. Without them, has is lacks.
type sides struct{ lacks, has int32 }

// pairs yields the envelopes of a thread that came apart: some parent has the
// one and lacks the other, and some parent has the other and lacks the one. So
// what one side of an octopus knew of another is not named because a third
// lacks both. Of each pair that one comes first that the earlier parent lacks.
func (d *diverged) pairs(news []*newFact) iter.Seq2[*newFact, *newFact] {
	return func(yield func(theirs, ours *newFact) bool) {
		for i, a := range news {
			for _, b := range news[i+1:] {
				if d.compared > maxCompared {
					return
				}
				d.compared++
				if a.fact == b.fact {
					continue
				}
				at := d.apart(a, b)
				switch {
				case at.lacks == at.has:
					continue
				case at.lacks < at.has:
					if !yield(a, b) {
						return
					}
				case !yield(b, a):
					return
				}
			}
		}
	}
}

// apart returns the first parent that lacks a and has b, and the first that
// has a and lacks b.
func (d *diverged) apart(a, b *newFact) sides {
	if a.group == b.group {
		return sides{}
	}
	key := [2]int{a.group, b.group}
	at, known := d.told[key]
	if !known {
		d.compared += (len(a.lacks) + len(b.lacks)) / 8
		lacks, okA := firstWithout(a.lacks, b.lacks)
		has, okB := firstWithout(b.lacks, a.lacks)
		if okA && okB {
			at = sides{lacks, has}
		}
		d.told[key] = at
	}
	return at
}

// firstWithout returns the first of a that is not in b; both are sorted.
func firstWithout(a, b []int32) (int32, bool) {
	for _, v := range a {
		for len(b) > 0 && b[0] < v {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != v {
			return v, true
		}
	}
	return 0, false
}

// knew tells whether one of two envelopes shows that it knew the other: by
// in_reply_to, or by a reference to a commit that holds it.
func (j *Judge) knew(a, b *fact) (bool, error) {
	if a.hash != (oid{}) && b.reply == a.hash || b.hash != (oid{}) && a.reply == b.hash {
		return true, nil
	}
	for _, p := range [][2]*fact{{a, b}, {b, a}} {
		for _, ref := range p[0].refs() {
			tree, known := j.holds[ref]
			if !known {
				var err error
				if tree, err = j.treeOf(ref); err != nil {
					return false, err
				}
				j.holds[ref] = tree
			}
			if tree == "" {
				continue
			}
			if ok, err := j.present(p[1], tree); ok || err != nil {
				return ok, err
			}
		}
	}
	return false, nil
}

// treeOf returns the tree of the commit that an abbreviated id names; "" if it
// is unknown or ambiguous.
func (j *Judge) treeOf(prefix string) (string, error) {
	ids, err := j.commitsOf(prefix)
	if err != nil || len(ids) != 1 {
		return "", err
	}
	c, err := j.Repo.Commit(ids[0])
	if err != nil {
		return "", err
	}
	return c.Tree, nil
}

func (j *Judge) commitsOf(prefix string) ([]string, error) {
	ids, err := j.Repo.ResolvePrefix(prefix)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	types, err := j.Repo.Has(ids)
	if err != nil {
		return nil, err
	}
	var commits []string
	for i, id := range ids {
		if types[i] == "commit" {
			commits = append(commits, id)
		}
	}
	return commits, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
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
