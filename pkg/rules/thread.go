package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// A fact is what later commits need to know of an envelope.
type fact struct {
	path   string
	blob   oid
	hash   oid    // of the body; zero if it is not an envelope
	reply  oid    // in_reply_to
	from   string // shared by all facts of one sender
	commit int32  // that brought it, in the walk; below zero if it was there before the range
	more   *details

	relay   bool
	valid   bool // parsed, and satisfies the schema
	freezes bool // is a relay that freezes its thread
}

// details are what few envelopes have.
type details struct {
	bounds   []int32 // of what was there before, the bounds that have it
	brought  string  // the commit that did so, if it was asked for
	refs     []string
	attested time.Time // attested_at of a relay that freezes
}

// id is the blob's, of so many digits.
func (f *fact) id(digits int) string { return hex.EncodeToString(f.blob[:digits/2]) }

func (f *fact) refs() []string {
	if f.more == nil {
		return nil
	}
	return f.more.refs
}

// A thread is what is known of one thread directory: what was in it before the
// range, and what the commits of the range have brought so far. Whether a
// given commit has a fact's file is to be looked up.
type thread struct {
	is     bool // some commit has an accepted envelope here
	facts  []*fact
	closed []*fact // those of facts that close the thread
	// names holds every path that was seen in this directory or in one that
	// could be taken for it.
	names []string
	// byHash and byFold find facts by body hash and names by folded path, by the
	// begin of a hash of it. They are nil as long as looking at all is cheaper.
	byHash *chains
	byFold *chains
	seen   map[string]bool // names, once many of them fold to one
	// tilde says that a name holds one; shorts has the names, once one that may
	// be a short name is asked for.
	tilde  bool
	shorts *portable.Shorts

	older *older // of a long thread: what was there before, which is then neither in facts nor in closed nor in names
}

// smallThread is up to how many facts or names all are looked at.
const smallThread = 16

func (t *thread) put(f *fact) {
	t.facts = append(t.facts, f)
	if len(t.facts) <= smallThread {
		return
	}
	if t.byHash == nil {
		t.byHash = newChains()
		for _, f := range t.facts[:smallThread] {
			t.byHash.add(f.hash.begin())
		}
	}
	t.byHash.add(f.hash.begin())
}

// withHash yields the facts with a body hash, in their order.
func (t *thread) withHash(hash oid) iter.Seq[*fact] {
	return func(yield func(*fact) bool) {
		switch {
		case hash == oid{}:
		case t.byHash == nil:
			for _, f := range t.facts {
				if f.hash == hash && !yield(f) {
					return
				}
			}
		default:
			for i := range t.byHash.of(hash.begin()) {
				if f := t.facts[i]; f.hash == hash && !yield(f) {
					return
				}
			}
		}
	}
}

// all yields all facts, those from before the range first.
func (t *thread) all() iter.Seq2[*fact, error] {
	return func(yield func(*fact, error) bool) {
		if t.older != nil {
			for f, err := range t.older.all() {
				if !yield(f, err) {
					return
				}
			}
		}
		t.own(yield)
	}
}

// those yields the facts of some kinds from before the range, and then all others that
// are not only looked up.
func (t *thread) those(kinds history.Kind) iter.Seq2[*fact, error] {
	return func(yield func(*fact, error) bool) {
		if t.older != nil {
			for f, err := range t.older.of(kinds) {
				if !yield(f, err) {
					return
				}
			}
		}
		t.own(yield)
	}
}

func (t *thread) own(yield func(*fact, error) bool) {
	for _, f := range t.facts {
		if !yield(f, nil) {
			return
		}
	}
}

// put makes an accepted envelope known to its thread, with what it says.
func (ps *pass) put(t *thread, f *fact, s said) {
	t.is = true
	if !s.parsed {
		t.put(f)
		return
	}
	if ps.senders == nil {
		ps.senders = map[string]string{}
	}
	from, known := ps.senders[s.from]
	if !known {
		from = strings.Clone(s.from)
		ps.senders[from] = from
	}
	f.from, f.hash, f.reply = from, s.hash, s.reply
	f.valid, f.relay, f.freezes = s.valid, s.relay, s.freezes
	if f.freezes {
		f.detail().attested = s.attested
	}
	if len(s.refs) > 0 {
		f.detail().refs = s.refs
	}
	if s.closes {
		t.closed = append(t.closed, f)
	}
	t.put(f)
}

func (f *fact) detail() *details {
	if f.more == nil {
		f.more = &details{}
	}
	return f.more
}

// thread returns what is known of a thread directory, reading what was there
// before the range when it is first asked for.
func (ps *pass) thread(p *policy.Policy, name string) (*thread, error) {
	dir := p.Under(name)
	if t := ps.threads[dir]; t != nil {
		return t, nil
	}
	t := &thread{}
	trees, err := ps.treesBefore(dir)
	if err != nil {
		return nil, err
	}
	if ps.looksUp(p, trees) {
		if err := ps.lookUpBefore(p, t, dir, trees); err != nil {
			return nil, err
		}
		if err := ps.noteMistaken(p, t, dir); err != nil {
			return nil, err
		}
		ps.threads[dir] = t
		return t, nil
	}
	was := files{at: map[string]map[string][]int32{}}
	for _, tree := range trees {
		for e := range tree.Entries() {
			t.note(dir + "/" + e.Name)
			was.put(p, tree, dir, e)
		}
	}
	if err := ps.noteMistaken(p, t, dir); err != nil {
		return nil, err
	}
	if err := ps.putBefore(p, was, func(f *fact, s said) { ps.put(t, f, s) }); err != nil {
		return nil, err
	}
	ps.threads[dir] = t
	return t, nil
}

// files are those that the bounds have at envelopes' paths of one thread.
type files struct {
	ids []string                      // of blobs, each once
	at  map[string]map[string][]int32 // by blob and path, the bounds that have it
}

// An oldTree is a directory as some bounds have it.
type oldTree struct {
	*gitrepo.Tree
	bounds []int32
}

// treesBefore returns a directory as it is just outside the range, each of its
// forms once.
func (ps *pass) treesBefore(dir string) (trees []oldTree, err error) {
	for i, b := range ps.walk.bounds {
		tree, err := ps.dir(b.tree, dir)
		if err != nil {
			return nil, err
		}
		if tree == nil {
			continue
		}
		n := slices.IndexFunc(trees, func(t oldTree) bool { return t.ID == tree.ID })
		if n < 0 {
			n, trees = len(trees), append(trees, oldTree{Tree: tree})
		}
		trees[n].bounds = append(trees[n].bounds, int32(i))
	}
	return trees, nil
}

// put adds an entry of a tree, if an envelope may lie there.
func (f *files) put(p *policy.Policy, t oldTree, dir string, e gitrepo.TreeEntry) {
	path := dir + "/" + e.Name
	if !e.Mode.IsFile() || !p.Candidate(path) {
		return
	}
	if f.at[e.ID] == nil {
		f.ids = append(f.ids, e.ID)
		f.at[e.ID] = map[string][]int32{}
	}
	f.at[e.ID][path] = append(f.at[e.ID][path], t.bounds...)
}

// noteMistaken makes the names known to the thread that lie in other directories
// which a file system could take for its own.
func (ps *pass) noteMistaken(p *policy.Policy, t *thread, dir string) error {
	if err := ps.oddDirectories(p); err != nil {
		return err
	}
	for _, d := range ps.oddDirs[portable.Fold(dir)] {
		if d == dir {
			continue
		}
		for _, b := range ps.walk.bounds {
			names, err := ps.names(b.tree, d)
			if err != nil {
				return err
			}
			for _, n := range names {
				t.note(d + "/" + n)
			}
		}
	}
	return nil
}

// putBefore reads files from before the range, and puts the envelopes among them, in
// the order of the files.
func (ps *pass) putBefore(p *policy.Policy, was files, put func(*fact, said)) error {
	return ps.sayings(p, was.ids, func(id string, s said) {
		for _, path := range sortedKeys(was.at[id]) {
			put(&fact{path: path, blob: oidOf(id), commit: -1, more: &details{bounds: was.at[id][path]}}, s)
		}
	})
}

// sayings reads blobs as far as they are not remembered, and tells fn what those say
// that begin with a fence: in their order, those over the policy's limit last.
func (ps *pass) sayings(p *policy.Policy, ids []string, fn func(id string, s said)) error {
	kept, unread := ps.Memory.recall(p, ids)
	next := 0
	upTo := func(id string) { // tells what is remembered and stands before a blob
		for ; next < len(ids) && ids[next] != id; next++ {
			if s, ok := kept[ids[next]]; ok {
				fn(ids[next], s)
			}
		}
	}
	var objs []gitrepo.Object
	bytes := 0
	flush := func() {
		says := make([]said, len(objs))
		Parallel(len(objs), func(i int) { says[i] = sayingOf(p.ParseAccepted(objs[i].Data)) })
		for i, o := range objs {
			upTo(o.ID)
			fn(o.ID, says[i])
		}
		ps.Memory.keep(p, objs, says)
		objs, bytes = objs[:0], 0
	}
	var large []string
	err := ps.Repo.Objects(unread, p.MaxFile, func(o gitrepo.Object) error {
		switch {
		case errors.Is(o.Err, gitrepo.ErrTooLarge):
			large = append(large, o.ID)
			return nil
		case o.Err != nil:
			return o.Err
		}
		if envelope.HasFence(o.Data) {
			objs = append(objs, o)
		}
		if bytes += len(o.Data); bytes >= portionBytes || len(objs) >= maxParsed {
			flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	flush()
	upTo("")
	return ps.large(p, large, func(id string, head []byte, env *envelope.Envelope, whole bool) {
		if envelope.HasFence(head) {
			s := sayingOf(env)
			if s.large = history.Large; !whole {
				s.large |= history.Huge
			}
			fn(id, s)
		}
	})
}

// note makes a path known to the thread.
func (t *thread) note(path string) {
	fold := portable.Fold(path)
	if t.seen == nil && t.byFold != nil && t.byFold.many(hashFold(fold), smallThread) {
		t.seen = make(map[string]bool, len(t.names))
		for _, name := range t.names {
			t.seen[name] = true
		}
	}
	if t.seen != nil {
		if t.seen[path] {
			return
		}
		t.seen[path] = true
	} else {
		for other := range t.noted(fold) {
			if other == path {
				return
			}
		}
	}
	t.names = append(t.names, path)
	if t.tilde = t.tilde || strings.IndexByte(path, '~') >= 0; t.shorts != nil {
		t.shorts.Add(path[strings.LastIndexByte(path, '/')+1:])
	}
	if len(t.names) <= smallThread {
		return
	}
	if t.byFold == nil {
		t.byFold = newChains()
		for _, name := range t.names[:smallThread] {
			t.byFold.add(hashFold(portable.Fold(name)))
		}
	}
	t.byFold.add(hashFold(fold))
}

// folded yields the names whose folded path is fold.
func (t *thread) folded(fold string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if t.older != nil {
			for _, name := range t.older.folded(t, fold) {
				if !yield(name) {
					return
				}
			}
		}
		t.noted(fold)(yield)
	}
}

// noted is folded of what note was called for.
func (t *thread) noted(fold string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if t.byFold == nil {
			for _, name := range t.names {
				if portable.Fold(name) == fold && !yield(name) {
					return
				}
			}
			return
		}
		for i := range t.byFold.of(hashFold(fold)) {
			if name := t.names[i]; portable.Fold(name) == fold && !yield(name) {
				return
			}
		}
	}
}

func hashFold(fold string) uint64 {
	sum := sha256.Sum256([]byte(fold))
	return binary.LittleEndian.Uint64(sum[:])
}

// belowFolded cuts the policy's root off a folded path; ok reports whether a file
// system could take the path for an envelope's.
func belowFolded(p *policy.Policy, fold string) (rest string, ok bool) {
	rest = fold
	if p.Root != "" {
		if rest, ok = strings.CutPrefix(fold, portable.Fold(p.Root)+"/"); !ok {
			return "", false
		}
	}
	return rest, envelope.IsEnvelopePath(rest)
}

// oddDirectories finds, once, the directories that a file system could take for
// one of another name beside or above the threads, by their folded paths.
func (ps *pass) oddDirectories(p *policy.Policy) error {
	if ps.oddDirs != nil {
		return nil
	}
	ps.oddDirs, ps.oddSeen, ps.oddNames = map[string][]string{}, map[string]bool{}, portable.Shorts{}
	for _, b := range ps.walk.bounds {
		roots, err := ps.roots(b.tree, p.Root)
		if err != nil {
			return err
		}
		for _, root := range roots {
			t, err := ps.dir(b.tree, root)
			if err != nil {
				return err
			}
			if t == nil {
				continue
			}
			for i := range t.Len() {
				raw := t.RawName(i)
				ordinary := root == p.Root && bytes.IndexByte(raw, '~') < 0
				if ordinary && portable.Plain(raw) {
					continue // as almost all of many
				}
				if name := string(raw); !ordinary || portable.Fold(name) != name {
					ps.oddDirectory(p, root, name)
				}
			}
		}
	}
	return nil
}

// oddDirectory makes such a directory known.
func (ps *pass) oddDirectory(p *policy.Policy, root, name string) {
	dir := path.Join(root, name)
	fold := portable.Fold(dir)
	if ps.oddSeen[dir] {
		return
	}
	ps.oddSeen[dir] = true
	ps.oddDirs[fold] = append(ps.oddDirs[fold], dir)
	if root == p.Root {
		ps.oddNames.Add(name)
	}
}

// roots returns the directories of a tree that a file system could take for
// the policy's root, itself among them.
func (j *Judge) roots(tree, root string) ([]string, error) {
	dirs := []string{""}
	if root == "" {
		return dirs, nil
	}
	for part := range strings.SplitSeq(root, "/") {
		var next []string
		for _, dir := range dirs {
			t, err := j.dir(tree, dir)
			if err != nil {
				return nil, err
			}
			if t == nil {
				continue
			}
			for e := range t.Entries() {
				if e.Mode == gitrepo.ModeTree && portable.Fold(e.Name) == portable.Fold(part) {
					next = append(next, path.Join(dir, e.Name))
				}
			}
		}
		dirs = next
	}
	return dirs, nil
}

// remember makes a commit's envelopes known to the commits that follow.
func (ps *pass) remember(c *commit) error {
	for _, e := range c.entries {
		t, err := ps.thread(c.policy, e.thread)
		if err != nil {
			return err
		}
		if e.fenced && e.mode.IsFile() {
			ps.put(t, &fact{path: e.path, blob: oidOf(e.blob), commit: c.n}, sayingOf(e.env))
		}
		e.env = nil
	}
	return nil
}

// present reports whether a tree holds the fact's file, with its content.
func (j *Judge) present(f *fact, tree string) (bool, error) {
	e, ok, err := j.Repo.EntryAt(tree, f.path)
	return ok && oidOf(e.ID) == f.blob, err
}

// before reports whether the fact's envelope came in the history of c, without c
// itself.
func (ps *pass) before(c *commit, f *fact) bool {
	switch {
	case c.obj == nil:
		return f.commit < 0
	case f.commit >= 0:
		return ps.walk.ancestor(f.commit, c.n)
	}
	return slices.ContainsFunc(ps.walk.sets[ps.walk.below[c.n]], func(b int32) bool { return slices.Contains(f.more.bounds, b) })
}

// twin returns a path of c's tree that a file system could take for the path,
// "" if there is none. t is the thread that both lie in, after folding.
func (ps *pass) twin(c *commit, t *thread, p string) (string, error) {
	for other := range t.folded(portable.Fold(p)) {
		if other == p {
			continue
		}
		if ok, err := ps.exists(c, other); err != nil || ok {
			return other, err
		}
	}
	if !t.tilde {
		return "", nil
	}
	if t.shorts == nil {
		t.older.noteAll(t)
		t.shorts = &portable.Shorts{}
		for _, name := range t.names {
			t.shorts.Add(path.Base(name))
		}
	}
	dir, name := path.Split(p)
	for other := range t.shorts.Twins(name) {
		other = dir + other
		if ok, err := ps.exists(c, other); err != nil || ok && other != p {
			return other, err
		}
	}
	return "", nil
}

// exists reports whether c's tree has something at a path, also a directory.
func (ps *pass) exists(c *commit, p string) (bool, error) {
	if _, ok, err := ps.lookup(c, p); ok || err != nil || c.obj != nil {
		return ok, err
	}
	return c.index != nil && c.index.HasDir(p), nil
}
