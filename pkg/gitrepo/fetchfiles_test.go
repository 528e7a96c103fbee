package gitrepo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// fetching makes a server, a clone that pushes to it, and one that fetches from it and has
// a reflog of what it fetched.
func fetching(t testing.TB, format string) (server, from, to *gittest.Repo) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("git is asked for everything here")
	}
	server = gittest.New(t, gittest.Options{Bare: true, ObjectFormat: format})
	server.Run("config", "receive.denyDeletes", "true")
	from = gittest.New(t, gittest.Options{ObjectFormat: format})
	from.Run("remote", "add", "origin", server.Dir)
	for i := range 2 {
		from.Commit("begin", map[string]string{"t-a/A.md": fmt.Sprint(i), "t-a/sub/x": "x", "file": "x"})
		from.Run("push", "-q", "origin", "main")
		if i == 0 {
			to = server.Clone()
			named(to)
		}
	}
	to.Run("fetch", "-q")
	return server, from, to
}

// copies copies the three, which know each other's new places.
func copies(t testing.TB, server, from, to *gittest.Repo) (s, f, c *gittest.Repo) {
	t.Helper()
	s, f, c = server.Copy(t), from.Copy(t), to.Copy(t)
	for _, r := range []*gittest.Repo{f, c} {
		config := filepath.Join(r.Dir, ".git", "config")
		text, err := os.ReadFile(config)
		if err != nil || !strings.Contains(string(text), server.Dir) {
			t.Fatalf("%v, %q", err, text)
		}
		if err := os.WriteFile(config, []byte(strings.ReplaceAll(string(text), server.Dir, s.Dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return s, f, c
}

// sent is what git push of the branch to a server leaves there, without a process.
func sent(t testing.TB, from, server *gittest.Repo) {
	t.Helper()
	objects := filepath.Join(from.Dir, ".git", "objects")
	loose, err := filepath.Glob(filepath.Join(objects, "??", "*"))
	if packs, _ := filepath.Glob(filepath.Join(objects, "pack", "*")); err != nil || len(packs) > 0 {
		t.Fatalf("not all objects are files of their own: %q, %v", packs, err)
	}
	for _, object := range loose {
		to := filepath.Join(server.Dir, "objects", strings.TrimPrefix(object, objects))
		if _, err := os.Stat(to); err == nil {
			continue
		}
		data, err := os.ReadFile(object)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o444)); err != nil {
			t.Fatal(err)
		}
	}
	server.SetRef("refs/heads/main", from.Ref("refs/heads/main"))
}

func fetchFiles(t testing.TB, r *gittest.Repo) (ID, bool) {
	t.Helper()
	repo := opened(t, r)
	defer repo.Close()
	return repo.FetchFiles("origin", "refs/heads/main", "refs/remotes/origin/main", time.Unix(1767603600, 0).UTC())
}

// TestFetchFiles: what FetchFiles brings is all that git would bring: the ref is where the
// branch is, and everything that it leads to is here.
func TestFetchFiles(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			server, from, to := fetching(t, format)
			random := rand.New(rand.NewPCG(5, 6))
			for round := range 15 {
				for range 1 + random.IntN(3) {
					dir := filepath.Join(from.Dir, fmt.Sprintf("t-%d", random.IntN(4)))
					for range 1 + random.IntN(3) {
						file := filepath.Join(dir, []string{"A.md", "B.md", "sub/C", "sub/deep/D", "sub"}[random.IntN(5)])
						switch random.IntN(6) {
						case 0:
							os.RemoveAll(file)
						case 1:
							os.MkdirAll(filepath.Dir(file), 0o755)
							os.RemoveAll(file)
							os.Symlink("elsewhere", file)
						default:
							if info, err := os.Lstat(file); err == nil && info.IsDir() {
								os.RemoveAll(file)
							}
							os.MkdirAll(filepath.Dir(file), 0o755)
							os.WriteFile(file, fmt.Append(nil, random.IntN(3)), []os.FileMode{0o644, 0o755}[random.IntN(2)])
						}
					}
					from.Run("add", "-A")
					from.Run("commit", "-q", "--allow-empty", "-m", "m")
				}
				if round%7 == 0 {
					from.Run("push", "-q", "origin", "main")
				} else {
					sent(t, from, server)
				}
				if round == 6 {
					server.Run("gc", "-q")
				}
				if round == 9 {
					to.Run("gc", "-q")
				}
				id, done := fetchFiles(t, to)
				if want := server.Ref("refs/heads/main"); !done || id != want || to.Ref("refs/remotes/origin/main") != want {
					t.Fatalf("round %d: %s %t, the branch is at %s", round, id, done, want)
				}
				if out := to.Run("fsck", "--strict", "--no-dangling"); out != "" {
					t.Fatalf("round %d: %s", round, out)
				}
				if again, done := fetchFiles(t, to); !done || again != id {
					t.Errorf("round %d: where nothing came: %s %t", round, again, done)
				}
			}
			if log := to.Run("reflog", "show", "--format=%gn <%ge> %gs", "-1", "origin/main"); log != "A. B. Cé <a@example.com> fetch: fast-forward" {
				t.Errorf("the reflog says %q", log)
			}
			if out := to.Run("fetch", "-v", "origin", "main"); strings.Contains(out, "->  origin") {
				t.Errorf("git fetches more: %s", out)
			}
		})
	}
}

// TestFetchFilesNot: where git might do otherwise it is asked, and the ref stays. The
// lawful neighbour of each is fetched.
func TestFetchFilesNot(t *testing.T) {
	nothing := func(server, from, to *gittest.Repo) {}
	set := func(args ...string) func(server, from, to *gittest.Repo) {
		return func(_, _, to *gittest.Repo) { to.Run(append([]string{"config"}, args...)...) }
	}
	serves := func(args ...string) func(server, from, to *gittest.Repo) {
		return func(server, _, _ *gittest.Repo) { server.Run(append([]string{"config"}, args...)...) }
	}
	push := func(from *gittest.Repo, files map[string]string) {
		from.Commit("more", files)
		from.Run("push", "-q", "-f", "origin", "HEAD:main")
	}
	server, from, to := fetching(t, "")
	push(from, map[string]string{"t-a/NEW.md": "new\n"})
	for name, c := range map[string]struct {
		do      func(server, from, to *gittest.Repo)
		fetched bool
	}{
		"nothing":               {nothing, true},
		"hidden":                {serves("transfer.hideRefs", "refs/heads/main"), false},
		"hidden, otherwise":     {serves("uploadpack.hideRefs", "refs/heads/main"), false},
		"a hook of upload-pack": {serves("uploadpack.packObjectsHook", "false"), false},
		"includes":              {serves("include.path", "/dev/null"), false},
		"a gate's setting":      {serves("rigward.timeout", "1m"), true},
		"checks":                {set("fetch.fsckObjects", "true"), false},
		"checks, otherwise":     {set("transfer.fsckObjects", "true"), false},
		"not allowed":           {set("protocol.file.allow", "never"), false},
		"another program":       {set("remote.origin.uploadpack", "git-upload-pack"), false},
		"for pushes":            {set("remote.origin.receivepack", "git-receive-pack"), true},
		"a promise":             {set("remote.origin.promisor", "true"), false},
		"pruned":                {set("remote.origin.prune", "true"), false},
		"rewritten":             {set("url./nowhere/.insteadOf", "x:"), false},
		"nobody":                {set("user.name", ""), false},
		"fsync":                 {set("core.fsync", "all"), false},
		"a hook":                {func(_, _, to *gittest.Repo) { to.Write(".git/hooks/reference-transaction", "#!/bin/sh\n") }, false},
		"another hook":          {func(_, _, to *gittest.Repo) { to.Write(".git/hooks/post-merge", "#!/bin/sh\n") }, true},
		"the ref is locked":     {func(_, _, to *gittest.Repo) { to.Write(".git/refs/remotes/origin/main.lock", "") }, false},
		"no reflog":             {func(_, _, to *gittest.Repo) { os.Remove(filepath.Join(to.Dir, ".git/logs/refs/remotes/origin/main")) }, false},
		"no such branch":        {func(server, _, _ *gittest.Repo) { server.Run("update-ref", "-d", "refs/heads/main") }, false},
		"a symbolic branch": {func(server, _, _ *gittest.Repo) {
			server.Run("branch", "-m", "main", "trunk")
			server.Run("symbolic-ref", "refs/heads/main", "refs/heads/trunk")
		}, false},
		"cut here":  {func(_, _, to *gittest.Repo) { to.Write(".git/shallow", to.Run("rev-parse", "origin/main")+"\n") }, false},
		"cut there": {func(server, _, _ *gittest.Repo) { os.WriteFile(filepath.Join(server.Dir, "shallow"), nil, 0o644) }, false},
		"rewound":   {func(_, from, _ *gittest.Repo) { from.Run("push", "-q", "-f", "origin", "HEAD~2:main") }, false},
		"rewritten history": {func(_, from, _ *gittest.Repo) {
			from.Run("reset", "-q", "--hard", "HEAD~2")
			push(from, map[string]string{"other": "x"})
		}, false},
		"a merge": {func(_, from, _ *gittest.Repo) {
			from.Run("checkout", "-q", "-b", "side", "HEAD~1")
			from.Commit("side", map[string]string{"side": "x"})
			from.Run("merge", "-q", "--no-edit", "main")
			from.Run("push", "-q", "origin", "HEAD:main")
		}, false},
		"many commits": {func(_, from, _ *gittest.Repo) {
			for range maxCopiedCommits {
				from.Run("commit", "-q", "--allow-empty", "-m", "m")
			}
			from.Run("push", "-q", "origin", "main")
		}, false},
		"a large file": {func(_, from, _ *gittest.Repo) {
			push(from, map[string]string{"large": strings.Repeat("x", maxStaged+1)})
		}, false},
		"a file that is as large": {func(_, from, _ *gittest.Repo) { push(from, map[string]string{"large": strings.Repeat("x", maxStaged)}) }, true},
		"a deep one": {func(_, from, _ *gittest.Repo) {
			push(from, map[string]string{strings.Repeat("d/", maxCopiedDepth+1) + "x": "x"})
		}, false},
		"an object that is missing": {func(server, from, _ *gittest.Repo) {
			id := from.Run("rev-parse", "HEAD:t-a/NEW.md")
			os.Remove(filepath.Join(server.Dir, "objects", id[:2], id[2:]))
		}, false},
		"an object that is another": {func(server, from, _ *gittest.Repo) {
			id, other := from.Run("rev-parse", "HEAD:t-a/NEW.md"), from.Run("rev-parse", "HEAD:file")
			data, _ := os.ReadFile(filepath.Join(server.Dir, "objects", other[:2], other[2:]))
			file := filepath.Join(server.Dir, "objects", id[:2], id[2:])
			os.Remove(file)
			os.WriteFile(file, data, 0o444)
		}, false},
		"a tree with .git": {func(server, from, _ *gittest.Repo) {
			tree := server.WriteObject("tree", gittest.RawTree(gittest.TreeEntry{Mode: "100644", Name: ".GIT", ID: from.Run("rev-parse", "HEAD:file")}))
			server.Run("update-ref", "refs/heads/main", server.CommitTree(tree, "m", from.Run("rev-parse", "HEAD")))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, from, to := copies(t, server, from, to)
			before := to.Ref("refs/remotes/origin/main")
			c.do(server, from, to)
			id, done := fetchFiles(t, to)
			if done != c.fetched {
				t.Errorf("fetched: %t", done)
			}
			if after := to.Ref("refs/remotes/origin/main"); after == before == c.fetched || done && after != id {
				t.Errorf("the ref is at %s, was at %s", after, before)
			}
			if _, err := os.Lstat(filepath.Join(to.Dir, ".git/refs/remotes/origin/main.lock")); err == nil && name != "the ref is locked" {
				t.Error("a lock is left")
			}
		})
	}
}
