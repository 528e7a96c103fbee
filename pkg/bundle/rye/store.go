package rye

import (
	"crypto/ed25519"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

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

// A StoredKey is one key document of a trust store, as [Keyring.List] tells it.
type StoredKey struct {
	Fingerprint     string   `json:"fingerprint"`                // the file's name
	LongFingerprint string   `json:"long_fingerprint,omitempty"` // of the key, if the document can be read
	Owner           string   `json:"owner,omitempty"`            // unproven text
	Signer          string   `json:"signer,omitempty"`           // fingerprint in its signature line
	Store           Trust    `json:"store"`
	Path            string   `json:"path"`
	Trusted         bool     `json:"trusted"` // this document makes the key trusted
	Code            []string `json:"code"`    // why not

	Findings []*bundle.Finding `json:"-"`
}

// List returns the key documents of all stores, in the order in which they are
// looked at, by name within a folder. Files of other names than those of key
// documents are left out.
func (k *Keyring) List() ([]StoredKey, error) {
	var list []StoredKey
	for _, st := range k.Stores {
		for _, folder := range keyFolders {
			items, err := st.Tree.ReadDir(folder)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, it := range items {
				fp, ok := strings.CutSuffix(it.Name, ".toml")
				if !ok || !isFingerprint(fp) {
					continue
				}
				s, err := k.describe(fp, st.Trust, folder+"/"+it.Name)
				if err != nil {
					return nil, err
				}
				list = append(list, s)
			}
		}
	}
	return list, nil
}

func (k *Keyring) describe(fp string, trust Trust, where string) (StoredKey, error) {
	out := StoredKey{Fingerprint: fp, Store: trust, Path: where, Code: []string{}}
	docs, err := k.stored(fp)
	if err != nil {
		return out, err
	}
	for _, s := range docs {
		if s.trust != trust || s.where != where {
			continue
		}
		fault := s.fault
		if s.doc != nil {
			out.LongFingerprint, out.Owner, out.Signer = LongFingerprint(s.doc.Key), s.doc.Owner, s.doc.Signer
		}
		if fault == nil {
			if fault, err = k.judge(fp, s); err != nil {
				return out, err
			}
		}
		out.Trusted = fault == nil
		if fault != nil {
			out.Code = append(out.Code, fault.Code)
			out.Findings = append(out.Findings, fault)
		}
	}
	return out, nil
}

// TrustDocument returns the name and text of a key document to be put into a
// store: the one at hand, signed by own instead of whoever signed it before. A
// PUBLISHER_TRUST.toml is rewritten to the form of a store. The fault is one of
// the document: an unsigned one is taken, for own vouches for it from now on,
// but one whose signature is wrong was changed by somebody.
func TrustDocument(data []byte, own ed25519.PrivateKey, at time.Time) (name string, text []byte, fault *bundle.Finding) {
	d, fault := ParseKeyDocument(data)
	if fault != nil {
		return "", nil, fault
	}
	if !isFingerprint(d.Fingerprint) || fingerprintLike(d.Key, d.Fingerprint) != d.Fingerprint {
		return "", nil, bundle.Faultf(KeyMismatch, "", "the document calls its key %s, but it is %s", finding.QuoteMax(d.Fingerprint, 80), Fingerprint(d.Key))
	}
	if d.read != nil && d.read.Code != ItemUnsigned || d.line != nil && d.selfSigned() && !d.line.verifies(d.Key) {
		return "", nil, bundle.Faultf(KeyInvalid, "", "the document carries a signature that is wrong: it was changed after it was signed")
	}
	body := translateNewlines(data)
	if rest, fault := withoutLine(body, hashLine); fault == nil {
		body = rest
	}
	doc, err := parseTOML(string(body))
	if err != nil {
		return "", nil, bundle.Faultf(KeyInvalid, "", "the key document is not TOML that a key document can be: %v", err)
	}
	if _, ok := doc.text("public_key", "pem"); !ok {
		body = renderKeyDocument(d.Key, d.Fingerprint, d.Owner)
	}
	return signedDocument(d.Fingerprint, body, own, at)
}

// OwnDocument returns the name and text of the self-signed document of a key.
func OwnDocument(own ed25519.PrivateKey, owner string, at time.Time) (name string, text []byte, fault *bundle.Finding) {
	key := own.Public().(ed25519.PublicKey)
	return signedDocument(Fingerprint(key), renderKeyDocument(key, Fingerprint(key), owner), own, at)
}

func signedDocument(fp string, body []byte, own ed25519.PrivateKey, at time.Time) (string, []byte, *bundle.Finding) {
	name := path.Join(keyFolders[0], fp+".toml")
	text, fault := Sign(name, body, Config, own, at)
	if fault != nil {
		return "", nil, fault
	}
	if len(text) > MaxKeyDocument {
		return "", nil, bundle.Faultf(KeyInvalid, name, "the key document has more than %d bytes", MaxKeyDocument)
	}
	return name, text, nil
}

// writable opens the folder of a store in which a key document is written or
// removed, and tells the document's name there. A project's store is reached
// through no link, for a checkout can bring one that leads out of it; a user's
// may be, as in OpenStore. Without make a missing folder is fs.ErrNotExist.
func writable(tier Trust, root, name string, make bool) (*bundle.Dirs, string, error) {
	dir, base := root, name
	if tier != TrustProject {
		dir, base = filepath.Join(root, filepath.FromSlash(path.Dir(name))), path.Base(name)
	}
	if make {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, "", err
		}
	}
	d, err := bundle.OpenDirs(dir)
	return d, base, err
}

// AddToStore writes a key document below the root of a store of a tier, by a
// temporary file and a rename.
func AddToStore(tier Trust, root, name string, text []byte) error {
	d, base, err := writable(tier, root, name, true)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.WriteFile(base, 0o644, text)
}

// RemoveFromStore removes the documents of a fingerprint from the store of a
// tier at root and returns their paths below it; none is no error.
func RemoveFromStore(tier Trust, root, fp string) (removed []string, err error) {
	if !isFingerprint(fp) {
		return nil, errors.New("a fingerprint is 16 or 64 lower-case hex digits")
	}
	for _, p := range keyDocumentPaths(fp) {
		d, base, err := writable(tier, root, p, false)
		if err == nil {
			if err = d.Remove(base); err == nil {
				removed = append(removed, p)
			}
			d.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
	}
	return slices.Clip(removed), nil
}
