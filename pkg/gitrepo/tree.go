package gitrepo

import (
	"bytes"
	"container/list"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"math/bits"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
)

// Mode is the mode of a tree entry, as git writes it in octal digits.
type Mode uint32

// The modes that a tree may hold. ModeGroupWritable is git's oldest form of a
// file; it is kept apart so that rules can refuse it.
const (
	ModeNone          Mode = 0
	ModeTree          Mode = 0o040000
	ModeFile          Mode = 0o100644
	ModeGroupWritable Mode = 0o100664
	ModeExecutable    Mode = 0o100755
	ModeSymlink       Mode = 0o120000
	ModeGitlink       Mode = 0o160000
)

// String is the mode in six octal digits, as git prints it.
func (m Mode) String() string { return fmt.Sprintf("%06o", uint32(m)) }

// IsFile reports whether m is that of a regular file.
func (m Mode) IsFile() bool {
	return m == ModeFile || m == ModeExecutable || m == ModeGroupWritable
}

// A TreeEntry is one name in a tree.
type TreeEntry struct {
	Name string // raw bytes, without any "/"
	Mode Mode
	ID   ID
}

// A Tree is one directory, parsed. It does not change.
type Tree struct {
	ID    ID
	raw   []byte   // as stored; where there is a base, the entries that it has not
	offs  []uint32 // where each entry of raw begins, and at last the end
	hash  int      // bytes of an id
	form  parsedFrom
	other *overlay // nil: raw is all
}

// parsedFrom remembers which tree a Tree was parsed against, and how many
// entries at the begin and the end the two share.
type parsedFrom struct {
	base     ID
	pre, suf int
}

// A MalformedTreeError says that a tree breaks the form of trees. git reads
// some such trees in a forgiving way and other programs in other ways, so what
// it holds can't be judged.
type MalformedTreeError struct {
	Tree   ID
	Entry  string // raw mode and name, as far as they could be told apart; may be ""
	Reason string // one phrase
}

// Error names the tree, the entry and the reason.
func (e *MalformedTreeError) Error() string {
	if e.Entry == "" {
		return "tree " + e.Tree + " is malformed: " + e.Reason
	}
	return "tree " + e.Tree + " is malformed: entry " + finding.QuoteMax(e.Entry, 100) + " " + e.Reason
}

// ParseTree parses the bytes of the tree id. Stricter than git, it accepts
// nothing but modes written as 40000, 100644, 100664, 100755, 120000 and
// 160000; names that are not empty, ".", ".." or ".git" in any form that a
// file system of HFS+ or NTFS kind takes for it, without "/"; whole ids that
// are not all zeros; and git's order without a name occurring twice, also not
// as a file and a directory. Everything else is a *MalformedTreeError.
func ParseTree(id ID, raw []byte) (*Tree, error) {
	return parseTree(id, raw, nil)
}

// parseTree parses a tree; with a base, only what differs from it is looked
// at, which gives the same result.
func parseTree(id ID, raw []byte, base *Tree) (*Tree, error) {
	t := &Tree{ID: id, raw: raw, hash: len(id) / 2}
	if len(raw) > MaxTree {
		return nil, &MalformedTreeError{Tree: id, Reason: fmt.Sprintf("it has %d bytes, at most %d are read", len(raw), MaxTree)}
	}
	pos, stop, suffix := 0, len(raw), []uint32(nil)
	if base != nil && base.hash == t.hash && base.ID != "" && base.other == nil {
		pre, suf := base.common(raw)
		t.form = parsedFrom{base.ID, pre, suf}
		pos = int(base.offs[pre])
		suffix = base.offs[base.Len()-suf : base.Len()]
		stop = len(raw) - (len(base.raw) - int(base.offs[base.Len()-suf]))
		t.offs = make([]uint32, pre, base.Len()+16)
		copy(t.offs, base.offs[:pre])
	} else {
		t.offs = make([]uint32, 0, len(raw)/(t.hash+16)+2)
	}
	first := len(t.offs)
	for pos < stop {
		next, err := t.checkEntry(pos)
		if err != nil {
			return nil, err
		}
		t.offs = append(t.offs, uint32(pos))
		pos = next
	}
	if pos != stop {
		// The bytes that both trees end with begin within an entry here.
		return parseTree(id, raw, nil)
	}
	last := len(t.offs)
	if delta := uint32(len(raw)) - uint32(baseLen(base)); suffix != nil {
		for _, o := range suffix {
			t.offs = append(t.offs, o+delta)
		}
	}
	t.offs = append(t.offs, uint32(len(raw)))
	// Order and names that occur twice; the seams to what is shared included.
	for i := max(first, 1); i < t.Len() && i <= last; i++ {
		switch c := t.compare(i-1, i); {
		case c == 0:
			return nil, t.bad(i, "occurs twice")
		case c > 0:
			return nil, t.bad(i, "is not in its place in git's order")
		}
	}
	for i := first; i < last; i++ {
		mode, name := t.modeName(i)
		if t.twin(name, mode, i) {
			return nil, t.bad(i, "occurs as a file and as a directory")
		}
	}
	return t, nil
}

func baseLen(t *Tree) int {
	if t == nil {
		return 0
	}
	return len(t.raw)
}

// common returns how many whole entries at the begin of t are also at the
// begin of raw, and how many of the others at the end of both.
func (t *Tree) common(raw []byte) (pre, suf int) {
	limit := min(len(t.raw), len(raw))
	head := commonPrefix(t.raw[:limit], raw[:limit])
	// The last entry that begins within the prefix may differ.
	pre = sort.Search(len(t.offs), func(i int) bool { return int(t.offs[i]) > head }) - 1
	limit -= int(t.offs[pre])
	tail := commonSuffix(t.raw[len(t.raw)-limit:], raw[len(raw)-limit:])
	start := sort.Search(len(t.offs), func(i int) bool { return int(t.offs[i]) >= len(t.raw)-tail })
	return pre, t.Len() - start
}

const stride = 1 << 10

func commonPrefix(a, b []byte) int {
	n := 0
	for len(a)-n >= stride && bytes.Equal(a[n:n+stride], b[n:n+stride]) {
		n += stride
	}
	for len(a)-n >= 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix(a, b []byte) int {
	n, end := 0, len(a)
	for end-n >= stride && bytes.Equal(a[end-n-stride:end-n], b[end-n-stride:end-n]) {
		n += stride
	}
	for end-n >= 8 {
		if x := binary.BigEndian.Uint64(a[end-n-8:]) ^ binary.BigEndian.Uint64(b[end-n-8:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < end && a[end-n-1] == b[end-n-1] {
		n++
	}
	return n
}

// checkEntry checks the entry at pos by itself and returns where it ends.
func (t *Tree) checkEntry(pos int) (next int, err error) {
	rest := t.raw[pos:]
	bad := func(entry []byte, reason string) (int, error) {
		return 0, &MalformedTreeError{Tree: t.ID, Entry: string(entry), Reason: reason}
	}
	nul := bytes.IndexByte(rest, 0)
	if nul < 0 {
		return bad(rest[:min(len(rest), 100)], "does not end")
	}
	entry := rest[:nul]
	space := bytes.IndexByte(entry, ' ')
	if space < 0 {
		return bad(entry, "has no mode")
	}
	if parseMode(entry[:space]) == ModeNone {
		return bad(entry, "has a mode other than 40000, 100644, 100755, 120000 and 160000")
	}
	if reason := badName(entry[space+1:]); reason != "" {
		return bad(entry, reason)
	}
	next = nul + 1 + t.hash
	if next > len(rest) {
		return bad(entry, "has an id that is cut off")
	}
	if allZero(rest[nul+1 : next]) {
		return bad(entry, "has an id of zeros")
	}
	return pos + next, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// parseMode knows the only spellings of the modes of a tree; ModeNone for any
// other.
func parseMode(digits []byte) Mode {
	switch string(digits) {
	case "100644":
		return ModeFile
	case "40000":
		return ModeTree
	case "100755":
		return ModeExecutable
	case "120000":
		return ModeSymlink
	case "160000":
		return ModeGitlink
	case "100664":
		return ModeGroupWritable
	}
	return ModeNone
}

// badName says why git takes no file of this name, "" if it does: what git
// fsck calls emptyName, hasDot, hasDotdot, hasDotgit and fullPathname.
func badName(name []byte) string {
	if len(name) == 0 {
		return "has an empty name"
	}
	if bytes.IndexByte(name, '/') >= 0 {
		return `has a "/" in its name`
	}
	c := name[0]
	if c != '.' && c|0x20 != 'g' && c < utf8.RuneSelf && bytes.IndexByte(name, '\\') < 0 {
		return ""
	}
	switch string(name) {
	case ".", "..":
		return "has the name of a directory itself or its parent"
	}
	if portable.DotGit(string(name)) {
		return "has a name that some file systems take for .git"
	}
	return ""
}

// Len is the number of entries.
func (t *Tree) Len() int {
	if t.other != nil {
		return t.other.count
	}
	return len(t.offs) - 1
}

// entry returns entry i as it is stored.
func (t *Tree) entry(i int) []byte {
	if o := t.other; o != nil {
		r, from := o.run(i)
		if r.shared {
			t = o.base
		}
		i = from
	}
	return t.raw[t.offs[i]:t.offs[i+1]]
}

// Entry returns entry i, counted from 0.
func (t *Tree) Entry(i int) TreeEntry {
	mode, name := t.modeName(i)
	return TreeEntry{Name: string(name), Mode: mode, ID: hex.EncodeToString(t.rawID(i))}
}

// Entries yields all entries in git's order.
func (t *Tree) Entries() iter.Seq[TreeEntry] {
	return func(yield func(TreeEntry) bool) {
		for i := range t.Len() {
			if !yield(t.Entry(i)) {
				return
			}
		}
	}
}

// Name returns the name of entry i, counted from 0.
func (t *Tree) Name(i int) string { return string(t.RawName(i)) }

// RawName is Name without a copy: its bytes are not to be changed.
func (t *Tree) RawName(i int) []byte {
	_, name := t.modeName(i)
	return name
}

// Lookup finds the entry of a name.
func (t *Tree) Lookup(name string) (TreeEntry, bool) {
	for _, dir := range []bool{false, true} {
		i := t.search([]byte(name), dir)
		if i < t.Len() {
			if mode, n := t.modeName(i); string(n) == name && (mode == ModeTree) == dir {
				return t.Entry(i), true
			}
		}
	}
	return TreeEntry{}, false
}

// With returns the object of a tree with one entry more; an entry of that name is
// replaced. The entry must be one that a tree may have.
func (t *Tree) With(e TreeEntry) []byte {
	id, _ := hex.DecodeString(e.ID)
	at := t.search([]byte(e.Name), e.Mode == ModeTree)
	out := make([]byte, 0, t.stored()+len(e.Name)+len(id)+8)
	for i := range t.Len() + 1 {
		if i == at {
			out = append(append(append(out, strconv.FormatUint(uint64(e.Mode), 8)+" "+e.Name...), 0), id...)
		}
		if i == t.Len() {
			break
		}
		if _, name := t.modeName(i); string(name) != e.Name {
			out = append(out, t.entry(i)...)
		}
	}
	return out
}

// modeName returns mode and name of entry i of what has been checked.
func (t *Tree) modeName(i int) (Mode, []byte) {
	entry := t.entry(i)
	entry = entry[:len(entry)-t.hash-1]
	n := 6
	if entry[0] == '4' {
		n = 5
	}
	return parseMode(entry[:n]), entry[n+1:]
}

// RawID is the id of entry i in binary, without a copy: its bytes are not to be changed.
func (t *Tree) RawID(i int) []byte { return t.rawID(i) }

func (t *Tree) rawID(i int) []byte {
	entry := t.entry(i)
	return entry[len(entry)-t.hash:]
}

// compare orders entries i and j as git does: a directory as if its name ended
// in "/". It is 0 only for the same name and kind.
func (t *Tree) compare(i, j int) int {
	mi, ni := t.modeName(i)
	mj, nj := t.modeName(j)
	return compareNames(ni, mi == ModeTree, nj, mj == ModeTree)
}

func compareNames(a []byte, aDir bool, b []byte, bDir bool) int {
	n := min(len(a), len(b))
	if c := bytes.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return int(following(a, n, aDir)) - int(following(b, n, bDir))
}

// following is the byte after the first n of a name in git's order.
func following(name []byte, n int, dir bool) byte {
	switch {
	case n < len(name):
		return name[n]
	case dir:
		return '/'
	}
	return 0
}

// search returns the first entry that does not sort before the name.
func (t *Tree) search(name []byte, dir bool) int {
	return sort.Search(t.Len(), func(i int) bool {
		mode, n := t.modeName(i)
		return compareNames(n, mode == ModeTree, name, dir) >= 0
	})
}

// twin reports whether the name of entry i, which has this mode, also occurs as
// the other kind: directory for anything else, anything else for a directory.
func (t *Tree) twin(name []byte, mode Mode, i int) bool {
	// Between a file and a directory of one name are only names that begin
	// with it.
	neighbour := i + 1
	if mode == ModeTree {
		neighbour = i - 1
	}
	if neighbour < 0 || neighbour >= t.Len() {
		return false
	}
	if _, n := t.modeName(neighbour); !bytes.HasPrefix(n, name) {
		return false
	}
	j := t.search(name, mode != ModeTree)
	if j >= t.Len() {
		return false
	}
	m, n := t.modeName(j)
	return bytes.Equal(n, name) && (m == ModeTree) != (mode == ModeTree)
}

func (t *Tree) bad(i int, reason string) error {
	entry := t.entry(i)
	return &MalformedTreeError{Tree: t.ID, Entry: string(entry[:len(entry)-t.hash-1]), Reason: reason}
}

// stored is how many bytes the object has.
func (t *Tree) stored() int {
	if t.other != nil {
		return t.other.bytes
	}
	return len(t.raw)
}

// holder returns the tree that holds the entries which t shares with others: t itself
// where it has no base.
func (t *Tree) holder() *Tree {
	if t.other != nil {
		return t.other.base
	}
	return t
}

// weighed counts the bytes that trees hold in memory, what they share once.
type weighed struct {
	bytes   int
	holders map[*byte]int // by the first byte of raw, how many trees share it
}

func (w *weighed) add(t *Tree) {
	w.bytes += t.own()
	if w.holders == nil {
		w.holders = map[*byte]int{}
	}
	h := t.holder()
	if w.holders[h.first()]++; w.holders[h.first()] == 1 {
		w.bytes += h.shared()
	}
}

// drop takes out what add has counted.
func (w *weighed) drop(t *Tree) {
	w.bytes -= t.own()
	h := t.holder()
	if w.holders[h.first()]--; w.holders[h.first()] == 0 {
		delete(w.holders, h.first())
		w.bytes -= h.shared()
	}
}

// first tells a whole tree from others, and has it in common with a copy under another id.
func (t *Tree) first() *byte {
	if len(t.raw) == 0 {
		return nil
	}
	return &t.raw[0]
}

// own is about how many bytes t alone holds, and shared those of a whole tree that
// others may share.
func (t *Tree) own() int {
	if t.other == nil {
		return 256
	}
	return len(t.raw) + 4*cap(t.offs) + 32*len(t.other.runs) + 256
}

func (t *Tree) shared() int { return cap(t.raw) + 4*cap(t.offs) }

// Tree reads and parses one tree of at most MaxTree bytes. Errors are those of
// Object, ErrType and *MalformedTreeError.
func (r *Repo) Tree(id ID) (*Tree, error) {
	trees, err := r.readTrees([]wantTree{{id: id}}, nil)
	if err != nil {
		return nil, err
	}
	return trees[id], nil
}

// EntryAt finds the entry of a path, with "/" between names, below the tree
// root. ok is false if there is none. "" is the root itself.
func (r *Repo) EntryAt(root ID, path string) (entry TreeEntry, ok bool, err error) {
	entry = TreeEntry{Mode: ModeTree, ID: root}
	if path == "" {
		return entry, true, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if entry.Mode != ModeTree {
			return TreeEntry{}, false, nil
		}
		t, err := r.Tree(entry.ID)
		if err != nil {
			return TreeEntry{}, false, err
		}
		if entry, ok = t.Lookup(name); !ok {
			return TreeEntry{}, false, nil
		}
	}
	return entry, true, nil
}

// A wantTree is a tree to be read, and the tree that it is probably like.
type wantTree struct {
	id, like ID
}

// treeSizes looks up the trees that are not in the cache.
func (r *Repo) treeSizes(want []wantTree) (map[ID]header, error) {
	sizes := make(map[ID]header, len(want))
	var absent []ID
	for _, w := range want {
		if _, asked := sizes[w.id]; asked {
			continue
		}
		if err := r.checkID(w.id); err != nil {
			return nil, err
		}
		h := header{id: w.id, typ: "tree"}
		if t := r.trees.get(w.id); t != nil {
			h.size = int64(t.stored())
		} else if w.id != r.EmptyTree() {
			absent = append(absent, w.id)
		}
		sizes[w.id] = h
	}
	if len(absent) == 0 {
		return sizes, nil
	}
	heads, err := r.treeHeaders(absent)
	if err != nil {
		return nil, err
	}
	for i, h := range heads {
		switch {
		case h.id == "":
			return nil, missing(absent[i])
		case h.typ != "tree":
			return nil, wrongType(absent[i], h.typ, "tree")
		case h.size > MaxTree:
			return nil, tooLarge(h, MaxTree)
		}
		sizes[absent[i]] = h
	}
	return sizes, nil
}

// readTrees returns trees, of which treeSizes gave the sizes; nil: not asked yet.
func (r *Repo) readTrees(want []wantTree, sizes map[ID]header) (map[ID]*Tree, error) {
	if sizes == nil {
		var err error
		if sizes, err = r.treeSizes(want); err != nil {
			return nil, err
		}
	}
	trees := make(map[ID]*Tree, len(want))
	var absent []wantTree
	for _, w := range want {
		if _, ok := trees[w.id]; ok {
			continue
		}
		t := r.trees.get(w.id)
		if t == nil && w.id == r.EmptyTree() {
			t = &Tree{ID: w.id, offs: []uint32{0}, hash: len(w.id) / 2}
		}
		trees[w.id] = t
		if t == nil {
			absent = append(absent, w)
		}
	}
	if len(absent) == 0 {
		return trees, nil
	}
	ids, heads := make([]ID, len(absent)), make([]header, len(absent))
	for i, w := range absent {
		ids[i], heads[i] = w.id, sizes[w.id]
	}
	var bad error
	err := r.treeContents(heads, func(i int, t *Tree, data []byte) {
		if bad != nil {
			return
		}
		if t == nil {
			base := trees[absent[i].like]
			if base == nil && absent[i].like != "" {
				base = r.trees.get(absent[i].like)
			}
			if t, bad = parseTree(ids[i], data, base); bad != nil {
				return
			}
		}
		trees[ids[i]] = t
		r.trees.put(t)
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, err
	}
	return trees, nil
}

// treeCacheBytes and treeCacheCount bound the trees that a Repo keeps: small ones are many
// objects for a collector of garbage.
const (
	treeCacheBytes = 16 << 20
	treeCacheCount = maxBatch // as many as are asked for at once
)

// A treeCache keeps the trees that were used last.
type treeCache struct {
	mu    sync.Mutex
	byID  map[ID]*list.Element
	order list.List // of *Tree, the last used first
	held  weighed
}

func (c *treeCache) get(id ID) *Tree {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byID[id]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*Tree)
}

func (c *treeCache) put(t *Tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = make(map[ID]*list.Element)
	}
	if c.byID[t.ID] != nil {
		return
	}
	c.byID[t.ID] = c.order.PushFront(t)
	c.held.add(t)
	for (c.held.bytes > treeCacheBytes || c.order.Len() > treeCacheCount) && c.order.Len() > 1 {
		e := c.order.Back()
		old := c.order.Remove(e).(*Tree)
		delete(c.byID, old.ID)
		c.held.drop(old)
	}
}
