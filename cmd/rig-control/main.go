// Rig-control keeps and asks the control plane: the index of envelopes in an
// SQLite or PostgreSQL database. rig-hook and rig-bridge start it for what they
// need of it, so that they need not load the databases' drivers themselves.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	rt "runtime/metrics"
	"slices"
	"syscall"
	"time"

	"github.com/rigward/rigward/hooks"
)

// collect has garbage collected when the heap has a size; but not before it has grown by 30 percent,
// or a history for which that is too little would be collected all the time.
func collect(size uint64) {
	debug.SetGCPercent(100)
	live := []rt.Sample{{Name: "/gc/heap/live:bytes"}}
	for range time.Tick(100 * time.Millisecond) {
		rt.Read(live)
		used := max(live[0].Value.Uint64(), size/4)
		debug.SetGCPercent(int(max(size*100/used, 130) - 100))
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "index" && slices.Contains(os.Args, "--check") {
		go collect(96 << 20) // the whole stays below 128 MiB for a history of 100,000 messages
	} else if len(os.Args) > 1 && os.Args[1] == "index" {
		// What an index of a large history holds at a time is its largest
		// trees; garbage of twice that size would be the greater part of its
		// memory.
		debug.SetGCPercent(50)
	} else {
		// What somebody waits for needs little: collecting it would cost more
		// than it gives back. A hook that has much to catch up is held to this.
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(256 << 20)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, _ := os.Getwd()
	code := Main(ctx, &hooks.Env{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir, Now: time.Now})
	stop()
	os.Exit(code)
}
