package main

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

// installFlags are those of install and up.
func installFlags() []cli.Flag {
	return join(common, signatureFlags, digestFlags, []cli.Flag{targetDir,
		{Name: "--plan", Help: "print what would be done and write nothing"},
		{Name: "--backup", Help: "move changed and foreign files aside"}, strictFlag})
}

func installVerbs() []*verb {
	return []*verb{
		{name: "install", format: "rig", args: "FILE", short: "verify a bundle and put its files below a directory", run: installRig, flags: installFlags()},
		{name: "install", format: "rye", args: "SRC", short: "verify a bundle and install it", run: installRye, flags: join(trustFlags, []cli.Flag{jsonFlag, allowFlag, idFlag, extraFlag, spaceFlag,
			{Name: "--allow-downgrade", Help: "take an older version, or the same one with another manifest"},
			{Name: "--dry-run", Help: "print what would be done"}})},
	}
}

func installRig(ctx context.Context, c *call) (int, error) {
	if !c.Has("--target") && !c.Has("--plan") {
		return 0, usagef("install needs --target DIR, or --plan to list the contents")
	}
	r, err := c.install(ctx, rig.Format{}, c.path(c.Get("--target")))
	if err != nil {
		return 0, err
	}
	return c.tellInstall(ctx, r, nil)
}

func (c *call) install(ctx context.Context, f rig.Format, target string) (*rig.InstallResult, error) {
	return judged[*rig.InstallResult](c, f, func(in bundle.Input, o bundle.Options) (*bundle.Result, error) { return f.Install(ctx, in, target, o) })
}

func (c *call) tellInstall(ctx context.Context, r *rig.InstallResult, runs []string) (int, error) {
	file, target := c.Words[0], c.Get("--target")
	if len(r.Findings) > 0 && c.isAgentBundle(ctx, file) {
		r.Findings[0].Hint = "an agent bundle is staged, not installed: rig-bundle stage " + finding.Path(file) + " --base IMAGE --out DIR"
	}
	r.File, r.Target = file, bundle.EscapeLine(target)
	for i := range r.Plan {
		r.Plan[i].Path = bundle.EscapeLine(r.Plan[i].Path)
	}
	return c.tell(&r.Result.Result, func() {
		switch {
		case c.Has("--plan") && (r.OK() || len(r.Plan) > 0):
			c.printPlan(r, runs)
		case r.OK():
			c.print("installed %s %s in %s: %s", bundle.EscapeLine(r.Name), bundle.EscapeLine(r.Version), finding.Path(target), count(len(r.Plan), "file"))
		default:
			c.verdict(&r.Result.Result)
		}
	})
}

// isAgentBundle reports whether a file is of that format rather than another.
func (c *call) isAgentBundle(ctx context.Context, name string) bool {
	probe, done, err := probePath(ctx, c.path(name))
	if err != nil {
		return false
	}
	defer done()
	f := bundle.Choose(probe, formats())
	return f != nil && f.Name() == agent.Format{}.Name()
}

func (c *call) printPlan(r *rig.InstallResult, runs []string) {
	for _, a := range r.Plan {
		c.print("%-8s %s", a.Action, finding.Path(a.Path))
	}
	for _, a := range r.Agents {
		c.print("agent    %s %s at %s", finding.QuoteMax(a.Name, 100), finding.QuoteMax(a.Version, 60), finding.Path(a.Path))
	}
	for _, rt := range r.Runtimes {
		c.print("runtime  %s", finding.QuoteMax(rt, 60))
	}
	c.printBehaviour("does     ", r.Behaviour)
	if runs != nil {
		for i, a := range runs {
			runs[i] = finding.Path(a)
		}
		c.print("run      %s", strings.Join(runs, " "))
	}
}

// spaceDir is that of --space, or the current folder unless it is the home
// folder, which must be named.
func (c *call) spaceDir() (string, error) {
	if c.Has("--space") {
		return c.path(c.Get("--space")), nil
	}
	home, err := os.Stat(cmp.Or(c.Getenv("HOME"), c.Getenv("USERPROFILE"), "."))
	if err != nil {
		return c.path("."), nil
	}
	here, err := os.Stat(c.path("."))
	if err != nil {
		return "", err
	}
	if os.SameFile(home, here) && c.Getenv("HOME")+c.Getenv("USERPROFILE") != "" {
		return "", usagef("the current folder is the home folder, say --space . if that is meant")
	}
	return c.path("."), nil
}

func installRye(ctx context.Context, c *call) (int, error) {
	space, err := c.spaceDir()
	if err != nil {
		return 0, err
	}
	f, err := c.ryeFormat(c.path(c.Words[0]))
	if err != nil {
		return 0, err
	}
	outside, err := c.ryeFormat(space)
	if err != nil {
		return 0, err
	}
	f.Confirm = outside.Keys
	r, err := judged[*rye.InstallResult](c, f, func(in bundle.Input, o bundle.Options) (*bundle.Result, error) { return f.Install(ctx, in, space, o) })
	if err != nil {
		return 0, err
	}
	if c.Has("--dry-run") {
		for _, s := range r.Plan {
			c.say("plan: %s %s", s.What, finding.Path(s.Path))
		}
	}
	return c.tell(&r.Result, func() {
		c.print("%s %s: %s written, %d removed, %d kept, %d skipped", r.Status, finding.Path(r.ID), count(r.FilesWritten, "file"), r.FilesRemoved, len(r.FilesKept), len(r.FilesSkipped))
		c.printDependencies(r.Dependencies)
	})
}
