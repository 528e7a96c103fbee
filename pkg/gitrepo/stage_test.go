package gitrepo

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

func opened(t testing.TB, r *gittest.Repo) *Repo {
	t.Helper()
	repo, err := OpenIdle(t.Context(), Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	if !repo.knownGit() {
		t.Skip("git is asked for everything here")
	}
	return repo
}

// settled makes a repository whose files are older than its index, so that git has no
// doubt about them.
func settled(t testing.TB, r *gittest.Repo) {
	t.Helper()
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	err := filepath.WalkDir(r.Dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Name() == ".git":
			return filepath.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		return os.Chtimes(path, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Run("update-index", "-q", "--refresh")
	index := filepath.Join(r.Dir, ".git", "index")
	if err := os.Chtimes(index, old.Add(time.Minute), old.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
}

// TestStage: where Stage adds a file the index is the same, to the byte, as git add
// makes it, and the object is there.
func TestStage(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := gittest.New(t, gittest.Options{ObjectFormat: format})
			random := rand.New(rand.NewPCG(1, 2))
			staged := 0
			for round := range 40 {
				files := map[string]string{}
				for range 1 + random.IntN(3) {
					files[fmt.Sprintf("t-%d/F%d.md", random.IntN(6), random.IntN(20))] = fmt.Sprint(random.IntN(5))
				}
				for path, text := range files {
					r.Write(path, text)
				}
				r.Run("add", "-A")
				if round%5 > 0 {
					r.Run("commit", "-q", "--allow-empty", "-m", "m")
				}
				if round%7 == 3 {
					r.Write("sub/deep/er/x", "x")
					r.Run("add", "-N", "sub/deep/er/x")
				}
				settled(t, r)
				path := fmt.Sprintf("t-%d/G%d.md", random.IntN(8), round)
				data := fmt.Appendf(nil, "%d %s", round, strings.Repeat("x", random.IntN(3)*100))
				r.Write(path, string(data))
				index := filepath.Join(r.Dir, ".git", "index")
				before, err := os.ReadFile(index)
				if err != nil {
					t.Fatal(err)
				}
				info, _ := os.Stat(index)
				if opened(t, r).Stage(path, data) {
					staged++
				} else {
					t.Errorf("round %d: %s was left to git", round, path)
				}
				ours, _ := os.ReadFile(index)
				if r.Run("cat-file", "blob", ":"+path) != string(data) { // its id is compared with git's below
					t.Errorf("round %d: not the content", round)
				}
				if err := os.WriteFile(index, before, 0o644); err != nil || os.Chtimes(index, info.ModTime(), info.ModTime()) != nil {
					t.Fatal(err)
				}
				r.Run("add", path)
				if theirs, _ := os.ReadFile(index); !bytes.Equal(ours, theirs) {
					t.Errorf("round %d: the index differs from git's:\n%q\n%q", round, ours, theirs)
				}
			}
			r.Run("fsck", "--strict")
			if staged == 0 {
				t.Error("nothing was staged")
			}
		})
	}
}

// TestStageRacy: a change that the times of a file do not tell is seen as before.
func TestStageRacy(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	r.Commit("one", map[string]string{"t-a/A.md": "one\n", "t-a/B.md": "one\n"})
	at := time.Now().Truncate(time.Second)
	changed := filepath.Join(r.Dir, "t-a", "A.md")
	if err := os.Chtimes(changed, at, at); err != nil {
		t.Fatal(err)
	}
	r.Run("update-index", "-q", "--refresh")
	index := filepath.Join(r.Dir, ".git", "index")
	if err := os.Chtimes(index, at, at); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changed, []byte("two\n"), 0o644); err != nil || os.Chtimes(changed, at, at) != nil {
		t.Fatal(err)
	}
	r.Write("t-a/C.md", "new\n")
	if !opened(t, r).Stage("t-a/C.md", []byte("new\n")) {
		t.Fatal("it was left to git")
	}
	if got := r.Run("status", "--porcelain"); got != "M t-a/A.md\nA  t-a/C.md" && got != " M t-a/A.md\nA  t-a/C.md" {
		t.Errorf("%q", got)
	}
	if out := r.Run("diff", "--name-only"); out != "t-a/A.md" {
		t.Errorf("%q", out)
	}
}

// TestStageNot: what git might refuse, or do otherwise, is left to git, and nothing
// has changed then. The lawful neighbour of each is staged.
func TestStageNot(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files are read in git's place on Linux only")
	}
	write := func(name, text string) func(r *gittest.Repo) {
		return func(r *gittest.Repo) { r.Write(name, text) }
	}
	set := func(args ...string) func(r *gittest.Repo) {
		return func(r *gittest.Repo) { r.Run(append([]string{"config"}, args...)...) }
	}
	run := func(args ...string) func(r *gittest.Repo) { return func(r *gittest.Repo) { r.Run(args...) } }
	for name, c := range map[string]struct {
		do     func(r *gittest.Repo)
		staged bool
	}{
		"nothing":               {func(*gittest.Repo) {}, true},
		"ignored":               {write(".gitignore", "*.md\n"), false},
		"ignored below":         {write("t-a/.gitignore", "NEW.md\n"), false},
		"ignored in the clone":  {write(".git/info/exclude", "/t-a/\n"), false},
		"other patterns":        {write(".gitignore", "*.log\n/bin/\nnode_modules/\n!t-a\n.bridge/config.yaml\n"), true},
		"excludesFile":          {set("core.excludesFile", "/dev/null"), false},
		"split index":           {run("update-index", "--split-index"), false},
		"untracked cache":       {run("update-index", "--force-untracked-cache"), false},
		"version 4":             {run("update-index", "--index-version", "4"), false},
		"version 4, set":        {set("index.version", "4"), false},
		"many files":            {set("feature.manyFiles", "true"), false},
		"fsmonitor":             {set("core.fsmonitor", "true"), false},
		"fsync":                 {set("core.fsync", "all"), false},
		"shared":                {set("core.sharedRepository", "group"), false},
		"case":                  {set("core.ignoreCase", "true"), false},
		"a harmless setting":    {set("core.autocrlf", "input"), true},
		"locked":                {write(".git/index.lock", ""), false},
		"hook":                  {write(".git/hooks/post-index-change", "#!/bin/sh\n"), false},
		"another hook":          {write(".git/hooks/pre-commit", "#!/bin/sh\n"), true},
		"hook elsewhere":        {func(r *gittest.Repo) { r.Write("h/post-index-change", ""); r.Run("config", "core.hooksPath", "h") }, false},
		"a repository":          {run("init", "-q", "t-a"), false},
		"the path is there":     {run("update-index", "--add", "--cacheinfo", "100644,"+strings.Repeat("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", 1)+",t-a/NEW.md"), false},
		"something is below":    {run("update-index", "--add", "--cacheinfo", "100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,t-a/NEW.md/x"), false},
		"the directory is file": {run("update-index", "--add", "--replace", "--cacheinfo", "100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,t-a"), false},
		"executable":            {func(r *gittest.Repo) { os.Chmod(filepath.Join(r.Dir, "t-a/NEW.md"), 0o755) }, false},
		"other content":         {write("t-a/NEW.md", "old\n"), false},
		"a link": {func(r *gittest.Repo) {
			file := filepath.Join(r.Dir, "t-a/NEW.md")
			os.Rename(file, file+"x")
			os.Symlink("NEW.mdx", file)
		}, false},
		"the object is there": {run("hash-object", "-w", "t-a/NEW.md"), true},
		"the object is a link": {func(r *gittest.Repo) {
			id := r.Run("hash-object", "-w", "t-a/NEW.md")
			file := filepath.Join(r.Dir, ".git", "objects", id[:2], id[2:])
			os.Rename(file, filepath.Join(r.Dir, ".git", "elsewhere"))
			os.Symlink("../../elsewhere", file)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := gittest.New(t, gittest.Options{})
			r.Commit("one", map[string]string{"t-a/A.md": "one\n", "t-b/B.md": "one\n", "e": ""})
			r.Write("t-a/NEW.md", "new\n")
			c.do(r)
			index := filepath.Join(r.Dir, ".git", "index")
			before, _ := os.ReadFile(index)
			if done := opened(t, r).Stage("t-a/NEW.md", []byte("new\n")); done != c.staged {
				t.Errorf("staged: %t", done)
			}
			if after, _ := os.ReadFile(index); bytes.Equal(before, after) == c.staged {
				t.Errorf("the index changed: %t", !c.staged)
			}
			if _, err := os.Lstat(index + ".lock"); name != "locked" && err == nil {
				t.Error("a lock is left")
			}
			left, _ := filepath.Glob(filepath.Join(r.Dir, ".git", "objects", "*", "tmp_obj*"))
			if len(left) > 0 {
				t.Errorf("left: %s", left)
			}
		})
	}
	r := gittest.New(t, gittest.Options{})
	r.Commit("one", map[string]string{"t-a/A.md": "one\n"})
	r.Write("t-a/NEW.md", "new\n")
	for _, env := range []string{"GIT_INDEX_FILE=.git/index", "GIT_OBJECT_DIRECTORY=" + filepath.Join(r.Dir, ".git/objects")} {
		repo, err := OpenIdle(t.Context(), Env{Environ: append(slices.Clone(r.Env), env), Dir: r.Dir})
		if err != nil {
			t.Fatal(err)
		}
		if repo.Stage("t-a/NEW.md", []byte("new\n")) {
			t.Errorf("staged with %s", env)
		}
		repo.Close()
	}
}

// TestStageFreshens: an object that is there is as young afterwards as git add makes it,
// so that no git prune takes it away.
func TestStageFreshens(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	r.Commit("one", map[string]string{"t-a/A.md": "one\n"})
	r.Write("t-a/NEW.md", "new\n")
	id := r.Run("hash-object", "-w", "t-a/NEW.md")
	file := filepath.Join(r.Dir, ".git", "objects", id[:2], id[2:])
	if old := time.Now().Add(-1000 * time.Hour); os.Chtimes(file, old, old) != nil {
		t.Fatal("the time cannot be set")
	}
	if !opened(t, r).Stage("t-a/NEW.md", []byte("new\n")) {
		t.Fatal("it was left to git")
	}
	if info, err := os.Stat(file); err != nil || time.Since(info.ModTime()) > time.Hour {
		t.Errorf("the object is still old: %v %v", info.ModTime(), err)
	}
}

// What mayMatch says cannot match, git does not ignore.
func FuzzMayMatch(f *testing.F) {
	for _, s := range []string{
		"*.log\n", "t-a\n", "/t-a/\n", "t-a/N*\n", "**/NEW.md", "t-a/**\n", "[t]-a", "?-a\n", "*\n!t-a\n", "NEW.md \n", "\\NEW.md\n", "# x\nNEW.m[d]\n", "t-a/**/NEW.md\n",
		"/*/NEW*", "\ufeffNEW.md", "a*b\n", "t*a", "N*.md", "*/\n", "t-a/*/\n", "NEW.md\r\n", "//t-a", "**/t-a/**/*.md", "[!x]-a/", "[[:alpha:]]EW.md", "**NEW.md", "t-a**",
	} {
		f.Add(s)
	}
	r := gittest.New(f, gittest.Options{})
	r.Write("t-a/NEW.md", "x")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 || strings.Contains(text, "\x00") || mayMatch(text, "t-a", "NEW.md") {
			return
		}
		if err := os.WriteFile(filepath.Join(r.Dir, ".gitignore"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		git := *r
		git.T = t
		if res := git.Try(nil, "check-ignore", "-v", "t-a/NEW.md"); res.Code == 0 && !strings.Contains(res.Stdout, ":!") {
			t.Errorf("%q: git says %s", text, res.Stdout)
		}
	})
}
