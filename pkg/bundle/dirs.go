package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// A LinkError says that a path leads through or to a symlink where none may
// be. Path is relative to the root in question, with slashes.
type LinkError struct{ Path string }

func (e *LinkError) Error() string {
	return finding.QuoteMax(e.Path, 200) + " is a symlink"
}

// Dirs hands out handles of the directories below a root. Each is reached
// component by component and never through a link, so that os.Root's habit of
// following links inside the root can't be used. Handles are kept open, a
// bounded number of them, because most work goes from neighbour to neighbour.
// A Dirs is for one goroutine.
type Dirs struct {
	root *os.Root
	open map[string]*os.Root
	ages []string // keys of open, oldest first
}

const maxDirHandles = 64

// NewDirs works below root, which it does not close.
func NewDirs(root *os.Root) *Dirs {
	return &Dirs{root: root, open: map[string]*os.Root{}}
}

// OpenDirs opens a directory as a root. The directory itself may be reached
// through links; nothing below it will be.
func OpenDirs(dir string) (*Dirs, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return NewDirs(root), nil
}

// Root returns the root.
func (d *Dirs) Root() *os.Root { return d.root }

// Close closes all handles and the root.
func (d *Dirs) Close() error {
	d.forget()
	return d.root.Close()
}

func (d *Dirs) forget() {
	for _, r := range d.open {
		r.Close()
	}
	d.open, d.ages = map[string]*os.Root{}, nil
}

// Dir returns the handle of a directory, "." being the root. The error is a
// *LinkError if a component is a symlink, fs.ErrNotExist if one is missing,
// syscall.ENOTDIR or the like if one is something else. The handle is valid
// until the next call.
func (d *Dirs) Dir(dir string) (*os.Root, error) {
	if dir == "." {
		return d.root, nil
	}
	if r, ok := d.open[dir]; ok {
		return r, nil
	}
	parent, err := d.Dir(path.Dir(dir))
	if err != nil {
		return nil, err
	}
	base := path.Base(dir)
	before, err := parent.Lstat(base)
	if err != nil {
		return nil, err
	}
	switch {
	case before.Mode()&fs.ModeSymlink != 0:
		return nil, &LinkError{dir}
	case !before.IsDir():
		return nil, &fs.PathError{Op: "open", Path: dir, Err: ErrNotDir}
	}
	r, err := parent.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	after, err := r.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = &LinkError{dir}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	if len(d.ages) >= maxDirHandles {
		d.drop(d.ages[0])
	}
	d.open[dir] = r
	d.ages = append(d.ages, dir)
	return r, nil
}

// ErrNotDir says that a component of a path is no directory.
var ErrNotDir = errors.New("not a directory")

func (d *Dirs) drop(dir string) {
	if r, ok := d.open[dir]; ok {
		r.Close()
		delete(d.open, dir)
	}
	for i, a := range d.ages {
		if a == dir {
			d.ages = append(d.ages[:i], d.ages[i+1:]...)
			break
		}
	}
}

// at returns the handle of name's directory and its last component.
func (d *Dirs) at(name string) (*os.Root, string, error) {
	r, err := d.Dir(path.Dir(name))
	return r, path.Base(name), err
}

// Lstat describes name itself.
func (d *Dirs) Lstat(name string) (fs.FileInfo, error) {
	r, base, err := d.at(name)
	if err != nil {
		return nil, err
	}
	return r.Lstat(base)
}

// Open opens a regular file for reading. A symlink is a *LinkError; any other
// kind of file is an error, and none is ever opened.
func (d *Dirs) Open(name string) (*os.File, error) {
	r, base, err := d.at(name)
	if err != nil {
		return nil, err
	}
	before, err := r.Lstat(base)
	if err != nil {
		return nil, err
	}
	if before.Mode()&fs.ModeSymlink != 0 {
		return nil, &LinkError{name}
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", finding.QuoteMax(name, 200))
	}
	f, err := r.OpenFile(base, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = fmt.Errorf("%s changed while it was opened", finding.QuoteMax(name, 200))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// MkdirAll makes a directory and its parents with mode 0755, whatever the
// umask, and returns those that were made, outermost first.
func (d *Dirs) MkdirAll(dir string) (made []string, err error) {
	if dir == "." {
		return nil, nil
	}
	_, err = d.Dir(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	made, err = d.MkdirAll(path.Dir(dir))
	if err != nil {
		return made, err
	}
	r, base, err := d.at(dir)
	if err != nil {
		return made, err
	}
	if err := r.Mkdir(base, 0o755); err != nil {
		return made, err
	}
	made = append(made, dir)
	return made, r.Chmod(base, 0o755)
}

// Sub returns a Dirs of its own for a directory. The caller closes it.
func (d *Dirs) Sub(dir string) (*Dirs, error) {
	r, err := d.Dir(dir)
	if err != nil {
		return nil, err
	}
	root, err := r.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	return NewDirs(root), nil
}

// Create makes a new file; an existing one of any kind is an error.
func (d *Dirs) Create(name string, mode uint32) (*os.File, error) {
	r, base, err := d.at(name)
	if err != nil {
		return nil, err
	}
	f, err := r.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(mode))
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(fs.FileMode(mode)); err != nil { // the umask
		f.Close()
		return nil, err
	}
	return f, nil
}

// Remove removes a file, a link or an empty directory.
func (d *Dirs) Remove(name string) error {
	r, base, err := d.at(name)
	if err != nil {
		return err
	}
	for dir := range d.open { // handles of a directory that goes away
		if dir == name || strings.HasPrefix(dir, name+"/") {
			d.drop(dir)
		}
	}
	return r.Remove(base)
}

// cleanRel tells whether a path is relative, clean and below the root.
func cleanRel(p string) bool {
	return p != "" && p != "." && !path.IsAbs(p) && path.Clean(p) == p && p != ".." && !strings.HasPrefix(p, "../")
}
