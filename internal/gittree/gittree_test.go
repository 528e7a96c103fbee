package gittree

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// TestLongLinks: a commit can hold a link as long as it likes, and the same one under any
// number of names. Its target is cut behind what a file system can hold, and one byte more.
func TestLongLinks(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	long := r.Blob(strings.Repeat("x", 8<<20))
	good := r.Blob(strings.Repeat("y", maxLink))
	var es []gittest.TreeEntry
	for _, name := range []string{"a", "b", "c"} {
		es = append(es, gittest.TreeEntry{Mode: "120000", Name: name, ID: long})
	}
	top := r.Tree(append(es, gittest.TreeEntry{Mode: "120000", Name: "good", ID: good})...)
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	items, err := Source(repo, top).ReadDir(".")
	if err != nil || len(items) != 4 {
		t.Fatal(items, err)
	}
	for _, it := range items[:3] {
		if it.Kind != bundle.KindSymlink || it.Link != strings.Repeat("x", maxLink+1) {
			t.Errorf("%s: a link of %d bytes", it.Name, len(it.Link))
		}
	}
	if it := items[3]; it.Link != strings.Repeat("y", maxLink) {
		t.Errorf("%s: a link of %d bytes", it.Name, len(it.Link))
	}
}
