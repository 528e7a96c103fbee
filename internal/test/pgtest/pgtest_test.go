package pgtest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const beServer = "RIGWARD_TEST_PGTEST"

func TestMain(m *testing.M) { Main(m) }

// TestServerOfAnother starts a server in the process that TestEndsWithItsProcess
// kills.
func TestServerOfAnother(t *testing.T) {
	if os.Getenv(beServer) == "" {
		t.Skip("it runs in a process of its own")
	}
	Need(t)
	os.Stdout.WriteString(dir + "\n")
	select {}
}

// TestEndsWithItsProcess kills a process that started a server, and wants the
// server and its files gone, and a file free that the process had inherited.
func TestEndsWithItsProcess(t *testing.T) {
	Need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestServerOfAnother$")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), beServer+"=1"), []*os.File{w}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var other string
	for lines := bufio.NewScanner(out); other == "" && lines.Scan(); {
		if filepath.IsAbs(lines.Text()) {
			other = lines.Text()
		}
	}
	if other == "" {
		t.Fatal("the other process started no server")
	}
	if _, err := os.Stat(filepath.Join(other, "data", "postmaster.pid")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
		t.Errorf("what the process had inherited is still open: %v", err)
	}
	for range 600 {
		if _, err = os.Stat(other); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("the server lives on in " + other)
}
