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

// collect has garbage collected when the heap has a size, of bytes. What is in use may grow beyond that: there is
// then room for 30 percent more, or garbage would be collected all the time. The limit of the memory is beyond
// that: near it the runtime gives each page back that it needs again at once.
func collect(size int64) {
	live := []rt.Sample{{Name: "/gc/heap/live:bytes"}}
	for before := int64(-1); ; time.Sleep(50 * time.Millisecond) {
		rt.Read(live)
		used := max(int64(live[0].Value.Uint64()), 4<<20) // below that the runtime's own least heap counts
		if used != before {
			before = used
			debug.SetGCPercent(int(max(30, 100*(size-used)/used)))
			debug.SetMemoryLimit(max(size, used*13/10) * 3 / 2)
		}
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "index" && slices.Contains(os.Args, "--check") {
		go collect(60 << 20) // the whole stays below 128 MiB for a history of 100,000 messages
	} else if len(os.Args) > 1 && os.Args[1] == "index" {
		go collect(112 << 20) // of which two parts of a history are most, one that is judged and one that is written
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
