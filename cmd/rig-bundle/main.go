// Command rig-bundle makes, judges, compares and installs agent bundles in the
// three formats of this project: RigBundle archives, agent bundles and Rye
// bundles.
//
// It has one table of verbs. A verb that several formats share is given to the
// format that the input turns out to be of, or that --format names. Exit
// status: 0 done and nothing found, 1 findings, 2 could not decide.
package main

import (
	"context"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/rigward/rigward/internal/drift/ask"
)

func main() {
	if os.Args[0] == ask.Worker {
		os.Exit(judgeBundles())
	}
	// What is live fits in half of it: garbage does not make a large bundle cost
	// more than 64 MiB. GOMEMLIMIT says otherwise.
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(48 << 20)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	code := Main(ctx, Env{
		Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ(), Now: time.Now, Dir: dir, Machine: machineStore(),
		Terminal: term.IsTerminal(int(os.Stderr.Fd())), Exec: replaceProcess,
		Windows: runtime.GOOS == "windows",
	})
	stop()
	os.Exit(code)
}

// machineStore is the folder in which this machine's administrator keeps the
// trust store, "" where the rights of files are not looked at.
func machineStore() string {
	if runtime.GOOS == "windows" {
		return ""
	}
	return "/etc/rig-bundle"
}
