package drift

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/rigward/rigward/internal/gittree"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// agentBuilder makes agent bundles (docs/spec/agentbundle.md#create). The
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
	data, err := bundle.ReadFile(src, path.Join(f.b.Source, agent.ManifestName), agent.DefaultLimits().Manifest)
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

func (f *agentBuilder) inputs(c *gitrepo.Commit, under conditions, _ *file) (bundle.Format, *source, bundle.Input, error) {
	none := bundle.Input{}
	it, err := gittree.Source(f.Repo, c.Tree).Lstat(root(f.b.Source))
	if err != nil {
		return nil, nil, none, err
	}
	made := agent.Format{Compression: bundle.Gzip}
	if f.ext() == ".tar.zst" {
		made.Compression = bundle.Zstd
	}
	if epoch := f.b.Options["source-date-epoch"]; epoch != "" {
		if made.ModTime, err = bundle.ParseEpoch(epoch); err != nil {
			return nil, nil, none, fmt.Errorf("the policy's option source-date-epoch: %w", err)
		}
	}
	src := newSource(f.ctx, f.Repo, it.ID, f.b.Source, under)
	return made, src, bundle.Input{Tree: src}, nil
}

func (f *agentBuilder) repair(output string) string {
	cmd := "rig-bundle create --format agent " + finding.Word(root(f.b.Source)) + " -o "
	if epoch := f.b.Options["source-date-epoch"]; epoch != "" {
		cmd = "SOURCE_DATE_EPOCH=" + strconv.Quote(epoch) + " " + cmd
	}
	name, err := f.computed(f.tip.Tree)
	switch {
	case err != nil || name == "" || name == path.Base(output):
		return cmd + finding.Word(output) + thenCommit
	case strings.HasPrefix(path.Base(output), "agent-bundle-"):
		return "the manifest now names the bundle " + finding.Path(name) + ": change output in the policy first"
	}
	dir := finding.Word(root(path.Dir(output)))
	if f.ext() == ".tar.zst" {
		dir += " --compression zstd"
	}
	made := path.Join(path.Dir(output), name)
	return cmd + dir + " && mv " + finding.Word(made) + " " + finding.Word(output) + " && rm " + finding.Word(made+".sha256") + thenCommit
}

// root is a directory as sources name it.
func root(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}
