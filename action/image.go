package action

import (
	"context"
	"errors"

	"github.com/rigward/rigward/internal/drift"
	"github.com/rigward/rigward/internal/image"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/policy"
)

// images composes the images of agent bundles as `rig-bundle image` does, and
// writes none.
type images struct {
	net   *image.Network
	fetch bool // bases that the policy names by a digest are fetched
}

// Compose implements drift.Images.
func (m images) Compose(ctx context.Context, b policy.Bundle, in bundle.Input, tree bundle.Source, allow []string) (*drift.Image, []*bundle.Finding, error) {
	if b.BasePath() == "" && !m.fetch {
		return &drift.Image{Why: "the base is in a registry, which the action's input fetch-bases allows to read"}, nil, nil
	}
	var o image.ComposeOptions
	if epoch := b.Options["source-date-epoch"]; epoch != "" {
		var err error
		if o.ModTime, err = bundle.ParseEpoch(epoch); err != nil {
			return nil, nil, err
		}
	}
	limits := agent.DefaultLimits()
	r, err := agent.Verify(ctx, in, agent.Format{}, bundle.Options{Limits: limits, Allow: allow})
	if err != nil {
		return nil, nil, err
	}
	if !r.OK() {
		return nil, r.Findings, nil
	}
	base, err := image.OpenIn(ctx, b.Base, tree, "", m.net)
	if err != nil {
		return nil, nil, unreadable(err)
	}
	defer base.Close()
	j, err := base.Judge(ctx, r, nil, limits)
	if err != nil || len(j.Findings) > 0 {
		if err != nil {
			return nil, nil, unreadable(err)
		}
		return nil, j.Findings, nil
	}
	made, fault, err := image.Compose(ctx, []image.Part{{Bundle: r, Base: j}}, base, o)
	if fault != nil {
		return nil, []*bundle.Finding{fault}, nil
	}
	if err != nil {
		return nil, nil, unreadable(err)
	}
	defer made.Close()
	facts, err := made.Tell()
	return &drift.Image{Digest: made.Root.Digest.String(), Facts: facts}, nil, err
}

func unreadable(err error) error {
	var e *image.UnreadableError
	if errors.As(err, &e) {
		return &drift.BaseError{Err: err}
	}
	return err
}
