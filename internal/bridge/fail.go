package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/finding"
)

// Error codes of the JSON error object (docs/spec/client.md#output).
const (
	codeUsage      = "usage"
	codeNoRepo     = "not-a-repository"
	codeConfig     = "config"
	codeThread     = "thread"
	codeExists     = "exists"
	codeInvalid    = "invalid"
	codeRefused    = "refused"
	codePush       = "push-rejected"
	codeRuntime    = "runtime"
	codeInterruped = "interrupted"
)

// A failure is an error that is told to people: one sentence, and where a
// command repairs it, that command.
type failure struct {
	code     string
	exit     int
	message  string
	hint     string
	tool     *string // the hint for an agent that calls tools; nil: it has none of its own
	findings []finding.Finding
	cause    error // for errors.Is, nil if nobody asks
}

func (f *failure) Error() string { return f.message }

func (f *failure) Unwrap() error { return f.cause }

func (f *failure) withHint(format string, a ...any) *failure {
	f.hint = fmt.Sprintf(format, a...)
	return f
}

// orTool adds the hint for an agent that calls tools, in their words; "" for none.
// Where it is not given the hint is for the command line, and told as such.
func (f *failure) orTool(format string, a ...any) *failure {
	hint := fmt.Sprintf(format, a...)
	f.tool = &hint
	return f
}

// because adds what errors.Is finds.
func (f *failure) because(cause error) *failure {
	f.cause = cause
	return f
}

// toolArguments are the arguments of tools that are called otherwise than the
// flag without its hyphens.
var toolArguments = map[string]string{"--body-file": "body", "--timeout": "seconds"}

// arg is how the caller knows a flag: by its name, or as an argument of a tool.
func (r *run) arg(flag string) string {
	if !r.env.Tool {
		return flag
	}
	if name, other := toolArguments[flag]; other {
		return name
	}
	return strings.ReplaceAll(strings.TrimPrefix(flag, "--"), "-", "_")
}

// word is how the caller knows a word of the command line.
func (r *run) word(name string) string {
	if r.env.Tool {
		return name
	}
	return "<" + name + ">"
}

// hintOf is a failure's hint for the caller. Where no tool does what the hint of
// the command line says, an agent is told that it is for the command line.
func (r *run) hintOf(f *failure) string {
	switch {
	case !r.env.Tool:
		return f.hint
	case f.tool != nil:
		return *f.tool
	}
	return r.forPeople(f.hint)
}

// errorBody is a failure as JSON shows it.
func (r *run) errorBody(f *failure) errorBody {
	fs := jsonFindings(f.findings)
	for i := range fs {
		if fs[i].Commit != "" { // else the hint is about what is said
			fs[i].Hint = r.forPeople(fs[i].Hint)
		}
	}
	return errorBody{f.code, f.message, r.hintOf(f), fs}
}

// forPeople is a hint for the command line, told to an agent as such.
func (r *run) forPeople(hint string) string {
	if hint == "" || !r.env.Tool {
		return hint
	}
	return "at the command line, in the clone: " + hint
}

func fail(code string, format string, a ...any) *failure {
	exit := 1
	if code == codeRuntime {
		exit = 2
	}
	return &failure{code: code, exit: exit, message: fmt.Sprintf(format, a...)}
}

func usageError(c *cli.Command, format string, a ...any) *failure {
	return fail(codeUsage, format, a...).withHint("rig-bridge %s --help", c.Name).orTool("")
}

// invalid is the failure for findings at error: their first message, and how
// many more there are.
func invalid(fs []finding.Finding) *failure {
	var worst []finding.Finding
	for _, f := range fs {
		if f.Severity == finding.Error {
			worst = append(worst, f)
		}
	}
	first := worst[0]
	e := fail(codeInvalid, "%s [%s]", first.Message, first.Rule)
	if n := len(worst) - 1; n > 0 {
		e.message += fmt.Sprintf(" (and %d more)", n)
	}
	e.hint, e.findings = first.Hint, fs
	if first.Commit == "" { // the hint is about what is said, not about a commit
		e.tool = &e.hint
	}
	return e
}

// asFailure turns any error into one that can be told. An unknown error is a
// failure to decide: exit code 2.
func asFailure(ctx context.Context, err error) *failure {
	var in Interrupt
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &in) {
		f := &failure{code: codeInterruped, exit: in.Code(), message: in.Error()}
		var told *failure
		if errors.As(err, &told) {
			f.hint = told.message
		}
		return f
	}
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return fail(codeRuntime, "%s", err.Error())
}
