//go:build unix

package attest

import (
	"os/exec"
	"syscall"
)

// apart puts a command into a process group of its own, which killAll ends.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killAll(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
