package hooks

import (
	"context"
	"time"
)

// grace is how long a gate whose time is up waits for its work to notice. What
// has not then, such as a parser within one file, is left behind: the process
// ends soon, and git's processes were killed when the time was up.
const grace = 300 * time.Millisecond

// Within runs fn and returns its error. If fn does not return soon after ctx
// ended, ended is false, err is the cause, and nothing that fn uses may be
// touched any more.
func Within(ctx context.Context, fn func() error) (ended bool, err error) {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err = <-done:
		return true, err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err = <-done:
		return true, err
	case <-late.C:
		return false, context.Cause(ctx)
	}
}
