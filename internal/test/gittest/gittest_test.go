package gittest

import (
	"maps"
	"testing"
)

func TestRepositoriesAreReproducible(t *testing.T) {
	build := func() string {
		r := New(t, Options{})
		r.Commit("one", map[string]string{"a/b.md": "x\n", "é x.md": "y\n", " lead": "z", "nl\nx": "n"})
		return r.Commit("two", map[string]string{"a/b.md": "z\n"})
	}
	if a, b := build(), build(); a != b {
		t.Fatalf("two builds differ: %s %s", a, b)
	}
}

// A repository that is laid as an earlier one of its kind is what git init makes.
func TestLaidAsByGit(t *testing.T) {
	for _, o := range []Options{{}, {Bare: true}, {ObjectFormat: "sha256"}, {Bare: true, ObjectFormat: "sha256"}} {
		inits.Delete(o)
		gits, ours := New(t, o), New(t, o)
		if a, b := gits.laid(), ours.laid(); !maps.Equal(a, b) || len(a) < 8 {
			t.Errorf("%+v: %q, git makes %q", o, b, a)
		}
		ours.Run("fsck")
		if a, b := ours.HooksDir(), ours.Run("rev-parse", "--path-format=absolute", "--git-path", "hooks"); a != b {
			t.Errorf("%+v: hooks are in %s, git says %s", o, a, b)
		}
		ours.Config("core.hooksPath", "elsewhere")
		if a, b := ours.HooksDir(), ours.Run("rev-parse", "--path-format=absolute", "--git-path", "hooks"); a != b {
			t.Errorf("%+v: hooks are in %s, git says %s", o, a, b)
		}
	}
}

func TestHandMadeObjects(t *testing.T) {
	r := New(t, Options{Bare: true, ObjectFormat: "sha256"})
	blob := r.Blob("x")
	tree := r.Tree(TreeEntry{"40000100644", "f", blob})
	commit := r.CommitTree(tree, "m")
	if len(commit) != 64 || r.Run("cat-file", "-t", commit) != "commit" {
		t.Fatalf("commit %q", commit)
	}
}

func TestPushAndHook(t *testing.T) {
	server := New(t, Options{Bare: true})
	server.Hook("pre-receive", "#!/bin/sh\necho no >&2\nexit 1\n")
	client := server.Clone()
	client.Commit("one", map[string]string{"a": "b"})
	if res := client.Push("origin", "main"); res.Code != 1 {
		t.Fatalf("push: %+v", res)
	}
}

// What is read and written without git is what git reads and writes.
func TestAsGitDoes(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, bare := range []bool{false, true} {
			r := New(t, Options{Bare: bare, ObjectFormat: format})
			id := r.CommitTree(r.Tree(TreeEntry{"100644", "f", r.Blob("x\x00\xff")}), "m")
			r.SetRef("refs/heads/main", id)
			r.SetRef("refs/heads/a/b", id)
			r.Run("symbolic-ref", "refs/heads/c", "refs/heads/a/b")
			r.Run("fsck", "--strict")
			raw := []byte("tree x\n\x00")
			if ours, gits := r.WriteObject("odd", raw), r.RunIn(raw, "hash-object", "--literally", "-t", "odd", "--stdin"); ours != gits {
				t.Errorf("%s: %s, git says %s", format, ours, gits)
			}
			for _, packed := range []bool{false, true} {
				if packed {
					r.Run("pack-refs", "--all")
				}
				if got := r.RefOrNone("refs/heads/none"); got != "" {
					t.Errorf("%s packed %v: a ref that isn't there is %s", format, packed, got)
				}
				for _, name := range []string{"HEAD", "refs/heads/main", "refs/heads/a/b", "refs/heads/c"} {
					if got := r.RefOrNone(name); got != id {
						t.Errorf("%s packed %v: %s is %q, want %s", format, packed, name, got, id)
					}
					if got := r.Ref(name); got != id {
						t.Errorf("%s packed %v: %s is %s, want %s", format, packed, name, got, id)
					}
				}
			}
		}
	}
}

// The trees of files are those that git writes of an index with them, which keeps what does not stand
// in the way of a file; a ref that is set and a variable are what git reads.
func TestFilesAsGitDoes(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		r := New(t, Options{ObjectFormat: format})
		base := r.Commit("one", map[string]string{"a/b.md": "x\n", "a.md": "y\n", "a-b": "z", "d/e/f": "1", "d/g": "2", "é x/nl\nx": "n"})
		blob := r.Blob("other\n")
		files := r.FilesOf(base)
		for _, put := range []struct{ mode, id, path string }{
			{"100755", blob, "a/b.md"}, {"120000", blob, "a/link"}, {"160000", base, "d/e"}, {"100644", blob, "a.md/under"}, {"100644", blob, "z/y/x"},
		} {
			Put(files, put.path, File{Mode: put.mode, ID: put.id})
			r.Run("update-index", "--add", "--replace", "--cacheinfo", put.mode+","+put.id+","+put.path)
			if got, want := r.Files(files), r.Run("write-tree"); got != want {
				t.Fatalf("%s: with %s it is\n%swant\n%s", format, put.path, r.Run("ls-tree", "-r", "-t", got), r.Run("ls-tree", "-r", "-t", want))
			}
		}
		if got := r.FilesOf(r.Run("write-tree")); !maps.Equal(got, files) {
			t.Errorf("%s: git has %v, want %v", format, got, files)
		}
		r.Run("pack-refs", "--all")
		next := r.CommitTree(r.Files(files), "two", base)
		for _, ref := range []string{"refs/heads/main", "refs/heads/deep/er"} {
			r.SetRef(ref, next)
			if got := r.Run("rev-parse", ref); got != next {
				t.Errorf("%s: %s is %s, want %s", format, ref, got, next)
			}
		}
		r.SetRef("refs/heads/main", "main~1")
		if got := r.Run("rev-parse", "refs/heads/main"); got != base {
			t.Errorf("%s: main is %s, want %s", format, got, base)
		}
		for _, value := range []string{"/a b/c;d#e", "", "two\twords ", `"quoted\`} {
			for _, key := range []string{"rigward.policy", "remote.a.b.url", "core.bare"} {
				want := value
				if key == "core.bare" {
					want = "false"
				}
				r.Config(key, want)
				if got := r.Run("config", "--get-all", key); got != want {
					t.Errorf("%s: %s is %q, want %q", format, key, got, want)
				}
			}
			r.Run("config", "--add", "a.b", "first")
			r.Run("config", "--add", "a.b", value)
			for _, key := range []string{"rigward.policy", "a.b", "a.none"} {
				r.Unset(key)
				if res := r.Try(nil, "config", "--get-all", key); res.Code != 1 {
					t.Errorf("%s: %s is %q after it was taken out", format, key, res.Stdout)
				}
			}
			if got := r.Run("config", "--get-all", "remote.a.b.url"); got != value {
				t.Errorf("%s: remote.a.b.url is %q, want %q", format, got, value)
			}
		}
	}
}
