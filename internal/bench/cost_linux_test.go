package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/test/corpus"
	"github.com/rigward/rigward/internal/test/gittest"
)

// What a hook and a send cost is counted, not timed: the programs that are started,
// the program itself among them, and the bytes that it allocates. The bounds are
// what they cost now, of bytes with a fifth of room; more must have a reason.
//
// A git that gitrepo does not know (a script, or one of a form of its own) is asked
// for everything, and more processes are started with it.
func TestCost(t *testing.T) {
	dir := gittest.TempDir(t)
	built, err := build(dir, "rig-hook", "rig-bridge")
	if err != nil {
		t.Fatal(err)
	}
	r := &gittest.Repo{T: t, Dir: filepath.Join(dir, "clone"), Home: dir, Env: gittest.Environ(dir), Now: gittest.Epoch}
	server := filepath.Join(dir, "server.git")
	o := corpus.Options{Envelopes: 200, PerThread: 10, Relays: true, Signed: true}
	if err := corpus.Generate(server, o); err != nil {
		t.Fatal(err)
	}
	if _, err := corpus.Git("", "clone", "-q", server, r.Dir); err != nil {
		t.Fatal(err)
	}
	old := r.Ref("refs/heads/main")
	r.Write(".bridge/config.yaml", "rig_id: mac-m5max\n")
	path, data := corpus.Envelope(200, o)
	thread, _, _ := strings.Cut(path, "/")
	r.Write(path, string(data))
	r.Run("add", path)
	staged := r.Copy(t)
	staged.Write(".git/COMMIT_EDITMSG", "Send\n")
	r.Run("commit", "-q", "-m", "Send")
	tip := r.Ref("refs/heads/main")
	// As a clone is that was made a while ago: no file is as young as its index.
	before := time.Unix(gittest.Epoch, 0)
	err = filepath.WalkDir(r.Dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		return os.Chtimes(path, before, before)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Run("update-index", "-q", "--refresh")
	line := old + " " + tip + " refs/heads/main\n"
	// A relay, on a server that has an index of nonces: update meets what pre-receive noted.
	relaying := &gittest.Repo{T: t, Dir: filepath.Join(dir, "relaying"), Home: dir, Now: time.Now().Unix(),
		Env: append([]string{"GIT_AUTHOR_NAME=" + corpus.OperatorName, "GIT_AUTHOR_EMAIL=" + corpus.OperatorEmail, "GIT_COMMITTER_NAME=" + corpus.OperatorName, "GIT_COMMITTER_EMAIL=" + corpus.OperatorEmail}, r.Env...)}
	indexed := filepath.Join(dir, "indexed.git")
	r.Run("clone", "-q", "--bare", server, indexed)
	r.Run("clone", "-q", server, relaying.Dir)
	if out, err := exec.Command(built[0], "install", "--server", indexed).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	path, data = corpus.Relay(190, 200, time.Now(), o)
	attested, err := corpus.SignTip(relaying.Dir, relaying.Commit("Send", map[string]string{path: string(data)}))
	if err != nil {
		t.Fatal(err)
	}
	pushed := append([]string{"GIT_DIR=.", "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(r.Dir, ".git", "objects")}, r.Env...)
	attests := append([]string{"GIT_DIR=.", "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(relaying.Dir, ".git", "objects")}, r.Env...)
	for _, c := range []struct {
		dir, program string
		args         []string
		stdin        string
		env          []string
		starts       int
		bytes        uint64
	}{
		{staged.Dir, "rig-hook", []string{"pre-commit"}, "", r.Env, 1, 208_000},
		{staged.Dir, "rig-hook", []string{"commit-msg", ".git/COMMIT_EDITMSG"}, "", r.Env, 1, 51_000},
		{r.Dir, "rig-hook", []string{"pre-push", "origin", server}, "refs/heads/main " + tip + " refs/heads/main " + old + "\n", r.Env, 1, 199_000},
		{server, "rig-hook", []string{"pre-receive"}, line, pushed, 1, 184_000},
		{server, "rig-hook", []string{"update", "refs/heads/main", old, tip}, "", pushed, 1, 184_000},
		{indexed, "rig-hook", []string{"pre-receive"}, old + " " + attested + " refs/heads/main\n", attests, 1, 315_000},
		{indexed, "rig-hook", []string{"update", "refs/heads/main", old, attested}, "", attests, 1, 315_000},
		{r.Dir, "rig-bridge", []string{"send", "ACK", "--thread", thread, "--to", "peer", "--no-push", "--tldr", "seen"}, "", r.Env, 1, 440_000},
	} {
		t.Run(c.program+" "+c.args[0], func(t *testing.T) {
			program := built[0]
			if c.program == "rig-bridge" {
				program = built[1]
			}
			cmd := exec.Command(program, c.args...)
			cmd.Dir, cmd.Env, cmd.Stdin = c.dir, c.env, strings.NewReader(c.stdin)
			started := programsOf(t, cmd)
			if len(started) != c.starts {
				t.Errorf("%d programs are started, expected %d:\n%s", len(started), c.starts, strings.Join(started, "\n"))
			}
			var before, after runtime.MemStats
			var said bytes.Buffer
			runtime.ReadMemStats(&before)
			code := 0
			if c.program == "rig-hook" {
				code = hooks.Run(context.Background(), c.args[0], &hooks.Env{Args: c.args[1:], Stdin: strings.NewReader(c.stdin), Stdout: &said, Stderr: &said,
					Environ: c.env, Dir: c.dir, Executable: program, Now: time.Now, Rand: rand.Reader})
			} else {
				code = bridge.Main(context.Background(), bridge.Env{Args: c.args, Stdin: strings.NewReader(c.stdin), Stdout: &said, Stderr: &said,
					Environ: c.env, Dir: c.dir, Self: program, Now: time.Now, Rand: rand.Reader})
			}
			runtime.ReadMemStats(&after)
			if code != 0 {
				t.Fatalf("exit %d: %s", code, said.Bytes())
			}
			n := after.TotalAlloc - before.TotalAlloc
			if t.Logf("%d bytes", n); n > c.bytes*6/5 {
				t.Errorf("%d bytes are allocated, expected about %d", n, c.bytes)
			}
		})
	}
}

// TestStart counts what packages set up before a hook does anything: the bytes that
// their initialisation allocates, with a fifth of room, as Go tells them.
func TestStart(t *testing.T) {
	built, err := build(gittest.TempDir(t), "rig-hook")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(built[0], "--version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	const expected = 106_000
	packages, all := 0, 0
	for line := range strings.Lines(said.String()) {
		var name string
		var at, took float64
		var size, allocs int
		if _, err := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &took, &size, &allocs); err == nil {
			packages, all = packages+1, all+size
		}
	}
	if packages < 10 || all > expected*6/5 {
		t.Errorf("%d packages allocate %d bytes at the start, expected about %d:\n%s", packages, all, expected, said.Bytes())
	}
}

// programsOf runs a command to its end and returns the programs that it and its
// children start, each with its arguments.
func programsOf(t *testing.T, cmd *exec.Cmd) (started []string) {
	t.Helper()
	runtime.LockOSThread() // whose children are traced
	defer runtime.UnlockOSThread()
	var said bytes.Buffer
	read, write, err := os.Pipe() // not one that exec copies from, beside the waiting
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	in, err := os.CreateTemp(t.TempDir(), "in")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := io.Copy(in, cmd.Stdin); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Skipf("a child cannot be traced here: %v", err)
	}
	write.Close()
	done := make(chan struct{})
	go func() { _, _ = io.Copy(&said, read); close(done) }()
	main := cmd.Process.Pid
	var ws unix.WaitStatus
	if _, err := unix.Wait4(main, &ws, unix.WALL, nil); err != nil || !ws.Stopped() {
		t.Skipf("a child cannot be traced here: %v %v", err, ws)
	}
	name := func(pid int) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		started = append(started, strings.ReplaceAll(strings.TrimSuffix(string(line), "\x00"), "\x00", " "))
	}
	name(main) // stopped in its start
	const follow = unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(main, follow); err != nil {
		t.Fatal(err)
	}
	known := map[int]bool{main: true}
	_ = unix.PtraceCont(main, 0)
	for {
		pid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			break // no child is left
		}
		if ws.Exited() || ws.Signaled() {
			if pid == main && ws.ExitStatus() != 0 {
				<-done
				t.Fatalf("exit %d: %s", ws.ExitStatus(), said.Bytes())
			}
			continue
		}
		signal := 0
		switch stop := ws.StopSignal(); {
		case stop == unix.SIGTRAP:
			if ws.TrapCause() == unix.PTRACE_EVENT_EXEC {
				name(pid)
			}
		case stop == unix.SIGSTOP && !known[pid]: // a new process or thread
			known[pid] = true
		default:
			signal = int(stop)
		}
		_ = unix.PtraceCont(pid, signal)
	}
	<-done
	return started
}
