package gitrepo_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// asGit compares everything that is known about the place, HEAD, refs and
// configuration of a repository with what git says.
func asGit(t *testing.T, r *gittest.Repo, env ...string) *gitrepo.Repo {
	t.Helper()
	repo := open(t, r, env...)
	git := *r
	git.Env = append(slices.Clone(r.Env), env...)
	ask := func(args ...string) string {
		res := git.Try(nil, args...)
		return strings.TrimSuffix(res.Stdout, "\n")
	}
	place := strings.Join([]string{repo.GitDir(), repo.CommonDir(), fmt.Sprint(repo.Bare()), repo.ObjectFormat(), repo.WorkTree()}, "\n")
	if want := ask("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir", "--is-bare-repository", "--show-object-format", "--show-toplevel"); place != want {
		t.Errorf("place\n%s\ngit says\n%s", place, want)
	}
	ref, id, err := repo.HEAD()
	if err != nil {
		t.Error(err)
	}
	if want := ask("symbolic-ref", "-q", "HEAD"); ref != want {
		t.Errorf("HEAD is %q, git says %q", ref, want)
	}
	if want := ask("rev-parse", "-q", "--verify", "HEAD"); id != want {
		t.Errorf("HEAD is at %q, git says %q", id, want)
	}
	want := make(map[string]string)
	for line := range strings.Lines(ask("for-each-ref", "--format=%(objectname) %(refname) %(symref)")) {
		f := strings.Fields(line)
		want[f[1]] = f[0]
		got, ok, err := repo.Ref(f[1])
		if got != f[0] || !ok || err != nil {
			t.Errorf("ref %s: %s %v %v, git says %s", f[1], got, ok, err, f[0])
		}
		target, ok, err := repo.SymbolicTarget(f[1])
		if err != nil || ok != (len(f) == 3) || ok && target != f[2] {
			t.Errorf("ref %s: target %s %v %v, git says %v", f[1], target, ok, err, f[2:])
		}
	}
	got := make(map[string]string)
	for ref, err := range repo.Refs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got[ref.Name] = ref.ID
	}
	if !maps.Equal(got, want) {
		t.Errorf("refs %v, git says %v", got, want)
	}
	for _, absent := range []string{"refs/heads/main/below", "refs/heads"} {
		if id, ok, err := repo.Ref(absent); ok || err != nil {
			t.Errorf("ref %s: %s %v %v", absent, id, ok, err)
		}
	}
	config := make(map[string][]string)
	for item := range strings.SplitSeq(strings.TrimSuffix(ask("config", "--list", "-z"), "\x00"), "\x00") {
		key, value, _ := strings.Cut(item, "\n")
		config[key] = append(config[key], value)
	}
	for key, want := range config {
		if values, err := repo.Config(key); err != nil || !slices.Equal(values, want) {
			t.Errorf("config %q: %q %v, git says %q", key, values, err, want)
		}
	}
	return repo
}

// TestFormats is the matrix of case H01: the same repository in every format
// that the installed git knows.
func TestFormats(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, refs := range []string{"files", "reftable"} {
			t.Run("H01 "+format+" "+refs, func(t *testing.T) {
				r := gittest.New(t, gittest.Options{ObjectFormat: format, RefFormat: refs})
				asGit(t, r) // unborn
				first := r.Commit("one", files{"a/b": "1"})
				r.Run("tag", "-a", "-m", "t", "v1")
				r.Run("branch", "topic/x")
				r.Run("symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main")
				r.Run("symbolic-ref", "refs/heads/twice", "refs/remotes/origin/HEAD")
				repo := asGit(t, r)
				if refs == "files" {
					r.Run("pack-refs", "--all")
					asGit(t, r)
				}
				tip := r.Commit("two", files{"a/b": "2", "c": "3"})
				asGit(t, r)
				// B03: the zero id has the length of the repository's ids.
				n := map[string]int{"sha1": 40, "sha256": 64}[format]
				if repo.HashLen() != n || !repo.IsZero(strings.Repeat("0", n)) || repo.IsZero(strings.Repeat("0", 104-n)) || repo.IsZero("") || repo.IsZero(tip) {
					t.Error("B03 zero id")
				}
				if repo.EmptyTree() != r.EmptyTreeID() {
					t.Error("empty tree", repo.EmptyTree())
				}
				c, err := repo.Commit(tip)
				if err != nil || len(c.Parents) != 1 || c.Parents[0] != first || c.Author.Email != gittest.Email {
					t.Fatalf("%+v %v", c, err)
				}
				diffs, err := repo.DiffCommit(c)
				if err != nil || len(diffs) != 1 || len(diffs[0].Changes) != 2 || diffs[0].Changes[0].Path != "a/b" || !diffs[0].Changes[1].Added() {
					t.Errorf("%v %v", diffs, err)
				}
				data, err := repo.Blob(diffs[0].Changes[1].NewID, 10)
				if err != nil || string(data) != "3" {
					t.Errorf("%q %v", data, err)
				}
				r.Add(files{"new": "n"})
				staged, _, err := repo.Staged(t.Context())
				if err != nil || len(staged) != 1 || staged[0].Path != "new" || staged[0].OldID != "" {
					t.Errorf("%v %v", staged, err)
				}
				if ids, err := repo.ResolvePrefix(tip[:10]); err != nil || !slices.Equal(ids, []string{tip}) {
					t.Errorf("%v %v", ids, err)
				}
			})
		}
	}
}

func TestOddRepositories(t *testing.T) {
	// Each changes a repository with two commits in its own way; in all of
	// them the same file is then staged and everything is as git says.
	base := gittest.New(t, gittest.Options{})
	base.Commit("one", files{"a": "1", "dir/b": "1", "other/c": "1"})
	base.Run("branch", "topic")
	base.Commit("two", files{"a": "2"})
	for name, change := range map[string]func(t *testing.T, r *gittest.Repo) []string{
		"worktreeConfig": func(t *testing.T, r *gittest.Repo) []string {
			r.Run("config", "extensions.worktreeConfig", "true")
			return nil
		},
		"sparse checkout": func(t *testing.T, r *gittest.Repo) []string {
			r.Run("sparse-checkout", "set", "--cone", "--sparse-index", "other")
			return nil
		},
		"split index":     func(t *testing.T, r *gittest.Repo) []string { r.Run("update-index", "--split-index"); return nil },
		"untracked cache": func(t *testing.T, r *gittest.Repo) []string { r.Run("update-index", "--untracked-cache"); return nil },
		"fsmonitor": func(t *testing.T, r *gittest.Repo) []string {
			r.Run("config", "core.fsmonitor", "touch "+r.Home+"/fsmonitor-ran; false")
			return nil
		},
		"alternates": func(t *testing.T, r *gittest.Repo) []string {
			store := gittest.New(t, gittest.Options{Bare: true})
			os.Rename(r.Dir+"/.git/objects", store.Dir+"/moved")
			os.MkdirAll(r.Dir+"/.git/objects/info", 0o755)
			os.WriteFile(r.Dir+"/.git/objects/info/alternates", []byte(store.Dir+"/moved\n"), 0o644)
			return nil
		},
		"loose pack names": func(t *testing.T, r *gittest.Repo) []string { r.Run("repack", "-adq"); return nil },
		"detached HEAD":    func(t *testing.T, r *gittest.Repo) []string { r.Run("checkout", "-q", "--detach"); return nil },
		"HEAD is a symbolic link": func(t *testing.T, r *gittest.Repo) []string {
			os.Remove(r.Dir + "/.git/HEAD")
			os.Symlink("refs/heads/main", r.Dir+"/.git/HEAD")
			return nil
		},
		".git is a symbolic link": func(t *testing.T, r *gittest.Repo) []string {
			os.Rename(r.Dir+"/.git", r.Home+"/moved")
			os.Symlink(r.Home+"/moved", r.Dir+"/.git")
			return nil
		},
		"a ref is a symbolic link": func(t *testing.T, r *gittest.Repo) []string {
			os.Symlink("main", r.Dir+"/.git/refs/heads/link")
			return nil
		},
		"refs with blanks at the end": func(t *testing.T, r *gittest.Repo) []string {
			id := r.Ref("HEAD")
			os.WriteFile(r.Dir+"/.git/refs/heads/b", []byte(id+"  \n"), 0o644)
			os.WriteFile(r.Dir+"/.git/refs/heads/c", []byte(id), 0o644)
			os.WriteFile(r.Dir+"/.git/refs/heads/d", []byte("ref:   refs/heads/main\n"), 0o644)
			return nil
		},
		"dotted section": func(t *testing.T, r *gittest.Repo) []string {
			appendConfig(t, r, "[branch.Foo]\n\tMerge = refs/heads/x # comment\n\tflag\n[a \"b\\\"c\"]\n d = \"x ; y\" \\\n z\n")
			return nil
		},
		"include": func(t *testing.T, r *gittest.Repo) []string {
			os.WriteFile(r.Home+"/included", []byte("[rigward]\n\trequire = all\n"), 0o644)
			appendConfig(t, r, "[include]\n\tpath = "+r.Home+"/included\n[includeIf \"onbranch:main\"]\n\tpath = "+r.Home+"/included\n")
			return nil
		},
		"a worktree configured": func(t *testing.T, r *gittest.Repo) []string {
			r.Run("config", "core.worktree", r.Dir)
			return nil
		},
		"bare twice": func(t *testing.T, r *gittest.Repo) []string { appendConfig(t, r, "[core]\n\tbare = no\n"); return nil },
		"CORE in capitals": func(t *testing.T, r *gittest.Repo) []string {
			appendConfig(t, r, "[CORE]\n\tBARE = FALSE\n")
			return nil
		},
		"configuration in the environment": func(t *testing.T, r *gittest.Repo) []string {
			return []string{"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=rigward.policy", "GIT_CONFIG_VALUE_0=a\nb", "GIT_CONFIG_KEY_1=core.bare", "GIT_CONFIG_VALUE_1=false"}
		},
		"GIT_DIR": func(t *testing.T, r *gittest.Repo) []string { return []string{"GIT_DIR=.git"} },
		"GIT_DIR and GIT_WORK_TREE": func(t *testing.T, r *gittest.Repo) []string {
			return []string{"GIT_DIR=" + r.Dir + "/.git", "GIT_WORK_TREE=" + r.Dir}
		},
		"GIT_COMMON_DIR": func(t *testing.T, r *gittest.Repo) []string { return []string{"GIT_COMMON_DIR=" + r.Dir + "/.git"} },
	} {
		t.Run("H05 "+name, func(t *testing.T) {
			r := base.Copy(t)
			env := change(t, r)
			git := *r
			git.Env = append(slices.Clone(r.Env), env...)
			git.RunIn([]byte("100644 "+git.RunIn([]byte("n"), "hash-object", "-w", "--stdin")+" 0\tnew\x00"), "update-index", "--add", "-z", "--index-info")
			os.Remove(r.Home + "/fsmonitor-ran")
			repo := asGit(t, r, env...)
			staged, _, err := repo.Staged(t.Context())
			if err != nil || len(staged) != 1 || staged[0].Path != "new" {
				t.Errorf("staged %v %v", staged, err)
			}
			index, err := repo.Index(t.Context())
			if err != nil || index.Len() != 4 {
				t.Errorf("index %v %v", index, err)
			}
			if _, err := os.Stat(r.Home + "/fsmonitor-ran"); err == nil {
				t.Error("the file system monitor was started")
			}
		})
	}
}

func appendConfig(t *testing.T, r *gittest.Repo, text string) {
	t.Helper()
	f, err := os.OpenFile(r.Dir+"/.git/config", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenRefs(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "cut off": "abcdef\n", "no id": "what\n", "symbolic to nothing good": "ref: ../x\n"} {
		for _, packed := range []bool{false, true} {
			r := gittest.New(t, gittest.Options{})
			r.Commit("one", files{"a": "1"})
			r.Run("branch", "x")
			if packed { // an older value that must not come up again
				r.Run("pack-refs", "--all")
			}
			os.WriteFile(r.Dir+"/.git/refs/heads/x", []byte(content), 0o644)
			repo := open(t, r)
			if id, ok, err := repo.Ref("refs/heads/x"); err == nil {
				t.Errorf("%s: %q %v without an error", name, id, ok)
			}
		}
	}
	t.Run("packed-refs cut off", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{})
		id := r.Commit("one", files{"a": "1"})
		r.Run("update-ref", "-d", "HEAD")
		os.WriteFile(r.Dir+"/.git/packed-refs", []byte(id[:10]+" refs/heads/x\n"), 0o644)
		if id, ok, err := open(t, r).Ref("refs/heads/x"); err == nil {
			t.Errorf("%q %v without an error", id, ok)
		}
	})
	t.Run("names", func(t *testing.T) {
		repo := open(t, gittest.New(t, gittest.Options{}))
		for _, bad := range []string{"", "main", "config", "../HEAD", "refs/../config", "refs/heads/../../config", "refs/heads/a..b", "refs/heads/.a", "refs/heads/a.lock", "refs/heads/a\n", "refs/heads/", "/refs/heads/a", "refs/heads/a*", "--all", "refs/heads/a@{1}"} {
			if id, ok, err := repo.Ref(bad); err == nil {
				t.Errorf("%q: %q %v without an error", bad, id, ok)
			}
		}
	})
}

func TestConfig(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	r.Run("config", "Rigward.Require", "relay")
	r.Run("config", "--add", "rigward.require", "all")
	r.Run("config", "url.Sub.Key.insteadOf", "with\nline")
	appendConfig(t, r, "[b]\n\tbare\n\tempty =\n\tyes = On\n\tno = 0\n\tn = 7\n\tother = maybe\n")
	repo := open(t, r)
	values, err := repo.Config("RIGWARD.require")
	if err != nil || !slices.Equal(values, []string{"relay", "all"}) {
		t.Errorf("%q %v", values, err)
	}
	if last, set, err := repo.ConfigLast("url.Sub.Key.INSTEADOF"); last != "with\nline" || !set || err != nil {
		t.Errorf("%q %v %v", last, set, err)
	}
	if _, set, err := repo.ConfigLast("url.sub.key.insteadof"); set || err != nil {
		t.Errorf("%v %v", set, err)
	}
	for key, want := range map[string][2]bool{"b.bare": {true, true}, "b.empty": {false, true}, "b.yes": {true, true}, "b.no": {false, true}, "b.n": {true, true}, "b.absent": {false, false}} {
		value, set, err := repo.ConfigBool(key)
		if value != want[0] || set != want[1] || err != nil {
			t.Errorf("%s: %v %v %v", key, value, set, err)
		}
	}
	if _, _, err := repo.ConfigBool("b.other"); err == nil || gitrepo.Hint(err) != "git config b.other true" {
		t.Errorf("%v", err)
	}
}

// TestReadsOnly: nothing in the repository changes while it is read.
func TestReadsOnly(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	r.Commit("one", files{"a": "1", "d/b": "1"})
	tip := r.Commit("two", files{"a": "2"})
	r.Write("a", "changed, with another time")
	r.Add(files{"new": "n"})
	snapshot := func() string {
		var b strings.Builder
		filepath.Walk(r.Dir, func(p string, info os.FileInfo, err error) error {
			fmt.Fprintln(&b, p, info.Mode(), info.ModTime().UnixNano(), info.Size(), err)
			return nil
		})
		return b.String()
	}
	before := snapshot()
	repo := useAll(t, r, tip)
	repo.Close()
	if after := snapshot(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// useAll uses every reading method once.
func useAll(t *testing.T, r *gittest.Repo, tip string) *gitrepo.Repo {
	t.Helper()
	repo := open(t, r)
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	_, _, err := repo.Staged(ctx)
	must(err)
	_, err = repo.Index(ctx)
	must(err)
	_, err = repo.HooksPath(ctx)
	must(err)
	_, err = repo.Config("core.bare")
	must(err)
	_, _, err = repo.HEAD()
	must(err)
	_, err = repo.MergeBases(ctx, tip, tip)
	must(err)
	_, err = repo.ResolvePrefix(tip[:8])
	must(err)
	for _, err := range repo.Refs(ctx) {
		must(err)
	}
	must(repo.ScanCommits(ctx, repo.RevList(ctx, []string{tip}, nil, gitrepo.RevListOptions{}), gitrepo.ScanOptions{}, func(*gitrepo.Scanned) error { return nil }))
	return repo
}
