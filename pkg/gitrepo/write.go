package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/finding"
)

// A Runner runs the git commands with which the client writes: commit, push,
// fetch and the plumbing that moves a branch. Gates only read and use Repo.
//
// The child sees all variables of Env, so that a repository chosen by GIT_DIR,
// the user's identity and the user's ssh agent work as for git itself, with
// LC_ALL=C, because its messages are looked at.
type Runner struct {
	Env Env
	// Now kills a running child at once when it is closed. May be nil.
	Now <-chan struct{}
}

// A Command is one call of git.
type Command struct {
	Args    []string
	Stdin   []byte        // nil: the null device
	Env     []string      // set in addition, later ones win
	Drop    []string      // variables that the child must not see
	Timeout time.Duration // 0: none
	// Hold is inherited by the child and all that it starts, so that a lock
	// on it lasts as long as any of them. May be nil; ignored on Windows.
	Hold *os.File
}

// A Result is what git said. Code is its exit code, -1 if a signal ended it.
type Result struct {
	Stdout, Stderr []byte
	Code           int
}

// ErrTimeout is returned by Run for a command that took longer than its
// Timeout.
var ErrTimeout = errors.New("timed out")

// grace is how long a child that was told to end is waited for before it is
// killed (docs/spec/client.md#signals).
const grace = 5 * time.Second

// Run runs git to its end. An exit code other than 0 is not an error. When ctx
// ends the child gets the signal that its cause names by a method
// `OSSignal() os.Signal`, else SIGTERM, and is killed after five seconds; Run
// then returns the cause.
func (r *Runner) Run(ctx context.Context, c Command) (Result, error) {
	if err := context.Cause(ctx); err != nil {
		return Result{Code: -1}, err
	}
	work := ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		work, cancel = context.WithTimeoutCause(ctx, c.Timeout, ErrTimeout)
		defer cancel()
	}
	program, err := r.Env.program()
	if err != nil {
		return Result{Code: -1}, err
	}
	cmd := exec.CommandContext(work, program, c.Args...)
	cmd.Dir = r.Env.Dir
	cmd.Env = childEnviron(r.Env.Environ, c)
	r.Env.As.run(cmd)
	if c.Stdin != nil {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if c.Hold != nil {
		hold(cmd, c.Hold)
	}
	cmd.WaitDelay = grace
	cmd.Cancel = func() error { return tell(cmd.Process, context.Cause(work)) }
	if err := cmd.Start(); err != nil {
		return Result{Code: -1}, &Error{Kind: ErrNoGit, Message: "git could not be started: " + finding.Quote(err.Error()), Cause: err}
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-r.Now:
			cmd.Process.Kill()
		case <-ended:
		}
	}()
	err = cmd.Wait()
	close(ended)
	res := Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: cmd.ProcessState.ExitCode()}
	if work.Err() != nil {
		return res, context.Cause(work)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return res, fmt.Errorf("git %s: %w", c.Args[0], err)
	}
	return res, nil
}

// tell sends the signal that the cause names.
func tell(p *os.Process, cause error) error {
	sig := terminate()
	var named interface{ OSSignal() os.Signal }
	if errors.As(cause, &named) {
		sig = named.OSSignal()
	}
	err := p.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return p.Kill() // signals other than kill do not exist everywhere
	}
	return err
}

func childEnviron(environ []string, c Command) []string {
	out := make([]string, 0, len(environ)+len(c.Env)+2)
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		drop := false
		for _, d := range c.Drop {
			drop = drop || name == d
		}
		if !drop {
			out = append(out, kv)
		}
	}
	return append(append(out, "LC_ALL=C"), c.Env...)
}
