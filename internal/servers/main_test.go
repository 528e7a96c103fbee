//go:build linux

package servers

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/programs"
)

// bin is a directory with rig-hook in it, built once.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if flag.Parse(); testing.Short() {
		fmt.Println("skipped with -short: all tests here start git and a built program")
		return 0
	}
	var err error
	if bin, err = os.MkdirTemp("", "rigward-servers-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	if err := programs.Build(bin, "rig-hook"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// A block is a piece of docs/servers.md that is to be copied and pasted.
type block struct {
	*testing.T
	text string
}

var fence = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// documented returns the nth shell block under a heading of docs/servers.md.
func documented(t *testing.T, heading string, n int) block {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "servers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/servers.md has no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	all := fence.FindAllStringSubmatch(section, -1)
	if n >= len(all) {
		t.Fatalf("docs/servers.md has %d blocks under %q", len(all), heading)
	}
	return block{t, all[n][1]}
}

// with puts a place of this test where the page names one of a server. A place
// that the page does not name fails the test: then the page has changed.
func (b block) with(old, now string) block {
	b.Helper()
	if !strings.Contains(b.text, old) {
		b.Fatalf("the block does not say %q:\n%s", old, b.text)
	}
	b.text = strings.ReplaceAll(b.text, old, now)
	return b
}

// run runs the block as it would be pasted, and returns what it printed.
func (b block) run(dir string, env []string) string {
	b.Helper()
	cmd := exec.Command("sh", "-eu")
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdin = strings.NewReader(b.text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s\n%s", err, b.text, out)
	}
	return string(out)
}

// shell is the environment of whoever sets up a server.
func shell(home string) []string {
	return []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1"}
}

// program returns where a program is installed, and skips the test if it is
// nowhere.
func program(t *testing.T, name, pkg string) string {
	t.Helper()
	if file, err := exec.LookPath(name); err == nil {
		return file
	}
	for _, dir := range []string{"/usr/sbin", "/usr/lib/git-core", "/usr/local/sbin"} {
		if file := filepath.Join(dir, name); syscall.Access(file, 1) == nil {
			return file
		}
	}
	t.Skipf("%s is not installed (Debian package %s)", name, pkg)
	return ""
}

// daemon starts a program that serves until the test ends.
func daemon(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	cmd.Dir = "/"
	// A group of its own, so that its workers end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() {
		stop()
		<-done
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(name), out.String())
		}
	})
}

// await waits until something answers at an address.
func await(t *testing.T, network, address string) {
	t.Helper()
	for range 200 {
		if c, err := net.Dial(network, address); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("nothing answers at %s", address)
}

// port returns a free port of the loopback interface.
func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, p, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// me is the name of the user that runs the tests.
func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// bare opens the server's repository for what an administrator does there.
func bare(t *testing.T, dir string) *gittest.Repo {
	t.Helper()
	home := gittest.TempDir(t)
	return &gittest.Repo{T: t, Dir: dir, Home: home, Env: gittest.Environ(home)}
}
