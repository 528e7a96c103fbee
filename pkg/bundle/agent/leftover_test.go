//go:build unix

package agent

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// What macOS leaves in a tree is not packed, and said.
func TestMacFilesAreLeftOut(t *testing.T) {
	root := plant(t, rand.New(rand.NewPCG(1, 1)), false)
	_, plain := createFrom(t, root, Format{})
	for _, name := range []string{"._manifest.json", "bin/._agent", "__MACOSX/bin/x", "dist/._a.js"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, out := createFrom(t, root, Format{})
	var noted []string
	for _, n := range r.Notes {
		if n.Code == bundle.NoteIgnoredFile {
			noted = append(noted, n.Path)
		}
	}
	if want := []string{"._manifest.json", "__MACOSX", "bin/._agent", "dist/._a.js"}; !slices.Equal(noted, want) {
		t.Errorf("noted %q, expected %q", noted, want)
	}
	read := func(dir string) []byte {
		files, _ := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
		data, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if string(read(out)) != string(read(plain)) {
		t.Error("they change the bundle")
	}
}

// J11: members of other names of .git, and of .git itself, are refused.
func TestJ11MembersNamedGit(t *testing.T) {
	for _, name := range []string{"git~1/hooks/x", ".git./hooks/x", ".git::$INDEX_ALLOCATION/x", ".g\u200cit/x", ".git/hooks/x", "a/.GIT/config"} {
		r := verifyMembers(t, base(member{name: name, mode: 0o644, body: "x"}))
		if r.OK() || r.Findings[0].Code != bundle.MemberName {
			t.Errorf("%q: %+v", name, r.Findings)
		}
	}
	for _, name := range []string{".github/x", "a/.gitignore", "x/._note", "__MACOSX/y"} {
		r := verifyMembers(t, base(member{name: name, mode: 0o644, body: "x"}))
		mac := slices.ContainsFunc(r.Notes, func(n bundle.Note) bool { return n.Code == bundle.NoteMacFile && n.Path == name })
		if !r.OK() || mac != (name[0] == '_' || name[0] == 'x') {
			t.Errorf("%q: %+v, noted %v", name, r.Findings, mac)
		}
	}
}
