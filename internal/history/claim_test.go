package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTake: of many who claim a nonce at once one gets it (J13).
func TestTake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rigward")
	now := time.Unix(1_700_000_000, 0)
	// at is where refs are, as each push has seen it.
	at := map[string]string{}
	pending := func(ref, old string) bool { id, known := at[ref]; return known && id == old }
	take := func(now time.Time, claims ...Claim) int {
		t.Helper()
		taken, err := Take(dir, now, claims, pending)
		if err != nil {
			t.Fatal(err)
		}
		return len(taken)
	}
	var got atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		at[fmt.Sprint("r", i)] = "o"
	}
	for i := range 20 {
		wg.Go(func() {
			if take(now, Claim{"N", fmt.Sprintf("t-one/%d.md", i), "b", fmt.Sprint("r", i), "o"}) == 0 {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	if got.Load() != 1 {
		t.Errorf("%d claimed one nonce", got.Load())
	}
	at = map[string]string{"r": "o", "s": "", "u": "p"}
	mine, other := Claim{"M", "t-one/a.md", "b", "r", "o"}, Claim{"M", "t-one/c.md", "b", "s", ""}
	for i, c := range []struct {
		at    time.Time
		claim Claim
		taken int
	}{
		{now, mine, 0},
		{now, mine, 0}, // once more, by update or after another ref was refused
		{now, other, 1},
		{now, Claim{"M", "t-one/a.md", "d", "s", ""}, 1},
		{now, Claim{"M", "t-one/a.md", "b", "u", "p"}, 0}, // the same envelope, to another ref
		{now, Claim{"M", "t-one/a.md", "d", "r", "o"}, 1}, // not beside that of u
		{now.Add(claimTime), other, 1},
		{now.Add(claimTime + time.Second), other, 0}, // of long ago
		{now.Add(claimTime + time.Second), mine, 1},
		{now.Add(-claimTime), mine, 0}, // the clock was set back
	} {
		if n := take(c.at, c.claim); n != c.taken {
			t.Errorf("%d: %d taken, expected %d", i, n, c.taken)
		}
	}
	// A claim says nothing more when its ref has moved, was deleted, is free, or
	// is the one that is pushed to. Each claim for another ref holds by itself.
	for i, c := range []struct {
		change func()
		claim  Claim
		taken  int
	}{
		{func() {}, Claim{"Q", "t-one/a.md", "b", "r", "o"}, 0},
		{func() {}, Claim{"Q", "t-one/b.md", "b", "r", "o"}, 0},
		{func() {}, Claim{"Q", "t-one/b.md", "b", "s", ""}, 1}, // the first still holds
		{func() { at["r"] = "b" }, Claim{"Q", "t-one/b.md", "b", "s", ""}, 0},
		{func() {}, Claim{"Q", "t-one/c.md", "b", "r", "b"}, 1},
		{func() { at["s"] = "c" }, Claim{"Q", "t-one/c.md", "b", "r", "b"}, 0},
		{func() {}, Claim{"Q", "t-one/d.md", "b", "u", "p"}, 1},
		{func() { delete(at, "r") }, Claim{"Q", "t-one/d.md", "b", "u", "p"}, 0},
	} {
		c.change()
		if n := take(now, c.claim); n != c.taken {
			t.Errorf("refs that move, %d: %d taken, expected %d", i, n, c.taken)
		}
	}
	at = map[string]string{"r": "o", "s": ""}
	// Nothing is claimed where one nonce is taken, and old claims go.
	if take(now, mine) != 0 || take(now, Claim{"P", "t-one/a.md", "b", "s", ""}, Claim{"M", "t-one/z.md", "z", "s", ""}) != 1 ||
		take(now, Claim{"P", "t-one/b.md", "b", "r", "o"}) != 0 {
		t.Error("a claim that failed holds")
	}
	for name, text := range map[string]string{"torn": "12", "word": "x y - refs/heads/main\n", ".temporary": "1700000000 y - r\n"} {
		if err := os.WriteFile(filepath.Join(dir, "claims", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	take(now.Add(time.Hour))
	if left, _ := os.ReadDir(filepath.Join(dir, "claims")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := Take(filepath.Join(dir, "claims", "no", "such"), now, nil, pending); err == nil {
		t.Error("what cannot be written is claimed")
	}
}

// FuzzClaims: what is read of a file that anything may have written to is of
// now, and has no blank or line end in it.
func FuzzClaims(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	f.Add([]byte("1800000000 aa - refs/heads/main\n1799999990 bb cc refs/heads/x\n1 2 3\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, h := range parseClaims(data, now) {
			if age := now.Sub(time.Unix(h.at, 0)); age > claimTime || age < -claimTime || strings.ContainsAny(h.envelope+h.old+h.ref, " \n") {
				t.Fatalf("%q holds %+v", data, h)
			}
		}
	})
}
