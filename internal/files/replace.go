// Package files writes, locks and shares the files that several processes
// have at once.
package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes a file as a whole: a reader sees the old bytes or the new, and
// so does whoever reads after a crash. The directory must exist. A link in the
// file's place is replaced, not followed.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return Fill(path, mode, func(f *os.File) error {
		_, err := f.Write(data)
		return errors.Join(err, f.Sync())
	})
}

// Swap is Replace that does not wait for the disk: for what can be made again,
// and for what git does not wait for either.
func Swap(path string, data []byte, mode fs.FileMode) error {
	return Fill(path, mode, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Fill is Replace with the bytes that fill writes. If fill fails, the file stays
// as it was.
func Fill(path string, mode fs.FileMode, fill func(f *os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".rigward-*")
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		if err = f.Chmod(mode); errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
