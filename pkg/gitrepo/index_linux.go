package gitrepo

import (
	"os"

	"golang.org/x/sys/unix"
)

// fileBytes returns the bytes of a file and what gives them back, nil where nothing
// is to be done for that. A large file is mapped, as git does it: a page of it that
// nobody looks at costs nothing.
func fileBytes(f *os.File, size int) (data []byte, release func([]byte), err error) {
	const large = 64 << 10
	if size < large {
		return readBytes(f, size)
	}
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE)
	return data, func(data []byte) { _ = unix.Munmap(data) }, err
}
