//go:build unix

package main

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// asCommand makes the test binary the command itself.
const asCommand = "RIG_BUNDLE_TEST_COMMAND"

func init() {
	if os.Getenv(asCommand) == "" {
		return
	}
	dir, _ := os.Getwd()
	os.Exit(Main(context.Background(), Env{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ(), Now: time.Now, Dir: dir, Exec: replaceProcess}))
}

// TestKilledInstall ends installs, upgrades and uninstalls with SIGKILL at
// random points. After the next run has undone what the journal shows, the
// target is in the old state or in the new one. RIGWARD_KILLS sets the number
// of kills; the default is small.
func TestKilledInstall(t *testing.T) {
	kills := 12
	if s := os.Getenv("RIGWARD_KILLS"); s != "" && s != "all" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	}
	work := t.TempDir()
	pack := func(version string, files int, text string) string {
		dir := newRig(t)
		for i := range files {
			p := filepath.Join(dir, "agents/impl", "d"+strconv.Itoa(i%7), "f"+strconv.Itoa(i)+".txt")
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text+strconv.Itoa(i)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(work, version+".rigbundle")
		if status, _, errs := command(dir, nil, "create", "rig.yaml", "-o", name, "--bundle-version", version, "--created-at", "2026-01-01T00:00:00Z"); status != 0 {
			t.Fatal(errs)
		}
		return name
	}
	one, two := pack("1.0.0", 60, "one"), pack("2.0.0", 45, "two")
	target := filepath.Join(work, "T")
	state := func() map[string]string {
		all := tree(t, target)
		b, _ := os.ReadFile(filepath.Join(target, ".rigbundle-lock.json"))
		all["lock"] = string(b)
		return all
	}
	reset := func(name string) {
		t.Helper()
		os.RemoveAll(target)
		if err := os.MkdirAll(filepath.Join(target, "agents/impl/d1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(target, "agents/impl/d1/mine.txt"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if name != "" {
			if status, _, errs := command(work, nil, "install", name, "--target", target); status != 0 {
				t.Fatal(errs)
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	cases := []struct {
		name string
		from string
		args []string
	}{
		{"install", "", []string{"install", one, "--target", target}},
		{"upgrade", one, []string{"install", two, "--target", target}},
		{"uninstall", one, []string{"uninstall", "demo", "--target", target}},
	}
	interrupted := map[string]int{}
	for _, c := range cases {
		reset(c.from)
		old := state()
		start := time.Now()
		run := exec.Command(self, c.args...)
		run.Env = append(os.Environ(), asCommand+"=1")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.args, err, out)
		}
		took := time.Since(start)
		after := state()
		for range (kills + len(cases) - 1) / len(cases) {
			reset(c.from)
			run := exec.Command(self, c.args...)
			run.Env = append(os.Environ(), asCommand+"=1")
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rng.Int64N(int64(took) + 1)))
			if err := run.Process.Kill(); err == nil {
				interrupted[c.name]++
			}
			run.Wait()
			// the next run, here one that changes nothing, undoes the journal
			command(work, nil, "uninstall", "no such bundle", "--target", target)
			got := state()
			if !maps.Equal(got, old) && !maps.Equal(got, after) {
				t.Fatalf("%s: neither the old state nor the new one: %v", c.name, diffStates(got, old, after))
			}
			if left, _ := filepath.Glob(filepath.Join(target, ".rigbundle-install*")); len(left) > 0 {
				t.Fatalf("%s left %v", c.name, left)
			}
		}
	}
	t.Logf("killed: %v", interrupted)
}
