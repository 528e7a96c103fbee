package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
)

// Format is this format as gates and the command see it.
type Format struct{}

// Name returns "agent".
func (Format) Name() string { return "agent" }

// Recognize takes archives with a manifest.json at their root, and else files
// by their names.
func (Format) Recognize(p *bundle.Probe) bundle.Match {
	switch {
	case p.Tree != nil:
		if it, err := p.Tree.Lstat(ManifestName); err == nil && it.Kind == bundle.KindFile {
			return bundle.ContentHint
		}
		return bundle.NoMatch
	case p.Has(ManifestName) && strings.HasPrefix(p.Base, filePrefix):
		return bundle.Certain
	case p.Has(ManifestName):
		return bundle.ContentSure
	case strings.HasPrefix(p.Base, filePrefix), kindOf(p.Base) != "":
		return bundle.NameMatch
	}
	return bundle.NoMatch
}

// Verify judges an archive by all rules that need no target and no signers.
// The format has no starred notes, so that Strict changes nothing.
func (Format) Verify(ctx context.Context, in bundle.Input, o bundle.VerifyOptions) (*bundle.Verdict, error) {
	if in.File == nil {
		return nil, fmt.Errorf("an agent bundle is an archive, not a directory")
	}
	limits := o.Limits
	if limits == (bundle.Limits{}) {
		limits = DefaultLimits()
	}
	r, err := Verify(ctx, in.File, in.Size, in.Name, Options{Limits: limits, Proof: Proof{Sidecar: in.Checksum, RequireChecksum: o.RequireChecksum}})
	if err != nil {
		return nil, err
	}
	return r.Verdict(), nil
}

// Verdict is the result in the form that all formats share.
func (r *Result) Verdict() *bundle.Verdict {
	v := &bundle.Verdict{Code: r.Code(), Message: "the bundle is accepted", Notes: r.Notes}
	for _, f := range r.Findings {
		v.Findings = append(v.Findings, *f)
	}
	if len(r.Findings) > 0 {
		v.Message = r.Findings[0].Message
	}
	if a := r.Archive; a != nil {
		v.FileDigest, v.TarDigest = a.FileDigest, a.TarDigest
	}
	if m := r.Manifest; m != nil {
		v.Name, v.Version = m.Name, m.Version
	}
	return v
}
