package gitrepo

import (
	"bytes"
	"encoding/hex"
	"slices"
	"sort"
	"strings"
)

// plainStaged is askStaged without a process: the index beside the trees of a
// commit or tree. A directory of which the index says that it is the tree is not
// read. ok is false where git has to say.
func (r *Repo) plainStaged(base ID) (changes []Change, x *Index, ok bool) {
	file, ok := r.indexFile()
	if !ok || !r.knownGit() {
		return nil, nil, false
	}
	x, ok = readIndex(file, r.HashLen()/2)
	if !ok {
		return nil, nil, false
	}
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
	for i := range x.at {
		if x.stage(i) != 0 {
			return nil, nil, false
		}
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
	known, _, ok := a.x.children(cached, depth)
	if !ok {
		return false
	}
	byName := make(map[string]cachedTree, len(known))
	for _, c := range known {
		byName[string(c.name)] = c
	}
	for k := 0; i < end || k < t.Len(); {
		// What is the same on both sides is passed over one entry at a time; the
		// next one of each side is compared by git's order of trees.
		var name []byte
		isDir, next := false, i+1
		if i < end {
			name = a.x.name(i)[len(prefix):]
			if slash := bytes.IndexByte(name, '/'); slash >= 0 {
				isDir, name = true, name[:slash]
				if next = a.dirEnd(byName, prefix, name, i, end); next < 0 {
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
		path := prefix
		if c <= 0 {
			path += string(name)
		} else {
			path += string(there)
		}
		old := ID("")
		if c >= 0 {
			old = hex.EncodeToString(t.rawID(k))
			k++
			if mode == ModeGroupWritable {
				mode = ModeFile // as git reads it
			}
		}
		switch {
		case c <= 0 && isDir, c > 0 && mode == ModeTree:
			to, sub := i, cachedTree{}
			if c <= 0 {
				to, sub = next, byName[string(name)]
			}
			if sub.covers <= 0 || sub.id != old {
				if !a.dir(old, path+"/", i, to, sub, depth+1) {
					return false
				}
			}
			i = to
		case c > 0:
			a.changes = append(a.changes, Change{Path: path, OldMode: mode, OldID: old})
		default:
			e := a.x.Entry(i)
			i++
			if c < 0 {
				mode, old = ModeNone, ""
			}
			if e.Mode != mode || e.ID != old {
				a.changes = append(a.changes, Change{path, mode, e.Mode, old, e.ID})
			}
		}
	}
	return true
}

// dirEnd returns the number of the first entry that does not lie in a directory,
// -1 if the index contradicts itself.
func (a *against) dirEnd(known map[string]cachedTree, prefix string, name []byte, i, end int) int {
	dir := append(append([]byte(prefix), name...), '/')
	in := func(n int) bool { return bytes.HasPrefix(a.x.name(n), dir) }
	if c, ok := known[string(name)]; ok && c.covers > 0 {
		to := i + c.covers
		if to > end || !in(to-1) || to < end && in(to) {
			return -1
		}
		return to
	}
	return i + sort.Search(end-i, func(n int) bool { return !in(i + n) })
}
