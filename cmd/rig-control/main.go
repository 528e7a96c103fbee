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

// collect keeps what the runtime takes below a size, of bytes. What is in use may grow beyond that: there is
// then room for 30 percent more, or garbage would be collected all the time.
func collect(size int64) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(size)
	live := []rt.Sample{{Name: "/gc/heap/live:bytes"}}
	for limit := size; ; time.Sleep(50 * time.Millisecond) {
		rt.Read(live)
		if needed := max(size, int64(live[0].Value.Uint64())*13/10+size/8); needed != limit {
			limit = needed
			debug.SetMemoryLimit(limit)
		}
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "index" && slices.Contains(os.Args, "--check") {
		go collect(80 << 20) // the whole stays below 128 MiB for a history of 100,000 messages
	} else if len(os.Args) > 1 && os.Args[1] == "index" {
		go collect(144 << 20) // of which two parts of a history are most, one that is judged and one that is written
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
