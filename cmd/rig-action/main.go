// Command rig-action is the step of the GitHub Action: action.yml takes it from
// its release, or builds it from its own checkout, and runs it on the event of
// the workflow.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rigward/rigward/action"
	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/image"
)

// memory is from how many bytes on the garbage collector works harder to stay
// below: what a push may cost is bounded, but twice of it is not needed.
const memory = 160 << 20

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("rig-action", version.String())
		return
	}
	debug.SetMemoryLimit(memory)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, _ := os.Getwd()
	code := action.Run(ctx, &hooks.Env{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ(), Dir: dir, Now: time.Now,
	}, image.UserNetwork("rig-action/"+version.String()))
	stop()
	os.Exit(code)
}
