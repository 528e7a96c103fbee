package gitrepo

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// reads counts how often it is read from.
type reads struct {
	io.ReaderAt
	n int
}

func (r *reads) ReadAt(p []byte, at int64) (int, error) {
	r.n++
	return r.ReaderAt.ReadAt(p, at)
}

// TestFind: each id of an index is found where it is, and no other one, however they
// are spread; few reads lead to one of those that git makes.
func TestFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(id []byte) {
		for i := range id {
			id[i] = byte(rng.Uint32())
		}
	}
	for name, c := range map[string]struct {
		count int
		most  float64 // reads for one id, with that of its offset
		make  func(id []byte)
	}{
		"spread":            {200_000, 2.2, random},
		"few":               {300, 2, random},
		"none":              {0, 0, random},
		"one in each":       {256, 2, random},
		"of one first byte": {200_000, 3.5, func(id []byte) { random(id); id[0] = 7 }},
		"begin alike":       {50_000, 14, func(id []byte) { random(id); copy(id, "\x07same") }},
		"two heaps": {50_000, 14, func(id []byte) {
			random(id)
			copy(id, []byte{7, id[1] & 1 * 255, 0, 0, 0})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ids := make([][]byte, c.count)
			for i := range ids {
				ids[i] = make([]byte, 20)
				c.make(ids[i])
			}
			slices.SortFunc(ids, bytes.Compare)
			index := &reads{}
			p, room := &packFile{hash: 20, count: int64(len(ids))}, make([]byte, idsAtOnce*20)
			p.looked.Store(-1 << 40) // without a table first
			data := make([]byte, indexHead, indexHead+len(ids)*28)
			for _, id := range ids {
				data = append(data, id...)
				for b := int(id[0]); b < 256; b++ {
					p.fanout[b]++
				}
			}
			data = append(data, make([]byte, 4*len(ids))...) // checksums
			for i := range ids {
				data = binary.BigEndian.AppendUint32(data, uint32(i))
			}
			index.ReaderAt = bytes.NewReader(data)
			p.index = index
			for i, id := range ids {
				if at, ok := p.find(id, room); !ok || at != int64(i) {
					t.Fatalf("id %d of %d: %d, %t", i, len(ids), at, ok)
				}
			}
			if n := float64(index.n); n > c.most*float64(len(ids)) {
				t.Errorf("%.2f reads for each id, expected %g", n/float64(len(ids)), c.most)
			}
			absent := func() {
				id := make([]byte, 20)
				if c.make(id); rng.IntN(2) == 0 {
					random(id)
				}
				if _, here := slices.BinarySearchFunc(ids, id, bytes.Compare); here {
					return
				}
				if at, ok := p.find(id, room); ok {
					t.Fatalf("%x is not there and was found at %d", id, at)
				}
			}
			for range 1000 {
				absent()
			}
			p.looked.Store(tableAfter - 1)
			index.n = 0
			for i, id := range ids {
				if at, ok := p.find(id, room); !ok || at != int64(i) || p.table.Load() == nil {
					t.Fatalf("id %d of %d, by a table: %d, %t", i, len(ids), at, ok)
				}
			}
			if n := float64(index.n); n > 1.1*float64(len(ids))+3 && name != "begin alike" && name != "two heaps" {
				t.Errorf("%.2f reads for each id with a table", n/float64(len(ids)))
			}
			for range 1000 {
				absent()
			}
			index.n = 0
			for i, id := range ids {
				if at, ok := p.likely(id, room); !ok || at != int64(i) {
					t.Fatalf("id %d of %d is likely at %d, %t", i, len(ids), at, ok)
				}
				other := bytes.Clone(id)
				other[5+rng.IntN(15)] ^= 1
				if at, ok := p.likely(other, room); ok && (at >= int64(len(ids)) || !bytes.Equal(ids[at][:5], id[:5])) {
					t.Fatalf("%x is likely at %d of %d", other, at, len(ids))
				}
			}
			if index.n > len(ids)/100 && name != "begin alike" && name != "two heaps" {
				t.Errorf("%d reads for %d ids that may be wrong", index.n, len(ids))
			}
		})
	}
}
