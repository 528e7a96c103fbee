package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// Sentinels to be found with errors.Is. Each of them means that the check
// could not be made.
var (
	ErrNotRepository = errors.New("not a git repository")
	ErrNoGit         = errors.New("git not found")
	ErrTooOld        = errors.New("git is too old")
	ErrUnsafe        = errors.New("git refuses the repository's owner")
	ErrQuarantine    = errors.New("pushed objects not readable")
	ErrGrafts        = errors.New("grafts are refused")
	ErrMissing       = errors.New("object not present")
	ErrType          = errors.New("object of another type")
	ErrTooLarge      = errors.New("object too large")
	ErrCut           = errors.New("history is cut")
	ErrDied          = errors.New("git ended")
	ErrInvalid       = errors.New("invalid argument")
)

// An Error says in one sentence why git could not answer, and how to repair
// the cause.
type Error struct {
	Kind    error  // one of the sentinels, or nil
	Message string // one sentence without a final period, untrusted text quoted
	Hint    string // the exact command or line that repairs it, or ""
	Cause   error  // a context's error or an operating system's, or nil
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap makes errors.Is find Kind and Cause.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	return errs
}

// Hint returns the command or line that repairs the cause of err, "" if none
// is known.
func Hint(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

func missing(id ID) error {
	return &Error{Kind: ErrMissing, Message: "object " + id + " is not present", Hint: "git fsck --connectivity-only"}
}

func invalid(what, text string) error {
	return &Error{Kind: ErrInvalid, Message: fmt.Sprintf("%s is not %s", finding.QuoteMax(text, 80), what)}
}

// failure tells how a git process ended, from what it said under LC_ALL=C.
// What git says about a known cause becomes an error with its repair.
func failure(ctx context.Context, what string, stderr []byte, waitErr error) error {
	if err := ctx.Err(); err != nil {
		return &Error{Kind: ErrDied, Cause: context.Cause(ctx), Message: what + " was stopped before it was done: " + stopped(err)}
	}
	text := string(stderr)
	if strings.Contains(text, "dubious ownership") || strings.Contains(text, "safe.directory") {
		e := &Error{Kind: ErrUnsafe, Message: "git refuses this repository because another user owns it"}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "git config --global --add safe.directory ") {
				e.Hint = printableLine(line)
			}
		}
		return e
	}
	if strings.Contains(text, "not a git repository") {
		return &Error{Kind: ErrNotRepository, Message: "no git repository here, or one that git does not read: " + lastLine(text),
			Hint: "go into the repository first: cd DIR"}
	}
	if id := promised(text); id != "" {
		e := missing(id).(*Error)
		e.Message += " in this partial clone, and nothing is fetched during a check"
		e.Hint = "git fetch --refetch --no-filter"
		return e
	}
	if id := unread(text); id != "" {
		return missing(id)
	}
	msg := what + " failed"
	if waitErr != nil {
		msg += " (" + waitErr.Error() + ")"
	}
	if line := lastLine(text); line != "" {
		msg += ": " + line
	}
	return &Error{Kind: ErrDied, Message: msg}
}

func stopped(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "its time was up"
	}
	return "the check was cancelled"
}

// promised returns the id in git's complaint that it may not fetch an object
// which a promisor remote has.
func promised(text string) ID {
	_, rest, ok := strings.Cut(text, "could not fetch ")
	if !ok {
		return ""
	}
	id, _, ok := strings.Cut(rest, " from promisor remote")
	if !ok || !isHex(id) {
		return ""
	}
	return id
}

// unread returns the id in git's complaint about an object that it needs and
// doesn't find.
func unread(text string) ID {
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "error: Could not read "); ok && isHex(id) {
			return id
		}
	}
	return ""
}

// lastLine is the line of git's text that says most: the last fatal one, else
// the last one, quoted and cut.
func lastLine(text string) string {
	var last, fatal string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" {
			last = line
		}
		if strings.HasPrefix(line, "fatal: ") {
			fatal = line
		}
	}
	if fatal != "" {
		last = fatal
	}
	if last == "" {
		return ""
	}
	return finding.QuoteMax(last, 200)
}

func printableLine(line string) string {
	q := finding.Quote(line)
	if q == `"`+line+`"` {
		return line
	}
	return q
}
