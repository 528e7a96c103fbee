package rye

import (
	"github.com/rigward/rigward/pkg/bundle"
)

// A Difference is what Diff found between two bundles.
type Difference struct {
	Status  string          `json:"status"` // "equal", "different" or "failed"
	Fields  []FieldChange   `json:"fields"` // of the manifests
	Files   []bundle.Change `json:"files"`  // of the listed files as they are, not as they are listed
	DigestA string          `json:"manifest_digest_a,omitempty"`
	DigestB string          `json:"manifest_digest_b,omitempty"`
	Code    []string        `json:"code"` // why a side cannot be compared

	Findings []*bundle.Finding `json:"-"`
}

// A FieldChange is one value of a manifest that differs: a field of the bundle
// section, or "files[PATH].inline_signed".
type FieldChange struct {
	Field string `json:"field"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// Diff compares the manifests and the listed files of two bundles. Neither is
// verified; an id "" takes the only bundle of a side.
func Diff(a bundle.Source, idA string, b bundle.Source, idB string) (*Difference, error) {
	d := &Difference{Status: "failed", Fields: []FieldChange{}, Files: []bundle.Change{}, Code: []string{}}
	ma, _, fa, err := readBundle(a, idA)
	if err != nil {
		return nil, err
	}
	mb, _, fb, err := readBundle(b, idB)
	if err != nil {
		return nil, err
	}
	if d.Findings = append(fa, fb...); len(d.Findings) > 0 {
		for _, f := range d.Findings {
			d.Code = append(d.Code, f.Code)
		}
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
	d.Status = "equal"
	if len(d.Fields)+len(d.Files) > 0 {
		d.Status = "different"
	}
	return d, nil
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
