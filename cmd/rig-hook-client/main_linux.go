package main

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/rigward/rigward/internal/resident"
)

// patience is how long a judge has to take a call; then the hook judges by
// itself, which takes no longer than it did without a judge.
var patience = syscall.Timeval{Sec: 2}

// ask lets the judge do the work.
func ask(path string, args []string) (code, what int) {
	if len(args) == 0 {
		return 0, away
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, away
	}
	defer syscall.Close(fd)
	if path == "" {
		path = resident.Socket(os.Getuid())
	}
	for _, opt := range []int{syscall.SO_SNDTIMEO, syscall.SO_RCVTIMEO} {
		if syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, opt, &patience) != nil {
			return 0, away
		}
	}
	if len(path) > 100 || syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}) != nil {
		return 0, away
	}
	// Whoever else listens there could say that everything is clean.
	peer, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil || int(peer.Uid) != os.Getuid() && peer.Uid != 0 {
		return 0, away
	}
	c := resident.Call{Args: args, Environ: os.Environ()}
	var st syscall.Stat_t
	if c.Dir, err = os.Getwd(); err != nil || syscall.Stat(".", &st) != nil {
		return 0, away
	}
	c.Dev, c.Ino = uint64(st.Dev), st.Ino
	c.Umask = syscall.Umask(0)
	syscall.Umask(c.Umask)
	data, err := c.Marshal()
	if err != nil || next(fd) != resident.Ready {
		return 0, away
	}
	// From here on a judge may be at work, which may have told what it found.
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{})
	if err := syscall.Sendmsg(fd, data[:resident.HeaderSize], syscall.UnixRights(0, 1, 2), nil, syscall.MSG_NOSIGNAL); err != nil {
		return 0, away // such as a closed standard input
	}
	for rest := data[resident.HeaderSize:]; len(rest) > 0; {
		n, err := syscall.SendmsgN(fd, rest, nil, nil, syscall.MSG_NOSIGNAL)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, lost
		}
		rest = rest[n:]
	}
	switch next(fd) {
	case resident.Refused:
		return 0, away
	case resident.Verdict:
		if code := next(fd); code >= 0 {
			return code, judged
		}
	}
	return 0, lost
}

// next reads a byte, -1 if none comes.
func next(fd int) int {
	var b [1]byte
	for {
		switch n, err := syscall.Read(fd, b[:]); {
		case err == syscall.EINTR:
		case n == 1:
			return int(b[0])
		default:
			return -1
		}
	}
}

// become replaces this program by rig-hook.
func become(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(filepath.Join(filepath.Dir(self), "rig-hook"), append([]string{"rig-hook"}, args...), os.Environ())
}
