package rye

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// A generation is one way to write what a bundle holds.
type generation struct {
	name  string
	items func() map[string]string
	// create makes the manifest of a folder, and writes it if it is one.
	create  func(t testing.TB, dir string) *Creation
	install func(t testing.TB, dir, space string) *InstallResult
	id      string
	place   string // of what is installed
}

func generations() []generation {
	return []generation{
		{"object_hash", notesFiles, func(t testing.TB, dir string) *Creation {
			o := CreateOptions{ID: notesID, Version: "1.0.0", Time: when, Key: ownKey, SignItems: true}
			c, err := Create(t.Context(), openDir(t, dir), o)
			if err != nil {
				t.Fatal(err)
			}
			if c.OK() {
				if err := c.Write(dir); err != nil {
					t.Fatal(err)
				}
			}
			return c
		}, func(t testing.TB, dir, space string) *InstallResult { return install(t, dir, space, nil) }, notesID, ""},
		{"head", headSourceFiles, func(t testing.TB, dir string) *Creation { return createHead(t, dir, nil) }, headInstall, "", ".ai/bundles/notes/"},
	}
}

// otherNames are names of .git to some file system, neighbours names near them.
var (
	otherNames = []string{
		"git~1/hooks/x.py", "GIT~2/x.py", ".git./hooks/x.py", ".git /x.py", ".git::$INDEX_ALLOCATION/x.py",
		".g\u200cit/x.py", ".gi\u00adt/x.py", "a/.git\ufeff/x.py",
	}
	neighbours = []string{".github/x.py", "git-notes/x.py", "a/.gitignore.py", "x.git/y.py"}
)

// J11: an item below another name of .git is neither listed, nor verified when
// its manifest is signed, nor installed; the names near them are all of it.
func TestJ11RyeItemsNamedGit(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("such files cannot be made here")
	}
	for _, g := range generations() {
		t.Run(g.name, func(t *testing.T) {
			for _, name := range otherNames {
				dir := writeFiles(t, g.items())
				p := ".ai/tools/" + name
				put(t, dir, p, "x")
				if c := g.create(t, dir); !slices.Contains(codes(c.Findings), PathUnsafe) {
					t.Errorf("create %q: %v", name, messages(c.Findings))
				}
				if err := os.RemoveAll(filepath.Join(dir, ".ai/tools", rootOf(name))); err != nil {
					t.Fatal(err)
				}
				if c := g.create(t, dir); !c.OK() {
					t.Fatal(messages(c.Findings))
				}
				put(t, dir, p, "x")
				if g.id == "" {
					signed, fault := SignHead(p, []byte("x"), ownKey, when)
					if fault != nil {
						t.Fatal(fault)
					}
					put(t, dir, p, string(signed))
				} else {
					resign(t, dir, ownKey, func(body string) string {
						return withoutDigest(body) + fmt.Sprintf("  %q:\n    object_hash: %s\n", p, ObjectHash(p, []byte("x")))
					})
				}
				if r := verify(t, dir, Options{ID: g.id, Keys: pin(t, ownKey)}); !slices.Contains(codes(r.Findings), PathUnsafe) {
					t.Errorf("verify %q: %v", name, messages(r.Findings))
				}
				space := t.TempDir()
				if in := g.install(t, dir, space); in.OK() {
					t.Errorf("install %q: %+v", name, in)
				}
				if list, err := os.ReadDir(space); err != nil || len(list) > 0 {
					t.Errorf("install %q wrote %v, %v", name, list, err)
				}
			}
			dir := writeFiles(t, g.items())
			for _, name := range neighbours {
				put(t, dir, ".ai/tools/"+name, "x")
			}
			if c := g.create(t, dir); !c.OK() {
				t.Fatal(messages(c.Findings))
			}
			if r := verify(t, dir, Options{ID: g.id, Keys: pin(t, ownKey)}); !r.Verified() {
				t.Error(messages(r.Findings))
			}
			space := t.TempDir()
			if in := g.install(t, dir, space); !in.OK() {
				t.Fatal(messages(in.Findings))
			}
			for _, name := range neighbours {
				if get(t, space, g.place+".ai/tools/"+name) != get(t, dir, ".ai/tools/"+name) {
					t.Errorf("%s is not installed", name)
				}
			}
		})
	}
}

func rootOf(name string) string {
	for path.Dir(name) != "." {
		name = path.Dir(name)
	}
	return name
}

// What macOS leaves in a tree is not listed, which create says, and does not
// spoil a bundle, which verify says. Another file that nobody listed does.
func TestRyeMacFiles(t *testing.T) {
	left := []string{".ai/tools/._save.py", ".ai/tools/__MACOSX/a/b", ".ai/knowledge/._x"}
	for _, g := range generations() {
		t.Run(g.name, func(t *testing.T) {
			dir := writeFiles(t, g.items())
			plain := g.create(t, writeFiles(t, g.items()))
			for _, p := range left {
				put(t, dir, p, "x")
			}
			noted := func(r *bundle.Result, code string) (names []string) {
				for _, n := range r.Notes {
					if n.Code == code {
						names = append(names, n.Path)
					}
				}
				slices.Sort(names)
				return names
			}
			c := g.create(t, dir)
			want := []string{".ai/knowledge/._x", ".ai/tools/._save.py", ".ai/tools/__MACOSX"}
			if got := noted(&c.Result, bundle.NoteIgnoredFile); !c.OK() || !slices.Equal(got, want) {
				t.Errorf("create notes %q, expected %q: %v", got, want, messages(c.Findings))
			}
			if string(c.Text) != string(plain.Text) {
				t.Error("they change the manifest")
			}
			want = []string{".ai/knowledge/._x", ".ai/tools/._save.py", ".ai/tools/__MACOSX/a/b"}
			r := verify(t, dir, Options{ID: g.id, Keys: pin(t, ownKey)})
			if got := noted(&r.Result, bundle.NoteMacFile); !r.Verified() || !slices.Equal(got, want) {
				t.Errorf("verify notes %q, expected %q: %v", got, want, messages(r.Findings))
			}
			space := t.TempDir()
			if in := g.install(t, dir, space); !in.OK() {
				t.Error(messages(in.Findings))
			}
			for _, p := range left {
				if _, err := os.Lstat(filepath.Join(space, g.place, p)); err == nil {
					t.Errorf("%s is installed", p)
				}
			}
			put(t, dir, ".ai/tools/other.py", "x")
			if r := verify(t, dir, Options{ID: g.id, Keys: pin(t, ownKey)}); r.Verified() {
				t.Error("a file that nobody listed was verified")
			}
		})
	}
}
