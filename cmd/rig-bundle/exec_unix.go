//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// replaceProcess becomes another program; it returns only if it can't.
func replaceProcess(path string, args, environ []string) (int, error) {
	return 0, syscall.Exec(path, args, environ)
}

// rigPrograms are the names under which the rig program is looked for.
var rigPrograms = []string{"rig"}

func runnable(info fs.FileInfo) bool { return info.Mode()&0o111 != 0 }
