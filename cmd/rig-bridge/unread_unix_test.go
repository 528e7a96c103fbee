//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/cmd/internal/version"
)

// TestWatchUntilReaderLeaves: a watch ends with its reader, even if there is
// never a change that it could not write.
func TestWatchUntilReaderLeaves(t *testing.T) {
	w := newWorld(t)
	w.git(".", "init", "-q", "a")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := w.command("a", "status", "--watch")
	cmd.Stdout, cmd.Stderr = writer, os.Stderr
	if err := errors.Join(cmd.Start(), writer.Close()); err != nil {
		t.Fatal(err)
	}
	slow := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer slow.Stop()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Errorf("%q %v", line, err)
	}
	reader.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the watch ended by %v", err)
	}
}

// TestRemovedDirectory: in a directory that is gone help and version are there,
// and a command fails as it says.
func TestRemovedDirectory(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args   string
		code   int
		stdout string
	}{
		{"--version", 0, strings.TrimPrefix(version.String(), "v") + "\n"},
		{"status --help", 0, "usage: rig-bridge status"},
		{"status --frob", 1, ""},
		{"status --json", 2, `{"schema_version":"1.0","op":"status","error":{"code":"runtime",`},
		{"validate x.md", 2, ""},
	} {
		os.Mkdir(w.path("gone"), 0o755)
		cmd := w.command("gone", "-c", `rmdir "$PWD" && exec "$0" `+c.args, program(t))
		cmd.Path, cmd.Args[0] = "/bin/sh", "sh"
		o := finish(t, cmd)
		if o.code != c.code || !strings.HasPrefix(o.stdout, c.stdout) || c.stdout == "" && o.stdout != "" || strings.Count(o.stderr, "\n") > 4 {
			t.Errorf("%s: exit %d, expected %d\n%s%s", c.args, o.code, c.code, o.stdout, o.stderr)
		}
	}
}
