//go:build unix

package rye

import (
	"io/fs"
	"os"
	"syscall"
)

// machineOwner is the user whose files a machine's store may hold.
var machineOwner = 0

// administrators reports whether nobody but the administrator can change what
// is described: its owner is root, and neither group nor others may write. A
// folder in which only owners may move their files (as /tmp) is no exception.
func administrators(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == machineOwner && info.Mode()&0o022 == 0 && info.Mode()&fs.ModeSymlink == 0
}
