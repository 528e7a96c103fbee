package rye

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/pkg/bundle"
)

// lookup tells what stands at a path: its item if it is a regular file, else
// one of the codes file-missing, symlink and not-regular-file. A link on the
// way is a symlink too, whatever stands behind it. known remembers what was
// found about folders; it may be nil.
func lookup(t bundle.Source, name string, known map[string]string) (it bundle.Item, code string, err error) {
	for i := 0; i < len(name); i++ {
		if name[i] != '/' {
			continue
		}
		code, seen := known[name[:i]]
		if !seen {
			if code, err = folderAt(t, name[:i]); err != nil {
				return it, "", err
			}
			if known != nil {
				known[name[:i]] = code
			}
		}
		if code != "" {
			return it, code, nil
		}
	}
	it, err = t.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), tooLong(err):
		return it, FileMissing, nil
	case err != nil:
		return it, "", err
	case it.Kind == bundle.KindSymlink:
		return it, SymlinkFound, nil
	case it.Kind != bundle.KindFile:
		return it, NotRegularFile, nil
	}
	return it, "", nil
}

// folderAt is "" for a folder whose parents are folders, symlink for a link,
// else file-missing: nothing can stand below.
func folderAt(t bundle.Source, name string) (code string, err error) {
	it, err := t.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), tooLong(err):
		return FileMissing, nil
	case err != nil:
		return "", err
	case it.Kind == bundle.KindSymlink:
		return SymlinkFound, nil
	case it.Kind != bundle.KindDir:
		return FileMissing, nil
	}
	return "", nil
}

// folderPath is folderAt for a path whose parents were not looked at yet.
func folderPath(t bundle.Source, name string) (code string, err error) {
	for i := 0; i <= len(name) && code == "" && err == nil; i++ {
		if i == len(name) || name[i] == '/' {
			code, err = folderAt(t, name[:i])
		}
	}
	return code, err
}

// readFile returns a regular file, nil if it has more than limit bytes.
func readFile(t bundle.Source, name string, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, nil
	}
	r, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, size, size+1)
	n, err := io.ReadFull(r, data)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return data[:n], nil
	}
	if err != nil {
		return nil, err
	}
	rest, err := io.ReadAll(io.LimitReader(r, limit-size+1))
	if err != nil || int64(len(rest)) > limit-size {
		return nil, err
	}
	return append(data, rest...), nil
}

// OpenStore returns the store of the root at dir for one tier. Unlike a bundle
// it may be reached through links, as people link their home folders together;
// but whatever leads to a place at or below bundleRoot is left out, for a
// bundle cannot vouch for itself. bundleRoot "" leaves out nothing. A dir that
// does not exist is an empty store.
func OpenStore(trust Trust, dir, bundleRoot string) (Store, error) {
	s := &linkedStore{dir: dir}
	if bundleRoot != "" {
		info, err := os.Stat(bundleRoot)
		if err != nil {
			return Store{}, err
		}
		s.without = info
	}
	return Store{Trust: trust, Tree: s}, nil
}

type linkedStore struct {
	dir     string
	without fs.FileInfo // the bundle's root, nil if there is none
}

// resolve returns the real path of name, fs.ErrNotExist if it is in the bundle.
func (s *linkedStore) resolve(name string) (string, error) {
	real, err := filepath.EvalSymlinks(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil || s.without == nil {
		return real, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", err
	}
	for at := real; ; {
		info, err := os.Stat(at)
		if err != nil {
			return "", err
		}
		if os.SameFile(info, s.without) {
			return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		up := filepath.Dir(at)
		if up == at {
			return real, nil
		}
		at = up
	}
}

func (s *linkedStore) Lstat(name string) (bundle.Item, error) {
	real, err := s.resolve(name)
	if err != nil {
		return bundle.Item{}, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return bundle.Item{}, err
	}
	it := bundle.Item{Name: info.Name(), Kind: bundle.KindOther, Size: info.Size()}
	switch {
	case info.IsDir():
		it.Kind = bundle.KindDir
	case info.Mode().IsRegular():
		it.Kind = bundle.KindFile
	}
	return it, nil
}

func (s *linkedStore) Open(name string) (io.ReadCloser, error) {
	real, err := s.resolve(name)
	if err != nil {
		return nil, err
	}
	f, _, err := bundle.OpenFile(real)
	return f, err
}

func (s *linkedStore) ReadDir(name string) ([]bundle.Item, error) {
	real, err := s.resolve(name)
	if err != nil {
		return nil, err
	}
	list, err := os.ReadDir(real)
	if err != nil {
		return nil, err
	}
	items := make([]bundle.Item, 0, len(list))
	for _, e := range list {
		it, err := s.Lstat(name + "/" + e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		it.Name = e.Name()
		items = append(items, it)
	}
	return items, nil
}
