//go:build unix

package bridge

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rigward/rigward/internal/files"
)

// A dirReader reads the files of one directory relative to it, so that the
// directory cannot be replaced by a link in between, and with as few system
// calls as that takes.
type dirReader struct {
	f   *os.File
	buf []byte
}

func openDir(path string, buf []byte) (*dirReader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|files.NoFollow, 0)
	if err != nil {
		return nil, err
	}
	return &dirReader{f: f, buf: buf}, nil
}

func (d *dirReader) entries() ([]os.DirEntry, error) { return d.f.ReadDir(-1) }

func (d *dirReader) close() { d.f.Close() }

// read returns the bytes of a regular file; they hold until the next read.
// Larger files than the buffer take the long way.
func (d *dirReader) read(name string, limit int64) ([]byte, error) {
	fd, err := ignoreInterrupts(func() (int, error) {
		return unix.Openat(int(d.f.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC|files.NoFollow, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	n, err := ignoreInterrupts(func() (int, error) { return unix.Read(fd, d.buf) })
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	if n < len(d.buf) {
		return d.buf[:n], nil // a regular file is read short only at its end
	}
	return readFile(filepath.Join(d.f.Name(), name), limit)
}

func ignoreInterrupts(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
