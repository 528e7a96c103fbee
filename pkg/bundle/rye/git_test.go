package rye

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/gittree"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// A well is a tree of folders without end.
type well struct{ gittree.Repo }

func (well) Tree(id string) (*gitrepo.Tree, error) {
	return gitrepo.ParseTree(id, []byte("40000 d\x00"+strings.Repeat("x", len(id)/2)))
}

// TestDeepTree: a commit can hold folders without end, or nearly so; the search
// for extra files ends all the same.
func TestDeepTree(t *testing.T) {
	n := 0
	err := walkFiles(gittree.Source(well{}, strings.Repeat("78", 20)), "d", bundle.Item{Name: "d", Kind: bundle.KindDir}, func(p string, it bundle.Item) error {
		n++
		return nil
	})
	if err != nil || n != 1 {
		t.Errorf("%d files, %v", n, err)
	}
}

// TestCommittedBundle verifies bundles in the trees of commits, as a gate does:
// the files as they are stored, links and submodules as what they are, the
// project's store from the old tip.
func TestCommittedBundle(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	files := map[string]string{".gitattributes": "* text eol=crlf\n*.png -text\n"} // the work tree is of no concern
	_, doc, _ := OwnDocument(ownKey, "me", when)
	files[".ai/config/keys/trusted/"+Fingerprint(public(ownKey))+".toml"] = string(doc)
	old := r.Commit("the store", files)

	dir := writeBundle(t, "1.0.0", notesFiles())
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		r.Write("bundles/notes/"+filepath.ToSlash(rel), string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Run("add", "-A", "-f")
	good := r.Commit("the bundle", nil)

	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	source := func(rev, below string) bundle.Source {
		return gittree.Source(repo, r.Run("rev-parse", rev+":"+below))
	}
	check := func(name, commit, store string, want ...string) *Report {
		t.Helper()
		tree := source(commit, "bundles/notes")
		k := &Keyring{Stores: []Store{{TrustProject, source(store, "")}}, Bundle: tree}
		rep, err := Verify(t.Context(), tree, Options{Keys: k})
		if err != nil {
			t.Fatal(name, err)
		}
		t.Log(name)
		wantCodes(t, rep, want...)
		return rep
	}
	if rep := check("good", good, old); rep.Trust != TrustProject || rep.FilesOK != 9 {
		t.Errorf("%+v", rep)
	}
	r.Run("rm", "-q", "--cached", ".ai/config/keys/trusted/"+Fingerprint(public(ownKey))+".toml")
	gone := r.Commit("no store", nil)
	check("store gone, judged by the old tip", gone, old)
	check("store gone, judged by itself", gone, gone, UntrustedKey)

	index := func(name, mode, id string) string {
		r.Run("reset", "-q", "--hard", good)
		r.Run("update-index", "--add", "--cacheinfo", mode+","+id+",bundles/notes/"+name)
		return r.Commit("changed "+name, nil)
	}
	check("executable bit", index(savePy, "100755", r.Run("rev-parse", good+":bundles/notes/"+savePy)), old)
	check("one byte", index(savePy, "100644", r.Blob(strings.Replace(get(t, dir, savePy), "saved", "sawed", 1))), old, HashMismatch)
	check("symlink to the same bytes", index(savePy, "120000", r.Blob("show.ts")), old, SymlinkFound)
	check("submodule", index(savePy, "160000", good), old, NotRegularFile)
	check("extra symlink", index(".ai/tools/l", "120000", r.Blob("x")), old, ExtraFile, SymlinkFound)
	check("manifest is a symlink", index(ManifestPath(notesID), "120000", r.Blob("x")), old, SymlinkFound)
	r.Run("reset", "-q", "--hard", good)
	r.Run("rm", "-q", "bundles/notes/"+savePy)
	check("lost file", r.Commit("lost", nil), old, FileMissing)
}
