package rye

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
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

// tooLong reports whether a name is longer than the file system can hold:
// nothing of that name can be there.
func tooLong(err error) bool { return errors.Is(err, syscall.ENAMETOOLONG) }

// tooLarge is the fault of a file that is over the limit.
func tooLarge(p string) *bundle.Finding {
	return bundle.Faultf(LimitExceeded, p, "the file has more than %d bytes", MaxFile)
}

// at gives findings that name no path one, and returns them.
func at(p string, faults ...*bundle.Finding) []*bundle.Finding {
	for _, f := range faults {
		if f != nil && f.Path == "" {
			f.Path = p
		}
	}
	return faults
}

// load reads the regular file at a path; code is why it cannot, limit-exceeded
// for one of more than limit bytes.
func load(t bundle.Source, p string, limit int64, known map[string]string) (data []byte, code string, err error) {
	it, code, err := lookup(t, p, known)
	if code != "" || err != nil {
		return nil, code, err
	}
	if data, err = readFile(t, p, it.Size, limit); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", finding.Path(p), err)
	}
	if data == nil {
		code = LimitExceeded
	}
	return data, code, nil
}
