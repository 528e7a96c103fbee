package gitrepo

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// Trees that are read from packs are those that git reads, however the packs were
// made and however little is kept; of what is in no pack nothing is said.
func TestPackTrees(t *testing.T) {
	fill := func(format string) *gittest.Repo {
		r := gittest.New(t, gittest.Options{ObjectFormat: format})
		var in strings.Builder
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 300 {
			fmt.Fprintf(&in, "commit refs/heads/main\ncommitter a <a@example.com> %d +0000\ndata 1\nx\n", 1_700_000_000+i)
			for range 1 + rng.IntN(3)*rng.IntN(4) {
				fmt.Fprintf(&in, "M 100644 inline thread-of-some-length-%03d/%d.md\ndata %d\n%d\n", rng.IntN(2+i), i, len(fmt.Sprint(i)), i)
			}
			if i%7 == 0 {
				fmt.Fprintf(&in, "D thread-of-some-length-%03d\n", rng.IntN(2+i))
			}
		}
		r.RunIn([]byte(in.String()), "fast-import", "--quiet", "--depth=20")
		return r
	}
	variants := map[string]func() *gittest.Repo{
		"as imported": func() *gittest.Repo { return fill("") },
		"repacked": func() *gittest.Repo {
			r := fill("")
			r.Run("repack", "-adfq", "--depth=60", "--window=10")
			return r
		},
		"bases by id": func() *gittest.Repo {
			r := fill("")
			r.Run("-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq", "--depth=40")
			return r
		},
		"SHA-256": func() *gittest.Repo { return fill("sha256") },
		"several packs": func() *gittest.Repo {
			r := fill("")
			r.Run("reset", "--hard", "-q", "main")
			for i := range 3 {
				r.Commit("more", map[string]string{fmt.Sprintf("more/%d.md", i): "x"})
				r.Run("repack", "-dq")
			}
			r.Run("multi-pack-index", "write")
			return r
		},
		"borrowed": func() *gittest.Repo {
			r := fill("").Clone("--shared")
			r.Commit("own", map[string]string{"own/a.md": "x"})
			return r
		},
	}
	for name, repo := range variants {
		t.Run(name, func(t *testing.T) {
			r := repo()
			ctx, env := context.Background(), Env{Environ: r.Env, Dir: r.Dir}
			ours, err := Open(ctx, env)
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			asked, err := askingGit(ctx, env)
			if err != nil {
				t.Fatal(err)
			}
			defer asked.Close()
			var trees, others []ID
			err = asked.AllObjects(ctx, func(id ID, typ string, _ int64) error {
				if typ == "tree" {
					trees = append(trees, id)
				} else {
					others = append(others, id)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, most := range []int{packTreeBytes, 30_000, 0} {
				rand.Shuffle(len(trees), func(i, j int) { trees[i], trees[j] = trees[j], trees[i] })
				p := newPackReader(newStore(env, ours.commonDir, ours.HashLen()/2))
				defer p.close()
				p.most = most
				n, overlays := 0, 0
				for _, id := range trees {
					tree := p.tree(id)
					if tree == nil {
						continue
					}
					_, want, err := asked.Object(id, MaxTree)
					if err != nil || tree.ID != id || tree.stored() != len(want) || !bytes.Equal(tree.whole().raw, want) {
						t.Fatalf("tree %s: %s of %d bytes, git says %d bytes, %v", id, tree.ID, tree.stored(), len(want), err)
					}
					same(t, tree, want)
					if n++; tree.other != nil {
						overlays++
					}
				}
				if loose := len(trees) - n; n < 500 || loose > 0 && name != "borrowed" && loose > 20 || overlays < 100 {
					t.Errorf("%d of %d trees were read, %d as overlays", n, len(trees), overlays)
				}
				if p.held.bytes > max(most, 1<<16) {
					t.Errorf("%d bytes are kept, at most %d may be", p.held.bytes, most)
				}
				for _, id := range others[:20] {
					if tree := p.tree(id); tree != nil {
						t.Fatalf("%s, which is no tree, is read as %q", id, tree.raw)
					}
				}
				heads := make([]header, 20)
				if all := p.info(trees[:20], heads); all || slices.ContainsFunc(heads, func(h header) bool { return h.id != "" }) {
					t.Fatalf("trees are read as what is none: %v", heads)
				}
			}
			for _, most := range []int64{packObjectsBases, 100, 0} {
				p := newPackReader(newStore(env, ours.commonDir, ours.HashLen()/2))
				defer p.close()
				p.objects.files.bases.most = most
				rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
				n := 0
				for part := range slices.Chunk(others, 100) {
					part = append(part, part[0], strings.Repeat("1", ours.HashLen()))
					heads := make([]header, len(part))
					p.info(part, heads)
					var want []Object
					if err := asked.Objects(part, 1<<20, func(o Object) error { want = append(want, o); return nil }); err != nil {
						t.Fatal(err)
					}
					n += len(part)
					for _, i := range p.contents(heads, func(i int, data []byte) {
						if o := want[i]; heads[i] != (header{o.ID, o.Type, o.Size}) || !bytes.Equal(data, o.Data) {
							t.Fatalf("%v %q, git says %s %q", heads[i], data, o.Type, o.Data)
						}
					}) {
						if n--; heads[i] != (header{}) && want[i].Size > 0 {
							t.Fatalf("%v has no contents", heads[i])
						}
					}
					if len(p.objects.asked) > 0 || p.objects.held != 0 {
						t.Fatalf("%d objects of %d bytes are held", len(p.objects.asked), p.objects.held)
					}
				}
				if n < 300 {
					t.Errorf("%d of %d objects were read", n, len(others))
				}
			}
			for _, limit := range []int64{1 << 20, 10} {
				var got, want []Object
				take := func(to *[]Object) func(Object) error {
					return func(o Object) error { o.Err = errors.Unwrap(o.Err); *to = append(*to, o); return nil }
				}
				if err, wantErr := ours.Objects(others, limit, take(&got)), asked.Objects(others, limit, take(&want)); err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("Objects of at most %d bytes differ from what git says: %v, %v", limit, err, wantErr)
				}
			}
			for i := range 200 {
				a, b := trees[i], trees[len(trees)-1-i]
				got, err := ours.DiffTrees(a, b)
				want, wantErr := asked.DiffTrees(a, b)
				if err != nil || wantErr != nil || !slices.Equal(got, want) {
					t.Fatalf("%s and %s differ in %v %v, read by git in %v %v", a, b, got, err, want, wantErr)
				}
			}
		})
	}
}

// same compares a tree with that of these bytes, entry by entry.
func same(t *testing.T, tree *Tree, raw []byte) {
	t.Helper()
	want, err := ParseTree(tree.ID, raw)
	if err != nil {
		t.Fatalf("%q is read, though %v", raw, err)
	}
	if tree.Len() != want.Len() {
		t.Fatalf("%d entries, want %d", tree.Len(), want.Len())
	}
	for i := range want.Len() {
		e := want.Entry(i)
		found, ok := tree.Lookup(e.Name)
		if tree.Entry(i) != e || !ok || found != e {
			t.Fatalf("entry %d is %v and found as %v, want %v", i, tree.Entry(i), found, e)
		}
	}
	var changes []Change
	next := diffDir(tree, want, dirPair{}, &changes, nil, &[2]Tree{})
	if len(changes)+len(next) > 0 {
		t.Fatalf("differs from itself in %v %v", changes, next)
	}
}

// What caches of trees count is what they hold: a tree that shares its entries with a
// large one holds all of that, so that many of them, each with another one, do not
// stay; of one large tree, many do.
func TestSharedTreesAreCounted(t *testing.T) {
	const entries = 20_000
	large := func(n int) *Tree {
		var raw []byte
		for i := range entries {
			raw = append(raw, fmt.Sprintf("40000 %04d-%06d\x00%020d", n, i, i)...)
		}
		tree, err := ParseTree(fmt.Sprintf("%040x", n), raw)
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	near := func(tree *Tree, n int) *Tree {
		size := uint64(len(tree.raw))
		first := tree.raw[:tree.offs[1]]
		delta := binary.AppendUvarint(binary.AppendUvarint(nil, size), size)
		delta = append(append(delta, byte(len(first))), first[:len(first)-20]...)
		delta = append(delta, fmt.Sprintf("%020d", n)...)
		for at := len(first); at < len(tree.raw); {
			part := min(0xffff, len(tree.raw)-at)
			delta = append(delta, 0xb7, byte(at), byte(at>>8), byte(at>>16), byte(part), byte(part>>8))
			at += part
		}
		out := tree.patch(delta)
		if out == nil || out.other == nil {
			t.Fatal("it shares nothing")
		}
		out.ID = fmt.Sprintf("%040x", n)
		return out
	}
	held := func(c *treeCache) (bytes int) {
		seen := map[*byte]bool{}
		for e := c.order.Front(); e != nil; e = e.Next() {
			tree := e.Value.(*Tree)
			bytes += len(tree.raw)
			if other := tree.other; other != nil && !seen[&other.base.raw[0]] {
				seen[&other.base.raw[0]] = true
				bytes += cap(other.base.raw)
			}
		}
		return bytes
	}
	c := &treeCache{}
	for n := range 60 {
		c.put(near(large(n), 1000+n))
		if n := held(c); n > treeCacheBytes {
			t.Fatalf("%d bytes are held, at most %d may be", n, treeCacheBytes)
		}
	}
	if c.order.Len() > treeCacheBytes/(entries*36) {
		t.Errorf("%d trees stay, each with another large one", c.order.Len())
	}
	one := large(1)
	for n := range 200 {
		c.put(near(one, 2000+n))
	}
	if c.get(fmt.Sprintf("%040x", 2000)) == nil || c.get(fmt.Sprintf("%040x", 2199)) == nil {
		t.Error("of 200 trees that share one large one the first or the last is gone")
	}
	for n := range 2 * treeCacheCount {
		small, err := ParseTree(fmt.Sprintf("%040x", 10_000+n), []byte("100644 STATE.md\x00AAAAAAAAAAAAAAAAAAAA"))
		if err != nil {
			t.Fatal(err)
		}
		c.put(small)
	}
	if c.order.Len() != treeCacheCount || len(c.byID) != treeCacheCount {
		t.Errorf("%d small trees are held, at most %d may be", c.order.Len(), treeCacheCount)
	}
	for c.order.Len() > 0 {
		tree := c.order.Remove(c.order.Back()).(*Tree)
		c.held.drop(tree)
	}
	if c.held.bytes != 0 || len(c.held.holders) != 0 {
		t.Errorf("of nothing %d bytes in %d trees are counted", c.held.bytes, len(c.held.holders))
	}
}

// A difference makes the tree that its bytes make, or none.
func FuzzTreePatch(f *testing.F) {
	var raw []byte
	for i := range 150 {
		raw = append(raw, fmt.Sprintf("40000 thread-%03d\x00%020d", i, i+1)...)
	}
	sizes := func(from, to int) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(from)), uint64(to))
	}
	copies := func(at, n int) []byte { return []byte{0xb3, byte(at), byte(at >> 8), byte(n), byte(n >> 8)} }
	const each = 38
	entry := func(name string) []byte {
		return []byte("\x26" + "40000 " + name + "\x00" + strings.Repeat("x", 31-len(name)))
	}
	for _, seed := range [][][]byte{
		{sizes(len(raw), len(raw)), copies(0, 10*each), entry("thread-010"), copies(11*each, len(raw)-11*each)},
		{sizes(len(raw), len(raw)), copies(0, 10*each+20), []byte("\x05abcde"), copies(10*each+25, len(raw)-10*each-25)},
		{sizes(len(raw), len(raw)+each), copies(0, 10*each), entry("thread-009x"), copies(10*each, len(raw)-10*each)},
		{sizes(len(raw), len(raw)-each), copies(0, 10*each+7), copies(11*each+7, len(raw)-11*each-7)},
		{sizes(len(raw), 20*each), copies(20*each, 10*each), copies(0, 10*each)}, // not in order
		{sizes(len(raw), 20*each), copies(0, 10*each), copies(0, 10*each)},       // twice
		{sizes(len(raw), len(raw)+36), copies(0, 10*each), []byte("\x24100644 thread-009\x00abcdefghijabcdefghi"), copies(10*each, len(raw)-10*each)},
		{sizes(len(raw), 100), copies(5, 100)},
	} {
		delta := bytes.Join(seed, nil)
		f.Add(delta, delta)
		f.Add(delta, bytes.Join([][]byte{sizes(len(raw), len(raw)), copies(0, 30*each), entry("thread-030"), copies(31*each, len(raw)-31*each)}, nil))
	}
	id := strings.Repeat("1", 40)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		tree, err := ParseTree(id, raw)
		if err != nil {
			t.Fatal(err)
		}
		data := raw
		for _, delta := range [][]byte{a, b, a} {
			next := tree.patch(delta)
			made, ok := applyDelta(nil, data, delta, MaxTree)
			if next == nil {
				return
			}
			if !ok || !bytes.Equal(next.whole().raw, made) {
				t.Fatalf("%q makes %q, want %q %t", delta, next.whole().raw, made, ok)
			}
			next.ID = id
			same(t, next, made)
			var got, want []Change
			wholeTree, _ := ParseTree(id, data)
			wholeNext, _ := ParseTree(id, made)
			gotDirs := diffDir(tree, next, dirPair{}, &got, nil, &[2]Tree{})
			wantDirs := diffDir(wholeTree, wholeNext, dirPair{}, &want, nil, &[2]Tree{})
			if !slices.Equal(got, want) || !slices.Equal(gotDirs, wantDirs) {
				t.Fatalf("%q differs in %v %v, want %v %v", delta, got, gotDirs, want, wantDirs)
			}
			tree, data = next, made
		}
	})
}

// A pack that is not what its index says is git's to judge: what is read of it has
// the size that was told, and is a tree where one is asked for, and where not none and
// the object of that id.
func FuzzPackTrees(f *testing.F) {
	r := gittest.New(f, gittest.Options{})
	for i := range 4 {
		r.Commit("x", map[string]string{fmt.Sprintf("t%d/a.md", i): "text", "t/REQUEST.md": fmt.Sprint(i)})
	}
	r.Run("repack", "-adfq")
	var tree ID
	for i := range 4 {
		tree = r.Run("rev-parse", fmt.Sprintf("HEAD~%d^{tree}", i))
		f.Add([]byte{}, 0, tree)
		f.Add([]byte{}, 2, r.Run("rev-parse", fmt.Sprintf("HEAD~%d", i)))
	}
	data, index := onlyPack(f, filepath.Join(r.Dir, ".git", "objects"))
	f.Fuzz(func(t *testing.T, patch []byte, at int, id string) {
		if len(id) != 40 || !isHex(id) {
			id = tree
		}
		// The patch lands in the pack or in its index.
		both := [2][]byte{bytes.Clone(data), bytes.Clone(index)}
		half := both[at&1]
		copy(half[uint(at)>>1%uint(len(half)):], patch)
		p := newPackReader(&store{hash: 20})
		pack := &packFile{hash: 20}
		if !pack.known(bytes.NewReader(both[1]), int64(len(both[1])), bytes.NewReader(both[0]), int64(len(both[0]))) {
			return
		}
		p.files.packs, p.files.listed = []*packFile{pack}, true
		if at&2 != 0 {
			pack.looked.Store(tableAfter - 1)
		}
		if tree := p.tree(id); tree != nil {
			same(t, tree, tree.whole().raw)
		}
		heads := make([]header, 1)
		p.info([]ID{id}, heads)
		p.contents(heads, func(_ int, data []byte) {
			if raw, _ := hex.DecodeString(id); heads[0].typ == "tree" || heads[0].size != int64(len(data)) || !newProver(20).proves(raw, heads[0].typ, data) {
				t.Fatalf("%v has %d bytes: %q", heads[0], len(data), data)
			}
		})
	})
}

// What a pack's index names wrongly is not taken for the object that was asked for,
// with a table and without one; what it names rightly is.
func TestPackedObjectsAreProved(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	var ids []ID
	for i := range 8 {
		ids = append(ids, r.Commit(fmt.Sprint("commit ", i), map[string]string{"a.md": fmt.Sprint(i)}), r.Blob(fmt.Sprint(i)))
	}
	r.Run("repack", "-adfq")
	data, index := onlyPack(t, filepath.Join(r.Dir, ".git", "objects"))
	read := func(index []byte, table bool) (n int) {
		p, pack := newPackReader(&store{hash: 20}), &packFile{hash: 20}
		if !pack.known(bytes.NewReader(index), int64(len(index)), bytes.NewReader(data), int64(len(data))) {
			t.Fatal("the pack is not known")
		}
		if p.files.packs, p.files.listed = []*packFile{pack}, true; table {
			pack.looked.Store(tableAfter - 1)
		}
		heads := make([]header, len(ids))
		p.info(ids, heads)
		p.contents(heads, func(i int, data []byte) {
			if raw, _ := hex.DecodeString(ids[i]); !newProver(20).proves(raw, heads[i].typ, data) {
				t.Errorf("%s is read as %v %q", ids[i], heads[i], data)
			}
			n++
		})
		return n
	}
	// The offsets of all objects, each moved to the next one.
	count := int(binary.BigEndian.Uint32(index[indexHead-4:]))
	offsets := index[indexHead+24*count:][:4*count]
	moved := bytes.Clone(index)
	copy(moved[indexHead+24*count:], append(bytes.Clone(offsets[4:]), offsets[:4]...))
	for _, table := range []bool{false, true} {
		if n := read(index, table); n != len(ids) {
			t.Errorf("%d of %d objects are read, by a table: %t", n, len(ids), table)
		}
		if n := read(moved, table); n != 0 {
			t.Errorf("%d objects are read from where others lie, by a table: %t", n, table)
		}
	}
}
