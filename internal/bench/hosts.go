package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rigward/rigward/hooks"
	judge "github.com/rigward/rigward/internal/resident"
	"github.com/rigward/rigward/internal/test/corpus"
)

// hosts measures a server of many repositories to which many push at once: git
// alone, with hooks that do nothing, with hooks that judge by themselves, and with a
// resident judge.
func hosts(flags *flag.FlagSet, args []string) error {
	repositories := flags.Int("repositories", 5000, "how many repositories the server has")
	envelopes := flags.Int("n", 100, "envelopes of each")
	atOnce := flags.Int("at-once", 50, "pushes at once")
	each := flags.Duration("for", time.Minute, "how long each kind of server is pushed to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "hosts")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	h := &host{dir: scratch, repositories: *repositories, atOnce: *atOnce}
	if err := h.make(*envelopes); err != nil {
		return err
	}
	fmt.Printf("| %d repositories, %d pushes at once | pushes | p50 | p99 | processor time of a push | memory of the judge |\n|---|---|---|---|---|---|\n", *repositories, *atOnce)
	for _, kind := range []string{"git alone", idle, "hooks by themselves", "resident judge"} {
		if err := h.measure(kind, *each); err != nil {
			return err
		}
	}
	hooked, err := sizeOf(h.hooks("resident judge"), filepath.Join(h.dir, "rig-hook-client"))
	judging, err2 := sizeOf(filepath.Join(h.dir, "rig-hook"))
	fmt.Printf("\nOn disk: %.1f MB for the hooks of all repositories, %.1f MB for the program that judges.\n", float64(hooked)/1e6, float64(judging)/1e6)
	return errors.Join(err, err2)
}

// idle is the kind of server whose hooks are /bin/true: the floor of any hook.
const idle = "both hooks are `/bin/true`"

// sizeOf is how many bytes files and the files of directories have.
func sizeOf(paths ...string) (sum int64, err error) {
	for _, path := range paths {
		err = errors.Join(err, filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				info, ierr := d.Info()
				if err = ierr; err == nil {
					sum += info.Size()
				}
			}
			return err
		}))
	}
	return sum, err
}

// A host is a server of many repositories that share their hooks.
type host struct {
	dir                  string
	repositories, atOnce int
	client               string
	tips                 []string // what is pushed to a repository, one after the other
	next                 atomic.Int64
}

// pushRounds is how often each repository is pushed to at the most.
const pushRounds = 20

func (h *host) make(envelopes int) error {
	if _, err := build(h.dir, "rig-hook", "rig-hook-client"); err != nil {
		return err
	}
	o := corpus.Options{Envelopes: envelopes}
	source := filepath.Join(h.dir, "source.git")
	if err := corpus.Generate(source, o); err != nil {
		return err
	}
	h.client = filepath.Join(h.dir, "client.git")
	if _, err := corpus.Git("", "clone", "-q", "--bare", "--shared", source, h.client); err != nil {
		return err
	}
	b := &gate{n: envelopes, o: o, client: h.client}
	for range pushRounds {
		tip, err := b.next("plain")
		if err != nil {
			return err
		}
		h.tips = append(h.tips, tip)
	}
	for i := range h.repositories {
		if err := link(source, h.repository(i)); err != nil {
			return err
		}
	}
	if err := idleHooks(h.hooks(idle), hooks.ServerHooks...); err != nil {
		return err
	}
	for kind, program := range map[string]string{"hooks by themselves": "rig-hook", "resident judge": "rig-hook-client"} {
		if _, err := hooks.Install(h.hooks(kind), filepath.Join(h.dir, program), hooks.ServerHooks); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) repository(i int) string { return filepath.Join(h.dir, fmt.Sprintf("r%d.git", i)) }
func (h *host) hooks(kind string) string {
	return filepath.Join(h.dir, "hooks", strings.NewReplacer(" ", "-", "`", "", "/", "-").Replace(kind))
}

// link copies a directory by hard links; git replaces files, it does not change them.
func link(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		return os.Link(path, filepath.Join(to, rel))
	})
}

func (h *host) measure(kind string, each time.Duration) error {
	config := filepath.Join(h.dir, "config")
	text := fmt.Sprintf("[core]\n\thooksPath = %s\n[gc]\n\tauto = 0\n[safe]\n\tdirectory = *\n", h.hooks(kind))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	socket := filepath.Join(h.dir, "judge.sock")
	memory := func() int64 { return 0 }
	if kind == "resident judge" {
		cmd := exec.Command(filepath.Join(h.dir, "rig-hook"), "serve", "--socket", socket)
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() }()
		memory = func() int64 { return together(cmd.Process.Pid) }
		time.Sleep(time.Second)
	}
	environ := append(os.Environ(), "GIT_CONFIG_GLOBAL="+config, judge.Variable+"="+socket)
	var mu sync.Mutex
	var took []time.Duration
	var failure error
	var pushers sync.WaitGroup
	end, busy := time.Now().Add(each), processor()
	for range h.atOnce {
		pushers.Go(func() {
			for time.Now().Before(end) {
				i := int(h.next.Add(1)) - 1
				if i >= h.repositories*pushRounds {
					return
				}
				cmd := in(h.client, "git", "push", "-q", h.repository(i%h.repositories), h.tips[i/h.repositories]+":refs/heads/main")
				cmd.Env = environ
				d, err := timed(cmd)
				mu.Lock()
				took, failure = append(took, d), errors.Join(failure, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { pushers.Wait(); close(done) }()
	most := int64(0)
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(500 * time.Millisecond):
			most = max(most, memory())
		}
	}
	if failure != nil {
		return failure
	}
	busy = processor() - busy
	slices.Sort(took)
	at := func(p int) time.Duration { return took[min(len(took)-1, len(took)*p/100)] }
	fmt.Printf("| %s | %d | %s | %s | %s | %.0f MiB |\n", kind, len(took), ms(at(50)), ms(at(99)), ms(busy/time.Duration(len(took))), float64(most)/(1<<20))
	return nil
}

// together is what a process and its children have in memory that no other
// process has, and their parts of what is shared, in bytes.
func together(pid int) (sum int64) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	pids := []string{fmt.Sprint(pid)}
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		pids = append(pids, strings.Fields(string(data))...)
	}
	for _, p := range pids {
		data, _ := os.ReadFile("/proc/" + p + "/smaps_rollup")
		_, rest, _ := bytes.Cut(data, []byte("\nPss:"))
		var kilobytes int64
		_, _ = fmt.Sscan(string(rest), &kilobytes)
		sum += kilobytes << 10
	}
	return sum
}

// processor is the time that the processors of this machine have worked.
func processor() time.Duration {
	data, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(data), "\n")
	var user, nice, system, idle, wait, irq, soft int64
	_, _ = fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft)
	return time.Duration(user+nice+system+irq+soft) * 10 * time.Millisecond
}
