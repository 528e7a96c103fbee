// Rig-bridge is the envelope client: messages between rigs, kept in a git
// repository. Run `rig-bridge --help` for its commands.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/rigward/rigward/cmd/internal/handover"
	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/bridge"
)

func main() {
	// A command lives for a fraction of a second and needs little memory:
	// collecting it would cost more than it gives back.
	debug.SetGCPercent(300)
	os.Exit(run())
}

func run() int {
	if os.Getenv(bridge.KeyVariable) != "" {
		return bridge.ShowKey(os.Args[1:], os.Stdout, os.Stderr)
	}
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	second := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		end(bridge.Interrupt{Signal: <-signals})
		<-signals
		close(second)
	}()
	// A reader of standard output that went away is an error of the write,
	// not the end of the process.
	signal.Ignore(syscall.SIGPIPE)
	dir, err := os.Getwd()
	if err != nil {
		dir = ""
	}
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	environ := os.Environ()
	return bridge.Main(ctx, bridge.Env{
		Version: strings.TrimPrefix(version.String(), "v"),
		Args:    os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: environ, Dir: dir, Self: self, Now: time.Now, Rand: rand.Reader,
		Piped: piped, Ask: ask, Rows: rows, Page: pager(second), Unread: unread, HookProgram: hookProgram, InstallHooks: installHooks, Second: second,
		Control: func(ctx context.Context, dir string, args []string) (stdout, stderr []byte, code int, err error) {
			return handover.Run(ctx, handover.Control, self, "rig-bridge", dir, args, environ, nil, 1<<20)
		},
		HandOver: func(args []string) (int, error) {
			program := handover.Control
			if args[0] == "mcp" {
				program = handover.MCP
			}
			return handover.To(program, self, "rig-bridge", args, environ)
		},
	})
}

// piped reports whether standard input is something that was handed over.
func piped() bool {
	info, err := os.Stdin.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 || err == nil && info.Mode().IsRegular()
}

// ask asks a person, if one sits at the terminal.
func ask(question string) bool {
	if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stderr.Fd())) {
		return false
	}
	os.Stderr.WriteString(question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return err == nil && (answer == "y" || answer == "yes")
}

func rows() (int, bool) {
	fd := int(os.Stdout.Fd())
	if !term.IsTerminal(fd) {
		return 0, false
	}
	_, height, err := term.GetSize(fd)
	return height, err == nil
}

// pager returns what runs a pager. SIGINT is left to the pager, which gets it
// from the terminal and need not end by it, as git leaves it; SIGTERM and a
// second signal end it.
func pager(second <-chan struct{}) func(ctx context.Context, argv, environ []string, text []byte) bool {
	return func(ctx context.Context, argv, environ []string, text []byte) (started bool) {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, bytes.NewReader(text), os.Stdout, os.Stderr
		if cmd.Start() != nil {
			return false
		}
		done := make(chan struct{})
		go func() {
			_ = cmd.Wait() // a pager that was left early has shown what was wanted
			close(done)
		}()
		select {
		case <-done:
			return true
		case <-ctx.Done():
		}
		var in bridge.Interrupt
		if errors.As(context.Cause(ctx), &in) && in.Signal == os.Interrupt {
			select {
			case <-done:
				return true
			case <-second:
			}
		}
		if cmd.Process.Signal(syscall.SIGTERM) == nil {
			select {
			case <-done:
				return true
			case <-time.After(pagerWait):
			}
		}
		_ = cmd.Process.Kill()
		<-done
		return true
	}
}

// pagerWait is how long a pager that must end is waited for.
const pagerWait = 5 * time.Second

// hookProgram finds rig-hook beside this program, else on the search path.
func hookProgram() (string, bool) {
	name := "rig-hook"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && hooks.CachedIn(beside) == "" {
			return beside, true
		}
	}
	found, err := exec.LookPath(name)
	if err != nil || errors.Is(err, exec.ErrDot) {
		return "", false
	}
	found, err = filepath.Abs(found)
	return found, err == nil && hooks.CachedIn(found) == ""
}

func installHooks(dir, program string) ([]string, error) {
	done, err := hooks.Install(dir, program, hooks.ClientHooks)
	var names []string
	for _, d := range done {
		names = append(names, d.Hook)
	}
	return names, err
}
