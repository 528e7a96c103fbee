package bundle

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// A StateError says why a directory cannot hold what runs keep for later ones.
type StateError struct {
	Dir  string
	Why  string
	Hint string // what repairs it
}

func (e *StateError) Error() string {
	if e.Dir == "" {
		return "there is no state directory, in which this user's runs keep what later ones believe"
	}
	return "the state directory " + finding.QuoteMax(e.Dir, 200) + " " + e.Why
}

// OpenState opens a directory in which the runs of one user keep what later
// runs believe: journals and records of what they installed or built. It is
// made with mode 0700 if it is missing. It must be no link, belong to the user
// and be closed to everybody else; another one is a *StateError. Its parents
// may be reached through links.
func OpenState(dir string) (*Dirs, error) {
	if dir == "" {
		return nil, &StateError{}
	}
	parent, base := filepath.Split(filepath.Clean(dir))
	if err := os.MkdirAll(filepath.Clean(parent), 0o700); err != nil {
		return nil, err
	}
	return openState(parent, base, true)
}

// peekState is OpenState without making anything: nil if there is none.
func peekState(dir string) (*Dirs, error) {
	if dir == "" {
		return nil, &StateError{}
	}
	parent, base := filepath.Split(filepath.Clean(dir))
	d, err := openState(parent, base, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return d, err
}

func openState(parent, base string, make bool) (*Dirs, error) {
	name := filepath.Join(parent, base)
	top, err := openTop(filepath.Clean(parent))
	if err != nil {
		return nil, err
	}
	defer top.close()
	if make {
		if err := top.mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, &fs.PathError{Op: "mkdir", Path: name, Err: err}
		}
	}
	d, err := top.openDir(base)
	if isNotDir(err) {
		return nil, &StateError{Dir: name, Why: "is a link or no directory", Hint: "ls -ld " + finding.Path(name)}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	own, open, err := d.ownership()
	switch {
	case err != nil:
	case !own:
		err = &StateError{Dir: name, Why: "belongs to another user", Hint: "XDG_STATE_HOME=DIR names a directory of your own"}
	case open:
		err = &StateError{Dir: name, Why: "is open to other users", Hint: "chmod 700 " + finding.Path(name)}
	}
	if err != nil {
		d.close()
		return nil, err
	}
	d.detach()
	return &Dirs{root: d, open: map[string]*dir{}}, nil
}

// maxSmallState bounds what ReadState reads.
const maxSmallState = 1 << 20

// ReadState returns a small file below a state directory, nil if there is none.
func ReadState(dir, name string) ([]byte, error) {
	d, err := peekState(dir)
	if err != nil || d == nil {
		return nil, err
	}
	defer d.Close()
	return readState(d, name, maxSmallState)
}

// WriteState replaces a file below a state directory, which is made if it is
// missing.
func WriteState(dir, name string, b []byte) error {
	d, err := OpenState(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return inState(dir, writeState(d, name, b, false))
}

// readState returns a file below a state directory, nil if there is none.
func readState(d *Dirs, name string, limit int64) ([]byte, error) {
	f, err := d.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s in the state directory is over %d bytes", finding.QuoteMax(name, 200), limit)
	}
	if b == nil {
		b = []byte{}
	}
	return b, err
}

// inState is an error about a file below a state directory, with its whole path.
func inState(dir string, err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) && !filepath.IsAbs(pe.Path) {
		err = &fs.PathError{Op: pe.Op, Path: filepath.Join(dir, filepath.FromSlash(strings.TrimSuffix(pe.Path, ".tmp"))), Err: pe.Err}
	}
	return err
}

// writeState replaces a file below a state directory, and makes the
// directories on the way. With sync it is on the disk when this returns.
func writeState(d *Dirs, name string, b []byte, sync bool) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if err := d.mkdir(name[:i], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	tmp := name + ".tmp"
	if err := d.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.create(tmp, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		d.Remove(tmp) // what is half there only takes room
		return pathError("write", name, cause(err))
	}
	return d.rename(tmp, name)
}

// randomName returns 32 hex digits that nobody can foresee.
func randomName() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
