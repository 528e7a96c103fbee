package gitrepo

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/rigward/rigward/internal/files"
)

// A store reads objects without git, as they lie in the object directories of a
// repository and of a push: loose, or in packs of the usual form. What it returns
// has the id that was asked for, by its hash, so that it is the object, wherever
// and however it is stored. Of everything else it says that it does not know, and
// git is asked: it never says that an object is not there.
type store struct {
	dirs []string // absolute
	hash int      // bytes of an id
	most int64    // bytes of one object

	mu     sync.Mutex
	packs  []*packFile
	listed bool
	spent  int               // objects looked for
	bytes  int64             // inflated so far
	kept   map[ID]looseBytes // read by info, until somebody takes the contents
	held   int64             // bytes of kept
	begun  map[ID]func() (looseBytes, int64)
	bases  packBases

	without string // a type of which objects in packs are not read

	steps   []packStep // room
	ids     []byte     // see room
	zlib    *inflater  // see inflater
	ahead   []readAhead
	windows int // of ahead, for one who reads much; 0: one
	next    int // of ahead, to be read anew
}

type looseBytes struct {
	typ  string
	data []byte
}

// Limits of what a store reads. What is more is read faster by git, which keeps
// what it has inflated.
const (
	maxStored      = 2 << 20  // bytes of one object, or of one that it differs from
	maxStoreBytes  = 32 << 20 // inflated in all
	maxStoreCount  = 2048     // objects looked for
	maxStoreHeld   = 8 << 20  // bytes kept for contents
	maxStoreBatch  = 64       // objects of one request
	maxObjectDirs  = 8
	maxPacks       = 64
	maxDeltaChain  = 64
	maxBase        = 64 << 10 // bytes of an object of a pack that is kept for those that differ from it
	maxBases       = 2 << 20  // bytes of these that are used before older ones go
	maxDeltas      = 4 << 20  // bytes of the differences that lead to one object
	maxAlternates  = 64 << 10 // bytes of info/alternates
	maxLooseHeader = 32
	minBegun       = 32 << 10 // bytes of a file that are worth another thread
)

// newStore finds the object directories: the repository's own or the quarantine of
// a push, and what they borrow from (git(1), GIT_OBJECT_DIRECTORY;
// gitrepository-layout, objects/info/alternates). nil: only git can.
func newStore(env Env, commonDir string, hash int) *store {
	s := &store{hash: hash, most: maxStored, bases: packBases{most: maxBases}}
	own := filepath.Join(commonDir, "objects")
	if dir, set := env.Lookup("GIT_OBJECT_DIRECTORY"); set {
		if dir == "" {
			return nil
		}
		own = env.path(dir)
	}
	list, _ := env.Lookup("GIT_ALTERNATE_OBJECT_DIRECTORIES")
	if !s.add(own) || !s.borrow(strings.Split(list, string(os.PathListSeparator))) {
		return nil
	}
	for i := 0; i < len(s.dirs); i++ { // grows
		file := filepath.Join(s.dirs[i], "info", "alternates")
		info, err := os.Stat(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxAlternates {
			return nil
		}
		text, err := files.Read(file)
		if err != nil || !s.borrow(strings.Split(string(text), "\n")) {
			return nil
		}
	}
	return s
}

// borrow adds directories, each as a plain absolute path.
func (s *store) borrow(dirs []string) bool {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if !filepath.IsAbs(dir) || strings.ContainsAny(dir, "\"\\\r\x00") || !s.add(filepath.Clean(dir)) {
			return false
		}
	}
	return true
}

func (s *store) add(dir string) bool {
	for _, d := range s.dirs {
		if d == dir {
			return true
		}
	}
	s.dirs = append(s.dirs, dir)
	return len(s.dirs) <= maxObjectDirs
}

// close closes the files.
func (s *store) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closePacks()
	s.listed, s.spent, s.kept, s.bases = true, maxStoreCount, nil, packBases{}
}

// info returns headers of those objects that it can read, "" as id of the others.
func (s *store) info(ids []ID) (heads []header, all bool) {
	heads, all = make([]header, len(ids)), true
	if s == nil || len(ids) > maxStoreBatch {
		return heads, len(ids) == 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range ids {
		if typ, data, ok := s.read(id); ok {
			heads[i] = header{id: id, typ: typ, size: int64(len(data))}
		} else {
			all = false
		}
	}
	return heads, all
}

// exhausted reports whether it has read as much as it may. git alone reads where there is
// no store.
func (s *store) exhausted() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full()
}

func (s *store) full() bool { return s.spent >= maxStoreCount || s.bytes > maxStoreBytes }

// contents returns the contents of objects that info has read, and lets go of them;
// ok is false if one of them is not at hand.
func (s *store) contents(heads []header) (data [][]byte, ok bool) {
	if s == nil || len(heads) > maxStoreBatch {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	data = make([][]byte, len(heads))
	for i, h := range heads {
		typ, d, ok := s.read(h.id)
		if !ok || typ != h.typ || int64(len(d)) != h.size {
			return nil, false
		}
		data[i] = d
	}
	for _, h := range heads {
		s.held -= int64(len(s.kept[h.id].data))
		delete(s.kept, h.id)
	}
	return data, true
}

// read returns one object and keeps it.
func (s *store) read(id ID) (typ string, data []byte, ok bool) {
	if k, ok := s.kept[id]; ok {
		return k.typ, k.data, true
	}
	if s.full() {
		return "", nil, false
	}
	s.spent++
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != s.hash {
		return "", nil, false
	}
	if typ, data, ok = s.end(id); !ok {
		if typ, data, ok = s.loose(id); !ok {
			typ, data, ok = s.packed(raw)
		}
		if !ok || !s.proves(raw, typ, data) {
			return "", nil, false
		}
	}
	if s.held+int64(len(data)) > maxStoreHeld {
		clear(s.kept)
		s.held = 0
	}
	if s.kept == nil {
		s.kept = make(map[ID]looseBytes)
	}
	s.kept[id], s.held = looseBytes{typ, data}, s.held+int64(len(data))
	return typ, data, true
}

// Expect says that the tree of a commit will soon be read: if it lies in a large file of
// its own, that is inflated meanwhile. It asks git nothing.
func (r *Repo) Expect(commit ID) {
	if !r.knownGit() || r.stored == nil {
		return
	}
	s := r.stored
	s.mu.Lock()
	defer s.mu.Unlock()
	typ, data, _ := s.read(commit)
	line, _, _ := bytes.Cut(data, []byte("\n"))
	tree, ok := bytes.CutPrefix(line, []byte("tree "))
	if id := ID(tree); ok && typ == "commit" && r.ValidID(id) && s.kept[id].typ == "" && s.looseSize(id) >= minBegun {
		s.begin(id)
	}
}

// begin starts to read an object from a file of its own.
func (s *store) begin(id ID) {
	read := sync.OnceValues(func() (looseBytes, int64) {
		apart := &store{dirs: s.dirs, hash: s.hash, most: s.most}
		typ, data, ok := apart.loose(id)
		if raw, err := hex.DecodeString(id); !ok || err != nil || !s.proves(raw, typ, data) {
			return looseBytes{}, apart.bytes
		}
		return looseBytes{typ, data}, apart.bytes
	})
	if s.begun == nil {
		s.begun = map[ID]func() (looseBytes, int64){}
	}
	s.begun[id] = read
	go read()
}

// end waits for what begin has started; ok is false where that gave nothing.
func (s *store) end(id ID) (typ string, data []byte, ok bool) {
	read := s.begun[id]
	if read == nil {
		return "", nil, false
	}
	delete(s.begun, id)
	k, inflated := read()
	s.bytes += inflated
	return k.typ, k.data, k.typ != ""
}

// looseSize is how many bytes the file of an object has, 0 if it has none.
func (s *store) looseSize(id ID) int64 {
	for _, dir := range s.dirs {
		if info, err := os.Stat(filepath.Join(dir, id[:2], id[2:])); err == nil {
			return info.Size()
		}
	}
	return 0
}

// proves reports whether an object has this id.
func (s *store) proves(id []byte, typ string, data []byte) bool {
	return newProver(s.hash).proves(id, typ, data)
}

// A prover hashes one object after the other.
type prover struct {
	h   hash.Hash
	buf []byte // room
}

// newProver makes one for ids of so many bytes.
func newProver(size int) *prover {
	if size == sha256.Size {
		return &prover{h: sha256.New()}
	}
	return &prover{h: sha1.New()}
}

// proves reports whether an object has this id.
func (p *prover) proves(id []byte, typ string, data []byte) bool {
	p.h.Reset()
	p.buf = append(strconv.AppendInt(append(append(p.buf[:0], typ...), ' '), int64(len(data)), 10), 0)
	_, _ = p.h.Write(p.buf)
	_, _ = p.h.Write(data)
	p.buf = p.h.Sum(p.buf[:0])
	return bytes.Equal(p.buf, id)
}

// loose reads an object from a file of its own: compressed, its type, a blank, its
// size and a NUL before it.
func (s *store) loose(id ID) (typ string, data []byte, ok bool) {
	for _, dir := range s.dirs {
		f, err := files.Open(filepath.Join(dir, id[:2], id[2:]))
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if ok = err == nil && info.Mode().IsRegular(); ok {
			typ, data, ok = s.looseFile(f, info.Size())
		}
		_ = f.Close()
		if ok {
			return typ, data, true
		}
	}
	return "", nil, false
}

func (s *store) looseFile(f io.ReaderAt, size int64) (typ string, data []byte, ok bool) {
	if size > compressed(s.most) {
		return "", nil, false
	}
	s.forget(f) // this one is another file, wherever it lies in memory
	src := s.bytesAt(f, 0, size, size)
	s.forget(f)
	var head [maxLooseHeader]byte
	n, _, _ := s.inflater().zlib(head[:], src)
	text, _, whole := bytes.Cut(head[:n], []byte{0})
	if typ, size, ok = looseHeader(string(text)); !whole || !ok || size > s.most {
		return "", nil, false
	}
	s.bytes += size
	first := len(text) + 1
	data = make([]byte, first+int(size))
	_, used, ok := s.inflater().zlib(data, src)
	return typ, data[first:], ok && used == len(src)
}

// looseHeader parses `<type> SP <size>`.
func looseHeader(text string) (typ string, size int64, ok bool) {
	typ, digits, _ := strings.Cut(text, " ")
	switch typ {
	case "commit", "tree", "blob", "tag":
	default:
		return "", 0, false
	}
	if !isDigits(digits) || len(digits) > 1 && digits[0] == '0' {
		return "", 0, false
	}
	size, err := strconv.ParseInt(digits, 10, 64)
	return typ, size, err == nil
}

// A readAhead is a part of a file that was read, from a place on.
type readAhead struct {
	from io.ReaderAt
	at   int64
	data []byte
}

const (
	leastAhead  = 4096      // bytes that are read of a file at least
	mostAhead   = 512 << 10 // bytes of room that are kept for it
	bytesWindow = 16 << 10  // that are read by one who reads much: from a multiple of half of them on
	manyWindows = 8         // that he keeps, for a pack has its objects by types, and in either direction
)

// bytesAt returns what a file has at a place, n bytes or more if it has so many before
// end. They count until the next call.
func (s *store) bytesAt(f io.ReaderAt, at, end, n int64) []byte {
	n = max(0, min(n, end-at))
	for i := range s.ahead {
		if a := &s.ahead[i]; a.from == f && a.at <= at && at+n <= a.at+int64(len(a.data)) {
			return a.data[at-a.at:]
		}
	}
	from, to := at, min(at+max(n, leastAhead), end)
	if s.windows > 0 {
		from = at / (bytesWindow / 2) * (bytesWindow / 2)
		to = min(max(at+n, from+bytesWindow), end)
	}
	if len(s.ahead) < max(s.windows, 1) {
		s.ahead = append(s.ahead, readAhead{})
		s.next = len(s.ahead) - 1
	}
	a := &s.ahead[s.next]
	s.next = (s.next + 1) % len(s.ahead)
	size := max(0, to-from)
	if int64(cap(a.data)) < size || cap(a.data) > mostAhead {
		a.data = make([]byte, size, size+size/4) // the next one may be a little larger
	}
	read, err := f.ReadAt(a.data[:size], from)
	if err != nil && err != io.EOF {
		read = 0
	}
	a.from, a.at, a.data = f, from, a.data[:read]
	return a.data[min(int64(read), at-from):]
}

// forget lets go of what was read of a file.
func (s *store) forget(f io.ReaderAt) {
	for i := range s.ahead {
		if s.ahead[i].from == f {
			s.ahead[i].from = nil
		}
	}
}

// inflater is made when something is read: a hook may read nothing.
func (s *store) inflater() *inflater {
	if s.zlib == nil {
		s.zlib = new(inflater)
	}
	return s.zlib
}

// compressed is how many bytes zlib makes of so many at the most, with some room.
func compressed(size int64) int64 { return size + size>>10 + 64 }

// inflate reads what has exactly so many bytes, compressed from a place of a file on.
func (s *store) inflate(f io.ReaderAt, at, end, size int64) (data []byte, ok bool) {
	if size < 0 || size > s.most {
		return nil, false
	}
	s.bytes += size
	data = make([]byte, size)
	if size > maxStored {
		return data, s.inflateLarge(io.NewSectionReader(f, at, end-at), data)
	}
	for n := compressed(size); ; n *= 2 { // others than git may take more room
		src := s.bytesAt(f, at, end, n)
		if _, _, ok := s.inflater().zlib(data, src); ok || int64(len(src)) < n || n > 4*compressed(size) {
			return data, ok
		}
	}
}

// inflateLarge is inflate for what is not read at once.
func (s *store) inflateLarge(in io.Reader, data []byte) bool {
	z, err := zlib.NewReader(bufio.NewReaderSize(in, 64<<10))
	if err != nil {
		return false
	}
	if _, err := io.ReadFull(z, data); err != nil {
		return false
	}
	var more [1]byte
	n, err := z.Read(more[:])
	return n == 0 && err == io.EOF
}
