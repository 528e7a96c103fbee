package rye

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// OpenMachineStore is [OpenStore] for the store of this machine, which its
// administrator keeps: it counts only if nobody else could have written it. So
// the folder, every folder above it and every folder and file of the store must
// belong to the administrator and be writable by nobody else; a fault says what
// is not, and the store is then empty.
func OpenMachineStore(dir, bundleRoot string) (Store, *bundle.Finding, error) {
	s, err := OpenStore(TrustMachine, dir, bundleRoot)
	if err != nil || dir == "" {
		return s, nil, err
	}
	fault, err := foreignWriter(dir)
	if err != nil || fault != nil {
		s.Tree = &linkedStore{dir: filepath.Join(dir, "not trusted")}
	}
	return s, fault, err
}

// machineTop is the folder up to which folders are looked at, "" for all.
var machineTop = ""

// foreignWriter names what of a machine's store somebody else could change.
func foreignWriter(dir string) (*bundle.Finding, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // an empty store
	}
	if err != nil {
		return nil, err
	}
	look := func(p string) (*bundle.Finding, error) {
		info, err := os.Lstat(p)
		if err != nil || administrators(info) {
			return nil, err
		}
		f := bundle.Faultf(KeyInvalid, "", "the trust store of this machine does not count: somebody else than its administrator can change %s", finding.Path(p))
		f.Hint = "chown root " + finding.Path(p) + " && chmod go-w " + finding.Path(p)
		return f, nil
	}
	for at := real; ; at = filepath.Dir(at) {
		if f, err := look(at); f != nil || err != nil {
			return f, err
		}
		if at == machineTop || at == filepath.Dir(at) {
			break
		}
	}
	for _, folder := range keyFolders {
		p := filepath.Join(real, filepath.FromSlash(folder))
		var found *bundle.Finding
		err := filepath.WalkDir(p, func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				found, err = look(p)
			}
			if found != nil {
				return fs.SkipAll
			}
			return err
		})
		if found != nil || err != nil {
			return found, err
		}
		for at := filepath.Dir(p); at != real; at = filepath.Dir(at) {
			f, err := look(at)
			if f != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
	}
	return nil, nil
}
