package hooks_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/resident"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
)

// client is rig-hook-client beside program, built once.
var client = sync.OnceValues(func() (string, error) {
	dir := filepath.Dir(program)
	return filepath.Join(dir, "rig-hook-client"), programs.Build(dir, "rig-hook-client")
})

// startJudge starts rig-hook serve and waits until it answers.
func startJudge(socket string, words ...string) (*exec.Cmd, error) {
	cmd := exec.Command(filepath.Join(filepath.Dir(program), "rig-hook"), append([]string{"serve", "--socket", socket}, words...)...)
	cmd.Env = gittest.Environ(filepath.Dir(socket))
	cmd.Stderr = os.Stderr
	if os.Getenv("RIGWARD_TEST_RESIDENT") == "" {
		cmd.Stderr = nil
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for range 600 {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			return cmd, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	cmd.Process.Kill()
	return nil, cmd.Wait()
}

// throughResident lets a resident judge serve all hooks of the tests.
func throughResident() (end func(), err error) {
	file, err := client()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(filepath.Dir(program), "judge.sock")
	cmd, err := startJudge(socket, "--workers", "8", "--memory", "4096")
	if err != nil {
		return nil, err
	}
	program = file
	return func() {
		fmt.Fprintf(os.Stderr, "the resident judge took %s\n", judgeTime(cmd.Process.Pid))
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}, os.Setenv(resident.Variable, socket)
}

// A residentWorld has a judge of its own, a server and a clone.
type residentWorld struct {
	*world
	socket, client string
	judge          *exec.Cmd
}

func newResident(t *testing.T, words ...string) *residentWorld {
	t.Helper()
	file, err := client()
	if err != nil {
		t.Fatal(err)
	}
	r := &residentWorld{world: newWorld(t, gittest.Options{}), client: file}
	dir, err := os.MkdirTemp("", "judge") // a path that is short enough
	if err != nil {
		t.Fatal(err)
	}
	r.socket = filepath.Join(dir, "j.sock")
	t.Cleanup(func() { os.RemoveAll(dir) })
	r.start(words...)
	for _, hook := range []string{"pre-receive", "update", "post-receive"} {
		r.server.Hook(hook, string(hooks.Shim(hook, r.client, false)))
	}
	r.server.Setenv(resident.Variable, r.socket)
	r.clone.Setenv(resident.Variable, r.socket) // its pushes start the server's hooks
	return r
}

func (r *residentWorld) start(words ...string) {
	r.Helper()
	var err error
	if r.judge, err = startJudge(r.socket, words...); err != nil {
		r.Fatal(err)
	}
	judge := r.judge
	r.Cleanup(func() { judge.Process.Kill(); judge.Wait() })
}

// judgeTime is how long the processes of a judge have worked that still run.
func judgeTime(judge int) (sum time.Duration) {
	for _, pid := range workersOf(judge) {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(data), ") ")
		if f := strings.Fields(rest); len(f) > 12 {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			sum += time.Duration(user+system) * 10 * time.Millisecond
		}
	}
	return sum
}

// workersOf are the processes that judge.
func workersOf(judge int) (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", judge))
	var data []byte
	for _, task := range tasks {
		more, _ := os.ReadFile(task)
		data = append(append(data, more...), ' ')
	}
	for _, f := range strings.Fields(string(data)) {
		pid, _ := strconv.Atoi(f)
		pids = append(pids, pid)
	}
	return pids
}

// by runs a hook by hand in the server's repository.
func (r *residentWorld) by(program, stdin string, args ...string) gittest.Result {
	r.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = r.server.Dir, append(r.server.Env, "GIT_DIR=."), strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		r.Fatal(err)
	}
	return gittest.Result{Stdout: out.String(), Stderr: errOut.String(), Code: cmd.ProcessState.ExitCode()}
}

// TestResident: a hook that hands over says and decides what it would by itself.
func TestResident(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	t.Parallel()
	r := newResident(t)
	direct := filepath.Join(filepath.Dir(program), "rig-hook")
	old := r.server.Run("rev-parse", "main")
	good := r.clone.Commit("Good", state(1))
	r.accepted(r.push("main"))
	r.settle()
	bad := r.clone.Commit("Bad", map[string]string{"release-check/B.md": bad("release-check")})
	r.refused(r.push("main"), "envelope-schema")
	// The objects of the refused push are there for hooks by hand.
	r.clone.Run("push", "-q", "--no-verify", r.server.Dir, "main:refs/heads/elsewhere")
	zero := strings.Repeat("0", len(old))
	judged := 0
	for name, c := range map[string]struct {
		stdin string
		args  []string
	}{
		"clean":                    {old + " " + good + " refs/heads/main\n", []string{"pre-receive"}},
		"findings":                 {good + " " + bad + " refs/heads/main\n", []string{"pre-receive"}},
		"not fast-forward":         {good + " " + old + " refs/heads/main\n", []string{"pre-receive"}},
		"a line that is no line":   {"junk\n", []string{"pre-receive"}},
		"no object":                {good + " " + strings.Repeat("1", len(old)) + " refs/heads/main\n", []string{"pre-receive"}},
		"nothing":                  {"", []string{"pre-receive"}},
		"update":                   {"", []string{"update", "refs/heads/main", good, bad}},
		"update, clean":            {"", []string{"update", "refs/heads/main", old, good}},
		"update without words":     {"", []string{"update"}},
		"a new ref":                {zero + " " + good + " refs/heads/new\n", []string{"pre-receive"}},
		"post-receive":             {old + " " + good + " refs/heads/main\n", []string{"post-receive"}},
		"pre-commit":               {"", []string{"pre-commit"}},
		"commit-msg":               {"", []string{"commit-msg", "missing"}},
		"what is no hook":          {"", []string{"--version"}},
		"a command":                {"", []string{"explain", "append-only"}},
		"a name that is nothing's": {"", []string{"no-such"}},
	} {
		by := r.by(direct, c.stdin, c.args...)
		through := r.by(r.client, c.stdin, c.args...)
		if by != through {
			t.Errorf("%s:\n%+v, handed over:\n%+v", name, by, through)
		}
		// With --required only a judge can have said it.
		if required := r.by(r.client, c.stdin, append([]string{resident.Required}, c.args...)...); required == by {
			judged++
		} else if !strings.Contains(required.Stderr, "no resident judge takes this") || required.Code != 2 {
			t.Errorf("%s: %+v", name, required)
		}
	}
	if judged != 13 {
		t.Errorf("%d calls were judged by the resident judge, expected 13: those of hooks", judged)
	}

	t.Run("install", func(t *testing.T) {
		must(t, r.by(direct, "", "install", "--server", ".", "--resident", "--socket", r.socket), 0)
		must(t, r.by(direct, "", "doctor", "--server", "."), 0)
		must(t, r.by(direct, "", "install", "--server", ".", "--require-resident", "--socket", r.socket), 0, "updated")
		must(t, r.by(direct, "", "doctor", "--server", "."), 0)
		must(t, r.by(direct, "", "install", "--server", ".", "--require-resident", "--socket", r.socket), 0, "already there")
		r.refused(r.push("main"), "envelope-schema")
	})
	t.Run("ends in order", func(t *testing.T) {
		r.judge.Process.Signal(syscall.SIGTERM)
		if err := r.judge.Wait(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(r.socket); err == nil {
			t.Error("the socket is still there")
		}
		// --require-resident is installed.
		must(t, r.push("main"), 1, "no resident judge takes this, and this hook requires one")
		must(t, r.by(direct, "", "install", "--server", ".", "--resident", "--socket", r.socket), 0)
		r.refused(r.push("main"), "envelope-schema")
	})
}

// TestResidentHurt: whatever happens to the judge, nothing bad passes, and what
// is good passes again as soon as it can.
func TestResidentHurt(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	t.Parallel()
	r := newResident(t, "--workers", "1")
	old := r.server.Run("rev-parse", "main")
	good := r.clone.Commit("Good", state(1))
	r.clone.Run("push", "-q", "--no-verify", r.server.Dir, "main:refs/heads/elsewhere")
	line := old + " " + good + " refs/heads/main\n"
	clean := func(what string) {
		t.Helper()
		for range 100 { // until the process that was lost has a successor
			if res := r.by(r.client, line, resident.Required, "pre-receive"); res.Code == 0 {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("%s: the judge does not come back", what)
	}
	clean("control")

	t.Run("killed at work", func(t *testing.T) {
		// The hook waits for its standard input, the judge too.
		cmd := exec.Command(r.client, "pre-receive")
		cmd.Dir, cmd.Env = r.server.Dir, append(r.server.Env, "GIT_DIR=.")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		busy(t, workersOf(r.judge.Process.Pid)[0], stdinOf(cmd.Process.Pid))
		syscall.Kill(workersOf(r.judge.Process.Pid)[0], syscall.SIGKILL)
		err = cmd.Wait()
		stdin.Close()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(errOut.String(), "the resident judge ended before its verdict") {
			t.Errorf("%v: %s", err, errOut.String())
		}
		clean("killed")
	})
	t.Run("the hook is killed", func(t *testing.T) {
		cmd := exec.Command(r.client, "pre-receive")
		cmd.Dir, cmd.Env = r.server.Dir, append(r.server.Env, "GIT_DIR=.")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		busy(t, workersOf(r.judge.Process.Pid)[0], stdinOf(cmd.Process.Pid))
		cmd.Process.Kill()
		cmd.Wait()
		clean("the hook was killed")
	})
	t.Run("stopped", func(t *testing.T) {
		pid := workersOf(r.judge.Process.Pid)[0]
		syscall.Kill(pid, syscall.SIGSTOP)
		if res := r.by(r.client, line, "pre-receive"); res.Code != 0 {
			t.Errorf("the hook does not judge by itself: %+v", res)
		}
		if res := r.by(r.client, line, resident.Required, "pre-receive"); res.Code != 2 {
			t.Errorf("%+v", res)
		}
		syscall.Kill(pid, syscall.SIGCONT)
		clean("stopped")
	})
	t.Run("calls that are none", func(t *testing.T) {
		whole, err := resident.Call{Dir: "/", Args: []string{"pre-receive"}}.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		serve, _ := resident.Call{Dir: r.server.Dir, Args: []string{"uninstall", "--server", r.server.Dir}}.Marshal()
		long := binary.BigEndian.AppendUint32(nil, 1<<31)
		for name, c := range map[string]struct {
			data []byte
			fds  []int
		}{
			"nothing": {}, "junk": {[]byte("junk junk"), []int{0, 1, 2}}, "too long": {long, []int{0, 1, 2}}, "no files": {whole, nil},
			"too many files": {whole, []int{0, 1, 2, 2}}, "another directory": {whole, []int{0, 1, 2}}, "a command": {serve, []int{0, 1, 2}}, "cut off": {whole[:10], []int{0, 1, 2}},
		} {
			c2, err := net.Dial("unix", r.socket)
			if err != nil {
				t.Fatal(err)
			}
			conn := c2.(*net.UnixConn)
			conn.SetDeadline(time.Now().Add(time.Minute))
			var b [1]byte
			if _, err := conn.Read(b[:]); err != nil || b[0] != resident.Ready {
				t.Errorf("%s: %q, %v", name, b, err)
			}
			if len(c.data) > 0 {
				conn.WriteMsgUnix(c.data, syscall.UnixRights(c.fds...), nil)
			}
			conn.CloseWrite()
			if n, _ := conn.Read(b[:]); n == 1 && b[0] != resident.Refused {
				t.Errorf("%s: %q", name, b)
			}
			conn.Close()
			clean(name)
		}
	})
	t.Run("another user", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can be another user")
		}
		// A judge of somebody else is not believed: it says that all is clean.
		dir, err := os.MkdirTemp("", "judge")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		os.Chmod(dir, 0o777)
		fake := filepath.Join(dir, "j.sock")
		script := "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen(9)\nprint('up',flush=True)\nwhile 1:\n c,_=s.accept()\n c.sendall(b'JR\\0')\n c.recv(99999)\n c.close()\n"
		cmd := exec.Command("/usr/bin/python3", "-c", script, fake)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		up, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Skip("python3 cannot be started: " + err.Error())
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		var b [2]byte
		if _, err := up.Read(b[:]); err != nil {
			t.Fatal(err)
		}
		os.Chmod(fake, 0o777)
		mine := r.server.Env
		r.server.Setenv(resident.Variable, fake)
		bad := good + " " + old + " refs/heads/main\n"
		if res := r.by(r.client, bad, "pre-receive"); res.Code != 1 {
			t.Errorf("a judge of another user is believed: %+v", res)
		}
		if res := r.by(r.client, line, resident.Required, "pre-receive"); res.Code != 2 {
			t.Errorf("%+v", res)
		}
		r.server.Env = mine
		clean("control")
	})
}

// stdinOf is what a process reads from.
func stdinOf(pid int) string { return fmt.Sprintf("/proc/%d/fd/0", pid) }

// busy waits until a process has the file open that another one reads from.
func busy(t *testing.T, pid int, file string) {
	t.Helper()
	want, err := os.Readlink(file)
	if err != nil {
		t.Fatal(err)
	}
	for range 600 {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			if got, _ := os.Readlink(fd); got == want {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the judge does not take the call")
}
