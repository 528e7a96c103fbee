package main

import (
	"context"
	"path"
	"path/filepath"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

func listVerbs() []*verb {
	return []*verb{{name: "list", format: "rye", short: "list bundles and what they show", run: list, flags: join(trustFlags, []cli.Flag{jsonFlag,
		{Name: "--root", Value: "DIR", Many: true, Help: "folder that contains a bundle's .ai; the order is that of precedence"},
		{Name: "--site", Value: "DIR", Many: true, Help: "folder of installed Python packages, whose rye.bundles entry points are read, not run"},
		{Name: "--roots", Value: "FILE", Help: "YAML list of roots with ids and categories"}})}}
}

func list(ctx context.Context, c *call) (int, error) {
	roots, faults, err := c.ryeRoots()
	if err != nil {
		return 0, err
	}
	l, err := whole[*rye.Listing](bundle.Base(rye.List(ctx, roots, func(r rye.Root) (bundle.Source, *rye.Keyring, func() error, error) {
		f, in, err := c.openRye(r.Path)
		if err != nil {
			return nil, nil, nil, err
		}
		return in.Tree, f.Keyed(in, bundle.Options{}).Keys, func() error { c.release(); return nil }, nil
	})))
	if err != nil {
		return 0, err
	}
	if len(faults) > 0 {
		l.Fail(faults...)
		l.Finish()
	}
	return c.tell(&l.Result, func() {
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
	})
}

// ryeRoots collects the roots of --root, those of --roots, then those that the
// entry points of --site announce.
func (c *call) ryeRoots() (roots []rye.Root, faults []*bundle.Finding, err error) {
	for _, dir := range c.All("--root") {
		roots = append(roots, rye.Root{Path: dir})
	}
	if name := c.Get("--roots"); name != "" {
		data, err := readItem(c.path(name))
		if err != nil {
			return nil, nil, err
		}
		listed, fault := rye.ParseRoots(data)
		if fault != nil {
			return nil, nil, usagef("--roots %s: %s", finding.Path(name), fault.Message)
		}
		for _, r := range listed {
			if !filepath.IsAbs(r.Path) {
				r.Path = filepath.Join(filepath.Dir(name), filepath.FromSlash(r.Path))
			}
			roots = append(roots, r)
		}
	}
	for _, dir := range c.All("--site") {
		announced, bad, err := c.entryPoints(dir)
		if err != nil {
			return nil, nil, err
		}
		roots, faults = append(roots, announced...), append(faults, bad...)
	}
	if len(roots) == 0 && !c.Has("--site") {
		return nil, nil, usagef("list needs --root DIR, --roots FILE or --site DIR")
	}
	return roots, faults, nil
}

// entryPoints reads the roots that the packages in a folder announce.
func (c *call) entryPoints(dir string) (roots []rye.Root, faults []*bundle.Finding, err error) {
	t, err := c.openTree(dir)
	if err != nil {
		return nil, nil, err
	}
	defer c.release()
	found, faults, err := rye.EntryPoints(t.Tree)
	for _, f := range faults {
		f.Path = path.Join(filepath.ToSlash(dir), f.Path)
	}
	for _, e := range found {
		e.Root.Path = filepath.Join(dir, filepath.FromSlash(e.Root.Path))
		roots = append(roots, e.Root)
	}
	return roots, faults, err
}
