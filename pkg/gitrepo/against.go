package gitrepo

import (
	"bytes"
	"encoding/hex"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
)

// plainStaged is askStaged without a process: the index beside the trees of a
// commit or tree. A directory of which the index says that it is the tree is not
// read. ok is false where git has to say.
func (r *Repo) plainStaged(base ID) (changes []Change, x *Index, ok bool) {
	file, ok := r.indexFile()
	if !ok || !r.knownGit() {
		return nil, nil, false
	}
	index := r.indexAhead(file)
	tree := base
	if base != r.EmptyTree() {
		typ, data, err := r.Object(base, MaxCommit)
		if err != nil {
			return nil, nil, false
		}
		if typ == "commit" {
			c, err := ParseCommit(base, data)
			if err != nil {
				return nil, nil, false
			}
			tree = c.Tree
		} else if typ != "tree" {
			return nil, nil, false
		}
	}
	if _, err := r.Tree(tree); err != nil { // keeps it for dir
		return nil, nil, false
	}
	read := index()
	if x = read.Index; x == nil || x.mixed {
		return nil, nil, false
	}
	a := against{Repo: r, x: x}
	// What lies in the top is compared one by one, whatever the index says of it as
	// a whole: so does git.
	if !a.dir(tree, "", 0, len(x.at), read.list, 0) {
		return nil, nil, false
	}
	slices.SortFunc(a.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return a.changes, x, true
}

// indexAhead begins to read an index, and what it says of the directories in the top: a
// large one while the caller reads trees, which takes as long. The function that it
// returns waits for it; there is no Index where git has to say.
func (r *Repo) indexAhead(file string) func() cachedList {
	const large = 200 << 10 // bytes; a smaller one is read before another thread is awake
	read := sync.OnceValue(func() (l cachedList) {
		x, ok := readIndex(file, r.HashLen()/2)
		if !ok {
			return l
		}
		root, _ := x.cached(0)
		if root.name > 0 || root.covers > 0 && int(root.covers) != len(x.at) {
			return l
		}
		if l.list, _, ok = x.children(root, 0); ok {
			l.Index = x
		}
		return l
	})
	if info, err := os.Stat(file); err == nil && info.Size() >= large {
		go read()
	}
	return read
}

// against is an index on its way through the trees of a commit.
type against struct {
	*Repo
	x       *Index
	top     int // which of the names in the top was looked at last
	changes []Change
}

// dir compares a directory, "" for none in the commit, with the entries [i,end) of
// the index, which all lie in it. list is what the index says of its directories.
func (a *against) dir(id ID, prefix string, i, end int, list []cachedTree, depth int) bool {
	if depth > MaxDepth || len(a.changes) > MaxChanges {
		return false
	}
	t := &Tree{offs: []uint32{0}}
	if id != "" {
		var err error
		if t, err = a.Tree(id); err != nil {
			return false
		}
	}
	known := cachedList{Index: a.x, list: list}
	for k := 0; i < end || k < t.Len(); {
		// What is the same on both sides is passed over one entry at a time; the
		// next one of each side is compared by git's order of trees.
		var name []byte
		isDir, next, sub := false, i+1, cachedTree{}
		if i < end {
			if name, isDir, next = a.nameAt(i, end, len(prefix)); isDir {
				if sub, _ = known.of(name); depth > 0 {
					next = a.dirEnd(sub, i, end, len(prefix)+len(name)+1)
				}
				if next < 0 || sub.covers > 0 && i+int(sub.covers) != next {
					return false
				}
			} else if a.x.intended(i) {
				i++
				continue
			}
		}
		c := -1
		var mode Mode
		var there []byte
		if k < t.Len() {
			mode, there = t.modeName(k)
			if c = 1; i < end {
				c = compareNames(name, isDir, there, mode == ModeTree)
			}
		}
		if c > 0 {
			name = there
		}
		var old []byte // of the commit
		if c >= 0 {
			old = t.rawID(k)
			k++
			if mode == ModeGroupWritable {
				mode = ModeFile // as git reads it
			}
		}
		switch {
		case c <= 0 && isDir, c > 0 && mode == ModeTree:
			to := next
			if c > 0 {
				to, sub = i, cachedTree{}
			}
			if sub.covers <= 0 || !bytes.Equal(a.x.cachedID(sub), old) {
				list, _, ok := a.x.children(sub, depth+1)
				if !ok || !a.dir(hex.EncodeToString(old), prefix+string(name)+"/", i, to, list, depth+1) {
					return false
				}
			}
			i = to
		case c > 0:
			a.changes = append(a.changes, Change{Path: prefix + string(name), OldMode: mode, OldID: hex.EncodeToString(old)})
		default:
			if c < 0 {
				mode = ModeNone
			}
			if a.x.mode(i) != mode || !bytes.Equal(a.x.rawID(i), old) {
				e := a.x.Entry(i)
				a.changes = append(a.changes, Change{e.Path, mode, e.Mode, hex.EncodeToString(old), e.ID})
			}
			i++
		}
	}
	return true
}

// nameAt returns the name of entry i below a directory whose path has so many bytes, or that of the
// directory in it in which the entry lies. In the top, next is the first entry that
// does not lie in that.
func (a *against) nameAt(i, end, prefix int) (name []byte, isDir bool, next int) {
	if prefix > 0 {
		name = a.x.name(i)[prefix:]
		if slash := bytes.IndexByte(name, '/'); slash >= 0 {
			return name[:slash], true, -1
		}
		return name, false, i + 1
	}
	x := a.x
	for a.top+1 < len(x.tops) && int(x.tops[a.top+1].first) <= i {
		a.top++
	}
	from := uint32(0)
	if a.top > 0 {
		from = x.tops[a.top-1].end
	}
	if next = end; a.top+1 < len(x.tops) {
		next = int(x.tops[a.top+1].first)
	}
	name = x.named[from:x.tops[a.top].end]
	if name[len(name)-1] == '/' {
		return name[:len(name)-1], true, next
	}
	return name, false, next
}

// dirEnd returns the number of the first entry that does not lie in the directory of
// entry i, whose path has so many bytes with its slash; -1 if the index contradicts
// itself.
func (a *against) dirEnd(cached cachedTree, i, end, dir int) int {
	path := a.x.name(i)[:dir]
	if c := int(cached.covers); c > 0 {
		to := i + c
		if to > end || !a.x.lies(to-1, path) || to < end && a.x.lies(to, path) {
			return -1
		}
		return to
	}
	return i + sort.Search(end-i, func(n int) bool { return !a.x.lies(i+n, path) })
}
