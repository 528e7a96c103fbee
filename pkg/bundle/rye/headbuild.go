package rye

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"gopkg.in/yaml.v3"
)

// headFile is a file below .ai that belongs to a HEAD bundle.
type headFile struct {
	path string
	item bundle.Item
}

// headFiles lists the files of a HEAD bundle but its manifest and the source of
// that, sorted. leftOut are the folders that create leaves out; nil takes all.
// mac are files of macOS, which are no part of the bundle, and folders of them.
func headFiles(t bundle.Source, leftOut, mac func(name string)) (files []headFile, err error) {
	if code, err := folderPath(t, ".ai"); err != nil || code != "" {
		return nil, err
	}
	return files, bundle.WalkSource(t, ".ai", func(p string, it bundle.Item) error {
		switch {
		case bundle.LeftByMac(p, it):
			mac(p)
			if it.Kind == bundle.KindDir {
				return fs.SkipDir
			}
			return nil
		case p == headManifest || p == headSource && it.Kind == bundle.KindFile:
			return nil
		case it.Kind == bundle.KindDir && leftOut != nil && slices.Contains(leftOutFolders, it.Name):
			leftOut(p + "/")
			return fs.SkipDir
		case it.Kind != bundle.KindDir:
			files = append(files, headFile{p, it})
		}
		return nil
	})
}

// headPathFault judges the path of a file of a HEAD bundle: safe, and in none of
// the folders in which spaces keep what is installed.
func headPathFault(p string) *bundle.Finding {
	if f := pathUnsafe(p); f != nil {
		return f
	}
	if len(p) > MaxPath {
		return bundle.Faultf(LimitExceeded, p, "the path has %d bytes, the limit is %d", len(p), MaxPath)
	}
	if strings.HasPrefix(strings.ToLower(p), ".ai/bundles/") || strings.EqualFold(path.Base(p), lockName) {
		return bundle.Faultf(PathNotCovered, p, "a bundle can hold no file of another one")
	}
	return nil
}

// headKeys are the keys of a HEAD manifest in writing order; the first four are
// required.
var headKeys = []string{"name", "version", "provides_kinds", "requires_kinds", "description", "uses_kinds", "runtime_authority", "smoke", "shadows", "isolation_backends"}

// headBody makes the body of a HEAD manifest from manifest.source.yaml, where
// there is one, and from what the caller says instead.
func headBody(source []byte, o CreateOptions) (id, version string, body []byte, faults []*bundle.Finding) {
	values := map[string]*yaml.Node{}
	wrong := func(n *yaml.Node, format string, args ...any) {
		f := bundle.Faultf(ManifestMalformed, headSource, format, args...)
		if n != nil {
			f.Line = n.Line
		}
		faults = append(faults, f)
	}
	if source != nil {
		root, deep, bad := parseYAML(source)
		for _, f := range bad {
			f.Path = headSource
			if f.Line > 0 {
				f.Line-- // it has no signature line
			}
		}
		if len(bad) > 0 {
			return "", "", nil, bad
		}
		if deep || root.Kind != yaml.MappingNode {
			wrong(root, "the source of the manifest is no mapping, or too deep")
			return "", "", nil, faults
		}
		for i := 0; i+1 < len(root.Content); i += 2 {
			if k := root.Content[i]; slices.Contains(headKeys, k.Value) {
				values[k.Value] = root.Content[i+1]
			} else {
				wrong(k, "the source of the manifest has the key %s, which a manifest of this generation can't have", finding.QuoteMax(k.Value, 60))
			}
		}
	}
	for key, v := range map[string]string{"name": o.ID, "version": o.Version, "description": o.Description} {
		if v != "" {
			values[key] = scalarNode(v)
		}
	}
	for _, key := range []string{"provides_kinds", "requires_kinds"} {
		if values[key] == nil {
			values[key] = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		}
		if n := values[key]; n.Kind != yaml.SequenceNode || slices.ContainsFunc(n.Content, func(k *yaml.Node) bool { return k.Kind != yaml.ScalarNode }) {
			wrong(values[key], "%s is no list of texts", key)
		}
	}
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range headKeys {
		n := values[key]
		switch {
		case n == nil:
			continue
		case (key == "name" || key == "version" || key == "description") && n.Kind != yaml.ScalarNode:
			wrong(n, "%s is no text", key)
			continue
		case key == "name" || key == "version" || key == "description":
			n = scalarNode(n.Value)
		}
		out.Content = append(out.Content, scalarNode(key), n)
	}
	if n := values["name"]; n != nil {
		id = n.Value
	}
	if n := values["version"]; n != nil {
		version = n.Value
	}
	if !ValidID(id) || strings.Contains(id, "/") {
		faults = append(faults, bundle.Faultf(BundleIDInvalid, headManifest, "the name %s %s, or has more than one", finding.QuoteMax(id, 200), idGrammar))
	}
	if !bundle.IsVersion(version) {
		faults = append(faults, bundle.Faultf(VersionInvalid, headManifest, "the version %s is not SemVer 2.0.0, as 1.0.0 would be", finding.QuoteMax(version, 80)))
	}
	if len(faults) > 0 {
		return id, version, nil, faults
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(out); err != nil {
		wrong(nil, "the manifest can't be written: %v", err)
	}
	enc.Close()
	return id, version, b.Bytes(), faults
}

func scalarNode(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// CreateHead makes the signed manifest of a bundle of the HEAD generation from
// .ai/manifest.source.yaml, if there is one, and from what the options say
// instead of it. Every file below .ai carries a signature of its own: SignItems
// writes them.
func CreateHead(ctx context.Context, t bundle.Source, o CreateOptions) (*Creation, error) {
	t = bundle.WithContext(ctx, t)
	out := &Creation{Result: bundle.NewResult("create"), Status: "created", ID: o.ID, Signed: []string{}, LeftOut: []string{}, Items: map[string][]byte{}, Path: headManifest}
	refuse := func(faults []*bundle.Finding) (*Creation, error) {
		out := &Creation{Result: out.Result, Status: "refused", ID: o.ID, Signed: []string{}, LeftOut: []string{}}
		out.Fail(addHints(faults)...)
		out.Finish()
		return out, nil
	}
	if o.Keys == nil {
		o.Keys = &Keyring{Bundle: t}
	}
	source, fault, err := readSmall(t, headSource, MaxManifest)
	if err != nil {
		return nil, err
	}
	if fault != nil {
		return refuse(asList(fault))
	}
	id, version, body, faults := headBody(source, o)
	if len(faults) > 0 {
		return refuse(faults)
	}
	files, err := headFiles(t, func(dir string) { out.LeftOut = append(out.LeftOut, dir) },
		func(name string) { out.Note(bundle.NoteIgnoredFile, name, bundle.MacFile) })
	if err != nil {
		return nil, err
	}
	m := &Manifest{ID: id, Version: version, head: true}
	c := &creator{t: t, o: o, out: out}
	for _, f := range files {
		e, err := c.headItem(f)
		if err != nil {
			return nil, err
		}
		m.Entries = append(m.Entries, e)
	}
	if c.add(checkHeadTree(m.paths())...); len(m.Entries) == 0 {
		c.add(bundle.Faultf(FilesEmpty, "", "there is no file below .ai that a bundle could have"))
	}
	if len(m.Entries) > MaxEntries {
		c.add(bundle.Faultf(LimitExceeded, "", "the bundle has %d files, the limit is %d", len(m.Entries), MaxEntries))
	}
	if len(c.faults) > 0 {
		return refuse(c.faults)
	}
	out.Manifest, out.ID, out.Name, out.Version, out.Files = m, id, id, version, len(m.Entries)
	out.Digest = m.digest()
	out.Identity, out.Signed = identity(out.Digest), append(out.Signed, slices.Sorted(maps.Keys(out.Items))...)
	out.Text = append([]byte(headSignature(lineFormat{prefix: "#", head: true}, body, o.Key, o.Time)), body...)
	if o.Publisher != "" {
		out.Trust = PublisherDocument(o.Key.Public().(ed25519.PublicKey), o.Publisher)
	}
	out.Finish()
	return out, nil
}

// checkHeadTree judges the paths of a HEAD bundle against each other.
func checkHeadTree(paths []string) (faults []*bundle.Finding) {
	var names []bundle.Name
	for _, p := range paths {
		names = append(names, bundle.Name{Path: p, Type: bundle.File})
	}
	return collisions(names)
}

// headItem checks the signature of one file, or writes it.
func (c *creator) headItem(f headFile) (e Entry, err error) {
	e.Path = f.path
	if fault := headPathFault(f.path); fault != nil {
		c.add(fault)
		return e, nil
	}
	format, ok := headFormatOf(f.path)
	switch {
	case f.item.Kind == bundle.KindSymlink:
		c.add(bundle.Faultf(SymlinkFound, f.path, "a link stands where a bundle may have files and folders only"))
		return e, nil
	case f.item.Kind != bundle.KindFile:
		c.add(bundle.Faultf(NotRegularFile, f.path, "only regular files can be part of a bundle"))
		return e, nil
	case !ok:
		c.add(bundle.Faultf(NoSignatureFormat, f.path, "every file of this generation must be signed, but one with the extension %s cannot be", finding.Quote(extension(f.path))))
		return e, nil
	}
	data, err := readFile(c.t, f.path, f.item.Size, MaxFile)
	if err != nil {
		return e, err
	}
	if data == nil {
		c.add(bundle.Faultf(LimitExceeded, f.path, "the file has more than %d bytes", MaxFile))
		return e, nil
	}
	if c.o.SignItems {
		signed, fault := SignHead(f.path, data, c.o.Key, c.o.Time)
		if fault != nil {
			c.add(fault)
			return e, nil
		}
		if !bytes.Equal(signed, data) {
			c.out.Items[f.path] = signed
			data = signed
		}
	}
	e.SHA256 = hexSum(data)
	s, fault := readText(data, format, TypeOf(f.path), false)
	if fault == nil {
		fault, err = c.headSigner(s.line)
	}
	if fault != nil {
		fault.Path = f.path
		if fault.Code == ItemUnsigned {
			fault.Hint = "--sign-items signs every file with the given key"
		}
		c.add(fault)
	}
	return e, err
}

// headSigner checks a signature against the signer's key, whoever that is.
func (c *creator) headSigner(l *Line) (*bundle.Finding, error) {
	key := c.o.Key.Public().(ed25519.PublicKey)
	if l.Fingerprint != LongFingerprint(key) {
		var err error
		if key, err = c.o.Keys.bytes(l.Fingerprint); err != nil {
			return nil, err
		}
		if key == nil {
			f := bundle.Faultf(UntrustedKey, "", "the item is signed by %s, whose key is nowhere to check the signature with", l.Fingerprint)
			f.Hint = "--trust-fingerprint ed25519:KEY names the key, --sign-items signs the item anew"
			return f, nil
		}
	}
	if !l.verifies(key) {
		return bundle.Faultf(SignatureInvalid, "", "the signature is not that of the key %s over this text", l.Fingerprint), nil
	}
	return nil, nil
}

// SignHead returns a file with the signature line of the HEAD generation, which
// replaces one of any generation that stands there. All bytes after the line
// are covered as they are.
func SignHead(name string, data []byte, key ed25519.PrivateKey, at time.Time) ([]byte, *bundle.Finding) {
	f, ok := headFormatOf(name)
	if !ok {
		return nil, bundle.Faultf(NoSignatureFormat, name, "a file with the extension %s cannot be signed", finding.Quote(extension(name)))
	}
	place := linePlace(data, f)
	line, whole := cutLine(data[place:])
	rest := data[place:]
	switch {
	case markerOf(line, f) != "" && whole:
		rest = rest[len(line)+1:]
	case markerOf(line, f) != "":
		rest = nil
	case misplaced(data, place, f):
		return nil, bundle.Faultf(SignatureMisplaced, name, "a signature line stands where none may stand: remove it before signing")
	}
	if isHeadManifestText(rest) {
		return nil, bundle.Faultf(ManifestMalformed, name, "the text reads as the manifest of a bundle, and whoever signs it signs that bundle: it has name, version and kinds at top level")
	}
	out := append([]byte{}, data[:place]...)
	if place == 0 && f.afterShebang != "" && bytes.HasPrefix(data, []byte(f.afterShebang)) { // a shebang without its line feed
		out, rest = append(bytes.Clone(data), '\n'), nil
	}
	out = append(out, headSignature(f, rest, key, at)...)
	return append(out, rest...), nil
}

// isHeadManifestText reports whether a text could stand as the body of a HEAD
// manifest.
func isHeadManifestText(text []byte) bool {
	if !bytes.Contains(text, []byte("name")) || !bytes.Contains(text, []byte("version")) || !bytes.Contains(text, []byte("_kinds")) {
		return false
	}
	root, _, _ := parseYAML(text)
	return child(root, "name") != nil && child(root, "version") != nil && (child(root, "provides_kinds") != nil || child(root, "requires_kinds") != nil)
}

// headSignature is the line that signs a text.
func headSignature(f lineFormat, hashed []byte, key ed25519.PrivateKey, at time.Time) string {
	hash := hexSum(hashed)
	return fmt.Sprintf("%s %s%s:%s:%s:%s%s\n", f.prefix, markerHead, at.UTC().Format("2006-01-02T15:04:05Z"), hash,
		base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(hash))), LongFingerprint(key.Public().(ed25519.PublicKey)), f.suffix)
}

// PublisherDocument is the PUBLISHER_TRUST.toml of a key: what a publisher of
// this generation ships beside .ai, for those who decide to trust it.
func PublisherDocument(key ed25519.PublicKey, owner string) []byte {
	return fmt.Appendf(nil, "public_key = \"ed25519:%s\"\nfingerprint = \"%s\"\nowner = %s\n",
		base64.StdEncoding.EncodeToString(key), LongFingerprint(key), tomlString(owner))
}

// readHead reads a HEAD bundle for comparison, unverified: what its manifest
// says of itself, and the files that are there.
func readHead(t bundle.Source) (m *Manifest, body []byte, faults []*bundle.Finding, err error) {
	data, fault, err := readSmall(t, headManifest, MaxManifest)
	if err != nil || fault != nil {
		return nil, nil, asList(fault), err
	}
	s, fault := readManifest(data, lineFormat{prefix: "#", head: true})
	if fault != nil {
		fault.Path = headManifest
		return nil, nil, asList(fault), nil
	}
	root, _, faults := parseYAML(s.hashed)
	if len(faults) == 0 {
		faults = headShape(root)
	}
	if len(faults) > 0 {
		for _, f := range faults {
			f.Path = headManifest
		}
		return nil, nil, faults, nil
	}
	m = &Manifest{ID: child(root, "name").Value, Version: child(root, "version").Value, head: true}
	if n := child(root, "description"); n != nil {
		m.Description = n.Value
	}
	files, err := headFiles(t, nil, func(string) {})
	if err != nil {
		return nil, nil, nil, err
	}
	for _, f := range files {
		if fault := headPathFault(f.path); fault != nil {
			faults = append(faults, fault)
			continue
		}
		if f.item.Kind != bundle.KindFile {
			continue
		}
		data, err := readFile(t, f.path, f.item.Size, MaxFile)
		if err != nil {
			return nil, nil, nil, err
		}
		if data != nil {
			m.Entries = append(m.Entries, Entry{Path: f.path, SHA256: hexSum(data), InlineSigned: true})
		}
	}
	return m, s.hashed, faults, nil
}
