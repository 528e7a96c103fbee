package gitrepo_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// rounds is how many random histories are compared with git; set
// GITREPO_ROUNDS for a longer run.
func rounds(t testing.TB) int {
	n, err := strconv.Atoi(os.Getenv("GITREPO_ROUNDS"))
	if err != nil {
		return 2
	}
	return n
}

var names = []string{"a", "a.b", "a-", "a0", "b", "ab", "é x", " lead", "-dash", "q\"uote", "nl\nx", "[slug]", "tab\t", "x b", "A", "\xff\xfe", "z~1", "gits", ".gitignore", "back\\slash"}

// randomHistory builds commits with merges, directories that become files,
// mode changes, symbolic links and submodules, through fast-import.
func randomHistory(t testing.TB, r *gittest.Repo, rng *rand.Rand, commits int) {
	t.Helper()
	var b strings.Builder
	modes := []string{"100644", "100644", "100755", "120000", "160000"}
	quote := func(p string) string {
		var q strings.Builder
		q.WriteByte('"')
		for i := range len(p) {
			fmt.Fprintf(&q, "\\%03o", p[i])
		}
		q.WriteByte('"')
		return q.String()
	}
	for i := 1; i <= commits; i++ {
		fmt.Fprintf(&b, "commit refs/heads/main\nmark :%d\ncommitter T <t@example.com> %d +0000\ndata 0\n", i, gittest.Epoch+i)
		if i > 1 {
			fmt.Fprintf(&b, "from :%d\n", 1+rng.IntN(i-1))
			for m := 0; i > 3 && m < 2 && rng.IntN(4) == 0; m++ {
				fmt.Fprintf(&b, "merge :%d\n", 1+rng.IntN(i-1))
			}
		}
		for range rng.IntN(6) {
			depth := 1 + rng.IntN(4)
			parts := make([]string, depth)
			for d := range parts {
				parts[d] = names[rng.IntN(len(names))]
			}
			path := quote(strings.Join(parts, "/"))
			if rng.IntN(3) == 0 {
				fmt.Fprintf(&b, "D %s\n", path)
				continue
			}
			mode := modes[rng.IntN(len(modes))]
			if mode == "160000" {
				fmt.Fprintf(&b, "M 160000 %s %s\n", fmt.Sprintf("%0*x", len(r.Run("hash-object", "-t", "blob", os.DevNull)), 1+rng.IntN(3)), path)
				continue
			}
			data := strconv.Itoa(rng.IntN(5))
			fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", mode, path, len(data), data)
		}
		b.WriteByte('\n')
	}
	b.WriteString("done\n")
	r.RunIn([]byte(b.String()), "fast-import", "--quiet", "--done", "--force")
}

// gitDiff is what git diff-tree says, as DiffTrees would.
func gitDiff(r *gittest.Repo, old, new string) []gitrepo.Change {
	out := r.Run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
	var changes []gitrepo.Change
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		mode := func(s string) gitrepo.Mode { n, _ := strconv.ParseUint(s, 8, 32); return gitrepo.Mode(n) }
		c := gitrepo.Change{Path: fields[i+1], OldMode: mode(f[0]), NewMode: mode(f[1]), OldID: f[2], NewID: f[3]}
		if c.OldMode == 0 {
			c.OldID = ""
		}
		if c.NewMode == 0 {
			c.NewID = ""
		}
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b gitrepo.Change) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

// TestScanAgreesWithGit compares ScanCommits and RevList with git on random
// histories.
func TestScanAgreesWithGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for seed := range rounds(t) {
			t.Run(fmt.Sprintf("%s %d", format, seed), func(t *testing.T) {
				r := gittest.New(t, gittest.Options{Bare: true, ObjectFormat: format})
				randomHistory(t, r, rand.New(rand.NewPCG(uint64(seed), 7)), 30)
				tips := strings.Fields(r.Run("rev-list", "--all"))
				repo := open(t, r)
				want := strings.Split(r.Run("rev-list", "--topo-order", "--reverse", "--parents", tips[0]), "\n")
				var got []string
				diffs := 0
				err := repo.ScanCommits(t.Context(), repo.RevList(t.Context(), tips[:1], nil, gitrepo.RevListOptions{Reverse: true}), gitrepo.ScanOptions{},
					func(s *gitrepo.Scanned) error {
						got = append(got, strings.Join(append([]string{s.ID}, s.Parents...), " "))
						for _, d := range s.Diffs {
							old := d.Parent
							if old == "" {
								old = repo.EmptyTree()
							}
							w := gitDiff(r, old, s.ID)
							if !slices.Equal(w, d.Changes) {
								t.Errorf("%s against %s:\n got %v\nwant %v", s.ID, old, d.Changes, w)
							}
							diffs += len(w)
						}
						return nil
					})
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("err %v\n got %v\nwant %v", err, got, want)
				}
				if diffs == 0 {
					t.Fatal("nothing compared")
				}
				// Any two commits, in any order, through caches of any state.
				rng := rand.New(rand.NewPCG(uint64(seed), 8))
				for range 10 {
					a, b := want[rng.IntN(len(want))][:repo.HashLen()], want[rng.IntN(len(want))][:repo.HashLen()]
					ca, err := repo.Commit(a)
					if err != nil {
						t.Fatal(err)
					}
					cb, err := repo.Commit(b)
					if err != nil {
						t.Fatal(err)
					}
					g, err := repo.DiffTrees(ca.Tree, cb.Tree)
					if w := gitDiff(r, a, b); err != nil || !slices.Equal(g, w) {
						t.Errorf("%s..%s: %v\n got %v\nwant %v", a, b, err, g, w)
					}
				}
			})
		}
	}
}
