package gitrepo

import (
	"fmt"
	"io/fs"
	"maps"
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

// commitsFile makes a commit of one file in place of git.
func commitsFile(t testing.TB, r *gittest.Repo, path, message string, when time.Time) (ID, bool) {
	t.Helper()
	repo := opened(t, r)
	defer repo.Close()
	data, err := os.ReadFile(filepath.Join(r.Dir, path))
	if err != nil {
		t.Fatal(err)
	}
	branch, head, err := repo.HEAD()
	if err != nil {
		t.Fatal(err)
	}
	return repo.CommitFile(FileCommit{Path: path, Data: data, Branch: branch, Parent: head, Message: []byte(message), When: when})
}

// gitFiles reads what makes up a repository, apart from the objects.
func gitFiles(t testing.TB, r *gittest.Repo) map[string]string {
	t.Helper()
	out := map[string]string{}
	top := filepath.Join(r.Dir, ".git")
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, top+"/")
		if err != nil || e.IsDir() || strings.HasPrefix(rel, "objects/") || strings.HasPrefix(rel, "hooks/") || rel == "COMMIT_EDITMSG" {
			return err
		}
		data, err := os.ReadFile(path)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func named(r *gittest.Repo) {
	r.Run("config", "user.name", "A. B. Cé")
	r.Run("config", "user.email", "a@example.com")
}

// TestCommitFile: what CommitFile makes of a repository is, to the byte of every file,
// what git add and git commit make of it.
func TestCommitFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("git is asked for everything here")
	}
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			r := gittest.New(t, gittest.Options{ObjectFormat: format})
			named(r)
			r.Commit("one", map[string]string{"t-0/A.md": "one\n", "file": "x"})
			random := rand.New(rand.NewPCG(3, 4))
			for round := range 30 {
				if round%6 == 5 { // others' commits, and what git packs
					r.Commit("more", map[string]string{fmt.Sprintf("t-%d/sub/X%d.md", random.IntN(12), round): "x\n"})
				}
				if round == 20 {
					r.Run("pack-refs", "--all")
					r.Run("gc", "-q")
				}
				settled(t, r)
				before := gitFiles(t, r)
				index := filepath.Join(r.Dir, ".git", "index")
				info, err := os.Stat(index)
				if err != nil {
					t.Fatal(err)
				}
				path := fmt.Sprintf("t-%d/G%d.md", random.IntN(12), round)
				r.Write(path, fmt.Sprintf("%d\n%s", round, strings.Repeat("x", random.IntN(3)*100)))
				message := fmt.Sprintf("STATE: the %d. of é\n\nwords  of it\n", round)
				when := time.Unix(1767603600+int64(round)*60, 0).In(time.FixedZone("", 3600*(round%5-2)))
				id, done := commitsFile(t, r, path, message, when)
				if !done {
					t.Fatalf("round %d: %s was left to git", round, path)
				}
				ours := gitFiles(t, r)
				if out := r.Run("status", "--porcelain"); out != "" {
					t.Errorf("round %d: git status says %q", round, out)
				}
				for name, text := range before { // and again by git
					file := filepath.Join(r.Dir, ".git", name)
					if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				for name := range ours {
					if _, was := before[name]; !was {
						os.Remove(filepath.Join(r.Dir, ".git", name))
					}
				}
				if err := os.Chtimes(index, info.ModTime(), info.ModTime()); err != nil {
					t.Fatal(err)
				}
				git := *r
				date := fmt.Sprintf("@%d %s", when.Unix(), when.Format("-0700"))
				for _, who := range []string{"AUTHOR", "COMMITTER"} {
					git.Env = slices.DeleteFunc(slices.Clone(git.Env), func(kv string) bool { return strings.HasPrefix(kv, "GIT_"+who) })
					git.Setenv("GIT_"+who+"_DATE", date)
				}
				git.Run("add", path)
				git.RunIn([]byte(message), "-c", "maintenance.auto=false", "commit", "-q", "--cleanup=verbatim", "-F", "-")
				theirs := gitFiles(t, r)
				if !maps.Equal(ours, theirs) {
					for name := range theirs {
						if ours[name] != theirs[name] {
							t.Errorf("round %d: %s\n%q\n%q", round, name, ours[name], theirs[name])
						}
					}
				}
				if got := r.Run("rev-parse", "HEAD"); got != id {
					t.Errorf("round %d: %s, git makes %s", round, id, got)
				}
			}
			r.Run("fsck", "--strict")
		})
	}
}

// TestCommitFileNot: what git might refuse, or do otherwise, is left to git, and neither
// branch nor reflog has changed then. The lawful neighbour of each is committed.
func TestCommitFileNot(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("git is asked for everything here")
	}
	nothing := func(*gittest.Repo) {}
	write := func(name, text string) func(r *gittest.Repo) { return func(r *gittest.Repo) { r.Write(name, text) } }
	set := func(args ...string) func(r *gittest.Repo) {
		return func(r *gittest.Repo) { r.Run(append([]string{"config"}, args...)...) }
	}
	hook := func(name string) func(r *gittest.Repo) { return write(".git/hooks/"+name, "#!/bin/sh\n") }
	for name, c := range map[string]struct {
		do        func(r *gittest.Repo)
		message   string
		committed bool
	}{
		"nothing":                 {nothing, "m\n", true},
		"pre-commit":              {hook("pre-commit"), "m\n", false},
		"prepare-commit-msg":      {hook("prepare-commit-msg"), "m\n", false},
		"commit-msg":              {hook("commit-msg"), "m\n", false},
		"post-commit":             {hook("post-commit"), "m\n", false},
		"reference-transaction":   {hook("reference-transaction"), "m\n", false},
		"a hook of a push":        {hook("pre-push"), "m\n", true},
		"a sample":                {hook("pre-commit.sample"), "m\n", true},
		"hook elsewhere":          {func(r *gittest.Repo) { r.Write("h/commit-msg", ""); r.Run("config", "core.hooksPath", "h") }, "m\n", false},
		"a hook of the settings":  {set("hook.x.event", "pre-commit"), "m\n", false},
		"signed":                  {set("commit.gpgSign", "true"), "m\n", false},
		"not signed":              {set("commit.gpgSign", "false"), "m\n", true},
		"an encoding":             {set("i18n.commitEncoding", "latin1"), "m\n", false},
		"another author":          {set("author.name", "B"), "m\n", false},
		"another committer":       {set("committer.email", "b@example.com"), "m\n", false},
		"nobody":                  {set("user.name", ""), "m\n", false},
		"a name that git changes": {set("user.name", "A. B."), "m\n", false},
		"an address with signs":   {set("user.email", "a<b@example.com"), "m\n", false},
		"no words":                {nothing, "", false},
		"NUL":                     {nothing, "a\x00b\n", false},
		"not UTF-8":               {nothing, "a\xff\n", false},
		"something is staged":     {func(r *gittest.Repo) { r.Write("t-a/B.md", "b"); r.Run("add", "t-a/B.md") }, "m\n", false},
		"intended":                {func(r *gittest.Repo) { r.Write("t-a/B.md", "b"); r.Run("add", "-N", "t-a/B.md") }, "m\n", false},
		"something is removed":    {func(r *gittest.Repo) { r.Run("rm", "-q", "--cached", "t-b/B.md") }, "m\n", false},
		"something is changed":    {write("t-b/B.md", "another\n"), "m\n", true},
		"the branch is locked":    {write(".git/refs/heads/main.lock", ""), "m\n", false},
		"HEAD is locked":          {write(".git/HEAD.lock", ""), "m\n", false},
		"the index is locked":     {write(".git/index.lock", ""), "m\n", false},
		"another branch":          {func(r *gittest.Repo) { r.Run("symbolic-ref", "HEAD", "refs/heads/other") }, "m\n", false},
		"no reflog":               {func(r *gittest.Repo) { os.Remove(filepath.Join(r.Dir, ".git/logs/HEAD")) }, "m\n", false},
		"a reflog elsewhere": {func(r *gittest.Repo) {
			log := filepath.Join(r.Dir, ".git/logs/HEAD")
			os.Rename(log, log+"x")
			os.Symlink("HEADx", log)
		}, "m\n", false},
		"a large tree": {func(r *gittest.Repo) {
			files := map[string]string{}
			for i := range 1200 {
				files[fmt.Sprintf("t-a/%050d", i)] = ""
			}
			r.Commit("many", files)
		}, "m\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := gittest.New(t, gittest.Options{})
			named(r)
			r.Commit("one", map[string]string{"t-a/A.md": "one\n", "t-b/B.md": "one\n"})
			branch, head := "refs/heads/main", r.Run("rev-parse", "HEAD")
			settled(t, r)
			c.do(r)
			if name == "a large tree" {
				head = r.Run("rev-parse", "HEAD")
			}
			r.Write("t-a/NEW.md", "new\n")
			before := gitFiles(t, r)
			_, done := opened(t, r).CommitFile(FileCommit{Path: "t-a/NEW.md", Data: []byte("new\n"), Branch: branch, Parent: head, Message: []byte(c.message), When: time.Now()})
			if done != c.committed {
				t.Errorf("committed: %t", done)
			}
			after := gitFiles(t, r)
			for _, file := range []string{branch, "logs/" + branch, "logs/HEAD"} {
				if before[file] == after[file] == c.committed {
					t.Errorf("%s changed: %t", file, !c.committed)
				}
			}
			for file := range after {
				if _, was := before[file]; !was {
					t.Errorf("%s is left", file)
				}
			}
		})
	}
	// A branch that somebody has moved stays where it is.
	r := gittest.New(t, gittest.Options{})
	named(r)
	old := r.Commit("one", map[string]string{"t-a/A.md": "one\n"})
	r.Run("commit", "-q", "--allow-empty", "-m", "two")
	head := r.Run("rev-parse", "HEAD")
	r.Write("t-a/NEW.md", "new\n")
	settled(t, r)
	if _, done := opened(t, r).CommitFile(FileCommit{Path: "t-a/NEW.md", Data: []byte("new\n"), Branch: "refs/heads/main", Parent: old, Message: []byte("m\n"), When: time.Now()}); done || r.Run("rev-parse", "HEAD") != head {
		t.Error("it was committed on top of another commit")
	}
}

// TestCommitFileRacy: a change that the times of a file do not tell is seen after a
// commit as before: such a file is read, or the commit is left to git.
func TestCommitFileRacy(t *testing.T) {
	for _, change := range []bool{false, true} {
		r := gittest.New(t, gittest.Options{})
		named(r)
		head := r.Commit("one", map[string]string{"t-a/A.md": "one\n", "t-a/B.md": "one\n"})
		at := time.Now().Truncate(time.Second).Add(-time.Minute)
		changed, index := filepath.Join(r.Dir, "t-a", "A.md"), filepath.Join(r.Dir, ".git", "index")
		if err := os.Chtimes(changed, at, at); err != nil {
			t.Fatal(err)
		}
		r.Run("update-index", "-q", "--refresh")
		if err := os.Chtimes(index, at, at); err != nil {
			t.Fatal(err)
		}
		if change {
			if err := os.WriteFile(changed, []byte("two\n"), 0o644); err != nil || os.Chtimes(changed, at, at) != nil {
				t.Fatal(err)
			}
		}
		r.Write("t-a/C.md", "new\n")
		_, done := opened(t, r).CommitFile(FileCommit{Path: "t-a/C.md", Data: []byte("new\n"), Branch: "refs/heads/main", Parent: head, Message: []byte("m\n"), When: time.Now()})
		if done == change {
			t.Errorf("committed: %t", done)
		}
		if got, want := r.Run("diff", "--name-only"), map[bool]string{true: "t-a/A.md"}[change]; got != want {
			t.Errorf("git diff names %q", got)
		}
	}
}

// TestTreeWith: a tree with one entry more is a tree, with the others as they were.
func TestTreeWith(t *testing.T) {
	id, other := strings.Repeat("ab", 20), strings.Repeat("cd", 20)
	tree := &Tree{hash: 20, offs: []uint32{0}}
	for i, e := range []TreeEntry{
		{"t-one-x", ModeFile, id}, {"t-one", ModeTree, id}, {"a", ModeFile, id}, {"0", ModeExecutable, id}, {"t", ModeTree, id}, {"z", ModeSymlink, id},
		{"t-one", ModeTree, other}, {"a", ModeFile, other}, {"z", ModeTree, other}, {"t-one", ModeFile, other},
	} {
		next, err := ParseTree(id, tree.With(e))
		if err != nil {
			t.Fatalf("%v: %v", e, err)
		}
		if got, ok := next.Lookup(e.Name); !ok || got != e || next.Len() != min(i+1, 6) {
			t.Errorf("%v: %v, %d entries", e, got, next.Len())
		}
		tree = next
	}
}
