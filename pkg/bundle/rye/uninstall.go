package rye

import (
	"context"
	"errors"

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

// UninstallOptions say by whose word files are removed.
type UninstallOptions struct {
	State   string   // the user's state directory, see [bundle.OpenState]
	Confirm *Keyring // see [Uninstall]; nil: no keys
}

// Uninstall removes a bundle from a space: the files that are still as they
// were installed, empty folders, manifest and lockfile. What was installed is
// known from this user's record. A lockfile in the space, which anybody can have
// put there, counts without one only as far as the manifest beside it says the
// same and is signed by a key of Confirm.
func Uninstall(ctx context.Context, id, space string, o UninstallOptions) (*UninstallResult, error) {
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
	return r, bundle.Within(place(space, o.State), &r.Result, func(t *bundle.Txn) error { return r.within(ctx, s, t, o.Confirm) })
}

func notInstalled(id string) *bundle.Finding {
	return bundle.Faultf(NotInstalled, LockPath(id), "the space has no lockfile of bundle %s", finding.QuoteMax(id, 200))
}

func (r *UninstallResult) refuse(fs ...*bundle.Finding) { r.Fail(addHints(fs)...) }

func (r *UninstallResult) within(ctx context.Context, s bundle.Source, txn *bundle.Txn, keys *Keyring) error {
	all, err := readRecord(txn)
	if err != nil {
		return err
	}
	own, fault, err := r.owned(s, all, keys)
	if err != nil {
		return err
	}
	if len(fault) > 0 {
		r.refuse(fault...)
		return nil
	}
	var gone, kept []string
	for _, p := range own.Files {
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
			unchanged = data != nil && hexSum(data) == st.SHA256.Hex() && own.same(p, data)
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
		st, err := txn.State(belowAI(p))
		var link *bundle.LinkError
		switch {
		case errors.As(err, &link) && link.Path != belowAI(p):
			r.refuse(bundle.Faultf(SymlinkFound, p, "a link stands on the way to %s", finding.QuoteMax(p, 200)))
			return nil
		case err != nil && link == nil:
			return err
		case st.Regular && (p == LockPath(r.ID) || st.SHA256.Hex() == own.ManifestHash):
			gone = append(gone, p)
		case st.Exists || link != nil:
			r.Note(UserModified, p, "it is not what was installed and was kept")
		}
	}
	delete(all, r.ID)
	txn.SetRecord(all.encode())
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

// owned is what may be removed, or why nothing may.
func (r *UninstallResult) owned(s bundle.Source, all record, keys *Keyring) (*owned, []*bundle.Finding, error) {
	claim, fault, err := readLock(s, r.ID)
	if err != nil || fault != nil {
		return nil, asList(fault), err
	}
	if claim == nil {
		return nil, asList(notInstalled(r.ID)), nil
	}
	if faults := claim.checkPaths(); len(faults) > 0 {
		return nil, faults, nil
	}
	own, err := all.lock(claim)
	if err != nil || own != nil {
		return own, nil, err
	}
	if same, err := claim.recorded(s); err != nil || same == nil {
		return nil, asList(bundle.Faultf(LockNoHashes, LockPath(r.ID), "the lockfile has no hashes and there is no manifest to compare the files with")), err
	}
	own, err = claim.confirmed(s, keys)
	if err != nil || own != nil {
		return own, nil, err
	}
	fault = bundle.Faultf(NotInstalled, LockPath(r.ID), "the space has a lockfile of bundle %s, but this user has not installed it like that, and no trusted key has signed a manifest that says the same",
		finding.QuoteMax(r.ID, 200))
	fault.Hint = "rig-bundle install SRC --space DIR with version " + finding.QuoteMax(claim.Version, 80) + " takes its files over, and then they can be removed"
	return nil, asList(fault), nil
}
