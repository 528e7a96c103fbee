package handover

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestRun: what a program writes comes back whole, up to a limit; one that writes without end, or is not done when the
// time is up, is stopped, and what holds its output open is not waited for.
func TestRun(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no POSIX shell here")
	}
	dir := t.TempDir()
	if err := os.Symlink(shell, filepath.Join(dir, "program")); err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, script string) (out, said []byte, code int, err error) {
		return Run(ctx, "program", filepath.Join(dir, "self"), "sh", dir, []string{"-c", script}, os.Environ(), strings.NewReader("in"), 100)
	}
	out, said, code, err := run(t.Context(), "cat; printf %98d 1; echo said >&2; exit 3")
	if len(out) != 100 || !bytes.HasPrefix(out, []byte("in ")) || string(said) != "said\n" || code != 3 || err != nil {
		t.Errorf("%q %q %d %v", out, said, code, err)
	}
	for _, script := range []string{"printf %101d 1", "while :; do echo more; done", "trap '' PIPE; while :; do echo more; done 2>/dev/null"} {
		if out, said, code, err := run(t.Context(), script); out != nil || !strings.Contains(string(said), "more than 100 bytes") || code >= 0 || err != nil {
			t.Errorf("%s: %q %q %d %v", script, out, said, code, err)
		}
	}
	if _, said, code, err := run(t.Context(), "printf '%100000d' 1 >&2"); len(said) != maxSaid || code != 0 || err != nil {
		t.Errorf("of a standard error without end %d bytes are kept, exit %d, %v", len(said), code, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, code, _ := run(ctx, "sleep 60 & wait"); code >= 0 {
		t.Errorf("a program that does not end has exit %d", code)
	}
	if _, _, code, err := Run(t.Context(), "absent", filepath.Join(dir, "self"), "", dir, nil, nil, nil, 1); code >= 0 || err == nil {
		t.Errorf("a program that is not there: %d %v", code, err)
	}
}
