package rules

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestChains holds chains against a map of lists.
func TestChains(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		c, want := newChains(), map[uint64][]int32{}
		for n := range int32(1 + random.IntN(200)) {
			key := uint64(random.IntN(40))
			c.add(key)
			want[key] = append(want[key], n)
		}
		for key := range uint64(41) {
			if got := slices.Collect(c.of(key)); !slices.Equal(got, want[key]) {
				t.Fatalf("of %d: %v, expected %v", key, got, want[key])
			}
			for most := range 8 {
				if got := c.many(key, most); got != (len(want[key]) > most) {
					t.Fatalf("%d has %d numbers, more than %d: %t", key, len(want[key]), most, got)
				}
			}
		}
	}
}
