package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/rigward/rigward/internal/files"
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
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // should a FIFO have taken its place
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
func WriteFile(name string, mode os.FileMode, write func(io.Writer) error, check func(f *os.File, size int64) error, beside ...Beside) error {
	return replace(name, mode, func(f *os.File) error {
		if err := buffered(f, write); err != nil || check == nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return check(f, info.Size())
	}, beside...)
}

// Beside is a file that belongs to the one that is written and has its name with a tail
// behind it. It is asked for when that one is judged, and both are written before either
// is put in its place.
type Beside func() (tail string, data []byte)

// WriteBytes is WriteFile with the content at hand.
func WriteBytes(name string, mode os.FileMode, data []byte) error {
	return replace(name, mode, func(f *os.File) error { _, err := f.Write(data); return err })
}

// ReplaceFile gives a file new content and keeps its mode.
func ReplaceFile(name string, data []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return WriteBytes(name, info.Mode().Perm(), data)
}

// ReadBeside reads the digest or signature file of a bundle: nil if there is
// none, and no content if it is not a file. At most a byte more is read than
// either may have.
func ReadBeside(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return []byte{}, nil
	}
	f, _, err := OpenFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxChecksum+1))
}

// WriteWatched is WriteFile with a check that reads the temporary file while
// it is written: a read waits for bytes that are not there yet. The size is
// not known, see [Scan]. What write did happened before the check reads the
// end of the file.
func WriteWatched(name string, mode os.FileMode, write func(io.Writer) error, check func(f io.ReaderAt) error, beside ...Beside) error {
	return replace(name, mode, func(f *os.File) error {
		g := &growing{f: f}
		g.more.L = &g.mu
		checked := make(chan error, 1)
		go func() { checked <- check(g) }()
		p := startPipe(g) // a compressor does not wait for the file
		err := buffered(p, write)
		if perr := p.Close(); perr != nil {
			err = perr
		}
		g.end(err)
		return cmpErr(err, <-checked)
	}, beside...)
}

// buffered gathers what compressors write in small pieces.
func buffered(w io.Writer, write func(io.Writer) error) error {
	out := bufio.NewWriterSize(w, 64<<10)
	if err := write(out); err != nil {
		return err
	}
	return out.Flush()
}

// Scratch makes a temporary file in dir, "" for the system's directory; done closes and removes it.
func Scratch(dir string) (f *os.File, done func(), err error) {
	f, err = os.CreateTemp(dir, files.TempPrefix+"*")
	if err != nil {
		return nil, nil, err
	}
	return f, func() {
		f.Close()
		os.Remove(f.Name())
	}, nil
}

// A MissingDirError says that the directory of a file to be written does not
// exist.
type MissingDirError struct{ Dir string }

func (e *MissingDirError) Error() string {
	return "the directory " + finding.QuoteMax(e.Dir, 200) + " does not exist"
}

func replace(name string, mode os.FileMode, fill func(f *os.File) error, beside ...Beside) error {
	if dir := filepath.Dir(name); !isDir(dir) {
		return &MissingDirError{dir}
	}
	d, err := files.NewDraft(name, mode, fill)
	if err != nil {
		return err
	}
	drafts := []*files.Draft{d}
	for _, b := range beside {
		tail, data := b()
		d, err := files.NewDraft(name+tail, mode, func(f *os.File) error { _, err := f.Write(data); return err })
		if err != nil {
			for _, d := range drafts {
				d.Drop()
			}
			return err
		}
		drafts = append(drafts, d)
	}
	for i, d := range drafts {
		if err := d.Put(); err != nil {
			for _, d := range drafts[i+1:] {
				d.Drop()
			}
			return err
		}
	}
	return nil
}

func isDir(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// growing is a file that one goroutine writes while another one reads it.
type growing struct {
	f    *os.File
	mu   sync.Mutex
	more sync.Cond
	size int64 // bytes written
	done bool  // nothing more will come
	err  error // why not
}

// Write implements io.Writer.
func (g *growing) Write(p []byte) (int, error) {
	n, err := g.f.Write(p)
	g.mu.Lock()
	g.size += int64(n)
	g.mu.Unlock()
	g.more.Broadcast()
	return n, err
}

// end tells the reader that nothing more will come.
func (g *growing) end(err error) {
	g.mu.Lock()
	g.done, g.err = true, err
	g.mu.Unlock()
	g.more.Broadcast()
}

// ReadAt implements io.ReaderAt.
func (g *growing) ReadAt(p []byte, off int64) (int, error) {
	g.mu.Lock()
	for !g.done && g.size < off+int64(len(p)) {
		g.more.Wait()
	}
	err := g.err
	g.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return g.f.ReadAt(p, off)
}
