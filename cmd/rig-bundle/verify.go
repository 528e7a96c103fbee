package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/image"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

func verifyVerbs() []*verb {
	const short = "judge bundles by all rules"
	proof := join(common, signatureFlags, digestFlags)
	return []*verb{
		{name: "verify", format: "rig", args: "FILE…", short: short, run: verify, flags: join(proof, []cli.Flag{strictFlag})},
		{name: "verify", format: "agent", args: "REF…", short: short, run: verify, flags: join(proof, refFlags, []cli.Flag{runtimeFlag, provenanceFlag})},
		{name: "verify", format: "rye", args: "[ROOT]", short: "judge a bundle, an item or an installed bundle by all rules", run: verifyRye,
			flags: join(trustFlags, []cli.Flag{jsonFlag, allowFlag, idFlag, extraFlag, spaceFlag, typeFlag, {Name: "--item", Value: "FILE", Help: "judge this one file"}})},
	}
}

func verify(ctx context.Context, c *call) (int, error) {
	o, err := c.options()
	if err != nil {
		return 0, err
	}
	if len(c.Words) > 1 && (c.Has("--sha256-file") || c.Has("--signature")) {
		return 0, usagef("--sha256-file and --signature go with one bundle")
	}
	f, err := c.format()
	if err != nil {
		return 0, err
	}
	worst, good := exitOK, false
	for _, arg := range c.Words {
		status, err := c.verifyOne(ctx, f, arg, o)
		c.release()
		if err != nil {
			status = c.stop(err)
		}
		good = good || status == exitOK
		worst = max(worst, status)
	}
	if good && o.Signed.Signers == nil && c.verb.format == "rig" {
		c.say("the digests show that a bundle is whole, not who made it; --allowed-signers judges signatures")
	}
	return worst, nil
}

func (c *call) verifyOne(ctx context.Context, f bundle.Format, arg string, o bundle.Options) (int, error) {
	if a, ok := f.(agent.Format); ok && c.isReference(arg) {
		_, _, r, err := c.judgeReference(ctx, a, arg, o)
		if errors.Is(err, image.ErrImage) {
			return c.verifyImage(ctx, arg, o)
		}
		if err != nil {
			return 0, err
		}
		return c.tell(&r.Result, nil)
	}
	if c.Has("--require-provenance") {
		return 0, usagef("--require-provenance goes with a bundle or an image in a registry")
	}
	in, err := c.open(f, arg)
	if err != nil {
		return 0, err
	}
	r, err := f.Verify(ctx, in, o)
	if err != nil {
		return 0, err
	}
	r.File = arg
	return c.tell(r, nil)
}

func verifyRye(ctx context.Context, c *call) (int, error) {
	var r *rye.Report
	var err error
	switch {
	case c.Has("--item"):
		return c.verifyItem()
	case c.Has("--type"):
		return 0, usagef("--type goes with --item")
	case c.Has("--space"):
		r, err = c.verifyInstalled(ctx)
	default:
		r, err = c.verifyRoot(ctx)
	}
	if err != nil {
		return 0, err
	}
	return c.tell(&r.Result, func() {
		missing, tampered, extra := r.Counts()
		c.print("%s %s: %s, %d ok, %d missing, %d tampered, %d extra", r.Status, finding.Path(r.Name), count(r.FilesChecked, "file"), r.FilesOK, missing, tampered, extra)
		if r.Signer != nil {
			c.print("  signer %s, trust %s", *r.Signer, r.Trust)
		}
	})
}

func (c *call) verifyRoot(ctx context.Context) (*rye.Report, error) {
	if err := c.count(1, 1); err != nil {
		return nil, err
	}
	f, in, err := c.openRye(c.Words[0])
	if err != nil {
		return nil, err
	}
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	return whole[*rye.Report](f.Verify(ctx, in, o))
}

// openRye opens a Rye bundle with the keys that count for it.
func (c *call) openRye(root string) (*rye.Format, bundle.Input, error) {
	f, err := c.ryeFormat(c.path(root))
	if err != nil {
		return nil, bundle.Input{}, err
	}
	in, err := c.open(f, root)
	return f, in, err
}

// whole is the value that a format's result belongs to.
func whole[T any](r *bundle.Result, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return r.Whole.(T), nil
}

func (c *call) verifyInstalled(ctx context.Context) (*rye.Report, error) {
	if err := c.count(0, 0); err != nil {
		return nil, err
	}
	if !c.Has("--id") {
		return nil, usagef("verify --space DIR needs --id ID")
	}
	f, err := c.ryeFormat("")
	if err != nil {
		return nil, err
	}
	in, err := c.open(f, c.Get("--space"))
	if err != nil {
		return nil, err
	}
	return whole[*rye.Report](bundle.Base(rye.VerifyInstalled(ctx, in.Tree, f.Keyed(in, bundle.Options{}))))
}

func (c *call) verifyItem() (int, error) {
	if err := c.count(0, 0); err != nil {
		return 0, err
	}
	name := c.Get("--item")
	t, err := c.itemType(name)
	if err != nil {
		return 0, err
	}
	data, err := readItem(c.path(name))
	if err != nil {
		return 0, err
	}
	f, err := c.ryeFormat("")
	if err != nil {
		return 0, err
	}
	r, err := rye.VerifyItem(filepath.ToSlash(name), data, t, f.Keys)
	if err != nil {
		return 0, err
	}
	r.Whole = r
	return c.tell(&r.Result, func() {
		c.print("%s %s", r.Status, finding.Path(name))
		if r.Signer != nil {
			c.print("  signer %s, trust %s", *r.Signer, r.Trust)
		}
		if r.Line != nil && r.Line.Provider != "" {
			c.print("  claims to come from %s by %s, which no signature covers", r.Line.Provider, r.Line.User)
		}
	})
}

// itemType is that of --type, or of the path below the last .ai folder.
func (c *call) itemType(name string) (rye.Type, error) {
	if c.Has("--type") {
		t, ok := rye.ParseType(c.Get("--type"))
		if !ok {
			return "", usagef("--type is directive, tool, knowledge or config")
		}
		return t, nil
	}
	p := filepath.ToSlash(c.path(name))
	if i := strings.LastIndex(p, "/.ai/"); i >= 0 {
		if t := rye.TypeOf(p[i+1:]); t != rye.Asset {
			return t, nil
		}
	}
	return "", usagef("the path of %s does not tell the type of the item, give --type", finding.Path(name))
}
