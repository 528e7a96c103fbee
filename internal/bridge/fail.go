package bridge

import (
	"context"
	"errors"
	"fmt"

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
	findings []finding.Finding
	cause    error // for errors.Is, nil if nobody asks
}

func (f *failure) Error() string { return f.message }

func (f *failure) Unwrap() error { return f.cause }

func (f *failure) withHint(format string, a ...any) *failure {
	f.hint = fmt.Sprintf(format, a...)
	return f
}

func fail(code string, format string, a ...any) *failure {
	exit := 1
	if code == codeRuntime {
		exit = 2
	}
	return &failure{code: code, exit: exit, message: fmt.Sprintf(format, a...)}
}

func usageError(c *cli.Command, format string, a ...any) *failure {
	return fail(codeUsage, format, a...).withHint("rig-bridge %s --help", c.Name)
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
