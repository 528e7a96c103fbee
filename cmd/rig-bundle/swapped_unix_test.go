//go:build unix

package main

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
)

// TestSwappedDirectory: while installs, upgrades and uninstalls run, somebody
// swaps a directory of the target with links to directories that hold the very
// same files, the git directory among them. Nothing is made, changed or removed
// there. Left alone, the same commands do their work.
func TestSwappedDirectory(t *testing.T) {
	one := packRig(t, "1.0.0", map[string]string{"agents/impl/a/b/x.md": "one", "agents/impl/hooks/pre-commit": "one"})
	two := packRig(t, "2.0.0", map[string]string{"agents/impl/a/b/x.md": "two", "agents/impl/hooks/post-commit": "two"})
	work := t.TempDir()
	target, outside := filepath.Join(work, "T"), filepath.Join(work, "outside")
	if status, _, errs := command(work, nil, "install", one, "--target", outside); status != 0 {
		t.Fatal(errs)
	}
	if err := os.MkdirAll(filepath.Join(target, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(target, ".git/impl"), os.DirFS(filepath.Join(outside, "agents/impl"))); err != nil {
		t.Fatal(err)
	}
	leads := map[string]string{
		"agents": filepath.Join(outside, "agents"), "agents/impl": "../.git/impl", "agents/impl/a": filepath.Join(outside, "agents/impl/a"),
		"agents/impl/hooks": "../../.git/impl/hooks",
	}
	before, gitBefore := tree(t, outside), tree(t, filepath.Join(target, ".git"))
	rounds := 12
	if n, err := strconv.Atoi(os.Getenv("RIGWARD_SWAPS")); err == nil {
		rounds = n
	}
	var swaps atomic.Int64
	for range rounds {
		for name, to := range leads {
			stop, done := make(chan bool), make(chan bool)
			go func() {
				defer close(done)
				p := filepath.Join(target, name)
				for {
					select {
					case <-stop:
						return
					default:
					}
					if os.Rename(p, p+".real") != nil {
						continue
					}
					if os.Symlink(to, p) == nil {
						swaps.Add(1)
					}
					os.Remove(p)
					if os.Rename(p+".real", p) != nil { // it was made anew meanwhile
						os.RemoveAll(p + ".real")
					}
				}
			}()
			for _, args := range [][]string{{"install", one}, {"install", two}, {"uninstall", "demo"}} {
				command(work, nil, append(args, "--target", target)...)
			}
			close(stop)
			<-done
			if got := tree(t, outside); !maps.Equal(got, before) {
				t.Fatalf("%s swapped: outside %v", name, diffStates(got, before, before))
			}
			if got := tree(t, filepath.Join(target, ".git")); !maps.Equal(got, gitBefore) {
				t.Fatalf("%s swapped: .git %v", name, diffStates(got, gitBefore, gitBefore))
			}
		}
	}
	t.Logf("%d swaps", swaps.Load())
	if swaps.Load() < int64(rounds) {
		t.Error("nothing was swapped")
	}
	alone := filepath.Join(work, "alone")
	for _, args := range [][]string{{"install", one}, {"install", two}, {"uninstall", "demo"}} {
		if status, out, errs := command(work, nil, append(args, "--target", alone)...); status != 0 {
			t.Errorf("%v: %s%s", args, out, errs)
		}
	}
	if left := tree(t, alone); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
