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

// Added tells whether the path is only in the new tree.
func (c Change) Added() bool { return c.OldMode == ModeNone }

// Deleted tells whether the path is only in the old tree.
func (c Change) Deleted() bool { return c.NewMode == ModeNone }

// Limits of one difference. Trees can be made that name each other so often
// that they stand for more paths than a machine can hold.
const (
	MaxChanges = 1 << 20 // paths and directories that differ
	MaxDepth   = 1024    // directories within each other
)

// DiffTrees returns every path that differs between two trees, given by id,
// sorted by path. "" stands for the empty tree. Trees that are the same are
// not read. Errors are those of Tree, and ErrTooLarge.
func (r *Repo) DiffTrees(old, new ID) ([]Change, error) {
	d := []treeDiff{{old: old, new: new}}
	if err := r.diff(d); err != nil {
		return nil, err
	}
	return d[0].changes, nil
}

// ListTree returns every path below a tree, sorted, as additions.
func (r *Repo) ListTree(id ID) ([]Change, error) { return r.DiffTrees("", id) }

// A Diff is what a commit changes against one of its parents.
type Diff struct {
	Parent  ID // "" for a root commit, whose diff is against the empty tree
	Changes []Change
}

// DiffCommit returns what a commit changes against each of its parents, in
// their order; against the empty tree if it has none.
func (r *Repo) DiffCommit(c *Commit) ([]Diff, error) {
	scanned, err := r.scanChunk([]*Commit{c}, map[ID]*Commit{c.ID: c})
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

// diff computes several differences together, level by level, so that one
// request reads all trees of a level.
func (r *Repo) diff(diffs []treeDiff) error {
	var level []dirPair
	for i, d := range diffs {
		if d.old != d.new {
			level = append(level, dirPair{i, "", d.old, d.new})
		}
	}
	count := make([]int, len(diffs))
	for depth := 0; len(level) > 0; depth++ {
		if depth > MaxDepth {
			return &Error{Kind: ErrTooLarge, Message: fmt.Sprintf("directories are nested deeper than %d", MaxDepth)}
		}
		var next []dirPair
		want := make([]wantTree, 0, 2*len(level))
		for _, p := range level {
			if p.old != "" {
				want = append(want, wantTree{p.old, p.new})
			}
			if p.new != "" {
				want = append(want, wantTree{p.new, p.old})
			}
		}
		trees, err := r.readTrees(want)
		if err != nil {
			return err
		}
		for _, p := range level {
			d := &diffs[p.diff]
			before, dirs := len(d.changes), len(next)
			next = diffDir(trees[p.old], trees[p.new], p, &d.changes, next)
			if count[p.diff] += len(d.changes) - before + len(next) - dirs; count[p.diff] > MaxChanges {
				return &Error{Kind: ErrTooLarge, Message: fmt.Sprintf("more than %d paths differ", MaxChanges)}
			}
		}
		level = next
	}
	for i := range diffs {
		slices.SortFunc(diffs[i].changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	}
	return nil
}

// diffDir compares one directory: entries that differ become changes, and
// directories that differ pairs of the next level. A nil tree is empty.
func diffDir(old, new *Tree, p dirPair, changes *[]Change, next []dirPair) []dirPair {
	i, iEnd, j, jEnd := differing(old, new)
	leave := func(k int) {
		mode, name := old.modeName(k)
		if mode == ModeTree {
			next = append(next, dirPair{p.diff, p.prefix + string(name) + "/", hex.EncodeToString(old.rawID(k)), ""})
			return
		}
		*changes = append(*changes, Change{Path: p.prefix + string(name), OldMode: mode, OldID: hex.EncodeToString(old.rawID(k))})
	}
	enter := func(k int) {
		mode, name := new.modeName(k)
		if mode == ModeTree {
			next = append(next, dirPair{p.diff, p.prefix + string(name) + "/", "", hex.EncodeToString(new.rawID(k))})
			return
		}
		*changes = append(*changes, Change{Path: p.prefix + string(name), NewMode: mode, NewID: hex.EncodeToString(new.rawID(k))})
	}
	for i < iEnd && j < jEnd {
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
				next = append(next, dirPair{p.diff, p.prefix + string(newName) + "/", hex.EncodeToString(oldID), hex.EncodeToString(newID)})
			} else {
				*changes = append(*changes, Change{p.prefix + string(newName), oldMode, newMode, hex.EncodeToString(oldID), hex.EncodeToString(newID)})
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
