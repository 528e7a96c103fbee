package rye

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

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
func headFiles(t bundle.Source, leftOut func(name string), beside func(name, why string)) (files []headFile, err error) {
	if code, err := folderPath(t, ".ai"); err != nil || code != "" {
		return nil, err
	}
	return files, bundle.WalkSource(t, ".ai", func(p string, it bundle.Item) error {
		why := bundle.LeftBeside(p, it)
		switch {
		case why != "":
			beside(p, why)
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
	if f := sourceLimits.CheckPath(p); f != nil {
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
		for _, f := range at(headSource, bad...) {
			if f.Line > 0 {
				f.Line-- // it has no signature line
			}
		}
		if len(bad) > 0 {
			return "", "", nil, bad
		}
		if deep || root.Kind != yaml.MappingNode {
			wrong(root, "the source of the manifest is not a mapping, or too deep")
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
			wrong(values[key], "%s is not a list of texts", key)
		}
	}
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range headKeys {
		n := values[key]
		switch {
		case n == nil:
			continue
		case (key == "name" || key == "version" || key == "description") && n.Kind != yaml.ScalarNode:
			wrong(n, "%s is not text", key)
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

// createHead makes the signed manifest of a bundle of the HEAD generation from
// .ai/manifest.source.yaml, if there is one, and from what the options say
// instead of it. Every file below .ai carries a signature of its own: SignItems
// writes them.
func (c *creator) createHead() error {
	source, fault, err := readSmall(c.t, headSource, MaxManifest)
	if err != nil {
		return err
	}
	var body []byte
	m := &Manifest{head: true}
	if c.add(fault); fault == nil {
		var faults []*bundle.Finding
		m.ID, m.Version, body, faults = headBody(source, c.o)
		c.add(faults...)
	}
	if len(c.faults) > 0 {
		return nil
	}
	files, err := headFiles(c.t, func(dir string) { c.out.LeftOut = append(c.out.LeftOut, dir) },
		func(name, why string) { c.out.Note(bundle.NoteIgnoredFile, name, why) })
	if err != nil {
		return err
	}
	for _, f := range files {
		e, err := c.headItem(f)
		if err != nil {
			return err
		}
		m.Entries = append(m.Entries, e)
	}
	if c.add(checkHeadTree(m.paths())...); len(m.Entries) == 0 {
		c.add(bundle.Faultf(FilesEmpty, "", "there is no file below .ai that a bundle could have"))
	}
	if len(c.faults) > 0 {
		return nil
	}
	if c.o.Publisher != "" {
		c.out.Trust = PublisherDocument(c.o.Key.Public().(ed25519.PublicKey), c.o.Publisher)
	}
	c.made(m, headHashLine, body)
	return nil
}

// checkHeadTree judges the number of a HEAD bundle's files, and their paths
// against each other.
func checkHeadTree(paths []string) (faults []*bundle.Finding) {
	if faults = collisions(paths); len(paths) > MaxEntries {
		faults = append(faults, bundle.Faultf(LimitExceeded, "", "the bundle has %d files, the limit is %d", len(paths), MaxEntries))
	}
	return faults
}

// headItem checks the signature of one file, or writes it.
func (c *creator) headItem(f headFile) (e Entry, err error) {
	e.Path = f.path
	format, fault := headFormat(f.path, f.item)
	if fault != nil {
		c.add(fault)
		return e, nil
	}
	data, err := c.content(f.path, f.item, c.o.SignItems, func(data []byte) ([]byte, *bundle.Finding) {
		return SignHead(f.path, data, c.o.Key, c.o.Time)
	})
	if data == nil {
		return e, err
	}
	c.screen(f.path, data)
	e.SHA256 = hexSum(data)
	s, fault := readText(data, format, TypeOf(f.path), false)
	if fault == nil {
		fault, err = c.signedBy(s.line)
	}
	if fault != nil && fault.Code == ItemUnsigned {
		fault.Hint = "--sign-items signs every file with the given key"
	}
	c.add(at(f.path, fault)...)
	return e, err
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
	s, fault := readManifest(data, headHashLine)
	if fault != nil {
		return nil, nil, at(headManifest, fault), nil
	}
	if m, faults = parseHead(s.hashed, headManifest); len(faults) > 0 {
		return nil, nil, faults, nil
	}
	files, err := headFiles(t, nil, func(string, string) {})
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
