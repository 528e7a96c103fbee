// Rig-control keeps and asks the control plane: the index of envelopes in an
// SQLite or PostgreSQL database. rig-hook and rig-bridge start it for what they
// need of it, so that they need not load the databases' drivers themselves.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rigward/rigward/hooks"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, _ := os.Getwd()
	code := Main(ctx, &hooks.Env{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir, Now: time.Now})
	stop()
	os.Exit(code)
}
