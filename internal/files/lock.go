package files

import (
	"errors"
	"os"
)

// ErrLocked says that another process has the lock.
var ErrLocked = errors.New("locked by another process")

// Lock waits until nobody else has the lock of an open file or directory, and
// takes it. The kernel gives it back when the process ends, however it does, and
// all children that have inherited the file.
func Lock(f *os.File) error { return lock(f, true) }

// TryLock takes the lock of an open file, or returns ErrLocked at once.
func TryLock(f *os.File) error { return lock(f, false) }
