package gitrepo_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

type files = map[string]string

func TestQuarantine(t *testing.T) {
	t.Run("C01 loose and packed", func(t *testing.T) {
		for n, limit := range map[int]string{1: "100", 8: "5"} {
			server := gittest.New(t, gittest.Options{Bare: true})
			server.Run("config", "receive.unpackLimit", limit)
			packs := gittest.TempDir(t) + "/packs"
			saw := install(t, server, "pre-receive", "receive", "ls $GIT_OBJECT_DIRECTORY/pack >'"+packs+"' 2>&1")
			client := server.Clone()
			want := make(files)
			var ids []string
			for i := range n {
				path := fmt.Sprintf("t/%d.md", i)
				want[path] = fmt.Sprint("content ", i)
				ids = append(ids, client.Commit("c", files{path: want[path]}))
			}
			if res := client.Push("origin", "main"); res.Code != 0 {
				t.Fatal(res.Stderr)
			}
			s := one(t, saw())
			slices.Sort(ids)
			slices.Sort(s.Commits)
			if list, err := os.ReadFile(packs); err != nil || strings.Contains(string(list), ".pack") != (n > 1) {
				t.Errorf("%d commits: quarantine holds %q", n, list)
			}
			if s.Error != "" || !s.Quarant || !slices.Equal(s.Commits, ids) || !maps.Equal(s.Files, want) {
				t.Errorf("%d commits: saw %+v", n, s)
			}
		}
	})
	t.Run("C01 two pushes in flight", func(t *testing.T) {
		server := gittest.New(t, gittest.Options{Bare: true})
		together := gittest.TempDir(t)
		saw := install(t, server, "pre-receive", "receive", "export GITREPO_TOGETHER='"+together+"'")
		var wg sync.WaitGroup
		var clients []*gittest.Repo
		for i := range 2 {
			c := server.Clone()
			c.Commit("c", files{fmt.Sprintf("t/%d.md", i): "x"})
			clients = append(clients, c)
		}
		results := make([]gittest.Result, 2)
		for i, c := range clients {
			wg.Add(1)
			go func() {
				defer wg.Done()
				results[i] = c.Push("origin", fmt.Sprintf("main:b%d", i))
			}()
		}
		wg.Wait()
		sights := saw()
		if len(sights) != 2 {
			t.Fatalf("%+v %+v", sights, results)
		}
		paths := make(files)
		for _, s := range sights {
			if s.Error != "" || len(s.Commits) != 1 || len(s.Files) != 1 {
				t.Errorf("saw %+v", s)
			}
			maps.Copy(paths, s.Files)
		}
		if len(paths) != 2 {
			t.Errorf("both hooks saw the same push: %v", paths)
		}
	})
	t.Run("C02 wrapper drops or maps variables", func(t *testing.T) {
		for prelude, want := range map[string]string{
			"export GIT_QUARANTINE_PATH=/nowhere":  `/nowhere cannot be read: no such file or directory`,
			"export GIT_OBJECT_DIRECTORY=/nowhere": `/nowhere cannot be read: no such file or directory`,
			"unset GIT_OBJECT_DIRECTORY":           `GIT_OBJECT_DIRECTORY is not`,
		} {
			server := gittest.New(t, gittest.Options{Bare: true})
			saw := install(t, server, "pre-receive", "receive", prelude)
			client := server.Clone()
			client.Commit("c", files{"a": "b"})
			client.Push("origin", "main")
			if s := one(t, saw()); !strings.Contains(s.Error, want) || !strings.Contains(s.Error, "run the hook as git starts it") {
				t.Errorf("%s: saw %+v", prelude, s)
			}
		}
	})
	t.Run("C02 every variable dropped", func(t *testing.T) {
		server := gittest.New(t, gittest.Options{Bare: true})
		saw := install(t, server, "pre-receive", "receive", "unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES")
		client := server.Clone()
		id := client.Commit("c", files{"a": "b"})
		client.Push("origin", "main")
		if s := one(t, saw()); !strings.Contains(s.Error, id) {
			t.Errorf("saw %+v, want an error that names the commit", s)
		}
	})
}

func TestStagedInHooks(t *testing.T) {
	check := func(t *testing.T, s sight, want files) {
		t.Helper()
		if s.Error != "" || !maps.Equal(s.Files, want) {
			t.Errorf("saw %+v, want %v", s, want)
		}
	}
	t.Run("A04 commit -a, --only, --include", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		r.Commit("base", files{"a": "1", "b": "1", "c": "1"})
		saw := install(t, r, "pre-commit", "staged")
		r.Write("a", "2")
		r.Run("commit", "-qam", "all")
		check(t, one(t, saw()), files{"a": "2"})
		r.Add(files{"b": "3"})
		r.Write("a", "3")
		r.Run("commit", "-qm", "only", "--only", "a")
		check(t, one(t, saw()), files{"a": "3"})
		r.Write("c", "4")
		r.Run("commit", "-qm", "include", "-i", "c")
		check(t, one(t, saw()), files{"b": "3", "c": "4"})
	})
	t.Run("A05 --only with a tree not yet written", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		r.Commit("base", files{"d/a": "1", "e/b": "1"})
		saw := install(t, r, "pre-commit", "staged")
		r.Add(files{"d/a": "2"})
		r.Run("write-tree") // leaves a cache tree
		r.Write("e/b", "2")
		r.Run("commit", "-qm", "only", "--only", "e/b")
		check(t, one(t, saw()), files{"e/b": "2"})
	})
	t.Run("A06 staged text, not the worktree's", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		saw := install(t, r, "pre-commit", "staged")
		r.Add(files{"a": "staged"})
		r.Write("a", "not staged")
		r.Run("commit", "-qm", "m")
		check(t, one(t, saw()), files{"a": "staged"})
	})
	t.Run("A08 intent to add", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		r.Commit("base", files{"a": "1"})
		saw := install(t, r, "pre-commit", "staged")
		r.Write("new.md", "x")
		r.Run("add", "-N", "new.md")
		r.Add(files{"a": "2"})
		r.Run("commit", "-qm", "m")
		check(t, one(t, saw()), files{"a": "2"})
	})
	t.Run("A09 unborn branch, index untouched", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		saw := install(t, r, "pre-commit", "staged")
		r.Add(files{"a": "1", "sub/é x.md": "2"})
		before, err := os.ReadFile(filepath.Join(r.Dir, ".git/index"))
		if err != nil {
			t.Fatal(err)
		}
		r.Hook("post-commit", "#!/bin/sh\n") // the commit itself writes the index; the hook must not
		repo := open(t, r)
		if _, _, err := repo.Staged(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(filepath.Join(r.Dir, ".git/index")); err != nil || string(after) != string(before) {
			t.Error("reading changed the index", err)
		}
		r.Run("commit", "-qm", "m")
		s := one(t, saw())
		check(t, s, files{"a": "1", "sub/é x.md": "2"})
		if s.Ref != "refs/heads/main" {
			t.Errorf("HEAD is %q", s.Ref)
		}
	})
	t.Run("A19 names", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		saw := install(t, r, "pre-commit", "staged")
		want := files{"é x.md": "1", " lead.md": "2", "-dash.md": "3", "q\"uote.md": "4", "nl\nx.md": "5", "[slug].md": "6", "x b/y b/z": "7", "tab\t.md ": "8"}
		r.Add(want)
		r.Run("commit", "-qm", "m")
		check(t, one(t, saw()), want)
	})
	t.Run("from a subdirectory", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		r.Add(files{"a": "1", "sub/b": "2"})
		env := envOf(r)
		env.Dir = filepath.Join(r.Dir, "sub")
		repo, err := gitrepo.Open(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		staged, _, err := repo.Staged(t.Context())
		index, err2 := repo.Index(t.Context())
		if err != nil || err2 != nil || len(staged) != 2 || index.Len() != 2 || repo.WorkTree() != r.Dir {
			t.Errorf("%v %v %v %v %s", staged, err, index, err2, repo.WorkTree())
		}
	})
	t.Run("unmerged", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		base := r.Commit("base", files{"a": "1"})
		r.Commit("ours", files{"a": "2"})
		r.Run("checkout", "-q", "-b", "theirs", base)
		r.Commit("theirs", files{"a": "3"})
		r.Try(nil, "merge", "main")
		if staged, _, err := open(t, r).Staged(t.Context()); err == nil || !strings.Contains(err.Error(), "unmerged") {
			t.Errorf("%v %v", staged, err)
		}
	})
}

func TestOtherRepositories(t *testing.T) {
	t.Run("A01 A02 a second repository from a hook", func(t *testing.T) {
		other := gittest.New(t, gittest.Options{})
		other.Commit("base", files{"o": "1"})
		other.Add(files{"other": "staged there"})
		r := gittest.New(t, gittest.Options{})
		r.Commit("base", files{"a": "1"})
		wt := filepath.Join(gittest.TempDir(t), "wt")
		r.Run("worktree", "add", "-q", wt)
		saw := install(t, r, "pre-commit", "staged", "export GITREPO_OTHER='"+other.Dir+"'")
		linked := *r
		linked.Dir = wt
		linked.Add(files{"a": "2"})
		linked.Run("commit", "-qm", "m")
		if s := one(t, saw()); s.Error != "" || s.GitDir != other.Dir+"/.git" || !maps.Equal(s.Files, files{"other": "staged there"}) {
			t.Errorf("saw %+v", s)
		}
		if n := linked.Run("rev-list", "--count", "HEAD"); n != "2" {
			t.Errorf("the commit was lost: %s commits", n)
		}
	})
	t.Run("A01 every variable that git calls local is dropped", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		var env []string
		for _, name := range strings.Fields(r.Run("rev-parse", "--local-env-vars")) {
			env = append(env, name+"=x")
		}
		if len(env) < 10 {
			t.Fatal("git lists too few variables", env)
		}
		left := gitrepo.Env{Environ: append(env, "GIT_CONFIG_KEY_0=x", "GIT_CONFIG_VALUE_0=x", "GIT_QUARANTINE_PATH=x", "PATH=p", "GIT_AUTHOR_NAME=n")}.Foreign("dir")
		if !slices.Equal(left.Environ, []string{"PATH=p", "GIT_AUTHOR_NAME=n"}) || left.Dir != "dir" {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("A03 --git-dir and --work-tree", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{Bare: true})
		r.Run("config", "core.bare", "false")
		work := gittest.TempDir(t)
		saw := install(t, r, "pre-commit", "staged")
		os.WriteFile(filepath.Join(work, "dot"), []byte("x"), 0o644)
		git := func(args ...string) {
			r.Run(append([]string{"--git-dir=" + r.Dir, "--work-tree=" + work}, args...)...)
		}
		git("-C", work, "add", "dot")
		git("-C", work, "commit", "-qm", "m")
		if s := one(t, saw()); s.Error != "" || s.GitDir != r.Dir || s.Top != work || !maps.Equal(s.Files, files{"dot": "x"}) {
			t.Errorf("saw %+v", s)
		}
	})
}

func TestWorktrees(t *testing.T) {
	t.Run("A11 linked worktree, also of a bare repository", func(t *testing.T) {
		for _, bare := range []bool{false, true} {
			r := gittest.New(t, gittest.Options{Bare: bare})
			id := r.CommitTree(r.Tree(gittest.TreeEntry{Mode: "100644", Name: "a", ID: r.Blob("1")}), "base")
			r.Run("update-ref", "refs/heads/main", id)
			wt := filepath.Join(gittest.TempDir(t), "wt")
			r.Run("worktree", "add", "-q", "-b", "side", wt, "main")
			saw := install(t, r, "pre-commit", "staged")
			linked := *r
			linked.Dir = wt
			linked.Add(files{"a": "2"})
			linked.Run("commit", "-qm", "m")
			s := one(t, saw())
			if s.Error != "" || s.Top != wt || s.Ref != "refs/heads/side" || !maps.Equal(s.Files, files{"a": "2"}) {
				t.Errorf("bare %v: saw %+v", bare, s)
			}
			repo := open(t, &linked)
			common := r.Run("rev-parse", "--path-format=absolute", "--git-common-dir")
			hooks, err := repo.HooksPath(t.Context())
			if repo.CommonDir() != common || hooks != common+"/hooks" || err != nil || repo.Bare() {
				t.Errorf("common %s, hooks %s, bare %v, %v", repo.CommonDir(), hooks, repo.Bare(), err)
			}
		}
	})
	t.Run("A11 A12 submodule and core.hooksPath", func(t *testing.T) {
		lib := gittest.New(t, gittest.Options{})
		lib.Commit("base", files{"l": "1"})
		r := gittest.New(t, gittest.Options{})
		r.Run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.Dir, "lib")
		sub := *r
		sub.Dir = filepath.Join(r.Dir, "lib")
		sub.Run("config", "core.hooksPath", "my hooks")
		saw := install(t, &sub, "pre-commit", "staged")
		sub.Add(files{"l": "2"})
		sub.Run("commit", "-qm", "m")
		if s := one(t, saw()); s.Error != "" || s.Top != sub.Dir || !maps.Equal(s.Files, files{"l": "2"}) {
			t.Errorf("saw %+v", s)
		}
		hooks, err := open(t, &sub).HooksPath(t.Context())
		if err != nil || hooks != filepath.Join(sub.Dir, "my hooks") {
			t.Errorf("hooks %q %v", hooks, err)
		}
		// The gitlink of the outer repository is a change of its own, also
		// where the configuration tells git to ignore it.
		r.Run("config", "diff.ignoreSubmodules", "all")
		r.Commit("lib", nil)
		r.Run("config", "submodule.lib.ignore", "all")
		r.Run("update-index", "--cacheinfo", "160000,"+sub.Ref("HEAD")+",lib")
		staged, _, err := open(t, r).Staged(t.Context())
		if err != nil || len(staged) != 1 || staged[0].NewMode != gitrepo.ModeGitlink {
			t.Errorf("%v %v", staged, err)
		}
	})
}
