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

// Namespace of detached signatures (docs/spec/rigbundle.md#identity).
const Namespace = "rigbundle"

// Format is this format as gates and the command see it. Source and Options
// say what is built; the tree of the source, and its RigSpec, are those of the
// Input.
type Format struct {
	Source      Source
	Options     Options
	IgnoreStamp bool // Diff leaves out created_at, provenance and assembler
	Start       bool // Install is to refuse what can't be started from the target
}

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

// source is the source that an input stands for.
func (f Format) source(ctx context.Context, in bundle.Input) *Source {
	s := f.Source
	s.Tree, s.Spec = bundle.WithContext(ctx, in.Tree), in.Name
	return &s
}

// Create implements bundle.Format.
func (f Format) Create(ctx context.Context, src bundle.Input, output string, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Create(ctx, f.source(ctx, src), f.Options, output, o))
}

// Verify implements bundle.Format.
func (Format) Verify(ctx context.Context, in bundle.Input, o bundle.Options) (*bundle.Result, error) {
	if in.File == nil {
		return nil, errors.New("a RigBundle is a file, not a directory")
	}
	return bundle.Base(Verify(ctx, in, o))
}

// Digest implements bundle.Format.
func (f Format) Digest(ctx context.Context, src bundle.Input, _ bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Digest(ctx, f.source(ctx, src), f.Options))
}

// Diff implements bundle.Format.
func (f Format) Diff(ctx context.Context, a, b bundle.Input, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Diff(ctx, a, b, f.IgnoreStamp, o))
}

// Rebuild implements bundle.Format. There is no bundle without a source.
func (f Format) Rebuild(ctx context.Context, src, against bundle.Input, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Rebuild(ctx, against, f.source(ctx, src), f.Options, o))
}

// Install implements bundle.Format.
func (f Format) Install(ctx context.Context, in bundle.Input, target string, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Install(ctx, in, target, f.Start, o))
}
