package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSignalWhilePaging: a signal that came while the pager ran is the outcome,
// though the text was shown.
func TestSignalWhilePaging(t *testing.T) {
	c := newCachedClone(t, mathrand.New(mathrand.NewPCG(7, 8)))
	for _, args := range [][]string{{"status"}, {"thread", "thread-01"}, {"thread", "thread-01", "--graph"}, {"thread", "thread-01", "--format", "mermaid"}} {
		for _, signalled := range []bool{false, true} {
			ctx, end := context.WithCancelCause(context.Background())
			var out, errs bytes.Buffer
			paged := 0
			code := Main(ctx, Env{Args: args, Stdout: &out, Stderr: &errs, Environ: c.env, Dir: c.dir, Now: time.Now, Rand: rand.Reader,
				Rows: func() (int, bool) { return 2, true },
				Page: func(_ context.Context, _, _ []string, text []byte) bool {
					paged++
					if signalled {
						end(Interrupt{Signal: syscall.SIGTERM})
					}
					return len(text) > 0
				}})
			end(nil)
			want := 0
			if signalled {
				want = 143
			}
			if code != want || paged != 1 || out.Len() != 0 || signalled && !strings.Contains(errs.String(), "rig-bridge: interrupted (SIGTERM) in ") {
				t.Errorf("%q, signal %v: exit %d, paged %d times, standard output %q, standard error %q", args, signalled, code, paged, out.String(), errs.String())
			}
		}
	}
}
