package history

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/files"
)

// A Turn is what is kept of a file of a thread: enough to know which ones a rule
// has to read. Ids and hashes are in binary; what follows a SHA-1 id is zero.
type Turn struct {
	Hash [32]byte // of the body; zero if it has none that counts
	Blob [32]byte
	Kind Kind
}

// A Kind says what a file may be asked for besides its hash.
type Kind byte

// Kinds.
const (
	Fenced  Kind = 1 << iota // it begins with a fence, as accepted envelopes do
	Closes                   // it closes its thread
	Freezes                  // it freezes its thread
	Relay                    // it is a relay that satisfies the schema
	Large                    // it has more bytes than the policy allows
	Huge                     // and is so large that only its front matter is read
)

// Turns keep what the messages of long threads say, so that a push reads those of them
// that a rule asks for and not all. Like the nonce index they are derived, lie in the
// repository's own directory, and can be deleted at any time; a file that is torn, of
// another version, scope or object format is as good as none. They only say where to
// look: what a rule finds is read in the objects. The zero value keeps nothing.
type Turns struct {
	Dir    string // "" for nowhere
	Format string // of object ids, "sha1" or "sha256"
	// Scope names what the answers depend on besides content: which paths are
	// envelopes', and how much of a file is read.
	Scope string
	// Recent is up to how many new records are written anew with each Save, before they
	// become part of the sorted ones; 0 stands for 1024. No answer depends on it.
	Recent int

	threads map[string]*Thread
}

// A Thread is what is kept of one thread's directory.
type Thread struct {
	of      *Turns
	file    string
	head    turnsHead
	recent  []Turn
	base    *os.File
	changed bool
}

// turnsHead is what names the pages of base and the trees that are covered.
type turnsHead struct {
	pages   [][16]byte // digests
	counts  [3]int     // of records: all by hash, then those that close or freeze, then those of other kinds
	covered []coveredTree
}

// A coveredTree is a directory of which all envelopes are known.
type coveredTree struct {
	id    [32]byte
	turns bool // it has some
}

const (
	// The number is another one whenever what envelope.Parse makes of a file is
	// another; a test of package rules holds that it is.
	turnsMagic = "rigward turns 1\n"
	pageSize   = 16 << 10
	maxTrees   = 64   // covered ones, the latest are kept
	maxNew     = 1024 // see Turns.Recent
)

// Thread returns what is kept of the thread of a directory.
func (x *Turns) Thread(dir string) *Thread {
	if t := x.threads[dir]; t != nil {
		return t
	}
	sum := sha256.Sum256([]byte(dir))
	t := &Thread{of: x}
	if x.Dir != "" {
		t.file = filepath.Join(x.Dir, "threads", hex.EncodeToString(sum[:16]))
		for range 3 { // another process may write a new one, and remove the base of the old
			if t.load() {
				break
			}
		}
	}
	if x.threads == nil {
		x.threads = map[string]*Thread{}
	}
	x.threads[dir] = t
	return t
}

// Use sets Scope. What was read under another one is let go of.
func (x *Turns) Use(scope string) {
	if x.Scope != scope {
		x.Close()
		x.Scope = scope
	}
}

// Close closes the files, and lets go of what was not saved.
func (x *Turns) Close() {
	if x == nil {
		return
	}
	for _, t := range x.threads {
		t.forget()
	}
	x.threads = nil
}

func (x *Turns) idLen() int {
	if x.Format == "sha256" {
		return 32
	}
	return 20
}

func (x *Turns) recordLen() int { return 32 + x.idLen() + 1 }

// forget lets go of everything.
func (t *Thread) forget() {
	if t.base != nil {
		t.base.Close()
	}
	t.head, t.recent, t.base, t.changed = turnsHead{}, nil, nil, false
}

// Len is how many records there are; one file may have several.
func (t *Thread) Len() int { return t.head.counts[0] + len(t.recent) }

// Covers reports whether all envelopes of a directory's tree are known, and whether
// there are any.
func (t *Thread) Covers(tree string) (known, some bool) {
	id := rawID(tree)
	for _, c := range t.head.covered {
		if c.id == id {
			return true, c.turns
		}
	}
	return false, false
}

// Cover notes that all envelopes of a directory's tree are known.
func (t *Thread) Cover(tree string, some bool) {
	if known, _ := t.Covers(tree); known {
		return
	}
	t.head.covered = append(t.head.covered, coveredTree{rawID(tree), some})
	if over := len(t.head.covered) - maxTrees; over > 0 {
		t.head.covered = slices.Clone(t.head.covered[over:])
	}
	t.changed = true
}

func rawID(id string) (raw [32]byte) {
	_, _ = hex.Decode(raw[:], []byte(id))
	return raw
}

// Add makes files known.
func (t *Thread) Add(turns []Turn) {
	t.recent = append(t.recent, turns...)
	t.changed = t.changed || len(turns) > 0
}

// All returns all that is known, in no order. If ok is false the files are damaged:
// everything is forgotten, and to be derived again.
func (t *Thread) All() (all []Turn, ok bool) {
	all = make([]Turn, 0, t.Len())
	ok = t.records(0, t.head.counts[0], func(r Turn) bool {
		all = append(all, r)
		return true
	})
	return append(all, t.recent...), ok
}

// WithHash returns the files with a body hash. ok is that of All.
func (t *Thread) WithHash(hash [32]byte) (found []Turn, ok bool) {
	from, to := 0, t.head.counts[0]
	for from < to {
		mid := (from + to) / 2
		if !t.records(mid, mid+1, func(r Turn) bool {
			if bytes.Compare(r.Hash[:], hash[:]) < 0 {
				from = mid + 1
			} else {
				to = mid
			}
			return false
		}) {
			return nil, false
		}
	}
	ok = t.records(from, t.head.counts[0], func(r Turn) bool {
		if r.Hash == hash {
			found = append(found, r)
		}
		return r.Hash == hash
	})
	for _, r := range t.recent {
		if r.Hash == hash {
			found = append(found, r)
		}
	}
	return found, ok
}

// Of returns the files that have one of the kinds. ok is that of All.
func (t *Thread) Of(kinds Kind) (found []Turn, ok bool) {
	add := func(r Turn) bool {
		if r.Kind&kinds != 0 {
			found = append(found, r)
		}
		return true
	}
	from := t.head.counts[0]
	to := from + t.head.counts[1]
	if kinds&Relay != 0 {
		to += t.head.counts[2]
	}
	ok = t.records(from, to, add)
	for _, r := range t.recent {
		add(r)
	}
	return found, ok
}

// records calls fn for records of base until that is false; what is not as it was
// written makes it false, and everything forgotten.
func (t *Thread) records(from, to int, fn func(Turn) bool) (ok bool) {
	n := t.of.recordLen()
	var page []byte
	at := -1
	for i := from; i < to; i++ {
		// A page has whole records only.
		if p := i / (pageSize / n); p != at {
			if page = t.page(p); page == nil {
				t.forget()
				return false
			}
			at = p
		}
		rec := page[i%(pageSize/n)*n:]
		if len(rec) < n {
			t.forget()
			return false
		}
		if !fn(t.of.decode(rec)) {
			return true
		}
	}
	return true
}

// page reads a page of base; nil if it is not the one that was written.
func (t *Thread) page(p int) []byte {
	if t.base == nil || p >= len(t.head.pages) {
		return nil
	}
	n := t.of.recordLen()
	size := pageSize / n * n
	page := make([]byte, size)
	got, err := t.base.ReadAt(page, int64(p)*int64(size))
	if err != nil && err != io.EOF {
		return nil
	}
	page = page[:got]
	if sum := sha256.Sum256(page); !bytes.Equal(sum[:16], t.head.pages[p][:]) {
		return nil
	}
	return page
}

func (x *Turns) decode(b []byte) (r Turn) {
	n := x.idLen()
	copy(r.Hash[:], b[:32])
	copy(r.Blob[:], b[32:32+n])
	r.Kind = Kind(b[32+n])
	return r
}

func (x *Turns) encode(b []byte, r Turn) []byte {
	b = append(append(b, r.Hash[:]...), r.Blob[:x.idLen()]...)
	return append(b, byte(r.Kind))
}

// Keep drops the files of which live is false, and the trees that are not named.
func (t *Thread) Keep(live func(blob [32]byte) bool, trees []string) (ok bool) {
	all, ok := t.All()
	if !ok {
		return false
	}
	var ids [][32]byte
	for _, id := range trees {
		ids = append(ids, rawID(id))
	}
	covered := slices.DeleteFunc(slices.Clone(t.head.covered), func(c coveredTree) bool { return !slices.Contains(ids, c.id) })
	t.forget()
	t.recent = slices.DeleteFunc(all, func(r Turn) bool { return !live(r.Blob) })
	t.head.covered, t.changed = covered, true
	return true
}

// Save writes what has become known of all threads. An error costs time only.
func (x *Turns) Save() error {
	if x == nil || x.Dir == "" {
		return nil
	}
	for _, t := range x.threads {
		if err := t.save(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Thread) save() error {
	if !t.changed || t.file == "" {
		return nil
	}
	dir := filepath.Dir(t.file)
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return err
	}
	files.Share(filepath.Dir(dir))
	if err := files.KeepDir(dir); err != nil {
		return err
	}
	merges := len(t.recent) > cmp.Or(t.of.Recent, maxNew)
	if !merges {
		return t.put()
	}
	// Whoever writes a base has the directory's lock until a head names it, so that who
	// has the lock knows which bases nobody will name any more. Where directories have no
	// locks those of killed writers stay.
	lock, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	locked := files.TryLock(lock)
	if errors.Is(locked, files.ErrLocked) {
		return nil // another time
	}
	if locked == nil {
		defer files.Unlock(lock)
	}
	old := ""
	if t.base != nil {
		old = t.baseFile()
	}
	if err := t.merge(); err != nil {
		return err
	}
	if err := t.put(); err != nil {
		return err
	}
	if locked == nil {
		t.sweep(dir)
	} else if old != "" && old != t.baseFile() {
		os.Remove(old)
	}
	return nil
}

// put writes the head.
func (t *Thread) put() error {
	err := files.Keep(t.file, t.encodeHead(), 0o644)
	t.changed = t.changed && err != nil
	return err
}

// longWritten is for how long nobody writes a file.
const longWritten = time.Hour

// sweep removes what this thread's head does not name, bases of threads that have no
// head, and what writers left that were killed. The lock is held, and the head was
// written just now, by the clock of the file system. What cannot be removed stays.
func (t *Thread) sweep(dir string) {
	head, err := os.Lstat(t.file)
	if err != nil {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		gone := false
		if info, err := e.Info(); err == nil && files.Temporary(e.Name()) {
			gone = head.ModTime().Sub(info.ModTime()) > longWritten
		} else if of, _, ok := strings.Cut(e.Name(), "-"); err == nil && ok && len(of) == len(filepath.Base(t.file)) {
			if of = filepath.Join(dir, of); of == t.file {
				gone = name != t.baseFile()
			} else {
				_, err := os.Lstat(of)
				gone = errors.Is(err, fs.ErrNotExist)
			}
		}
		if gone {
			_ = os.Remove(name)
		}
	}
}

// merge makes a base of all that is known.
func (t *Thread) merge() error {
	all, ok := t.All()
	if !ok {
		return nil // forgotten
	}
	slices.SortFunc(all, func(a, b Turn) int {
		if c := bytes.Compare(a.Hash[:], b.Hash[:]); c != 0 {
			return c
		}
		return bytes.Compare(a.Blob[:], b.Blob[:])
	})
	all = slices.Compact(all)
	h := turnsHead{covered: t.head.covered}
	h.counts[0] = len(all)
	for i, some := range []func(Turn) bool{
		func(r Turn) bool { return r.Kind&(Closes|Freezes) != 0 },
		func(r Turn) bool { return r.Kind&(Closes|Freezes) == 0 && r.Kind&Relay != 0 },
	} {
		for _, r := range all[:h.counts[0]] {
			if some(r) {
				all, h.counts[i+1] = append(all, r), h.counts[i+1]+1
			}
		}
	}
	n := t.of.recordLen()
	out := make([]byte, 0, n*len(all))
	for _, r := range all {
		out = t.of.encode(out, r)
	}
	for page := range slices.Chunk(out, pageSize/n*n) {
		sum := sha256.Sum256(page)
		h.pages = append(h.pages, [16]byte(sum[:16]))
	}
	if t.base != nil {
		t.base.Close()
	}
	t.head, t.recent, t.base = h, nil, nil
	if err := files.Keep(t.baseFile(), out, 0o644); err != nil {
		return err
	}
	base, err := files.OpenKept(t.baseFile())
	t.base = base
	return err
}

// baseFile is named after what it holds.
func (t *Thread) baseFile() string {
	h := sha256.New()
	for _, p := range t.head.pages {
		h.Write(p[:])
	}
	return t.file + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}

// encodeHead writes head: what it is of, base's pages and counts, the trees that are
// covered, the records since, and a digest of all that.
func (t *Thread) encodeHead() []byte {
	scope := sha256.Sum256([]byte(t.of.Scope))
	b := append([]byte(turnsMagic), scope[:]...)
	b = append(b, byte(t.of.idLen()))
	count := func(n int) { b = binary.BigEndian.AppendUint32(b, uint32(n)) }
	for _, n := range t.head.counts {
		count(n)
	}
	count(len(t.head.pages))
	for _, p := range t.head.pages {
		b = append(b, p[:]...)
	}
	count(len(t.head.covered))
	for _, c := range t.head.covered {
		some := byte(0)
		if c.turns {
			some = 1
		}
		b = append(append(b, c.id[:t.of.idLen()]...), some)
	}
	count(len(t.recent))
	for _, r := range t.recent {
		b = t.of.encode(b, r)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// load reads what save wrote. It is false where base has gone meanwhile; nothing is
// known then, nor where the files cannot be used.
func (t *Thread) load() bool {
	t.forget()
	b, err := files.Kept(t.file)
	if err != nil {
		return true
	}
	h, recent, ok := t.of.decodeHead(b)
	if !ok {
		return true
	}
	t.head, t.recent = h, recent
	if len(h.pages) == 0 {
		return true
	}
	if t.base, err = files.OpenKept(t.baseFile()); err != nil {
		t.base = nil
		t.forget()
		return !os.IsNotExist(err)
	}
	return true
}

// decodeHead reads what encodeHead wrote; ok is false for all that is not that, or of
// another scope or object format.
func (x *Turns) decodeHead(b []byte) (h turnsHead, recent []Turn, ok bool) {
	if len(b) < 32 {
		return h, nil, false
	}
	body, sum := b[:len(b)-32], sha256.Sum256(b[:len(b)-32])
	scope := sha256.Sum256([]byte(x.Scope))
	begin := append(append([]byte(turnsMagic), scope[:]...), byte(x.idLen()))
	body, ok = bytes.CutPrefix(body, begin)
	if !ok || !bytes.Equal(sum[:], b[len(b)-32:]) {
		return h, nil, false
	}
	number := func() (n int) {
		if ok = ok && len(body) >= 4; ok {
			n, body = int(binary.BigEndian.Uint32(body)), body[4:]
		}
		return n
	}
	items := func(size int, fn func([]byte)) {
		n := number()
		if ok = ok && n <= len(body)/size; !ok {
			return
		}
		for range n {
			fn(body[:size])
			body = body[size:]
		}
	}
	for i := range h.counts {
		h.counts[i] = number()
	}
	items(16, func(b []byte) { h.pages = append(h.pages, [16]byte(b)) })
	items(x.idLen()+1, func(b []byte) {
		c := coveredTree{turns: b[len(b)-1] == 1}
		copy(c.id[:], b[:len(b)-1])
		h.covered = append(h.covered, c)
	})
	items(x.recordLen(), func(b []byte) { recent = append(recent, x.decode(b)) })
	room := len(h.pages) * (pageSize / x.recordLen())
	for _, n := range h.counts {
		ok = ok && n <= room
		room -= n
	}
	return h, recent, ok && len(body) == 0
}
