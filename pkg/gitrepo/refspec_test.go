package gitrepo_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// TestRefspecs (case J09): where a ref of a remote is followed here is what git
// says, %(upstream) and git fetch, for random lists of refspecs.
//
// git fetch fills each ref that a refspec names, and %(upstream) is the first of
// them. A pattern with a negative refspec git heeds when it fetches, but not
// when it names an upstream, which then is a ref that git fetch never brings:
// there git fetch is right.
func TestRefspecs(t *testing.T) {
	server := gittest.New(t, gittest.Options{Bare: true})
	clone := gittest.New(t, gittest.Options{})
	clone.Commit("x", map[string]string{"x": "x"})
	names := []string{"refs/heads/main", "refs/heads/m", "refs/heads/team/a", "refs/heads/team/b/c", "refs/heads/tmp-x", "refs/tags/v1"}
	for _, name := range names {
		clone.Run("push", "-q", server.Dir, "HEAD:"+name)
	}
	for i, name := range names {
		clone.Run("branch", fmt.Sprint("b", i))
		clone.Run("config", fmt.Sprintf("branch.b%d.remote", i), "o")
		clone.Run("config", fmt.Sprintf("branch.b%d.merge", i), name)
	}
	clone.Run("config", "remote.o.url", server.Dir)
	config := filepath.Join(clone.Dir, ".git", "config")
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	tracking, logs := filepath.Join(clone.Dir, ".git", "refs", "remotes"), filepath.Join(clone.Dir, ".git", "logs", "refs", "remotes")
	froms := append([]string{"refs/heads/*", "refs/*", "refs/heads/team/*", "refs/heads/t*", "refs/heads/m*n", "refs/heads/*/c"}, names...)
	random := rand.New(rand.NewPCG(9, 9))
	const rounds = 60
	seen := map[string]int{}
	for round := range rounds {
		var words []string
		negative := false
		for i := range 1 + random.IntN(4) {
			from := froms[random.IntN(len(froms))]
			if random.IntN(4) == 0 {
				words, negative = append(words, "^"+from), true
				continue
			}
			to := fmt.Sprintf("refs/remotes/%c/x", 'a'+i)
			if strings.Contains(from, "*") {
				to = fmt.Sprintf("refs/remotes/%c/*", 'a'+i)
			}
			words = append(words, []string{"", "+"}[random.IntN(2)]+from+":"+to)
		}
		if !slices.ContainsFunc(words, func(w string) bool { return w[0] != '^' }) {
			continue
		}
		text := string(before) + "[remote \"o\"]\n"
		for _, w := range words {
			text += "\tfetch = \"" + w + "\"\n"
		}
		if err := errors.Join(os.WriteFile(config, []byte(text), 0o644), os.RemoveAll(tracking), os.RemoveAll(logs)); err != nil {
			t.Fatal(err)
		}
		clone.Run("fetch", "-q", "--no-tags", "o")
		fetched, upstream := map[string]bool{}, map[string]string{}
		for line := range strings.Lines(clone.Run("for-each-ref", "--format=%(refname) %(upstream)", "refs/remotes", "refs/heads/b*")) {
			ref, of, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if strings.HasPrefix(ref, "refs/remotes/") {
				fetched[ref] = true
			} else {
				upstream[ref] = of
			}
		}
		// A ref that does not exist is not an upstream for git.
		specs := gitrepo.ParseRefspecs(words)
		for i, name := range names {
			got := specs.Tracking(name)
			seen[fmt.Sprint(got != "", negative)]++
			if got != "" {
				if !fetched[got] {
					t.Errorf("%d: %q: %s is followed by %s, which git fetch did not bring", round, words, name, got)
				}
				if !negative {
					if back := specs.Source(got); back != name {
						t.Errorf("%d: %q: %s is followed by %s, which follows %q", round, words, name, got, back)
					}
				}
			}
			want := upstream[fmt.Sprint("refs/heads/b", i)]
			if got != want && (!negative || got != "" || fetched[want]) {
				t.Errorf("%d: %q: %s is followed by %q, git says %q", round, words, name, got, want)
			}
		}
	}
	if len(seen) < 4 {
		t.Errorf("not everything was tried: %v", slices.Sorted(maps.Keys(seen)))
	}
}

// FuzzRefspecs: the two directions agree, and an odd refspec maps nothing.
func FuzzRefspecs(f *testing.F) {
	f.Add("+refs/heads/*:refs/remotes/o/*\n^refs/heads/tmp*\nrefs/heads/a:refs/x", "refs/heads/a")
	f.Add("*:*\n:\n^\n+", "refs/heads/main")
	f.Fuzz(func(t *testing.T, words, ref string) {
		specs := gitrepo.ParseRefspecs(strings.Split(words, "\n"))
		here := specs.Tracking(ref)
		if here == "" {
			return
		}
		if !strings.HasPrefix(here, "refs/") {
			t.Errorf("%q is followed by %q", ref, here)
		}
		if back := specs.Source(here); specs.Tracking(back) != here {
			t.Errorf("%q is followed by %q, which follows %q", ref, here, back)
		}
	})
}
