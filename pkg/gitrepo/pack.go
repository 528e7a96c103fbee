package gitrepo

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rigward/rigward/internal/files"
)

// A packFile is a pack with its index of version 2 (gitformat-pack(5)), read in
// places: what is not asked for is not read, however large both are.
type packFile struct {
	data, index io.ReaderAt
	files       []*os.File // the two, to be closed
	size        int64      // bytes of the pack before its checksum
	hash        int        // bytes of an id
	fanout      [256]uint32
	count       int64
	wide        int64 // offsets of eight bytes in the index

	looked atomic.Int64 // how many ids were looked for
	once   sync.Once    // of the table
	table  atomic.Pointer[packTable]
}

// A packTable is what of an index leads to an object without a read of the index, once
// very many are looked for: 8 bytes for each object.
type packTable struct {
	keys    []uint32 // of each id, in the order of the index, what follows its first byte
	offsets []uint32 // as the index has them
}

// Limits of tables.
const (
	tableAfter = 2 * maxStoreCount // ids are looked for; a hook on a small push never comes to that
	maxTable   = 6 << 20           // objects that a pack with a table has at the most
)

const (
	packHead  = 12
	indexHead = 8 + 4*256
	idsAtOnce = 128 // of the index are read

	maxGuesses = 4  // where an id lies, before the index is halved
	nearby     = 96 // keys of a table around the place where an id probably lies
	maxAlike   = 16 // ids that begin alike in a table, before the index is halved
)

// packed reads an object from the packs.
func (s *store) packed(id []byte) (typ string, data []byte, ok bool) {
	s.list()
	for _, p := range s.packs {
		if at, found := p.find(id, s.room()); found {
			if typ, data, ok = s.entry(p, at); ok {
				return typ, data, true
			}
		}
	}
	return "", nil, false
}

// list opens the packs, once; if there are many, none.
func (s *store) list() {
	if s.listed {
		return
	}
	s.listed = true
	for _, dir := range s.dirs {
		names, err := os.ReadDir(filepath.Join(dir, "pack"))
		if err != nil {
			continue
		}
		for _, e := range names {
			base, ok := strings.CutSuffix(e.Name(), ".idx")
			if !ok {
				continue
			}
			if len(s.packs) == maxPacks {
				s.closePacks()
				return
			}
			if p := openPack(filepath.Join(dir, "pack", base), s.hash); p != nil {
				s.packs = append(s.packs, p)
			}
		}
	}
}

func (s *store) closePacks() {
	for _, p := range s.packs {
		p.close()
	}
	s.packs = nil
}

// openPack opens a pack and its index, whose paths are base and a suffix. It is nil
// where newPack says no.
func openPack(base string, hash int) *packFile {
	var opened []*os.File
	var sizes []int64
	for _, suffix := range []string{".idx", ".pack"} {
		f, err := files.Open(base + suffix)
		if err != nil {
			break
		}
		opened = append(opened, f)
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			break
		}
		sizes = append(sizes, info.Size())
	}
	p := &packFile{files: opened, hash: hash}
	if len(sizes) != 2 || !p.known(opened[0], sizes[0], opened[1], sizes[1]) {
		p.close()
		return nil
	}
	return p
}

// known reports whether a pack and its index, of so many bytes, are of the known
// form and belong together, as git sees it.
func (p *packFile) known(index io.ReaderAt, indexSize int64, data io.ReaderAt, size int64) bool {
	p.index, p.data = index, data
	h := int64(p.hash)
	head, first := make([]byte, indexHead), make([]byte, packHead)
	named, sum := make([]byte, h), make([]byte, h)
	for _, part := range []struct {
		from io.ReaderAt
		to   []byte
		at   int64
	}{{index, head, 0}, {index, named, indexSize - 2*h}, {data, first, 0}, {data, sum, size - h}} {
		if part.at < 0 {
			return false
		}
		if _, err := part.from.ReadAt(part.to, part.at); err != nil {
			return false
		}
	}
	if string(head[:8]) != "\xfftOc\x00\x00\x00\x02" || string(first[:4]) != "PACK" || !bytes.Equal(named, sum) {
		return false
	}
	for i := range p.fanout {
		p.fanout[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if i > 0 && p.fanout[i] < p.fanout[i-1] {
			return false
		}
	}
	p.count, p.size = int64(p.fanout[255]), size-h
	rest := indexSize - indexHead - p.count*(h+8) - 2*h
	p.wide = rest / 8
	version := binary.BigEndian.Uint32(first[4:])
	return (version == 2 || version == 3) && int64(binary.BigEndian.Uint32(first[8:])) == p.count &&
		rest >= 0 && rest%8 == 0 && p.wide <= p.count
}

func (p *packFile) close() {
	for _, f := range p.files {
		_ = f.Close()
	}
}

// raw returns an id in binary, in room; ok is false if it is none of these objects.
func (s *store) raw(id ID, room *[sha256.Size]byte) (raw []byte, ok bool) {
	if len(id) != 2*s.hash {
		return nil, false
	}
	n, err := hex.Decode(room[:], []byte(id))
	return room[:n], err == nil
}

// room returns room for some of an index.
func (s *store) room() []byte {
	if s.ids == nil {
		s.ids = make([]byte, idsAtOnce*s.hash)
	}
	return s.ids
}

// first returns which objects of the index begin with the first byte of an id.
func (p *packFile) first(id []byte) (low, high int64) {
	if id[0] > 0 {
		low = int64(p.fanout[id[0]-1])
	}
	return low, int64(p.fanout[id[0]])
}

// find returns where in the pack an object lies. It uses room for some of the index.
func (p *packFile) find(id, room []byte) (at int64, ok bool) {
	if t := p.tableOf(); t != nil {
		low, high := p.alike(t, id)
		return p.among(t, id, low, high, room)
	}
	low, high := p.first(id)
	// Ids are spread evenly, so that one lies about as far between two others as its
	// number says. Whoever makes ids that do not gets halves after a few tries.
	from, to, key := uint64(0), uint64(1)<<32, uint64(binary.BigEndian.Uint32(id[1:]))
	for try := 0; low < high; try++ {
		start := low
		if high-low > idsAtOnce {
			middle := (low + high) / 2
			if try < maxGuesses && from <= key && key < to {
				middle = low + int64(float64(high-low)*float64(key-from)/float64(to-from))
			}
			start = min(max(low, middle-idsAtOnce/2), high-idsAtOnce)
		}
		n := int(min(high-start, idsAtOnce))
		buf := room[:n*p.hash]
		if _, err := p.index.ReadAt(buf, indexHead+start*int64(p.hash)); err != nil {
			return 0, false
		}
		i, found := sort.Find(n, func(i int) int { return bytes.Compare(id, buf[i*p.hash:][:p.hash]) })
		switch {
		case found:
			return p.offset(start + int64(i))
		case i == 0:
			high, to = start, uint64(binary.BigEndian.Uint32(buf[1:]))
		case i == n:
			low, from = start+int64(n), uint64(binary.BigEndian.Uint32(buf[(n-1)*p.hash+1:]))
		default:
			return 0, false
		}
	}
	return 0, false
}

// likely is find for who finds out by its hash whether an object is the one that was
// asked for: where a table leaves only one that may be it, the index is not read.
func (p *packFile) likely(id, room []byte) (at int64, ok bool) {
	t := p.tableOf()
	if t == nil {
		return p.find(id, room)
	}
	low, high := p.alike(t, id)
	if high-low == 1 {
		return p.place(t.offsets[low])
	}
	return p.among(t, id, low, high, room)
}

// alike returns which objects of the index begin with the first five bytes of an id.
func (p *packFile) alike(t *packTable, id []byte) (low, high int64) {
	low, end := p.first(id)
	key := binary.BigEndian.Uint32(id[1:])
	if near := low + int64(uint64(end-low)*uint64(key)>>32); near-nearby > low && near+nearby < end && // as ids are spread
		t.keys[near-nearby] < key && key < t.keys[near+nearby] {
		low = near - nearby
		n, _ := slices.BinarySearch(t.keys[low:near+nearby], key)
		low += int64(n)
	} else {
		n, _ := slices.BinarySearch(t.keys[low:end], key)
		low += int64(n)
	}
	for high = low; high < end && t.keys[high] == key; high++ {
		if high-low == maxAlike {
			return low, end
		}
	}
	return low, high
}

// tableOf returns the table, nil while few ids were looked for and where there is none.
func (p *packFile) tableOf() *packTable {
	if t := p.table.Load(); t != nil {
		return t
	}
	if p.looked.Add(1) >= tableAfter && p.count <= maxTable {
		p.once.Do(func() { p.table.Store(p.loadTable()) })
	}
	return p.table.Load()
}

// among looks for an id among the objects [low,high) of the index.
func (p *packFile) among(t *packTable, id []byte, low, high int64, room []byte) (at int64, ok bool) {
	for low < high { // mostly one
		n, buf := (low+high)/2, room[:p.hash]
		if _, err := p.index.ReadAt(buf, indexHead+n*int64(p.hash)); err != nil {
			return 0, false
		}
		switch bytes.Compare(id, buf) {
		case 0:
			return p.place(t.offsets[n])
		case -1:
			high = n
		default:
			low = n + 1
		}
	}
	return 0, false
}

// loadTable reads the table; nil if the index cannot be read.
func (p *packFile) loadTable() *packTable {
	t := &packTable{keys: make([]uint32, p.count), offsets: make([]uint32, p.count)}
	fill := func(to []uint32, at int64, size, from int) bool {
		r := bufio.NewReaderSize(io.NewSectionReader(p.index, at, p.count*int64(size)), 64<<10)
		var one [sha256.Size]byte
		for i := range to {
			if _, err := io.ReadFull(r, one[:size]); err != nil {
				return false
			}
			to[i] = binary.BigEndian.Uint32(one[from:])
		}
		return true
	}
	if !fill(t.keys, indexHead, p.hash, 1) || !fill(t.offsets, p.offsets(), 4, 0) {
		return nil
	}
	return t
}

// offsets is where in the index those of the objects begin.
func (p *packFile) offsets() int64 { return indexHead + p.count*int64(p.hash+4) }

// offset returns the offset of an object by its number in the index.
func (p *packFile) offset(n int64) (at int64, ok bool) {
	var buf [4]byte
	if _, err := p.index.ReadAt(buf[:], p.offsets()+4*n); err != nil {
		return 0, false
	}
	return p.place(binary.BigEndian.Uint32(buf[:]))
}

// place returns the offset that an index gives in four bytes, or the number of one of eight.
func (p *packFile) place(small uint32) (at int64, ok bool) {
	if small&0x80000000 == 0 {
		return int64(small), true
	}
	var buf [8]byte
	w := int64(small &^ 0x80000000)
	if w >= p.wide {
		return 0, false
	}
	if _, err := p.index.ReadAt(buf[:], p.offsets()+4*p.count+8*w); err != nil {
		return 0, false
	}
	at = int64(binary.BigEndian.Uint64(buf[:]))
	return at, at >= 0
}

// Types of the entries of a pack.
const (
	packCommit   = 1
	packTag      = 4
	packByOffset = 6
	packByID     = 7
)

var packTypes = [...]string{packCommit: "commit", 2: "tree", 3: "blob", packTag: "tag"}

// packBases are objects of packs that others may be stored as differences to: what was used
// since new was empty, and before that. What is older goes when new is full.
type packBases struct {
	new, old map[packAt]looseBytes
	weight   int64 // bytes of new
	most     int64 // that it may have
}

// A packStep is what makes the entry at a place of the one before it.
type packStep struct {
	at    int64
	delta []byte
}

// entry reads the object of an entry: what is compressed there, or what comes of
// the differences to another one of the same pack. Small ones on the way are kept:
// what lies in one thread differs from each other.
func (s *store) entry(p *packFile, at int64) (typ string, data []byte, ok bool) {
	steps, weight, kept := s.steps[:0], int64(0), true // kept says that others hold found
	defer func() { clear(steps); s.steps = steps[:0] }()
	var found looseBytes
	for {
		var ok bool
		if found, ok = s.bases.get(packAt{p, at}); ok {
			break
		}
		kind, size, base, from, ok := s.open(p, at)
		if !ok || size > maxStored || kind <= packTag && packTypes[kind] == s.without {
			return "", nil, false
		}
		data, ok := s.inflate(p.data, from, p.size, size)
		if !ok {
			return "", nil, false
		}
		if kind <= packTag {
			found = looseBytes{packTypes[kind], data}
			kept = (kind != packCommit || len(steps) > 0) && s.bases.keep(packAt{p, at}, found) // commits are seldom bases
			break
		}
		weight += size
		if steps = append(steps, packStep{at, data}); len(steps) > maxDeltaChain || weight > maxDeltas {
			return "", nil, false
		}
		at = base
	}
	var room []byte
	for i := len(steps) - 1; i >= 0; i-- {
		to, ok := applyDelta(room, found.data, steps[i].delta, maxStored)
		if !ok || s.bytes > maxStoreBytes {
			return "", nil, false
		}
		s.bytes += int64(len(to))
		if room = nil; !kept {
			room = found.data
		}
		found.data = to
		// Not all are kept: a few steps more cost less than the memory.
		kept = i%4 == 0 && s.bases.keep(packAt{p, steps[i].at}, found)
	}
	return found.typ, found.data, true
}

// get returns an object that was kept.
func (b *packBases) get(at packAt) (found looseBytes, ok bool) {
	if found, ok = b.new[at]; !ok {
		if found, ok = b.old[at]; ok {
			b.keep(at, found)
		}
	}
	return found, ok
}

// keep keeps an object, unless it is large.
func (b *packBases) keep(at packAt, found looseBytes) (kept bool) {
	if len(found.data) > maxBase {
		return false
	}
	if b.weight += int64(len(found.data)); b.new == nil || b.weight > b.most {
		b.old, b.new, b.weight = b.new, make(map[packAt]looseBytes), int64(len(found.data))
	}
	b.new[at] = found
	return true
}

// open reads the head of an entry, and returns from where on its contents lie. base is
// where the entry lies that it differs from.
func (s *store) open(p *packFile, at int64) (kind int, size, base, from int64, ok bool) {
	if at < packHead || at >= p.size {
		return 0, 0, 0, 0, false
	}
	head := s.bytesAt(p.data, at, p.size, 64)
	head = head[:min(64, len(head))]
	kind, size, n, ok := entryHead(head)
	if !ok {
		return 0, 0, 0, 0, false
	}
	switch kind {
	case packByOffset:
		back, used, ok := varint(head[n:])
		if !ok || back <= 0 || back > at-packHead {
			return 0, 0, 0, 0, false
		}
		base, n = at-back, n+used
	case packByID:
		if len(head) < n+p.hash {
			return 0, 0, 0, 0, false
		}
		if base, ok = p.find(head[n:n+p.hash], s.room()); !ok {
			return 0, 0, 0, 0, false
		}
		n += p.hash
	}
	return kind, size, base, at + int64(n), true
}

// entryHead reads type and size of an entry: three bits and four in the first byte,
// seven of the size in each that follows, the lowest ones first.
func entryHead(b []byte) (kind int, size int64, n int, ok bool) {
	for shift := 0; n < len(b) && shift < 60; n++ {
		c := b[n]
		if n == 0 {
			kind, size, shift = int(c>>4&7), int64(c&15), 4
		} else {
			size |= int64(c&0x7f) << shift
			shift += 7
		}
		if c&0x80 == 0 {
			return kind, size, n + 1, kind != 0 && kind != 5
		}
	}
	return 0, 0, 0, false
}

// applyDelta makes an object of at most so many bytes from another one and a
// difference: the two sizes, then copies from the base and bytes of its own
// (gitformat-pack(5), Deltified representation). It may use room for it.
func applyDelta(room, base, delta []byte, most int64) (data []byte, ok bool) {
	from, to, delta, ok := deltaSizes(delta)
	if !ok || from != int64(len(base)) || to > most {
		return nil, false
	}
	if data = room[:0]; int64(cap(data)) < to {
		data = make([]byte, 0, to)
	}
	add := func(part []byte) bool {
		data = append(data, part...)
		return true
	}
	ok = eachDelta(delta, from, to, func(at, n int) bool { return add(base[at : at+n]) }, add)
	return data, ok && int64(len(data)) == to
}

// eachDelta calls copy and add for the parts of a difference, behind its sizes. They
// lie within the base and are together at most as long as the result, of which these
// are the sizes. The first false ends it.
func eachDelta(delta []byte, base, left int64, copy func(at, n int) bool, add func(data []byte) bool) bool {
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op&0x80 == 0 {
			n := int(op)
			if left -= int64(n); n == 0 || n > len(delta) || left < 0 || !add(delta[:n]) {
				return false
			}
			delta = delta[n:]
			continue
		}
		var arg [7]byte // four of the offset, three of the size
		for i := range arg {
			if op>>i&1 == 0 {
				continue
			}
			if len(delta) == 0 {
				return false
			}
			arg[i], delta = delta[0], delta[1:]
		}
		at := int64(binary.LittleEndian.Uint32(arg[:4]))
		n := int64(arg[4]) | int64(arg[5])<<8 | int64(arg[6])<<16
		if n == 0 {
			n = 0x10000
		}
		if left -= n; at > base || n > base-at || left < 0 || !copy(int(at), int(n)) {
			return false
		}
	}
	return true
}

// deltaSizes reads the sizes of the base and of the result.
func deltaSizes(delta []byte) (from, to int64, rest []byte, ok bool) {
	if from, rest, ok = deltaSize(delta); ok {
		to, rest, ok = deltaSize(rest)
	}
	return from, to, rest, ok
}

// deltaSize reads a size: seven bits a byte, the lowest ones first.
func deltaSize(b []byte) (size int64, rest []byte, ok bool) {
	for i, c := range b {
		if i == 8 {
			break
		}
		size |= int64(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return size, b[i+1:], true
		}
	}
	return 0, nil, false
}
