package gitrepo_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

func TestObjects(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	small, large := r.Blob("0123456789"), r.Blob(strings.Repeat("x", 1<<20))
	tree := r.Tree(gittest.TreeEntry{Mode: "100644", Name: "a", ID: small})
	absent := strings.Repeat("ab", 20)
	repo := open(t, r)
	t.Run("limit is exact", func(t *testing.T) {
		if data, err := repo.Blob(small, 10); err != nil || string(data) != "0123456789" {
			t.Errorf("%q %v", data, err)
		}
		if _, err := repo.Blob(small, 9); !errors.Is(err, gitrepo.ErrTooLarge) || err.Error() != "blob "+small+" has 10 bytes, at most 9 are read" {
			t.Errorf("%v", err)
		}
	})
	t.Run("kinds of failure", func(t *testing.T) {
		if _, err := repo.Blob(absent, 10); !errors.Is(err, gitrepo.ErrMissing) {
			t.Errorf("%v", err)
		}
		if _, err := repo.Blob(tree, 1000); !errors.Is(err, gitrepo.ErrType) {
			t.Errorf("%v", err)
		}
		for _, id := range []string{"", "HEAD", small[:39], small + "0", strings.ToUpper(small), small[:39] + "\n", repo.ZeroID()} {
			if _, err := repo.Blob(id, 10); !errors.Is(err, gitrepo.ErrInvalid) {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
	t.Run("beginnings of any size", func(t *testing.T) {
		huge := r.RunIn([]byte("begin"+strings.Repeat("y", 40<<20)), "hash-object", "-w", "--stdin")
		ids := []string{small, large, absent, huge, tree, small, huge}
		var got []string
		err := repo.Heads(ids, 12, func(o gitrepo.Object) error {
			if (o.Err != nil) != (o.ID == absent) {
				t.Errorf("%s: %v", o.ID, o.Err)
			}
			got = append(got, fmt.Sprintf("%s %d %.5s", o.Type, o.Size, o.Data))
			return nil
		})
		want := []string{"blob 10 01234", "blob 1048576 xxxxx", " 0 ", "blob 41943045 begin", "tree 29 10064", "blob 10 01234", "blob 41943045 begin"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, expected %q", got, err, want)
		}
		if data, err := repo.Blob(small, 10); err != nil || string(data) != "0123456789" {
			t.Errorf("afterwards: %q %v", data, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped, err := gitrepo.Open(ctx, gitrepo.Env{Environ: r.Env, Dir: r.Dir})
		if err != nil {
			t.Fatal(err)
		}
		defer stopped.Close()
		cancel()
		if err := stopped.Heads([]string{huge}, 12, func(o gitrepo.Object) error { return o.Err }); err == nil {
			t.Error("a stopped repository gives a beginning")
		}
	})
	t.Run("order, limits and misses in a batch", func(t *testing.T) {
		var ids []string
		for i := range 9000 {
			ids = append(ids, []string{small, large, absent, tree}[i%4])
		}
		for i := 0; i < 4000; i += 100 { // more than a batch of bytes
			ids[i+1] = small
		}
		i, read := 0, 0
		err := repo.Objects(ids, 100, func(o gitrepo.Object) error {
			if o.ID != ids[i] {
				t.Fatalf("object %d is %s, want %s", i, o.ID, ids[i])
			}
			switch o.ID {
			case large:
				if !errors.Is(o.Err, gitrepo.ErrTooLarge) || o.Data != nil || o.Size != 1<<20 {
					t.Fatalf("%+v", o)
				}
			case absent:
				if !errors.Is(o.Err, gitrepo.ErrMissing) {
					t.Fatalf("%+v", o)
				}
			case small:
				if string(o.Data) != "0123456789" || o.Type != "blob" {
					t.Fatalf("%+v", o)
				}
				if i%500 == 0 { // the callback may read, too
					if _, err := repo.Tree(tree); err != nil {
						t.Fatal(err)
					}
				}
				read++
			}
			i++
			return nil
		})
		if err != nil || i != len(ids) || read < 2250 {
			t.Errorf("%d of %d, %d read, %v", i, len(ids), read, err)
		}
		stop := errors.New("stop")
		n := 0
		if err := repo.Objects(ids, 100, func(gitrepo.Object) error { n++; return stop }); err != stop || n != 1 {
			t.Errorf("%v after %d", err, n)
		}
	})
	t.Run("much content at a time", func(t *testing.T) {
		n := 0
		err := repo.Objects(slices.Repeat([]string{large}, 40), 1<<20, func(o gitrepo.Object) error { n += len(o.Data); return o.Err })
		if err != nil || n != 40<<20 {
			t.Errorf("%d %v", n, err)
		}
	})
}

func TestPrefix(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	// Two blobs with the same first four digits.
	var list strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&list, "blob\ndata %d\n%s\n", len(fmt.Sprint(i)), fmt.Sprint(i))
	}
	r.RunIn([]byte(list.String()), "fast-import", "--quiet")
	byPrefix := make(map[string][]string)
	for _, id := range strings.Fields(r.Run("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")) {
		byPrefix[id[:4]] = append(byPrefix[id[:4]], id)
	}
	repo := open(t, r)
	twins, unique := "", ""
	for prefix, ids := range byPrefix {
		if len(ids) > 1 {
			twins = prefix
		} else {
			unique = prefix
		}
		slices.Sort(ids)
	}
	if twins == "" || unique == "" {
		t.Fatal("no prefix with two objects")
	}
	check := func(prefix string, want []string) {
		t.Helper()
		got, err := repo.ResolvePrefix(prefix)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v, want %v", prefix, got, err, want)
		}
	}
	check(unique, byPrefix[unique])
	check(twins, byPrefix[twins])
	check(byPrefix[twins][0], byPrefix[twins][:1])
	check(byPrefix[twins][0][:39], byPrefix[twins][:1])
	check(strings.Repeat("ab", 20), nil)
	check(strings.Repeat("ab", 6), nil)
	// A branch of that name is what git prefers, not what was asked for.
	commit := r.CommitTree(r.EmptyTreeID(), "c")
	r.Run("update-ref", "refs/heads/"+unique, commit)
	r.Run("update-ref", "refs/tags/"+twins, byPrefix[twins][0])
	r.Run("update-ref", "refs/tags/abababab", commit)
	check(unique, byPrefix[unique])
	check(twins, byPrefix[twins])
	check("abababab", nil)
	for _, bad := range []string{"", "abc", "HEAD", "abcg", strings.Repeat("a", 41)} {
		if _, err := repo.ResolvePrefix(bad); !errors.Is(err, gitrepo.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestHiddenFile: an entry whose mode git reads with overflow is a file that
// git takes, pushes and checks out, and that must not be overlooked.
func TestHiddenFile(t *testing.T) {
	server := gittest.New(t, gittest.Options{Bare: true})
	server.Run("config", "receive.fsckObjects", "true")
	r := gittest.New(t, gittest.Options{Bare: true})
	blob := r.Blob("hidden")
	base := r.CommitTree(r.Tree(gittest.TreeEntry{Mode: "100644", Name: "a", ID: blob}), "base")
	sub := r.Tree(gittest.TreeEntry{Mode: "40000100644", Name: "evil.md", ID: blob})
	tip := r.CommitTree(r.Tree(gittest.TreeEntry{Mode: "100644", Name: "a", ID: blob}, gittest.TreeEntry{Mode: "40000", Name: "t", ID: sub}), "tip", base)
	saw := install(t, server, "pre-receive", "receive")
	res := r.Push(server.Dir, tip+":refs/heads/main")
	s := one(t, saw())
	if res.Code != 0 {
		t.Logf("git refuses it by itself: %s", res.Stderr)
	} else if out := server.Clone("-b", "main").Run("ls-files"); !strings.Contains(out, "t/evil.md") {
		t.Fatalf("git does not check it out: %q", out)
	}
	if want := "tree " + sub + ` is malformed: entry "40000100644 evil.md" has a mode other than`; !strings.HasPrefix(s.Error, want) {
		t.Errorf("saw %+v, want %s", s, want)
	}
	var bad *gitrepo.MalformedTreeError
	repo := open(t, r)
	if _, err := repo.DiffTrees("", sub); !errors.As(err, &bad) || bad.Tree != sub || bad.Entry != "40000100644 evil.md" {
		t.Errorf("%v", err)
	}
	c, err := repo.Commit(tip)
	if err != nil {
		t.Fatal(err)
	}
	if diffs, err := repo.DiffCommit(c); !errors.As(err, &bad) {
		t.Errorf("%v %v", diffs, err)
	}
}

func TestMissingTree(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	blob := r.Blob("x")
	gone := strings.Repeat("12", 20)
	tree := r.Tree(gittest.TreeEntry{Mode: "100644", Name: "a", ID: blob}, gittest.TreeEntry{Mode: "40000", Name: "d", ID: gone})
	repo := open(t, r)
	if changes, err := repo.DiffTrees("", tree); !errors.Is(err, gitrepo.ErrMissing) || !strings.Contains(err.Error(), gone) {
		t.Errorf("%v %v", changes, err)
	}
	notTree := r.Tree(gittest.TreeEntry{Mode: "40000", Name: "d", ID: blob})
	if changes, err := repo.DiffTrees("", notTree); !errors.Is(err, gitrepo.ErrType) {
		t.Errorf("%v %v", changes, err)
	}
	// The same directory on both sides is not read.
	other := r.Tree(gittest.TreeEntry{Mode: "100755", Name: "a", ID: blob}, gittest.TreeEntry{Mode: "40000", Name: "d", ID: gone})
	if changes, err := repo.DiffTrees(tree, other); err != nil || len(changes) != 1 {
		t.Errorf("%v %v", changes, err)
	}
	if entry, ok, err := repo.EntryAt(other, "a"); err != nil || !ok || entry.Mode != gitrepo.ModeExecutable {
		t.Errorf("%v %v %v", entry, ok, err)
	}
	if _, _, err := repo.EntryAt(other, "d/x"); !errors.Is(err, gitrepo.ErrMissing) {
		t.Errorf("%v", err)
	}
	if _, ok, err := repo.EntryAt(other, "a/x"); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
}

// TestTreeBomb: trees that stand for more paths than any machine can hold.
func TestTreeBomb(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	bomb := func(leaf string, depth int) string {
		for range depth {
			var entries []gittest.TreeEntry
			for i := range 10 {
				entries = append(entries, gittest.TreeEntry{Mode: "40000", Name: fmt.Sprint("d", i), ID: leaf})
			}
			leaf = r.Tree(entries...)
		}
		return leaf
	}
	if _, err := open(t, r).DiffTrees("", bomb(r.EmptyTreeID(), 10)); !errors.Is(err, gitrepo.ErrTooLarge) {
		t.Errorf("%v", err)
	}
	var objects strings.Builder
	fmt.Fprintf(&objects, "commit refs/heads/deep\ncommitter T <t@e> 1 +0000\ndata 0\nM 100644 inline %sf\ndata 1\nx\n", strings.Repeat("d/", gitrepo.MaxDepth+1))
	r.RunIn([]byte(objects.String()), "fast-import", "--quiet")
	deep := r.Run("rev-parse", "deep^{tree}")
	if _, err := open(t, r).DiffTrees("", deep); !errors.Is(err, gitrepo.ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

func TestPartialClone(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	r.Run("config", "uploadpack.allowFilter", "true")
	r.Commit("one", files{"a": "1", "d/b": "1"})
	tip := r.Commit("two", files{"a": "2"})
	present := r.Run("rev-parse", "HEAD:a")
	absent := r.Run("rev-parse", "HEAD~1:a")
	objects := func(c *gittest.Repo) string {
		return c.Run("cat-file", "--batch-all-objects", "--batch-check")
	}
	for _, filter := range []string{"blob:none", "tree:1"} {
		t.Run(filter, func(t *testing.T) {
			c := r.Clone("--no-checkout", "--filter="+filter)
			before := objects(c)
			repo := open(t, c)
			if _, err := repo.Blob(absent, 100); !errors.Is(err, gitrepo.ErrMissing) || !strings.Contains(err.Error(), absent) || !strings.Contains(err.Error(), "partial clone") {
				t.Fatalf("%v", err)
			}
			// That answer does not end the reading of others.
			commit, err := repo.Commit(tip)
			if err != nil {
				t.Fatal(err)
			}
			_, err = repo.DiffTrees("", commit.Tree)
			if filter == "blob:none" && err != nil || filter == "tree:1" && !errors.Is(err, gitrepo.ErrMissing) {
				t.Errorf("%v", err)
			}
			if _, err := repo.Blob(present, 100); !errors.Is(err, gitrepo.ErrMissing) {
				t.Errorf("%v", err)
			}
			if after := objects(c); after != before {
				t.Errorf("objects were fetched:\n%s\n%s", before, after)
			}
			// Control: git itself would fetch it.
			if c.Run("cat-file", "blob", absent) != "1" || objects(c) == before {
				t.Error("git does not fetch either")
			}
		})
	}
}

// kids returns the pids of this process's children that run git cat-file.
func kids(t *testing.T) []int {
	out, err := exec.Command("ps", "-o", "pid=,args=", "--ppid", fmt.Sprint(os.Getpid())).Output()
	if err != nil {
		t.Skip("no ps to find the child with:", err)
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		var pid int
		if strings.Contains(line, "cat-file") && !strings.Contains(line, "defunct") {
			fmt.Sscan(line, &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestChildDies(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	blob := r.Blob("x")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT} {
		before := kids(t)
		repo := open(t, r)
		if _, err := repo.Blob(blob, 10); err != nil {
			t.Fatal(err)
		}
		for _, pid := range kids(t) {
			if !slices.Contains(before, pid) {
				if p, err := os.FindProcess(pid); err != nil || p.Signal(sig) != nil {
					t.Fatal("the child can't be killed")
				}
			}
		}
		_, err := repo.Blob(blob, 10)
		if !errors.Is(err, gitrepo.ErrDied) || !strings.Contains(err.Error(), "git cat-file failed (signal: ") {
			t.Errorf("%v: %v", sig, err)
		}
		_, err = repo.Blob(blob, 10)
		if !errors.Is(err, gitrepo.ErrDied) || !strings.HasPrefix(err.Error(), "no object can be read any more: git cat-file failed (signal: ") {
			t.Errorf("%v, later: %v", sig, err)
		}
		repo.Close()
	}
	t.Run("closed", func(t *testing.T) {
		repo := open(t, r)
		repo.Close()
		if _, err := repo.Blob(blob, 10); !errors.Is(err, gitrepo.ErrDied) {
			t.Errorf("%v", err)
		}
	})
	t.Run("context", func(t *testing.T) {
		ids := line(r, 3)
		before := len(kids(t))
		ctx, cancel := context.WithCancel(t.Context())
		repo, err := gitrepo.Open(ctx, envOf(r))
		if err != nil {
			t.Fatal(err)
		}
		defer repo.Close()
		err = repo.ScanCommits(ctx, repo.RevList(ctx, ids[2:], nil, gitrepo.RevListOptions{}), gitrepo.ScanOptions{}, func(*gitrepo.Scanned) error {
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if _, err := repo.Blob(blob, 10); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		for _, err := range repo.RevList(t.Context(), ids[2:], nil, gitrepo.RevListOptions{}) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
		deadline, cancel2 := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel2()
		if _, _, err := open(t, r).Staged(deadline); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		repo.Close()
		if after := len(kids(t)); after > before+1 { // the one opened last
			t.Errorf("%d children before, %d after", before, after)
		}
	})
	t.Run("the walk is left early", func(t *testing.T) {
		ids := line(r, 3)
		repo := open(t, r)
		stop := errors.New("stop")
		n := 0
		err := repo.ScanCommits(t.Context(), repo.RevList(t.Context(), ids[2:], nil, gitrepo.RevListOptions{}), gitrepo.ScanOptions{}, func(*gitrepo.Scanned) error { n++; return stop })
		if err != stop || n != 1 {
			t.Errorf("%v after %d", err, n)
		}
		if _, err := repo.Blob(blob, 10); err != nil {
			t.Errorf("the Repo is spoilt: %v", err)
		}
	})
}

// stub makes a program that stands for git.
func stub(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(gittest.TempDir(t), "git")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestGitItself(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	blob := r.Blob("x")
	read := func(env gitrepo.Env) error {
		repo, err := gitrepo.Open(t.Context(), env)
		if err != nil {
			return err
		}
		defer repo.Close()
		_, err = repo.Blob(blob, 10)
		return err
	}
	t.Run("too old", func(t *testing.T) {
		env := envOf(r, "GIT_DIR=.")
		env.Git = stub(t, `for a; do case $a in
version) echo git version 2.20.1; exit;;
cat-file) echo "error: unknown option \`+"`"+`batch-command'" >&2; exit 129;;
esac; done
exit 1
`)
		err := read(env)
		if !errors.Is(err, gitrepo.ErrTooOld) || err.Error() != "git 2.20.1 is too old, 2.36 or newer is needed" || gitrepo.Hint(err) == "" {
			t.Errorf("%v", err)
		}
	})
	t.Run("answers that are none", func(t *testing.T) {
		for _, answer := range []string{"what?", "HEAD missing", blob + " blob", blob + " blob 01", blob + " file 1", strings.Repeat("a", 99999)} {
			env := envOf(r, "GIT_DIR=.")
			env.Git = stub(t, "while read x; do case $x in flush) break;; esac; done\necho '"+answer+"'\nwhile read x; do :; done\n")
			if err := read(env); err == nil || !strings.Contains(err.Error(), "unknown form") {
				t.Errorf("%.20q: %v", answer, err)
			}
		}
	})
	t.Run("processes of a hook", func(t *testing.T) {
		git, err := exec.LookPath("git")
		if err != nil {
			t.Fatal(err)
		}
		for _, bare := range []bool{true, false} {
			r := gittest.New(t, gittest.Options{Bare: bare})
			ids := line(r, 3)
			log := filepath.Join(gittest.TempDir(t), "log")
			env := envOf(r)
			if bare {
				env = envOf(r, "GIT_DIR=.")
			}
			env.Git = stub(t, "echo run >>'"+log+"'\nexec '"+git+"' \"$@\"\n")
			repo, err := gitrepo.Open(t.Context(), env)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := repo.Config("rigward.policy"); err != nil {
				t.Error(err)
			}
			if _, id, err := repo.HEAD(); id != ids[2] || err != nil {
				t.Error(id, err)
			}
			if bare {
				err = repo.ScanCommits(t.Context(), repo.RevList(t.Context(), ids[2:], ids[:1], gitrepo.RevListOptions{}), gitrepo.ScanOptions{}, func(s *gitrepo.Scanned) error {
					_, err := repo.ResolvePrefix(s.ID[:12])
					return err
				})
			} else {
				_, _, err = repo.Staged(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			repo.Close()
			if runs, err := os.ReadFile(log); err != nil || strings.Count(string(runs), "run") != 3 {
				t.Errorf("bare %v: git was started %d times, want 3 (%v)", bare, strings.Count(string(runs), "run"), err)
			}
		}
	})
	t.Run("not there", func(t *testing.T) {
		env := envOf(r, "PATH=.:"+gittest.TempDir(t))
		if err := read(env); !errors.Is(err, gitrepo.ErrNoGit) {
			t.Errorf("%v", err)
		}
		env = envOf(r, "GIT_DIR=.")
		env.Git = "/nowhere/git"
		if err := read(env); !errors.Is(err, gitrepo.ErrNoGit) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
	t.Run("traces, pagers and HOME do not matter", func(t *testing.T) {
		trace := filepath.Join(gittest.TempDir(t), "trace")
		env := envOf(r, "GIT_TRACE=1", "GIT_TRACE_SETUP=2", "GIT_TRACE2="+trace, "GIT_TRACE2_EVENT=1", "GIT_PAGER=false", "GIT_LITERAL_PATHSPECS=0",
			"GIT_ICASE_PATHSPECS=1", "GIT_NO_REPLACE_OBJECTS=0", "LC_ALL=de_DE.UTF-8", "LANGUAGE=de", "GIT_FLUSH=0", "GIT_CONFIG=/nowhere")
		env.Environ = slices.DeleteFunc(env.Environ, func(kv string) bool { return strings.HasPrefix(kv, "HOME=") })
		if err := read(env); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(trace); err == nil {
			t.Error("a trace was written")
		}
	})
	t.Run("not a repository", func(t *testing.T) {
		env := envOf(r)
		env.Dir = gittest.TempDir(t)
		if err := read(env); !errors.Is(err, gitrepo.ErrNotRepository) {
			t.Errorf("%v", err)
		}
	})
	t.Run("G11 owner", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can give a repository away")
		}
		for _, top := range []bool{true, false} {
			r := gittest.New(t, gittest.Options{})
			r.Commit("c", files{"d/a": "1"})
			filepath.WalkDir(r.Dir, func(p string, _ fs.DirEntry, _ error) error { return os.Lchown(p, 12345, 12345) })
			env := envOf(r)
			if !top {
				env.Dir = filepath.Join(r.Dir, "d")
			}
			err := read(env)
			if !errors.Is(err, gitrepo.ErrUnsafe) || gitrepo.Hint(err) != "git config --global --add safe.directory "+r.Dir {
				t.Errorf("%v | %s", err, gitrepo.Hint(err))
			}
			// The configuration of such a repository is refused, not empty.
			if repo, err := gitrepo.Open(t.Context(), env); err == nil {
				if values, err := repo.Config("core.bare"); !errors.Is(err, gitrepo.ErrUnsafe) {
					t.Errorf("config %v %v", values, err)
				}
				repo.Close()
			}
			r.Run("config", "--file", r.Home+"/global", "safe.directory", r.Dir)
			env.Environ = append(env.Environ, "GIT_CONFIG_GLOBAL="+r.Home+"/global")
			if err := read(env); !errors.Is(err, gitrepo.ErrMissing) { // the blob is another repository's
				t.Errorf("%v", err)
			}
		}
	})
}
