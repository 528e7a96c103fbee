package history

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

func nonce(n int) string { return fmt.Sprintf("01JH%022d", n) }

func relay(n int) map[string]string {
	text, err := envelope.Render(envelope.Fields{From: "op-relay", To: []string{"rig-b"}, Date: "2026-01-05", Status: "▶ x", Type: "ACK", Thread: "some-talk",
		InReplyTo: strings.Repeat("a", 64), AttestedBy: "k", AttestedAt: "2026-01-05T00:00:00Z", Nonce: nonce(n), Body: []byte("x\n"), BodyHash: strings.Repeat("b", 64)})
	if err != nil {
		panic(err)
	}
	return map[string]string{fmt.Sprintf("some-talk/RELAY-%d.md", n): string(text)}
}

func index(t *testing.T, r *gittest.Repo, dir string) *Index {
	t.Helper()
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return &Index{Repo: repo, Dir: dir, Envelope: envelope.IsEnvelopePath}
}

// used returns which of the nonces 0 … n-1 are used below a tip.
func used(t *testing.T, x *Index, tip string, n int) (out []int) {
	t.Helper()
	var all []string
	for i := range n {
		all = append(all, nonce(i))
	}
	hits, err := x.Find(context.Background(), all, []string{tip})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if len(hits[nonce(i)]) > 0 {
			out = append(out, i)
		}
	}
	return out
}

func save(t *testing.T, x *Index) {
	t.Helper()
	if err := x.Save(); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, what string, got []int, is ...int) {
	t.Helper()
	if len(got) == 0 && len(is) == 0 {
		return
	}
	if !reflect.DeepEqual(got, is) {
		t.Errorf("%s: %v, expected %v", what, got, is)
	}
}

func TestExact(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := gittest.New(t, gittest.Options{ObjectFormat: format})
			dir := filepath.Join(gittest.TempDir(t), "rigward")
			var tips []string
			for i := range 3 {
				tips = append(tips, r.Commit("x", relay(i)))
			}
			// Built anew from all objects, then only what is below the tip counts.
			x := index(t, r, dir)
			want(t, "the last tip", used(t, x, tips[2], 5), 0, 1, 2)
			want(t, "an older tip", used(t, x, tips[0], 5), 0)
			save(t, x)
			// Incremental, by a second process, equals a rebuild.
			tips = append(tips, r.Commit("x", relay(3)))
			y := index(t, r, dir)
			want(t, "incremental", used(t, y, tips[3], 5), 0, 1, 2, 3)
			if y.built {
				t.Error("it was built anew")
			}
			save(t, y)
			want(t, "rebuilt", used(t, index(t, r, ""), tips[3], 5), 0, 1, 2, 3)
			// A push that was refused is forgotten; retried it is new again.
			z := index(t, r, dir)
			refused := r.Commit("x", relay(4))
			want(t, "of the push", used(t, z, refused, 5), 0, 1, 2, 3, 4)
			save(t, z)
			r.Run("reset", "-q", "--hard", tips[3])
			want(t, "after the refusal", used(t, index(t, r, dir), tips[3], 5), 0, 1, 2, 3)
			r.Run("reflog", "expire", "--expire=all", "--all")
			r.Run("gc", "-q", "--prune=now")
			want(t, "and the objects are gone", used(t, index(t, r, dir), tips[3], 5), 0, 1, 2, 3)
			again := r.Commit("x", relay(4))
			want(t, "retried", used(t, index(t, r, dir), again, 5), 0, 1, 2, 3, 4)
			// A deleted envelope has still used its nonce.
			r.Run("rm", "-q", "some-talk/RELAY-1.md")
			gone := r.Commit("x", nil)
			want(t, "deleted", used(t, index(t, r, ""), gone, 5), 0, 1, 2, 3, 4)
			want(t, "deleted, with the index", used(t, index(t, r, dir), gone, 5), 0, 1, 2, 3, 4)
		})
	}
}

func TestDamage(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	dir := filepath.Join(gittest.TempDir(t), "rigward")
	r.Commit("x", relay(0))
	tip := r.Commit("x", relay(1))
	x := index(t, r, dir)
	want(t, "built", used(t, x, tip, 3), 0, 1)
	save(t, x)
	files, err := filepath.Glob(filepath.Join(dir, "nonces*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files: %v, %v", files, err)
	}
	whole := map[string][]byte{}
	for _, f := range files {
		if whole[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		for name, data := range map[string][]byte{
			"empty":   {},
			"torn":    whole[f][:len(whole[f])/2],
			"longer":  append(append([]byte{}, whole[f]...), 0),
			"flipped": flip(whole[f], len(whole[f])/2),
			"junk":    []byte(strings.Repeat("junk", 100)),
			"missing": nil,
		} {
			for g, b := range whole {
				if err := os.WriteFile(g, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if data == nil {
				os.Remove(f)
			} else if err := os.WriteFile(f, data, 0o644); err != nil {
				t.Fatal(err)
			}
			y := index(t, r, dir)
			want(t, filepath.Base(f)+" "+name, used(t, y, tip, 3), 0, 1)
			if !y.built {
				t.Errorf("%s %s was believed", filepath.Base(f), name)
			}
		}
	}
	// An index of another object format, and one that cannot be written.
	other := gittest.New(t, gittest.Options{ObjectFormat: "sha256"})
	far := other.Commit("x", relay(2))
	for g, b := range whole {
		if err := os.WriteFile(g, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "another format", used(t, index(t, other, dir), far, 3), 2)
	file := filepath.Join(gittest.TempDir(t), "file")
	if err := os.WriteFile(file, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	ro := index(t, r, filepath.Join(file, "below"))
	want(t, "no directory", used(t, ro, tip, 3), 0, 1)
	if ro.Save() == nil {
		t.Error("written into a file")
	}
	want(t, "after the failed write", used(t, ro, tip, 3), 0, 1)
}

func flip(b []byte, at int) []byte {
	b = append([]byte{}, b...)
	b[at] ^= 1
	return b
}

// TestTwoProcesses has several indexes read and written at once: whoever is
// last wins, and every answer is exact.
func TestTwoProcesses(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	dir := filepath.Join(gittest.TempDir(t), "rigward")
	var tips []string
	for i := range 4 {
		tips = append(tips, r.Commit("x", relay(i)))
	}
	var wg sync.WaitGroup
	for _, tip := range tips {
		x := index(t, r, dir)
		wg.Go(func() {
			for range 5 {
				if _, err := x.Find(context.Background(), []string{nonce(0)}, []string{tip}); err != nil {
					t.Error(err)
				}
				x.dirty = true
				if err := x.Save(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, tip := range tips {
		var is []int
		for n := range i + 1 {
			is = append(is, n)
		}
		want(t, "after all", used(t, index(t, r, dir), tip, 6), is...)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// FuzzParseHead: a head is what head wrote, or none.
func FuzzParseHead(f *testing.F) {
	for _, format := range []string{"sha1", "sha256"} {
		s := state{format: format}
		f.Add(s.head([32]byte{}), format == "sha256")
		id := strings.Repeat("ab", s.idLen())
		s.tips, s.recent = []string{id}, []record{{key: key("x"), blob: id}, {key: key("y"), blob: id, commit: id}}
		f.Add(s.head([32]byte{}), format == "sha256")
		f.Add(s.head([32]byte{})[:60], format == "sha256")
	}
	f.Fuzz(func(t *testing.T, data []byte, long bool) {
		format := "sha1"
		if long {
			format = "sha256"
		}
		s, ok := parseHead(data, format, [32]byte{})
		if ok && string(s.head([32]byte{})) != string(data) {
			t.Errorf("%x is read, and written as %x", data, s.head([32]byte{}))
		}
		// With a digest that fits, so that what is inside is looked at.
		s = state{format: format}
		whole := append([]byte(magic), data...)
		sum := sha256.Sum256(whole)
		if s, ok = parseHead(append(whole, sum[:]...), format, [32]byte{}); ok && string(s.head([32]byte{})) != string(append(whole, sum[:]...)) {
			t.Errorf("%x", data)
		}
	})
}

// An index holds what lies in the histories that it covers and nothing else, so
// that a relay that is pushed to a free branch first costs no walk of the whole
// history when it comes to a protected one.
func TestOnlyWhatIsCovered(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	r.Commit("x", relay(0))
	gone := r.Commit("x", relay(1))
	r.Run("rm", "-q", "some-talk/RELAY-1.md")
	r.Run("commit", "-q", "-m", "x")
	tip := strings.TrimSpace(r.Ref("HEAD"))
	free := r.Commit("x", relay(2))
	r.Run("branch", "free")
	r.Run("reset", "-q", "--hard", tip)

	x := index(t, r, "")
	want(t, "below the tip", used(t, x, tip, 3), 0, 1)
	if !x.built {
		t.Fatal("it was not built anew")
	}
	for n, commit := range map[int]string{0: "", 1: gone} {
		if records := x.state.find(key(nonce(n))); len(records) != 1 || records[0].commit != commit {
			t.Errorf("nonce %d: %+v, expected one record, of commit %q", n, records, commit)
		}
	}
	if records := x.state.find(key(nonce(2))); len(records) != 0 {
		t.Errorf("a nonce of another branch is in the index: %+v", records)
	}
	want(t, "with the other branch", used(t, x, free, 3), 0, 1, 2)

	// Made for two branches at once: what one alone has is known by its commit.
	y := index(t, r, "")
	if hits, err := y.Find(t.Context(), []string{nonce(0), nonce(2)}, []string{free, tip}); err != nil || len(hits[nonce(0)]) != 1 || len(hits[nonce(2)]) != 1 {
		t.Fatalf("both branches: %v, %v", hits, err)
	}
	for n, commit := range map[int]string{0: "", 1: gone, 2: free} {
		if records := y.state.find(key(nonce(n))); len(records) != 1 || records[0].commit != commit {
			t.Errorf("nonce %d: %+v, expected one record, of commit %q", n, records, commit)
		}
	}
	want(t, "one branch, then", used(t, y, tip, 3), 0, 1)
}

// TestSameRelayOnTwoBranches: an envelope that two branches got by commits of
// their own has used its nonce on both, also where a third one lacks it.
func TestSameRelayOnTwoBranches(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	base := r.Commit("base", relay(0))
	tips := []string{r.Commit("a", relay(1))}
	r.Run("reset", "-q", "--hard", base)
	tips = append(tips, r.Commit("b", relay(1)))
	r.Run("branch", "b")
	r.Run("reset", "-q", "--hard", base)
	tips = append(tips, r.Commit("c", relay(2)))
	r.Run("branch", "a", tips[0])
	x := index(t, r, "")
	if _, err := x.Find(t.Context(), nil, tips); err != nil {
		t.Fatal(err)
	}
	for i, is := range [][]int{{0, 1}, {0, 1}, {0, 2}} {
		want(t, "branch "+string(rune('a'+i)), used(t, x, tips[i], 3), is...)
	}
}

// TestNonceOfAnySize: a nonce that was used is used, whatever limits say of its
// envelope's size now; only the front matter's own bound counts, in bytes.
func TestNonceOfAnySize(t *testing.T) {
	long := func(n int) map[string]string {
		files := relay(0)
		for path, text := range files {
			files[path] = strings.Replace(text, "---\n", "---\n# "+strings.Repeat("x", n)+"\n", 1)
		}
		return files
	}
	large := func(n int) map[string]string { // the front matter is over before a small bound
		files := relay(0)
		for path, text := range files {
			files[path] = text + strings.Repeat("x", n) + "\n---\n"
		}
		return files
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		bound int64
		is    []int
	}{
		{"front matter over the default limit", long(70_000), 0, []int{0}},
		{"front matter over the bound", long(70_000), 1000, nil},
		{"front matter over the default bound", long(3 << 20), 0, nil},
		{"front matter within a higher bound", long(3 << 20), 4 << 20, []int{0}},
		{"file of 9 MiB", large(9 << 20), 0, []int{0}},
		{"file of 40 MiB", large(40 << 20), 0, []int{0}},
	} {
		r := gittest.New(t, gittest.Options{})
		tip := r.Commit("x", c.files)
		for _, how := range []string{"read whole", "read as a gap"} {
			x := index(t, r, "")
			x.Frontmatter = c.bound
			if how == "read as a gap" {
				root := r.Run("commit-tree", "-m", "root", r.EmptyTreeID())
				if _, err := x.Find(t.Context(), nil, []string{root}); err != nil {
					t.Fatal(err)
				}
			}
			want(t, c.name+", "+how, used(t, x, tip, 1), c.is...)
		}
	}
}

// A build that is cut short says what it was doing.
func TestCutShort(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	tip := r.Commit("x", relay(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := index(t, r, "").Find(ctx, []string{nonce(0)}, []string{tip}); !errors.Is(err, ErrBuilding) {
		t.Errorf("%v, expected ErrBuilding", err)
	}
	x := index(t, r, "")
	want(t, "a build with time enough", used(t, x, tip, 1), 0)
}

// The files of a tree are those that differ from nothing, wherever the threads lie; of
// a tree that stands for more than can be read it is said soon.
func TestFiles(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	files := map[string]string{"top.md": "x", "a/b/c/deep.md": "x", "a/b.md": "x"}
	for i := range 2 * fewDirs {
		files[fmt.Sprintf("a/b/thread-%d/REQUEST.md", i)] = "x"
		files[fmt.Sprintf("a/b/thread-%d/more/b.txt", i)] = "y"
		files[fmt.Sprintf("wide/%d/x.md", i)] = fmt.Sprint(i)
	}
	r.Commit("files", files)
	x := index(t, r, "")
	for _, tree := range []string{"HEAD^{tree}", "HEAD:wide", "HEAD:a/b"} {
		id := r.Run("rev-parse", tree)
		var got []gitrepo.Change
		if err := x.files(id, func(ch gitrepo.Change) { got = append(got, ch) }); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b gitrepo.Change) int { return strings.Compare(a.Path, b.Path) })
		want, err := x.Repo.DiffTrees("", id)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v\nwant %v %v", tree, got, want, err)
		}
	}
	tree := r.Tree(gittest.TreeEntry{Mode: "100644", Name: "x.md", ID: r.Blob("x")})
	for range 9 {
		var same []gittest.TreeEntry
		for i := range fewDirs {
			same = append(same, gittest.TreeEntry{Mode: "40000", Name: fmt.Sprint(i), ID: tree})
		}
		tree = r.Tree(same...)
	}
	n := 0
	if err := x.files(tree, func(gitrepo.Change) { n++ }); !errors.Is(err, gitrepo.ErrTooLarge) || n > gitrepo.MaxChanges {
		t.Errorf("%d files, %v", n, err)
	}
}
