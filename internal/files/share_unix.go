//go:build unix

package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Share opens a directory or a file that this process made to all who may write
// to the directory that it lies in, as git does with its own in a repository
// that several users push to (core.sharedRepository); and made by root, it goes
// to the owner of that one, who runs the hooks. A failure is not told: whoever
// cannot write there does without.
func Share(path string) {
	above, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return
	}
	d, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
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
	opens := fs.ModePerm | fs.ModeSetgid
	if !is.IsDir() {
		opens = 0o666
	}
	mode := is.Mode()&(fs.ModePerm|fs.ModeSetgid) | above.Mode()&opens
	if above.Mode()&groupWrites != 0 && mode != is.Mode()&(fs.ModePerm|fs.ModeSetgid) {
		_ = d.Chmod(mode)
	}
}
