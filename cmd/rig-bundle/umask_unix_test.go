//go:build unix

package main

import "syscall"

// umask sets the mask of new files and returns what sets it back.
func umask(mask int) func() {
	old := syscall.Umask(mask)
	return func() { syscall.Umask(old) }
}
