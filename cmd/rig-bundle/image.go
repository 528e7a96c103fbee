package main

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/image"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
)

func imageVerbs() []*verb {
	return []*verb{{name: "image", format: "agent", args: "REF…", short: "compose an image of bundles on a base, an index if they are for several platforms", run: composeImage,
		flags: join(common, digestFlags, signatureFlags, refFlags, []cli.Flag{runtimeFlag, baseFlag,
			{Name: "--key", Value: "FILE", Help: "SSH key that signs the image in its registry, and the statement of what it was composed of"},
			{Name: "--output", Alias: "-o", Value: "IMAGE", Help: "where to write it: oci:DIR[:TAG], docker-archive:FILE[:TAG] or NAME[:TAG] of a registry"}})}}
}

// imageResult is what image tells.
type imageResult struct {
	bundle.Result
	Image   string       `json:"image,omitempty"` // where it was written
	Digest  string       `json:"digest,omitempty"`
	Type    string       `json:"media_type,omitempty"`
	Images  []image.Made `json:"images"`
	Bundles []string     `json:"bundles"`
	Bases   []any        `json:"base_images"`
}

// composeImage verifies bundles, looks at the base for each, and puts them on it.
func composeImage(ctx context.Context, c *call) (int, error) {
	f, err := c.builder()
	if err != nil {
		return 0, err
	}
	switch {
	case !c.Has("--base") || !c.Has("--output"):
		return 0, usagef("image needs --base and --output")
	case len(c.Words) > 1 && (c.Has("--sha256-file") || c.Has("--signature") || c.Has("--target")):
		return 0, usagef("--sha256-file, --signature and --target go with one bundle")
	}
	to, err := image.ParseLocation(c.Get("--output"), c.path)
	if err != nil {
		return 0, usagef("%v", err)
	}
	if c.Has("--key") && to.Ref == nil {
		return 0, usagef("--key signs an image that goes to a registry, -o HOST/NAME:TAG is expected")
	}
	if to.Archive != "" && len(c.Words) > 1 {
		return 0, usagef("a docker archive holds one image, give one bundle or write to oci:DIR")
	}
	o, err := c.options()
	if err != nil {
		return 0, err
	}
	out := &imageResult{Result: bundle.NewResult("image"), Image: bundle.EscapeLine(c.Get("--output")), Images: []image.Made{}, Bases: []any{}}
	out.Whole, out.File = out, c.Get("--output")
	base, err := c.openBase(ctx, c.Get("--base"))
	if err != nil {
		return 0, err
	}
	base.Keep("")
	var parts []image.Part
	for _, arg := range c.Words {
		in, err := c.open(f, arg)
		if err != nil {
			return 0, err
		}
		v, err := f.Verify(ctx, in, o)
		if err != nil {
			return 0, err
		}
		r := v.Whole.(*agent.Result)
		var j *image.Judgement
		if r.OK() {
			if j, err = c.judgeBase(ctx, base, r, f.Runtime); err != nil {
				return 0, err
			}
			out.Bases = append(out.Bases, r.BaseImage)
		}
		out.Bundles = append(out.Bundles, bundle.EscapeLine(arg))
		out.Fail(r.Findings...)
		out.TellAs(&r.Result)
		parts = append(parts, image.Part{Bundle: r, Base: j})
		if out.Name == "" {
			out.Name, out.Version = r.Name, r.Version
		}
	}
	if out.OK() {
		if err := c.writeImage(ctx, out, parts, base, to, f.ModTime); err != nil {
			return 0, err
		}
	}
	return c.tellImage(out)
}

func (c *call) tellImage(out *imageResult) (int, error) {
	return c.tell(&out.Result, func() {
		if !out.OK() {
			c.print("%s", rejected(&out.Result, out.File))
			return
		}
		c.print("ok %s", finding.Path(out.File))
		c.print("  digest %s", out.Digest)
		for _, m := range out.Images {
			c.print("  %s %s", m.Platform, m.Digest)
		}
	})
}

func (c *call) writeImage(ctx context.Context, out *imageResult, parts []image.Part, base *image.Base, to image.Location, modTime int64) error {
	seen := []string{}
	for _, p := range parts {
		t := p.Bundle.Manifest.Platform + "/" + p.Bundle.Manifest.Arch
		if slices.Contains(seen, t) {
			return usagef("two bundles are for %s, one for each platform is expected", t)
		}
		seen = append(seen, t)
	}
	made, fault, err := image.Compose(ctx, parts, base, image.ComposeOptions{ModTime: modTime})
	if err != nil {
		return imageError(err)
	}
	if fault != nil {
		out.Fail(fault)
		return nil
	}
	defer made.Close()
	if c.Has("--key") {
		sign, key, err := c.signWith()
		if err != nil {
			return err
		}
		if err := made.Prove(ctx, to, version.String(), func(text []byte) ([]byte, error) {
			return sign(bytes.NewReader(text), image.ImageNamespace)
		}, func(text []byte) ([]byte, string, error) {
			sig, err := sign(bytes.NewReader(text), image.ProvenanceNamespace)
			return sig, key, err
		}); err != nil {
			return err
		}
	}
	if err := made.Write(ctx, to, c.network()); err != nil {
		if to.Ref != nil {
			return &codedError{codeRegistry, errors.New("the image can't be pushed: " + image.Why(err))}
		}
		return err
	}
	out.Digest, out.Type, out.Images = made.Root.Digest.String(), string(made.Root.MediaType), made.Images
	return nil
}
