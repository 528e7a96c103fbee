//go:build unix

package bundle

import "syscall"

// openNonblock keeps an open from waiting, should a FIFO have taken a file's
// place.
const openNonblock = syscall.O_NONBLOCK
