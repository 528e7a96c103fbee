// Rig-mcp serves a clone to an agent by the Model Context Protocol. rig-bridge
// mcp starts it, so that rig-bridge need not load the protocol's SDK itself.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/rigward/rigward/cmd/internal/handover"
	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/finding"
)

// memory is from how many bytes on the garbage collector works harder to stay
// below: a server is idle most of the time.
const memory = 24 << 20

func main() {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(memory)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx)
	stop()
	os.Exit(code)
}

// program is the table of commands.
func program() *cli.Program {
	return &cli.Program{
		Name: "rig-mcp", About: "Serves the clone of a rig to an agent, by the Model Context Protocol on standard input and output.",
		Commands: []*cli.Command{{Name: "mcp", Short: "serve, as rig-bridge mcp", Flags: bridge.MCPFlags(),
			Long: "Ends when the input ends. docs/agents.md has the settings of hosts."}},
		Exit: []cli.Exit{{Code: "0", Means: "the input ended"}, {Code: "2", Means: "the clone cannot be served"}},
	}
}

// parse reads the command line, and answers one that asks for help or the like: done.
func parse(stdout io.Writer, args []string) (line cli.Line, done bool, err error) {
	p := program()
	if len(args) == 0 || strings.HasPrefix(args[0], "--clone") { // the one command there is
		args = append([]string{"mcp"}, args...)
	}
	if done, err := p.Own(stdout, version.String(), args); done || err != nil {
		return line, done, err
	}
	c := p.Find(args[0])
	if c == nil {
		return line, false, p.Unknown(args[0])
	}
	line, help, err := p.Parse(c, args[1:])
	if help {
		_, err = io.WriteString(stdout, p.Help(c))
	}
	return line, help, err
}

// run serves until the input ends or a signal comes, and returns the exit code.
func run(ctx context.Context) int {
	line, done, err := parse(os.Stdout, os.Args[1:])
	switch {
	case err != nil:
		return refuse(err)
	case done:
		return 0
	}
	dir, err := os.Getwd()
	if clone := line.Get("--clone"); filepath.IsAbs(clone) {
		dir, err = clone, nil
	} else if err == nil && clone != "" {
		dir = filepath.Join(dir, clone)
	}
	if err != nil {
		return refuse(err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return refuse(&cli.Error{Message: "there is no directory " + finding.Quote(dir), Hint: bridge.StartHint})
	}
	self, _ := os.Executable()
	environ := os.Environ()
	s := &server{env: bridge.Env{
		Environ: environ, Dir: dir, Self: self, Tool: true, Memory: &bridge.Memory{}, Now: time.Now, Rand: rand.Reader,
		Control: func(ctx context.Context, dir string, args []string) (stdout, stderr []byte, code int, err error) {
			return handover.Run(ctx, handover.Control, self, "rig-bridge", dir, args, environ, nil, 1<<20)
		},
	}}
	if f := s.check(ctx); f != nil {
		fmt.Fprintf(os.Stderr, "rig-mcp: %s\n", finding.Clean(f.Message))
		if f.Hint != "" {
			fmt.Fprintf(os.Stderr, "hint: %s\n", finding.Clean(f.Hint))
		}
		return 2
	}
	err = s.protocol().Run(ctx, stdio{os.Stdin, os.Stdout, maxRequest})
	s.busy.Wait() // what is under way is finished or taken back first
	if err != nil && ctx.Err() == nil {
		return refuse(err)
	}
	return 0
}

// maxRequest is how long a request may be, in bytes: that of a message of the
// size of a file, escaped.
const maxRequest = 50 << 20

func refuse(err error) int {
	fmt.Fprintf(os.Stderr, "rig-mcp: %s\n", finding.Clean(err.Error()))
	var usage *cli.Error
	if errors.As(err, &usage) && usage.Hint != "" {
		fmt.Fprintf(os.Stderr, "hint: %s\n", finding.Clean(usage.Hint))
	}
	return 2
}
