package rye

import (
	"context"
	"slices"

	"github.com/rigward/rigward/pkg/bundle"
)

// A Rebuilt is what Rebuild found.
type Rebuilt struct {
	bundle.Result
	Status        string   `json:"status"` // "identical", "differs" or "failed"
	ID            string   `json:"bundle_id"`
	Digest        string   `json:"manifest_digest"`         // of the manifest that is there
	RebuiltDigest string   `json:"rebuilt_manifest_digest"` // of the one that its files give; "" if they give none
	SameBody      bool     `json:"same_body"`               // the rebuilt body has the same bytes
	Added         []string `json:"added"`                   // create would list them, the manifest does not
	Removed       []string `json:"removed"`                 // listed, but create would not
	Modified      []string `json:"modified"`                // listed otherwise than create would
}

// Rebuild makes the manifest of a bundle anew from its files, with the id,
// version, entrypoint, description and time of the one that is there, and
// compares the two by manifest_digest, which does not depend on time and signer
// (docs/spec/ryebundle.md#manifest). No key is needed and no signature is made or
// checked: that is what Verify is for.
func Rebuild(ctx context.Context, t bundle.Source, id string) (*Rebuilt, error) {
	t = bundle.WithContext(ctx, t)
	r := &Rebuilt{Result: bundle.NewResult("rebuild"), Status: "failed", ID: id, Added: []string{}, Removed: []string{}, Modified: []string{}}
	m, body, faults, err := readBundle(t, id)
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		r.Fail(faults...)
		r.Finish()
		return r, nil
	}
	r.ID, r.Name, r.Version, r.Digest = m.ID, m.ID, m.Version, m.digest()
	if m.head {
		return r, r.head(t, m, body)
	}
	c := &creator{t: t, out: &Creation{}, unchecked: true}
	for _, top := range createFolders {
		if err := c.folder(top); err != nil {
			return nil, err
		}
	}
	if len(c.faults) > 0 {
		r.Fail(c.faults...)
		r.Finish()
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
	r.Identity = identity(r.RebuiltDigest)
	if again.hasDigest {
		again.Digest = r.RebuiltDigest
	}
	text, fault := again.emit()
	r.SameBody = fault == nil && string(text) == string(body)
	for _, list := range []struct {
		kind  string
		paths []string
	}{{"added", r.Added}, {"removed", r.Removed}, {"modified", r.Modified}} {
		slices.Sort(list.paths)
		for _, p := range list.paths {
			r.Changes = append(r.Changes, bundle.Change{Change: list.kind, Path: p})
		}
	}
	r.Status, r.Message = "identical", "the manifest is what its files give"
	if r.Digest != r.RebuiltDigest || len(r.Changes) > 0 {
		r.Status = "differs"
		r.Differs(bundle.ContentDiffers, "the files give another manifest (files that differ: %d)", len(r.Changes))
	}
	return r, nil
}

// head makes the manifest of a HEAD bundle anew from the source of it. Such a
// manifest says nothing of files, so that only its own words can differ.
func (r *Rebuilt) head(t bundle.Source, m *Manifest, body []byte) error {
	source, fault, err := readSmall(t, headSource, MaxManifest)
	if err != nil {
		return err
	}
	if source == nil && fault == nil {
		fault = bundle.Faultf(FormatUnsupported, headManifest, "there is no %s to make the manifest from", headSource)
	}
	var again []byte
	faults := asList(fault)
	if fault == nil {
		_, _, again, faults = headBody(source, CreateOptions{})
	}
	if r.Fail(faults...); len(faults) > 0 {
		r.Finish()
		return nil
	}
	r.RebuiltDigest, r.Identity, r.SameBody = r.Digest, identity(r.Digest), string(again) == string(body)
	r.Status, r.Message = "identical", "the manifest is what its source gives"
	if !r.SameBody {
		r.Status, r.RebuiltDigest = "differs", ""
		r.Modified = append(r.Modified, headManifest)
		r.Changes = append(r.Changes, bundle.Change{Change: "modified", Path: headManifest})
		r.Differs(bundle.ContentDiffers, "the source gives another manifest")
	}
	return nil
}

// identity is the digest of a manifest as results hold it.
func identity(hex string) bundle.Digest {
	d, _ := bundle.ParseHex(hex) // what digest returns
	return d
}
