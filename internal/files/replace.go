// Package files writes, locks and shares the files that several processes
// have at once.
package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/rigward/rigward/pkg/finding"
)

// Replace writes a file as a whole: a reader sees the old bytes or the new, and
// so does whoever reads after a crash. The directory must exist. A link in the
// file's place is replaced, not followed.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return fill(path, mode, func(f *os.File) error {
		_, err := f.Write(data)
		return errors.Join(err, f.Sync())
	})
}

// Swap is Replace that does not wait for the disk: for what can be made again,
// and for what git does not wait for either.
func Swap(path string, data []byte, mode fs.FileMode) error {
	return fill(path, mode, func(f *os.File) error {
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
	if err := isKept(path); err != nil {
		return nil, err
	}
	return Read(path)
}

// OpenKept is Open of what Kept reads. Nobody waits for a pipe in its place.
func OpenKept(path string) (*os.File, error) {
	if err := isKept(path); err != nil {
		return nil, err
	}
	return Open(path)
}

func isKept(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errKept}
	}
	return err
}

// fill is Replace with the bytes that fill writes. If fill fails, the file stays
// as it was.
func fill(path string, mode fs.FileMode, fill func(f *os.File) error) error {
	d, err := NewDraft(path, mode, fill)
	if err != nil {
		return err
	}
	return d.Put()
}

// A Draft is the new content of a file that is written, and not in its place yet. Of
// files that belong together all are written before the first is put in place: a disk
// that is full leaves the old ones.
type Draft struct{ path, tmp string }

// NewDraft writes what fill writes beside a file. Errors name that file.
func NewDraft(path string, mode fs.FileMode, fill func(f *os.File) error) (*Draft, error) {
	f, err := os.CreateTemp(filepath.Dir(path), TempPrefix+"*")
	if err != nil {
		return nil, of(path, err)
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
	if err != nil {
		os.Remove(f.Name())
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) && pe.Path == f.Name() {
			err = of(path, err)
		}
		return nil, err
	}
	return &Draft{path, f.Name()}, nil
}

// Put puts the content in its place.
func (d *Draft) Put() error {
	err := os.Rename(d.tmp, d.path)
	if err != nil {
		d.Drop()
		err = of(d.path, err)
	}
	return err
}

// Drop removes a draft that is not put in its place.
func (d *Draft) Drop() { os.Remove(d.tmp) }

// of is an error of a temporary file, told of the one that is meant.
func of(path string, err error) error {
	return &fs.PathError{Op: "write", Path: path, Err: Cause(err)}
}

// Cause is what an error of a file system says, without the file's name.
func Cause(err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return pe.Err
	case errors.As(err, &le):
		return le.Err
	}
	return err
}

// Output writes a file that the user named: as Replace, but through a link, and into
// what is no file, such as /dev/stdout.
func Output(path string, data []byte) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return os.WriteFile(path, data, 0o644)
	case err == nil:
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return Replace(path, data, 0o644)
}

// TempPrefix begins the names of files that are being written.
const TempPrefix = ".rigward-"

// Temporary reports whether a name is that of a file that was being written when its
// writer was killed.
func Temporary(base string) bool {
	tail, ok := strings.CutPrefix(base, TempPrefix)
	number := strings.Trim(tail, "0123456789") == "" && len(tail) <= 10
	return ok && tail != "" && (number || len(tail) == 32 && strings.Trim(tail, "0123456789abcdef") == "")
}

// Hint is the command that shows why a file could not be written, "" if the error does
// not say that the disk or the rights are in the way.
func Hint(err error) string {
	dir := ""
	var pe *fs.PathError
	if errors.As(err, &pe) && filepath.IsAbs(pe.Path) {
		dir = filepath.Dir(pe.Path)
	}
	return HintAt(err, dir)
}

// HintAt is Hint for what was to be written in a directory, "" if that is not known.
func HintAt(err error, dir string) string {
	if dir != "" {
		dir = " " + finding.Word(dir)
	}
	switch {
	case runtime.GOOS == "windows":
		return ""
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room, and run it again: df -h" + dir + "; df -i" + dir
	case errors.Is(err, syscall.EROFS):
		return "the file system can only be read: df" + dir
	case errors.Is(err, syscall.EFBIG):
		return "no larger file may be written here: ulimit -f"
	case errors.Is(err, fs.ErrPermission) && dir != "":
		return "ls -ld" + dir
	}
	return ""
}
