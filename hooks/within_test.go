package hooks

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// TestWithin: a gate whose time is up does not wait for work that does not
// notice, such as a parser within one file (J12).
func TestWithin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	ended, err := Within(ctx, func() error {
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		}
		return nil
	})
	if took := time.Since(begin); ended || !errors.Is(err, context.DeadlineExceeded) || took > 3*time.Second {
		t.Errorf("ended %v after %v: %v", ended, took, err)
	}
	if ended, err := Within(t.Context(), func() error { return os.ErrExist }); !ended || !errors.Is(err, os.ErrExist) {
		t.Errorf("work that is done in time: %v, %v", ended, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if ended, err := Within(stopped, func() error { return stopped.Err() }); !ended || !errors.Is(err, context.Canceled) {
		t.Errorf("work that notices: %v, %v", ended, err)
	}
}
