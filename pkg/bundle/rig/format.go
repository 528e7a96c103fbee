package rig

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
)

// Ext ends the name of every bundle that Create writes.
const Ext = ".rigbundle"

// Namespace of detached signatures (spec/rigbundle.md section 4).
const Namespace = "rigbundle"

// Format is this format as gates and the command see it.
type Format struct{}

// Name implements bundle.Format.
func (Format) Name() string { return "rig" }

// Recognize takes archives with a bundle.yaml at their root, files with this
// format's name whose content could not be seen to its end, and RigSpecs.
func (Format) Recognize(p *bundle.Probe) bundle.Match {
	named := strings.HasSuffix(p.Base, Ext)
	switch {
	case p.Tree != nil:
		return bundle.NoMatch
	case p.Has(manifestName), named && !p.Complete:
		return bundle.ContentSure
	case p.Has("rig.yaml"):
		return bundle.ContentHint
	case named, p.Compression == bundle.Unknown && (path.Ext(p.Base) == ".yaml" || path.Ext(p.Base) == ".yml"):
		return bundle.NameMatch
	}
	return bundle.NoMatch
}

// Verify implements bundle.Format.
func (Format) Verify(ctx context.Context, in bundle.Input, o bundle.VerifyOptions) (*bundle.Verdict, error) {
	if in.File == nil {
		return nil, errors.New("a RigBundle is a file, not a directory")
	}
	v := VerifyOptions{AllowMissingDigest: !o.RequireChecksum, Strict: o.Strict, Only: o.Only}
	if o.Limits != (bundle.Limits{}) {
		v.Limits = &o.Limits
	}
	j, err := run(ctx, in, v, false)
	if err != nil {
		return nil, err
	}
	r := j.result("verify")
	j.verdict(r, v)
	return &bundle.Verdict{
		Code: r.Code, Message: r.Message, Findings: r.Findings, Notes: r.Notes,
		FileDigest: j.archive.FileDigest, TarDigest: j.archive.TarDigest, Name: r.Name, Version: r.Version,
	}, nil
}
