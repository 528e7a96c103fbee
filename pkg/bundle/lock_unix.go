//go:build unix

package bundle

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockDir takes the lock of a directory, which the system drops when the
// process ends.
func lockDir(dir, _ string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrBusy
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}
