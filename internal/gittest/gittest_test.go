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
