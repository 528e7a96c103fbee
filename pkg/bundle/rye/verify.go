package rye

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// A Report is the outcome of a verification, with the keys of
// docs/spec/ryebundle.md#verify in their order after those of every result; the
// lists have at most bundle.MaxTold paths, and More counts the rest. Name
// is the folder below .ai/bundles, or the name of a HEAD bundle. Paths in it
// are unquoted.
type Report struct {
	bundle.Result
	Status        string   `json:"status"`         // "verified" or "failed"
	ManifestValid bool     `json:"manifest_valid"` // layers 1 to 6 passed
	FilesChecked  int      `json:"files_checked"`  // entries looked at, 0 after a stop
	FilesOK       int      `json:"files_ok"`
	FilesMissing  []string `json:"files_missing"`  // listed, not there; in manifest order
	FilesTampered []string `json:"files_tampered"` // listed, there, any other failure
	FilesExtra    []string `json:"files_extra"`    // there, not listed; sorted
	Signer        *string  `json:"signer"`         // fingerprint in the manifest's line, null unless layer 1 passed
	Trust         Trust    `json:"trust"`          // TrustNone unless layers 1 to 4 passed

	Manifest *Manifest `json:"-"` // nil after a stop, and for the HEAD generation
	Line     *Line     `json:"-"` // signature line of the manifest, nil unless layer 1 passed

	hashes map[string]string // SHA-256 of each file that was read, by path
	sum    string            // SHA-256 of the manifest file
}

// Verified reports whether the bundle passed.
func (r *Report) Verified() bool { return r.Status == "verified" }

// Options say what to verify and by whose word.
type Options struct {
	// ID names the bundle. "" takes the only one of the tree.
	ID string
	// Keys decides about trust. The caller sets Bundle, Stores and Pins.
	Keys *Keyring
	// AllowExtra makes extra files a note.
	AllowExtra bool
	// Allow has the keys of findings about texts that are none.
	Allow []string
}

// ErrBundles is the error of Verify and Discover without an id if a tree holds
// no manifest or more than one: nobody said which is meant.
var ErrBundles = errors.New("expected exactly one manifest below .ai/bundles, or the id of the one that is meant")

// Verify goes through the layers of docs/spec/ryebundle.md#verify, or of
// #head-generation there. It reads only what the layer reached needs, and
// writes nothing. The error is one of reading: no verdict.
func Verify(ctx context.Context, t bundle.Source, o Options) (*Report, error) {
	v := newVerifier(bundle.WithContext(ctx, t), o)
	if err := v.run(); err != nil {
		return nil, err
	}
	v.conclude()
	return v.r, nil
}

func newVerifier(t bundle.Source, o Options) *verifier {
	v := &verifier{t: t, o: o, folders: map[string]string{}, r: &Report{
		Result: bundle.NewResult("verify"), Status: "failed", Trust: TrustNone, FilesMissing: []string{}, FilesTampered: []string{}, FilesExtra: []string{},
		hashes: map[string]string{},
	}}
	v.r.Message = "the bundle is verified"
	if v.o.Keys == nil {
		v.o.Keys = &Keyring{}
	}
	return v
}

type verifier struct {
	t       bundle.Source
	o       Options
	r       *Report
	folders map[string]string // what folderAt said of a folder
}

func (v *verifier) add(fs ...*bundle.Finding) { v.r.Fail(fs...) }

func (v *verifier) missing(p string) { list(&v.r.FilesMissing, &v.r.More.Missing, p) }

func (v *verifier) tampered(p string) { list(&v.r.FilesTampered, &v.r.More.Tampered, p) }

// list adds a path, or counts it where as many are told as a result holds.
func list(paths *[]string, more *int, p string) {
	if len(*paths) < bundle.MaxTold {
		*paths = append(*paths, p)
	} else {
		*more++
	}
}

// Counts returns how many files are missing, tampered with and extra, told or not.
func (r *Report) Counts() (missing, tampered, extra int) {
	return len(r.FilesMissing) + r.More.Missing, len(r.FilesTampered) + r.More.Tampered, len(r.FilesExtra) + r.More.Extra
}

func (v *verifier) conclude() {
	r := v.r
	addHints(r.Findings)
	r.Finish()
	slices.Sort(r.FilesExtra)
	missing, tampered, _ := r.Counts()
	r.FilesOK = r.FilesChecked - missing - tampered
	if len(r.Findings) == 0 {
		r.Status = "verified"
	}
}

func (v *verifier) run() error {
	head, err := v.choose()
	if err != nil || len(v.r.Findings) > 0 {
		return err
	}
	if head {
		return v.runHead()
	}
	m, err := v.manifest()
	if m == nil || err != nil {
		return err
	}
	if err := v.entries(m); err != nil {
		return err
	}
	return v.extra(m)
}

// manifest runs layers 1 to 6. It returns nil after a stop.
func (v *verifier) manifest() (*Manifest, error) {
	p := ManifestPath(v.r.Name)
	body, err := v.authenticate(p, hashLine)
	if body == nil || err != nil {
		return nil, err
	}
	m, faults := parseManifest(body)
	if len(faults) > 0 {
		v.add(at(p, faults...)...)
		return nil, nil
	}
	v.r.Manifest, v.r.Version = m, m.Version
	faults = m.check(v.r.Name, p)
	v.r.ManifestValid = len(faults) == 0
	v.add(faults...)
	return m, nil
}

// choose finds out which bundle is meant and whether it is of the HEAD
// generation.
func (v *verifier) choose() (head bool, err error) {
	if v.o.ID != "" {
		v.r.Name = v.o.ID
		if !ValidID(v.o.ID) {
			v.add(bundle.Faultf(BundleIDInvalid, "", "the bundle id %s %s", finding.QuoteMax(v.o.ID, 200), idGrammar))
			return false, nil
		}
		code, err := folderPath(v.t, path.Dir(ManifestPath(v.o.ID)))
		if code != FileMissing || err != nil {
			return false, err
		}
		return hasHead(v.t)
	}
	ids, head, err := Discover(v.t)
	if err != nil {
		return false, err
	}
	switch {
	case head && len(ids) == 0:
		return true, nil
	case !head && len(ids) == 1:
		v.r.Name = ids[0]
		if !ValidID(ids[0]) {
			v.add(bundle.Faultf(BundleIDInvalid, ManifestPath(ids[0]), "the folder %s below .ai/bundles %s", finding.QuoteMax(ids[0], 200), idGrammar))
		}
		return false, nil
	}
	return false, ErrBundles
}

// Discover returns the ids of the bundles whose manifests stand below
// .ai/bundles, sorted, and whether the tree has a manifest of the HEAD
// generation. Folders that links lead to are not entered.
func Discover(t bundle.Source) (ids []string, head bool, err error) {
	if head, err = hasHead(t); err != nil {
		return nil, false, err
	}
	const top = ".ai/bundles"
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		list, err := t.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range list {
			switch {
			case e.Kind == bundle.KindDir && e.Name == ".ai": // of an installed HEAD bundle
			case e.Kind == bundle.KindDir && depth < 4:
				if err := walk(dir+"/"+e.Name, depth+1); err != nil {
					return err
				}
			case e.Name == "manifest.yaml" && depth > 0:
				ids = append(ids, strings.TrimPrefix(dir, top+"/"))
			}
		}
		return nil
	}
	if code, err := folderPath(t, top); err != nil || code != "" {
		return nil, head, err
	}
	err = walk(top, 0)
	slices.Sort(ids)
	return ids, head, err
}

// authenticate runs layers 1 to 4 on a manifest and returns its body, nil after
// a finding.
func (v *verifier) authenticate(p string, f lineFormat) ([]byte, error) {
	data, fault, err := manifestFile(v.t, p)
	if fault != nil || err != nil {
		v.add(fault)
		return nil, err
	}
	v.r.sum = hexSum(data)
	s, fault := readManifest(data, f)
	if s != nil {
		v.r.Line = s.line
		v.r.Signer = &s.line.Fingerprint
	}
	if fault != nil {
		v.add(at(p, fault)...)
		return nil, nil
	}
	trust, faults, err := verifyLine(s.line, v.o.Keys)
	if err != nil {
		return nil, err
	}
	if v.add(at(p, faults...)...); len(faults) > 0 {
		return nil, nil
	}
	v.r.Trust = trust
	if len(s.hashed) == 0 {
		return []byte{}, nil
	}
	return s.hashed, nil
}

// readManifest reads a manifest up to its hash. The signedText is nil unless
// the signature line can be taken as that of a manifest.
func readManifest(data []byte, f lineFormat) (*signedText, *bundle.Finding) {
	if !utf8.Valid(data) {
		return nil, bundle.Faultf(NotUTF8, "", "the manifest is not valid UTF-8")
	}
	s, fault := readSigned(data, f, func(text []byte, l *Line) ([]byte, *bundle.Finding) {
		return text[l.end:], nil
	})
	switch {
	case fault != nil && fault.Code == ItemUnsigned:
		return nil, bundle.Faultf(ManifestUnsigned, "", "the manifest has no signature line")
	case s != nil && s.line.Provider != "":
		return nil, bundle.Faultf(UnsignedProvenance, "", "the signature line of the manifest claims the registry origin %s, which no signature covers", finding.QuoteMax(s.line.Provider+"@"+s.line.User, 120))
	}
	return s, fault
}

// verifyLine runs layers 3 and 4 on a line whose hash is right.
func verifyLine(l *Line, keys *Keyring) (Trust, []*bundle.Finding, error) {
	key, trust, reasons, err := keys.Key(l.Fingerprint)
	if err != nil {
		return TrustNone, nil, err
	}
	if key == nil {
		faults := make([]*bundle.Finding, len(reasons))
		for i, f := range reasons {
			c := *f
			faults[i] = &c
		}
		return TrustNone, faults, nil
	}
	if !l.verifies(key) {
		return TrustNone, []*bundle.Finding{bundle.Faultf(SignatureInvalid, "", "the signature is not that of the key %s over this text", l.Fingerprint)}, nil
	}
	return trust, nil, nil
}

// check runs layer 6.
func (m *Manifest) check(id, p string) (faults []*bundle.Finding) {
	if m.ID != id {
		f := m.fault(BundleIDMismatch, "id", "the manifest is that of bundle %s, but it stands in the folder of %s", finding.QuoteMax(m.ID, 200), finding.QuoteMax(id, 200))
		faults = append(faults, f)
	}
	if !bundle.IsVersion(m.Version) {
		faults = append(faults, m.fault(VersionInvalid, "version", "the version %s is not SemVer 2.0.0, as 1.0.0 would be", finding.QuoteMax(m.Version, 80)))
	}
	if m.Entrypoint != "" && !slices.ContainsFunc(m.Entries, func(e Entry) bool { return ItemID(e.Path) == m.Entrypoint }) {
		faults = append(faults, m.fault(EntrypointMissing, "entrypoint", "the entrypoint %s is the id of no listed file", finding.QuoteMax(m.Entrypoint, 120)))
	}
	if m.hasDigest {
		if want := m.digest(); m.Digest != want {
			faults = append(faults, m.fault(ManifestDigestMismatch, "manifest_digest", "manifest_digest is %s, the manifest's content gives %s", finding.QuoteMax(m.Digest, 80), want))
		}
	}
	return at(p, faults...)
}

// coveredFolders are the folders in which an unlisted file is an extra one.
var coveredFolders = []string{".ai/directives", ".ai/tools", ".ai/knowledge", ".ai/config", ".ai/trusted_keys"}

// extra runs layer 8.
func (v *verifier) extra(m *Manifest) error {
	found, err := extraFiles(v.t, m, v.r.Name)
	for _, x := range found {
		if !x.link && portable.Mac(x.path) {
			v.r.Note(bundle.NoteMacFile, x.path, bundle.MacFile)
			continue
		}
		list(&v.r.FilesExtra, &v.r.More.Extra, x.path)
		if v.o.AllowExtra {
			v.r.Note(ExtraFile, x.path, "the manifest does not list it")
		} else {
			v.add(bundle.Faultf(ExtraFile, x.path, "the manifest does not list %s", finding.QuoteMax(x.path, 200)))
		}
		if x.link {
			v.add(bundle.Faultf(SymlinkFound, x.path, "a link stands where a bundle may have files and folders only"))
		}
	}
	return err
}

type extraFile struct {
	path string
	link bool
}

// extraFiles returns what stands in the covered folders and beside the
// manifest of bundle id without being listed, folders aside.
func extraFiles(t bundle.Source, m *Manifest, id string) (found []extraFile, err error) {
	own := ManifestPath(id)
	listed := make(map[string]bool, len(m.Entries)+1)
	listed[own] = true
	for _, e := range m.Entries {
		listed[e.Path] = true
	}
	for _, top := range append(slices.Clone(coveredFolders), path.Dir(own)) {
		it, err := t.Lstat(top)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = walkFiles(t, top, it, func(p string, it bundle.Item) error {
			if !listed[p] {
				found = append(found, extraFile{p, it.Kind == bundle.KindSymlink})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// maxWalk bounds the bytes of a path below which files are looked for. No file
// system holds longer ones, but a commit's tree can.
const maxWalk = 4096

// walkFiles calls fn for name and everything below it that is not a folder,
// sorted by path component. A folder whose name is not UTF-8, or whose path is
// too long, is handed over as it is: no path in a manifest names what it holds.
func walkFiles(t bundle.Source, name string, it bundle.Item, fn func(p string, it bundle.Item) error) error {
	if it.Kind != bundle.KindDir || !utf8.ValidString(it.Name) || len(name) > maxWalk {
		return fn(name, it)
	}
	list, err := t.ReadDir(name)
	if err != nil {
		return fmt.Errorf("reading %s: %w", finding.Path(name), err)
	}
	for _, child := range list {
		if err := walkFiles(t, name+"/"+child.Name, child, fn); err != nil {
			return err
		}
	}
	return nil
}

// hasHead reports whether a tree has the manifest of a HEAD bundle.
func hasHead(t bundle.Source) (bool, error) {
	_, code, err := lookup(t, headManifest, nil)
	return code != FileMissing, err
}
