// Package bridge is the envelope client: the verbs init, new, send, close,
// relay, status, thread, read, sync and validate of the program rig-bridge.
//
// It is a drop-in for the reference client. What scripts read from it (text
// lines, JSON objects, exit codes, environment variables) is the contract of
// docs/spec/client.md. A message is judged here by the same packages as at the gates,
// before anything is written, and a message that was accepted is never lost
// and never sent twice: see send.go for how it is written and committed, and
// push.go for what happens when somebody else was faster.
//
// Nothing in here reads the environment, the clock or the terminal, or starts
// a process: all that comes in through Env, and git is run by pkg/gitrepo.
package bridge

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// Env is everything that a run takes from outside.
type Env struct {
	Version string   // of the program, without a "v"
	Args    []string // without the program's name
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string // as os.Environ
	Dir     string   // current directory, absolute; "" if it cannot be read
	Self    string   // path of this program, "" if it is not known
	Now     func() time.Time
	Rand    io.Reader // cryptographic random source

	// Tool says that an agent calls a tool: what fails is told in the words of the
	// tools and their arguments, not in those of the command line.
	Tool bool
	// Piped reports whether Stdin is a pipe, a socket or a file: something that
	// was handed over, not a terminal or another device. Nil: it is not.
	Piped func() bool
	// Ask shows a question to a person at the terminal and reports whether the
	// answer is yes. Nil, or without a terminal: no.
	Ask func(question string) bool
	// Rows returns the height of the terminal that Stdout is, ok false if it
	// is none. Nil: Stdout is no terminal.
	Rows func() (rows int, ok bool)
	// Page runs a pager with the given arguments and environment over text,
	// until it ends or ctx tells that it must. started is false if the program
	// could not be started. Nil: no pager.
	Page func(ctx context.Context, argv, environ []string, text []byte) (started bool)
	// Unread returns a channel that is closed when nobody reads Stdout any
	// more. Nil: only a write finds out.
	Unread func() <-chan struct{}
	// Want says whether thread --json is to tell a message, by its file and its body hash, "" if it has
	// none, and how many of those that were said come after it. How many there are is told all the
	// same. Nil: all are told.
	Want func(file, hash string, after int) bool
	// HookProgram returns the path of rig-hook, ok false if it is neither
	// beside this program nor on the search path. Nil: it is not.
	HookProgram func() (program string, ok bool)
	// InstallHooks installs the client hooks that run program into dir, keeps
	// foreign hooks and chains them, and returns the names of the hooks.
	InstallHooks func(dir, program string) (names []string, err error)
	// Control runs rig-control with the given arguments in dir. A negative
	// code says that it was cut off. Nil: there is no control plane.
	Control func(ctx context.Context, dir string, args []string) (stdout, stderr []byte, code int, err error)
	// HandOver lets another program do the rest, rig-mcp for the command mcp and
	// rig-control for others, and returns its exit code if it does not take this
	// process's place.
	HandOver func(args []string) (code int, err error)
	// Memory is what earlier runs of this process have read. Nil: nothing.
	Memory *Memory
	// Second is closed by a second signal: the running child is killed at
	// once.
	Second <-chan struct{}
}

// Getenv returns the value of a variable, ok false if it is not there.
func (e *Env) Getenv(name string) (value string, ok bool) {
	for _, kv := range e.Environ {
		if v, found := strings.CutPrefix(kv, name+"="); found {
			value, ok = v, true
		}
	}
	return value, ok
}

// An Interrupt is the cause of a context that a signal has ended.
type Interrupt struct{ Signal os.Signal }

// Error names the signal.
func (i Interrupt) Error() string { return "interrupted (" + i.Name() + ")" }

// Name returns "SIGINT" or "SIGTERM".
func (i Interrupt) Name() string {
	if i.Signal == os.Interrupt {
		return "SIGINT"
	}
	return "SIGTERM"
}

// OSSignal returns the signal, for children that must get it too.
func (i Interrupt) OSSignal() os.Signal { return i.Signal }

// Code returns the exit code of a run that the signal ended: 130 or 143.
func (i Interrupt) Code() int {
	if i.Signal == os.Interrupt {
		return 130
	}
	return 143
}

// Main runs the client and returns its exit code: 0 done, 1 user error or
// refusal, 2 could not decide, 130 and 143 interrupted (docs/spec/client.md#exit-codes).
//
// A signal ends ctx with an Interrupt as its cause.
func Main(ctx context.Context, env Env) int {
	word := ""
	if len(env.Args) > 0 {
		word = env.Args[0]
	}
	if debugging(&env) {
		fmt.Fprintf(env.Stderr, "rig-bridge: debug version=%s command=%s platform=%s/%s runtime=%s\n",
			env.Version, token(word), runtime.GOOS, runtime.GOARCH, runtime.Version())
	}
	switch {
	case len(env.Args) == 0 || word == "--help" || word == "-h":
		return writeOut(&env, program().Overview())
	case word == "--version" || word == "-v": // bare, as the reference client's
		return writeOut(&env, env.Version+"\n")
	}
	if done, err := program().Own(env.Stdout, env.Version, env.Args); err != nil {
		f := asFailure(ctx, usage(err))
		fmt.Fprintf(env.Stderr, "rig-bridge: %s: %s\n", token(word), escapeLine(f.message))
		if f.hint != "" {
			fmt.Fprintf(env.Stderr, "hint: %s\n", f.hint)
		}
		return f.exit
	} else if done {
		return 0
	}
	cmd := program().Find(word)
	if cmd == nil {
		fmt.Fprintf(env.Stderr, "rig-bridge: unknown command %s\nhint: rig-bridge --help\n", quote(word))
		return 1
	}
	if env.Memory == nil {
		env.Memory = &Memory{once: true}
	}
	r := &run{env: &env, ctx: ctx, cmd: cmd, writes: actions[cmd.Name].writes}
	opts, help, err := parseArgs(cmd, env.Args[1:])
	r.opts = opts
	r.json = opts.Has("--json") || opts.Has("--watch") && watches(cmd)
	if help {
		return writeOut(&env, program().Help(cmd))
	}
	r.colour = r.wantsColour()
	if err == nil && env.Dir == "" {
		err = fail(codeRuntime, "the current directory cannot be read").withHint("cd to a directory that exists")
	}
	if err == nil {
		err = actions[cmd.Name].run(r)
	}
	if err == nil && r.writes && cmd.Name != "sync" {
		r.record()
	}
	return r.finish(err)
}

func debugging(env *Env) bool {
	v, _ := env.Getenv("DEBUG_RIG_BRIDGE")
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}

func writeOut(env *Env, text string) int {
	if _, err := io.WriteString(env.Stdout, text); err != nil {
		fmt.Fprintf(env.Stderr, "rig-bridge: cannot write to standard output\n")
		return 2
	}
	return 0
}
