package main

import (
	"context"
	"os"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

func rebuildVerbs() []*verb {
	return []*verb{
		{name: "rebuild", format: "rig", args: "SPEC", short: "prove that a bundle matches its source", run: rebuild, flags: join(common, sourceFlags, []cli.Flag{againstRig, strictFlag})},
		{name: "rebuild", format: "agent", args: "DIR|REF", short: "pack again and compare", run: rebuild,
			flags: join(common, refFlags, []cli.Flag{{Name: "--against", Value: "FILE", Help: "bundle to compare with, by default REF itself"}})},
		{name: "rebuild", format: "rye", args: "ROOT", short: "make the manifest again and compare", run: rebuild, flags: []cli.Flag{jsonFlag, idFlag}},
	}
}

func rebuild(ctx context.Context, c *call) (int, error) {
	o, err := c.options()
	if err != nil {
		return 0, err
	}
	var f bundle.Format
	var src, against bundle.Input
	switch c.verb.format {
	case "rig":
		if !c.Has("--against") {
			return 0, usagef("rebuild needs --against FILE")
		}
		if against, err = c.open(rig.Format{}, c.Get("--against")); err == nil {
			f, src, err = c.rigSource(ctx, c.Words[0], c.path(c.Get("--against")))
		}
	case "agent":
		f, src, against, err = c.rebuildAgent()
	case "rye":
		f = &rye.Format{Options: rye.Options{ID: c.Get("--id")}}
		src, err = c.open(f, c.Words[0])
	}
	if err != nil {
		return 0, err
	}
	r, err := f.Rebuild(ctx, src, against, o)
	if err != nil {
		return 0, err
	}
	switch w := r.Whole.(type) {
	case *rig.Rebuilt:
		return c.tell(r, func() { c.printRigDrift(w) })
	case *rye.Rebuilt:
		return c.tell(r, func() { c.printRyeRebuilt(w) })
	}
	if !r.OK() && r.Code != bundle.TarDiffers { // a side that is not accepted
		return c.tell(r, nil)
	}
	return c.tellChanges(r)
}

func (c *call) rebuildAgent() (f agent.Format, src, against bundle.Input, err error) {
	if f, err = c.builder(); err != nil {
		return f, src, against, err
	}
	if arg := c.Get("--against"); arg != "" {
		if against, err = c.open(f, arg); err != nil {
			return f, src, against, err
		}
	}
	if info, serr := os.Stat(c.path(c.Words[0])); serr != nil || !info.IsDir() {
		src, err = c.open(f, c.Words[0])
		return f, src, against, err
	}
	if against.File == nil {
		return f, src, against, usagef("a directory is compared with --against FILE")
	}
	c.subject = c.Words[0]
	src, err = c.openTree(c.Words[0])
	return f, src, against, err
}

func (c *call) printRigDrift(r *rig.Rebuilt) {
	switch {
	case r.OK():
		c.print("ok %s", finding.Path(r.File))
	case r.Code != bundle.TarDiffers:
		c.verdict(&r.Result)
	default:
		for _, d := range r.Drift {
			c.print("%s %s", d.Change, finding.Path(d.Path))
		}
		for _, m := range r.Manifest {
			c.print("manifest %s: %s -> %s", finding.Path(m.Field), bundle.EscapeLine(string(m.A)), bundle.EscapeLine(string(m.B)))
		}
	}
}

func (c *call) printRyeRebuilt(r *rye.Rebuilt) {
	c.print("%s %s", r.Status, finding.Path(r.ID))
	c.print("  manifest_digest %s", r.Digest)
	if r.RebuiltDigest != "" {
		c.print("  rebuilt         %s", r.RebuiltDigest)
	}
	for _, ch := range r.Changes {
		c.print("  %s %s", ch.Change, finding.Path(ch.Path))
	}
}
