// Package hooks holds the gates that git itself calls: one file per hook, and
// the installer that puts them in place. A hook knows its own input (argument
// words, lines on standard input, the index) and nothing of rules: it turns
// that input into a change, lets pkg/rules judge it, and tells the result
// through internal/report.
//
// Hooks only read. They write nothing to index, work tree, refs or objects,
// and never use the network.
package hooks

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/drift/ask"
)

// Env is all that a hook may know of the process around it.
type Env struct {
	Args       []string // words after the hook's name
	Stdin      io.Reader
	Stdout     io.Writer
	Stderr     io.Writer
	Environ    []string // KEY=value, as from os.Environ
	Dir        string   // current directory
	Executable string   // absolute path of the running program
	Now        func() time.Time
	Rand       io.Reader // random bytes; for names of scratch directories and the demo's keys
	StdinTTY   bool      // standard input is a terminal
	StderrTTY  bool      // standard error is a terminal

	// Bundles judges the bundles of what is pushed or checked. Nil: this program
	// cannot, and a policy that names some leaves nothing decided.
	Bundles ask.Judge
	// HandOver lets rig-control do the rest, and returns its exit code if it
	// does not take this process's place. Nil: there is no control plane.
	HandOver func(args []string) (code int, err error)
	// Ship starts rig-control, in this environment, to take the outbox further, and
	// does not wait for it; it has the lock of the outbox as its input. Nil: there is no
	// control plane.
	Ship func(environ []string, lock *os.File) error
	// Attest starts this program to sign what the gates have accepted, and does
	// not wait for it; it has the turn of the outbox as its input. Nil: nobody signs.
	Attest func(turn *os.File) error
}

// Program names the running program, so that what another one has kept is not taken
// for its own.
func (e *Env) Program() (string, error) {
	info, err := os.Stat(e.Executable)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%q %d %d", e.Executable, info.Size(), info.ModTime().UnixNano()), nil
}

// Getenv returns the last value of a variable in Environ, "" if unset.
func (e *Env) Getenv(key string) string {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(e.Environ[i], key+"="); ok {
			return v
		}
	}
	return ""
}
