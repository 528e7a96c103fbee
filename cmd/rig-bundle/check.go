package main

import (
	"context"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/finding"
)

// codeStandard is the code of a folder that the bundle standard has something
// against.
const codeStandard = "bundle-standard"

func checkVerbs() []*verb {
	return []*verb{{name: "check", format: "rig", args: "FOLDER", short: "judge a folder by the rules for bundles that are shared",
		run: check, flags: []cli.Flag{jsonFlag}}}
}

// check is `rig bundle check`: advice for the author of a folder. Exit 1 says
// that a rule has a finding.
func check(ctx context.Context, c *call) (int, error) {
	in, err := c.openTree(c.Words[0])
	if err != nil {
		return 0, err
	}
	s, err := rig.CheckStandard(ctx, in.Tree)
	if err != nil {
		return 0, err
	}
	out := &struct {
		bundle.Result
		*rig.Standard
	}{bundle.NewResult("check"), s}
	out.File, out.Whole = c.Words[0], out
	if n := len(s.Findings()); n > 0 {
		out.Code, out.Message = codeStandard, plural(n, "finding", "findings")+" of the bundle standard"
	}
	return c.print1(&out.Result, func() {
		for _, k := range s.Checks {
			where := ""
			if k.Path != "" {
				where = " (" + finding.Path(k.Path) + ")"
			}
			c.print("%-11s %s: %s%s", k.Status, k.Rule, line(k.Reason), where)
		}
	}), nil
}
