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

// errKept says that something lies in the place of what is kept that was not put there.
var errKept = errors.New("what is kept lies in a directory of its own, as a file")

// Keep is Swap for what a program only remembers, in a directory that is there for it;
// nothing is written where that is a link.
func Keep(path string, data []byte, mode fs.FileMode) error {
	info, err := os.Lstat(filepath.Dir(path))
	if err == nil && !info.IsDir() {
		err = errKept
	}
	if err != nil {
		return err
	}
	return Swap(path, data, mode)
}

// KeepDir makes the directory for Keep, open to whoever may write to the one above,
// which is there; it is an error if anything else lies in its place, also a link to one.
func KeepDir(dir string) error {
	if os.Mkdir(dir, 0o777) == nil {
		Share(dir)
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = errKept
	}
	return err
}

// Kept reads what Keep has written; it is an error if no file is there, whatever is.
func Kept(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errKept
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
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
