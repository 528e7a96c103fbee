//go:build unix

package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSpecialFiles: what stands in the place of policy or configuration and is
// no regular file is not read, for it may never end, and a body that never
// comes leaves a signal its say.
func TestSpecialFiles(t *testing.T) {
	c := newCachedClone(t, mathrand.New(mathrand.NewPCG(9, 10)))
	dir := filepath.Join(c.dir, ".bridge")
	pipe := filepath.Join(filepath.Dir(c.dir), "pipe")
	if err := errors.Join(os.Mkdir(dir, 0o755), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	put := func(name string, place func(path string) error) {
		t.Helper()
		path := filepath.Join(dir, name)
		os.Remove(path)
		if err := place(path); err != nil {
			t.Fatal(err)
		}
	}
	link := func(path string) error { return os.Symlink(pipe, path) }
	fifo := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	regular := func(path string) error { return os.WriteFile(path, []byte("rig_id: rig-a\n"), 0o644) }
	run := func(code int, told string, args ...string) {
		t.Helper()
		ctx, end := context.WithCancelCause(context.Background())
		defer end(nil)
		var out, errs bytes.Buffer
		done := make(chan int, 1)
		go func() {
			done <- Main(ctx, Env{Args: args, Stdout: &out, Stderr: &errs, Environ: c.env, Dir: c.dir, Now: time.Now, Rand: rand.Reader})
		}()
		if code == 143 {
			time.AfterFunc(200*time.Millisecond, func() { end(Interrupt{Signal: syscall.SIGTERM}) })
		}
		select {
		case got := <-done:
			if got != code || !strings.Contains(errs.String(), told) {
				t.Errorf("%q: exit %d, expected %d and %q\n%s%s", args, got, code, told, out.String(), errs.String())
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%q does not end", args)
		}
	}
	for _, place := range []func(string) error{link, fifo} {
		put("policy.yaml", place)
		run(0, "", "status")
		run(0, "", "thread", "thread-01")
		put("config.yaml", place)
		run(1, "cannot read .bridge/config.yaml", "new", "t-new")
		run(2, "config.yaml", "init", "--rig-id", "rig-a")
	}
	put("config.yaml", regular)
	run(143, "nothing was changed", "send", "ACK", "--thread", "thread-01", "--to", "peer", "--body-file", pipe)
}
