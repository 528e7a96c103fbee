package main

import (
	"context"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

func uninstallVerbs() []*verb {
	const short = "remove an installed bundle"
	return []*verb{
		{name: "uninstall", format: "rig", args: "NAME", short: short, run: uninstallRig, flags: join(common, []cli.Flag{targetDir})},
		{name: "uninstall", format: "rye", args: "ID", short: short, run: uninstallRye, flags: join(trustFlags, []cli.Flag{jsonFlag, spaceFlag})},
	}
}

func uninstallRig(ctx context.Context, c *call) (int, error) {
	if !c.Has("--target") {
		return 0, usagef("uninstall needs --target DIR")
	}
	r, err := rig.Uninstall(ctx, c.Words[0], c.path(c.Get("--target")), c.state())
	if err != nil {
		return 0, err
	}
	r.Whole, r.Target = r, bundle.EscapeLine(c.Get("--target"))
	return c.tell(&r.Result.Result, func() {
		if r.Code == rig.InstallNotFound {
			c.print("%s", rejected(&r.Result.Result, c.Words[0]))
			return
		}
		c.print("removed %s: %s", bundle.EscapeLine(r.Name), count(len(r.Plan), "file"))
		for _, p := range r.Paths {
			c.print("%s %s: changed since it was installed, kept", rig.InstallModified, finding.Path(p))
		}
	})
}

func uninstallRye(ctx context.Context, c *call) (int, error) {
	space, err := c.spaceDir()
	if err != nil {
		return 0, err
	}
	outside, err := c.ryeFormat(space)
	if err != nil {
		return 0, err
	}
	o := rye.UninstallOptions{State: c.state(), Confirm: outside.Keys}
	r, err := whole[*rye.UninstallResult](bundle.Base(rye.Uninstall(ctx, c.Words[0], space, o)))
	if err != nil {
		return 0, err
	}
	return c.tell(&r.Result, func() {
		c.print("%s %s: %s removed, %d kept", r.Status, finding.Path(r.ID), count(r.FilesRemoved, "file"), len(r.FilesKept))
	})
}
