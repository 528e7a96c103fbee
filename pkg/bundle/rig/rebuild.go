package rig

import (
	"context"

	"github.com/rigward/rigward/pkg/bundle"
)

// Rebuilt is what rebuild tells (docs/spec/rigbundle.md#rebuild).
type Rebuilt struct {
	bundle.Result
	Rebuilt  bundle.Digest `json:"rebuilt_tar_digest,omitzero"`
	Form     string        `json:"form,omitempty"`
	Drift    []Drift       `json:"drift"`
	Manifest []FieldChange `json:"manifest"`
}

// Drift is one difference from the committed bundle to the rebuilt one.
type Drift struct {
	Change string `json:"change"`
	Path   string `json:"path"`
}

// Stamps are what a rebuild takes over from a bundle that exists: stamps,
// unknown fields, and, where the options do not set them, name and version.
type Stamps struct{ man *manifest }

// Stamps are those of the bundle that was judged; nil if it has no manifest
// that could be read.
func (r *Result) Stamps() *Stamps {
	if r.man == nil {
		return nil
	}
	return &Stamps{r.man}
}

// Digest assembles a bundle as [Create] does and tells the digest of its tar
// stream as Identity, or the faults of the source. No file is written or
// verified.
func Digest(ctx context.Context, src *Source, o Options) (*Result, error) {
	if o.Form == "" {
		o.Form = FormRigward
	}
	a, faults, err := assemble(ctx, src, &o)
	if err != nil {
		return nil, err
	}
	r := newResult("digest")
	if r.Fail(faults...); !r.OK() {
		return r, nil
	}
	done, err := a.tarDigest(ctx)
	r.TarDigest, r.Identity = done.TarDigest, done.TarDigest
	return r, err
}

// Rebuild verifies a committed bundle, assembles its source with the stamps
// and unknown fields of its manifest, and compares the tar digests: first in
// the default form, then in the older one; form tries one only.
func Rebuild(ctx context.Context, against bundle.Input, src *Source, o Options, v bundle.Options) (*Rebuilt, error) {
	r := &Rebuilt{Result: bundle.NewResult("rebuild"), Drift: []Drift{}, Manifest: []FieldChange{}}
	r.File = against.Name
	v.RequireChecksum = false
	j, err := run(ctx, against, v, false)
	if err != nil {
		return nil, err
	}
	res := j.result("rebuild")
	j.verdict(res, v)
	r.FileDigest, r.TarDigest, r.Name, r.Version = res.FileDigest, res.TarDigest, res.Name, res.Version
	r.TellAs(&res.Result)
	if r.Fail(res.Findings...); !res.OK() {
		r.Message = res.Message
		return r, nil
	}
	o.Stamps = &Stamps{j.man}
	forms := []string{FormRigward, FormOpenRig}
	if o.Form != "" {
		forms = []string{o.Form}
	}
	for i, form := range forms {
		o.Form = form
		a, faults, err := assemble(ctx, src, &o)
		if err != nil {
			return nil, err
		}
		if len(faults) > 0 {
			if i > 0 { // the default form was assembled: its drift stands
				break
			}
			r.Fail(faults...)
			return r, nil
		}
		done, err := a.tarDigest(ctx)
		if err != nil {
			return nil, err
		}
		if done.TarDigest == j.archive.TarDigest {
			r.Form, r.Rebuilt, r.Identity = form, done.TarDigest, done.TarDigest
			r.Drift, r.Manifest, r.Changes = []Drift{}, []FieldChange{}, nil
			r.Code, r.Message, r.Findings = bundle.OK, "the bundle matches its source, form "+form, []*bundle.Finding{}
			return r, nil
		}
		if i == 0 {
			r.Form, r.Rebuilt, r.Identity = form, done.TarDigest, done.TarDigest
			r.differs(j, a)
		}
	}
	return r, nil
}

// differs fills in how the rebuilt bundle departs from the committed one.
func (r *Rebuilt) differs(j *judge, a *assembly) {
	var rebuilt []bundle.Node
	for _, f := range a.files {
		if f.dest != manifestName {
			n := bundle.Node{Path: f.dest, Type: bundle.File, Mode: f.mode, Size: f.size, SHA256: f.hash}
			if f.have {
				n.Size = int64(len(f.content))
			}
			rebuilt = append(rebuilt, n)
		}
	}
	modesOnly := true
	r.Changes = fileChanges(nodesOf(j.archive), rebuilt)
	for _, c := range r.Changes {
		r.Drift = append(r.Drift, Drift{c.Change, c.Path})
		modesOnly = modesOnly && c.Change == "mode"
	}
	r.Manifest = diffManifests(j.man.root, a.manifestNode(), false)
	r.Changes = append(fieldChanges(r.Manifest), r.Changes...)
	if len(r.Drift) == 0 && len(r.Manifest) == 0 {
		r.Drift = append(r.Drift, Drift{"container", manifestName})
		modesOnly = false
	}
	f := bundle.Faultf(bundle.TarDiffers, "", "the source gives another bundle (files that differ: %d, manifest fields: %d)", len(r.Drift), len(r.Manifest))
	if modesOnly && len(r.Manifest) == 0 && len(r.Drift) > 0 {
		f.Hint = "only modes differ; --form openrig-0.4 rebuilds the form without them"
	}
	r.Fail(f)
}
