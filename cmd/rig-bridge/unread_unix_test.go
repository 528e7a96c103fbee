//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"testing"
	"time"
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
