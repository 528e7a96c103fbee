package drift

import (
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/report"
)

// agentBuilder makes agent bundles (spec/agentbundle.md section 10). The
// source is the bundle root. The output is a file, or the directory that holds
// it under the name that its manifest gives.
type agentBuilder struct {
	*side
	b policy.Bundle
}

func (f *agentBuilder) kind() bundle.Kind { return bundle.KindDir }

func (f *agentBuilder) scope(p string) bool { return below(f.b.Source, p) }

func (f *agentBuilder) whole() bool { return true }

// named reports whether the policy names the file itself.
func (f *agentBuilder) named() bool {
	return strings.HasSuffix(f.b.Output, ".tar.gz") || strings.HasSuffix(f.b.Output, ".tar.zst")
}

// ext is the end of the file's name, which goes with its compression.
func (f *agentBuilder) ext() string {
	if strings.HasSuffix(f.b.Output, ".tar.zst") || f.b.Options["compression"] == "zstd" {
		return ".tar.zst"
	}
	return ".tar.gz"
}

// computed is the name that the manifest in a tree gives, "" if there is none
// that could be read.
func (f *agentBuilder) computed(tree string) (string, error) {
	src := newSource(f.ctx, f.Repo, tree, "", conditions{})
	limits := agent.DefaultLimits()
	data, err := bundle.ReadFile(src, path.Join(f.b.Source, agent.ManifestName), limits.Manifest)
	if err != nil {
		if bundle.AsFinding(err) != nil || absent(err) {
			return "", nil
		}
		it, lerr := src.Lstat(path.Join(f.b.Source, agent.ManifestName))
		if lerr == nil && it.Kind != bundle.KindFile {
			return "", nil
		}
		return "", err
	}
	m, faults, _ := agent.ParseManifest(data)
	if m == nil || len(faults) > 0 {
		return "", nil
	}
	return m.FileName(f.ext()), nil
}

func (f *agentBuilder) output(tree string) (string, error) {
	name, err := f.computed(tree)
	if f.named() || name == "" || err != nil {
		return f.b.Output, err
	}
	return path.Join(f.b.Output, name), nil
}

// inputs are what one build takes.
func (f *agentBuilder) inputs(c *gitrepo.Commit, under conditions) (src *source, o agent.CreateOptions, err error) {
	it, err := bundle.NewGitSource(objects{f.Repo}, c.Tree).Lstat(root(f.b.Source))
	if err != nil {
		return nil, o, err
	}
	o = agent.CreateOptions{Limits: limits(), Compression: bundle.Gzip}
	if f.ext() == ".tar.zst" {
		o.Compression = bundle.Zstd
	}
	if epoch := f.b.Options["source-date-epoch"]; epoch != "" {
		if o.ModTime, err = agent.ParseEpoch(epoch); err != nil {
			return nil, o, fmt.Errorf("the policy's option source-date-epoch: %w", err)
		}
	}
	return newSource(f.ctx, f.Repo, it.ID, f.b.Source, under), o, nil
}

func (f *agentBuilder) digest(c *gitrepo.Commit, under conditions, _ *file) (*built, error) {
	src, o, err := f.inputs(c, under)
	if err != nil {
		return nil, err
	}
	tar, r, err := agent.Digest(f.ctx, src, o)
	if err != nil {
		return nil, err
	}
	return &built{tar: tar.String(), faults: r.Verdict().Findings, src: src}, nil
}

func (f *agentBuilder) build(c *gitrepo.Commit, dir string, _ *file) (*built, error) {
	src, o, err := f.inputs(c, conditions{})
	if err != nil {
		return nil, err
	}
	r, err := agent.Create(f.ctx, src, dir, o)
	if err != nil {
		return nil, err
	}
	if len(r.Findings) > 0 {
		return &built{faults: r.Verdict().Findings, src: src}, nil
	}
	out, err := open(r.File)
	if err != nil {
		return nil, err
	}
	out.tar, out.src = r.Archive.TarDigest.String(), src
	return out, nil
}

// limits are the format's, with no more in all than a gate builds.
func limits() bundle.Limits {
	l := agent.DefaultLimits()
	l.TotalSize = min(l.TotalSize, maxBytes)
	return l
}

func (f *agentBuilder) verify(in *file) (*bundle.Verdict, error) {
	o := agent.Options{Limits: limits(), Proof: agent.Proof{Sidecar: in.checksum, Signature: in.signature}}
	var err error
	if o.Proof.Signed, err = f.signed(f.b); err != nil {
		return nil, err
	}
	r, err := agent.Verify(f.ctx, in.data, in.size, in.name, o)
	if err != nil {
		return nil, err
	}
	return r.Verdict(), nil
}

func (f *agentBuilder) diff(a, b *file) ([]report.MemberChange, error) {
	if a == nil {
		r, err := agent.Verify(f.ctx, b.data, b.size, b.name, agent.Options{Limits: limits(), Proof: agent.Proof{Made: true}})
		if err != nil || r.Archive == nil {
			return nil, err
		}
		return added(r.Archive.Nodes()), nil
	}
	d, err := agent.Diff(f.ctx, agent.Opened{Name: a.name, File: a.data, Size: a.size}, agent.Opened{Name: b.name, File: b.data, Size: b.size}, limits())
	if err != nil || d.Code != "ok" && d.Code != agent.CodeContentDiffers {
		return nil, err
	}
	var out []report.MemberChange
	for _, c := range d.Changes {
		switch c.Kind {
		case "manifest":
			out = append(out, report.MemberChange{Path: c.Path, Kind: c.Kind, Old: string(c.A), New: string(c.B)})
		case "manifest-format":
			out = append(out, report.MemberChange{Path: c.Path, Kind: "changed"})
		default:
			out = append(out, member(c.Kind, c.Path, c.NodeA, c.NodeB))
		}
	}
	return out, texts(f.ctx, d.A.Archive, d.B.Archive, out)
}

func (f *agentBuilder) repair(output string) string {
	cmd := "rig-bundle create --format agent " + finding.Word(root(f.b.Source)) + " -o "
	if epoch := f.b.Options["source-date-epoch"]; epoch != "" {
		cmd = "SOURCE_DATE_EPOCH=" + strconv.Quote(epoch) + " " + cmd
	}
	name, err := f.computed(f.tip.Tree)
	switch {
	case err != nil || name == "" || name == path.Base(output):
		return cmd + finding.Word(output) + ", then commit it"
	case strings.HasPrefix(path.Base(output), "agent-bundle-"):
		return "the manifest now names the bundle " + finding.Path(name) + ": change output in the policy first"
	}
	dir := finding.Word(root(path.Dir(output)))
	if f.ext() == ".tar.zst" {
		dir += " --compression zstd"
	}
	made := path.Join(path.Dir(output), name)
	return cmd + dir + " && mv " + finding.Word(made) + " " + finding.Word(output) + " && rm " + finding.Word(made+".sha256") + ", then commit it"
}

// root is a directory as sources name it.
func root(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// open opens a bundle that was built.
func open(name string) (*built, error) {
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		return nil, err
	}
	return &built{file: &file{name: filepath.Base(name), data: f, size: size}, close: func() { f.Close() }}, nil
}
