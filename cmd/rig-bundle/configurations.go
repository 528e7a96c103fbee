package main

import (
	"context"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/finding"
)

func configurationsVerbs() []*verb {
	return []*verb{{name: "configurations", format: "rig", args: "SPEC", short: "list the configurations that a rig offers",
		run: configurations, flags: append([]cli.Flag{jsonFlag}, sourceFlags[:3]...)}}
}

// configurations lists the presets of the configurations.yaml beside a rig.
func configurations(ctx context.Context, c *call) (int, error) {
	f, in, err := c.rigSource(ctx, c.Words[0], "")
	if err != nil {
		return 0, err
	}
	r, err := rig.Configurations(ctx, f, in)
	if err != nil {
		return 0, err
	}
	r.File, r.Whole = c.Words[0], r
	text := func() {
		if !r.Declared {
			c.print("there is no configurations.yaml, the rig is built as it is written")
		}
		for _, k := range r.Configurations {
			notes := ""
			if k.Recommended {
				notes += ", recommended"
			}
			if k.Authored {
				notes += ", the rig as it is written"
			}
			c.print("%s: %s%s", finding.QuoteMax(k.Preset, 100), bundle.EscapeLine(k.ID), notes)
		}
	}
	if !r.OK() {
		text = nil
	}
	return c.tell(&r.Result, text)
}
