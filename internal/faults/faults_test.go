package faults

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/fulldisk"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
	"github.com/rigward/rigward/internal/test/testkeys"
)

// A server with one envelope on main, and two pushes to it, their objects in
// place: a good one that adds an envelope, and a bad one that deletes it.
type server struct {
	*gittest.Repo
	good, bad string // lines for pre-receive
	ids       map[string]string
}

var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if flag.Parse(); testing.Short() {
		fmt.Println("skipped with -short: all tests here start git and a built program")
		return 0
	}
	dir, err := os.MkdirTemp("", "rigward-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "rig-hook")
	if err := programs.Build(dir, "rig-hook"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func envelope(kind string) string {
	return "---\nfrom: rig-a\nto: rig-z\ndate: 2026-01-05\nstatus: ▶ Going on\ntype: " + kind + "\nthread: t-one\n---\nText of " + kind + "\n"
}

func newServer(t *testing.T) *server {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("faults are made by Linux and a POSIX shell")
	}
	s := &server{Repo: gittest.New(t, gittest.Options{Bare: true}), ids: map[string]string{}}
	work := gittest.New(t, gittest.Options{})
	key := testkeys.Ed25519("faults")
	base := work.Commit("Begin", map[string]string{"t-one/REQUEST.md": envelope("REQUEST"), ".bridge/allowed_signers": key.Line("op@example.com", "")})
	good := work.Commit("Answer", map[string]string{"t-one/RESPONSE.md": envelope("RESPONSE")})
	work.Run("checkout", "-q", "-b", "bad", base)
	work.Run("rm", "-q", "t-one/REQUEST.md")
	bad := work.Commit("Delete", nil)
	for name, rev := range map[string]string{"commit": good, "tree": good + "^{tree}", "blob": good + ":t-one/RESPONSE.md", "base": base, "old blob": base + ":t-one/REQUEST.md", "old tree": base + "^{tree}"} {
		s.ids[name] = work.Run("rev-parse", rev)
	}
	work.Run("push", "-q", s.Dir, base+":refs/heads/main", good+":refs/tmp/good", bad+":refs/tmp/bad")
	s.Run("update-ref", "-d", "refs/tmp/good")
	s.Run("update-ref", "-d", "refs/tmp/bad")
	s.good, s.bad = base+" "+good+" refs/heads/main\n", base+" "+bad+" refs/heads/main\n"
	return s
}

// both runs the hook on both pushes, as a shell does, and checks that neither
// verdict is wrong. decides says that the fault must not matter.
func (s *server) both(t *testing.T, shell string, decides bool, env ...string) {
	t.Helper()
	for _, push := range []struct {
		name, line string
		right      int
	}{{"good", s.good, 0}, {"bad", s.bad, 1}} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", shell)
		cmd.Dir = s.Dir
		cmd.Env = append(append([]string{"GIT_DIR=.", "HOOK=" + program, "LINE=" + push.line}, s.Env...), env...)
		cmd.Stdin = strings.NewReader(push.line)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		cancel()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		switch code := cmd.ProcessState.ExitCode(); {
		case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			t.Errorf("%s: the hook hangs on the %s push\n%s", shell, push.name, out.String())
		case code == push.right:
		case decides:
			t.Errorf("%s: the %s push has exit %d, expected %d\n%s", shell, push.name, code, push.right, out.String())
		case code == 0, code == 1 && push.right == 0:
			t.Errorf("%s: the %s push has exit %d, expected %d or 2\n%s", shell, push.name, code, push.right, out.String())
		}
	}
}

const hook = `exec "$HOOK" pre-receive --timeout 1m`

func TestNoFault(t *testing.T) { newServer(t).both(t, hook, true) }

func TestNoTemporaryDirectory(t *testing.T) {
	s := newServer(t)
	s.both(t, hook, true, "TMPDIR=/nonexistent", "HOME=/nonexistent")
	s.both(t, hook, true, "TMPDIR=/dev/null")
}

func TestFullDisk(t *testing.T) {
	s := newServer(t)
	disk := fulldisk.New(t, "4m")
	small := filepath.Join(disk.Dir, "repo.git")
	if err := os.CopyFS(small, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	s.Dir = small
	disk.Fill(t, 0)
	s.both(t, hook, true, "TMPDIR="+disk.Dir)
}

func TestKilledChildren(t *testing.T) {
	s := newServer(t)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	// What has died without a word is not waited for beyond the hook's own time.
	const hook = `exec "$HOOK" pre-receive --timeout 1s`
	for _, bytes := range []int{0, 60} {
		dir := gittest.TempDir(t)
		script := fmt.Sprintf("#!/bin/sh\n%s \"$@\" | head -c %d\nkill -9 $$\n", git, bytes)
		if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		s.both(t, hook, false, "PATH="+dir+":/usr/bin:/bin")
	}
	s.both(t, hook, false, "PATH=/nonexistent")
}

func TestMissingObjects(t *testing.T) {
	for _, name := range []string{"commit", "tree", "blob", "base", "old tree", "old blob"} {
		s := newServer(t)
		id := s.ids[name]
		if err := os.Remove(filepath.Join(s.Dir, "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
		s.both(t, hook, false)
	}
}

func TestTruncatedPack(t *testing.T) {
	for _, part := range []int64{2, 3, 10} {
		s := newServer(t)
		s.Run("update-ref", "refs/keep/good", strings.Fields(s.good)[1])
		s.Run("update-ref", "refs/keep/bad", strings.Fields(s.bad)[1])
		s.Run("repack", "-q", "-a", "-d")
		packs, err := filepath.Glob(filepath.Join(s.Dir, "objects/pack/*.pack"))
		if err != nil || len(packs) != 1 {
			t.Fatalf("%v %v", packs, err)
		}
		info, err := os.Stat(packs[0])
		if err != nil {
			t.Fatal(err)
		}
		if os.Chmod(packs[0], 0o644) != nil || os.Truncate(packs[0], info.Size()-info.Size()/part) != nil {
			t.Fatal("the pack cannot be cut")
		}
		s.both(t, hook, false)
	}
}

// TestNonceIndex: what is derived does not decide. Where it cannot even be seen
// whether the server has a record of what it judged, nothing is decided.
func TestNonceIndex(t *testing.T) {
	for name, breakIt := range map[string]func(dir string) error{
		"a file in place of the directory": func(dir string) error { return os.WriteFile(dir, []byte("x"), 0o600) },
		"a dangling link":                  func(dir string) error { return os.Symlink("/nonexistent/x", dir) },
		"a link to itself":                 func(dir string) error { return os.Symlink("rigward", dir) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			if err := breakIt(filepath.Join(s.Dir, "rigward")); err != nil {
				t.Fatal(err)
			}
			s.both(t, hook, name == "a dangling link")
		})
	}
}

func TestLimits(t *testing.T) {
	s := newServer(t)
	for _, limit := range []string{"-n 4", "-n 8", "-n 10", "-n 12", "-f 0", "-v 200000", "-v 900000", "-s 64"} {
		s.both(t, "ulimit "+limit+" || exit 2; "+hook, false)
	}
}

func TestStreams(t *testing.T) {
	s := newServer(t)
	for _, shell := range []string{
		hook + " <&-", hook + " </dev/null", hook + " <.", // no lines, so nothing is decided
		hook + " >&-", hook + " 2>&-", hook + " >&- 2>&-", hook + " >/dev/full 2>/dev/full", hook + " <&- >&- 2>&-",
		hook + " --format json >&-", hook + " --format json >/dev/full",
		`printf %s "${LINE%?????????}" | "$HOOK" pre-receive`, // a line that is cut
	} {
		s.both(t, shell, false)
	}
	// A reader that goes away (EPIPE).
	for _, line := range []string{s.good, s.bad} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := exec.Command(program, "pre-receive")
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stderr, cmd.Stdout = s.Dir, append([]string{"GIT_DIR=."}, s.Env...), strings.NewReader(line), w, w
		err = cmd.Run()
		w.Close()
		if err == nil && line == s.bad {
			t.Error("a bad push passes when nobody reads the report")
		}
	}
}

func TestClockSetBack(t *testing.T) {
	s := newServer(t)
	for _, now := range []int64{gittest.Epoch - 86400, 0, -1 << 40} {
		for _, line := range []string{s.good, s.bad} {
			var out bytes.Buffer
			code := hooks.Run(t.Context(), "pre-receive", &hooks.Env{
				Args: []string{"--timeout", "1m"}, Stdin: strings.NewReader(line), Stdout: &out, Stderr: &out, Environ: append([]string{"GIT_DIR=."}, s.Env...), Dir: s.Dir,
				Now: func() time.Time { return time.Unix(now, 0) },
			})
			if code != 1 || !strings.Contains(out.String(), "commit-clock") {
				t.Errorf("at %d: exit %d, expected commit-clock\n%s", now, code, out.String())
			}
		}
	}
}
