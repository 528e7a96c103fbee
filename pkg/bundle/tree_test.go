package bundle

import (
	"encoding/hex"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/portable"
)

// plainTree judges a tree by the words of CheckTree's comment: the codes and
// paths of what it finds.
func plainTree(names []Name) (found []string) {
	types := map[string]Type{}
	for _, n := range names {
		types[n.Path] = n.Type
	}
	done := map[string]bool{}
	var all []string // paths, and before them their parents that were not implied yet
	implied := map[string]bool{}
	for _, n := range names {
		var above []string
		for dir := path.Dir(n.Path); dir != "."; dir = path.Dir(dir) {
			above = append([]string{dir}, above...)
		}
		for _, dir := range slices.Backward(above) {
			if done[dir] {
				break
			}
			switch types[dir] {
			case File, Hardlink:
				found = append(found, MemberConflict+" "+n.Path)
			case Symlink:
				found = append(found, MemberThroughLink+" "+n.Path)
			default:
				done[dir] = true
				continue
			}
			break
		}
		for _, dir := range above {
			if !implied[dir] {
				implied[dir] = true
				all = append(all, dir)
			}
		}
		all = append(all, n.Path)
	}
	if len(found) > 0 {
		return found
	}
	first := map[string]string{}
	for _, p := range all {
		if key := portable.SimpleFold(p); first[key] == "" {
			first[key] = p
		} else if first[key] != p {
			found = append(found, MemberCaseCollision+" "+p)
		}
	}
	return found
}

func TestCheckTree(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "A", "b", "ß", "ſ", "s", "S", "c.d", "K", "k"}
	kinds := []Type{File, File, File, Dir, Symlink, Hardlink}
	faults := 0
	for range 5000 {
		var names []Name
		used := map[string]bool{}
		for range 1 + rnd.IntN(6) {
			p := words[rnd.IntN(len(words))]
			for rnd.IntN(2) == 0 {
				p += "/" + words[rnd.IntN(len(words))]
			}
			if !used[p] {
				used[p] = true
				names = append(names, Name{p, kinds[rnd.IntN(len(kinds))]})
			}
		}
		var got []string
		for _, f := range CheckTree(names, portable.SimpleFold) {
			got = append(got, f.Code+" "+f.Path)
		}
		if want := plainTree(names); !slices.Equal(got, want) {
			t.Fatalf("%v\n got %q\nwant %q", names, got, want)
		}
		faults += min(len(got), 1)
	}
	if faults < 500 || faults > 4500 {
		t.Errorf("%d of 5000 trees are faulty", faults)
	}
}

func TestBlockSum(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, blockSize)
	for round := range 200 {
		want := int64(8 * ' ')
		for i := range b {
			if b[i] = byte(rnd.Uint32()); round == 0 {
				b[i] = 0xff
			}
			if i < 148 || i >= 156 {
				want += int64(b[i])
			}
		}
		if got := BlockSum(b); got != want {
			t.Fatalf("sum %d, want %d", got, want)
		}
	}
}

func TestParseHex(t *testing.T) {
	want := Sum([]byte("x"))
	if got, ok := ParseHex(want.Hex()); !ok || got != want || got.Hex() != hex.EncodeToString(want[:]) {
		t.Errorf("%v %t", got, ok)
	}
	for c := range 256 {
		s := want.Hex()[:63] + string([]byte{byte(c)})
		if _, ok := ParseHex(s); ok != (strings.IndexByte("0123456789abcdef", byte(c)) >= 0) {
			t.Errorf("%q: %t", s, ok)
		}
	}
	for _, s := range []string{"", want.Hex()[1:], want.Hex() + "0"} {
		if _, ok := ParseHex(s); ok {
			t.Errorf("%q is taken", s)
		}
	}
}
