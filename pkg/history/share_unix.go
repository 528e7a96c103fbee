//go:build unix

package history

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// share opens a directory that this process made to all who may write to the
// one that it lies in, as git does with its own in a repository that several
// users push to (core.sharedRepository); and made by root, it goes to the owner
// of that one, who runs the hooks. A failure costs time only: whoever cannot
// write the index makes it again.
func share(dir string) {
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return
	}
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer d.Close()
	is, err := d.Stat()
	if err != nil {
		return
	}
	own, ok1 := is.Sys().(*syscall.Stat_t)
	want, ok2 := above.Sys().(*syscall.Stat_t)
	if !ok1 || !ok2 || int(own.Uid) != os.Geteuid() {
		return
	}
	if own.Uid == 0 && want.Uid != 0 {
		_ = d.Chown(int(want.Uid), int(want.Gid))
	}
	const groupWrites = 0o020
	mode := is.Mode()&(fs.ModePerm|fs.ModeSetgid) | above.Mode()&(fs.ModePerm|fs.ModeSetgid)
	if above.Mode()&groupWrites != 0 && mode != is.Mode()&(fs.ModePerm|fs.ModeSetgid) {
		_ = d.Chmod(mode)
	}
}
