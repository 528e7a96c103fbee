package outbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// setAside takes room of the disk for a file that is to grow. Where the file
// system cannot, records find room as they come.
func setAside(f *os.File, bytes int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, bytes)
}
