//go:build unix

package files

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Open is os.Open for what lies on a disk. That asks the system six times more, whether
// the file is one to be waited for, which takes longer than to open and read it.
func Open(name string) (*os.File, error) {
	for {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), name), nil
		case unix.EINTR:
		default:
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}
