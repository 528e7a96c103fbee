package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/resident"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// Bounds of a resident judge.
const (
	maxWorkers = 64
	// maxPush is how much memory one judgement takes before it is ended; its hook
	// then decides nothing. A hook of its own has no such bound.
	maxPush = 384 << 20
	// draining is how long calls at work have when the judge is to end.
	draining = 30 * time.Second
)

// A judge is what starts the processes that judge, and watches them.
type judge struct {
	env    *hooks.Env
	listen *os.File
	memory int64 // bytes that all processes have together

	mu   sync.Mutex
	pids map[int]bool
}

func serve(ctx context.Context, env *hooks.Env, f cli.Line) int {
	j := &judge{env: env, pids: map[int]bool{}, memory: 512 << 20}
	n, err := numberOf(f, "--workers", min(8, 2*runtime.NumCPU()), maxWorkers)
	if err == nil {
		var mib int
		mib, err = numberOf(f, "--memory", 512, 1<<20)
		j.memory = int64(mib) << 20
	}
	if err != nil {
		return fail(env, "serve", err)
	}
	path := f.Get("--socket")
	if path == "" {
		if path = env.Getenv(resident.Variable); path == "" {
			path = resident.Socket(os.Getuid())
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(env.Dir, path)
	}
	own := false
	if env.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) && env.Getenv("LISTEN_FDS") == "1" {
		j.listen = os.NewFile(3, path) // systemd's
	} else if j.listen, err = listen(path); err != nil {
		return fail(env, "serve", err)
	} else {
		own = true
	}
	fmt.Fprintf(env.Stderr, "rig-hook: %d processes judge what comes to %s\n", n, finding.Quote(path))
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() { j.keep(ctx) })
	}
	watched := make(chan struct{})
	go func() { defer close(watched); j.watch(ctx) }()
	<-ctx.Done()
	<-watched
	if own {
		os.Remove(path)
	}
	j.listen.Close()
	j.signal(syscall.SIGTERM)
	late := time.AfterFunc(draining, func() { j.signal(syscall.SIGKILL) })
	workers.Wait()
	late.Stop()
	return report.ExitClean
}

func numberOf(f cli.Line, flag string, usual, most int) (int, error) {
	if !f.Has(flag) {
		return usual, nil
	}
	n, err := strconv.Atoi(f.Get(flag))
	if err != nil || n < 1 || n > most {
		return 0, &policy.Undecided{Message: fmt.Sprintf("%s is %s, expected a number from 1 to %d", flag, finding.QuoteMax(f.Get(flag), 40), most)}
	}
	return n, nil
}

// listen makes a socket to which this user alone can connect.
func listen(path string) (*os.File, error) {
	cannot := func(err error) error {
		return &policy.Undecided{
			Message: "the socket " + finding.Quote(path) + " cannot be made: " + finding.Clean(err.Error()),
			Hint:    "rig-hook serve --socket PATH, in a directory of this user's own", Cause: err}
	}
	if len(path) > 100 {
		return nil, cannot(errors.New("its path has more than 100 bytes"))
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, cannot(err)
	}
	at := &syscall.SockaddrUnix{Name: path}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if syscall.Connect(fd, at) == nil {
			syscall.Close(fd)
			return nil, cannot(errors.New("another judge answers there"))
		}
		os.Remove(path) // of one that was killed
	}
	mask := syscall.Umask(0o177)
	err = syscall.Bind(fd, at)
	syscall.Umask(mask)
	if err == nil {
		err = syscall.Listen(fd, 512)
	}
	if err != nil {
		syscall.Close(fd)
		return nil, cannot(err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// keep has one process at work until ctx ends.
func (j *judge) keep(ctx context.Context) {
	// The process ends with the thread that started it.
	runtime.LockOSThread()
	for pause := time.Duration(0); ctx.Err() == nil; {
		began := time.Now()
		err := j.work(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil || time.Since(began) > 10*time.Second:
			pause = 0
		default:
			fmt.Fprintf(j.env.Stderr, "rig-hook: a process that judges has ended: %s\n", finding.Clean(err.Error()))
			pause = min(5*time.Second, 2*pause+50*time.Millisecond)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// work runs one process to its end.
func (j *judge) work(ctx context.Context) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{resident.Worker}
	cmd.Stderr, cmd.ExtraFiles, cmd.Env = os.Stderr, []*os.File{j.listen}, j.env.Environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	j.mu.Lock()
	if ctx.Err() != nil {
		j.mu.Unlock()
		return nil
	}
	err := cmd.Start()
	if err == nil {
		j.pids[cmd.Process.Pid] = true
	}
	j.mu.Unlock()
	if err != nil {
		return err
	}
	err = cmd.Wait()
	j.mu.Lock()
	delete(j.pids, cmd.Process.Pid)
	j.mu.Unlock()
	return err
}

func (j *judge) signal(s syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for pid := range j.pids {
		_ = syscall.Kill(pid, s)
	}
}

// watch ends what takes too much memory, the largest first.
func (j *judge) watch(ctx context.Context) {
	for tick := time.Tick(100 * time.Millisecond); ; {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		j.mu.Lock()
		var all, most int64
		largest := 0
		for pid := range j.pids {
			n := memoryOf(pid)
			if all += n; n > most {
				most, largest = n, pid
			}
		}
		if most > maxPush || all > j.memory && largest != 0 {
			fmt.Fprintf(j.env.Stderr, "rig-hook: the process %d has %d MiB of %d MiB in all and is ended\n", largest, most>>20, all>>20)
			_ = syscall.Kill(largest, syscall.SIGKILL)
		}
		j.mu.Unlock()
	}
}
