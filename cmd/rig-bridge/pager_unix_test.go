//go:build unix

package main

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/bridge"
)

// TestPagerAndSignals: SIGTERM ends a pager that does not end by itself, SIGINT
// is the pager's own until there is a second signal.
func TestPagerAndSignals(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal os.Signal
		second bool
		pager  []string
	}{
		{"SIGTERM", syscall.SIGTERM, false, []string{"sleep", "30"}},
		{"SIGINT, and the pager ends", os.Interrupt, false, []string{"sleep", "0.2"}},
		{"SIGINT twice", os.Interrupt, true, []string{"sleep", "30"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			second := make(chan struct{})
			ctx, end := context.WithCancelCause(context.Background())
			end(bridge.Interrupt{Signal: c.signal})
			if c.second {
				time.AfterFunc(50*time.Millisecond, func() { close(second) })
			}
			start := time.Now()
			if !pager(second)(ctx, c.pager, os.Environ(), nil) {
				t.Error("the pager did not start")
			}
			if took := time.Since(start); took > 20*time.Second || !c.second && c.signal == os.Interrupt && took < 200*time.Millisecond {
				t.Errorf("it took %s", took)
			}
		})
	}
}
