package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
)

func inspectVerbs() []*verb {
	return []*verb{
		{name: "inspect", format: "rig", args: "FILE", short: "show what a bundle holds, also a bad one", run: inspectRig, flags: join(common, digestFlags)},
		{name: "inspect", format: "agent", args: "REF", short: "show what a bundle holds", run: inspectAgent, flags: join(common, digestFlags, signatureFlags, refFlags, []cli.Flag{runtimeFlag})},
		{name: "inspect", format: "rye", args: "ROOT", short: "show what a manifest says, unverified", run: inspectRye, flags: []cli.Flag{jsonFlag, idFlag}},
	}
}

// inspected opens the one bundle of the arguments and looks at it.
func (c *call) inspected(ctx context.Context, requireDigest bool) (*rig.Inspection, error) {
	return judged[*rig.Inspection](c, rig.Format{}, func(in bundle.Input, o bundle.Options) (*bundle.Result, error) {
		o.RequireChecksum = o.RequireChecksum && requireDigest
		return bundle.Base(rig.Inspect(ctx, in, o))
	})
}

func inspectRig(ctx context.Context, c *call) (int, error) {
	r, err := c.inspected(ctx, true)
	if err == nil {
		err = r.Describe()
	}
	if err != nil {
		return 0, err
	}
	return c.print1(&r.Result.Result, func() { c.printRigInspection(r) }), nil
}

func (c *call) printRigInspection(r *rig.Inspection) {
	q := func(s string) string { return finding.QuoteMax(s, 200) }
	p := finding.Path
	c.print("Bundle: %s v%s", line(r.Name), line(r.Version))
	switch {
	case r.DigestValid == nil:
		c.print("Digest valid: missing")
	default:
		c.print("Digest valid: %t", *r.DigestValid)
	}
	integrity := "FAIL"
	if r.Integrity != nil && r.Integrity.Passed {
		integrity = "PASS"
	}
	c.print("Integrity: %s", integrity)
	c.print("File digest: %s", r.FileDigest)
	if r.TarDigest != (bundle.Digest{}) {
		c.print("Tar digest: %s", r.TarDigest)
	}
	if r.Package != "" {
		c.print("Package digest: %s", r.Package)
	}
	if r.Form != "" {
		c.print("Form: %s", r.Form)
	}
	for _, a := range r.Agents {
		c.print("Agent: %s %s at %s", q(a.Name), q(a.Version), p(a.Path))
	}
	for _, s := range r.Content {
		c.print("Content: %s", line(s))
	}
	if r.CreatedAt != "" {
		c.print("Created at: %s", line(r.CreatedAt))
	}
	if r.Provenance != nil {
		if b, err := r.Provenance.MarshalJSON(); err == nil {
			c.print("Provenance (claimed, not proved): %s", bundle.EscapeLine(string(b)))
		}
	}
	if r.Counts != nil {
		c.print("Contents: %s, %s", count(r.Counts.Files, "file"), count(r.Counts.Bytes, "byte"))
	}
	for _, f := range r.Largest {
		c.print("Largest: %d bytes %s", f.Size, p(f.Path))
	}
	c.printBehaviour("", r.Behaviour)
	for _, f := range r.Faults {
		c.print("%s: %s%s", f.Code, place(f), f.Message)
	}
	for _, n := range r.Notes {
		c.print("note %s: %s %s", n.Code, p(n.Path), n.Detail)
	}
	c.print("The digests show that the bundle is whole, not who made it.")
}

func inspectAgent(ctx context.Context, c *call) (int, error) {
	f, err := c.agentFormat()
	if err != nil {
		return 0, err
	}
	r, err := judged[*agent.Result](c, f, func(in bundle.Input, o bundle.Options) (*bundle.Result, error) { return f.Verify(ctx, in, o) })
	if err != nil {
		return 0, err
	}
	r.Inspect()
	r.Command, r.File = "inspect", c.Words[0]
	return c.tell(&r.Result, func() {
		c.verdict(&r.Result)
		n := r.Counts
		c.print("file size %d, tar size %d, %v", r.FileBytes, r.TarBytes, r.Archive.Compression)
		c.print("%s, %s, %s, %s", count(n.Files, "file"), plural(n.Dirs, "directory", "directories"), count(n.Symlinks, "symlink"), count(n.Bytes, "byte"))
		if r.ManifestText != nil {
			c.print("manifest %s", r.ManifestText)
		}
		for _, m := range r.Largest {
			c.print("%12d %s", m.Size, finding.Path(m.Path))
		}
	})
}

func inspectRye(ctx context.Context, c *call) (int, error) {
	r, err := judged[*rye.Inspection](c, &rye.Format{}, func(in bundle.Input, _ bundle.Options) (*bundle.Result, error) {
		return bundle.Base(rye.Inspect(ctx, in.Tree, c.Get("--id")))
	})
	if err != nil {
		return 0, err
	}
	return c.tell(&r.Result, func() { c.printInspection(r) })
}

func (c *call) printInspection(in *rye.Inspection) {
	c.print("unverified manifest %s, generation %s", finding.Path(in.Path), in.Generation)
	if s := in.SignerClaim; s != nil {
		c.print("  claims to be signed by %s at %s", s.Fingerprint, s.Time)
	}
	u := in.Unverified
	if u == nil {
		return
	}
	for _, f := range []struct{ name, value string }{
		{"id", u.ID}, {"version", u.Version}, {"entrypoint", u.Entrypoint}, {"description", u.Description}, {"created_at", u.CreatedAt},
		{"type", u.Type}, {"manifest_digest", u.ManifestDigest},
	} {
		c.print("  %s %s (unverified)", f.name, finding.QuoteMax(f.value, 500))
	}
	if in.ManifestDigest != "" {
		c.print("  manifest_digest of its content %s", in.ManifestDigest)
	}
	c.printDependencies(in.Dependencies)
	for _, e := range u.Files {
		c.print("  %s %s %s (unverified)", e.ItemType, cmp.Or(e.ObjectHash, e.SHA256), finding.Path(e.Path))
	}
}

// printDependencies says what packages tools ask for.
func (c *call) printDependencies(list []rye.Dependencies) {
	for _, d := range list {
		switch {
		case d.Open:
			c.print("  %s asks for packages that its line %d computes: read it before it runs", finding.Path(d.Path), d.Line)
		case len(d.List) > 0:
			quoted := []string{}
			for _, p := range d.List[:min(len(d.List), shownChanges)] {
				quoted = append(quoted, finding.QuoteMax(p, 100))
			}
			c.print("  %s asks for %s: %s", finding.Path(d.Path), count(len(d.List), "package"), strings.Join(quoted, ", "))
		}
	}
}
