package rules

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// TestFakeIsLikeGit judges all plays once more with a repository of git, which
// the fake must not differ from.
func TestFakeIsLikeGit(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts git for each play")
	}
	r := gittest.New(t, gittest.Options{Bare: true})
	type scene struct {
		name  string
		world *world
	}
	var scenes []scene
	for rule, list := range plays {
		for _, p := range list {
			w := newWorld(t)
			p.make(w)
			if w.shallow != nil || strings.Contains(p.name, "two commits begin with") {
				continue // which is not made of objects
			}
			for _, o := range w.objects {
				writeLoose(t, r.Dir, o)
			}
			scenes = append(scenes, scene{rule + "/" + p.name, w})
		}
	}
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: append(r.Env, "GIT_DIR=."), Dir: r.Dir}) // as a server's hook has it
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	for _, s := range scenes {
		w := s.world
		fake, fakeErr := w.judgeWith(w.gate, nil)
		change := w.judge
		w.judge = func(j *Judge, r *Range) {
			j.Repo = repo
			if change != nil {
				change(j, r)
			}
		}
		git, gitErr := w.judgeAt(w.gate)
		if fmt.Sprint(fakeErr) != fmt.Sprint(gitErr) {
			t.Errorf("%s: %v, with git %v", s.name, fakeErr, gitErr)
		}
		if !slices.Equal(fake.Findings, git.Findings) || fake.Commits != git.Commits || fake.Envelopes != git.Envelopes {
			t.Errorf("%s:\n%+v\nwith git:\n%+v", s.name, fake.Findings, git.Findings)
		}
	}
	if len(scenes) < 150 {
		t.Errorf("only %d plays", len(scenes))
	}
}

func writeLoose(t testing.TB, dir string, o gitrepo.Object) {
	t.Helper()
	file := filepath.Join(dir, "objects", o.ID[:2], o.ID[2:])
	if _, err := os.Stat(file); err == nil {
		return
	}
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	fmt.Fprintf(z, "%s %d\x00%s", o.Type, o.Size, o.Data)
	z.Close()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o444); err != nil {
		t.Fatal(err)
	}
}
