package history

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTake: of many who claim a nonce at once one gets it (J13).
func TestTake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rigward")
	now := time.Unix(1_700_000_000, 0)
	take := func(now time.Time, claims ...Claim) int {
		t.Helper()
		taken, err := Take(dir, now, claims)
		if err != nil {
			t.Fatal(err)
		}
		return len(taken)
	}
	var got atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if take(now, Claim{"N", fmt.Sprintf("t-one/%d.md", i), "b"}) == 0 {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	if got.Load() != 1 {
		t.Errorf("%d claimed one nonce", got.Load())
	}
	mine, other := Claim{"M", "t-one/a.md", "b"}, Claim{"M", "t-one/c.md", "b"}
	for i, c := range []struct {
		at    time.Time
		claim Claim
		taken int
	}{
		{now, mine, 0},
		{now, mine, 0}, // once more, by update or after another ref was refused
		{now, other, 1},
		{now, Claim{"M", "t-one/a.md", "d"}, 1},
		{now.Add(ClaimTime), other, 1},
		{now.Add(ClaimTime + time.Second), other, 0}, // of long ago
		{now.Add(ClaimTime + time.Second), mine, 1},
		{now.Add(-ClaimTime), mine, 0}, // the clock was set back
	} {
		if n := take(c.at, c.claim); n != c.taken {
			t.Errorf("%d: %d taken, expected %d", i, n, c.taken)
		}
	}
	// Nothing is claimed where one nonce is taken, and old claims go.
	if take(now, Claim{"P", "t-one/a.md", "b"}, Claim{"M", "t-one/z.md", "z"}) != 1 || take(now, Claim{"P", "t-one/b.md", "b"}) != 0 {
		t.Error("a claim that failed holds")
	}
	if err := os.WriteFile(filepath.Join(dir, "claims", "torn"), []byte("12"), 0o644); err != nil {
		t.Fatal(err)
	}
	take(now.Add(time.Hour))
	if left, _ := os.ReadDir(filepath.Join(dir, "claims")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := Take(filepath.Join(dir, "claims", "no", "such"), now, nil); err == nil {
		t.Error("what cannot be written is claimed")
	}
}
