package gitrepo

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize lets git run ahead of the reader. It is the kernel's default limit
// for unprivileged processes (fs.pipe-max-size).
const pipeSize = 1 << 20

// growPipe enlarges a pipe's buffer where it can; a smaller one works too.
func growPipe(r io.Reader) {
	f, ok := r.(*os.File)
	if !ok {
		return
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize)
	})
}
