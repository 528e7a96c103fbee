package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"time"
)

// killDelay is how long a killed git may keep a pipe open through a child of
// its own before the pipes are closed by force.
const killDelay = 2 * time.Second

// readArgs come before every reading command: no pager and no file system
// monitor is ever started, and git doesn't advise against GIT_GRAFT_FILE.
var readArgs = []string{"--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "advice.graftFileDeprecated=false"}

// process prepares a reading git process. Cancelling ctx kills it.
func (e Env) process(ctx context.Context, git string, args ...string) (*exec.Cmd, *tail) {
	return e.bareProcess(ctx, git, append(readArgs[:len(readArgs):len(readArgs)], args...)...)
}

// bareProcess is process without readArgs.
func (e Env) bareProcess(ctx context.Context, git string, args ...string) (*exec.Cmd, *tail) {
	cmd := exec.CommandContext(ctx, git, args...)
	cmd.Dir = e.Dir
	cmd.Env = e.reading()
	e.As.run(cmd)
	cmd.WaitDelay = killDelay
	stderr := &tail{}
	cmd.Stderr = stderr
	return cmd, stderr
}

// output runs a reading git process to its end. code is its exit code; err is
// set if it could not be started, was stopped by ctx or was killed.
func (e Env) output(ctx context.Context, git string, args ...string) (stdout, stderr []byte, code int, err error) {
	cmd, tail := e.process(ctx, git, args...)
	return outcome(ctx, cmd, tail, "git "+args[0])
}

// outcome runs a prepared process to its end.
func outcome(ctx context.Context, cmd *exec.Cmd, tail *tail, what string) (stdout, stderr []byte, code int, err error) {
	var out bytes.Buffer
	cmd.Stdout = &out
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() && ctx.Err() == nil {
		return out.Bytes(), tail.Bytes(), exit.ExitCode(), nil
	}
	if err != nil {
		return nil, nil, -1, failure(ctx, what, tail.Bytes(), err)
	}
	return out.Bytes(), tail.Bytes(), 0, nil
}

// tail keeps the last bytes written to it. It is the stderr of a child: kept
// for its reason, bounded because a child may complain without end.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailMax = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailMax; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// ReadFrom spares io.Copy its buffer of 32 KiB: a child mostly says nothing.
func (t *tail) ReadFrom(r io.Reader) (n int64, err error) {
	var buf [512]byte
	for {
		k, err := r.Read(buf[:])
		_, _ = t.Write(buf[:k])
		n += int64(k)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Bytes is what was kept.
func (t *tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.buf)
}
