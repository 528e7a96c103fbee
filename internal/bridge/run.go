package bridge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/finding"
)

// run is one call of one command.
type run struct {
	env    *Env
	ctx    context.Context
	cmd    *cli.Command
	writes bool // the command writes commits
	opts   cli.Line
	json   bool
	colour bool
	out    bytes.Buffer   // standard output, written when the command is done
	paged  bool           // out may go through a pager
	notes  []string       // lines for people, told on standard error in text mode
	exit   int            // exit code of a command that is done
	root   string         // top of the work tree, once known
	kept   string         // what stays after an interrupt, for people
	left   *journal       // of a killed run whose commit exists, once begun
	client string         // name of the record of --key, "" without one
	body   string         // hash of the body that was given, "" without one
	last   []func() error // what is done when the outcome is told
	whole  *whole         // what messagesAt read last
}

// atEnd has f run when the outcome is told: a run that is killed before it could
// say what it did is completed by the next one, not repeated. The last added
// runs first.
func (r *run) atEnd(f func() error) { r.last = append(r.last, f) }

// note keeps a line for people; with --json it is not printed.
func (r *run) note(format string, a ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, a...))
}

// head returns the first two keys of an object.
func (r *run) head() head { return head{schemaVersion, r.cmd.Name} }

// object sets standard output to one JSON object on one line.
func (r *run) object(v any) error {
	data, err := finding.JSON(v)
	if err != nil {
		return fmt.Errorf("cannot write the JSON object: %w", err)
	}
	r.out.Write(data)
	r.out.WriteByte('\n')
	return nil
}

// finish prints what is to be printed, does what is left for the end, and
// returns the exit code.
func (r *run) finish(err error) int {
	code := r.report(err)
	for _, f := range slices.Backward(r.last) {
		if err := f(); err != nil {
			fmt.Fprintf(r.env.Stderr, "rig-bridge: %s: %s\n", r.cmd.Name, escapeLine(asFailure(r.ctx, err).message))
		}
	}
	return code
}

// report prints the outcome and returns the exit code.
func (r *run) report(err error) int {
	if err == nil && r.ctx.Err() != nil {
		err = context.Cause(r.ctx)
	}
	if err != nil {
		return r.finishFailed(asFailure(r.ctx, err))
	}
	if !r.json {
		for _, n := range r.notes {
			fmt.Fprintf(r.env.Stderr, "rig-bridge: %s: %s\n", r.cmd.Name, escapeLine(n))
		}
	}
	if r.paged && r.page() {
		if r.ctx.Err() != nil {
			return r.finishFailed(asFailure(r.ctx, context.Cause(r.ctx)))
		}
		return r.exit
	}
	if r.out.Len() == 0 {
		return r.exit // a reader that went away missed nothing
	}
	if _, err := r.env.Stdout.Write(r.out.Bytes()); err != nil {
		kept := ""
		if r.kept != "" {
			kept = "; " + r.kept
		}
		fmt.Fprintf(r.env.Stderr, "rig-bridge: %s: cannot write to standard output%s\n", r.cmd.Name, escapeLine(kept))
		return 2
	}
	return r.exit
}

func (r *run) finishFailed(f *failure) int {
	if f.code == codeInterruped {
		kept := r.kept
		if kept == "" {
			kept = "nothing was changed"
		}
		f.hint, f.tool = "", nil
		root := ""
		if r.root != "" {
			root = " in " + escapeLine(r.root)
		}
		fmt.Fprintf(r.env.Stderr, "rig-bridge: %s%s: %s\n", f.message, root, kept)
		f.message += root + ": " + kept
	} else {
		for i, n := range r.notes {
			if i == 2 {
				break
			}
			fmt.Fprintf(r.env.Stderr, "rig-bridge: %s: %s\n", r.cmd.Name, escapeLine(n))
		}
		fmt.Fprintf(r.env.Stderr, "rig-bridge: %s: %s\n", r.cmd.Name, escapeLine(f.message))
		if f.hint != "" {
			fmt.Fprintf(r.env.Stderr, "hint: %s\n", escapeLine(f.hint))
		}
	}
	if r.json {
		obj := jsonError{schemaVersion, r.cmd.Name, r.errorBody(f)}
		if data, err := finding.JSON(obj); err == nil {
			r.env.Stdout.Write(append(data, '\n'))
		}
	}
	return f.exit
}

// wantsColour reports whether text on standard output is coloured (docs/spec/client.md#terminal).
func (r *run) wantsColour() bool {
	if r.json || r.opts.Has("--no-color") || r.env.Rows == nil {
		return false
	}
	if _, set := r.env.Getenv("NO_COLOR"); set {
		return false
	}
	_, terminal := r.env.Rows()
	return terminal
}

// Colours of values.
const (
	red    = 31
	green  = 32
	yellow = 33
	blue   = 34
)

// paint colours a value; 0 is no colour.
func (r *run) paint(s string, colour int) string {
	if !r.colour || colour == 0 {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, s)
}

// page writes the output through the user's pager. False: it is still to be
// written.
func (r *run) page() bool {
	if r.json || r.env.Page == nil || r.env.Rows == nil {
		return false
	}
	v, _ := r.env.Getenv("RIG_BRIDGE_NO_PAGER")
	switch strings.ToLower(v) {
	case "1", "true", "yes", "on":
		return false
	}
	rows, terminal := r.env.Rows()
	if !terminal || rows <= 0 || bytes.Count(r.out.Bytes(), []byte("\n")) <= rows {
		return false
	}
	pager, _ := r.env.Getenv("PAGER")
	argv := strings.Fields(pager)
	if len(argv) == 0 {
		argv = []string{"less"}
	}
	environ := r.env.Environ
	base := argv[0][strings.LastIndexByte(argv[0], '/')+1:]
	if base == "less" && len(argv) == 1 {
		argv = append(argv, "-FIRX")
	} else if _, set := r.env.Getenv("LESS"); !set {
		environ = append(append([]string(nil), environ...), "LESS=FIRX")
	}
	return r.env.Page(r.ctx, argv, environ, r.out.Bytes())
}

// readAll reads to the end, at most limit bytes, and ends when ctx does, though
// a pipe that nobody writes to keeps even the opening waiting.
func readAll(ctx context.Context, open func() (io.ReadCloser, error), limit int64) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var data []byte
		r, err := open()
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(r, limit))
			r.Close()
		}
		done <- result{data, err}
	}()
	select {
	case got := <-done:
		return got.data, got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
