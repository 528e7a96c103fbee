package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

type size struct {
	files int
	bytes int
}

var sizes = []size{{100, 1 << 20}, {5000, 50 << 20}, {2000, 200 << 20}, {20000, 20 << 20}}

// bundles measures rig-bundle on RigBundles against tar, gzip and sha256sum. It
// makes source trees, runs ours and theirs in turns, of which the best of each
// counts; what takes less than a second is run more often. Bars: create at most
// 0.8 times as long as `tar | gzip -9`, verify 1.3 times `gzip -dc | sha256sum`,
// unpack and verify 1.3 times `tar xzf`, memory at most 64 MiB.
func bundles(flags *flag.FlagSet, args []string) error {
	only := flags.Int("only", -1, "measure one size, counted from 0")
	runs := flags.Int("runs", 3, "least number of runs of each command; the best counts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return bundlesOf(*only, *runs)
}

func bundlesOf(only, runs int) error {
	work, err := os.MkdirTemp("", "bench-bundles-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	built, err := build(work, "rig-bundle")
	if err != nil {
		return err
	}
	fmt.Printf("%-16s %-8s %9s %9s %7s %6s %9s\n", "tree", "what", "ours", "theirs", "ratio", "bar", "memory")
	for i, s := range sizes {
		if only >= 0 && i != only {
			continue
		}
		if err := measureBundle(filepath.Join(work, fmt.Sprint(i)), built[0], s, runs); err != nil {
			return err
		}
	}
	return nil
}

func measureBundle(dir, bin string, s size, runs int) error {
	src := filepath.Join(dir, "src")
	if err := makeTree(src, s); err != nil {
		return err
	}
	out, target := filepath.Join(dir, "x.rigbundle"), filepath.Join(dir, "T")
	plain := filepath.Join(dir, "x.tar.gz")
	clean := func() { os.RemoveAll(target) }
	defer clean()
	rows := []struct {
		what   string
		bar    float64
		ours   []string
		theirs string
	}{
		{"create", 0.8, []string{bin, "create", filepath.Join(src, "rig.yaml"), "-o", out, "--created-at", "2026-01-01T00:00:00Z"},
			"tar --sort=name -C " + src + " -cf - . | gzip -9 > " + plain},
		{"verify", 1.3, []string{bin, "verify", out}, "gzip -dc " + out + " | sha256sum"},
		{"unpack", 1.3, []string{bin, "install", out, "--target", target}, "mkdir -p " + target + " && tar xzf " + out + " -C " + target},
	}
	for _, r := range rows {
		var ours, theirs timing
		for start := time.Now(); ours.n < runs || ours.n < mostRuns && time.Since(start) < time.Second; {
			clean()
			if err := ours.run(r.ours...); err != nil {
				return err
			}
			clean()
			if err := theirs.run("sh", "-c", r.theirs); err != nil {
				return err
			}
		}
		clean()
		verdict := "ok"
		ratio := float64(ours.best) / float64(theirs.best)
		if ratio > r.bar || ours.memory > maxMemory {
			verdict = "OVER"
		}
		fmt.Printf("%6d/%4d MiB  %-8s %8.3fs %8.3fs %7.2f %6.1f %5d MiB %s\n", s.files, s.bytes>>20, r.what, ours.best.Seconds(), theirs.best.Seconds(), ratio, r.bar, ours.memory>>20, verdict)
	}
	return os.RemoveAll(dir)
}

// mostRuns bounds the runs of what is short.
const mostRuns = 25

// A timing is the shortest time of n runs of a command and the most memory that
// one of them took, in bytes.
type timing struct {
	n      int
	best   time.Duration
	memory int64
}

func (t *timing) run(args ...string) error {
	// Ours writes a journal through to the disk, and would wait there for what
	// the run before has left to write.
	if _, err := timed(exec.Command("sync")); err != nil {
		return err
	}
	took, peak, err := measured(exec.Command(args[0], args[1:]...))
	if err != nil {
		return err
	}
	if t.n == 0 || took < t.best {
		t.best = took
	}
	t.n++
	t.memory = max(t.memory, peak)
	return nil
}

// makeTree writes a rig with one agent that has all the files: text of the
// kind that agents carry.
func makeTree(dir string, s size) error {
	agent := filepath.Join(dir, "agents", "impl")
	if err := os.MkdirAll(agent, 0o755); err != nil {
		return err
	}
	rig := "version: \"0.2\"\nname: bench\npods:\n  - id: dev\n    label: Dev\n    members:\n      - id: impl\n        agent_ref: local:agents/impl\n        profile: default\n        runtime: codex\n        cwd: .\n"
	if err := os.WriteFile(filepath.Join(dir, "rig.yaml"), []byte(rig), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(agent, "agent.yaml"), []byte("name: impl\nversion: \"1.0\"\nprofiles:\n  default: {}\n"), 0o644); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 4096)
	for i := range words {
		b := make([]byte, 2+rng.IntN(9))
		for j := range b {
			b[j] = byte('a' + rng.IntN(26))
		}
		words[i] = string(b)
	}
	var text []byte
	for i := range s.files {
		sub := filepath.Join(agent, fmt.Sprintf("d%02d", i%50))
		if i < 50 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
		}
		text = text[:0]
		for len(text) < s.bytes/s.files {
			text = append(text, words[min(rng.IntN(4096), rng.IntN(4096))]...)
			if rng.IntN(12) == 0 {
				text = append(text, '\n')
			} else {
				text = append(text, ' ')
			}
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%05d.md", i)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
