//go:build !unix

package gitrepo

import (
	"os"
	"os/exec"
)

func terminate() os.Signal { return os.Kill }

// hold does nothing: children inherit no files here.
func hold(*exec.Cmd, *os.File) {}
