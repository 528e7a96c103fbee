package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// build builds programs of the module as they are released, into dir, and
// returns their paths. They are copied there, as an installation does: the linker
// leaves a file in the page cache in single pages, which a start maps more slowly.
func build(dir string, names ...string) (paths []string, err error) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		linked := path + ".linked"
		if err := compile(linked, "github.com/rigward/rigward/cmd/"+name); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(linked)
		if err == nil {
			err = errors.Join(os.WriteFile(path, data, 0o755), os.Remove(linked))
		}
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func compile(out, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, said)
	}
	return nil
}

// timed runs a command to its end and returns how long it took.
func timed(cmd *exec.Cmd) (time.Duration, error) {
	var out bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &out
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	return took, failed(cmd, err, out.Bytes())
}

// measured is timed, with the peak of the process's own resident memory in
// bytes, without its children's; 0 where that is not known.
func measured(cmd *exec.Cmd) (took time.Duration, peak int64, err error) {
	var out bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	done, most := make(chan struct{}), make(chan int64)
	go func() {
		peak := int64(0)
		for {
			peak = max(peak, resident(cmd.Process.Pid))
			select {
			case <-done:
				most <- peak
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	err = cmd.Wait()
	took = time.Since(start)
	close(done)
	return took, <-most, failed(cmd, err, out.Bytes())
}

func failed(cmd *exec.Cmd, err error, said []byte) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w\n%.400s", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err, said)
}

// resident is the peak so far of a process's resident memory in bytes
// (proc(5), VmHWM); 0 where that is not known.
func resident(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\nVmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}

// in is a command of a directory.
func in(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return cmd
}

// repeated is the median time of a command.
func repeated(rounds int, name string, args ...string) (time.Duration, error) {
	var all []time.Duration
	for range rounds {
		took, err := timed(exec.Command(name, args...))
		if err != nil {
			return 0, err
		}
		all = append(all, took)
	}
	return median(all), nil
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) string     { return fmt.Sprintf("%.1f ms", milli(d)) }
func us(d time.Duration) string     { return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1000) }
func milli(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// numbers reads numbers between commas.
func numbers(list string) (all []int, err error) {
	for _, word := range strings.Split(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
