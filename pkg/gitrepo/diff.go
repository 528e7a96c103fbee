package gitrepo

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// A Change is one path that differs between two trees. Directories are no
// paths of their own; a rename is a deletion and an addition.
type Change struct {
	Path             string // from the root, raw bytes, "/" between names
	OldMode, NewMode Mode   // ModeNone where the path is not there
	OldID, NewID     ID     // "" where the path is not there
}

// Added reports whether the path is only in the new tree.
func (c Change) Added() bool { return c.OldMode == ModeNone }

// Deleted reports whether the path is only in the old tree.
func (c Change) Deleted() bool { return c.NewMode == ModeNone }

// Limits of the differences of one commit against all of its parents. Trees can
// be made that name each other so often that they stand for more paths than a
// machine can hold.
const (
	MaxChanges   = 1 << 20  // paths and directories that differ
	MaxDepth     = 1024     // directories within each other
	maxPathBytes = 64 << 20 // text of the paths
)

// DiffTrees returns every path that differs between two trees, given by id,
// sorted by path. "" stands for the empty tree. Trees that are the same are
// not read. Errors are those of Tree, and ErrTooLarge.
func (r *Repo) DiffTrees(old, new ID) ([]Change, error) {
	d := []treeDiff{{old: old, new: new}}
	if err := r.diff(d, MaxChanges); err != nil {
		return nil, err
	}
	return d[0].changes, nil
}

// A Diff is what a commit changes against one of its parents.
type Diff struct {
	Parent  ID // "" for a root commit, whose diff is against the empty tree
	Changes []Change
}

// DiffCommit returns what a commit changes against each of its parents, in
// their order; against the empty tree if it has none.
func (r *Repo) DiffCommit(c *Commit) ([]Diff, error) {
	scanned, err := r.scanChunk([]*Commit{c}, map[ID]*Commit{c.ID: c}, MaxChanges)
	if err != nil {
		return nil, err
	}
	return scanned[0].Diffs, nil
}

// A treeDiff is one difference to be computed.
type treeDiff struct {
	old, new ID // "" is the empty tree
	changes  []Change
}

// A dirPair is a directory that differs.
type dirPair struct {
	diff     int // index of the treeDiff
	prefix   string
	old, new ID // "" if it isn't there
}

// levelBytes is about how many bytes of trees diff holds at a time.
const levelBytes = 8 << 20

// diff computes several differences together, level by level, so that one
// request reads many trees of a level. It is an ErrTooLarge if there are more
// than most changes in all of them, or too much text.
func (r *Repo) diff(diffs []treeDiff, most int) error {
	var level []dirPair
	for i, d := range diffs {
		if d.old != d.new {
			level = append(level, dirPair{i, "", d.old, d.new})
		}
	}
	count, text := 0, 0
	var room [2]Tree
	for depth := 0; len(level) > 0; depth++ {
		if depth > MaxDepth {
			return &Error{Kind: ErrTooLarge, Message: fmt.Sprintf("directories are nested deeper than %d", MaxDepth)}
		}
		var next []dirPair
		for part := range slices.Chunk(level, maxBatch/2) {
			err := r.pairs(part, func(p dirPair, old, new *Tree) error {
				d := &diffs[p.diff]
				before, dirs := len(d.changes), len(next)
				next = diffDir(old, new, p, &d.changes, next, &room)
				count += len(d.changes) - before + len(next) - dirs
				for _, ch := range d.changes[before:] {
					text += len(ch.Path)
				}
				for _, q := range next[dirs:] {
					text += len(q.prefix)
				}
				if count > most {
					return &Error{Kind: ErrTooLarge, Message: fmt.Sprintf("more than %d paths differ", most)}
				}
				if text > maxPathBytes {
					return &Error{Kind: ErrTooLarge, Message: fmt.Sprintf("the paths that differ have more than %d bytes", maxPathBytes)}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		level = next
	}
	for i := range diffs {
		slices.SortFunc(diffs[i].changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	}
	return nil
}

// pairs reads the trees of directories that differ and calls fn for each pair,
// in portions of about levelBytes.
func (r *Repo) pairs(level []dirPair, fn func(p dirPair, old, new *Tree) error) error {
	want := make([]wantTree, 0, 2*len(level))
	for _, p := range level {
		if p.old != "" {
			want = append(want, wantTree{p.old, p.new})
		}
		if p.new != "" {
			want = append(want, wantTree{p.new, p.old})
		}
	}
	sizes, err := r.treeSizes(want)
	if err != nil {
		return err
	}
	for len(level) > 0 {
		n, w, bytes, known := 0, 0, int64(0), weighed{}
		for ; n < len(level) && (n == 0 || bytes+int64(known.bytes) < levelBytes); n++ {
			for _, id := range []ID{level[n].old, level[n].new} {
				if id == "" {
					continue
				}
				if t := r.trees.get(id); t != nil {
					known.add(t)
				} else {
					bytes += sizes[id].size
				}
				w++
			}
		}
		trees, err := r.readTrees(want[:w], sizes)
		if err != nil {
			return err
		}
		for _, p := range level[:n] {
			if err := fn(p, trees[p.old], trees[p.new]); err != nil {
				return err
			}
		}
		level, want = level[n:], want[w:]
	}
	return nil
}

// diffDir compares one directory: entries that differ become changes, and
// directories that differ pairs of the next level. A nil tree is empty. room is for trees
// that nobody needs when it returns.
func diffDir(old, new *Tree, p dirPair, changes *[]Change, next []dirPair, room *[2]Tree) []dirPair {
	if old != nil && new != nil && old.holder().first() != new.holder().first() {
		old, new = old.wholeIn(&room[0]), new.wholeIn(&room[1]) // each entry is looked at
	}
	i, iEnd, j, jEnd := differing(old, new)
	var last ID // of neighbours with one content, the id is kept once
	hexID := func(raw []byte) ID {
		if len(last) != 2*len(raw) || !sameID(raw, last) {
			last = hex.EncodeToString(raw)
		}
		return last
	}
	leave := func(k int) {
		mode, name := old.modeName(k)
		if mode == ModeTree {
			next = append(next, dirPair{p.diff, p.prefix + string(name) + "/", hexID(old.rawID(k)), ""})
			return
		}
		*changes = append(*changes, Change{Path: p.prefix + string(name), OldMode: mode, OldID: hexID(old.rawID(k))})
	}
	enter := func(k int) {
		mode, name := new.modeName(k)
		if mode == ModeTree {
			next = append(next, dirPair{p.diff, p.prefix + string(name) + "/", "", hexID(new.rawID(k))})
			return
		}
		*changes = append(*changes, Change{Path: p.prefix + string(name), NewMode: mode, NewID: hexID(new.rawID(k))})
	}
	for i < iEnd && j < jEnd {
		if n := old.together(i, new, j); n > 0 { // these are the same entries
			i, j = i+n, j+n
			continue
		}
		oldMode, oldName := old.modeName(i)
		newMode, newName := new.modeName(j)
		c := compareNames(oldName, oldMode == ModeTree, newName, newMode == ModeTree)
		switch {
		case c < 0:
			leave(i)
			i++
			continue
		case c > 0:
			enter(j)
			j++
			continue
		}
		if oldID, newID := old.rawID(i), new.rawID(j); oldMode != newMode || !bytes.Equal(oldID, newID) {
			if oldMode == ModeTree {
				next = append(next, dirPair{p.diff, p.prefix + string(newName) + "/", hexID(oldID), hexID(newID)})
			} else {
				*changes = append(*changes, Change{p.prefix + string(newName), oldMode, newMode, hexID(oldID), hexID(newID)})
			}
		}
		i++
		j++
	}
	for ; i < iEnd; i++ {
		leave(i)
	}
	for ; j < jEnd; j++ {
		enter(j)
	}
	return next
}

// sameID reports whether text is the hexadecimal form of raw.
func sameID(raw []byte, text ID) bool {
	const digits = "0123456789abcdef"
	for i, b := range raw {
		if text[2*i] != digits[b>>4] || text[2*i+1] != digits[b&15] {
			return false
		}
	}
	return true
}

// differing returns the entries [i,iEnd) of old and [j,jEnd) of new outside of
// which the two are the same.
func differing(old, new *Tree) (i, iEnd, j, jEnd int) {
	if old == nil || new == nil {
		if old != nil {
			iEnd = old.Len()
		}
		if new != nil {
			jEnd = new.Len()
		}
		return 0, iEnd, 0, jEnd
	}
	if old.other != nil || new.other != nil {
		return 0, old.Len(), 0, new.Len()
	}
	pre, suf := 0, 0
	switch {
	case new.form.base == old.ID:
		pre, suf = new.form.pre, new.form.suf
	case old.form.base == new.ID:
		pre, suf = old.form.pre, old.form.suf
	default:
		// Entries of new begin where those of old do as far as both are the
		// same, because both are well formed from their begin; from the end
		// they need not be, as an id may look like an entry.
		pre, suf = old.common(new.raw)
		for suf > 0 {
			k := new.Len() - suf
			if k >= pre && len(new.raw)-int(new.offs[k]) == len(old.raw)-int(old.offs[old.Len()-suf]) {
				break
			}
			suf = 0
		}
	}
	return pre, old.Len() - suf, pre, new.Len() - suf
}
