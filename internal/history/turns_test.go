package history

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// turnOf makes one of a few hashes and kinds.
func turnOf(random *rand.Rand, n int, ids int) (t Turn) {
	t.Kind = Kind(random.IntN(16))
	if t.Kind&Fenced != 0 {
		t.Hash[0], t.Hash[31] = byte(1+random.IntN(40)), 1
	}
	for i := range ids {
		t.Blob[i] = byte(n >> (8 * (i % 3)))
	}
	return t
}

func sorted(turns []Turn) []Turn {
	turns = slices.Clone(turns)
	slices.SortFunc(turns, func(a, b Turn) int {
		return cmp.Or(bytes.Compare(a.Hash[:], b.Hash[:]), bytes.Compare(a.Blob[:], b.Blob[:]))
	})
	return slices.Compact(turns)
}

// turnAnswers asks a thread everything; ok is false once it says that it is damaged.
func turnAnswers(t *Thread) (all []Turn, hashes [42][]Turn, kinds [64][]Turn, ok bool) {
	if all, ok = t.All(); !ok {
		return
	}
	for h := range hashes {
		var hash [32]byte
		hash[0], hash[31] = byte(h), 1
		if hashes[h], ok = t.WithHash(hash); !ok {
			return
		}
		hashes[h] = sorted(hashes[h])
	}
	for k := range kinds {
		if k&int(Closes|Freezes|Relay) == 0 {
			continue
		}
		if kinds[k], ok = t.Of(Kind(k) & (Closes | Freezes | Relay)); !ok {
			return
		}
		kinds[k] = sorted(kinds[k])
	}
	return sorted(all), hashes, kinds, true
}

// TestTurns: what is kept answers as if all of it were gone through, from the disk
// again, and in both forms of ids; and another scope or format has nothing of it.
func TestTurns(t *testing.T) {
	for format, ids := range map[string]int{"sha1": 20, "sha256": 32} {
		random := rand.New(rand.NewPCG(1, 1))
		dir := filepath.Join(t.TempDir(), "rigward")
		var model []Turn
		for round := range 12 {
			x := &Turns{Dir: dir, Format: format, Scope: "scope", Recent: 200}
			th := x.Thread("t-one")
			for range random.IntN(400) {
				turn := turnOf(random, len(model), ids)
				model = append(model, turn)
				th.Add([]Turn{turn})
			}
			th.Cover(fmt.Sprintf("%0*x", 2*ids, round+1), round%2 == 0)
			if err := x.Save(); err != nil {
				t.Fatal(err)
			}
			x.Close()
			th = x.Thread("t-one")
			all, hashes, kinds, ok := turnAnswers(th)
			if !ok || !reflect.DeepEqual(all, sorted(model)) {
				t.Fatalf("%s, round %d: %v, %d of %d", format, round, ok, len(all), len(model))
			}
			for h, got := range hashes {
				want := slices.DeleteFunc(slices.Clone(all), func(r Turn) bool { return r.Hash[0] != byte(h) || r.Hash[31] != 1 })
				if !slices.Equal(got, want) {
					t.Errorf("%s, round %d: hash %d: %d, expected %d", format, round, h, len(got), len(want))
				}
			}
			for k, got := range kinds {
				want := slices.DeleteFunc(slices.Clone(all), func(r Turn) bool { return r.Kind&Kind(k)&(Closes|Freezes|Relay) == 0 })
				if !slices.Equal(got, want) {
					t.Errorf("%s, round %d: kinds %d: %d, expected %d", format, round, k, len(got), len(want))
				}
			}
			for n := range round + 2 {
				known, some := th.Covers(fmt.Sprintf("%0*x", 2*ids, n+1))
				if known != (n <= round) || some != (known && n%2 == 0) {
					t.Errorf("%s, round %d: tree %d: %v %v", format, round, n, known, some)
				}
			}
			x.Close()
			for _, other := range []*Turns{{Dir: dir, Format: format, Scope: "another"}, {Dir: dir, Format: map[string]string{"sha1": "sha256", "sha256": "sha1"}[format], Scope: "scope"}, {Format: format, Scope: "scope"}} {
				if n := other.Thread("t-one").Len(); n != 0 {
					t.Errorf("%v has %d records of it", other, n)
				}
			}
		}
		if files, _ := os.ReadDir(filepath.Join(dir, "threads")); len(files) != 2 {
			t.Errorf("%s: %d files, expected one and its base", format, len(files))
		}
	}
}

// TestDamagedTurns: where a byte is another, or files are cut or of two times, an
// answer is right or none.
func TestDamagedTurns(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	dir := filepath.Join(t.TempDir(), "rigward")
	x := &Turns{Dir: dir, Format: "sha1", Recent: 100}
	const tree = "0123456789012345678901234567890123456789"
	fill := func(n int) {
		th := x.Thread("t-one")
		for i := range n {
			th.Add([]Turn{turnOf(random, th.Len()+i, 20)})
		}
		th.Cover(tree, true)
		if err := x.Save(); err != nil {
			t.Fatal(err)
		}
	}
	fill(900)
	fill(50)
	x.Close()
	wantAll, wantHashes, wantKinds, ok := turnAnswers(x.Thread("t-one"))
	if !ok || len(wantAll) < 900 {
		t.Fatal(ok, len(wantAll))
	}
	x.Close()
	entries, err := os.ReadDir(filepath.Join(dir, "threads"))
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	refused := 0
	for _, e := range entries {
		name := filepath.Join(dir, "threads", e.Name())
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 150 {
			data := slices.Clone(whole)
			switch random.IntN(4) {
			case 0:
				data = data[:random.IntN(len(data))]
			default:
				data[random.IntN(len(data))] ^= 1 << random.IntN(8)
			}
			if err := os.WriteFile(name, data, 0o644); err != nil {
				t.Fatal(err)
			}
			th := x.Thread("t-one")
			known, _ := th.Covers(tree)
			all, hashes, kinds, ok := turnAnswers(th)
			if !ok {
				known, _ = th.Covers(tree)
			}
			if !known {
				refused++
			} else if !ok || !slices.Equal(all, wantAll) || !reflect.DeepEqual(hashes, wantHashes) || !reflect.DeepEqual(kinds, wantKinds) {
				t.Fatalf("%s: a damaged file says that it knows a tree, and answers %v", e.Name(), ok)
			}
			x.Close()
		}
		if err := os.WriteFile(name, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if refused != 300 {
		t.Errorf("%d of 300 damaged files were found", refused)
	}
}

// FuzzTurnsHead: what is read of a head is what writes these bytes again, and never more
// records than its pages have.
func FuzzTurnsHead(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 3))
	for _, format := range []string{"sha1", "sha256"} {
		x := &Turns{Format: format}
		th := x.Thread("t-one")
		f.Add(th.encodeHead(), format)
		th.Add([]Turn{turnOf(random, 1, x.idLen()), turnOf(random, 2, x.idLen())})
		th.Cover("01234567", true)
		th.head.pages, th.head.counts = make([][16]byte, 2), [3]int{300, 2, 1}
		f.Add(th.encodeHead(), format)
	}
	f.Fuzz(func(t *testing.T, head []byte, format string) {
		x := &Turns{Format: format}
		if len(head) >= 32 { // or the digest alone refuses it
			sum := sha256.Sum256(head[:len(head)-32])
			head = append(head[:len(head)-32:len(head)-32], sum[:]...)
		}
		h, recent, ok := x.decodeHead(head)
		if !ok {
			return
		}
		if n := h.counts[0] + h.counts[1] + h.counts[2]; n > len(h.pages)*(pageSize/x.recordLen()) {
			t.Fatalf("%d records in %d pages", n, len(h.pages))
		}
		th := &Thread{of: x, head: h, recent: recent}
		again, _, ok := x.decodeHead(th.encodeHead())
		if !ok || !reflect.DeepEqual(again, h) {
			t.Fatalf("%v, written and read again: %v %v", h, again, ok)
		}
	})
}
