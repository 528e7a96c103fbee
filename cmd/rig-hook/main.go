// Command rig-hook is every git hook of rigward, chosen by the name it is
// called by or by its first word, and the commands around them.
package main

import (
	"context"
	"crypto/rand"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/rigward/rigward/cmd/internal/handover"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/resident"
)

// memory is from how many bytes on the garbage collector works harder to stay
// below: what a push may cost is bounded, but twice of it is not needed.
const memory = 160 << 20

func main() {
	debug.SetMemoryLimit(memory)
	if os.Args[0] == resident.Worker {
		worker()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, _ := os.Getwd()
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	environ := os.Environ()
	code := Main(ctx, &hooks.Env{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: environ, Dir: dir, Executable: exe, Now: time.Now, Rand: rand.Reader,
		StdinTTY: term.IsTerminal(int(os.Stdin.Fd())), StderrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Ship: func() error {
			return handover.Start(handover.Control, exe, "rig-control", dir, []string{"ship", "--once"}, environ)
		},
		Attest:   func() error { return startSigner(exe, dir, environ) },
		HandOver: func(args []string) (int, error) { return handover.To(handover.Control, exe, "rig-hook", args, environ) },
	})
	stop()
	os.Exit(code)
}
