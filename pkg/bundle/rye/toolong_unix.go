//go:build unix

package rye

import (
	"errors"
	"syscall"
)

// tooLong reports whether a name is longer than the file system can hold:
// nothing can stand there.
func tooLong(err error) bool { return errors.Is(err, syscall.ENAMETOOLONG) }
