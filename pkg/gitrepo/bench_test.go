package gitrepo_test

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// envelopes builds a repository as rig-bridge writes it: threads as
// directories of the root, one new file in one of them with each commit.
func envelopes(b *testing.B, threads, commits int) *gittest.Repo {
	r := gittest.New(b, gittest.Options{Bare: true})
	var s strings.Builder
	commit := func(i int) {
		fmt.Fprintf(&s, "commit refs/heads/main\ncommitter T <t@example.com> %d +0000\ndata 0\n", gittest.Epoch+i)
	}
	file := func(thread, n int) {
		data := fmt.Sprintf("envelope %d of thread %d", n, thread)
		fmt.Fprintf(&s, "M 100644 inline t-%05d/%d.md\ndata %d\n%s\n", thread, n, len(data), data)
	}
	commit(0)
	for i := range threads {
		file(i, 0)
	}
	for i := range commits {
		commit(i + 1)
		file((i*7919)%threads, i+1)
	}
	r.RunIn([]byte(s.String()), "fast-import", "--quiet")
	r.Run("repack", "-adq")
	return r
}

// BenchmarkScan is a walk over a whole history with changes against each
// parent, and the same asked of git.
func BenchmarkScan(b *testing.B) {
	for _, size := range []struct{ threads, commits int }{{10, 5000}, {10000, 2000}} {
		r := envelopes(b, size.threads, size.commits)
		tip := r.Ref("refs/heads/main")
		perCommit := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size.commits), "µs/commit")
			b.ReportMetric(0, "ns/op")
		}
		name := fmt.Sprintf("threads=%d/", size.threads)
		scan := func(opt gitrepo.ScanOptions) func(b *testing.B) {
			return func(b *testing.B) {
				for b.Loop() {
					repo, err := gitrepo.Open(b.Context(), envOf(r))
					if err != nil {
						b.Fatal(err)
					}
					changes := 0
					err = repo.ScanCommits(b.Context(), repo.RevList(b.Context(), []string{tip}, nil, gitrepo.RevListOptions{Reverse: true}), opt,
						func(s *gitrepo.Scanned) error {
							for _, d := range s.Diffs {
								changes += len(d.Changes)
							}
							return nil
						})
					if err != nil || changes != size.threads+size.commits {
						b.Fatal(changes, err)
					}
					repo.Close()
				}
				perCommit(b)
			}
		}
		b.Run(name+"rigward", scan(gitrepo.ScanOptions{}))
		b.Run(name+"rigward-blobs", scan(gitrepo.ScanOptions{BlobLimit: 1 << 20,
			Blob: func(*gitrepo.Commit, gitrepo.Change) bool { return true }}))
		b.Run(name+"git", func(b *testing.B) {
			for b.Loop() {
				list := exec.Command("git", "rev-list", "--topo-order", "--reverse", tip)
				diff := exec.Command("git", "diff-tree", "--stdin", "-m", "--root", "--raw", "-z", "-r")
				list.Dir, diff.Dir, list.Env, diff.Env = r.Dir, r.Dir, r.Env, r.Env
				out, err := list.StdoutPipe()
				if err != nil {
					b.Fatal(err)
				}
				diff.Stdin, diff.Stdout = out, io.Discard
				if err := list.Start(); err != nil {
					b.Fatal(err)
				}
				if err := diff.Run(); err != nil {
					b.Fatal(err)
				}
				if err := list.Wait(); err != nil {
					b.Fatal(err)
				}
			}
			perCommit(b)
		})
		b.Run(name+"one-push", func(b *testing.B) {
			old := r.Run("rev-parse", "main~1")
			for b.Loop() {
				repo, err := gitrepo.Open(b.Context(), envOf(r, "GIT_DIR=."))
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				err = repo.ScanCommits(b.Context(), repo.RevList(b.Context(), []string{tip}, []string{old}, gitrepo.RevListOptions{}), gitrepo.ScanOptions{},
					func(*gitrepo.Scanned) error { n++; return nil })
				if err != nil || n != 1 {
					b.Fatal(n, err)
				}
				repo.Close()
			}
		})
	}
}

// BenchmarkOpen is discovery, a ref and the first object: in Go where the
// repository is plain, through git where it is not.
func BenchmarkOpen(b *testing.B) {
	r := envelopes(b, 10, 10)
	tip := r.Ref("refs/heads/main")
	for name, env := range map[string][]string{"go-git": {"GIT_DIR=."}, "git": {"GIT_DIR=.", "GIT_WORK_TREE=."}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				repo, err := gitrepo.Open(b.Context(), envOf(r, env...))
				if err != nil {
					b.Fatal(err)
				}
				if id, ok, err := repo.Ref("refs/heads/main"); id != tip || !ok || err != nil {
					b.Fatal(id, ok, err)
				}
				if _, err := repo.Commit(tip); err != nil {
					b.Fatal(err)
				}
				repo.Close()
			}
		})
	}
}
