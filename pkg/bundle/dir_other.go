//go:build !unix

package bundle

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// dir is an open directory. All its methods take the name of one entry, work
// relative to the handle, and never follow a link.
type dir struct {
	root *os.Root
	top  *os.Root // root of the whole tree: renames name both paths below it
	path string   // of root below top
}

// openTop opens a directory, which may be reached through links.
func openTop(name string) (*dir, error) {
	r, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &dir{r, r, "."}, nil
}

func (d *dir) close() error { return d.root.Close() }

// openDir opens a directory in this one. os.Root follows links that stay
// inside, so the entry is looked at before and after.
func (d *dir) openDir(base string) (*dir, error) {
	before, err := d.root.Lstat(base)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, ErrNotDir
	}
	r, err := d.root.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	after, err := r.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = ErrNotDir
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return &dir{r, d.top, filepath.Join(d.path, base)}, nil
}

// detach makes the directory outlive the handle that it was opened from.
func (d *dir) detach() { d.top, d.path = d.root, "." }

// sameOwner is for systems on which a directory tells its owner.
func (d *dir) sameOwner(string) (bool, error) { return true, nil }

// ownership is for systems on which a directory tells its owner and modes.
// Elsewhere access rights are handed down from the user's own directory.
func (d *dir) ownership() (own, open bool, err error) { return true, false, nil }

// lstat describes an entry; Link is left out.
func (d *dir) lstat(base string) (Item, error) {
	info, err := d.root.Lstat(base)
	if err != nil {
		return Item{}, err
	}
	it := Item{Name: base, Kind: KindOther}
	switch m := info.Mode(); {
	case m.IsRegular():
		it.Kind, it.Mode, it.Size = KindFile, uint32(m.Perm()), info.Size()
	case m.IsDir():
		it.Kind = KindDir
	case m&fs.ModeSymlink != 0:
		it.Kind = KindSymlink
	}
	return it, nil
}

func (d *dir) readlink(base string) (string, error) { return d.root.Readlink(base) }

// names lists the entries in the order of the system.
func (d *dir) names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// open opens a regular file for reading, errNotRegular if it is another kind.
func (d *dir) open(base string) (*handle, error) {
	before, err := d.root.Lstat(base)
	if err != nil {
		return nil, err
	}
	f, err := d.root.Open(base)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && (!after.Mode().IsRegular() || !os.SameFile(before, after)) {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// create makes a new file of this mode, for reading and writing.
func (d *dir) create(base string, mode uint32) (*handle, error) {
	f, err := d.root.OpenFile(base, os.O_RDWR|os.O_CREATE|os.O_EXCL, fs.FileMode(mode))
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(fs.FileMode(mode)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d *dir) mkdir(base string, mode uint32) error {
	if err := d.root.Mkdir(base, fs.FileMode(mode)); err != nil {
		return err
	}
	return d.root.Chmod(base, fs.FileMode(mode))
}

func (d *dir) remove(base string) error { return d.root.Remove(base) }

func (d *dir) rename(base string, to *dir, name string) error {
	return d.top.Rename(filepath.Join(d.path, base), filepath.Join(to.path, name))
}

func (d *dir) link(base string, to *dir, name string) error {
	return d.top.Link(filepath.Join(d.path, base), filepath.Join(to.path, name))
}

func (d *dir) symlink(target, base string) error { return d.root.Symlink(target, base) }

// chtimes sets the times of an entry. Those of a symlink itself can't be set
// here.
func (d *dir) chtimes(base string, t time.Time) error {
	if info, err := d.root.Lstat(base); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	return d.root.Chtimes(base, t, t)
}

// isNotDir tells the error of a path through something that is no directory.
func isNotDir(err error) bool {
	return errors.Is(err, ErrNotDir) || errors.Is(err, syscall.ENOTDIR)
}

// handle is an open regular file.
type handle = os.File
