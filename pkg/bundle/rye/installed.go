package rye

import (
	"context"
	"path"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// VerifyInstalled checks an installed bundle: the stored manifest by layers 1 to
// 6, then the files of the lockfile by the hashes recorded there, or in the
// manifest if the lockfile is an old one (docs/spec/ryebundle.md#install). Files
// that the bundle does not own are nobody's concern. Keys may have the space
// itself as a store: installing never writes into it.
func VerifyInstalled(ctx context.Context, space bundle.Source, o Options) (*Report, error) {
	v := newVerifier(bundle.WithContext(ctx, space), o)
	v.r.Name = o.ID
	if err := v.installed(); err != nil {
		return nil, err
	}
	v.conclude()
	return v.r, nil
}

func (v *verifier) installed() error {
	head, err := v.choose()
	if err != nil || len(v.r.Findings) > 0 {
		return err
	}
	l, fault, err := readLock(v.t, v.r.Name)
	if err != nil {
		return err
	}
	if fault == nil && (l == nil || head) {
		fault = notInstalled(v.r.Name)
	}
	if fault != nil {
		v.add(fault)
		return nil
	}
	if l.isHead() {
		err = v.installedHead(l)
	} else {
		var m *Manifest
		if m, err = v.manifest(); m == nil {
			return err
		}
	}
	if err != nil || len(v.r.Findings) > 0 && l.isHead() {
		return err
	}
	if faults := l.checkPaths(); len(faults) > 0 {
		v.add(faults...)
		v.r.ManifestValid = false
		return nil
	}
	if l.ManifestHash != "" && l.ManifestHash != v.r.sum {
		v.r.ManifestValid = false
		v.add(bundle.Faultf(HashMismatch, ManifestPath(v.r.Name), "the stored manifest is not the one that was installed"))
	}
	same, err := l.recorded(v.t)
	if err != nil {
		return err
	}
	if same == nil {
		v.add(bundle.Faultf(LockNoHashes, LockPath(v.r.Name), "the lockfile has no hashes and there is no manifest to compare the files with"))
		return nil
	}
	for _, p := range l.Files {
		if err := v.installedFile(p, same); err != nil {
			return err
		}
	}
	return nil
}

// installedHead verifies the signed manifest of an installed HEAD bundle. Its
// files are judged by the lockfile afterwards, as those of all bundles.
func (v *verifier) installedHead(l *Lock) error {
	p := path.Join(headRoot(l.ID), headManifest)
	body, err := v.authenticate(p, headHashLine)
	if body == nil || err != nil {
		return err
	}
	m, faults := parseHead(body, p)
	if len(faults) == 0 && m.ID != l.ID {
		faults = asList(bundle.Faultf(BundleIDMismatch, p, "the manifest is that of %s, expected %s", finding.QuoteMax(m.ID, 200), finding.QuoteMax(l.ID, 200)))
	}
	if v.add(faults...); len(faults) == 0 {
		v.r.Version, v.r.ManifestValid = m.Version, true
	}
	return nil
}

func (v *verifier) installedFile(p string, same func(string, []byte) bool) error {
	v.r.FilesChecked++
	data, code, err := load(v.t, p, MaxFile, v.folders)
	if err != nil {
		return err
	}
	var fault *bundle.Finding
	switch code {
	case FileMissing:
		v.missing(p)
		v.add(bundle.Faultf(code, p, "the file was installed, but is not there"))
		return nil
	case SymlinkFound:
		fault = bundle.Faultf(code, p, "the file is a link or is reached through one")
	case NotRegularFile:
		fault = bundle.Faultf(code, p, "a file was installed here, but this is none")
	default:
		if code == LimitExceeded || !same(p, data) {
			fault = bundle.Faultf(HashMismatch, p, "the file is not the one that was installed")
		}
	}
	if fault != nil {
		v.tampered(p)
		v.add(fault)
	}
	return nil
}
