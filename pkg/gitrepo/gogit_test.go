package gitrepo

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// What is read of objects and refs is what go-git reads, too: neither git nor this
// package has a part in it.
func TestBesideGoGit(t *testing.T) {
	read, refs := 0, 0
	for i, base := range oddBases(t) {
		repo, err := OpenIdle(t.Context(), Env{Environ: base.Env, Dir: base.Dir})
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		if repo.ObjectFormat() != "sha1" || !repo.knownGit() {
			continue
		}
		theirs := filesystem.NewStorage(osfs.New(repo.CommonDir()), cache.NewObjectLRUDefault())
		for ref, err := range repo.Refs(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if other, err := theirs.Reference(plumbing.ReferenceName(ref.Name)); err == nil && other.Type() == plumbing.HashReference {
				if refs++; other.Hash().String() != ref.ID {
					t.Errorf("base %d: %s is %s, go-git says %s", i, ref.Name, ref.ID, other.Hash())
				}
			}
		}
		err = repo.AllObjects(t.Context(), func(id ID, _ string, _ int64) error {
			heads, ok := repo.stored.info([]ID{id})
			other, err := theirs.EncodedObject(plumbing.AnyObject, plumbing.NewHash(id))
			if !ok || err != nil {
				return nil // one of the two leaves it to git
			}
			data, ok := repo.stored.contents(heads)
			in, err := other.Reader()
			if err != nil {
				return err
			}
			want, err := io.ReadAll(in)
			if read++; err != nil || !ok || string(data[0]) != string(want) || heads[0].typ != other.Type().String() {
				t.Errorf("base %d in %s: %s is another object to go-git (%v)", i, filepath.Base(base.Dir), id, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d objects and %d refs are the same", read, refs)
	if knows, ok := systemConfig("/usr/bin/git"); ok && (read < 100 || refs < 10) {
		t.Errorf("only %d objects and %d refs were compared, with the git of %s", read, refs, knows)
	}
}
