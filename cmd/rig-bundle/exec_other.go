//go:build !unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
)

// replaceProcess runs another program in this one's place and returns its exit
// status: this system can't replace a process.
func replaceProcess(path string, args, environ []string) (int, error) {
	cmd := exec.Command(path, args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// rigPrograms are the names under which the rig program is looked for.
var rigPrograms = []string{"rig.exe", "rig.cmd", "rig"}

func runnable(fs.FileInfo) bool { return true }
