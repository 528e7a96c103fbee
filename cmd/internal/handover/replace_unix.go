//go:build unix

package handover

import "syscall"

// apart are the attributes of a process in a session of its own.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func replace(path string, argv, environ []string) (int, error) {
	return 0, syscall.Exec(path, argv, environ)
}
