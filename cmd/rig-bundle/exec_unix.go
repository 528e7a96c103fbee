//go:build unix

package main

import "syscall"

// replaceProcess becomes another program; it returns only if it can't.
func replaceProcess(path string, args, environ []string) (int, error) {
	return 0, syscall.Exec(path, args, environ)
}
