// Command agentbundle measures rig-bundle on agent bundles against the tools
// that people would use instead: gzip, zstd, sha256sum and tar.
//
//	go run ./internal/bench/agentbundle [-files 20000] [-size 100] [-runs 5] [-only 'verify .tar.zst']
//
// With -only, rows whose name does not contain the given text are left out; the
// last row is named yardstick.
//
// All figures of one row come from one run on one tree, taken in turns; the
// ratio is that of the medians. Memory is the maximum resident set of
// rig-bundle as the kernel counts it. The exit status is 1 if a bar is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Main runs the benchmark: 0 all bars held, 1 one was missed, 2 it could not
// be measured.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("agentbundle", flag.ContinueOnError)
	flags.SetOutput(stderr)
	b := bench{ctx: ctx, out: stdout}
	flags.IntVar(&b.files, "files", 20_000, "files in the tree")
	flags.IntVar(&b.size, "size", 100, "size of the tree in MiB")
	flags.IntVar(&b.stick, "yardstick", 180, "size of the second tree, of 1,000 files, in MB")
	flags.IntVar(&b.runs, "runs", 5, "runs of each command, of which the median counts")
	flags.StringVar(&b.only, "only", "", "measure only the rows whose name contains this")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	missed, err := b.run()
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "agentbundle:", err)
		return 2
	case missed:
		return 1
	}
	return 0
}

type bench struct {
	ctx               context.Context
	out               io.Writer
	files, size, runs int
	stick             int
	tmp, tool, only   string
	missed            bool
}

func (b *bench) run() (missed bool, err error) {
	if b.tmp, err = os.MkdirTemp("", "agentbundle-bench-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(b.tmp)
	b.tool = filepath.Join(b.tmp, "rig-bundle")
	build := exec.CommandContext(b.ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", b.tool, "github.com/rigward/rigward/cmd/rig-bundle")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	if out, err := build.CombinedOutput(); err != nil {
		return false, fmt.Errorf("building rig-bundle: %w\n%s", err, out)
	}
	root := filepath.Join(b.tmp, "root")
	if err := plant(root, b.files, b.size<<20, 0); err != nil {
		return false, err
	}
	fmt.Fprintf(b.out, "%d files, %d MiB, median of %d runs\n\n", b.files, b.size, b.runs)
	fmt.Fprintf(b.out, "%-34s %9s %9s %7s %6s %9s\n", "", "here s", "there s", "ratio", "bar", "memory")
	for _, c := range []struct{ ext, name, make, read string }{
		{".tar.gz", "gzip", "gzip -9", "gzip -dc"},
		{".tar.zst", "zstd", "zstd -19 -T2 -q", "zstd -dcq"},
	} {
		there := filepath.Join(b.tmp, "there"+c.ext)
		create := []string{b.tool, "create", root, "-o", b.tmp, "--compression", c.name}
		if err := b.row("create "+c.ext+" : tar | "+c.make, create, fmt.Sprintf("tar -C %s -cf - . | %s > %s", root, c.make, there), 1); err != nil {
			return false, err
		}
		verify := "verify " + c.ext + " : " + c.read + " | sha256sum"
		if !b.wanted(verify) {
			continue
		}
		file := filepath.Join(b.tmp, "agent-bundle-bench-1.0.0-linux-amd64-glibc"+c.ext)
		if _, err := os.Stat(file); err != nil {
			if _, err := timed(exec.CommandContext(b.ctx, create[0], create[1:]...)); err != nil {
				return false, err
			}
		}
		if err := b.row(verify, []string{b.tool, "verify", file}, c.read+" "+file+" | sha256sum", 1.5); err != nil {
			return false, err
		}
		if err := os.Remove(file); err != nil {
			return false, err
		}
	}
	if b.wanted("yardstick") {
		err = b.yardstick()
	}
	return b.missed, err
}

// maxMemory is the bar for the resident set, in bytes.
const maxMemory = 64 << 20

func (b *bench) wanted(row string) bool { return strings.Contains(row, b.only) }

// row measures one command of ours against a shell line, if it is wanted.
func (b *bench) row(name string, ours []string, theirs string, bar float64) error {
	if !b.wanted(name) {
		return nil
	}
	var here, there []time.Duration
	var memory int64
	for range b.runs {
		cmd := exec.CommandContext(b.ctx, ours[0], ours[1:]...)
		took, err := timed(cmd)
		if err != nil {
			return err
		}
		here = append(here, took)
		memory = max(memory, resident(cmd.ProcessState))
		took, err = timed(exec.CommandContext(b.ctx, "/bin/sh", "-c", theirs))
		if err != nil {
			return err
		}
		there = append(there, took)
	}
	h, t := median(here), median(there)
	ratio := h.Seconds() / t.Seconds()
	verdict := ""
	if ratio > bar || memory > maxMemory {
		verdict, b.missed = "  missed", true
	}
	fmt.Fprintf(b.out, "%-34s %9.2f %9.2f %7.2f %6.2f %5d MiB%s\n", name, h.Seconds(), t.Seconds(), ratio, bar, memory>>20, verdict)
	return nil
}

// yardstick is that of spec/agentbundle.md section 16: a gzip bundle of about
// 67 MB (181 MB of tar, 1,000 members) is verified in 3 s on two cores.
func (b *bench) yardstick() error {
	const bar = 3
	root := filepath.Join(b.tmp, "yardstick")
	if err := plant(root, 1000, b.stick*1_000_000, 4); err != nil {
		return err
	}
	if _, err := timed(exec.CommandContext(b.ctx, b.tool, "create", root, "-o", b.tmp)); err != nil {
		return err
	}
	file := filepath.Join(b.tmp, "agent-bundle-bench-1.0.0-linux-amd64-glibc.tar.gz")
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	var here []time.Duration
	var memory int64
	for range b.runs {
		cmd := exec.CommandContext(b.ctx, b.tool, "verify", file)
		took, err := timed(cmd)
		if err != nil {
			return err
		}
		here = append(here, took)
		memory = max(memory, resident(cmd.ProcessState))
	}
	verdict := ""
	if median(here).Seconds() > bar || memory > maxMemory {
		verdict, b.missed = "  missed", true
	}
	fmt.Fprintf(b.out, "\nverify %d MB of gzip, %d MB of files: %.2f s, bar %d s, %d MiB%s\n", info.Size()/1e6, b.stick, median(here).Seconds(), bar, memory>>20, verdict)
	return nil
}

func timed(cmd *exec.Cmd) (time.Duration, error) {
	start := time.Now()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return time.Since(start), err
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// plant writes a bundle root of about size bytes in that many files: words as
// in source code, of every chunk one part in four, noise times, that no
// compressor shortens.
func plant(root string, files, size, noise int) error {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 4000)
	for i := range words {
		w := make([]byte, 2+rnd.IntN(9))
		for k := range w {
			w[k] = "etaoinshrdlucmfw"[rnd.IntN(16)]
		}
		words[i] = string(w)
	}
	put := func(name string, mode os.FileMode, body []byte) error {
		p := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		return os.WriteFile(p, body, mode)
	}
	var body []byte
	for i := range files {
		body = body[:0]
		for want := size / files; len(body) < want; {
			switch r := rnd.IntN(16); {
			case r < noise:
				for range 300 {
					body = append(body, byte(rnd.Uint32()))
				}
			case r < 14:
				for range 12 {
					body = append(append(body, words[int(float64(len(words))*rnd.Float64()*rnd.Float64())]...), " .(){};\n"[rnd.IntN(8)])
				}
			default:
				body = append(strconv.AppendInt(append(body, "const "...), rnd.Int64(), 36), " = require('./"...)
			}
		}
		name := fmt.Sprintf("node_modules/p%d/lib/m%d/f%d.js", i/100, i/10%10, i)
		if err := put(name, 0o644, body[:min(len(body), size/files)]); err != nil {
			return err
		}
	}
	if err := put("bin/agent", 0o755, []byte("#!/usr/bin/env node\n")); err != nil {
		return err
	}
	return put("manifest.json", 0o644, []byte(`{"bundleVersion":"1","name":"bench","version":"1.0.0","entry":"bin/agent","platform":"linux","arch":"amd64","libc":"glibc"}`+"\n"))
}
