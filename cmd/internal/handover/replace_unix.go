//go:build unix

package handover

import "syscall"

func replace(path string, argv, environ []string) (int, error) {
	return 0, syscall.Exec(path, argv, environ)
}
