//go:build unix

package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// unread returns a channel that is closed when the reader of standard output,
// a pipe or a socket, is gone. Where the system cannot tell it stays open.
func unread() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		fds := []unix.PollFd{{Fd: int32(unix.Stdout)}}
		for {
			_, err := unix.Poll(fds, -1)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err == nil && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
				close(gone)
			}
			return
		}
	}()
	return gone
}
