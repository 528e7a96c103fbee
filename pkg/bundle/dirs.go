package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/finding"
)

// A LinkError says that a path leads through or to a symlink where none may
// be. Path is relative to the root in question, with slashes.
type LinkError struct{ Path string }

func (e *LinkError) Error() string {
	return finding.QuoteMax(e.Path, 200) + " is a symlink"
}

// ErrNotDir says that a component of a path is no directory.
var ErrNotDir = errors.New("not a directory")

// errBarred says that a path leads to where no bundle has anything to do.
var errBarred = errors.New("the state directory of rig-bundle is not a place for a bundle")

// errNotRegular says that a file is neither a symlink nor a regular file.
var errNotRegular = errors.New("not a regular file")

// Dirs gives access to the tree below a root, and is a [Source]. Names are clean, relative, with
// slashes. Each is reached component by component from handle to handle and
// never through a link, not even one that stays inside. Handles of
// directories are kept open, a bounded number of them, because most work goes
// from neighbour to neighbour. A Dirs is for one goroutine.
type Dirs struct {
	root   *dir
	open   map[string]*dir
	ages   []string // keys of open, oldest first
	pinned *dir     // in use, must stay open
	barred string   // identity of a directory that is not entered, "" for none
}

const maxDirHandles = 64

// OpenDirs opens a directory as a root. The directory itself may be reached
// through links; nothing below it will be.
func OpenDirs(name string) (*Dirs, error) {
	root, err := openTop(name)
	if err != nil {
		return nil, err
	}
	return &Dirs{root: root, open: map[string]*dir{}}, nil
}

// Close closes all handles.
func (d *Dirs) Close() error {
	d.forget()
	return d.root.close()
}

func (d *Dirs) forget() {
	for _, r := range d.open {
		r.close()
	}
	d.open, d.ages = map[string]*dir{}, nil
}

// dir returns the handle of a directory, "." being the root. The error is a
// *LinkError if a component is a symlink, fs.ErrNotExist if one is missing,
// ErrNotDir if one is something else. The handle is valid until the next call.
func (d *Dirs) dir(name string) (*dir, error) {
	if name == "." {
		return d.root, nil
	}
	if r, ok := d.open[name]; ok {
		return r, nil
	}
	parent, base, err := d.at(name)
	if err != nil {
		return nil, err
	}
	r, err := parent.openDir(base)
	if err != nil {
		if isNotDir(err) {
			err = ErrNotDir
			if it, lerr := parent.lstat(base); lerr == nil && it.Kind == KindSymlink {
				return nil, &LinkError{name}
			}
		}
		return nil, pathError("open", name, err)
	}
	if d.barred != "" {
		id, err := r.id()
		if err == nil && id == d.barred {
			err = errBarred
		}
		if err != nil {
			r.close()
			return nil, pathError("open", name, err)
		}
	}
	if len(d.ages) >= maxDirHandles {
		d.dropOldest()
	}
	d.open[name] = r
	d.ages = append(d.ages, name)
	return r, nil
}

func (d *Dirs) dropOldest() {
	for _, name := range d.ages {
		if d.open[name] != d.pinned {
			d.drop(name)
			return
		}
	}
}

func (d *Dirs) drop(name string) {
	if r, ok := d.open[name]; ok {
		r.close()
		delete(d.open, name)
	}
	for i, a := range d.ages {
		if a == name {
			d.ages = append(d.ages[:i], d.ages[i+1:]...)
			break
		}
	}
}

// at returns the handle of name's directory and its last component.
func (d *Dirs) at(name string) (*dir, string, error) {
	if !cleanRel(name) {
		return nil, "", fmt.Errorf("%s is not a path below the root", finding.QuoteMax(name, 200))
	}
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return d.root, name, nil
	}
	r, err := d.dir(name[:i])
	return r, name[i+1:], err
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// do calls fn with the handle of name's directory and its last component.
func (d *Dirs) do(op, name string, fn func(r *dir, base string) error) error {
	r, base, err := d.at(name)
	if err != nil {
		return err
	}
	if err := fn(r, base); err != nil {
		return pathError(op, name, err)
	}
	return nil
}

// Lstat implements Source.
func (d *Dirs) Lstat(name string) (it Item, err error) {
	if name == "." {
		return Item{Name: ".", Kind: KindDir}, nil
	}
	return it, d.do("lstat", name, func(r *dir, base string) (err error) {
		it, err = r.item(base)
		return err
	})
}

// item is lstat with the target of a link.
func (d *dir) item(base string) (Item, error) {
	it, err := d.lstat(base)
	if err == nil && it.Kind == KindSymlink {
		it.Link, err = d.readlink(base)
	}
	return it, err
}

// ReadDir implements Source.
func (d *Dirs) ReadDir(name string) ([]Item, error) {
	r, err := d.dir(name)
	if err != nil {
		return nil, err
	}
	names, err := r.names()
	if err != nil {
		return nil, pathError("read", name, err)
	}
	slices.Sort(names)
	items := make([]Item, len(names))
	for i, base := range names {
		if items[i], err = r.item(base); err != nil {
			return nil, pathError("lstat", join(name, base), err)
		}
	}
	return items, nil
}

// Open opens a regular file for reading. A symlink is a *LinkError; any other
// kind of file is an error, and none is ever opened.
func (d *Dirs) Open(name string) (io.ReadCloser, error) {
	it, err := d.Lstat(name)
	if err != nil {
		return nil, err
	}
	if it.Kind == KindSymlink {
		return nil, &LinkError{name}
	}
	if it.Kind != KindFile {
		return nil, pathError("open", name, errNotRegular)
	}
	return d.openFile(name)
}

// openFile opens a file that was a regular one when it was looked at.
func (d *Dirs) openFile(name string) (f *handle, err error) {
	return f, d.do("open", name, func(r *dir, base string) (err error) {
		f, err = r.open(base)
		return err
	})
}

// MkdirAll makes a directory and its parents with mode 0755, whatever the
// umask, and returns those that were made, outermost first.
func (d *Dirs) MkdirAll(name string) (made []string, err error) {
	if name == "." {
		return nil, nil
	}
	_, err = d.dir(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	made, err = d.MkdirAll(path.Dir(name))
	if err != nil {
		return made, err
	}
	if err := d.mkdir(name, 0o755); err != nil {
		return made, err
	}
	return append(made, name), nil
}

func (d *Dirs) mkdir(name string, mode uint32) error {
	return d.do("mkdir", name, func(r *dir, base string) error { return r.mkdir(base, mode) })
}

// Sub returns a Dirs of its own for a directory. The caller closes it.
func (d *Dirs) Sub(name string) (*Dirs, error) {
	sub := &Dirs{open: map[string]*dir{}}
	err := d.do("open", name, func(r *dir, base string) (err error) {
		sub.root, err = r.openDir(base)
		return err
	})
	if err != nil {
		return nil, err
	}
	return sub, nil
}

// again returns a Dirs of its own for the same root, for another goroutine.
// The caller closes it.
func (d *Dirs) again() (*Dirs, error) {
	r, err := d.root.openDir(".")
	if err != nil {
		return nil, pathError("open", ".", err)
	}
	return &Dirs{root: r, open: map[string]*dir{}, barred: d.barred}, nil
}

// Create makes a new file of exactly this mode, whatever the umask; an
// existing one of any kind is an error.
func (d *Dirs) Create(name string, mode uint32) (io.WriteCloser, error) { return d.create(name, mode) }

func (d *Dirs) create(name string, mode uint32) (f *handle, err error) {
	return f, d.do("create", name, func(r *dir, base string) (err error) {
		f, err = r.create(base, mode)
		return err
	})
}

func (d *Dirs) symlink(target, name string) error {
	return d.do("symlink", name, func(r *dir, base string) error { return r.symlink(target, base) })
}

// Chtimes sets the times of an entry, of a symlink those of the link itself
// where the system can.
func (d *Dirs) Chtimes(name string, t time.Time) error {
	return d.do("chtimes", name, func(r *dir, base string) error { return r.chtimes(base, t) })
}

// WriteFile replaces a file by way of a temporary one beside it; its directory
// is made if it is missing.
func (d *Dirs) WriteFile(name string, mode uint32, content []byte) error {
	return d.WriteFiles([]NewFile{{name, mode, content}})
}

// A NewFile is a file to be written by [Dirs.WriteFiles].
type NewFile struct {
	Name    string
	Mode    uint32
	Content []byte
}

// WriteFiles is WriteFile of files that belong together: the first is put in its place
// when all are written.
func (d *Dirs) WriteFiles(list []NewFile) (err error) {
	temporary := make([]string, 0, len(list))
	var made []string
	defer func() {
		if err != nil {
			for _, name := range slices.Concat(temporary, made) {
				d.Remove(name)
			}
		}
	}()
	for _, n := range list {
		dir := path.Dir(n.Name)
		dirs, err := d.MkdirAll(dir)
		slices.Reverse(dirs)
		if made = append(dirs, made...); err != nil {
			return err
		}
		tmp := path.Join(dir, files.TempPrefix+randomName())
		f, err := d.create(tmp, n.Mode)
		if err != nil {
			return pathError("write", n.Name, cause(err))
		}
		temporary = append(temporary, tmp)
		_, err = f.Write(n.Content)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return pathError("write", n.Name, cause(err))
		}
	}
	for _, n := range list {
		if err := d.rename(temporary[0], n.Name); err != nil {
			return err
		}
		temporary = temporary[1:]
	}
	return nil
}

// cause is what went wrong, without the path at which it did.
func cause(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Remove removes a file, a link or an empty directory.
func (d *Dirs) Remove(name string) error {
	return d.do("remove", name, func(r *dir, base string) error {
		for open := range d.open { // handles of a directory that goes away
			if below := strings.HasPrefix(open, name); below && (len(open) == len(name) || open[len(name)] == '/') {
				d.drop(open)
			}
		}
		return r.remove(base)
	})
}

// removeAll removes an entry and what lies below it, if it is there.
func (d *Dirs) removeAll(name string) error {
	it, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if it.Kind == KindDir {
		r, err := d.dir(name)
		if err != nil {
			return err
		}
		names, err := r.names()
		if err != nil {
			return pathError("read", name, err)
		}
		for _, n := range names {
			if err := d.removeAll(join(name, n)); err != nil {
				return err
			}
		}
	}
	return d.Remove(name)
}

// rename moves an entry.
func (d *Dirs) rename(from, to string) error { return pair("rename", d, from, d, to, (*dir).rename) }

// pair does what takes two names, each below a root of its own. On systems
// without handles of directories both roots are of one tree.
func pair(op string, d *Dirs, from string, e *Dirs, to string, call func(*dir, string, *dir, string) error) error {
	a, base, err := d.at(from)
	if err != nil {
		return err
	}
	d.pinned = a
	b, name, err := e.at(to)
	d.pinned = nil
	if err != nil {
		return err
	}
	if err := call(a, base, b, name); err != nil {
		return pathError(op, to, err)
	}
	return nil
}

// cleanRel reports whether a path is relative, clean and below the root.
func cleanRel(p string) bool {
	return p != "" && p != "." && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../") && path.Clean(p) == p
}
