package rye

import (
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"gopkg.in/yaml.v3"
)

// headManifest and headSource are the files of a HEAD bundle that are not
// items.
const (
	headManifest = ".ai/manifest.yaml"
	headSource   = ".ai/manifest.source.yaml"
)

// runHead verifies a bundle of the HEAD generation (docs/spec/ryebundle.md#head-generation),
// which lists no files: every one must carry a signature of its own.
func (v *verifier) runHead() error {
	body, err := v.authenticate(headManifest, headHashLine)
	if body == nil || err != nil {
		return err
	}
	m, faults := parseHead(body, headManifest)
	if len(faults) > 0 {
		v.add(faults...)
		return nil
	}
	v.r.Note(NoFileList, headManifest, "this generation lists no files: whether signed items were lost, added or swapped cannot be seen")
	if v.o.ID != "" && m.ID != v.o.ID {
		faults = append(faults, bundle.Faultf(BundleIDMismatch, headManifest, "the manifest is that of %s, expected %s", finding.QuoteMax(m.ID, 200), finding.QuoteMax(v.o.ID, 200)))
	}
	if !bundle.IsVersion(m.Version) {
		faults = append(faults, bundle.Faultf(VersionInvalid, headManifest, "the version %s is not SemVer 2.0.0, as 1.0.0 would be", finding.QuoteMax(m.Version, 80)))
	}
	v.r.Name, v.r.Version = m.ID, m.Version
	v.r.ManifestValid = len(faults) == 0
	v.add(faults...)
	return walkFiles(v.t, ".ai", bundle.Item{Name: ".ai", Kind: bundle.KindDir}, func(p string, it bundle.Item) error {
		if p == headManifest || p == headSource && it.Kind == bundle.KindFile {
			return nil
		}
		if it.Kind == bundle.KindFile && portable.Mac(p) {
			v.r.Note(bundle.NoteMacFile, p, bundle.MacFile)
			return nil
		}
		v.r.FilesChecked++
		faults, err := v.headItem(p, it)
		if err != nil {
			return err
		}
		if len(faults) > 0 {
			v.tampered(p)
			v.add(faults...)
		}
		return nil
	})
}

// parseHead reads the body of a HEAD manifest, which stands at p: its name, its
// version and its description.
func parseHead(body []byte, p string) (*Manifest, []*bundle.Finding) {
	root, deep, faults := parseYAML(body)
	m := &Manifest{head: true}
	for key, to := range map[string]*string{"name": &m.ID, "version": &m.Version, "description": &m.Description} {
		n := child(root, key)
		if n != nil && n.Kind == yaml.ScalarNode {
			*to = n.Value
		} else if key != "description" && len(faults) == 0 {
			f := bundle.Faultf(ManifestMalformed, "", "the manifest has no text %s", key)
			f.Field = key
			faults = append(faults, f)
		}
	}
	switch {
	case len(faults) > 0:
	case deep:
		faults = []*bundle.Finding{bundle.Faultf(LimitExceeded, "", "the manifest nests YAML collections more than %d deep", MaxNesting)}
	case !ValidID(m.ID):
		faults = []*bundle.Finding{bundle.Faultf(BundleIDInvalid, "", "the name %s %s", finding.QuoteMax(m.ID, 200), idGrammar)}
	}
	return m, at(p, faults...)
}

// headFormat returns the signature format of a file of a HEAD bundle, or why it
// cannot be one.
func headFormat(p string, it bundle.Item) (f lineFormat, fault *bundle.Finding) {
	if fault := headPathFault(p); fault != nil {
		return f, fault
	}
	f, ok := headFormatOf(p)
	switch {
	case it.Kind == bundle.KindSymlink:
		fault = bundle.Faultf(SymlinkFound, p, "a link stands where a bundle may have files and folders only")
	case it.Kind != bundle.KindFile:
		fault = bundle.Faultf(NotRegularFile, p, "only regular files can be part of a bundle")
	case !ok:
		fault = bundle.Faultf(NoSignatureFormat, p, "every file of this generation must be signed, but one with the extension %s cannot be", finding.Quote(extension(p)))
	}
	return f, fault
}

// headItem verifies one file of a HEAD bundle.
func (v *verifier) headItem(p string, it bundle.Item) ([]*bundle.Finding, error) {
	f, fault := headFormat(p, it)
	if fault != nil {
		return []*bundle.Finding{fault}, nil
	}
	data, err := readFile(v.t, p, it.Size, MaxFile)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return []*bundle.Finding{tooLarge(p)}, nil
	}
	v.r.hashes[p] = hexSum(data)
	_, _, faults, err := verifyText(data, f, TypeOf(p), false, v.o.Keys)
	if len(faults) == 0 && err == nil {
		v.screen(p, data)
	}
	return at(p, faults...), err
}
