//go:build !unix

package handover

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// replace runs the program as a child: this system cannot replace a process.
func replace(path string, argv, environ []string) (int, error) {
	cmd := exec.Command(path)
	cmd.Args, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = argv, environ, os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// apart are the attributes of a process that lives on.
func apart() *syscall.SysProcAttr { return nil }
