//go:build unix

package gitrepo

import (
	"os"
	"os/exec"
	"syscall"
)

func terminate() os.Signal { return syscall.SIGTERM }

// hold lets the child inherit f.
func hold(cmd *exec.Cmd, f *os.File) { cmd.ExtraFiles = append(cmd.ExtraFiles, f) }
