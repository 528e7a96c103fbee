package rye

import (
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
)

// A Rebuilt is what Rebuild found.
type Rebuilt struct {
	Status        string   `json:"status"` // "identical", "differs" or "failed"
	ID            string   `json:"bundle_id"`
	Digest        string   `json:"manifest_digest"`         // of the manifest that is there
	RebuiltDigest string   `json:"rebuilt_manifest_digest"` // of the one that its files give; "" if they give none
	SameBody      bool     `json:"same_body"`               // the rebuilt body has the same bytes
	Added         []string `json:"added"`                   // create would list them, the manifest does not
	Removed       []string `json:"removed"`                 // listed, but create would not
	Modified      []string `json:"modified"`                // listed otherwise than create would
	Code          []string `json:"code"`

	Findings []*bundle.Finding `json:"-"`
}

// Rebuild makes the manifest of a bundle anew from its files, with the id,
// version, entrypoint, description and time of the one that is there, and
// compares the two by manifest_digest, which does not depend on time and signer
// (spec/ryebundle.md section 8). No key is needed and no signature is made or
// checked: that is what Verify is for.
func Rebuild(t bundle.Source, id string) (*Rebuilt, error) {
	r := &Rebuilt{Status: "failed", ID: id, Added: []string{}, Removed: []string{}, Modified: []string{}, Code: []string{}}
	m, body, faults, err := readBundle(t, id)
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		r.fail(faults)
		return r, nil
	}
	r.ID, r.Digest = m.ID, m.digest()
	c := &creator{t: t, out: &Creation{}, unchecked: true}
	for _, top := range createFolders {
		if err := c.folder(top); err != nil {
			return nil, err
		}
	}
	if len(c.faults) > 0 {
		r.fail(c.faults)
		return r, nil
	}
	again := *m
	again.Entries = c.entries
	listed := make(map[string]Entry, len(m.Entries))
	for _, o := range m.Entries {
		listed[o.Path] = o
	}
	for i := range again.Entries {
		e := &again.Entries[i]
		o, ok := listed[e.Path]
		if !ok {
			r.Added = append(r.Added, e.Path)
			continue
		}
		delete(listed, e.Path)
		e.hasItemType = o.hasItemType
		if o.ObjectHash == "" {
			e.ObjectHash, e.SHA256 = "", c.sums[e.Path]
		} else if o.SHA256 != "" {
			e.SHA256 = c.sums[e.Path]
		}
		if e.ObjectHash != o.ObjectHash || e.SHA256 != o.SHA256 || e.InlineSigned != o.InlineSigned || o.fault != nil || o.hasItemType && o.ItemType != e.ItemType {
			r.Modified = append(r.Modified, e.Path)
		}
	}
	for p := range listed {
		r.Removed = append(r.Removed, p)
	}
	r.RebuiltDigest = again.digest()
	if again.hasDigest {
		again.Digest = r.RebuiltDigest
	}
	text, fault := again.emit()
	r.SameBody = fault == nil && string(text) == string(body)
	r.Status = "differs"
	if r.Digest == r.RebuiltDigest && len(r.Added)+len(r.Removed)+len(r.Modified) == 0 {
		r.Status = "identical"
	}
	for _, list := range [][]string{r.Added, r.Removed, r.Modified} {
		slices.SortFunc(list, strings.Compare)
	}
	return r, nil
}

func (r *Rebuilt) fail(fs []*bundle.Finding) {
	r.Findings = fs
	for _, f := range fs {
		r.Code = append(r.Code, f.Code)
	}
	slices.Sort(r.Code)
	r.Code = slices.Compact(r.Code)
}
