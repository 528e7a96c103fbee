//go:build !linux

package gitrepo

import "os"

// fileBytes returns the bytes of a file; there is nothing to give back.
func fileBytes(f *os.File, size int) (data []byte, release func([]byte), err error) {
	return readBytes(f, size)
}
