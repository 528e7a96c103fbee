package rules

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// An oid is an object id, or the hash of a body, in binary; what follows a
// SHA-1 id is zero.
type oid [32]byte

// begin is the first part of an oid, as a key.
func (o oid) begin() uint64 { return binary.LittleEndian.Uint64(o[:]) }

// oidOf returns the oid of 40 or 64 hexadecimal digits.
func oidOf(id string) (o oid) {
	_, _ = hex.Decode(o[:], []byte(id))
	return o
}

// hashOf returns the oid of 64 lower-case hexadecimal digits, zero for any
// other text.
func hashOf(text string) oid {
	if len(text) != 64 || strings.Trim(text, "0123456789abcdef") != "" {
		return oid{}
	}
	return oidOf(text)
}

// A walk holds the commits of a range, by number: parents come before their
// children. It is what later commits need to know of earlier ones, in few bytes
// for each, so that a whole history can be judged in portions.
//
// A parent that is no commit of the range is one of the bounds; where numbers
// of parents are kept, bound i is ^i.
type walk struct {
	digits int // of an id
	ids    []oid
	number map[oid]int32
	ends   []int32 // where each commit's parents end in parents
	links  []int32 // the parents of all commits, one after another
	chains []chain
	tips   []int32   // the last commit of each chain so far
	below  []int32   // the set of bounds that each commit descends from
	sets   [][]int32 // each sorted
	weight int       // members of all sets

	bounds  []bound
	boundAt map[oid]int32

	reach map[int32][]uint64 // bits of the ancestors of a commit, where they were asked for
}

// A bound is a commit just outside a range.
type bound struct {
	id, tree string
	when     int64 // committer date
	set      int32 // that holds it alone
	trusted  bool  // it is or contains the commit whose policy counts
}

// A chain is a run of commits of which each is the first parent of the next;
// most histories are one.
type chain struct{ id, pos int32 }

func newWalk(digits int) *walk {
	return &walk{digits: digits, number: map[oid]int32{}, boundAt: map[oid]int32{}, sets: [][]int32{nil}}
}

func (w *walk) len() int { return len(w.ids) }

// merges reports whether some commit has several parents.
func (w *walk) merges() bool {
	for n := range int32(len(w.ids)) {
		if len(w.parents(n)) > 1 {
			return true
		}
	}
	return false
}

// id returns the id of commit n.
func (w *walk) id(n int32) string { return hex.EncodeToString(w.ids[n][:w.digits/2]) }

// parents returns the numbers of the parents of commit n.
func (w *walk) parents(n int32) []int32 {
	start := int32(0)
	if n > 0 {
		start = w.ends[n-1]
	}
	return w.links[start:w.ends[n]]
}

// find returns the number of a commit of the range or, as ^i, of a bound; ok is
// false for any other commit.
func (w *walk) find(id string) (n int32, ok bool) {
	o := oidOf(id)
	if n, ok = w.number[o]; ok {
		return n, true
	}
	i, ok := w.boundAt[o]
	return ^i, ok
}

// add puts a commit behind all others; its parents that are not among them are
// bounds.
func (w *walk) add(rev gitrepo.Rev) {
	n := int32(len(w.ids))
	for _, p := range rev.Parents {
		number, ok := w.find(p)
		if !ok {
			number = ^w.addBound(p)
		}
		w.links = append(w.links, number)
	}
	o := oidOf(rev.ID)
	w.ids, w.number[o] = append(w.ids, o), n
	w.ends = append(w.ends, int32(len(w.links)))
	parents := w.parents(n)
	c := chain{id: int32(len(w.tips))}
	if len(parents) > 0 && parents[0] >= 0 {
		if first := w.chains[parents[0]]; w.tips[first.id] == parents[0] {
			c = chain{first.id, first.pos + 1}
		}
	}
	if c.pos == 0 {
		w.tips = append(w.tips, n)
	} else {
		w.tips[c.id] = n
	}
	w.chains = append(w.chains, c)
	w.below = append(w.below, w.join(parents))
}

func (w *walk) addBound(id string) int32 {
	i := int32(len(w.bounds))
	w.bounds = append(w.bounds, bound{id: id, set: int32(len(w.sets))})
	w.sets = append(w.sets, []int32{i})
	w.boundAt[oidOf(id)] = i
	return i
}

// join returns the set of what parents descend from. Commits that descend from
// the same share one set.
func (w *walk) join(parents []int32) int32 {
	var parts []int32 // sets of the parents, each once
	for _, p := range parents {
		parts = append(parts, w.setOf(p))
	}
	slices.Sort(parts)
	parts = slices.Compact(parts)
	largest, size := int32(0), 0
	for _, part := range parts {
		if size += len(w.sets[part]); len(w.sets[part]) > len(w.sets[largest]) {
			largest = part
		}
	}
	if len(parts) < 2 || size == len(w.sets[largest]) {
		return largest
	}
	all := make([]int32, 0, size)
	for _, part := range parts {
		all = append(all, w.sets[part]...)
	}
	slices.Sort(all)
	all = slices.Clip(slices.Compact(all))
	if len(all) == len(w.sets[largest]) {
		return largest // which holds the others
	}
	w.sets = append(w.sets, all)
	w.weight += len(all)
	return int32(len(w.sets) - 1)
}

// setOf returns the set of bounds that a commit is or descends from.
func (w *walk) setOf(n int32) int32 {
	if n < 0 {
		return w.bounds[^n].set
	}
	return w.below[n]
}

// boundIDs returns the ids of all bounds.
func (w *walk) boundIDs() []string {
	ids := make([]string, len(w.bounds))
	for i, b := range w.bounds {
		ids[i] = b.id
	}
	return ids
}

// revs yields the commits as they were added.
func (w *walk) revs(yield func(gitrepo.Rev, error) bool) {
	for n := range int32(len(w.ids)) {
		if !yield(gitrepo.Rev{ID: w.id(n)}, nil) {
			return
		}
	}
}

// maxReach is how many sets of ancestors are kept; each has a bit for every
// commit of the range.
const maxReach = 64

// ancestor reports whether commit a is an ancestor of commit b.
func (w *walk) ancestor(a, b int32) bool {
	if a >= b {
		return false
	}
	if ca, cb := w.chains[a], w.chains[b]; ca.id == cb.id {
		return ca.pos < cb.pos
	}
	inside, known := w.reach[b]
	if !known {
		inside = make([]uint64, b/64+1)
		mark := func(n int32) {
			for _, p := range w.parents(n) {
				if p >= 0 {
					inside[p/64] |= 1 << (p % 64)
				}
			}
		}
		mark(b)
		for n := b - 1; n >= 0; n-- {
			if inside[n/64]&(1<<(n%64)) != 0 {
				mark(n)
			}
		}
		if w.reach == nil || len(w.reach) >= maxReach {
			w.reach = map[int32][]uint64{}
		}
		w.reach[b] = inside
	}
	return inside[a/64]&(1<<(a%64)) != 0
}
