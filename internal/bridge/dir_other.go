//go:build !unix

package bridge

import (
	"os"
	"path/filepath"
)

// A dirReader reads the files of one directory.
type dirReader struct{ path string }

func openDir(path string, _ []byte) (*dirReader, error) { return &dirReader{path}, nil }

func (d *dirReader) entries() ([]os.DirEntry, error) { return os.ReadDir(d.path) }

func (d *dirReader) close() {}

func (d *dirReader) read(name string, limit int64) ([]byte, error) {
	return readFile(filepath.Join(d.path, name), limit)
}
