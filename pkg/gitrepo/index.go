package gitrepo

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"

	"github.com/rigward/rigward/internal/files"
)

// An IndexEntry is one entry of the index.
type IndexEntry struct {
	Path  string // raw bytes
	Mode  Mode
	ID    ID
	Stage int // 0; 1 to 3 while a merge is not resolved
}

// An Index is the index as it was when it was read. It does not change: git puts a
// new file in its place. Whoever holds on to a part of data holds on to the Index.
type Index struct {
	data  []byte   // the file
	names []byte   // of version 4: all paths, each with a NUL
	at    []uint32 // where each entry begins in data
	path  []uint32 // of version 4: where its path begins in names
	tops  []top    // the names in the top, in the index's order
	named []byte   // these names, a directory's with its slash
	hash  int      // bytes of an id
	trees []byte   // the extension "TREE"
	end   int      // where the entries end
	mixed bool     // not all of it is merged
	more  bool     // it has other extensions
}

// A top is a name in the top: of a file, or of a directory in which entries lie.
type top struct{ first, end uint32 } // the number of the first of these, and where in named its name ends

// Index returns the index, the same one as Staged reads. Entries added with intent
// only are in it, with the id of the empty blob. An index of the usual form is read
// as it lies in the repository; git is asked for every other one.
func (r *Repo) Index(ctx context.Context) (*Index, error) {
	if file, ok := r.indexFile(); ok {
		if x, ok := readIndex(file, r.HashLen()/2); ok {
			return x, nil
		}
	}
	return r.askIndex(ctx)
}

// indexFile is the path of the index; ok is false where it is taken from a
// directory that only git knows.
func (r *Repo) indexFile() (file string, ok bool) {
	file, given := r.env.Lookup("GIT_INDEX_FILE")
	switch {
	case !given:
		return filepath.Join(r.gitDir, "index"), true
	case filepath.IsAbs(file):
		return file, true
	}
	return r.env.path(file), file != "" && r.plain
}

// IndexMark returns what tells the index from another one: where it is, its size and
// time, and the checksum that git has written at its end. ok is false where that says
// nothing: git writes none, or only git knows the file.
func (r *Repo) IndexMark() (mark string, ok bool) {
	file, ok := r.indexFile()
	if !ok || !r.knownGit() {
		return "", false
	}
	f, err := files.Open(file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	sum := make([]byte, r.HashLen()/2)
	if err != nil || !info.Mode().IsRegular() || info.Size() < int64(len(sum)) {
		return "", false
	}
	if _, err := f.ReadAt(sum, info.Size()-int64(len(sum))); err != nil || bytes.Count(sum, []byte{0}) == len(sum) {
		return "", false // index.skipHash
	}
	return fmt.Sprintf("%s %d %d %x", file, info.Size(), info.ModTime().UnixNano(), sum), true
}

// IndexPaths returns the paths in the index that keep chooses, in its order;
// a path that is not merged may come more than once. The index is the one that
// Staged reads, and entries added with intent only are among them. keep must
// not hold on to its argument, the raw bytes of a path.
//
// tree is the one that git would write of the index, "" where the index does not
// say it: it does after a commit or a checkout, until something is staged.
func (r *Repo) IndexPaths(ctx context.Context, keep func(path []byte) bool) (paths []string, tree ID, err error) {
	x, err := r.Index(ctx)
	if err != nil {
		return nil, "", err
	}
	for i := range x.at {
		if path := x.name(i); keep(path) {
			paths = append(paths, string(path))
		}
	}
	if root, ok := x.cached(0); ok && root.name == 0 && int(root.covers) == len(x.at) {
		tree = hex.EncodeToString(x.cachedID(root))
	}
	runtime.KeepAlive(x)
	return paths, tree, nil
}

// Len is the number of entries.
func (x *Index) Len() int { return len(x.at) }

// Entry returns entry i, counted from 0, in git's order.
func (x *Index) Entry(i int) IndexEntry {
	return IndexEntry{Path: string(x.name(i)), Mode: x.mode(i), ID: hex.EncodeToString(x.rawID(i)), Stage: x.stage(i)}
}

func (x *Index) mode(i int) Mode { return Mode(binary.BigEndian.Uint32(x.data[x.at[i]+24:])) }

func (x *Index) rawID(i int) []byte { return x.data[x.at[i]+40:][:x.hash] }

// Lookup returns the first entry of a path.
func (x *Index) Lookup(path string) (e IndexEntry, ok bool) {
	if i := x.search(path); i < len(x.at) && string(x.name(i)) == path {
		return x.Entry(i), true
	}
	return IndexEntry{}, false
}

// HasDir reports whether a path lies below a directory.
func (x *Index) HasDir(dir string) bool {
	i := x.search(dir + "/")
	return i < len(x.at) && bytes.HasPrefix(x.name(i), []byte(dir+"/"))
}

// search returns the number of the first entry that does not sort before a path.
func (x *Index) search(path string) int {
	return sort.Search(len(x.at), func(i int) bool { return string(x.name(i)) >= path })
}

// name is the path of entry i.
func (x *Index) name(i int) []byte {
	from := x.from(i)
	return from[:bytes.IndexByte(from, 0)]
}

// from is what begins with the path of entry i and a NUL.
func (x *Index) from(i int) []byte {
	if x.names != nil {
		return x.names[x.path[i]:]
	}
	flags := int(x.at[i]) + 40 + x.hash
	if x.data[flags]&0x40 != 0 {
		flags += 2
	}
	return x.data[flags+2:]
}

// lies reports whether the path of entry i lies in a directory, "/" at its end.
func (x *Index) lies(i int, dir []byte) bool {
	return bytes.HasPrefix(x.from(i), dir) // neither has a NUL, which ends a path
}

// intended reports whether entry i was added with intent only.
func (x *Index) intended(i int) bool {
	flags := x.data[int(x.at[i])+40+x.hash:]
	return flags[0]&0x40 != 0 && flags[2]&0x20 != 0
}

// readIndex reads an index file; one that does not exist has no entries.
func readIndex(file string, hash int) (x *Index, ok bool) {
	f, err := files.Open(file)
	if err != nil {
		return &Index{hash: hash}, errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIndex {
		return nil, false
	}
	data, release, err := fileBytes(f, int(info.Size()))
	if err != nil {
		return nil, false
	}
	x, ok = parseIndex(data, hash)
	switch {
	case release == nil:
	case !ok:
		release(data)
	default:
		runtime.AddCleanup(x, release, data)
	}
	return x, ok
}

// readBytes reads a file of so many bytes.
func readBytes(f *os.File, size int) ([]byte, func([]byte), error) {
	data := make([]byte, size)
	_, err := io.ReadFull(f, data)
	return data, nil, err
}

const (
	maxIndex     = 1 << 31 // bytes of an index that is read here
	maxIndexPath = 4096    // bytes of a path in it
)

// parseIndex reads an index of version 2, 3 or 4, of which a hash has so many bytes
// (git, gitformat-index). ok is false for an index that is not well formed and for
// one whose entries are not all paths of its own: a split index and a sparse one
// have an extension that must be understood, which lower-case letters say.
func parseIndex(data []byte, hash int) (x *Index, ok bool) {
	end := len(data) - hash // the checksum
	if end < 12 || string(data[:4]) != "DIRC" {
		return nil, false
	}
	version, count := binary.BigEndian.Uint32(data[4:]), int(binary.BigEndian.Uint32(data[8:]))
	if version < 2 || version > 4 || count > end/(42+hash) {
		return nil, false
	}
	x = &Index{data: data, hash: hash, at: make([]uint32, 0, count), tops: make([]top, 0, count/8), named: make([]byte, 0, 2*count)}
	pos, before := 12, []byte(nil)
	dir := 0 // how long the name in the top is of the one before, with its slash; 0 for a file
	for i := range count {
		start, fixed := pos, 40+hash+2
		if pos+fixed+2 > end {
			return nil, false
		}
		switch Mode(binary.BigEndian.Uint32(data[pos+24:])) {
		case ModeFile, ModeExecutable, ModeSymlink, ModeGitlink:
		default:
			return nil, false // a sparse directory, whatever the extensions say
		}
		flags := binary.BigEndian.Uint16(data[pos+fixed-2:])
		if flags&0x4000 != 0 {
			more := binary.BigEndian.Uint16(data[pos+fixed:])
			if fixed += 2; version == 2 || more&^0x6000 != 0 {
				return nil, false // git knows two flags here, and refuses others
			}
		}
		pos += fixed
		shared := 0
		if version == 4 {
			drop, n, ok := varint(data[pos:end])
			if !ok || drop > int64(len(before)) {
				return nil, false
			}
			pos, shared = pos+n, len(before)-int(drop)
		}
		n := bytes.IndexByte(data[pos:end], 0)
		if n < 0 || shared+n > maxIndexPath || shared+n == 0 || int(flags&0xfff) != min(shared+n, 0xfff) {
			return nil, false
		}
		path := data[pos : pos+n]
		if version == 4 {
			x.path = append(x.path, uint32(len(x.names)))
			x.names = append(append(append(x.names, before[:shared]...), path...), 0)
			path = x.names[len(x.names)-1-shared-n : len(x.names)-1]
			pos += n + 1
		} else {
			pos = start + (fixed+n+8)&^7 // one to eight NULs end a path
		}
		least := min(len(before), len(path))
		same := commonPrefix(before[:least], path[:least])
		switch {
		case pos > end, same == len(path) && same < len(before):
			return nil, false
		case same < len(before):
			if before[same] > path[same] {
				return nil, false
			}
		case same == len(path) && x.stage(i-1) >= stageOf(flags):
			return nil, false
		}
		if dir == 0 || same < dir {
			name := path
			if dir = bytes.IndexByte(path, '/') + 1; dir > 0 {
				name = path[:dir]
			}
			x.named = append(x.named, name...)
			x.tops = append(x.tops, top{uint32(i), uint32(len(x.named))})
		}
		x.at, before, x.mixed = append(x.at, uint32(start)), path, x.mixed || flags&0x3000 != 0
	}
	for x.end = pos; pos < end; {
		if end-pos < 8 || data[pos] < 'A' || data[pos] > 'Z' {
			return nil, false
		}
		n := int(binary.BigEndian.Uint32(data[pos+4:]))
		if n > end-pos-8 {
			return nil, false
		}
		if string(data[pos:pos+4]) == "TREE" {
			x.trees = data[pos+8 : pos+8+n]
		} else {
			x.more = true
		}
		pos += 8 + n
	}
	return x, true
}

func (x *Index) stage(i int) int {
	return stageOf(binary.BigEndian.Uint16(x.data[int(x.at[i])+40+x.hash:]))
}

func stageOf(flags uint16) int { return int(flags >> 12 & 3) }

// A cachedTree is what the index says of a directory: the tree that git would write
// of its entries. Places are those of the extension.
type cachedTree struct {
	at, name uint32 // of its name, and how long that is
	covers   int32  // entries, in the directories below it, too; -1: nothing is known
	below    int32  // directories in it that are listed
	rest     uint32 // where these begin; before that is the id, if it is known
}

func (x *Index) cachedName(t cachedTree) []byte { return x.trees[t.at : t.at+t.name] }

// cachedID returns the id of a tree that is known.
func (x *Index) cachedID(t cachedTree) []byte { return x.trees[int(t.rest)-x.hash : t.rest] }

// cached reads one record of the extension "TREE": a name and a NUL, how many
// entries of the index it covers, a blank, how many directories follow, a line feed,
// and an id if the tree is known.
func (x *Index) cached(at uint32) (t cachedTree, ok bool) {
	b := x.trees[min(int(at), len(x.trees)):]
	n := bytes.IndexByte(b, 0)
	if n < 0 {
		return t, false
	}
	t.at, t.name = at, uint32(n)
	n++
	if t.covers, n, ok = number(b, n, ' '); !ok || int(t.covers) > len(x.at) {
		return t, false
	}
	if t.below, n, ok = number(b, n, '\n'); !ok || t.below < 0 {
		return t, false
	}
	if t.covers >= 0 {
		if n += x.hash; n > len(b) {
			return t, false
		}
	}
	t.rest = at + uint32(n)
	return t, true
}

// number reads -1 or a number of at most nine digits, and what ends it.
func number(b []byte, at int, end byte) (n int32, next int, ok bool) {
	if at+2 < len(b) && b[at] == '-' && b[at+1] == '1' && b[at+2] == end {
		return -1, at + 3, true
	}
	start := at
	for ; at < len(b) && at-start < 9 && b[at]-'0' < 10; at++ {
		n = 10*n + int32(b[at]-'0')
	}
	return n, at + 1, at > start && at < len(b) && b[at] == end
}

// minCached is how many bytes a record has at the least.
const minCached = len("a\x00-1 0\n")

// children reads the records of the directories in t, sorted by their names, and
// passes over what is below them; rest is where something follows.
func (x *Index) children(t cachedTree, depth int) (list []cachedTree, rest uint32, ok bool) {
	list, rest = make([]cachedTree, 0, min(int(t.below), len(x.trees)/minCached)), t.rest
	for range t.below {
		c, ok := x.cached(rest)
		if !ok {
			return nil, 0, false
		}
		if rest, ok = x.below(c, depth); !ok {
			return nil, 0, false
		}
		list = append(list, c)
	}
	byName := func(a, b cachedTree) int { return bytes.Compare(x.cachedName(a), x.cachedName(b)) }
	if !slices.IsSortedFunc(list, byName) { // git writes them by length first
		slices.SortStableFunc(list, byName)
	}
	return list, rest, true
}

// below passes over what the index says of the directories in t, and returns where
// something follows.
func (x *Index) below(t cachedTree, depth int) (rest uint32, ok bool) {
	rest = t.rest
	for range t.below {
		c, ok := x.cached(rest)
		if !ok || depth > MaxDepth {
			return 0, false
		}
		if rest, ok = x.below(c, depth+1); !ok {
			return 0, false
		}
	}
	return rest, true
}

// A cachedList is what children has read, and where in it was looked last: directories
// are asked for in almost the order in which it has them.
type cachedList struct {
	*Index
	list []cachedTree
	next int
}

// of returns the record of a directory, of two with one name the last.
func (l *cachedList) of(name []byte) (t cachedTree, ok bool) {
	if l.next >= len(l.list) || !bytes.Equal(l.cachedName(l.list[l.next]), name) {
		l.next = sort.Search(len(l.list), func(i int) bool { return bytes.Compare(l.cachedName(l.list[i]), name) >= 0 })
	}
	for l.next < len(l.list) && bytes.Equal(l.cachedName(l.list[l.next]), name) {
		t, ok = l.list[l.next], true
		l.next++
	}
	return t, ok
}

// varint reads a number as pack files hold offsets: seven bits a byte, the first
// ones first, one added for every byte that follows; at most four bytes.
func varint(b []byte) (v int64, n int, ok bool) {
	for n < min(len(b), 4) {
		c := b[n]
		if n++; n > 1 {
			v++
		}
		v = v<<7 | int64(c&0x7f)
		if c&0x80 == 0 {
			return v, n, true
		}
	}
	return 0, 0, false
}

// add appends an entry that git has listed.
func (x *Index) add(mode Mode, id ID, stage int, path string) bool {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != x.hash || len(x.data) > maxIndex {
		return false
	}
	x.at = append(x.at, uint32(len(x.data)))
	x.data = binary.BigEndian.AppendUint32(append(x.data, make([]byte, 24)...), uint32(mode))
	x.data = append(append(x.data, make([]byte, 12)...), raw...)
	x.data = binary.BigEndian.AppendUint16(x.data, uint16(stage)<<12)
	x.data = append(append(x.data, path...), 0)
	return true
}
