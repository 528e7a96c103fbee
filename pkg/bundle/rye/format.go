package rye

import (
	"context"
	"errors"

	"github.com/rigward/rigward/pkg/bundle"
)

// Format is this format as gates and the command see it. Stores and pins say
// whom it trusts: at a git gate the project's store is that of the old tip.
type Format struct {
	Stores []Store
	Pins   []Pin
}

// Name returns "rye".
func (*Format) Name() string { return "rye" }

// Recognize takes trees with a manifest of one of the generations.
func (*Format) Recognize(p *bundle.Probe) bundle.Match {
	if p.Tree == nil {
		return bundle.NoMatch
	}
	switch ids, head, err := Discover(p.Tree); {
	case err != nil:
		return bundle.NoMatch
	case head || len(ids) > 0:
		return bundle.ContentSure
	}
	if it, err := p.Tree.Lstat(".ai"); err == nil && it.Kind == bundle.KindDir {
		return bundle.ContentHint
	}
	return bundle.NoMatch
}

// Verify judges the only bundle of a tree by all rules of the format.
func (f *Format) Verify(ctx context.Context, in bundle.Input, _ bundle.VerifyOptions) (*bundle.Verdict, error) {
	if in.Tree == nil {
		return nil, errors.New("a Rye bundle is a folder, not a file")
	}
	r, err := Verify(in.Tree, Options{Keys: &Keyring{Pins: f.Pins, Stores: f.Stores, Bundle: in.Tree}})
	if err != nil {
		return nil, err
	}
	return r.Verdict(), ctx.Err()
}

// Verdict is the report in the form that all formats share. The format has no
// archive, so there is no digest of one.
func (r *Report) Verdict() *bundle.Verdict {
	v := &bundle.Verdict{Code: "ok", Message: "the bundle is verified", Notes: r.Notes, Name: r.ID}
	for _, f := range r.Findings {
		v.Findings = append(v.Findings, *f)
	}
	if len(r.Findings) > 0 {
		v.Code, v.Message = r.Findings[0].Code, r.Findings[0].Message
	}
	if r.Manifest != nil {
		v.Version = r.Manifest.Version
	}
	return v
}
