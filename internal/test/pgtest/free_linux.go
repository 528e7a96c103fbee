package pgtest

import "golang.org/x/sys/unix"

// free is how many bytes a tmpfs at path has left, 0 if there is none that this process may
// write to.
func free(path string) uint64 {
	var at unix.Statfs_t
	if unix.Statfs(path, &at) != nil || at.Type != unix.TMPFS_MAGIC || unix.Access(path, unix.W_OK|unix.X_OK) != nil {
		return 0
	}
	return at.Bavail * uint64(at.Bsize)
}
