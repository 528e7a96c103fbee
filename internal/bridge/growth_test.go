package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/corpus"
	"github.com/rigward/rigward/internal/test/gittest"
)

// TestGrowth: what a message costs to validate, and to be told of by sync, does not
// depend on how many there are, in threads side by side or in one. Allocated bytes are
// counted, which no other work of the machine changes.
func TestGrowth(t *testing.T) {
	const few, many = 300, 1200
	for _, shape := range []string{"in many threads", "in one thread"} {
		cost := map[string][2]float64{}
		for size, n := range []int{few, many} {
			dir := gittest.TempDir(t)
			source := filepath.Join(dir, "source.git")
			per := 1
			if shape == "in one thread" {
				per = n
			}
			if err := corpus.Generate(source, corpus.Options{Envelopes: n, PerThread: per, PerCommit: n / 10}); err != nil {
				t.Fatal(err)
			}
			r := &gittest.Repo{T: t, Dir: filepath.Join(dir, "clone"), Home: dir, Env: gittest.Environ(dir), Now: time.Now().Unix()}
			if _, err := corpus.Git("", "clone", "-q", source, r.Dir); err != nil {
				t.Fatal(err)
			}
			run := func(expected string, args ...string) uint64 {
				t.Helper()
				var out, errs bytes.Buffer
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				code := Main(context.Background(), Env{Args: args, Stdout: &out, Stderr: &errs, Environ: r.Env, Dir: r.Dir, Now: time.Now, Rand: rand.Reader})
				runtime.ReadMemStats(&after)
				if code > 1 || !strings.Contains(out.String(), expected) {
					t.Fatalf("%v: exit %d, expected %q\n%.2000s%s", args, code, expected, out.String(), errs.String())
				}
				return after.TotalAlloc - before.TotalAlloc
			}
			run("", "init", "--rig-id", "rig-b")
			checked := fmt.Sprintf("checked=%d ", n)
			run(checked, "validate", ".") // judges the history
			note := func(what string, bytes uint64) {
				c := cost[what]
				c[size] = float64(bytes) / float64(n)
				cost[what] = c
			}
			note("validate", run(checked, "validate", "."))
			note("validate --json", run("", "validate", "--json", "."))
			for _, args := range [][]string{{"status"}, {"status", "--wide"}, {"inbox"}, {"inbox", "--limit", "1000"}, {"thread", "thread-000000"}, {"thread", "thread-000000", "--json"}, {"read", "thread-000000"}} {
				note(strings.Join(args, " "), run("", args...))
			}
			root := strings.TrimSpace(r.Run("rev-list", "--max-parents=0", "HEAD"))
			r.Run("reset", "-q", "--hard", root)
			note("sync", run("new_envelopes=", "sync"))
		}
		for what, c := range cost {
			t.Logf("%s, %s: %.0f bytes a message of %d, %.0f of %d", what, shape, c[0], few, c[1], many)
			if c[1] > 1.6*c[0] {
				t.Errorf("%s, %s: a message costs %.0f bytes where there are %d, and %.0f where there are %d", what, shape, c[0], few, c[1], many)
			}
		}
	}
}
