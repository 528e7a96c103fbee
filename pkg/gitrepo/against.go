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
	if x, ok = index(); !ok || x.mixed {
		return nil, nil, false
	}
	a := against{Repo: r, x: x}
	root, _ := x.cached(x.trees)
	if len(root.name) > 0 || root.covers > 0 && root.covers != len(x.at) {
		return nil, nil, false
	}
	// What lies in the top is compared one by one, whatever the index says of it as
	// a whole: so does git.
	if !a.dir(tree, "", 0, len(x.at), root, 0) {
		return nil, nil, false
	}
	slices.SortFunc(a.changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return a.changes, x, true
}

// indexAhead begins to read an index: a large one while the caller reads trees, which
// takes as long. The function that it returns waits for it.
func (r *Repo) indexAhead(file string) func() (*Index, bool) {
	const large = 1 << 20 // bytes; a smaller one is read before another thread is awake
	read := sync.OnceValues(func() (*Index, bool) { return readIndex(file, r.HashLen()/2) })
	if info, err := os.Stat(file); err == nil && info.Size() >= large {
		go read()
	}
	return read
}

// against is an index on its way through the trees of a commit.
type against struct {
	*Repo
	x       *Index
	changes []Change
}

// dir compares a directory, "" for none in the commit, with the entries [i,end) of
// the index, which all lie in it. cached is what the index says of its directories.
func (a *against) dir(id ID, prefix string, i, end int, cached cachedTree, depth int) bool {
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
	list, _, ok := a.x.children(cached, depth)
	if !ok {
		return false
	}
	known := cachedList{list: list}
	for k := 0; i < end || k < t.Len(); {
		// What is the same on both sides is passed over one entry at a time; the
		// next one of each side is compared by git's order of trees.
		var name []byte
		isDir, next, sub := false, i+1, cachedTree{}
		if i < end {
			path := a.x.name(i)
			name = path[len(prefix):]
			if slash := bytes.IndexByte(name, '/'); slash >= 0 {
				isDir, name = true, name[:slash]
				sub, _ = known.of(name)
				if next = a.dirEnd(sub, path[:len(prefix)+slash+1], i, end); next < 0 {
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
			if sub.covers <= 0 || !bytes.Equal(sub.id, old) {
				if !a.dir(hex.EncodeToString(old), prefix+string(name)+"/", i, to, sub, depth+1) {
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

// dirEnd returns the number of the first entry that does not lie in the directory of
// entry i, whose path has a slash at its end; -1 if the index contradicts itself.
func (a *against) dirEnd(cached cachedTree, dir []byte, i, end int) int {
	if c := cached.covers; c > 0 {
		to := i + c
		if to > end || !a.x.lies(to-1, dir) || to < end && a.x.lies(to, dir) {
			return -1
		}
		return to
	}
	return i + sort.Search(end-i, func(n int) bool { return !a.x.lies(i+n, dir) })
}
