package gitrepo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

func everyPath([]byte) bool { return true }

// indexes are real index files by what is special about them.
func indexes(t testing.TB) map[string]*gittest.Repo {
	t.Helper()
	long := strings.Repeat("d/", 100) + strings.Repeat("n", 200)
	files := map[string]string{long: "x", "t/a.md": "1", "t/ü.md": "2", "t/b c.md": "3", "u/a\nb": "4", ".gitattributes": "5"}
	for i := range 40 {
		files[fmt.Sprintf("t/%s%d.md", strings.Repeat("x", i), i)] = "x"
	}
	out := map[string]*gittest.Repo{}
	add := func(name string, o gittest.Options, then ...string) {
		r := gittest.New(t, o)
		r.Commit("c", files)
		for _, line := range then {
			r.Run(strings.Fields(line)...)
		}
		out[name] = r
	}
	add("version 2", gittest.Options{}, "update-index --index-version 2")
	add("version 3", gittest.Options{}, "update-index --skip-worktree t/a.md")
	add("version 4", gittest.Options{}, "update-index --index-version 4")
	add("version 4 with flags", gittest.Options{}, "update-index --index-version 4", "update-index --skip-worktree t/a.md")
	add("sha256", gittest.Options{ObjectFormat: "sha256"})
	add("split", gittest.Options{}, "update-index --split-index", "rm -q --cached t/a.md")
	add("sparse", gittest.Options{}, "sparse-checkout set --cone --sparse-index t")
	add("empty", gittest.Options{}, "rm -q -r --cached .")
	add("threads", gittest.Options{}, "config index.threads 4", "config index.version 4", "rm -q --cached t/a.md")
	intent := gittest.New(t, gittest.Options{})
	intent.Commit("c", files)
	intent.Write("t/new.md", "x")
	intent.Run("add", "-N", "t/new.md")
	out["intent to add"] = intent
	return out
}

// listed is what git says of an index.
func listed(r *gittest.Repo) []string {
	text := r.Run("ls-files", "-z")
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
}

func TestIndexPaths(t *testing.T) {
	asked := []string{"split", "sparse"} // these are left to git
	for name, r := range indexes(t) {
		t.Run(name, func(t *testing.T) {
			repo, err := OpenIdle(context.Background(), Env{Environ: r.Env, Dir: r.Dir})
			if err != nil {
				t.Fatal(err)
			}
			defer repo.Close()
			got, _, err := repo.IndexPaths(context.Background(), everyPath)
			if want := listed(r); err != nil || !slices.Equal(got, want) {
				t.Errorf("got %q, %v\nwant %q", got, err, want)
			}
			_, ok := readIndex(filepath.Join(r.Dir, ".git/index"), repo.HashLen()/2)
			if ok == slices.Contains(asked, name) {
				t.Errorf("read without git: %t", ok)
			}
			some, _, err := repo.IndexPaths(context.Background(), func(p []byte) bool { return bytes.HasPrefix(p, []byte("t/x")) })
			if err != nil || name != "empty" && name != "sparse" && len(some) != 39 {
				t.Errorf("%d chosen, %v", len(some), err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		repo, err := OpenIdle(context.Background(), Env{Environ: r.Env, Dir: r.Dir})
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		if got, _, err := repo.IndexPaths(context.Background(), everyPath); err != nil || got != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("another index", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		r.Commit("c", map[string]string{"t/a.md": "x"})
		for _, file := range []string{filepath.Join(r.Dir, "other"), "other"} {
			env := append(slices.Clone(r.Env), "GIT_INDEX_FILE="+file)
			cmd := exec.Command("git", "update-index", "--add", "--cacheinfo", "100644,"+r.Run("rev-parse", "HEAD:t/a.md")[:40]+",o/b.md")
			cmd.Dir, cmd.Env = r.Dir, env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			repo, err := OpenIdle(context.Background(), Env{Environ: env, Dir: r.Dir})
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := repo.IndexPaths(context.Background(), everyPath); err != nil || !slices.Equal(got, []string{"o/b.md"}) {
				t.Errorf("%s: %q, %v", file, got, err)
			}
			repo.Close()
			os.Remove(filepath.Join(r.Dir, "other"))
		}
	})
	t.Run("broken", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		r.Commit("c", map[string]string{"t/a.md": "x"})
		if err := os.WriteFile(filepath.Join(r.Dir, ".git/index"), []byte("DIRC nonsense, longer than a header is"), 0o644); err != nil {
			t.Fatal(err)
		}
		repo, err := OpenIdle(context.Background(), Env{Environ: r.Env, Dir: r.Dir})
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		if got, _, err := repo.IndexPaths(context.Background(), everyPath); err == nil {
			t.Errorf("a broken index gave %q", got)
		}
	})
}

// What git refuses to read, or reads as more than the paths that are written
// there, is left to git.
func TestIndexLeftToGit(t *testing.T) {
	all := indexes(t)
	for name, change := range map[string]func(data []byte) []byte{
		// Two bytes of flags follow the entry's own, of which git knows two bits.
		"version 3": func(data []byte) []byte {
			at := bytes.Index(data, []byte("t/a.md\x00")) - 2
			data[at] |= 0x80
			return data
		},
		// Without the extension, the mode alone tells of a sparse directory.
		"sparse": func(data []byte) []byte {
			return bytes.Replace(data, []byte("sdir\x00\x00\x00\x00"), []byte("SDIR\x00\x00\x00\x00"), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(all[name].Dir, ".git/index")
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			data := change(slices.Clone(old))
			if bytes.Equal(data, old) {
				t.Fatal("the index is as it was")
			}
			if x, ok := parseIndex(data, 20); ok {
				t.Errorf("read as %d paths", x.Len())
			}
		})
	}
}

// What parseIndex takes is what git reads, if git reads it at all.
func FuzzParseIndex(f *testing.F) {
	for name, r := range indexes(f) {
		data, err := os.ReadFile(filepath.Join(r.Dir, ".git/index"))
		if err != nil {
			f.Fatal(err)
		}
		if name != "sha256" {
			f.Add(data)
		}
	}
	oracle := gittest.New(f, gittest.Options{})
	f.Fuzz(func(t *testing.T, data []byte) {
		x, ok := parseIndex(data, 20)
		if !ok {
			return
		}
		var want strings.Builder
		for i := range x.Len() {
			e := x.Entry(i)
			fmt.Fprintf(&want, "%s %s %d\t%s\x00", e.Mode, e.ID, e.Stage, e.Path)
			if first, ok := x.Lookup(e.Path); !ok || first.Path != e.Path || first.Stage > e.Stage {
				t.Fatalf("%q is found as %+v", e.Path, first)
			}
		}
		if t, ok := x.cached(0); ok { // ends, whatever it says
			_, _, _ = x.children(t, 0)
		}
		file := filepath.Join(t.TempDir(), "index")
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", "ls-files", "-s", "-z")
		cmd.Dir, cmd.Env = oracle.Dir, append(slices.Clone(oracle.Env), "GIT_INDEX_FILE="+file)
		out, err := cmd.Output()
		if err != nil {
			return
		}
		if want.String() != string(out) {
			t.Fatalf("%q, git lists %q", want.String(), out)
		}
	})
}

// TestIndexTree: where an index says which tree it is, git writes that one; it
// says so after a commit, and not while something is staged.
func TestIndexTree(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		r := gittest.New(t, gittest.Options{ObjectFormat: format})
		r.Commit("c", map[string]string{"t/a.md": "1", "t/b.md": "2", "u/c.md": "3", "d": "4"})
		tree := func(what string, known bool) {
			t.Helper()
			repo, err := OpenIdle(context.Background(), Env{Environ: r.Env, Dir: r.Dir})
			if err != nil {
				t.Fatal(err)
			}
			defer repo.Close()
			_, tree, err := repo.IndexPaths(context.Background(), everyPath)
			if err != nil || known != (tree != "") {
				t.Errorf("%s %s: tree %q, %v", format, what, tree, err)
			}
			if tree != "" && tree != strings.TrimSpace(r.Run("write-tree")) {
				t.Errorf("%s %s: git writes another tree than %s", format, what, tree)
			}
		}
		r.Run("reset", "-q", "--hard")
		tree("after a reset", true)
		r.Write("t/new.md", "x")
		r.Run("add", "-N", "t/new.md")
		tree("with an intent to add", false)
		r.Run("add", "t/new.md")
		tree("with a file staged", false)
		r.Run("commit", "-q", "-m", "new")
		tree("after a commit", true)
		r.Run("rm", "-q", "--cached", "u/c.md")
		tree("with a file removed", false)
		r.Run("reset", "-q", "--hard")
		r.Write("d", "5")
		tree("with a change that is not staged", true)
		r.Run("update-index", "--chmod=+x", "t/a.md")
		tree("with a mode staged", false)
	}
	x := &Index{hash: 20, at: make([]uint32, 2)}
	for _, head := range []string{"", "\x002 0\n", "\x002\n" + strings.Repeat("x", 20), "\x0022 0\n" + strings.Repeat("x", 20), "\x002 -1\n" + strings.Repeat("x", 20), "\x00-2 0\n"} {
		x.trees = []byte(head)
		if c, ok := x.cached(0); ok {
			t.Errorf("%q: %+v", head, c)
		}
	}
}
