package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// agentBundle measures rig-bundle on agent bundles against the tools that people
// would use instead: gzip, zstd, sha256sum and tar. All figures of one row come
// from one run on one tree, taken in turns; the ratio is that of the medians.
// The last row is named yardstick. A bar that is missed is an error.
func agentBundle(flags *flag.FlagSet, args []string) error {
	b := agents{out: os.Stdout}
	flags.IntVar(&b.files, "files", 20_000, "files in the tree")
	flags.IntVar(&b.size, "size", 100, "size of the tree in MiB")
	flags.IntVar(&b.stick, "yardstick", 180, "size of the second tree, of 1,000 files, in MB")
	flags.IntVar(&b.runs, "runs", 5, "runs of each command, of which the median counts")
	flags.StringVar(&b.only, "only", "", "measure only the rows whose name contains this")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := b.run(); err != nil {
		return err
	}
	if b.missed > 0 {
		return fmt.Errorf("%d bars were missed", b.missed)
	}
	return nil
}

type agents struct {
	out               io.Writer
	files, size, runs int
	stick, missed     int
	tmp, tool, only   string
	clean             func() // before each run, nil for nothing
}

func (b *agents) run() (err error) {
	if b.tmp, err = os.MkdirTemp("", "agentbundle-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.tmp)
	built, err := build(b.tmp, "rig-bundle")
	if err != nil {
		return err
	}
	b.tool = built[0]
	root := filepath.Join(b.tmp, "root")
	if err := plant(root, b.files, b.size<<20, 0); err != nil {
		return err
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
			return err
		}
		verify := "verify " + c.ext + " : " + c.read + " | sha256sum"
		if !b.wanted(verify) {
			continue
		}
		file := filepath.Join(b.tmp, "agent-bundle-bench-1.0.0-linux-amd64-glibc"+c.ext)
		if _, err := os.Stat(file); err != nil {
			if _, err := timed(exec.Command(create[0], create[1:]...)); err != nil {
				return err
			}
		}
		if err := b.row(verify, []string{b.tool, "verify", file}, c.read+" "+file+" | sha256sum", 1.5); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if b.wanted("yardstick") {
		err = b.yardstick()
	}
	return err
}

// maxMemory is the bar for the resident set, in bytes.
const maxMemory = 64 << 20

func (b *agents) wanted(row string) bool { return strings.Contains(row, b.only) }

// row measures one command of ours against a shell line, if it is wanted.
func (b *agents) row(name string, ours []string, theirs string, bar float64) error {
	if !b.wanted(name) {
		return nil
	}
	var here, there []time.Duration
	var memory int64
	for range b.runs {
		if b.clean != nil {
			b.clean()
		}
		took, peak, err := measured(exec.Command(ours[0], ours[1:]...))
		if err != nil {
			return err
		}
		here, memory = append(here, took), max(memory, peak)
		took, err = timed(exec.Command("/bin/sh", "-c", theirs))
		if err != nil {
			return err
		}
		there = append(there, took)
	}
	h, t := median(here), median(there)
	ratio := h.Seconds() / t.Seconds()
	verdict := ""
	if ratio > bar || memory > maxMemory {
		verdict, b.missed = "  missed", b.missed+1
	}
	fmt.Fprintf(b.out, "%-34s %9.2f %9.2f %7.2f %6.2f %5d MiB%s\n", name, h.Seconds(), t.Seconds(), ratio, bar, memory>>20, verdict)
	return nil
}

// yardstick is that of docs/spec/agentbundle.md#commands: a gzip bundle of about
// 67 MB (181 MB of tar, 1,000 members) is verified in 3 s on two cores.
func (b *agents) yardstick() error {
	const bar = 3
	root := filepath.Join(b.tmp, "yardstick")
	if err := plant(root, 1000, b.stick*1_000_000, 4); err != nil {
		return err
	}
	if _, err := timed(exec.Command(b.tool, "create", root, "-o", b.tmp)); err != nil {
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
		took, peak, err := measured(exec.Command(b.tool, "verify", file))
		if err != nil {
			return err
		}
		here, memory = append(here, took), max(memory, peak)
	}
	verdict := ""
	if median(here).Seconds() > bar || memory > maxMemory {
		verdict, b.missed = "  missed", b.missed+1
	}
	fmt.Fprintf(b.out, "\nverify %d MB of gzip, %d MB of files: %.2f s, bar %d s, %d MiB%s\n", info.Size()/1e6, b.stick, median(here).Seconds(), bar, memory>>20, verdict)
	return nil
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
