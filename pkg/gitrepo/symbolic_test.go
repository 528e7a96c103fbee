package gitrepo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestSymbolicWithoutGit: what a push of ten thousand refs asks of each of them
// takes neither a process nor a look at all packed refs.
func TestSymbolicWithoutGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			r := gittest.New(t, gittest.Options{Bare: true, ObjectFormat: format})
			tip := r.CommitTree(r.Tree(), "x")
			for _, ref := range []string{"refs/heads/main", "refs/heads/packed"} {
				r.Run("update-ref", ref, tip)
			}
			r.Run("pack-refs", "--all")
			r.Run("update-ref", "refs/heads/loose", tip)
			for from, to := range map[string]string{"refs/heads/a": "refs/heads/b", "refs/heads/b": "refs/heads/packed", "refs/tags/nowhere": "refs/heads/none"} {
				r.Run("symbolic-ref", from, to)
			}
			repo, err := Open(t.Context(), Env{Environ: r.Env, Dir: r.Dir})
			if err != nil {
				t.Fatal(err)
			}
			defer repo.Close()
			if _, _, err := repo.ConfigLast("core.bare"); err != nil { // read before git goes away
				t.Fatal(err)
			}
			repo.git = filepath.Join(r.Dir, "no-git")
			if err := os.WriteFile(filepath.Join(r.Dir, "packed-refs"), []byte("unreadable"), 0o644); err != nil {
				t.Fatal(err)
			}
			for ref, want := range map[string]string{
				"refs/heads/a": "refs/heads/packed", "refs/heads/b": "refs/heads/packed", "refs/tags/nowhere": "refs/heads/none",
				"refs/heads/loose": "", "refs/heads/packed": "", "refs/heads/new": "",
			} {
				if target, ok, err := repo.SymbolicTarget(ref); target != want || ok != (want != "") || err != nil {
					t.Errorf("%s: %q, %v, %v, expected %q", ref, target, ok, err, want)
				}
			}
		})
	}
}
