package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

// spaceDir is that of --space, or the current folder unless it is the home
// folder, which must be named.
func (c *call) spaceDir() (string, error) {
	if c.has("--space") {
		return c.path(c.get("--space")), nil
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

func ryeInstall(ctx context.Context, c *call) int {
	err := c.words(1, 1)
	var space string
	if err == nil {
		space, err = c.spaceDir()
	}
	if err != nil {
		return c.fail(err)
	}
	root := c.path(c.args[0])
	src, err := bundle.OpenDirSource(root)
	if err != nil {
		return c.fail(err)
	}
	defer src.Close()
	o := rye.InstallOptions{AllowDowngrade: c.has("--allow-downgrade"), DryRun: c.has("--dry-run"), Now: c.Now()}
	if o.Verify, err = c.ryeOptions(root, src); err != nil {
		return c.fail(err)
	}
	r, err := rye.Install(ctx, src, space, o)
	if err != nil {
		return c.fail(err)
	}
	if o.DryRun {
		for _, s := range r.Plan {
			c.say("plan: %s %s", s.What, finding.Path(s.Path))
		}
	}
	if c.has("--json") {
		c.json(r)
	} else {
		c.print("%s %s: %s written, %d removed, %d kept, %d skipped", r.Status, finding.Path(r.ID), count(r.FilesWritten, "file"), r.FilesRemoved, len(r.FilesKept), len(r.FilesSkipped))
	}
	c.tellRye(r.Findings, r.Notes)
	return ryeStatus(r.Findings)
}

func ryeUninstall(ctx context.Context, c *call) int {
	err := c.words(1, 1)
	var space string
	if err == nil {
		space, err = c.spaceDir()
	}
	if err != nil {
		return c.fail(err)
	}
	r, err := rye.Uninstall(ctx, c.args[0], space)
	if err != nil {
		return c.fail(err)
	}
	if c.has("--json") {
		c.json(r)
	} else {
		c.print("%s %s: %s removed, %d kept", r.Status, finding.Path(r.ID), count(r.FilesRemoved, "file"), len(r.FilesKept))
	}
	c.tellRye(r.Findings, r.Notes)
	return ryeStatus(r.Findings)
}

func ryeList(_ context.Context, c *call) int {
	roots, fault, err := c.ryeRoots()
	if err != nil {
		return c.fail(err)
	}
	if fault != nil {
		return c.fail(usagef("--roots %s: %s", finding.Path(c.get("--roots")), fault.Message))
	}
	l, err := rye.List(roots, func(r rye.Root) (bundle.Source, *rye.Keyring, func() error, error) {
		dir := c.path(r.Path)
		src, err := bundle.OpenDirSource(dir)
		if err != nil {
			return nil, nil, nil, err
		}
		keys, err := c.ryeKeys(dir, src)
		if err != nil {
			src.Close()
			return nil, nil, nil, err
		}
		return src, keys, src.Close, nil
	})
	if err != nil {
		return c.fail(err)
	}
	if c.has("--json") {
		c.json(l)
	} else {
		for _, b := range l.Bundles {
			version, signer := "-", "-"
			if b.Version != nil {
				version = *b.Version
			}
			if b.Signer != nil {
				signer = *b.Signer
			}
			c.print("%s %s %s signer %s trust %s root %s", b.Status, finding.Path(b.ID), version, signer, b.Trust, finding.Path(b.Root))
		}
		for _, it := range l.Items {
			shadow := ""
			if it.ShadowedBy != "" {
				shadow = " shadowed by " + finding.Path(it.ShadowedBy)
			}
			c.print("  %s %s %s%s", it.ItemType, finding.Path(it.ItemID), finding.Path(it.BundleID), shadow)
		}
	}
	c.tellRye(l.Findings, nil)
	return ryeStatus(l.Findings)
}

// ryeRoots collects the roots of --root, then those of --roots.
func (c *call) ryeRoots() (roots []rye.Root, fault *bundle.Finding, err error) {
	if err := c.words(0, 0); err != nil {
		return nil, nil, err
	}
	for _, dir := range c.all("--root") {
		roots = append(roots, rye.Root{Path: dir})
	}
	if name := c.get("--roots"); name != "" {
		data, err := readItem(c.path(name))
		if err != nil {
			return nil, nil, err
		}
		listed, fault := rye.ParseRoots(data)
		if fault != nil {
			return nil, fault, nil
		}
		for _, r := range listed {
			if !filepath.IsAbs(r.Path) {
				r.Path = filepath.Join(filepath.Dir(name), filepath.FromSlash(r.Path))
			}
			roots = append(roots, r)
		}
	}
	if len(roots) == 0 {
		return nil, nil, usagef("list needs --root DIR or --roots FILE")
	}
	return roots, nil, nil
}
