package drift

import (
	"path"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// rigBuilder makes RigBundles (docs/spec/rigbundle.md#create). The source is
// the RigSpec; what it refers to may lie anywhere in the repository. The form is
// the default one unless the policy's option form names the other: that one
// leaves modes out, so that it would hide a change of them.
type rigBuilder struct {
	*side
	b policy.Bundle
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

func (f *rigBuilder) inputs(c *gitrepo.Commit, under conditions, like *file) (bundle.Format, *source, bundle.Input, error) {
	at, now := when(c, under), f.Now
	if under != (conditions{}) {
		now = now.AddDate(1, 0, 0)
	}
	o := rig.Options{
		Name: f.b.Name, Version: f.b.Version, Form: f.b.Options["form"], DropServices: f.b.Options["drop-services"] == "true",
		CommitTime: &at, Now: func() time.Time { return now },
	}
	if like != nil {
		o.Stamps = like.judged.Whole.(*rig.Result).Stamps()
	}
	src := newSource(f.ctx, f.Repo, c.Tree, "", under)
	return rig.Format{Source: rig.Source{RigRoot: f.root(), Output: f.b.Output}, Options: o}, src, bundle.Input{Name: f.b.Source, Tree: src}, nil
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
	return cmd + thenCommit
}
