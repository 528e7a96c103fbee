package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"time"

	"github.com/rigward/rigward/pkg/finding"
)

// Extract writes an accepted archive below an empty directory: directories
// first, files created exclusively with mode 0644 or 0755, hard links as
// copies, symlinks last. Nothing is written through a link or outside the
// directory. The caller has judged the tree with [CheckTree] and all links. at is
// the time of everything that is written.
func (a *Archive) Extract(ctx context.Context, d *Dirs, at time.Time) error {
	var dirs []string
	for i := range a.Members {
		m := &a.Members[i]
		dir := path.Dir(m.Name)
		if m.Type == Dir {
			dir = m.Name
		}
		made, err := d.MkdirAll(dir)
		if err != nil {
			return err
		}
		dirs = append(dirs, made...)
	}
	copies := map[string][]string{} // file to the hard links that name it
	for i := range a.Members {
		if m := &a.Members[i]; m.Type == Hardlink {
			copies[m.Link] = append(copies[m.Link], m.Name)
		}
	}
	buf := make([]byte, 64<<10)
	err := a.Walk(ctx, func(m *Member, r io.Reader) error {
		if m.Type != File {
			return nil
		}
		return writeFiles(d, append([]string{m.Name}, copies[m.Name]...), m.Mode, r, buf)
	})
	if err != nil {
		return err
	}
	for i := range a.Members {
		m := &a.Members[i]
		if m.Type != Symlink {
			continue
		}
		if err := d.symlink(filepath.FromSlash(m.Link), m.Name); err != nil {
			return err
		}
	}
	for i := range a.Members {
		m := &a.Members[i]
		if m.Type == Dir {
			continue
		}
		if err := d.Chtimes(m.Name, at); err != nil {
			return err
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := d.Chtimes(dirs[i], at); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes one content to several new files.
func writeFiles(d *Dirs, names []string, mode uint32, r io.Reader, buf []byte) (err error) {
	var files []io.Writer
	defer func() {
		for _, f := range files {
			if cerr := f.(io.Closer).Close(); err == nil {
				err = cerr
			}
		}
	}()
	for _, n := range names {
		f, err := d.Create(n, mode)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var w io.Writer
	switch len(files) {
	case 1:
		w = files[0]
	default:
		w = io.MultiWriter(files...)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, r, buf)
	return err
}

// NewTree makes a directory that does not exist yet, or is empty: a sibling is
// filled, and a rename puts it in place. An error leaves nothing behind. The
// sibling is filled by its handle: whoever replaces it meanwhile changes where
// the name leads, not what is written.
func NewTree(dir string, fill func(d *Dirs) error) (err error) {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s is not empty", finding.QuoteMax(dir, 200))
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	dir = filepath.Clean(dir)
	parent, err := OpenDirs(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	base, tmp := filepath.Base(dir), ".rigward-"+randomName()
	if err := parent.mkdir(tmp, 0o755); err != nil {
		return err
	}
	d, err := parent.Sub(tmp)
	if err != nil {
		return err
	}
	defer func() {
		d.Close()
		if err != nil {
			parent.removeAll(tmp)
		}
	}()
	if err := fill(d); err != nil {
		return err
	}
	id, err := d.root.id()
	if err != nil {
		return err
	}
	if it, err := parent.Lstat(base); err == nil && it.Kind == KindDir { // a rename does not replace even an empty one everywhere
		if err := parent.Remove(base); err != nil {
			return err
		}
	}
	if runtime.GOOS == "windows" { // which renames no directory that is open
		if err := d.Close(); err != nil {
			return err
		}
	}
	if err := parent.rename(tmp, base); err != nil {
		return err
	}
	now, err := parent.dir(base)
	if err != nil {
		return err
	}
	if is, err := now.id(); err != nil || is != id {
		return cmpErr(err, fmt.Errorf("%s was replaced by somebody else", finding.QuoteMax(dir, 200)))
	}
	return nil
}
