package gitrepo

import (
	"slices"
	"sort"
)

// An overlay makes a Tree of another one that has nearly the same entries, so that
// neither time nor memory is spent on what the two share: a large directory is
// changed by commit after commit in one entry.
type overlay struct {
	base  *Tree // whole, without an overlay
	runs  []run
	count int // entries
	bytes int // of the object
}

// A run is entries in a row, of the base or of raw.
type run struct {
	first, pos int  // number of its first entry in the tree, and where that begins in the object
	from       int  // its number in the base, or in raw
	shared     bool // of the base
}

// Limits of an overlay. What is more becomes a whole tree again, on which the next
// ones are laid.
const (
	maxRuns    = 128
	maxOwn     = 8 << 10 // bytes of raw
	minOverlay = 4 << 10 // bytes of an object: a smaller one is as quickly copied
	roomOwn    = 128     // bytes that one more difference mostly adds
)

// run returns the run that has entry i, and the number of the entry there.
func (o *overlay) run(i int) (r run, from int) {
	n := sort.Search(len(o.runs), func(n int) bool { return o.runs[n].first > i }) - 1
	return o.runs[n], o.runs[n].from + i - o.runs[n].first
}

// origin tells of entry i which whole tree it is from, its number there, and how
// many entries from it on are in a row there; n is 0 for an entry of an overlay's own.
func (t *Tree) origin(i int) (whole *Tree, from, n int) {
	o := t.other
	if o == nil {
		return t, i, t.Len() - i
	}
	k := sort.Search(len(o.runs), func(k int) bool { return o.runs[k].first > i }) - 1
	if !o.runs[k].shared {
		return nil, 0, 0
	}
	return o.base, o.runs[k].from + i - o.runs[k].first, o.end(k) - i
}

// end returns the number of the entry behind run k.
func (o *overlay) end(k int) int {
	if k+1 < len(o.runs) {
		return o.runs[k+1].first
	}
	return o.count
}

// together returns how many entries of t from i on are those of u from j on, because
// both are of one tree; 0 if that is not known.
func (t *Tree) together(i int, u *Tree, j int) int {
	a, i, n := t.origin(i)
	b, j, m := u.origin(j)
	if n == 0 || m == 0 || i != j || &a.raw[0] != &b.raw[0] || len(a.raw) != len(b.raw) {
		return 0
	}
	return min(n, m)
}

// whole returns t without an overlay.
func (t *Tree) whole() *Tree { return t.wholeIn(&Tree{}) }

// wholeIn is whole, which may use the room of a tree that nobody needs any more.
func (t *Tree) wholeIn(w *Tree) *Tree {
	o := t.other
	if o == nil {
		return t
	}
	*w = Tree{ID: t.ID, hash: t.hash, raw: slices.Grow(w.raw[:0], o.bytes), offs: slices.Grow(w.offs[:0], o.count+1)}
	for k, r := range o.runs {
		src, to := t, r.from+o.end(k)-r.first
		if r.shared {
			src = o.base
		}
		delta := uint32(len(w.raw)) - src.offs[r.from]
		w.raw = append(w.raw, src.raw[src.offs[r.from]:src.offs[to]]...)
		for _, off := range src.offs[r.from:to] {
			w.offs = append(w.offs, off+delta)
		}
	}
	w.offs = append(w.offs, uint32(len(w.raw)))
	return w
}

// patch returns the tree that a pack stores as this difference to t, parsed as
// ParseTree would; nil if it is not a well-formed one, or cannot be made of whole
// entries of t. The id is to be set.
func (t *Tree) patch(delta []byte) *Tree {
	made := &struct {
		Tree
		overlay
	}{}
	made.hash, made.other = t.hash, &made.overlay
	b := patcher{of: t, base: t, t: &made.Tree}
	if made.runs = make([]run, 0, 4); t.other != nil {
		b.base = t.other.base
		made.runs = make([]run, 0, len(t.other.runs)+2)
		made.raw, made.offs = make([]byte, 0, len(t.raw)+roomOwn), make([]uint32, 0, len(t.offs)+2)
	}
	b.t.other.base = b.base
	from, to, delta, ok := deltaSizes(delta)
	if !ok || from != int64(t.stored()) || to > MaxTree || !eachDelta(delta, from, to, b.copy, b.add) ||
		!b.settle() || int64(b.t.other.bytes) != to {
		return nil
	}
	if t = b.t; !t.inOrder() {
		return nil
	}
	if len(t.other.runs) > maxRuns || len(t.raw) > maxOwn {
		return t.whole()
	}
	return t
}

// A patcher puts a tree together of entries of another one.
type patcher struct {
	of, base *Tree
	t        *Tree
	open     int // where in raw what is not known to be entries begins
}

// add adds bytes, which may begin or end within an entry. What is a whole tree in
// the end has few of them.
func (b *patcher) add(data []byte) bool {
	b.t.raw = append(b.t.raw, data...)
	return true
}

// settle makes entries of the bytes that were added; false if they are not whole ones.
func (b *patcher) settle() bool {
	t, o := b.t, b.t.other
	if b.open == len(t.raw) {
		return true
	}
	if n := len(t.offs); n > 0 {
		t.offs = t.offs[:n-1]
	}
	o.grow(run{from: len(t.offs)})
	for b.open < len(t.raw) {
		next, err := t.checkEntry(b.open)
		if err != nil {
			return false
		}
		t.offs = append(t.offs, uint32(b.open))
		o.count, o.bytes, b.open = o.count+1, o.bytes+next-b.open, next
	}
	t.offs = append(t.offs, uint32(len(t.raw)))
	return true
}

// grow begins a run with the next entry, unless that goes on with the last one.
func (o *overlay) grow(r run) {
	if n := len(o.runs) - 1; n >= 0 && o.runs[n].shared == r.shared && o.runs[n].from+o.count-o.runs[n].first == r.from {
		return
	}
	r.first, r.pos = o.count, o.bytes
	o.runs = append(o.runs, r)
}

// copy adds a part of the other tree's object.
func (b *patcher) copy(at, n int) bool {
	k := 0 // the run that holds at
	if o := b.of.other; o != nil {
		k = sort.Search(len(o.runs), func(k int) bool { return o.runs[k].pos > at }) - 1
	}
	for end := at + n; at < end; k++ {
		src, from, to, pos := b.of, 0, b.of.Len(), 0
		if o := b.of.other; o != nil {
			r := o.runs[k]
			from, to, pos = r.from, r.from+o.end(k)-r.first, r.pos
			if r.shared {
				src = b.base
			}
		}
		offs := src.offs[from : to+1]
		start := int(offs[0]) - pos // of src.raw, where the object would begin
		stop := min(end, int(offs[len(offs)-1])-start)
		if src != b.base {
			b.add(src.raw[at+start : stop+start])
			at = stop
			continue
		}
		// The entries that are in it whole.
		first := sort.Search(len(offs), func(i int) bool { return int(offs[i])-start >= at })
		last := sort.Search(len(offs), func(i int) bool { return int(offs[i])-start > stop }) - 1
		if first >= last {
			b.add(src.raw[at+start : stop+start])
			at = stop
			continue
		}
		b.add(src.raw[at+start : offs[first]])
		if !b.settle() {
			return false
		}
		o := b.t.other
		o.grow(run{from: from + first, shared: true})
		o.count, o.bytes = o.count+last-first, o.bytes+int(offs[last]-offs[first])
		b.add(src.raw[offs[last] : stop+start])
		at = stop
	}
	return true
}

// inOrder reports whether an overlay has its entries in git's order, no name twice:
// those of each run of the base are known to be.
func (t *Tree) inOrder() bool {
	for k, r := range t.other.runs {
		end := r.first + 1
		if !r.shared {
			end = t.other.end(k)
		}
		for i := r.first; i < end; i++ {
			if i > 0 && t.compare(i-1, i) >= 0 {
				return false
			}
		}
	}
	for k, r := range t.other.runs {
		for i := r.first; !r.shared && i < t.other.end(k); i++ {
			if mode, name := t.modeName(i); t.twin(name, mode, i) {
				return false
			}
		}
	}
	return true
}
