//go:build linux && amd64

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// changing are the system calls that change files, by number.
var changing = map[uint64]bool{
	unix.SYS_OPENAT: true, unix.SYS_WRITE: true, unix.SYS_PWRITE64: true, unix.SYS_RENAMEAT: true, unix.SYS_RENAMEAT2: true,
	unix.SYS_LINKAT: true, unix.SYS_UNLINKAT: true, unix.SYS_MKDIRAT: true, unix.SYS_SYMLINKAT: true, unix.SYS_FCHMOD: true,
	unix.SYS_FCHMODAT: true, unix.SYS_FTRUNCATE: true, unix.SYS_UTIMENSAT: true, unix.SYS_FSYNC: true, unix.SYS_COPY_FILE_RANGE: true,
}

// changes reports whether a call that a thread is about to make changes a file.
func changes(tid int, regs *unix.PtraceRegs) bool {
	switch call := regs.Orig_rax; {
	case !changing[call]:
		return false
	case call == unix.SYS_OPENAT:
		return regs.Rdx&unix.O_CREAT != 0
	case call == unix.SYS_WRITE || call == unix.SYS_PWRITE64: // not to a pipe of the runtime or of the test
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, regs.Rdi))
		return filepath.IsAbs(to) && !strings.HasPrefix(to, "/dev/")
	}
	return true
}

// killedAt runs a program and kills it just before it changes a file for the
// nth time, n counting from 0. It returns how many changes were begun before,
// and whether it came to the kill.
func killedAt(t *testing.T, cmd *exec.Cmd, n int) (steps int, killed bool) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Skipf("a child cannot be traced here: %v", err)
	}
	main := cmd.Process.Pid
	var ws unix.WaitStatus
	if _, err := unix.Wait4(main, &ws, unix.WALL, nil); err != nil || !ws.Stopped() {
		t.Skipf("a child cannot be traced here: %v %v", err, ws)
	}
	const follow = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(main, follow); err != nil {
		t.Fatal(err)
	}
	inside := map[int]bool{}
	known := map[int]bool{main: true}
	unix.PtraceSyscall(main, 0)
	for {
		tid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if ws.Exited() || ws.Signaled() {
			if tid == main {
				return steps, killed
			}
			continue
		}
		signal := 0
		switch stop := ws.StopSignal(); {
		case stop == unix.SIGTRAP|0x80:
			if inside[tid] = !inside[tid]; !inside[tid] || killed {
				break
			}
			var regs unix.PtraceRegs
			if unix.PtraceGetRegs(tid, &regs) != nil || !changes(tid, &regs) {
				break
			}
			if steps == n {
				killed = true
				unix.Kill(main, unix.SIGKILL)
				continue
			}
			steps++
		case stop == unix.SIGTRAP: // an event
		case stop == unix.SIGSTOP && !known[tid]: // a new thread
			known[tid] = true
		default:
			signal = int(stop)
		}
		unix.PtraceSyscall(tid, signal)
	}
}

// A killable is a command that is killed at its steps.
type killable struct {
	name  string
	reset func() // makes the old state
	args  []string
	dir   string
	env   []string
	state func() map[string]string
	undo  []string // the next run, one that changes nothing itself
	again int      // status of the command on what is new already
	home  string   // the state directory's parent
}

// play kills the command before each of its steps, or at a few of them. The
// next run brings about the old state or the new one; the command run again,
// the new one; and nothing is left beside it.
func (k *killable) play(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := func() *exec.Cmd {
		cmd := exec.Command(self, k.args...)
		cmd.Dir = k.dir
		cmd.Env = append(append(os.Environ(), k.env...), asCommand+"=1", "XDG_STATE_HOME="+k.home)
		return cmd
	}
	env := append(slices.Clone(k.env), "XDG_STATE_HOME="+k.home)
	k.reset()
	old := k.state()
	steps, _ := killedAt(t, child(), -1)
	after := k.state()
	if maps.Equal(old, after) || steps < 5 {
		t.Fatalf("%s changes nothing in %d steps", k.name, steps)
	}
	points := killPoints(t, steps)
	ends := map[string]int{}
	for i := range points {
		at := i * steps / points
		if points < steps {
			at += (os.Getpid() + 7*i) % max(1, steps/points) // others the next time
		}
		k.reset()
		if _, killed := killedAt(t, child(), at); !killed {
			continue // threads took turns in another way
		}
		if k.undo != nil {
			command(k.dir, env, k.undo...)
		}
		got := k.state()
		switch {
		case maps.Equal(got, old):
			ends["old"]++
		case maps.Equal(got, after):
			ends["new"]++
		default:
			t.Fatalf("%s killed before step %d of %d: neither the old state nor the new one: %v", k.name, at, steps, diffStates(got, old, after))
		}
		want := 0
		if maps.Equal(got, after) {
			want = k.again
		}
		if status, out, errs := command(k.dir, env, k.args...); status != want || !maps.Equal(k.state(), after) {
			t.Fatalf("%s killed before step %d of %d, and run again: status %d, %s%s%v", k.name, at, steps, status, out, errs, diffStates(k.state(), after, after))
		}
	}
	t.Logf("%s: %d steps, killed at %d: %v", k.name, steps, points, ends)
	if ends["old"] == 0 || k.undo != nil && ends["new"] == 0 && points == steps {
		t.Errorf("%s: killed %v", k.name, ends)
	}
}

// killPoints is at how many of a command's steps it is killed.
func killPoints(t *testing.T, steps int) int {
	points := 6
	switch s := os.Getenv("RIGWARD_KILLS"); s {
	case "":
	case "all":
		points = steps
	default:
		var err error
		if points, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return min(points, steps)
}

// leftovers are what an installer leaves below a directory only while it works.
func leftovers(dir string) (left []string) {
	for _, pattern := range []string{".rigbundle-install*", ".ai/.rigward*", ".rigward-*"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		left = append(left, found...)
	}
	return left
}

// TestKilledAtEveryStep ends installs, upgrades and uninstalls of both
// installers, and the staging of a context, with SIGKILL just before each
// system call that changes a file. RIGWARD_KILLS=all kills at every step, a
// number sets how many of them; the default is small.
func TestKilledAtEveryStep(t *testing.T) {
	work := t.TempDir()
	home := filepath.Join(work, "state")
	clean := func(t *testing.T, dirs ...string) {
		t.Helper()
		for _, dir := range append(dirs, home) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	env := []string{"XDG_STATE_HOME=" + home}
	do := func(t *testing.T, args ...string) {
		t.Helper()
		if status, out, errs := command(work, env, args...); status != 0 {
			t.Fatalf("%v: %s%s", args, out, errs)
		}
	}
	// seen is the state below a directory, without what only an unfinished run
	// has, but with the locks; times in them differ.
	seen := func(t *testing.T, dir string) map[string]string {
		t.Helper()
		all := tree(t, dir)
		if b, err := os.ReadFile(filepath.Join(dir, ".rigbundle-lock.json")); err == nil {
			all["lock"] = string(b)
		}
		if left := leftovers(dir); len(left) > 0 {
			t.Fatalf("left is %q", left)
		}
		filepath.WalkDir(home, func(p string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "installed.json" {
				t.Fatalf("left is %s", p)
			}
			return err
		})
		return all
	}

	one, two := filepath.Join(work, "one.rigbundle"), filepath.Join(work, "two.rigbundle")
	for i, name := range []string{one, two} {
		dir := newRig(t)
		put(t, filepath.Join(dir, "agents/impl/changed.md"), strconv.Itoa(i), 0o644)
		put(t, filepath.Join(dir, "agents/impl", "d"+strconv.Itoa(i), "only.md"), "x", 0o644)
		put(t, filepath.Join(dir, "agents/impl", "foreign", strconv.Itoa(i)), "of the bundle", 0o644)
		if status, _, errs := command(dir, nil, "create", "rig.yaml", "-o", name, "--bundle-version", strconv.Itoa(i+1)+".0.0", "--created-at", "2026-01-01T00:00:00Z"); status != 0 {
			t.Fatal(errs)
		}
	}
	target := filepath.Join(work, "T")
	rigState := func() map[string]string { return seen(t, target) }
	reset := func(from string) func() {
		return func() {
			clean(t, target)
			put(t, filepath.Join(target, "agents/impl/d1/mine.txt"), "mine", 0o600)
			put(t, filepath.Join(target, "agents/impl/foreign/1"), "mine", 0o644)
			if from != "" {
				do(t, "install", from, "--target", target)
			}
		}
	}
	undo := []string{"uninstall", "no such bundle", "--target", target}
	list := []*killable{
		{name: "install", reset: reset(""), args: []string{"install", one, "--target", target}, state: rigState, undo: undo},
		{name: "upgrade", reset: reset(one), args: []string{"install", two, "--target", target, "--backup"}, state: rigState, undo: undo},
		{name: "uninstall", reset: reset(one), args: []string{"uninstall", "demo", "--target", target}, state: rigState, undo: undo, again: 1},
	}

	context := filepath.Join(work, "context")
	agentTree(t, filepath.Join(work, "src"))
	do(t, "create", "src", "-o", work, "--format", "agent")
	list = append(list, &killable{name: "stage", reset: func() { clean(t, context) }, state: func() map[string]string {
		if _, err := os.Stat(context); err != nil {
			return map[string]string{}
		}
		return tree(t, context)
	}, args: []string{"stage", demoFile, "--target", "linux/amd64/musl", "--base", "alpine:3", "--unchecked-base", "--out", context}, again: 2})

	if _, err := exec.LookPath("openssl"); err == nil {
		list = append(list, ryeKillables(t, work, clean, do, seen)...)
	} else {
		t.Log("openssl, which makes the keys, is not installed: Rye bundles are left out")
	}
	t.Run("recovery", func(t *testing.T) { // of an upgrade that was killed half-way
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		child := func(args []string) *exec.Cmd {
			cmd := exec.Command(self, args...)
			cmd.Dir, cmd.Env = work, append(os.Environ(), asCommand+"=1", "XDG_STATE_HOME="+home)
			return cmd
		}
		upgrade := list[1].args
		list[1].reset()
		before := rigState()
		half, _ := killedAt(t, child(upgrade), -1)
		half = half * 3 / 5
		list[1].reset()
		killedAt(t, child(upgrade), half)
		if _, _, errs := command(work, env, append(slices.Clone(upgrade), "--plan")...); !strings.Contains(errs, "note: interrupted-run: ") {
			t.Errorf("a plan does not tell that a run was interrupted: %s", errs)
		}
		steps, _ := killedAt(t, child(undo), -1)
		if !maps.Equal(rigState(), before) {
			t.Fatal("the interrupted run was not undone")
		}
		points := killPoints(t, steps)
		for i := range points {
			list[1].reset()
			killedAt(t, child(upgrade), half)
			killedAt(t, child(undo), i*steps/points)
			command(work, env, undo...)
			if got := rigState(); !maps.Equal(got, before) {
				t.Fatalf("killed before step %d of %d: %v", i*steps/points, steps, diffStates(got, before, before))
			}
		}
		t.Logf("%d steps, killed at %d", steps, points)
	})
	for _, k := range list {
		t.Run(k.name, func(t *testing.T) {
			k.dir, k.home = work, home
			k.play(t)
		})
	}
}

func ryeKillables(t *testing.T, work string, clean func(*testing.T, ...string), do func(*testing.T, ...string), seen func(*testing.T, string) map[string]string) []*killable {
	r := &ryeRun{t: t, dir: work, env: map[string]string{"HOME": filepath.Join(work, "home"), "SOURCE_DATE_EPOCH": "1773709321"}}
	r.key("own.pem")
	r.want(0, "added", "trust", "add", "--key", "own.pem", "--owner", "me")
	for i, root := range []string{"rye1", "rye2"} {
		r.put(root+"/.ai/knowledge/team/notes/changed.md", "text "+strconv.Itoa(i)+"\n")
		r.put(root+"/.ai/knowledge/team/notes/d"+strconv.Itoa(i)+"/only.md", "x\n")
		r.want(0, "created", "create", "--format", "rye", root, "--id", "team/notes", "--version", strconv.Itoa(i+1)+".0.0", "--key", "own.pem", "--sign-items")
	}
	space := filepath.Join(work, "S")
	state := func() map[string]string {
		all := seen(t, space)
		delete(all, ".ai/bundles/team/notes/.bundle-lock.json") // has the time
		return all
	}
	home := []string{"HOME=" + r.env["HOME"]}
	reset := func(from string) func() {
		return func() {
			clean(t, space)
			put(t, filepath.Join(space, ".ai/knowledge/mine.md"), "mine", 0o600)
			if from != "" {
				if status, out, errs := command(work, append(home, "XDG_STATE_HOME="+filepath.Join(work, "state")), "install", from, "--space", space); status != 0 {
					t.Fatal(out, errs)
				}
			}
		}
	}
	undo := []string{"uninstall", "no/such", "--space", space}
	return []*killable{
		{name: "rye install", reset: reset(""), args: []string{"install", "rye1", "--space", space}, env: home, state: state, undo: undo},
		{name: "rye upgrade", reset: reset("rye1"), args: []string{"install", "rye2", "--space", space}, env: home, state: state, undo: undo},
		{name: "rye uninstall", reset: reset("rye1"), args: []string{"uninstall", "team/notes", "--space", space, "--format", "rye"}, env: home, state: state, undo: undo, again: 1},
	}
}
