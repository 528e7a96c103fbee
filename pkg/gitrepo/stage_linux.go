package gitrepo

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// statOf returns what the index says of a regular file that is not executable and
// holds exactly data: its times, place, mode, owner and size (gitformat-index(5)).
func statOf(file string, data []byte) (stat []byte, ok bool) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	var before, after unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &before); err != nil || before.Mode&unix.S_IFMT != unix.S_IFREG || before.Mode&0o100 != 0 || before.Size != int64(len(data)) {
		return nil, false
	}
	held, err := io.ReadAll(io.LimitReader(f, before.Size+1))
	if err != nil || !bytes.Equal(held, data) || unix.Lstat(file, &after) != nil {
		return nil, false
	}
	if before.Ino != after.Ino || before.Dev != after.Dev || before.Mtim != after.Mtim || before.Ctim != after.Ctim {
		return nil, false
	}
	for _, n := range []uint32{
		uint32(after.Ctim.Sec), uint32(after.Ctim.Nsec), uint32(after.Mtim.Sec), uint32(after.Mtim.Nsec),
		uint32(after.Dev), uint32(after.Ino), uint32(ModeFile), after.Uid, after.Gid, uint32(after.Size),
	} {
		stat = binary.BigEndian.AppendUint32(stat, n)
	}
	return stat, true
}

// freshened makes an object young, as git does where it has one already.
func freshened(file string) bool {
	now := unix.Timespec{Nsec: unix.UTIME_NOW}
	return unix.UtimesNanoAt(unix.AT_FDCWD, file, []unix.Timespec{now, now}, unix.AT_SYMLINK_NOFOLLOW) == nil
}
