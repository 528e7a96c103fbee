package rules

import "iter"

// chains find numbers by a key, in the order in which they were added, with
// little memory where most keys have one. The zero value is not usable.
type chains struct {
	ends map[uint64][2]int32 // by key, the first number and the last
	next []int32             // by number, that which follows it with the same key; itself at the end
}

func newChains() *chains { return &chains{ends: map[uint64][2]int32{}} }

// add adds the number that follows the last one added, from 0 on.
func (c *chains) add(key uint64) {
	n := int32(len(c.next))
	c.next = append(c.next, n)
	at, known := c.ends[key]
	if !known {
		at[0] = n
	} else {
		c.next[at[1]] = n
	}
	at[1] = n
	c.ends[key] = at
}

// of yields the numbers of a key.
func (c *chains) of(key uint64) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		at, known := c.ends[key]
		for n := at[0]; known; n = c.next[n] {
			if !yield(n) || c.next[n] == n {
				return
			}
		}
	}
}

// many reports whether a key has more than so many numbers.
func (c *chains) many(key uint64, most int) bool {
	for range c.of(key) {
		if most--; most < 0 {
			return true
		}
	}
	return false
}
