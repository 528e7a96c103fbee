package main

import (
	"context"
	"errors"
	"slices"

	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/image"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
)

var baseFlag = cli.Flag{Name: "--base", Value: "IMAGE", Help: "base image: NAME[:TAG][@sha256:DIGEST], oci:DIR[:TAG] or docker-archive:FILE[:TAG]"}

// noteBaseUnchecked says that the user asked for a base that nobody looks at.
const noteBaseUnchecked = "base-unchecked"

// codeImage is exit 2: an image can't be read, so that nothing is known of it.
const codeImage = "image-unreadable"

// codeRegistry is exit 2: a registry does not take or give what was asked.
const codeRegistry = "registry-error"

// network is what registries see of this user: the credentials that docker login left.
func (c *call) network() *image.Network {
	return image.UserNetwork("rig-bundle/" + version.String())
}

// openBase opens an image until release.
func (c *call) openBase(ctx context.Context, name string) (*image.Base, error) {
	at, err := image.ParseLocation(name, c.path)
	if err != nil {
		return nil, usagef("%v", err)
	}
	b, err := image.Open(ctx, name, at, c.network())
	if err != nil {
		return nil, imageError(err)
	}
	c.after(func() { b.Close() })
	return b, nil
}

func imageError(err error) error {
	var e *image.UnreadableError
	if errors.As(err, &e) {
		return &codedError{codeImage, err}
	}
	return err
}

// look judges what a base image brings for a bundle, and adds what it finds to the result. It returns the digest of the
// image, and whether it lies in a file.
func (c *call) look(ctx context.Context, r *agent.Result, stated *agent.Runtime, base string) (digest string, local bool, err error) {
	b, err := c.openBase(ctx, base)
	if err != nil {
		return "", false, err
	}
	_, err = c.judgeBase(ctx, b, r, stated)
	return b.Digest.String(), b.At.Ref == nil, err
}

// judgeBase is look for a base that is open. What was found is in the result.
func (c *call) judgeBase(ctx context.Context, b *image.Base, r *agent.Result, stated *agent.Runtime) (*image.Judgement, error) {
	limits, err := c.options()
	if err != nil {
		return nil, err
	}
	j, err := b.Judge(ctx, r, stated, limits.LimitsOr(agent.DefaultLimits()))
	if err != nil {
		return nil, imageError(err)
	}
	r.BaseImage = j.Facts
	if stated == nil { // the target's runtime is that of the base, and was looked at
		r.Notes = slices.DeleteFunc(r.Notes, func(n bundle.Note) bool { return n.Code == agent.NoteRuntimeUnchecked })
	}
	r.Fail(j.Findings...)
	r.Tell(j.Notes...)
	return j, nil
}
