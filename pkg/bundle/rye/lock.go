package rye

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// A Lock is the lockfile of an installed bundle (docs/spec/ryebundle.md#install).
// Lockfiles of the old program have no hashes at all.
type Lock struct {
	ID             string
	Version        string
	ManifestHash   string            // SHA-256 of manifest.yaml, "" if the old program left it out
	InstalledAt    string            // RFC 3339
	Files          []string          // paths below the space
	FileHashes     map[string]string // SHA-256 by path, nil in old lockfiles
	ManifestDigest string            // "" if absent
	Signer         string            // fingerprint, "" if absent
	Trust          Trust             // "" if absent
}

// maxLock bounds a lockfile: 50 000 paths of 512 bytes, twice, and hashes.
const maxLock = 64 << 20

// LockPath returns the path of a bundle's lockfile below a space.
func LockPath(id string) string { return path.Join(".ai/bundles", id, lockName) }

const lockName = ".bundle-lock.json"

// parseLock reads a lockfile strictly: one JSON object, no key twice, every
// value of its type. The fault has the code lock-invalid.
func parseLock(data []byte, id string) (*Lock, *bundle.Finding) {
	l := &Lock{}
	if err := l.parse(data); err != nil {
		return nil, bundle.Faultf(LockInvalid, LockPath(id), "the lockfile cannot be relied on: %v", err)
	}
	if l.ID != id {
		return nil, bundle.Faultf(LockInvalid, LockPath(id), "the lockfile is that of bundle %s", finding.QuoteMax(l.ID, 200))
	}
	return l, nil
}

func (l *Lock) parse(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("it is not valid UTF-8")
	}
	fields, err := jsonObject(data)
	if err != nil {
		return err
	}
	var hash, digest, signer, trust *string
	for _, f := range []struct {
		key  string
		to   any
		need bool
	}{
		{"bundle_id", &l.ID, true}, {"version", &l.Version, true}, {"manifest_hash", &hash, true}, {"installed_at", &l.InstalledAt, true},
		{"files", &l.Files, true}, {"manifest_digest", &digest, false}, {"signer", &signer, false}, {"trust", &trust, false},
	} {
		raw, ok := fields[f.key]
		if !ok {
			if f.need {
				return fmt.Errorf("it has no %s", f.key)
			}
			continue
		}
		if _, pointer := f.to.(**string); bytes.Equal(raw, []byte("null")) && !pointer || json.Unmarshal(raw, f.to) != nil {
			return fmt.Errorf("%s has another type than it should", f.key)
		}
	}
	for to, from := range map[*string]*string{&l.ManifestHash: hash, &l.ManifestDigest: digest, &l.Signer: signer, (*string)(&l.Trust): trust} {
		if from != nil {
			*to = *from
		}
	}
	if l.ManifestHash != "" && !isHex(l.ManifestHash, 64) || hash != nil && *hash == "" {
		return errors.New("manifest_hash is neither null nor 64 lower-case hex digits")
	}
	if _, err := time.Parse(time.RFC3339, l.InstalledAt); err != nil {
		return errors.New("installed_at is no RFC 3339 time")
	}
	listed := make(map[string]bool, len(l.Files))
	for _, p := range l.Files {
		if listed[p] {
			return fmt.Errorf("files lists %s twice", finding.QuoteMax(p, 200))
		}
		listed[p] = true
	}
	raw, ok := fields["file_hashes"]
	if !ok {
		return nil
	}
	hashes, err := jsonObject(raw)
	if err != nil {
		return fmt.Errorf("file_hashes: %w", err)
	}
	l.FileHashes = make(map[string]string, len(hashes))
	for p, raw := range hashes {
		var h string
		if json.Unmarshal(raw, &h) != nil || !isHex(h, 64) {
			return fmt.Errorf("the hash of %s is not 64 lower-case hex digits", finding.QuoteMax(p, 200))
		}
		if !listed[p] {
			return fmt.Errorf("file_hashes names %s, which files does not list", finding.QuoteMax(p, 200))
		}
		l.FileHashes[p] = h
	}
	if len(l.FileHashes) != len(l.Files) {
		return errors.New("file_hashes lacks a listed file")
	}
	return nil
}

// jsonObject reads one JSON object with unique keys and nothing behind it.
func jsonObject(data []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, errors.New("it is not valid JSON")
		}
		key := t.(string) // More and an open object: the token is a key
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("the key %s stands there twice", finding.QuoteMax(key, 80))
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, errors.New("it is not valid JSON")
		}
		fields[key] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("it is not valid JSON")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something stands behind the JSON object")
	}
	return fields, nil
}

// encode writes the lockfile: two spaces, keys in the order of
// docs/spec/ryebundle.md, hashes in the order of files, a final line feed.
func (l *Lock) encode() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(struct {
		ID             string   `json:"bundle_id"`
		Version        string   `json:"version"`
		ManifestHash   string   `json:"manifest_hash"`
		InstalledAt    string   `json:"installed_at"`
		Files          []string `json:"files"`
		FileHashes     inOrder  `json:"file_hashes"`
		ManifestDigest string   `json:"manifest_digest"`
		Signer         string   `json:"signer"`
		Trust          Trust    `json:"trust"`
	}{l.ID, l.Version, l.ManifestHash, l.InstalledAt, append([]string{}, l.Files...), inOrder{l}, l.ManifestDigest, l.Signer, l.Trust})
	if err != nil {
		panic(err) // texts always have a form
	}
	return b.Bytes()
}

// inOrder are the hashes of a lockfile in the order of its files.
type inOrder struct{ *Lock }

// MarshalJSON writes an object.
func (l inOrder) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, p := range l.Files {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, bundle.JSONText(p)...), ':'), bundle.JSONText(l.FileHashes[p])...)
	}
	return append(b, '}'), nil
}

// checkPaths judges the paths of a lockfile: those of the folders that a bundle
// may own, or all below the place of a HEAD bundle of that id.
func (l *Lock) checkPaths() []*bundle.Finding {
	root := headRoot(l.ID) + "/"
	if !l.isHead() {
		return checkPaths(l.Files)
	}
	var faults []*bundle.Finding
	var names []string
	for _, p := range l.Files {
		rest, ok := strings.CutPrefix(p, root)
		f := headPathFault(rest)
		if f == nil && (!ok || !strings.HasPrefix(rest, ".ai/")) {
			f = bundle.Faultf(PathNotCovered, p, "the path %s is outside of the place of the bundle", finding.QuoteMax(p, 200))
		}
		if f != nil {
			f.Path = p
			faults = append(faults, f)
			continue
		}
		names = append(names, p)
	}
	return append(faults, checkHeadTree(names)...)
}

// isHead reports whether the lockfile is that of a HEAD bundle.
func (l *Lock) isHead() bool {
	return !strings.Contains(l.ID, "/") && slices.Contains(l.Files, path.Join(headRoot(l.ID), headManifest))
}

// readLock reads the lockfile of a bundle in a space; nil without a fault if
// there is none.
func readLock(space bundle.Source, id string) (*Lock, *bundle.Finding, error) {
	p := LockPath(id)
	data, code, err := load(space, p, maxLock, nil)
	switch {
	case err != nil || code == FileMissing:
		return nil, nil, err
	case code == SymlinkFound:
		return nil, bundle.Faultf(code, p, "a link stands in the way to the lockfile"), nil
	case code == LimitExceeded:
		return nil, bundle.Faultf(LockInvalid, p, "the lockfile has more than %d bytes", maxLock), nil
	case code != "":
		return nil, bundle.Faultf(LockInvalid, p, "the lockfile is not a regular file"), nil
	}
	l, fault := parseLock(data, id)
	return l, fault, nil
}

// installedIDs returns the ids of all bundles with a lockfile in a space.
func installedIDs(space bundle.Source) (ids []string, err error) {
	const top = ".ai/bundles"
	if code, err := folderPath(space, top); code != "" || err != nil {
		return nil, err
	}
	err = bundle.WalkSource(space, top, func(p string, it bundle.Item) error {
		if it.Name == lockName && it.Kind != bundle.KindDir {
			ids = append(ids, path.Dir(p)[len(top):])
		}
		return nil
	})
	for i, id := range ids {
		if id != "" {
			ids[i] = id[1:]
		}
	}
	return ids, err
}

// A record says what this user has installed in a space: the lockfiles as they
// were written, by bundle id. It lies in the user's state directory. A lockfile
// in the space may be anybody's: it lets no file be replaced or removed.
type record map[string]string

// readRecord reads the record about a space, an empty one if there is none or
// if t is nil.
func readRecord(t *bundle.Txn) (record, error) {
	r := record{}
	if t == nil {
		return r, nil
	}
	data, err := t.Record()
	if err == nil && data != nil && (json.Unmarshal(data, &r) != nil || r == nil) {
		err = fmt.Errorf("the record %s is unreadable: remove it to forget what is installed", finding.QuoteMax(t.RecordFile(), 300))
	}
	return r, err
}

// lock is the recorded install that a lockfile in the space tells of, nil if
// the record does not say the same: whoever removes or changes the lockfile
// forgets what is installed, and nothing is known of a new folder that has got
// the identity of an old one.
func (r record) lock(claim *Lock) (*owned, error) {
	text, ok := r[claim.ID]
	if !ok {
		return nil, nil
	}
	l, fault := parseLock([]byte(text), claim.ID)
	if fault != nil {
		return nil, fmt.Errorf("the record of bundle %s: %s", finding.QuoteMax(claim.ID, 200), fault.Message)
	}
	if !reflect.DeepEqual(l, claim) {
		return nil, nil
	}
	return &owned{l, l.same}, nil
}

// encode is the record as text, nil if nothing is installed.
func (r record) encode() []byte {
	if len(r) == 0 {
		return nil
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		panic(err) // a map of texts always has a form
	}
	return append(b, '\n')
}

// same reports whether data is the file that was installed at a path.
func (l *Lock) same(p string, data []byte) bool { return l.FileHashes[p] == hexSum(data) }

// owned is an install that may be changed: one of this user's, or one that a
// trusted key confirms.
type owned struct {
	*Lock
	same func(p string, data []byte) bool // whether a file is still as it was installed
}

// confirmed takes what a lockfile in a space claims as far as the manifest
// beside it, signed by a key of the keyring, lists the same files: those are
// what a verified bundle consists of, whoever has put them there. nil if there
// is no such manifest.
func (l *Lock) confirmed(space bundle.Source, keys *Keyring) (*owned, error) {
	if keys == nil {
		return nil, nil
	}
	v := newVerifier(space, Options{ID: l.ID, Keys: keys})
	v.r.Name = l.ID
	m, err := v.manifest()
	if err != nil || m == nil || len(v.r.Findings) > 0 || l.ManifestHash != "" && l.ManifestHash != v.r.sum {
		return nil, err
	}
	listed := m.same()
	o := &owned{Lock: l, same: listed}
	if l.FileHashes != nil {
		o.same = func(p string, data []byte) bool { return l.same(p, data) && listed(p, data) }
	}
	l.ManifestHash = v.r.sum
	return o, nil
}

// same returns a function that reports whether data is the file that the
// manifest lists at a path.
func (m *Manifest) same() func(p string, data []byte) bool {
	entries := make(map[string]*Entry, len(m.Entries))
	for i := range m.Entries {
		entries[m.Entries[i].Path] = &m.Entries[i]
	}
	return func(p string, data []byte) bool {
		e := entries[p]
		return e != nil && e.fault == nil && (e.ObjectHash != "" || e.SHA256 != "") &&
			(e.ObjectHash == "" || e.ObjectHash == ObjectHash(p, data)) && (e.SHA256 == "" || e.SHA256 == hexSum(data))
	}
}

// recorded returns a function that tells the hash under which a file was
// installed, and whether data is that file. It comes from the lockfile, or for
// old ones from the stored manifest; nil if there is neither.
func (l *Lock) recorded(space bundle.Source) (same func(p string, data []byte) bool, err error) {
	if l.FileHashes != nil {
		return l.same, nil
	}
	p := ManifestPath(l.ID)
	data, code, err := load(space, p, MaxManifest, nil)
	if code != "" || err != nil {
		return nil, err
	}
	s, fault := readManifest(data, hashLine)
	if fault != nil {
		return nil, nil
	}
	m, faults := parseManifest(s.hashed)
	if len(faults) > 0 {
		return nil, nil
	}
	return m.same(), nil
}
