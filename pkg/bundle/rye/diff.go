package rye

import (
	"context"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// A Difference is what Diff found between two bundles. Findings say why a side
// cannot be compared.
type Difference struct {
	bundle.Result
	Status  string          `json:"status"` // "equal", "different" or "failed"
	Fields  []FieldChange   `json:"fields"` // of the manifests
	Files   []bundle.Change `json:"files"`  // of the listed files as they are, not as they are listed
	DigestA string          `json:"manifest_digest_a,omitempty"`
	DigestB string          `json:"manifest_digest_b,omitempty"`
}

// A FieldChange is one value of a manifest that differs: a field of the bundle
// section, or "files[PATH].inline_signed".
type FieldChange struct {
	Field string `json:"field"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// Diff compares the manifests and the listed files of two bundles. Neither is
// verified; an id "" takes the only bundle of a side. texts asks for unified
// diffs.
func Diff(ctx context.Context, a bundle.Source, idA string, b bundle.Source, idB string, texts bool) (*Difference, error) {
	d := &Difference{Result: bundle.NewResult("diff"), Status: "failed", Fields: []FieldChange{}, Files: []bundle.Change{}}
	a, b = bundle.WithContext(ctx, a), bundle.WithContext(ctx, b)
	ma, _, fa, err := readBundle(a, idA)
	if err != nil {
		return nil, err
	}
	mb, _, fb, err := readBundle(b, idB)
	if err != nil {
		return nil, err
	}
	d.Fail(fa...)
	d.Fail(fb...)
	if d.Finish(); !d.OK() {
		return d, nil
	}
	d.DigestA, d.DigestB = ma.digest(), mb.digest()
	d.Fields = compareFields(ma, mb)
	na, err := nodes(a, ma)
	if err != nil {
		return nil, err
	}
	nb, err := nodes(b, mb)
	if err != nil {
		return nil, err
	}
	d.Files = append(d.Files, bundle.Compare(na, nb)...)
	mayA, err := capabilities(a, ma, na)
	if err != nil {
		return nil, err
	}
	mayB, err := capabilities(b, mb, nb)
	if err != nil {
		return nil, err
	}
	d.Capabilities = bundle.CompareCapabilities(mayA, mayB)
	if err := d.dependencies(a, b); err != nil {
		return nil, err
	}
	d.Status = "equal"
	if len(d.Fields)+len(d.Files) > 0 {
		d.Status = "different"
		d.Differs(bundle.ContentDiffers, "the bundles differ (files: %d, manifest fields: %d)", len(d.Files), len(d.Fields))
	}
	for _, f := range d.Fields {
		d.Changes = append(d.Changes, bundle.Change{Change: bundle.ManifestChange, Path: f.Field, Old: bundle.JSONText(f.A), New: bundle.JSONText(f.B)})
	}
	d.Changes = append(d.Changes, d.Files...)
	if texts {
		err = bundle.DiffTexts(d.Changes, listedTexts(a), listedTexts(b))
	}
	return d, err
}

// capabilities are what a bundle may do: its entry point, its tools with the packages
// that they ask for, and its programs.
func capabilities(t bundle.Source, m *Manifest, files []bundle.Node) (list []bundle.Capability, err error) {
	add := func(kind, where, text string) {
		list = append(list, bundle.Capability{Kind: kind, Where: where, Text: text})
	}
	if m.Entrypoint != "" {
		add("entry", "entrypoint", "starts "+finding.QuoteMax(m.Entrypoint, 200))
	}
	for _, n := range files {
		if n.Type != bundle.File {
			continue
		}
		if TypeOf(n.Path) == Tool {
			add("program", n.Path, "is a tool that agents run")
		} else if n.Mode&0o111 != 0 {
			add("program", n.Path, "may be run as a program")
		}
		data, code, err := load(t, n.Path, MaxFile, nil)
		if err != nil {
			return nil, err
		}
		if code == "" && bundle.IsBinary(data) {
			add("binary", n.Path, "is a compiled program")
		}
		deps, err := dependenciesAt(t, n.Path)
		if err != nil {
			return nil, err
		}
		if deps != nil && deps.text() != "" {
			add("needs", n.Path, "asks for the packages "+finding.QuoteMax(deps.text(), 500))
		}
	}
	return list, nil
}

// dependencies adds the lists of packages that tools ask for, where they
// differ, and notes each: what is installed before a tool runs is code, too.
func (d *Difference) dependencies(a, b bundle.Source) error {
	for _, f := range d.Files {
		x, err := dependenciesAt(a, f.Path)
		if err != nil {
			return err
		}
		y, err := dependenciesAt(b, f.Path)
		if err != nil {
			return err
		}
		if x.text() == y.text() {
			continue
		}
		d.Fields = append(d.Fields, FieldChange{"dependencies[" + f.Path + "]", x.text(), y.text()})
		d.Note(DependenciesChanged, f.Path, "the tool asked for the packages "+finding.QuoteMax(x.text(), 500)+", now for "+finding.QuoteMax(y.text(), 500))
	}
	d.Finish()
	return nil
}

// dependenciesAt reads those of one file; nil if it has none or is not there.
func dependenciesAt(t bundle.Source, p string) (*Dependencies, error) {
	if TypeOf(p) != Tool {
		return nil, nil
	}
	data, code, err := load(t, p, MaxFile, nil)
	if err != nil || code != "" {
		return nil, err
	}
	return toolDependencies(p, data), nil
}

// dependencies reads those of the tools among paths.
func dependencies(t bundle.Source, paths []string) ([]Dependencies, error) {
	list := []Dependencies{}
	for _, p := range paths {
		if bundle.CheckName(p) != nil {
			continue
		}
		d, err := dependenciesAt(t, p)
		if err != nil {
			return nil, err
		}
		if d != nil {
			list = append(list, *d)
		}
	}
	return list, nil
}

// listedTexts reads files for DiffTexts.
func listedTexts(t bundle.Source) func([]string) (map[string][]byte, error) {
	return func(names []string) (map[string][]byte, error) {
		got := map[string][]byte{}
		for _, p := range names {
			data, code, err := load(t, p, MaxFile, nil)
			if err != nil {
				return nil, err
			}
			if code == "" {
				got[p] = data
			}
		}
		return got, nil
	}
}

// compareFields lists the values that differ between two manifests, hashes
// aside: the files show those.
func compareFields(a, b *Manifest) []FieldChange {
	changes := []FieldChange{}
	one := func(field, x, y string) {
		if x != y {
			changes = append(changes, FieldChange{field, x, y})
		}
	}
	one("id", a.ID, b.ID)
	one("version", a.Version, b.Version)
	one("entrypoint", a.Entrypoint, b.Entrypoint)
	one("description", a.Description, b.Description)
	one("created_at", a.CreatedAt, b.CreatedAt)
	one("type", a.Type, b.Type)
	entries := make(map[string]Entry, len(a.Entries))
	for _, e := range a.Entries {
		entries[e.Path] = e
	}
	word := map[bool]string{true: "true", false: "false"}
	for _, e := range b.Entries {
		if old, ok := entries[e.Path]; ok {
			one("files["+e.Path+"].inline_signed", word[old.InlineSigned], word[e.InlineSigned])
		}
	}
	return changes
}
