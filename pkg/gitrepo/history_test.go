package gitrepo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// walk collects a RevList and asks whether it is cut.
func walk(t *testing.T, repo *gitrepo.Repo, include, exclude []string) ([]string, error) {
	t.Helper()
	var revs []gitrepo.Rev
	var ids []string
	for rev, err := range repo.RevList(t.Context(), include, exclude, gitrepo.RevListOptions{}) {
		if err != nil {
			return ids, err
		}
		revs = append(revs, rev)
		ids = append(ids, rev.ID)
	}
	return ids, repo.CutIn(revs, exclude)
}

func wantCut(t *testing.T, ids []string, err error) {
	t.Helper()
	if !errors.Is(err, gitrepo.ErrCut) || !strings.Contains(gitrepo.Hint(err), "fetch-depth: 0") {
		t.Errorf("%v, %v; want ErrCut with a hint", ids, err)
	}
}

// line makes n commits on the branch that is checked out.
func line(r *gittest.Repo, n int) (ids []string) {
	parent := r.Try(nil, "rev-parse", "-q", "--verify", "HEAD")
	var parents []string
	if parent.Code == 0 {
		parents = []string{strings.TrimSpace(parent.Stdout)}
	}
	for range n {
		id := r.CommitTree(r.EmptyTreeID(), "c", parents...)
		parents, ids = []string{id}, append(ids, id)
	}
	r.Run("update-ref", "HEAD", parents[0])
	return ids
}

// TestAncestorOfClocks: a commit is in the history of those that follow it, though their clocks
// are behind its own and that of all before it.
func TestAncestorOfClocks(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	commit := func(second int) string {
		r.Setenv("GIT_COMMITTER_DATE", fmt.Sprintf("%d +0000", second))
		return r.Commit("x", map[string]string{"a": fmt.Sprint(second)})
	}
	before, old := commit(gittest.Epoch), commit(gittest.Epoch+1)
	tip := old
	for i := range 20 {
		tip = commit(gittest.Epoch - 20 + i)
	}
	repo := open(t, r)
	for _, id := range []string{before, old} {
		if yes, err := repo.IsAncestor(t.Context(), id, tip); !yes || err != nil {
			t.Errorf("%t, %v", yes, err)
		}
		if yes, err := repo.IsAncestor(t.Context(), tip, id); yes || err != nil {
			t.Errorf("the other way round: %t, %v", yes, err)
		}
	}
}

func TestCutHistory(t *testing.T) {
	t.Run("B07 shallow fetch of both sides", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{Bare: true})
		base := line(r, 5)
		r.Run("update-ref", "refs/heads/feature", base[2])
		r.Run("symbolic-ref", "HEAD", "refs/heads/feature")
		feature := line(r, 3)
		c := r.Clone("--depth=1", "--no-single-branch")
		repo := open(t, c)
		if out := c.Run("rev-list", base[4]+".."+feature[2]); out != feature[2] {
			t.Fatalf("git no longer sees one commit: %s", out)
		}
		ids, err := walk(t, repo, []string{feature[2]}, []string{base[4]})
		wantCut(t, ids, err)
		_, err = repo.MergeBases(t.Context(), base[4], feature[2])
		wantCut(t, nil, err)
		_, err = repo.IsAncestor(t.Context(), base[4], feature[2])
		wantCut(t, nil, err)
		// Control: the same range in the full repository.
		ids, err = walk(t, open(t, r), []string{feature[2]}, []string{base[4]})
		if err != nil || len(ids) != 3 {
			t.Errorf("%v %v", ids, err)
		}
	})
	t.Run("B08 full clone, then a shallow fetch of the base", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{Bare: true})
		base := line(r, 5)
		r.Run("branch", "feature", "main")
		r.Run("symbolic-ref", "HEAD", "refs/heads/feature")
		feature := line(r, 3)
		r.Run("symbolic-ref", "HEAD", "refs/heads/main")
		c := r.Clone("--no-single-branch")
		base = append(base, line(r, 2)...)
		c.Run("fetch", "-q", "--depth=1", "origin", "main")
		if n := c.Run("rev-list", "--count", base[6]+".."+feature[2]); n != "8" {
			t.Fatalf("git no longer sees 8 commits, but %s", n)
		}
		repo := open(t, c)
		ids, err := walk(t, repo, []string{feature[2]}, []string{base[6]})
		wantCut(t, ids, err)
		// What does not need the missing commits still works.
		ids, err = walk(t, repo, []string{feature[2]}, []string{base[4]})
		if err != nil || len(ids) != 3 {
			t.Errorf("%v %v", ids, err)
		}
		c.Run("fetch", "-q", "--unshallow", "origin", "main")
		ids, err = walk(t, open(t, c), []string{feature[2]}, []string{base[6]})
		if err != nil || len(ids) != 3 {
			t.Errorf("after --unshallow: %v %v", ids, err)
		}
	})
	t.Run("B09 a stray shallow file", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{Bare: true})
		ids := line(r, 6)
		os.WriteFile(filepath.Join(r.Dir, "shallow"), []byte(ids[4]+"\n"), 0o644)
		if r.Run("rev-parse", "--is-shallow-repository") != "true" || r.Run("rev-list", "--count", "main") != "2" {
			t.Fatal("the file does not make it shallow")
		}
		repo := open(t, r)
		got, err := walk(t, repo, []string{ids[5]}, []string{ids[1]})
		if err != nil || len(got) != 4 {
			t.Errorf("%v %v", got, err)
		}
		got, err = walk(t, repo, []string{ids[5]}, nil)
		if err != nil || len(got) != 6 {
			t.Errorf("%v %v", got, err)
		}
		if no, err := repo.IsAncestor(t.Context(), ids[5], ids[0]); no || err != nil {
			t.Errorf("%v %v", no, err)
		}
	})
	t.Run("B07 a shallow clone that has all the range needs", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{Bare: true})
		ids := line(r, 9)
		repo := open(t, r.Clone("--depth=5"))
		got, err := walk(t, repo, []string{ids[8]}, []string{ids[5]})
		if err != nil || len(got) != 3 {
			t.Errorf("%v %v", got, err)
		}
		got, err = walk(t, repo, []string{ids[8]}, []string{ids[4]})
		if err != nil || len(got) != 4 {
			t.Errorf("down to the boundary: %v %v", got, err)
		}
		got, err = walk(t, repo, []string{ids[8]}, nil)
		wantCut(t, got, err)
		shallow, err := repo.Shallow()
		if err != nil || len(shallow) != 1 || !shallow[ids[4]] {
			t.Errorf("%v %v", shallow, err)
		}
	})
	// Which side git reads first depends on dates; the answers do not.
	for name, step := range map[string]int64{"rising": 0, "equal": -60, "falling": -120} {
		t.Run("B07 dates that are "+name, func(t *testing.T) {
			r := gittest.New(t, gittest.Options{Bare: true})
			parents := []string(nil)
			grow := func(n int) string {
				for range n {
					parents = []string{r.CommitTree(r.EmptyTreeID(), "c"+strconv.Itoa(int(r.Now)), parents...)}
					r.Now += step
				}
				return parents[0]
			}
			early := grow(2)
			end := grow(2) // where the clone is cut
			base := grow(1)
			f := grow(2)
			r.Run("update-ref", "refs/heads/f", f)
			parents = []string{base}
			r.Now++
			n := grow(2)
			r.Run("update-ref", "refs/heads/n", n)
			// Here the side that is merged leaves the history where it is cut.
			parents = []string{early}
			parents = []string{n, grow(1)}
			m := grow(1)
			r.Run("update-ref", "refs/heads/m", m)
			repo := open(t, r.Clone("--depth=4", "--no-single-branch", "--branch=n"))
			if shallow, err := repo.Shallow(); err != nil || !shallow[end] {
				t.Fatalf("%v %v", shallow, err)
			}
			for _, c := range []struct {
				new, old string
				want     int
			}{{n, base, 2}, {n, end, 3}, {n, f, 2}, {f, n, 2}} {
				ids, err := walk(t, repo, []string{c.new}, []string{c.old})
				if err != nil || len(ids) != c.want {
					t.Errorf("%.7s..%.7s: %v %v", c.old, c.new, ids, err)
				}
			}
			for _, c := range []struct{ a, b, want string }{{base, n, base}, {n, base, base}, {n, f, base}, {f, n, base}, {end, f, end}} {
				ids, err := repo.MergeBases(t.Context(), c.a, c.b)
				if err != nil || !slices.Equal(ids, []string{c.want}) {
					t.Errorf("%.7s and %.7s: %v %v", c.a, c.b, ids, err)
				}
			}
			for _, a := range []string{base, end, n} {
				if yes, err := repo.IsAncestor(t.Context(), a, n); !yes || err != nil {
					t.Errorf("%.7s in %.7s: %v %v", a, n, yes, err)
				}
			}
			_, err := repo.IsAncestor(t.Context(), n, f)
			wantCut(t, nil, err)
			// Controls: what is cut stays undecided.
			ids, err := walk(t, repo, []string{m}, []string{n})
			wantCut(t, ids, err)
			ids, err = walk(t, repo, []string{n}, nil)
			wantCut(t, ids, err)
			full := open(t, r)
			if ids, err := walk(t, full, []string{m}, []string{n}); err != nil || len(ids) != 2 {
				t.Errorf("in the full repository: %v %v", ids, err)
			}
		})
	}
	t.Run("B22 refs that are not asked for", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{Bare: true})
		ids := line(r, 3)
		os.WriteFile(filepath.Join(r.Dir, "refs/heads/broken"), []byte(strings.Repeat("1", 40)+"\n"), 0o644)
		if r.Try(nil, "rev-list", "--all").Code == 0 {
			t.Fatal("the ref is not broken")
		}
		got, err := walk(t, open(t, r), ids[2:], ids[:1])
		if err != nil || len(got) != 2 {
			t.Errorf("%v %v", got, err)
		}
	})
	t.Run("B23 failed is not empty", func(t *testing.T) {
		r := gittest.New(t, gittest.Options{Bare: true})
		ids := line(r, 2)
		other := r.CommitTree(r.EmptyTreeID(), "unrelated")
		repo := open(t, r)
		absent := strings.Repeat("ab", 20)
		for _, tt := range [][2][]string{{{absent}, nil}, {{ids[1]}, {absent}}, {{"--all"}, nil}, {{ids[1]}, {"main"}}, {{repo.ZeroID()}, nil}} {
			if got, err := walk(t, repo, tt[0], tt[1]); err == nil || len(got) > 0 {
				t.Errorf("%v: %v without an error", tt, got)
			}
		}
		if got, err := walk(t, repo, ids[1:], ids[1:]); err != nil || len(got) != 0 {
			t.Errorf("empty range: %v %v", got, err)
		}
		if bases, err := repo.MergeBases(t.Context(), ids[1], other); err != nil || len(bases) != 0 {
			t.Errorf("unrelated: %v %v", bases, err)
		}
		if bases, err := repo.MergeBases(t.Context(), ids[1], ids[0]); err != nil || !slices.Equal(bases, ids[:1]) {
			t.Errorf("bases: %v %v", bases, err)
		}
		for _, tt := range []struct {
			a, b string
			want bool
		}{{ids[0], ids[1], true}, {ids[1], ids[1], true}, {ids[1], ids[0], false}, {other, ids[1], false}} {
			if got, err := repo.IsAncestor(t.Context(), tt.a, tt.b); got != tt.want || err != nil {
				t.Errorf("IsAncestor(%s, %s) = %v, %v", tt.a, tt.b, got, err)
			}
		}
		if _, err := repo.IsAncestor(t.Context(), absent, ids[0]); err == nil {
			t.Error("IsAncestor of an absent commit has no error")
		}
	})
}

// TestRealObjects: what replaces or grafts objects in git's eyes is not obeyed.
func TestRealObjects(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	ids := line(r, 4)
	t.Run("replace refs are not obeyed", func(t *testing.T) {
		blob := r.Blob("real")
		r.Run("replace", blob, r.Blob("fake"))
		r.Run("replace", "--graft", ids[3], ids[0])
		if r.Run("cat-file", "blob", blob) != "fake" || r.Run("rev-list", "--count", "main") != "2" {
			t.Fatal("git does not obey them either")
		}
		repo := open(t, r)
		data, err := repo.Blob(blob, 100)
		if err != nil || string(data) != "real" {
			t.Errorf("%q %v", data, err)
		}
		if got, err := walk(t, repo, ids[3:], nil); err != nil || len(got) != 4 {
			t.Errorf("%v %v", got, err)
		}
	})
	t.Run("grafts are refused", func(t *testing.T) {
		file := filepath.Join(r.Dir, "info/grafts")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(ids[3]+" "+ids[0]+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := gitrepo.Open(t.Context(), envOf(r))
		if !errors.Is(err, gitrepo.ErrGrafts) || gitrepo.Hint(err) != "rm "+file {
			t.Errorf("%v", err)
		}
		other := filepath.Join(r.Dir, "other grafts")
		os.Rename(file, other)
		_, err = gitrepo.Open(t.Context(), envOf(r, "GIT_GRAFT_FILE="+other))
		if !errors.Is(err, gitrepo.ErrGrafts) || gitrepo.Hint(err) != "unset GIT_GRAFT_FILE" {
			t.Errorf("%v %s", err, gitrepo.Hint(err))
		}
		open(t, r) // control
	})
	t.Run("what git can't read of its configuration is said", func(t *testing.T) {
		for count, says := range map[string]string{"abc": "unable to parse command-line config", "0": ""} {
			repo, err := gitrepo.OpenIdle(t.Context(), envOf(r, "GIT_DIR="+r.Dir, "GIT_CONFIG_COUNT="+count))
			if err != nil {
				t.Fatal(err)
			}
			_, err = repo.Resolve(t.Context(), ids[0])
			if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s: %v", count, err)
			}
			repo.Close()
		}
	})
	t.Run("RevList names the parents of the commit", func(t *testing.T) {
		repo := open(t, r)
		r.Run("commit-graph", "write", "--reachable")
		for rev, err := range repo.RevList(t.Context(), ids[3:], nil, gitrepo.RevListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			c, err := repo.Commit(rev.ID)
			if err != nil || !slices.Equal(c.Parents, rev.Parents) {
				t.Errorf("%v %v %v", rev, c, err)
			}
		}
	})
}

// Line says what RevList says, or that it does not know.
func TestLine(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	var ids []string
	for i := range 18 {
		ids = append(ids, r.Commit("x", map[string]string{"f": strconv.Itoa(i)}))
	}
	r.Run("checkout", "-q", "-b", "side", ids[0])
	side := r.Commit("x", map[string]string{"g": "x"})
	r.Run("merge", "-q", "--no-ff", "-m", "x", ids[1])
	merge := strings.TrimSpace(r.Ref("HEAD"))
	repo := open(t, r)
	last := len(ids) - 1
	for _, c := range []struct {
		name     string
		new, old string
		ok       bool
	}{
		{"one commit", ids[last], ids[last-1], true},
		{"as many as are read", ids[last], ids[1], true},
		{"too many", ids[last], ids[0], false},
		{"none", ids[3], ids[3], true},
		{"backwards", ids[1], ids[2], false},
		{"beside each other", ids[2], side, false},
		{"a merge", merge, side, false},
		{"an id of nothing", strings.Repeat("1", 40), ids[0], false},
	} {
		revs, ok := repo.Line(c.new, c.old)
		if ok != c.ok {
			t.Errorf("%s: %v, expected %v", c.name, ok, c.ok)
		}
		if !ok {
			continue
		}
		var want []gitrepo.Rev
		for rev, err := range repo.RevList(t.Context(), []string{c.new}, []string{c.old}, gitrepo.RevListOptions{Reverse: true}) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, rev)
		}
		if !reflect.DeepEqual(revs, want) && len(revs)+len(want) > 0 {
			t.Errorf("%s: %v, RevList says %v", c.name, revs, want)
		}
	}
}

// What is said of a cut history is what the whole one says, or that it is cut.
func TestCutHistoryIsNeverWrong(t *testing.T) {
	graphs := 4
	if os.Getenv("RIGWARD_STRESS") == "full" {
		graphs = 300
	}
	decided, cut := 0, 0
	for seed := range graphs {
		rnd := rand.New(rand.NewPCG(uint64(seed), 7))
		r := gittest.New(t, gittest.Options{Bare: true})
		var ids []string
		for i := range 14 {
			var parents []string
			if i > 0 {
				for range 1 + rnd.IntN(8)/6 {
					if p := ids[max(0, i-1-rnd.IntN(4))]; !slices.Contains(parents, p) {
						parents = append(parents, p)
					}
				}
			}
			r.Now += int64(rnd.IntN(5)-2) * 60
			ids = append(ids, r.CommitTree(r.EmptyTreeID(), strconv.Itoa(i), parents...))
		}
		tips := []string{ids[13], ids[9+rnd.IntN(4)], ids[5+rnd.IntN(4)]}
		for i, id := range tips {
			r.Run("update-ref", "refs/heads/b"+strconv.Itoa(i), id)
		}
		full := open(t, r)
		part := open(t, r.Clone("--depth="+strconv.Itoa(2+rnd.IntN(4)), "--no-single-branch", "--branch=b0"))
		types, err := part.Has(ids)
		if err != nil {
			t.Fatal(err)
		}
		var here []string
		for i, id := range ids {
			if types[i] != "" {
				here = append(here, id)
			}
		}
		agree := func(what string, want, got any, err error) {
			t.Helper()
			switch {
			case errors.Is(err, gitrepo.ErrCut):
				cut++
			case err != nil || !reflect.DeepEqual(want, got):
				t.Errorf("graph %d: %s: %v, %v; the whole history says %v", seed, what, got, err, want)
			default:
				decided++
			}
		}
		for range 12 {
			a, b := here[rnd.IntN(len(here))], here[rnd.IntN(len(here))]
			yes, err := full.IsAncestor(t.Context(), a, b)
			if err != nil {
				t.Fatal(err)
			}
			got, err := part.IsAncestor(t.Context(), a, b)
			agree(fmt.Sprintf("is %.7s in %.7s", a, b), yes, got, err)
			bases, err := full.MergeBases(t.Context(), a, b)
			if err != nil {
				t.Fatal(err)
			}
			gotBases, err := part.MergeBases(t.Context(), a, b)
			slices.Sort(bases)
			slices.Sort(gotBases)
			agree(fmt.Sprintf("bases of %.7s and %.7s", a, b), bases, gotBases, err)
			revs, err := walk(t, full, []string{a}, []string{b})
			if err != nil {
				t.Fatal(err)
			}
			gotRevs, err := walk(t, part, []string{a}, []string{b})
			slices.Sort(revs)
			slices.Sort(gotRevs)
			agree(fmt.Sprintf("%.7s..%.7s", b, a), revs, gotRevs, err)
		}
	}
	t.Logf("%d answers, %d times cut", decided, cut)
	if decided < 10*graphs || cut == 0 {
		t.Error("that tests nothing")
	}
}
