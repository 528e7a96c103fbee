package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/rigward/rigward/internal/drift"
	"github.com/rigward/rigward/internal/drift/ask"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// judgeBundles answers rig-hook, which starts it for what a range does to bundles, and
// returns the exit code. Its memory is bounded as rig-hook's is.
func judgeBundles() int {
	debug.SetMemoryLimit(160 << 20)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, _ := os.Getwd()
	return ask.Serve(ctx, gitrepo.Env{Environ: os.Environ(), Dir: dir}, os.Stdin, os.Stdout, os.Stderr, drift.Here(nil))
}
