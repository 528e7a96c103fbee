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

// runHead verifies a bundle of the HEAD generation (spec/ryebundle.md section
// 12), which lists no files: every one must carry a signature of its own.
func (v *verifier) runHead() error {
	body, err := v.authenticate(headManifest, lineFormat{prefix: "#", head: true})
	if body == nil || err != nil {
		return err
	}
	root, deep, faults := parseYAML(body)
	if len(faults) == 0 {
		faults = headShape(root)
	}
	if len(faults) == 0 && deep {
		faults = []*bundle.Finding{bundle.Faultf(LimitExceeded, "", "the manifest nests YAML collections more than %d deep", MaxNesting)}
	}
	var name, version string
	if len(faults) == 0 {
		name, version = child(root, "name").Value, child(root, "version").Value
		if !ValidID(name) {
			faults = []*bundle.Finding{bundle.Faultf(BundleIDInvalid, "", "the name %s %s", finding.QuoteMax(name, 200), idGrammar)}
		}
	}
	if len(faults) > 0 {
		for _, f := range faults {
			f.Path = headManifest
		}
		v.add(faults...)
		return nil
	}
	v.r.Note(NoFileList, headManifest, "this generation lists no files: whether signed items were lost, added or swapped cannot be seen")
	if v.o.ID != "" && name != v.o.ID {
		faults = append(faults, bundle.Faultf(BundleIDMismatch, headManifest, "the manifest is that of %s, expected %s", finding.QuoteMax(name, 200), finding.QuoteMax(v.o.ID, 200)))
	}
	if !bundle.IsVersion(version) {
		faults = append(faults, bundle.Faultf(VersionInvalid, headManifest, "the version %s is not SemVer 2.0.0, as 1.0.0 would be", finding.QuoteMax(version, 80)))
	}
	v.r.Name, v.r.Version = name, version
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
			v.r.FilesTampered = append(v.r.FilesTampered, p)
			v.add(faults...)
		}
		return nil
	})
}

// headShape checks that the manifest has a name and a version.
func headShape(root *yaml.Node) (faults []*bundle.Finding) {
	for _, key := range []string{"name", "version"} {
		if n := child(root, key); n == nil || n.Kind != yaml.ScalarNode {
			f := bundle.Faultf(ManifestMalformed, "", "the manifest has no text %s", key)
			f.Field = key
			faults = append(faults, f)
		}
	}
	return faults
}

// headItem verifies one file of a HEAD bundle.
func (v *verifier) headItem(p string, it bundle.Item) ([]*bundle.Finding, error) {
	one := func(code, format string, args ...any) ([]*bundle.Finding, error) {
		return []*bundle.Finding{bundle.Faultf(code, p, format, args...)}, nil
	}
	if fault := headPathFault(p); fault != nil {
		return []*bundle.Finding{fault}, nil
	}
	switch {
	case it.Kind == bundle.KindSymlink:
		return one(SymlinkFound, "a link stands where a bundle may have files and folders only")
	case it.Kind != bundle.KindFile:
		return one(NotRegularFile, "only regular files can be signed")
	}
	f, ok := headFormatOf(p)
	if !ok {
		return one(NoSignatureFormat, "every file of this generation must be signed, but one with the extension %s cannot be", finding.Quote(extension(p)))
	}
	data, err := readFile(v.t, p, it.Size, MaxFile)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return one(LimitExceeded, "the file has more than %d bytes", MaxFile)
	}
	v.r.hashes[p] = hexSum(data)
	_, _, faults, err := verifyText(data, f, TypeOf(p), false, v.o.Keys)
	for _, f := range faults {
		if f.Path == "" {
			f.Path = p
		}
	}
	return faults, err
}
