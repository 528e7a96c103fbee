package rules

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// An older is what lies in a long thread before the range. It is not read as a whole:
// what is kept of the thread says which files a rule has to read, and these are read
// as all of a short thread are, in the same order.
type older struct {
	*pass
	p     *policy.Policy
	dir   string
	trees []oldTree
	kept  *history.Thread

	lists map[listed]files   // of those that were asked for
	facts map[string][]*fact // by blob, of what was read
	at    map[string][]spot  // by blob in binary, once many were asked for
	scans int

	odd    [][]int // by tree, the entries with a name that needs folding
	asked  int     // how often names were looked for
	inNote bool    // all names were noted
}

// listed is what files are asked for by: the hash of a body, or kinds.
type listed struct {
	hash  oid
	kinds history.Kind
}

// A spot is an entry of one of the trees.
type spot struct{ tree, entry int }

const (
	longThread = 64   // from how many entries on a thread is long
	maxScans   = 16   // how often trees are gone through for a few names or blobs, then all are put in a map
	learnt     = 8192 // files after which what was read of a thread is kept, should time be up
)

// looksUp reports whether what lies in a thread before the range is to be looked up.
func (ps *pass) looksUp(p *policy.Policy, trees []oldTree) bool {
	n := 0
	for _, t := range trees {
		n += t.Len()
	}
	return ps.Turns != nil && ps.OfTheTime == nil && p == ps.rng.Policy && n >= cmp.Or(ps.long, longThread)
}

// lookUpBefore prepares that what lies in a thread before the range is looked up.
func (ps *pass) lookUpBefore(p *policy.Policy, t *thread, dir string, trees []oldTree) error {
	o := &older{pass: ps, p: p, dir: dir, trees: trees, kept: ps.Turns.Thread(dir), lists: map[listed]files{}, facts: map[string][]*fact{}}
	if err := o.learn(); err != nil {
		return err
	}
	for _, tree := range trees {
		_, some := o.kept.Covers(tree.ID)
		t.is = t.is || some
		var odd []int
		for i := range tree.Len() {
			if name := tree.RawName(i); !simple(name) {
				odd = append(odd, i)
				t.tilde = t.tilde || bytes.IndexByte(name, '~') >= 0
			}
		}
		o.odd = append(o.odd, odd)
	}
	t.older = o
	return nil
}

// learn reads what is not known yet of the trees, and keeps it.
func (o *older) learn() error {
	var missing []oldTree
	entries := 0
	for _, t := range o.trees {
		entries += t.Len()
		if known, _ := o.kept.Covers(t.ID); !known {
			missing = append(missing, t)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	all, ok := o.kept.All()
	if !ok {
		return o.learn() // it has forgotten everything
	}
	known := make(map[oid]history.Kind, len(all))
	for _, turn := range all {
		known[turn.Blob] = turn.Kind
	}
	was := files{at: map[string]map[string][]int32{}}
	for _, t := range missing {
		for e := range t.Entries() {
			was.put(o.p, t, o.dir, e)
		}
	}
	unread := slices.DeleteFunc(slices.Clone(was.ids), func(id string) bool { _, is := known[oidOf(id)]; return is })
	for part := range slices.Chunk(unread, learnt) {
		turns, err := o.turns(o.p, part)
		if err != nil {
			return err
		}
		for _, turn := range turns {
			known[turn.Blob] = turn.Kind
		}
		o.kept.Add(turns)
		_ = o.Turns.Save() // what is not kept is read again
	}
	for _, t := range missing {
		some := false
		for i := 0; i < t.Len() && !some; i++ {
			e := t.Entry(i)
			some = e.Mode.IsFile() && o.p.Candidate(o.dir+"/"+e.Name) && known[oidOf(e.ID)]&history.Fenced != 0
		}
		o.kept.Cover(t.ID, some)
	}
	if o.kept.Len() > 2*entries+learnt { // of what came and went
		o.prune()
	}
	_ = o.Turns.Save()
	return nil
}

// Learn reads what lies in the long threads of commits, once, so that no push has to.
func (j *Judge) Learn(p *policy.Policy, commits []string) error {
	ps := j.newPass(Range{Policy: p})
	for _, id := range commits {
		ps.walk.addBound(id)
	}
	names := map[string]bool{}
	for i, id := range ps.walk.boundIDs() {
		c, err := j.Repo.Commit(id)
		if err != nil {
			return err
		}
		ps.walk.bounds[i].tree = c.Tree
		top, err := ps.dir(c.Tree, p.Root)
		if err != nil {
			return err
		}
		if top == nil {
			continue
		}
		for e := range top.Entries() {
			if e.Mode == gitrepo.ModeTree && p.Candidate(p.Under(e.Name)+"/x.md") {
				names[e.Name] = true
			}
		}
	}
	for _, name := range sortedKeys(names) {
		trees, err := ps.treesBefore(p.Under(name))
		if err != nil {
			return err
		}
		if !ps.looksUp(p, trees) {
			continue
		}
		if err := ps.lookUpBefore(p, &thread{}, p.Under(name), trees); err != nil {
			return err
		}
		j.Turns.Close()
	}
	return nil
}

// prune lets go of what no tree before the range has.
func (o *older) prune() {
	live := map[oid]bool{}
	var trees []string
	for _, t := range o.trees {
		trees = append(trees, t.ID)
		for i := range t.Len() {
			var id oid
			copy(id[:], t.RawID(i))
			live[id] = true
		}
	}
	if !o.kept.Keep(func(blob [32]byte) bool { return live[blob] }, trees) {
		_ = o.learn()
	}
}

// turns reads what is kept of blobs; of those that are no envelopes that they are none.
func (ps *pass) turns(p *policy.Policy, ids []string) ([]history.Turn, error) {
	says := make(map[string]said, len(ids))
	if err := ps.sayings(p, ids, func(id string, s said) { says[id] = s }); err != nil {
		return nil, err
	}
	turns := make([]history.Turn, len(ids))
	for i, id := range ids {
		turns[i].Blob = oidOf(id)
		if s, fenced := says[id]; fenced {
			turns[i].Hash, turns[i].Kind = s.hash, s.kind()
		}
	}
	return turns, nil
}

// kind is what is kept of what an envelope says.
func (s said) kind() history.Kind {
	kind := history.Fenced | s.large
	if s.closes {
		kind |= history.Closes
	}
	if s.freezes {
		kind |= history.Freezes
	}
	if s.valid && s.relay {
		kind |= history.Relay
	}
	return kind
}

// withHash yields the facts with a body hash, which is not zero.
func (o *older) withHash(hash oid) iter.Seq2[*fact, error] { return o.those(listed{hash: hash}) }

// of yields the facts of some kinds.
func (o *older) of(kinds history.Kind) iter.Seq2[*fact, error] { return o.those(listed{kinds: kinds}) }

// those yields the facts of a list, in the order in which putBefore puts them. More of
// them are read the longer somebody asks.
func (o *older) those(l listed) iter.Seq2[*fact, error] {
	return func(yield func(*fact, error) bool) {
		was, known := o.lists[l]
		if !known {
			turns, err := o.ask(l)
			if err != nil {
				yield(nil, err)
				return
			}
			was = o.find(turns)
			o.lists[l] = was
		}
		o.inTurn(was)(yield)
	}
}

// ask asks what is kept. If that turns out to be damaged it is made anew, and asked
// again.
func (o *older) ask(l listed) (turns []history.Turn, err error) {
	for range 2 {
		ok := false
		if l.kinds != 0 {
			turns, ok = o.kept.Of(l.kinds)
		} else {
			turns, ok = o.kept.WithHash(l.hash)
		}
		if ok {
			break
		}
		if err := o.learn(); err != nil {
			return nil, err
		}
	}
	return turns, nil
}

// all yields all facts, in the order of the trees.
func (o *older) all() iter.Seq2[*fact, error] {
	return func(yield func(*fact, error) bool) {
		n := fewFiles
		for _, t := range o.trees {
			for from := 0; from < t.Len(); {
				was := files{at: map[string]map[string][]int32{}}
				to := min(from+n, t.Len())
				for ; from < to; from++ {
					was.put(o.p, t, o.dir, t.Entry(from))
				}
				n = min(4*n, maxParsed)
				for f, err := range o.inTurn(was) {
					if !yield(f, err) {
						return
					}
				}
			}
		}
	}
}

// inTurn reads files, few at first, and yields their facts.
func (o *older) inTurn(was files) iter.Seq2[*fact, error] {
	return func(yield func(*fact, error) bool) {
		for n := fewFiles; len(was.ids) > 0; n = min(4*n, maxParsed) {
			part := files{ids: was.ids[:min(n, len(was.ids))], at: was.at}
			was.ids = was.ids[len(part.ids):]
			if err := o.read(part); err != nil {
				yield(nil, err)
				return
			}
			for _, id := range part.ids {
				for _, f := range o.facts[id] {
					if !yield(f, nil) {
						return
					}
				}
			}
		}
	}
}

// fewFiles is how many files are read at first.
const fewFiles = 4

// read reads files that were not read yet.
func (o *older) read(was files) error {
	unread := files{ids: slices.DeleteFunc(slices.Clone(was.ids), func(id string) bool { return o.facts[id] != nil }), at: was.at}
	t := &thread{}
	return o.putBefore(o.p, unread, func(f *fact, s said) {
		o.put(t, f, s)
		id := f.id(o.walk.digits)
		o.facts[id] = append(o.facts[id], f)
	})
}

// find finds where files lie in the trees before the range, those over the policy's
// limit last.
func (o *older) find(turns []history.Turn) files {
	was := files{at: map[string]map[string][]int32{}}
	n := o.idLen()
	kinds := make(map[string]history.Kind, len(turns))
	for _, turn := range turns {
		if turn.Kind&history.Fenced != 0 {
			kinds[string(turn.Blob[:n])] = turn.Kind
		}
	}
	var spots []spot
	if o.scans++; o.scans <= maxScans {
		for k, t := range o.trees {
			for i := range t.Len() {
				if _, is := kinds[string(t.RawID(i))]; is {
					spots = append(spots, spot{k, i})
				}
			}
		}
	} else {
		o.locate()
		for id := range kinds {
			spots = append(spots, o.at[id]...)
		}
		slices.SortFunc(spots, func(a, b spot) int {
			if a.tree != b.tree {
				return a.tree - b.tree
			}
			return a.entry - b.entry
		})
	}
	for _, s := range spots {
		was.put(o.p, o.trees[s.tree], o.dir, o.trees[s.tree].Entry(s.entry))
	}
	size := func(id string) int {
		raw := oidOf(id)
		return int(kinds[string(raw[:n])] & (history.Large | history.Huge))
	}
	slices.SortStableFunc(was.ids, func(a, b string) int { return size(a) - size(b) })
	return was
}

// locate puts all entries of the trees in a map, once.
func (o *older) locate() {
	if o.at != nil {
		return
	}
	o.at = map[string][]spot{}
	for k, t := range o.trees {
		for i := range t.Len() {
			id := string(t.RawID(i))
			o.at[id] = append(o.at[id], spot{k, i})
		}
	}
}

func (o *older) idLen() int { return o.walk.digits / 2 }

// versions returns the facts that are about contents at paths; of others there is none.
func (o *older) versions(all []version) (map[version]*fact, error) {
	wanted := make(map[string]bool, len(all))
	var turns []history.Turn
	for _, v := range all {
		if id := string(v.blob[:]); !wanted[id] {
			wanted[id] = true
			turns = append(turns, history.Turn{Blob: v.blob, Kind: history.Fenced})
		}
	}
	was := o.find(turns)
	if err := o.read(was); err != nil {
		return nil, err
	}
	found := map[version]*fact{}
	for _, id := range was.ids {
		for _, f := range o.facts[id] {
			found[version{f.path, f.blob}] = f
		}
	}
	return found, nil
}

// folded returns the names whose folded path is fold, in the order of the trees.
func (o *older) folded(t *thread, fold string) (names []string) {
	if o.inNote {
		return nil
	}
	if o.asked++; o.asked > maxScans {
		o.noteAll(t)
		return nil
	}
	rest, ok := strings.CutPrefix(fold, portable.Fold(o.dir)+"/")
	if !ok {
		return nil
	}
	for k, tree := range o.trees {
		var found []int
		for i := range tree.Len() {
			if name := tree.RawName(i); len(name) == len(rest) && equalLower(name, rest) && simple(name) {
				found = append(found, i)
			}
		}
		for _, i := range o.odd[k] {
			if portable.Fold(o.dir+"/"+tree.Name(i)) == fold {
				found = append(found, i)
			}
		}
		slices.Sort(found)
		for _, i := range found {
			names = append(names, o.dir+"/"+tree.Name(i))
		}
	}
	return names
}

// noteAll makes all names known to the thread, before those that it knows.
func (o *older) noteAll(t *thread) {
	if o == nil || o.inNote {
		return
	}
	o.inNote = true
	later := t.names
	t.names, t.byFold, t.seen = nil, nil, nil
	for _, tree := range o.trees {
		for i := range tree.Len() {
			t.note(o.dir + "/" + tree.Name(i))
		}
	}
	for _, name := range later {
		t.note(name)
	}
}

// simple reports whether folding a name only makes its letters small.
func simple(name []byte) bool {
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return len(name) > 0 && name[len(name)-1] != '.'
}

// equalLower reports whether the letters of name made small are lower.
func equalLower(name []byte, lower string) bool {
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// noteTurns notes what the range has brought to long threads, for Keep. Where much came
// it is left to the next one.
func (ps *pass) noteTurns() error {
	if ps.Turns == nil || ps.OfTheTime != nil || ps.walk.len() == 0 {
		return nil
	}
	for _, dir := range sortedKeys(ps.threads) {
		t := ps.threads[dir]
		if t.older == nil || len(t.facts) == 0 || len(t.facts) > maxParsed {
			continue
		}
		tip, err := ps.Repo.Commit(ps.rng.New)
		if err != nil {
			return err
		}
		tree, ok, err := ps.Repo.EntryAt(tip.Tree, dir)
		if err != nil {
			return err
		}
		some := false
		var ids []string
		for _, f := range t.facts {
			if !some {
				if some, err = ps.present(f, tip.Tree); err != nil {
					return err
				}
			}
			ids = append(ids, f.id(ps.walk.digits))
		}
		if !ok || tree.Mode != gitrepo.ModeTree || !some {
			continue
		}
		slices.Sort(ids)
		turns, err := ps.turns(t.older.p, slices.Compact(ids))
		if err != nil {
			return err
		}
		ps.noted = append(ps.noted, func() {
			for _, old := range t.older.trees {
				if known, _ := t.older.kept.Covers(old.ID); !known {
					return
				}
			}
			t.older.kept.Add(turns)
			t.older.kept.Cover(tree.ID, true)
		})
	}
	return nil
}

// Keep keeps of long threads what the ranges have brought that were judged, if they are
// accepted. What cannot be written is read again.
func (j *Judge) Keep() {
	for _, keep := range j.noted {
		keep()
	}
	j.noted = nil
	_ = j.Turns.Save()
}
