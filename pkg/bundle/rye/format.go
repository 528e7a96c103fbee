package rye

import (
	"context"
	"errors"
	"slices"

	"github.com/rigward/rigward/pkg/bundle"
)

// Format is this format as gates and the command see it, with what only it
// asks for: which bundle, by whose word, and what create writes. At a git gate
// the project's store among the keys is that of the old tip. Inputs are trees.
type Format struct {
	Options
	New            CreateOptions // Keys and ID are those of Options
	AllowDowngrade bool          // of Install
	Confirm        *Keyring      // of Install, see [InstallOptions]
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

// Keyed are the options with the keys that count for a bundle: those in its
// own tree can supply what a pin asks for.
func (f *Format) Keyed(in bundle.Input, with bundle.Options) Options {
	o := f.Options
	o.Allow = append(slices.Clip(o.Allow), with.Allow...)
	keys := Keyring{}
	if o.Keys != nil {
		keys = *o.Keys
	}
	keys.Bundle, o.Keys = in.Tree, &keys
	return o
}

func (f *Format) create(ctx context.Context, src bundle.Input, with bundle.Options) (*Creation, error) {
	if src.Tree == nil {
		return nil, errNoTree
	}
	o := f.New
	keyed := f.Keyed(src, with)
	o.ID, o.Keys, o.Allow = f.ID, keyed.Keys, keyed.Allow
	return Create(ctx, src.Tree, o)
}

// Create implements bundle.Format: output is the root whose tree the source is.
func (f *Format) Create(ctx context.Context, src bundle.Input, output string, o bundle.Options) (*bundle.Result, error) {
	out, err := f.create(ctx, src, o)
	if err == nil && out.OK() {
		err = out.Write(output)
	}
	return bundle.Base(out, err)
}

// Verify implements bundle.Format.
func (f *Format) Verify(ctx context.Context, in bundle.Input, o bundle.Options) (*bundle.Result, error) {
	if in.Tree == nil {
		return nil, errNoTree
	}
	return bundle.Base(Verify(ctx, in.Tree, f.Keyed(in, o)))
}

var errNoTree = errors.New("a Rye bundle is a folder, not a file")

// Digest implements bundle.Format: the Identity is manifest_digest.
func (f *Format) Digest(ctx context.Context, src bundle.Input, o bundle.Options) (*bundle.Result, error) {
	out, err := f.create(ctx, src, o)
	if err == nil {
		out.Command = "digest"
	}
	return bundle.Base(out, err)
}

// Diff implements bundle.Format.
func (f *Format) Diff(ctx context.Context, a, b bundle.Input, o bundle.Options) (*bundle.Result, error) {
	return bundle.Base(Diff(ctx, a.Tree, f.ID, b.Tree, f.ID, o.Texts))
}

// Rebuild implements bundle.Format. Source and bundle are one tree.
func (f *Format) Rebuild(ctx context.Context, src, against bundle.Input, _ bundle.Options) (*bundle.Result, error) {
	if src.Tree == nil {
		src = against
	}
	return bundle.Base(Rebuild(ctx, src.Tree, f.ID))
}

// Install implements bundle.Format.
func (f *Format) Install(ctx context.Context, in bundle.Input, target string, o bundle.Options) (*bundle.Result, error) {
	if in.Tree == nil {
		return nil, errNoTree
	}
	return bundle.Base(Install(ctx, in.Tree, target, InstallOptions{Verify: f.Keyed(in, o), AllowDowngrade: f.AllowDowngrade, DryRun: o.Plan, Now: o.Now, Windows: o.Windows, State: o.State, Confirm: f.Confirm}))
}
