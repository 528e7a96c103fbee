package policy

import (
	"errors"

	"github.com/rigward/rigward/pkg/gitrepo"
)

// An Undecided says why no decision is possible, and what repairs that.
type Undecided struct {
	Message string
	Hint    string
	Cause   error
}

func (e *Undecided) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Undecided) Unwrap() error { return e.Cause }

// HintOf returns the command that repairs what err tells, "" if none is known.
func HintOf(err error) string {
	var u *Undecided
	if errors.As(err, &u) && u.Hint != "" {
		return u.Hint
	}
	return gitrepo.Hint(err)
}

// UnlessUndecided returns err, or nil if it is an Undecided.
func UnlessUndecided(err error) error {
	if u := (*Undecided)(nil); errors.As(err, &u) {
		return nil
	}
	return err
}
