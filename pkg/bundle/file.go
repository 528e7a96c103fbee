package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/pkg/finding"
)

// OpenFile opens a bundle file for reading and returns it with its size. Only
// a regular file is taken; nothing else is opened.
func OpenFile(name string) (*os.File, int64, error) {
	before, err := os.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !before.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", finding.QuoteMax(name, 200))
	}
	f, err := os.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", finding.QuoteMax(name, 200))
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// WriteFile writes a file through a temporary file beside it and a rename, so
// that name is the old file or the whole new one. If check is set it judges
// the temporary file before the rename; its error leaves nothing behind.
func WriteFile(name string, mode os.FileMode, write func(io.Writer) error, check func(f *os.File, size int64) error) (err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, ".rigward-*")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the directory %s does not exist", finding.QuoteMax(dir, 200))
	}
	if err != nil {
		return err
	}
	tmp := f.Name()
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(tmp)
		}
	}()
	out := bufio.NewWriterSize(f, 256<<10) // compressors write in small pieces
	if err := write(out); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if check != nil {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if err := check(f, info.Size()); err != nil {
			return err
		}
	}
	if err := f.Chmod(mode); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}
