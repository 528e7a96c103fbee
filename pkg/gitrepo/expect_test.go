package gitrepo

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestExpect: a large tree of which a commit is announced is the same as one that is
// read at once; where its file is broken git is asked, and says so.
func TestExpect(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := gittest.New(t, gittest.Options{ObjectFormat: format})
			var list bytes.Buffer
			for i := range 2500 {
				sum := sha256.Sum256(fmt.Append(nil, i))
				fmt.Fprintf(&list, "040000 tree %.*x\tthread-%05d\n", len(r.EmptyTreeID())/2, sum, i)
			}
			tree := r.RunIn(list.Bytes(), "mktree", "--missing")
			large, small := r.CommitTree(tree, "Large"), r.CommitTree(r.EmptyTreeID(), "Small")

			repo := opened(t, r)
			for i, commit := range []string{large, small, repo.EmptyTree(), tree} {
				repo.Expect(commit)
				if n := len(repo.stored.begun); n > 0 != (i == 0) {
					t.Errorf("%d objects are read ahead for %s", n, commit)
				}
				clear(repo.stored.begun)
			}
			repo = opened(t, r)
			repo.Expect(large)
			got, err := repo.Tree(tree)
			want, wantErr := opened(t, r).Tree(tree)
			if err != nil || wantErr != nil || got.Len() != 2500 || !bytes.Equal(got.raw, want.raw) {
				t.Errorf("a tree that was expected: %v, one that was not: %v", err, wantErr)
			}
			if len(repo.stored.begun) != 0 {
				t.Error("the tree was not taken from what was read ahead")
			}

			file := filepath.Join(r.Dir, ".git", "objects", tree[:2], tree[2:])
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			data[len(data)/2] ^= 1
			if err := os.WriteFile(file, data, 0o444); err != nil {
				t.Fatal(err)
			}
			broken := opened(t, r)
			broken.Expect(large)
			if tree, err := broken.Tree(tree); err == nil {
				t.Errorf("a broken tree is read: %d entries", tree.Len())
			}
		})
	}
}
