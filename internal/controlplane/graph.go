package controlplane

import (
	"slices"
	"sort"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// A graph is a range of commits, parents before children, and answers which of
// two is in the history of the other. First parents form chains, so that a
// history without merges is answered by comparing two numbers.
type graph struct {
	index  map[string]int // of a commit in the range
	chain  []int32
	height []int32    // position in the chain
	sides  [][]side   // of each chain, by height: where others flow in
	below  []int32    // which of belows are the older commits it descends from
	belows [][]string // of commits outside the range
	memo   int        // the commit that best belongs to, -1 for none
	best   map[int32]int32
}

// A side is a parent of a commit that is not the one below it in its chain.
type side struct{ height, parent int32 }

func newGraph(revs []gitrepo.Rev) *graph {
	n := len(revs)
	g := &graph{index: make(map[string]int, n), chain: make([]int32, n), height: make([]int32, n), below: make([]int32, n), belows: [][]string{nil}, memo: -1}
	var tops []int // topmost commit of each chain
	for i, rev := range revs {
		g.index[rev.ID] = i
		c := int32(len(tops))
		if len(rev.Parents) > 0 {
			if p, inside := g.index[rev.Parents[0]]; inside && tops[g.chain[p]] == p {
				c = g.chain[p]
				g.height[i] = g.height[p] + 1
			}
		}
		if int(c) == len(tops) {
			tops, g.sides = append(tops, i), append(g.sides, nil)
		}
		tops[c], g.chain[i] = i, c
		for k, id := range rev.Parents {
			p, inside := g.index[id]
			if inside && (k > 0 || g.height[i] == 0) {
				g.sides[c] = append(g.sides[c], side{g.height[i], int32(p)})
			}
			switch {
			case k == 0 && inside:
				g.below[i] = g.below[p]
			case inside:
				g.descend(i, g.belows[g.below[p]])
			default:
				g.descend(i, []string{id})
			}
		}
	}
	return g
}

// descend adds older commits to those that commit i descends from.
func (g *graph) descend(i int, older []string) {
	all := g.belows[g.below[i]]
	n := len(all)
	for _, id := range older {
		if !slices.Contains(all[:n], id) {
			all = append(all[:len(all):len(all)], id)
		}
	}
	if len(all) > n {
		g.below[i] = int32(len(g.belows))
		g.belows = append(g.belows, all)
	}
}

// before reports whether commit a of the range is in the history of commit b of
// the range, without b itself.
func (g *graph) before(a, b int) bool {
	if a >= b {
		return false
	}
	if g.chain[a] == g.chain[b] {
		return g.height[a] < g.height[b]
	}
	if g.memo != b {
		g.memo, g.best = b, g.reach(b)
	}
	best, ok := g.best[g.chain[a]]
	return ok && g.height[a] <= best
}

// reach returns up to which height each chain is in the history of a commit.
func (g *graph) reach(c int) map[int32]int32 {
	best := map[int32]int32{}
	for todo := []int32{int32(c)}; len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		chain, height := g.chain[n], g.height[n]
		seen, ok := best[chain]
		if !ok {
			seen = -1
		}
		if height <= seen {
			continue
		}
		best[chain] = height
		sides := g.sides[chain]
		for _, s := range sides[sort.Search(len(sides), func(i int) bool { return sides[i].height > seen }):] {
			if s.height > height {
				break
			}
			todo = append(todo, s.parent)
		}
	}
	return best
}

// frontier returns the commits of revs[:n] that have no child among them.
func frontier(revs []gitrepo.Rev, n int) []string {
	parent := map[string]bool{}
	for _, rev := range revs[:n] {
		for _, p := range rev.Parents {
			parent[p] = true
		}
	}
	var out []string
	for _, rev := range revs[:n] {
		if !parent[rev.ID] {
			out = append(out, rev.ID)
		}
	}
	return out
}
