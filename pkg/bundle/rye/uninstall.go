package rye

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// An UninstallResult is the outcome of Uninstall.
type UninstallResult struct {
	bundle.Result
	Status       string   `json:"status"` // "uninstalled" or "refused"
	ID           string   `json:"bundle_id"`
	FilesRemoved int      `json:"files_removed"`
	FilesKept    []string `json:"files_kept"` // changed since: they are the user's now
}

// Uninstall removes an installed bundle from a space: the files that are still
// as they were installed, empty folders, manifest and lockfile. One fault in the
// lockfile's paths, and nothing is removed.
func Uninstall(ctx context.Context, id, space string) (*UninstallResult, error) {
	r := &UninstallResult{Result: bundle.NewResult("uninstall"), Status: "refused", ID: id, FilesKept: []string{}}
	r.Name = id
	defer r.Finish()
	if !ValidID(id) {
		r.refuse(bundle.Faultf(BundleIDInvalid, "", "the bundle id %s %s", finding.QuoteMax(id, 200), idGrammar))
		return r, nil
	}
	s, hasAI, fault, err := openSpace(space)
	if err != nil {
		return nil, err
	}
	if fault != nil {
		r.refuse(fault)
		return r, nil
	}
	defer s.Close()
	if !hasAI {
		r.refuse(notInstalled(id))
		return r, nil
	}
	txn, _, err := bundle.Begin(filepath.Join(space, ".ai"), area)
	if err != nil {
		return nil, err
	}
	err = r.within(ctx, s, txn)
	if cerr := txn.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func notInstalled(id string) *bundle.Finding {
	return bundle.Faultf(NotInstalled, LockPath(id), "the space has no lockfile of bundle %s", finding.QuoteMax(id, 200))
}

func (r *UninstallResult) refuse(fs ...*bundle.Finding) { r.Fail(addHints(fs)...) }

func (r *UninstallResult) within(ctx context.Context, s bundle.Source, txn *bundle.Txn) error {
	l, fault, err := readLock(s, r.ID)
	if err != nil {
		return err
	}
	if fault == nil && l == nil {
		fault = notInstalled(r.ID)
	}
	if fault != nil {
		r.refuse(fault)
		return nil
	}
	if faults := checkPaths(l.Files); len(faults) > 0 {
		r.refuse(faults...)
		return nil
	}
	same, err := l.recorded(s)
	if err != nil {
		return err
	}
	if same == nil {
		r.refuse(bundle.Faultf(LockNoHashes, LockPath(r.ID), "the lockfile has no hashes and there is no manifest to compare the files with"))
		return nil
	}
	var gone, kept []string
	for _, p := range l.Files {
		st, err := txn.State(belowAI(p))
		var link *bundle.LinkError
		if errors.As(err, &link) {
			if link.Path != belowAI(p) {
				r.refuse(bundle.Faultf(SymlinkFound, p, "a link stands on the way to %s", finding.QuoteMax(p, 200)))
				continue
			}
			kept = append(kept, p)
			continue
		}
		if err != nil {
			return err
		}
		if !st.Exists {
			continue
		}
		unchanged := false
		if st.Regular {
			data, err := readFile(s, p, st.Size, MaxFile)
			if err != nil {
				return err
			}
			unchanged = data != nil && same(p, data)
		}
		if unchanged {
			gone = append(gone, p)
		} else {
			kept = append(kept, p)
		}
	}
	if len(r.Findings) > 0 {
		return nil
	}
	files := len(gone)
	for _, p := range []string{ManifestPath(r.ID), LockPath(r.ID)} {
		if _, err := txn.Dirs().Lstat(belowAI(p)); err == nil {
			gone = append(gone, p)
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for _, p := range gone {
		txn.Remove(belowAI(p))
	}
	for _, dir := range parents(gone) {
		txn.RemoveDir(belowAI(dir))
	}
	if err := txn.Commit(ctx); err != nil {
		return err
	}
	r.Status, r.FilesRemoved = "uninstalled", files
	for _, p := range kept {
		r.FilesKept = append(r.FilesKept, p)
		r.Note(UserModified, p, "the file is no longer the installed one and was kept")
	}
	return nil
}
