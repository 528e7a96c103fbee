//go:build unix

package bundle

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lutimes sets the times of a symlink itself.
func lutimes(dir *os.Root, name string, t time.Time) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	ts := unix.NsecToTimespec(t.UnixNano())
	return unix.UtimesNanoAt(int(f.Fd()), name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}
