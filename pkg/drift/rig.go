package drift

import (
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/report"
)

// rigBuilder makes RigBundles (spec/rigbundle.md section 11). The source is
// the RigSpec; what it refers to may lie anywhere in the repository. The form is
// the default one unless the policy's option form names the other: that one
// leaves modes out, so that it would hide a change of them.
type rigBuilder struct {
	*side
	b      policy.Bundle
	stamps map[*file]*rig.Stamps // of the bundles that verify took
}

func (f *rigBuilder) kind() bundle.Kind { return bundle.KindFile }

func (f *rigBuilder) root() string {
	if f.b.Root != "" {
		return f.b.Root
	}
	return path.Dir(f.b.Source)
}

func (f *rigBuilder) scope(p string) bool { return p == f.b.Source }

func (f *rigBuilder) whole() bool { return false }

func (f *rigBuilder) output(string) (string, error) { return f.b.Output, nil }

func (f *rigBuilder) options() (o rig.VerifyOptions, err error) {
	o.AllowMissingDigest = true
	o.Signed, err = f.signed(f.b)
	return o, err
}

// inputs are what one build takes.
func (f *rigBuilder) inputs(c *gitrepo.Commit, under conditions, like *file) (*source, *rig.Source, rig.Options) {
	at, now := when(c, under), f.Now
	if under != (conditions{}) {
		now = now.AddDate(1, 0, 0)
	}
	o := rig.Options{
		Name: f.b.Name, Version: f.b.Version, Form: f.b.Options["form"], DropServices: f.b.Options["drop-services"] == "true",
		CommitTime: &at, Now: func() time.Time { return now },
	}
	if like != nil {
		o.Stamps = f.stamps[like]
	}
	src := newSource(f.ctx, f.Repo, c.Tree, "", under)
	return src, &rig.Source{Tree: src, Spec: f.b.Source, RigRoot: f.root(), Output: f.b.Output}, o
}

func (f *rigBuilder) digest(c *gitrepo.Commit, under conditions, like *file) (*built, error) {
	src, in, o := f.inputs(c, under, like)
	tar, faults, err := rig.Digest(f.ctx, in, o)
	return &built{tar: tar.String(), faults: faults, src: src}, err
}

func (f *rigBuilder) build(c *gitrepo.Commit, dir string, like *file) (*built, error) {
	src, in, o := f.inputs(c, conditions{}, like)
	name := filepath.Join(dir, path.Base(f.b.Output))
	r, err := rig.Create(f.ctx, in, o, name, rig.VerifyOptions{})
	if err != nil {
		return nil, err
	}
	if !r.OK() {
		return &built{faults: r.Findings, src: src}, nil
	}
	out, err := open(name)
	if err != nil {
		return nil, err
	}
	out.tar, out.src = r.TarDigest, src
	return out, nil
}

func (f *rigBuilder) verify(in *file) (*bundle.Verdict, error) {
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	r, err := rig.Verify(f.ctx, in.input(), o)
	if err != nil {
		return nil, err
	}
	if f.stamps == nil {
		f.stamps = map[*file]*rig.Stamps{}
	}
	f.stamps[in] = r.Stamps()
	v := &bundle.Verdict{Code: r.Code, Message: r.Message, Findings: r.Findings, Notes: r.Notes, Name: r.Name, Version: r.Version}
	v.TarDigest, _ = bundle.ParseHex(strings.TrimPrefix(r.TarDigest, "sha256:"))
	return v, nil
}

func (f *rigBuilder) diff(a, b *file) ([]report.MemberChange, error) {
	if a == nil {
		in, err := rig.Inspect(f.ctx, b.input(), rig.VerifyOptions{AllowMissingDigest: true})
		if err != nil {
			return nil, err
		}
		var out []report.MemberChange
		for _, m := range in.Files {
			out = append(out, report.MemberChange{Path: m.Path, Kind: "added", New: m.SHA256})
		}
		return out, nil
	}
	d, err := rig.Diff(f.ctx, a.input(), b.input(), rig.DiffOptions{Texts: true})
	if err != nil {
		return nil, err
	}
	var out []report.MemberChange
	for _, m := range d.Manifest {
		out = append(out, report.MemberChange{Path: m.Field, Kind: "manifest", Old: string(m.A), New: string(m.B)})
	}
	for _, m := range memberChanges(d.Files) {
		if m.Kind == "changed" {
			m.Diff = string(d.Texts[m.Path])
		}
		out = append(out, m)
	}
	return out, nil
}

func (f *rigBuilder) repair(output string) string {
	cmd := "rig-bundle create " + finding.Word(f.b.Source) + " --from HEAD -o " + finding.Word(output)
	for _, flag := range []struct{ name, value string }{
		{"--rig-root", f.b.Root}, {"--name", f.b.Name}, {"--bundle-version", f.b.Version}, {"--form", f.b.Options["form"]},
	} {
		if flag.value != "" {
			cmd += " " + flag.name + " " + finding.Word(flag.value)
		}
	}
	if f.b.Options["drop-services"] == "true" {
		cmd += " --drop-services"
	}
	return cmd + ", then commit it"
}
