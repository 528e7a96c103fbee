package rye

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// CreateOptions say what manifest to write.
type CreateOptions struct {
	ID          string
	Version     string
	Description string
	Entrypoint  string             // id of an item, "" for none
	Time        time.Time          // of creation and signing: equal input gives equal bytes
	Key         ed25519.PrivateKey // signs the manifest
	Keys        *Keyring           // supplies the keys of items that others signed; trust is not asked
	SignItems   bool               // (re)sign every item that has a signature format
	Allow       []string           // keys of findings about texts that are none
	Head        bool               // make a bundle of the HEAD generation
	Publisher   string             // with Head: owner in a PUBLISHER_TRUST.toml beside .ai, "" for none
}

// A Creation is what Create made. Nothing is written yet: Items first, then the
// manifest.
type Creation struct {
	bundle.Result
	Status  string   `json:"status"` // "created" or "refused"
	ID      string   `json:"bundle_id"`
	Path    string   `json:"manifest"` // of the manifest below the root
	Digest  string   `json:"manifest_digest"`
	Files   int      `json:"files"`
	Signed  []string `json:"signed"`   // items that are newly signed
	LeftOut []string `json:"left_out"` // what the manifest does not list and verify will call extra; folders with a slash

	Manifest *Manifest         `json:"-"` // nil if it was refused
	Text     []byte            `json:"-"` // of the manifest file
	Items    map[string][]byte `json:"-"` // the newly signed items by path
	Trust    []byte            `json:"-"` // PUBLISHER_TRUST.toml, nil for none
}

// createFolders hold what create lists, in this order.
var createFolders = []string{".ai/directives", ".ai/tools", ".ai/knowledge", ".ai/config"}

// leftOutFolders are left out wherever below the root they stand.
var leftOutFolders = []string{"__pycache__", ".venv", "node_modules", ".git", "dist", "build", ".ruff_cache", ".pytest_cache", ".mypy_cache"}

// Create makes a signed manifest for the items of a tree. Findings say why it
// cannot: a link, an unsafe path, a signature line that is wrong. The error is
// one of reading.
func Create(ctx context.Context, t bundle.Source, o CreateOptions) (*Creation, error) {
	t = bundle.WithContext(ctx, t)
	c := &creator{t: t, o: o, out: &Creation{Result: bundle.NewResult("create"), Status: "created", ID: o.ID, Signed: []string{}, LeftOut: []string{}, Items: map[string][]byte{}}}
	if c.o.Keys == nil {
		c.o.Keys = &Keyring{Bundle: t}
	}
	create := c.create
	if o.Head {
		create = c.createHead
	}
	if err := create(); err != nil {
		return nil, err
	}
	out := c.out
	if len(c.faults) > 0 {
		out = &Creation{Result: out.Result, Status: "refused", ID: o.ID, Signed: []string{}, LeftOut: []string{}}
		out.Unsay()
		out.Fail(addHints(c.faults)...)
	}
	out.Finish()
	return out, nil
}

// made takes the manifest that was made, and its body.
func (c *creator) made(m *Manifest, f lineFormat, body []byte) {
	out := c.out
	out.Manifest, out.Path, out.ID, out.Name, out.Version, out.Files = m, m.path(), m.ID, m.ID, m.Version, len(m.Entries)
	out.Digest = m.digest()
	out.Identity, out.Signed = identity(out.Digest), append(out.Signed, slices.Sorted(maps.Keys(out.Items))...)
	out.Text = append([]byte(signatureLine(f, body, c.o.Key, c.o.Time)), body...)
}

func (c *creator) create() error {
	o := c.o
	if !ValidID(o.ID) {
		c.add(bundle.Faultf(BundleIDInvalid, "", "the bundle id %s %s", finding.QuoteMax(o.ID, 200), idGrammar))
	}
	if !bundle.IsVersion(o.Version) {
		c.add(bundle.Faultf(VersionInvalid, "", "the version %s is not SemVer 2.0.0, as 1.0.0 would be", finding.QuoteMax(o.Version, 80)))
	}
	if len(c.faults) > 0 {
		return nil
	}
	for _, top := range createFolders {
		if err := c.folder(top); err != nil {
			return err
		}
	}
	return c.finish()
}

// Write writes the newly signed items and the manifest, and then puts them in
// place, the manifest last. Nothing is written through a link.
func (out *Creation) Write(root string) error {
	dirs, err := bundle.OpenDirs(root)
	if err != nil {
		return err
	}
	defer dirs.Close()
	var list []bundle.NewFile
	for _, p := range out.Signed {
		it, err := dirs.Lstat(p)
		if err != nil {
			return err
		}
		list = append(list, bundle.NewFile{Name: p, Mode: it.Mode & 0o777, Content: out.Items[p]})
	}
	if out.Trust != nil {
		list = append(list, bundle.NewFile{Name: publisherFile, Mode: 0o644, Content: out.Trust})
	}
	return dirs.WriteFiles(append(list, bundle.NewFile{Name: out.Path, Mode: 0o644, Content: out.Text}))
}

type creator struct {
	t       bundle.Source
	o       CreateOptions
	out     *Creation
	entries []Entry
	faults  []*bundle.Finding

	unchecked bool              // a signature line is taken for what it says, no key is asked
	sums      map[string]string // with unchecked: SHA-256 by path
}

func (c *creator) add(fs ...*bundle.Finding) {
	for _, f := range fs {
		if f != nil {
			c.faults = append(c.faults, f)
		}
	}
}

// sourceLimits bound the paths of every source that a bundle is made from.
var sourceLimits = bundle.DefaultLimits()

// folder lists one of the top folders.
func (c *creator) folder(top string) error {
	switch code, err := folderPath(c.t, top); {
	case err != nil:
		return err
	case code == SymlinkFound:
		c.add(bundle.Faultf(code, top, "a link stands where a bundle may have files and folders only"))
		return nil
	case code != "":
		return nil
	}
	return bundle.WalkSource(c.t, top, func(p string, it bundle.Item) error {
		if why := bundle.LeftBeside(p, it); why != "" {
			c.out.Note(bundle.NoteIgnoredFile, p, why)
			if it.Kind == bundle.KindDir {
				return fs.SkipDir
			}
			return nil
		}
		if f := sourceLimits.CheckPath(p); f != nil {
			c.add(f)
			if it.Kind == bundle.KindDir {
				return fs.SkipDir
			}
			return nil
		}
		switch it.Kind {
		case bundle.KindDir:
			if slices.Contains(leftOutFolders, it.Name) {
				c.out.LeftOut = append(c.out.LeftOut, p+"/")
				return fs.SkipDir
			}
			return nil
		case bundle.KindSymlink:
			c.add(bundle.Faultf(SymlinkFound, p, "a link stands where a bundle may have files and folders only"))
			return nil
		case bundle.KindOther:
			c.add(bundle.Faultf(NotRegularFile, p, "only regular files can be part of a bundle"))
			return nil
		}
		return c.file(p, it)
	})
}

// screen judges a file as a text.
func (c *creator) screen(p string, data []byte) {
	if c.unchecked {
		return
	}
	hidden, notes := bundle.ScreenText(p, data, bundle.TextsByContent, c.o.Allow)
	c.add(append(hidden, bundle.ScreenName(p, c.o.Allow))...)
	c.out.Tell(notes...)
}

func (c *creator) file(p string, it bundle.Item) error {
	if f := checkPath(p); f != nil {
		c.add(f)
		return nil
	}
	f, ok := itemFormat(p)
	data, err := c.content(p, it, c.o.SignItems && ok && signableName(p), func(data []byte) ([]byte, *bundle.Finding) {
		return Sign(p, data, TypeOf(p), c.o.Key, c.o.Time)
	})
	if data == nil {
		return err
	}
	c.screen(p, data)
	sum := hexSum(data)
	if c.unchecked {
		if c.sums == nil {
			c.sums = map[string]string{}
		}
		c.sums[p] = sum
	}
	e := Entry{Path: p, ObjectHash: objectHash(p, data, sum), ItemType: string(TypeOf(p)), hasItemType: true}
	switch {
	case !utf8.Valid(data):
		c.out.Note(NotUTF8, p, "it is covered, but verifiers before rigward call it tampered")
	case ok:
		fault, err := c.signed(p, data, f)
		if err != nil {
			return err
		}
		e.InlineSigned = fault == nil
		if fault != nil && fault.Code != ItemUnsigned {
			c.add(at(p, fault)...)
		}
	}
	c.entries = append(c.entries, e)
	return nil
}

// content reads a file and signs it anew, if that is asked for; nil after a
// fault.
func (c *creator) content(p string, it bundle.Item, anew bool, sign func([]byte) ([]byte, *bundle.Finding)) ([]byte, error) {
	data, err := readFile(c.t, p, it.Size, MaxFile)
	if err == nil && data == nil {
		c.add(tooLarge(p))
	}
	if data == nil || !anew {
		return data, err
	}
	signed, fault := sign(data)
	if c.add(fault); fault == nil && !bytes.Equal(signed, data) {
		c.out.Items[p] = signed
	}
	return signed, nil
}

// signed checks the signature line of an item.
func (c *creator) signed(p string, data []byte, f lineFormat) (*bundle.Finding, error) {
	t := TypeOf(p)
	if t == Asset {
		t = Config // a key document of the older folder
	}
	s, fault := readText(data, f, t, isKeyDocument(p))
	if fault != nil || c.unchecked {
		return fault, nil
	}
	return c.signedBy(s.line)
}

// signedBy checks a signature against the signer's key, whoever that is: the
// manifest will say that the item is signed.
func (c *creator) signedBy(l *Line) (*bundle.Finding, error) {
	key := c.o.Key.Public().(ed25519.PublicKey)
	if l.Fingerprint != fingerprintLike(key, l.Fingerprint) {
		var err error
		if key, err = c.o.Keys.bytes(l.Fingerprint); err != nil {
			return nil, err
		}
		if key == nil {
			f := bundle.Faultf(UntrustedKey, "", "the item is signed by %s, whose key is nowhere to check the signature with", l.Fingerprint)
			f.Hint = "--trust-fingerprint ed25519:BASE64 # names the key; --sign-items signs the item anew"
			return f, nil
		}
	}
	if !l.verifies(key) {
		return bundle.Faultf(SignatureInvalid, "", "the signature is not that of the key %s over this text", l.Fingerprint), nil
	}
	return nil, nil
}

// finish checks the list as a whole and writes the manifest.
func (c *creator) finish() error {
	m := &Manifest{
		ID: c.o.ID, Version: c.o.Version, Entrypoint: c.o.Entrypoint, Description: c.o.Description,
		CreatedAt: c.o.Time.UTC().Format("2006-01-02T15:04:05Z"), Type: "package", Entries: c.entries, hasDigest: true,
	}
	if len(m.Entries) == 0 && len(c.faults) == 0 {
		c.add(bundle.Faultf(FilesEmpty, "", "there is no file below %v that a manifest could list", createFolders))
	}
	c.add(checkLimits(m, false)...)
	c.add(checkPaths(m.paths())...)
	m.Digest = m.digest()
	p := ManifestPath(m.ID)
	c.add(m.check(m.ID, p)...)
	if code, err := folderPath(c.t, path.Dir(p)); err != nil {
		return err
	} else if code == SymlinkFound {
		c.add(bundle.Faultf(code, path.Dir(p), "a link stands on the way to the manifest"))
	}
	body, fault := m.emit()
	if c.add(fault); len(c.faults) > 0 {
		return nil
	}
	c.made(m, hashLine, body)
	if len(c.out.Text) > MaxManifest {
		c.add(bundle.Faultf(LimitExceeded, p, "the manifest has %d bytes, the limit is %d", len(c.out.Text), MaxManifest))
	}
	extra, err := extraFiles(c.t, m, m.ID)
	if err != nil {
		return fmt.Errorf("looking for files that the manifest does not list: %w", err)
	}
	for _, x := range extra {
		if !slices.ContainsFunc(c.out.LeftOut, func(folder string) bool { return len(x.path) > len(folder) && x.path[:len(folder)] == folder }) {
			c.out.LeftOut = append(c.out.LeftOut, x.path)
		}
	}
	slices.Sort(c.out.LeftOut)
	return nil
}
