package agent

import (
	"context"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
)

// Format is this format as gates and the command see it, with what only it
// asks for.
type Format struct {
	Target  *Target  // for which a bundle must be made (docs/spec/agentbundle.md#target), nil for any
	Runtime *Runtime // with Target: what the base image brings
	AnyName bool     // the file name is not judged

	Compression bundle.Compression // of Create: Gzip or Zstd; Unknown goes by the output's name
	ModTime     int64              // of all that is written, in seconds since 1970
	Base        string             // of Install: the image that CheckBase accepts
}

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

// Create implements bundle.Format.
func (f Format) Create(ctx context.Context, src bundle.Input, output string, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Create(ctx, src.Tree, output, f, o))
}

// Verify implements bundle.Format. There are no starred notes, so that Strict
// changes nothing.
func (f Format) Verify(ctx context.Context, in bundle.Input, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Verify(ctx, in, f, o))
}

// Digest implements bundle.Format. The bundle as a whole is not judged.
func (f Format) Digest(ctx context.Context, src bundle.Input, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Digest(ctx, src.Tree, f, o))
}

// Diff implements bundle.Format.
func (Format) Diff(ctx context.Context, a, b bundle.Input, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Diff(ctx, a, b, o))
}

// Rebuild implements bundle.Format. The source is a tree or a bundle; one that
// is compared with nothing else is compared with itself.
func (f Format) Rebuild(ctx context.Context, src, against bundle.Input, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Rebuild(ctx, src, against, f, o))
}

// Install implements bundle.Format: what is installed is the context of an
// image build.
func (f Format) Install(ctx context.Context, in bundle.Input, target string, o bundle.Options) (*bundle.Result, error) {
	r, err := Verify(ctx, in, f, o)
	if err == nil && r.OK() && !o.Plan {
		err = Stage(ctx, r, StageOptions{Base: f.Base, Dir: target, ModTime: f.ModTime})
	}
	return bundle.Base(r, err)
}
