package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// IndexPaths returns the paths in the index that keep chooses, in its order;
// a path that is not merged may come more than once. The index is the one that
// Staged reads, and entries added with intent only are among them. keep must
// not hold on to its argument, the raw bytes of a path.
//
// tree is the one that git would write of the index, "" where the index does not
// say it: it does after a commit or a checkout, until something is staged.
//
// An index of the usual form is read as it lies in the repository, without a
// process; git is asked for every other one.
func (r *Repo) IndexPaths(ctx context.Context, keep func(path []byte) bool) (paths []string, tree ID, err error) {
	file, given := r.env.Lookup("GIT_INDEX_FILE")
	if !given {
		file = filepath.Join(r.gitDir, "index")
	}
	if filepath.IsAbs(file) {
		if paths, tree, ok := readIndex(file, r.HashLen()/2, keep); ok {
			return paths, tree, nil
		}
	}
	entries, err := r.Index(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		if keep([]byte(e.Path)) {
			paths = append(paths, e.Path)
		}
	}
	return paths, "", nil
}

// readIndex reads the paths of an index file; one that does not exist has none.
func readIndex(file string, hash int, keep func([]byte) bool) (paths []string, tree ID, ok bool) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "", errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, "", false
	}
	return parseIndex(f, info.Size(), hash, keep)
}

// maxIndexPath is the longest path that parseIndex reads, in bytes.
const maxIndexPath = 4096

// maxCachedRoot is more than what a cached tree says of its root.
const maxCachedRoot = 128

// cachedRoot reads the root of the extension "TREE", the first thing in it: an
// empty name, how many entries of the index it covers, -1 for a tree that is not
// known any more, how many trees are below it, and its id.
func cachedRoot(head []byte, count uint32, hash int) ID {
	line, id, ok := bytes.Cut(head, []byte("\n"))
	numbers, named := bytes.CutPrefix(line, []byte{0})
	covers, _, spaced := bytes.Cut(numbers, []byte(" "))
	if !ok || !named || !spaced || len(id) < hash || string(covers) != strconv.FormatUint(uint64(count), 10) {
		return ""
	}
	return hex.EncodeToString(id[:hash])
}

// parseIndex reads the paths in an index of version 2, 3 or 4 with so many
// bytes, of which a hash has so many (git, gitformat-index). ok is false for an
// index that is not well formed and for one whose entries are not all paths of
// its own: a split index and a sparse one have an extension that must be
// understood, which lower-case letters say.
func parseIndex(in io.Reader, size int64, hash int, keep func([]byte) bool) (paths []string, tree ID, ok bool) {
	b := bufio.NewReaderSize(in, 2*maxIndexPath)
	left := size - int64(hash) // what stands before the checksum
	take := func(n int) []byte {
		if left -= int64(n); left < 0 {
			return nil
		}
		data, err := b.Peek(n)
		if err != nil {
			return nil
		}
		_, _ = b.Discard(n)
		return data
	}
	head := take(12)
	if head == nil || string(head[:4]) != "DIRC" {
		return nil, "", false
	}
	version, count := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if version < 2 || version > 4 {
		return nil, "", false
	}
	path := make([]byte, 0, maxIndexPath)
	for range count {
		fixed := 40 + hash + 2
		entry := take(fixed)
		if entry == nil {
			return nil, "", false
		}
		if Mode(binary.BigEndian.Uint32(entry[24:])) == ModeTree {
			return nil, "", false // a sparse directory, whatever the extensions say
		}
		flags := binary.BigEndian.Uint16(entry[fixed-2:])
		if flags&0x4000 != 0 {
			more := take(2)
			if fixed += 2; version == 2 || more == nil || binary.BigEndian.Uint16(more)&^0x6000 != 0 {
				return nil, "", false // git knows two flags here, and refuses others
			}
		}
		if version == 4 {
			drop, ok := takeVarint(take)
			if !ok || drop > uint64(len(path)) {
				return nil, "", false
			}
			path = path[:len(path)-int(drop)]
		} else {
			path = path[:0]
		}
		rest, err := b.ReadSlice(0)
		if left -= int64(len(rest)); err != nil || left < 0 || len(path)+len(rest)-1 > maxIndexPath {
			return nil, "", false
		}
		path = append(path, rest[:len(rest)-1]...)
		if said := int(flags & 0xfff); len(path) == 0 || said != min(len(path), 0xfff) {
			return nil, "", false
		}
		if version != 4 {
			// One to eight NULs end a path; one of them is read.
			if pad := 7 - (fixed+len(path))%8; pad > 0 && take(pad) == nil {
				return nil, "", false
			}
		}
		if keep(path) {
			paths = append(paths, string(path))
		}
	}
	for left > 0 {
		ext := take(8)
		if ext == nil || ext[0] < 'A' || ext[0] > 'Z' {
			return nil, "", false
		}
		n := int64(binary.BigEndian.Uint32(ext[4:]))
		if string(ext[:4]) == "TREE" && left >= n {
			head := take(int(min(n, maxCachedRoot)))
			if head == nil {
				return nil, "", false
			}
			tree = cachedRoot(head, count, hash)
			n -= int64(len(head))
		}
		if left -= n; left < 0 {
			return nil, "", false
		}
		if _, err := io.CopyN(io.Discard, b, n); err != nil {
			return nil, "", false
		}
	}
	return paths, tree, true
}

// takeVarint reads a number as pack files hold offsets: seven bits a byte, the
// first ones first, one added for every byte that follows.
func takeVarint(take func(int) []byte) (n uint64, ok bool) {
	for i := range 4 {
		c := take(1)
		if c == nil {
			return 0, false
		}
		if i > 0 {
			n++
		}
		n = n<<7 | uint64(c[0]&0x7f)
		if c[0]&0x80 == 0 {
			return n, true
		}
	}
	return 0, false
}
