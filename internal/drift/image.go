package drift

import (
	"context"
	"errors"

	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// Images composes bundles with the bases that the policy names for them. No hook
// has it: who does may read registries.
type Images interface {
	// Compose puts an accepted bundle on the base of its entry in the policy,
	// which lies in tree or in a registry. The findings say why they do not go
	// together; allow is that of the policy. The error is a *BaseError if the base
	// cannot be read.
	Compose(ctx context.Context, b policy.Bundle, in bundle.Input, tree bundle.Source, allow []string) (*Image, []*bundle.Finding, error)
}

// An Image is one that was composed.
type Image struct {
	Digest string
	Facts  [][2]string // what it is made of, each under a name of its own
	Why    string      // nobody composed it, if Digest is ""
}

// A BaseError says that a base image cannot be read.
type BaseError struct{ Err error }

func (e *BaseError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BaseError) Unwrap() error { return e.Err }

// image tells what the tip's bundle makes on the tip's base image. What it
// returns is nil if there is none to be compared.
func (s *side) image(b policy.Bundle, rep *report.Bundle, now *file) (*Image, error) {
	if s.Images == nil || b.Base == "" {
		return nil, nil
	}
	img, faults, err := s.Images.Compose(s.ctx, b, now.Input, newSource(s.ctx, s.Repo, s.tip.Tree, "", conditions{}), s.r.Policy.Allow)
	var unreadable *BaseError
	switch {
	case errors.As(err, &unreadable):
		return nil, &policy.Undecided{Message: "what the bundle " + finding.Path(rep.Output) + " needs of its base cannot be looked up: " + finding.Clean(err.Error()), Cause: err,
			Hint: "repair the base " + finding.Quote(b.Base) + ", or first let the policy's bundles name another"}
	case err != nil:
		return nil, err
	case len(faults) > 0:
		s.addAll(rep.Output, faults, 0, "")
		rep.Image = &report.Image{On: b.Base, Why: "the bundle and the base do not go together"}
		return nil, nil
	}
	rep.Image = &report.Image{On: b.Base, Why: img.Why, Digest: img.Digest}
	if img.Digest == "" {
		return nil, nil
	}
	return img, nil
}

// imageBefore compares with what the base's bundle made on the base's image.
// What did not go together there was for those to judge who let it in.
func (s *side) imageBefore(b policy.Bundle, rep *report.Bundle, before *file, now *Image) error {
	old, faults, err := s.Images.Compose(s.ctx, b, before.Input, newSource(s.ctx, s.Repo, s.base.Tree, "", conditions{}), s.r.Policy.Allow)
	var unreadable *BaseError
	if errors.As(err, &unreadable) && s.ctx.Err() == nil || len(faults) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	rep.Image.Before = old.Digest
	rep.Image.Changes = limit(factChanges(old.Facts, now.Facts), &rep.Truncated)
	return nil
}

// factChanges lists what differs between two images, in the order of the newer.
func factChanges(old, now [][2]string) (changes []report.MemberChange) {
	was := map[string]string{}
	for _, f := range old {
		was[f[0]] = f[1]
	}
	for _, f := range now {
		v, ok := was[f[0]]
		delete(was, f[0])
		switch {
		case !ok:
			changes = append(changes, report.MemberChange{Path: f[0], Kind: "added", New: f[1]})
		case v != f[1]:
			changes = append(changes, report.MemberChange{Path: f[0], Kind: "changed", Old: v, New: f[1]})
		}
	}
	for _, f := range old {
		if _, ok := was[f[0]]; ok {
			changes = append(changes, report.MemberChange{Path: f[0], Kind: "removed", Old: f[1]})
		}
	}
	return changes
}
