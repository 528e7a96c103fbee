//go:build unix

package bridge

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// openNoFollow makes open fail on a link, and not wait on a pipe.
const openNoFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// A dirReader reads the files of one directory relative to it, so that the
// directory cannot be replaced by a link in between, and with as few system
// calls as that takes.
type dirReader struct {
	f   *os.File
	buf []byte
	id  []byte // scratch of identity
}

func openDir(path string, buf []byte) (*dirReader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|openNoFollow, 0)
	if err != nil {
		return nil, err
	}
	return &dirReader{f: f, buf: buf}, nil
}

func (d *dirReader) entries() ([]os.DirEntry, error) { return d.f.ReadDir(-1) }

func (d *dirReader) close() { d.f.Close() }

// identity is the digest by which the status cache knows a regular file: of its
// path and of what stat says of it. ok is false if it is none, or if it changed
// after since.
func (d *dirReader) identity(thread, name string, since time.Time) (key cacheKey, ok bool) {
	var st unix.Stat_t
	_, err := ignoreInterrupts(func() (int, error) {
		return 0, unix.Fstatat(int(d.f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return cacheKey{}, false
	}
	msec, mnsec := st.Mtim.Unix()
	csec, cnsec := st.Ctim.Unix()
	if !time.Unix(msec, mnsec).Before(since) || !time.Unix(csec, cnsec).Before(since) {
		return cacheKey{}, false
	}
	d.id = append(d.id[:0], cacheMagic...)
	d.id = append(append(append(d.id, thread...), '/'), name...)
	for _, n := range [...]uint64{0, uint64(st.Dev), uint64(st.Ino), uint64(st.Size), uint64(msec), uint64(mnsec), uint64(csec), uint64(cnsec)} {
		d.id = binary.BigEndian.AppendUint64(d.id, n)
	}
	sum := sha256.Sum256(d.id)
	return cacheKey(sum[:len(cacheKey{})]), true
}

// read returns the bytes of a regular file; they hold until the next read.
// Larger files than the buffer take the long way.
func (d *dirReader) read(name string, limit int64) ([]byte, error) {
	fd, err := ignoreInterrupts(func() (int, error) {
		return unix.Openat(int(d.f.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC|openNoFollow, 0)
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
