//go:build unix

package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestDeterministic makes one bundle under two umasks, time zones, locales,
// processor counts, creation orders, and as another user where that is
// possible: file and digest are always the same bytes (F04, F06, F07, F17).
func TestDeterministic(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a.md", "b/ü.md", "b/日本.md", "c/d/e/f.bin", "Z.md", "z.sh", "b/" + strings.Repeat("long", 40) + ".md"}
	rng := rand.New(rand.NewPCG(3, 4))
	make1 := func(shuffled bool) string {
		dir := newRig(t)
		order := append([]string(nil), names...)
		if shuffled {
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		for _, n := range order {
			p := filepath.Join(dir, "agents/impl", n)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(strings.Repeat(n, 3000)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	var first, firstDigest string
	for _, c := range []struct {
		what     string
		umask    string
		shuffled bool
		uid      uint32
		env      []string
	}{
		{what: "plain", umask: "022"},
		{what: "umask 077", umask: "077"},
		{what: "another order", umask: "022", shuffled: true},
		{what: "time zone", umask: "022", env: []string{"TZ=Asia/Kolkata"}},
		{what: "locale", umask: "022", env: []string{"LC_ALL=tr_TR.UTF-8", "LANG=tr_TR.UTF-8"}},
		{what: "one processor", umask: "022", env: []string{"GOMAXPROCS=1"}},
		{what: "eight processors", umask: "022", env: []string{"GOMAXPROCS=8"}},
		{what: "another user", umask: "022", uid: 12345},
	} {
		dir := make1(c.shuffled)
		if c.uid != 0 && (os.Getuid() != 0 || runtime.GOOS != "linux") {
			t.Logf("%s: skipped, not root", c.what)
			continue
		}
		cmd := exec.Command("sh", "-c", "umask "+c.umask+" && exec \"$0\" create rig.yaml -o out.rigbundle --created-at 2026-01-01T00:00:00Z --source-root .", self)
		cmd.Dir = dir
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), asCommand + "=1"}, c.env...)
		if c.uid != 0 {
			bin := filepath.Join(dir, "self")
			b, err := os.ReadFile(self)
			if err == nil {
				err = os.WriteFile(bin, b, 0o755)
			}
			if err == nil {
				err = os.Chmod(bin, 0o755)
			}
			for p := dir; err == nil && p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
				err = os.Chmod(p, 0o777)
			}
			if err != nil {
				t.Fatal(err)
			}
			cmd.Args[3] = bin
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.what, err, out)
		}
		b, err := os.ReadFile(filepath.Join(dir, "out.rigbundle"))
		if err != nil {
			t.Fatal(err)
		}
		d, err := os.ReadFile(filepath.Join(dir, "out.rigbundle.sha256"))
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first, firstDigest = string(b), string(d)
		}
		if string(b) != first || string(d) != firstDigest {
			t.Errorf("%s: other bytes than plain", c.what)
		}
	}
}
