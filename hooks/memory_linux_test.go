package hooks_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestLargeEnvelopesInASmallPack: envelopes that take little room in a pack and
// much in memory are judged portion by portion, and each of them is.
func TestLargeEnvelopesInASmallPack(t *testing.T) {
	t.Parallel()
	const n = 16
	r := gittest.New(t, gittest.Options{})
	base := r.Commit("Begin", map[string]string{"t-one/REQUEST.md": turn("t-one", "REQUEST", "Hello?\n")})
	// Their hash is that of another body.
	head := strings.TrimSuffix(turn("t-one", "STATE", "\n"), "\n")
	rest := strings.Repeat("a", 8_380_000) + "\n"
	var in bytes.Buffer
	in.Grow(n * (len(rest) + 1000))
	var changes strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "blob\nmark :%d\ndata %d\n%s%c", i+1, len(head)+1+len(rest), head, 'A'+i)
		in.WriteString(rest + "\n")
		fmt.Fprintf(&changes, "M 100644 :%d t-one/STATE-%d.md\n", i+1, i)
	}
	fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata 0\nfrom %s\n%s\n", r.Now, base, changes.String())
	r.RunIn(in.Bytes(), "fast-import", "--quiet", "--depth=0")
	cmd := exec.Command(program, "check", base+"..main")
	cmd.Dir, cmd.Env = r.Dir, r.Env
	var buffer strings.Builder
	cmd.Stdout, cmd.Stderr = &buffer, &buffer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	peak := 0 // in KiB, as seen last
	for running := true; running; {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if _, after, ok := strings.Cut(string(status), "VmHWM:"); ok {
			_, _ = fmt.Sscan(after, &peak)
		}
		select {
		case <-done:
			running = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	out := buffer.String()
	if code := cmd.ProcessState.ExitCode(); code != 1 || strings.Count(out, "[body-hash]") != n {
		t.Errorf("exit %d, expected the hash of %d envelopes to be told:\n%.2000s", code, n, out)
	}
	if peak == 0 || peak > 120<<10 {
		t.Errorf("%d KiB of memory for envelopes of 8 MiB", peak)
	}
}
