//go:build unix

package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dir is an open directory. All its methods take the name of one entry, work
// relative to the handle, and never follow a link. They call the system
// directly: a file of package os costs half as many calls again, which is what
// work on 20,000 small files consists of.
type dir struct {
	fd    int
	exact map[uint32]bool // modes that a new file has here without a chmod
}

// openTop opens a directory, which may be reached through links.
func openTop(name string) (*dir, error) {
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &dir{fd: fd}, nil
}

func (d *dir) close() error { return unix.Close(d.fd) }

// openDir opens a directory in this one.
func (d *dir) openDir(base string) (*dir, error) {
	fd, err := d.openat(base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &dir{fd: fd}, nil
}

func (d *dir) openat(base string, flags int, mode uint32) (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Openat(d.fd, base, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// again repeats a call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

// detach makes the directory outlive the handle that it was opened from.
func (d *dir) detach() {}

// id names the directory among all of the machine, by device and inode.
func (d *dir) id() (string, error) {
	st, err := d.stat()
	return fmt.Sprintf("%x-%x", st.Dev, st.Ino), err
}

func (d *dir) stat() (st unix.Stat_t, err error) {
	err = again(func() error { return unix.Fstat(d.fd, &st) })
	return st, err
}

// ownership reports whether the directory belongs to the user of this process,
// and whether it is open to anybody else.
func (d *dir) ownership() (own, open bool, err error) {
	st, err := d.stat()
	return int(st.Uid) == os.Geteuid(), st.Mode&0o077 != 0, err
}

// sameOwner reports whether the directory and an entry of it belong to one
// user. An entry that was just made tells who this process is for this file
// system, which may number users as it likes.
func (d *dir) sameOwner(base string) (bool, error) {
	st, err := d.stat()
	if err != nil {
		return false, err
	}
	var in unix.Stat_t
	err = again(func() error { return unix.Fstatat(d.fd, base, &in, unix.AT_SYMLINK_NOFOLLOW) })
	return st.Uid == in.Uid, err
}

// lock takes the lock of the directory, which the system drops when the
// process ends.
func (d *dir) lock() (unlock func(), err error) {
	fd, err := d.openat(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err := again(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrBusy
		}
		return nil, err
	}
	return func() { unix.Close(fd) }, nil
}

// lstat describes an entry; Link is left out.
func (d *dir) lstat(base string) (Item, error) {
	var st unix.Stat_t
	err := again(func() error { return unix.Fstatat(d.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return Item{}, err
	}
	it := Item{Name: base, Kind: KindOther}
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFREG:
		it.Kind, it.Mode, it.Size = KindFile, uint32(st.Mode)&0o7777, st.Size
	case unix.S_IFDIR:
		it.Kind = KindDir
	case unix.S_IFLNK:
		it.Kind = KindSymlink
	}
	return it, nil
}

func (d *dir) readlink(base string) (string, error) {
	b := make([]byte, 4096)
	for {
		n, err := unix.Readlinkat(d.fd, base, b)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return "", err
		case n < len(b):
			return string(b[:n]), nil
		default:
			b = make([]byte, 2*len(b))
		}
	}
}

// names lists the entries in the order of the system.
func (d *dir) names() ([]string, error) {
	fd, err := d.openat(".", unix.O_RDONLY|unix.O_DIRECTORY, 0) // a place of its own in the list
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	return f.Readdirnames(-1)
}

// open opens a regular file for reading, errNotRegular if it is another kind.
// A FIFO that takes the file's place does not make it wait.
func (d *dir) open(base string) (*handle, error) {
	fd, err := d.openat(base, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = again(func() error { return unix.Fstat(fd, &st) })
	if err == nil && uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG {
		err = errNotRegular
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &handle{fd, base}, nil
}

// create makes a new file of exactly this mode, for reading and writing.
func (d *dir) create(base string, mode uint32) (*handle, error) {
	fd, err := d.openat(base, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	if !d.exact[mode] { // the umask, or a list of access rights that the directory hands down
		var st unix.Stat_t
		if err = again(func() error { return unix.Fstat(fd, &st) }); err == nil {
			if uint32(st.Mode)&0o7777 == mode {
				if d.exact == nil {
					d.exact = map[uint32]bool{}
				}
				d.exact[mode] = true
			} else {
				err = again(func() error { return unix.Fchmod(fd, mode) })
			}
		}
		if err != nil {
			unix.Close(fd)
			return nil, err
		}
	}
	return &handle{fd, base}, nil
}

func (d *dir) mkdir(base string, mode uint32) error {
	err := again(func() error { return unix.Mkdirat(d.fd, base, mode) })
	if err != nil {
		return err
	}
	sub, err := d.openDir(base)
	if err != nil {
		return err
	}
	defer sub.close()
	return again(func() error { return unix.Fchmod(sub.fd, mode) })
}

func (d *dir) remove(base string) error {
	err := again(func() error { return unix.Unlinkat(d.fd, base, 0) })
	if err == nil {
		return nil
	}
	derr := again(func() error { return unix.Unlinkat(d.fd, base, unix.AT_REMOVEDIR) })
	if derr == nil || derr != unix.ENOTDIR { // the error of the call that fits
		return derr
	}
	return err
}

func (d *dir) rename(base string, to *dir, name string) error {
	return again(func() error { return unix.Renameat(d.fd, base, to.fd, name) })
}

func (d *dir) link(base string, to *dir, name string) error {
	return again(func() error { return unix.Linkat(d.fd, base, to.fd, name, 0) })
}

func (d *dir) symlink(target, base string) error {
	return again(func() error { return unix.Symlinkat(target, d.fd, base) })
}

// chtimes sets the times of an entry, of a symlink those of the link itself.
func (d *dir) chtimes(base string, t time.Time) error {
	ts := unix.NsecToTimespec(t.UnixNano())
	return again(func() error {
		return unix.UtimesNanoAt(d.fd, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// isNotDir tells the error of a path through something that is no directory,
// and that of opening a link as one.
func isNotDir(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EMLINK)
}

// handle is an open regular file.
type handle struct {
	fd   int
	name string
}

func (h *handle) fail(op string, err error) error {
	return &fs.PathError{Op: op, Path: h.name, Err: err}
}

// Read implements io.Reader.
func (h *handle) Read(p []byte) (int, error) {
	return h.read(p, func(p []byte) (int, error) { return unix.Read(h.fd, p) })
}

// ReadAt implements io.ReaderAt.
func (h *handle) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = h.read(p[n:], func(p []byte) (int, error) { return unix.Pread(h.fd, p, off+int64(n)) })
		n += m
	}
	return n, err
}

func (h *handle) read(p []byte, call func([]byte) (int, error)) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch n, err := call(p[:min(len(p), maxTransfer)]); {
		case err == syscall.EINTR:
		case err != nil:
			return 0, h.fail("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// maxTransfer is what some systems move in one call.
const maxTransfer = 1 << 30

// Write implements io.Writer.
func (h *handle) Write(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := unix.Write(h.fd, p[n:min(len(p), n+maxTransfer)])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return n, h.fail("write", err)
		}
		n += m
	}
	return n, nil
}

// Sync writes the file through to the disk.
func (h *handle) Sync() error {
	if err := again(func() error { return unix.Fsync(h.fd) }); err != nil {
		return h.fail("sync", err)
	}
	return nil
}

// Close implements io.Closer.
func (h *handle) Close() error {
	if err := unix.Close(h.fd); err != nil && err != syscall.EINTR {
		return h.fail("close", err)
	}
	return nil
}
