package main

import (
	"context"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/finding"
)

func lsVerbs() []*verb {
	return []*verb{{name: "ls", format: "rig", args: "FILE", short: "list the members of a bundle", run: ls, flags: common}}
}

func ls(ctx context.Context, c *call) (int, error) {
	r, err := c.inspected(ctx, false)
	if err != nil {
		return 0, err
	}
	out := &struct {
		bundle.Result
		Files []rig.FileInfo `json:"files"`
	}{bundle.NewResult("ls"), r.Files}
	out.Code, out.Message, out.File, out.Whole = r.Code, r.Message, c.Words[0], out
	status := c.print1(&out.Result, func() {
		for _, f := range r.Files {
			c.print("%s %10d %s", f.Mode, f.Size, finding.Path(f.Path))
		}
	})
	if !r.OK() {
		c.say("%s", rejected(&r.Result.Result, c.Words[0]))
	}
	return status, nil
}
