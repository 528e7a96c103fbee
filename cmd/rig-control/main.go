// Rig-control keeps and asks the control plane: the index of envelopes in an
// SQLite or PostgreSQL database. rig-hook and rig-bridge start it for what they
// need of it, so that they need not load the databases' drivers themselves.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rigward/rigward/hooks"
)

func main() {
	// What an index of a large history holds at a time is its largest trees;
	// garbage of twice that size would be the greater part of its memory.
	debug.SetGCPercent(50)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, _ := os.Getwd()
	code := Main(ctx, &hooks.Env{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir, Now: time.Now})
	stop()
	os.Exit(code)
}
