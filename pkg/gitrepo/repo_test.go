package gitrepo_test

import (
	"slices"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// open opens a test repository and closes it at the end of the test.
func open(t testing.TB, r *gittest.Repo, env ...string) *gitrepo.Repo {
	t.Helper()
	repo, err := gitrepo.Open(t.Context(), envOf(r, env...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo
}

func envOf(r *gittest.Repo, env ...string) gitrepo.Env {
	return gitrepo.Env{Environ: append(slices.Clone(r.Env), env...), Dir: r.Dir}
}

func TestSmoke(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	one := r.Commit("one", map[string]string{"a/b.md": "x\n", "c": "y\n"})
	two := r.Commit("two", map[string]string{"a/b.md": "z\n", "d/e/f": "q"})
	repo := open(t, r)
	ref, id, err := repo.HEAD()
	if err != nil || ref != "refs/heads/main" || id != two {
		t.Fatal(ref, id, err)
	}
	n := 0
	err = repo.ScanCommits(t.Context(), repo.RevList(t.Context(), []string{two}, nil, gitrepo.RevListOptions{Reverse: true}),
		gitrepo.ScanOptions{Blob: func(*gitrepo.Commit, gitrepo.Change) bool { return true }, BlobLimit: 1000},
		func(s *gitrepo.Scanned) error {
			n++
			t.Log(s.ID, s.Author, s.Diffs, len(s.Blobs))
			return nil
		})
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if ok, err := repo.IsAncestor(t.Context(), one, two); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r.Add(map[string]string{"new": "n"})
	staged, _, err := repo.Staged(t.Context())
	if err != nil || len(staged) != 1 || staged[0].Path != "new" {
		t.Fatal(staged, err)
	}
	idx, err := repo.Index(t.Context())
	if err != nil || idx.Len() != 4 {
		t.Fatal(idx, err)
	}
}
