//go:build unix

package bridge

import "syscall"

// openNoFollow makes open fail on a link, and not wait on a pipe.
const openNoFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
