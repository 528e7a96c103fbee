package gitrepo

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

const (
	blobA = "587be6b4c3f93f93c489c0111bba5596147a26cb"
	treeA = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
)

func entry(mode, name string) gittest.TreeEntry {
	id := blobA
	if mode == "40000" {
		id = treeA
	}
	return gittest.TreeEntry{Mode: mode, Name: name, ID: id}
}

// malformed are trees that must be refused, each for one reason.
var malformed = []struct {
	name string
	raw  []byte
	want string
}{
	{"mode that overflows to 100644", gittest.RawTree(entry("40000100644", "hidden.md")), "mode other than"},
	{"mode that overflows to a directory", gittest.RawTree(entry("40000040000", "d")), "mode other than"},
	{"mode padded with zero", gittest.RawTree(entry("040000", "d")), "mode other than"},
	{"mode of a fifo", gittest.RawTree(entry("10644", "f")), "mode other than"},
	{"mode 100600", gittest.RawTree(entry("100600", "f")), "mode other than"},
	{"mode setuid", gittest.RawTree(entry("104755", "f")), "mode other than"},
	{"mode not octal", gittest.RawTree(entry("10064x", "f")), "mode other than"},
	{"mode empty", gittest.RawTree(entry("", "f")), "mode other than"},
	{"mode with a sign", gittest.RawTree(entry("+100644", "f")), "mode other than"},
	{"no mode", []byte("100644\x00aaaaaaaaaaaaaaaaaaaa"), "has no mode"},
	{"name empty", gittest.RawTree(entry("100644", "")), "empty name"},
	{"name .", gittest.RawTree(entry("100644", ".")), "directory itself"},
	{"name ..", gittest.RawTree(entry("40000", "..")), "directory itself"},
	{"name .git", gittest.RawTree(entry("40000", ".git")), "for .git"},
	{"name .GiT", gittest.RawTree(entry("40000", ".GiT")), "for .git"},
	{"name GIT~1", gittest.RawTree(entry("40000", "GIT~1")), "for .git"},
	{"name .git with blank", gittest.RawTree(entry("40000", ".git ")), "for .git"},
	{"name .git with dots", gittest.RawTree(entry("40000", ".git...")), "for .git"},
	{"name .git with stream", gittest.RawTree(entry("40000", ".git::$INDEX_ALLOCATION")), "for .git"},
	{"name .git after backslash", gittest.RawTree(entry("100644", `a\.git`)), "for .git"},
	{"name .git before backslash", gittest.RawTree(entry("100644", `.git\config`)), "for .git"},
	{"name .git with a zero-width joiner", gittest.RawTree(entry("40000", ".g\u200dit")), "for .git"},
	{"name .git after U+FEFF", gittest.RawTree(entry("40000", "\ufeff.git")), "for .git"},
	{"name .git before U+200C", gittest.RawTree(entry("40000", ".git\u200c")), "for .git"},
	{"name with /", gittest.RawTree(entry("100644", "a/b")), `"/"`},
	{"order", gittest.RawTree(entry("100644", "b"), entry("100644", "a")), "order"},
	{"order of a directory", gittest.RawTree(entry("40000", "a"), entry("100644", "a.b")), "order"},
	{"duplicate", gittest.RawTree(entry("100644", "a"), entry("100755", "a")), "twice"},
	{"duplicate directory", gittest.RawTree(entry("40000", "a"), entry("40000", "a")), "twice"},
	{"file and directory", gittest.RawTree(entry("100644", "a"), entry("40000", "a")), "as a file and as a directory"},
	{"file and directory apart", gittest.RawTree(entry("100644", "a"), entry("100644", "a-"), entry("100644", "a.b"), entry("40000", "a")), "as a file and as a directory"},
	{"submodule and directory", gittest.RawTree(entry("160000", "a"), entry("40000", "a")), "as a file and as a directory"},
	{"id cut off", gittest.RawTree(entry("100644", "a"))[:20], "cut off"},
	{"name without end", []byte("100644 abc"), "does not end"},
	{"id of zeros", gittest.RawTree(gittest.TreeEntry{Mode: "100644", Name: "a", ID: strings.Repeat("0", 40)}), "zeros"},
	{"bytes after the last entry", append(gittest.RawTree(entry("100644", "a")), '1'), "does not end"},
}

func TestParseTreeRefuses(t *testing.T) {
	for _, tt := range malformed {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseTree(treeA, tt.raw)
			var bad *MalformedTreeError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), tt.want) || bad.Tree != treeA {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestParseTreeAccepts(t *testing.T) {
	entries := []gittest.TreeEntry{
		entry("100644", " a"), entry("100644", ".gi"), entry("100644", ".gitattributes"), entry("100644", ".github"),
		entry("100755", "a"), entry("120000", "a-"), entry("160000", "a.b"), entry("40000", "aa"), entry("100664", "ab"),
		entry("100644", "b\\c"), entry("100644", "g"), entry("100644", "git"), entry("100644", "git~10"), entry("100644", "git~2"),
		entry("100644", "nl\nx"), entry("100644", "é"), entry("100644", "\u200d.gitx"), entry("100644", "\xff"),
	}
	slices.SortFunc(entries, func(a, b gittest.TreeEntry) int {
		return compareNames([]byte(a.Name), a.Mode == "40000", []byte(b.Name), b.Mode == "40000")
	})
	tree, err := ParseTree(treeA, gittest.RawTree(entries...))
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for e := range tree.Entries() {
		want := entries[i]
		if e.Name != want.Name || strings.TrimPrefix(e.Mode.String(), "0") != want.Mode || e.ID != want.ID {
			t.Errorf("entry %d: %v, want %v", i, e, want)
		}
		if found, ok := tree.Lookup(want.Name); !ok || found != e {
			t.Errorf("Lookup(%q) = %v, %v", want.Name, found, ok)
		}
		i++
	}
	if i != len(entries) {
		t.Errorf("%d entries, want %d", i, len(entries))
	}
	for _, absent := range []string{"", "aaa", "z", "a/", "A"} {
		if e, ok := tree.Lookup(absent); ok {
			t.Errorf("Lookup(%q) = %v", absent, e)
		}
	}
}

const mutants = "\x000146 ./~agit\xe2"

// mutate changes a tree's bytes or entries in a way that is often malformed.
func mutate(rng *rand.Rand, raw []byte) []byte {
	raw = bytes.Clone(raw)
	for range 1 + rng.IntN(3) {
		i := rng.IntN(len(raw) + 1)
		switch j := min(len(raw), i+rng.IntN(40)); rng.IntN(5) {
		case 0:
			raw = append(raw[:i:i], raw[j:]...)
		case 1:
			raw = slices.Concat(raw[:i], raw[i:j], raw[i:])
		case 2:
			if i < len(raw) {
				raw[i] = mutants[rng.IntN(len(mutants))]
			}
		case 3:
			raw = slices.Concat(raw[:i], []byte("0"), raw[i:])
		default:
			at, with := randomTree(rng, 2), randomTree(rng, 3)
			raw = slices.Concat(raw[:min(i, len(raw))], at, with)
		}
	}
	return raw
}

// randomTree makes a tree that is mostly well-formed, of names that are near
// each other.
func randomTree(rng *rand.Rand, n int) []byte {
	var entries []gittest.TreeEntry
	for range n {
		name := make([]byte, 1+rng.IntN(4))
		for i := range name {
			name[i] = "ab.-g/\\~"[rng.IntN(5+rng.IntN(4))%8]
		}
		mode := []string{"100644", "100644", "100755", "120000", "160000", "40000", "40000"}[rng.IntN(7)]
		kind := "b" // an id is that of one kind, or git calls the link broken
		if mode == "40000" {
			kind = "d"
		}
		id := fmt.Sprintf("%040x%x", 1+rng.IntN(3), kind)[2:]
		if rng.IntN(4) == 0 { // an id that looks like entries
			id = hex.EncodeToString([]byte("100644 a\x00100644 b\x00a" + kind))
		}
		entries = append(entries, gittest.TreeEntry{Mode: mode, Name: string(name), ID: id})
	}
	slices.SortFunc(entries, func(a, b gittest.TreeEntry) int {
		return compareNames([]byte(a.Name), a.Mode == "40000", []byte(b.Name), b.Mode == "40000")
	})
	if rng.IntN(8) > 0 {
		entries = slices.CompactFunc(entries, func(a, b gittest.TreeEntry) bool { return a.Name == b.Name })
	}
	return gittest.RawTree(entries...)
}

func sameTree(a, b *Tree) bool {
	return bytes.Equal(a.raw, b.raw) && slices.Equal(a.offs, b.offs)
}

// TestParseAgainstBase: against any base, a tree parses as it does alone, and
// is refused if it is refused alone.
func TestParseAgainstBase(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	good, bad := 0, 0
	for range 30000 {
		base, err := ParseTree(blobA, randomTree(rng, rng.IntN(12)))
		if err != nil {
			continue
		}
		raw := mutate(rng, base.raw)
		if rng.IntN(3) == 0 {
			raw = randomTree(rng, rng.IntN(12))
		}
		checkAgainstBase(t, base, raw, &good, &bad)
	}
	if good < 1000 || bad < 1000 {
		t.Errorf("%d good and %d malformed trees: too few to mean anything", good, bad)
	}
}

func checkAgainstBase(t *testing.T, base *Tree, raw []byte, good, bad *int) {
	t.Helper()
	alone, err := ParseTree(treeA, raw)
	with, err2 := parseTree(treeA, raw, base)
	if (err == nil) != (err2 == nil) {
		t.Fatalf("base %q\ntree %q\nalone %v\nwith base %v", base.raw, raw, err, err2)
	}
	if err != nil {
		*bad++
		return
	}
	*good++
	if !sameTree(alone, with) {
		t.Fatalf("base %q\ntree %q\nalone %v\nwith base %v", base.raw, raw, alone.offs, with.offs)
	}
	// The difference is the same whichever way the trees were parsed.
	var a, b, c []Change
	na := diffDir(base, alone, dirPair{}, &a, nil, &[2]Tree{})
	nb := diffDir(base, with, dirPair{}, &b, nil, &[2]Tree{})
	nc := plainDiff(base, alone, &c)
	if !slices.Equal(a, b) || !slices.Equal(na, nb) || !slices.Equal(a, c) || !slices.Equal(na, nc) {
		t.Fatalf("base %q\ntree %q\n%v %v\n%v %v\n%v %v", base.raw, raw, a, na, b, nb, c, nc)
	}
}

// plainDiff is diffDir the simple way: by maps.
func plainDiff(old, new *Tree, changes *[]Change) (next []dirPair) {
	type key struct {
		name string
		dir  bool
	}
	index := func(t *Tree) map[key]TreeEntry {
		m := make(map[key]TreeEntry)
		for e := range t.Entries() {
			m[key{e.Name, e.Mode == ModeTree}] = e
		}
		return m
	}
	o, n := index(old), index(new)
	var keys []key
	for k := range o {
		keys = append(keys, k)
	}
	for k := range n {
		if _, both := o[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return compareNames([]byte(a.name), a.dir, []byte(b.name), b.dir) })
	for _, k := range keys {
		a, b := o[k], n[k]
		switch {
		case a == b:
		case k.dir:
			next = append(next, dirPair{0, k.name + "/", a.ID, b.ID})
		default:
			*changes = append(*changes, Change{k.name, a.Mode, b.Mode, a.ID, b.ID})
		}
	}
	return next
}

// pack writes objects of one type as git's pack format has them.
func pack(typ byte, objects [][]byte) []byte {
	var b bytes.Buffer
	b.WriteString("PACK")
	binary.Write(&b, binary.BigEndian, [2]uint32{2, uint32(len(objects))})
	for _, o := range objects {
		n := len(o)
		c := typ<<4 | byte(n&15)
		for n >>= 4; n > 0; n >>= 7 {
			b.WriteByte(c | 0x80)
			c = byte(n & 0x7f)
		}
		b.WriteByte(c)
		z := zlib.NewWriter(&b)
		z.Write(o)
		z.Close()
	}
	sum := sha1.Sum(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

// TestStricterThanFsck: no tree that git fsck --strict complains about is
// accepted; what only we refuse is a mode that git reads with overflow.
func TestStricterThanFsck(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	rng := rand.New(rand.NewPCG(3, 4))
	trees := make(map[string][]byte)
	add := func(raw []byte) {
		h := sha1.New()
		fmt.Fprintf(h, "tree %d\x00", len(raw))
		h.Write(raw)
		trees[hex.EncodeToString(h.Sum(nil))] = raw
	}
	for _, tt := range malformed {
		add(tt.raw)
	}
	for range 1500 {
		raw := randomTree(rng, 1+rng.IntN(5))
		if rng.IntN(2) == 0 {
			raw = mutate(rng, raw)
		}
		add(raw)
	}
	var objects [][]byte
	for _, raw := range trees {
		objects = append(objects, raw)
	}
	r.RunIn(pack(2, objects), "index-pack", "--stdin")
	res := r.Try(nil, "fsck", "--strict", "--no-dangling")
	fsck := make(map[string]string)
	for line := range strings.Lines(res.Stdout + res.Stderr) {
		for _, prefix := range []string{"error in tree ", "warning in tree ", "error: "} {
			if rest, ok := strings.CutPrefix(line, prefix); ok && len(rest) > 40 && isHex(rest[:40]) && !strings.HasSuffix(line, ": broken links\n") {
				fsck[rest[:40]] += line
			}
		}
	}
	both, clean := 0, 0
	for id, raw := range trees {
		_, err := ParseTree(id, raw)
		said := fsck[id]
		switch {
		case err == nil && said != "" && !bytes.Contains(raw, []byte("100664 ")):
			t.Errorf("accepted, but fsck says %s%q", said, raw)
		case err == nil:
			clean++
		case said != "":
			both++
		case !strings.Contains(err.Error(), "mode other than"):
			t.Errorf("fsck says nothing, we say %v: %q", err, raw)
		}
	}
	if both < 200 || clean < 200 {
		t.Errorf("%d refused by both, %d by none: too few to mean anything\n%s", both, clean, res.Stderr)
	}
	t.Logf("%d trees: %d refused by both, %d by none", len(trees), both, clean)
}

// FuzzParseTree: nothing panics; what is accepted is what its entries encode
// to; a base changes nothing.
func FuzzParseTree(f *testing.F) {
	good := gittest.RawTree(entry("100644", "a"), entry("40000", "b"), entry("100644", "c"))
	f.Add(good, good)
	for _, tt := range malformed {
		f.Add(good, tt.raw)
	}
	f.Fuzz(func(t *testing.T, baseRaw, raw []byte) {
		tree, err := ParseTree(treeA, raw)
		if err == nil {
			var entries []gittest.TreeEntry
			for e := range tree.Entries() {
				entries = append(entries, gittest.TreeEntry{Mode: strings.TrimPrefix(e.Mode.String(), "0"), Name: e.Name, ID: e.ID})
			}
			if again := gittest.RawTree(entries...); !bytes.Equal(again, raw) {
				t.Fatalf("%q encodes to %q", raw, again)
			}
		}
		if base, err := ParseTree(blobA, baseRaw); err == nil {
			var good, bad int
			checkAgainstBase(t, base, raw, &good, &bad)
		}
	})
}
