//go:build unix

package history

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockDir waits until nobody else holds the lock of a directory, and takes it.
// The kernel gives it back when the process ends, however it does.
func lockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX)
		if err == nil {
			return func() { _ = d.Close() }, nil
		}
		if !errors.Is(err, unix.EINTR) {
			_ = d.Close()
			return nil, err
		}
	}
}
