// Command rig-hook is every git hook of rigward, chosen by the name it is
// called by or by its first word, and the commands around them.
package main

import (
	"context"
	"crypto/rand"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/rigward/rigward/cmd/internal/handover"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/resident"
)

// memory is from how many bytes on the garbage collector works harder to stay
// below: what a push may cost is bounded, but twice of it is not needed. An audit
// holds what it knows of many commits, over which the collector would go again and
// again; an installation, which reads the history for its nonces, holds little.
const (
	memory        = 160 << 20
	auditMemory   = 208 << 20
	installMemory = 104 << 20
)

func main() {
	if os.Args[0] == resident.Worker {
		debug.SetMemoryLimit(memory)
		worker()
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	command := ""
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	settled := time.AfterFunc(settling, func() { settle(stop, command) })
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
		Ship:     shipper(exe, dir),
		Bundles:  bundleJudge(exe),
		Attest:   func(turn *os.File) error { return startSigner(exe, dir, environ, turn) },
		HandOver: func(args []string) (int, error) { return handover.To(handover.Control, exe, "rig-hook", args, environ) },
	})
	settled.Stop()
	os.Exit(code)
}

// shipper starts rig-control for a hook in dir (hooks.Env.Ship).
func shipper(self, dir string) func(environ []string, lock *os.File) error {
	return func(environ []string, lock *os.File) error {
		handOn(lock)
		return handover.Start(handover.Control, self, "rig-control", dir, []string{"ship", "--once"}, environ, lock)
	}
}

// handOn makes a lock ready for a process that inherits its file.
func handOn(lock *os.File) {
	if runtime.GOOS == "windows" { // where it does not inherit the lock
		files.Unlock(lock)
	}
}

// settling is how long a run may take before it is made ready for a long one, which
// costs as much as a short one takes. Until then a signal ends the program at once:
// git refuses what a hook was to judge that ended so.
const settling = 50 * time.Millisecond

// settle bounds the memory of a run of a command, and lets a signal stop it in order.
func settle(stop func(), command string) {
	switch command {
	case "check":
		debug.SetGCPercent(200)
		debug.SetMemoryLimit(auditMemory)
	case "install":
		debug.SetMemoryLimit(installMemory)
	default:
		debug.SetMemoryLimit(memory)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	signal.Stop(signals) // a second one ends the program
	stop()
}
