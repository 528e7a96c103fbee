package gittest

import "testing"

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
			r.Run("update-ref", "refs/heads/main", id)
			r.Run("update-ref", "refs/heads/a/b", id)
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
				for _, name := range []string{"HEAD", "refs/heads/main", "refs/heads/a/b", "refs/heads/c"} {
					if got := r.Ref(name); got != id {
						t.Errorf("%s packed %v: %s is %s, want %s", format, packed, name, got, id)
					}
				}
			}
		}
	}
}
