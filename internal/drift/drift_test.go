package drift

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/drift/ask"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

var rigFiles = map[string]string{
	"rigs/team/rig.yaml":               "version: \"0.2\"\nname: team\npods:\n  - id: dev\n    label: Dev\n    members:\n      - id: impl\n        agent_ref: local:agents/impl\n        profile: default\n        runtime: codex\n        cwd: .\n      - id: lead\n        agent_ref: local:../../shared/lead\n        profile: default\n        runtime: codex\n        cwd: .\n",
	"rigs/team/agents/impl/agent.yaml": "name: impl\nversion: \"1.0\"\nprofiles:\n  default: {}\n",
	"rigs/team/agents/impl/role.md":    "Build it.\n",
	"shared/lead/agent.yaml":           "name: lead\nversion: \"1.0\"\nprofiles:\n  default: {}\n",
	"shared/lead/role.md":              "Lead it.\n",
	"shared/unused.md":                 "Nobody's.\n",
}

var agentFiles = map[string]string{
	"agent/manifest.json": `{"bundleVersion":"1","name":"demo","version":"1.0.0","entry":"bin/agent","platform":"linux","arch":"amd64","libc":"musl"}`,
	"agent/bin/agent":     "#!/bin/sh\n",
	"agent/etc/config":    "a = 1\n",
}

var (
	rigBundle   = policy.Bundle{Format: "rig", Source: "rigs/team/rig.yaml", Output: "dist/team.rigbundle"}
	agentBundle = policy.Bundle{Format: "agent", Source: "agent", Output: "dist/demo.tar.gz"}
)

// put commits files; a mode is kept if the path had one.
func put(r *gittest.Repo, files map[string]string) string { return r.Commit("Change", files) }

func start(t *testing.T, files map[string]string) *gittest.Repo {
	r := gittest.New(t, gittest.Options{})
	r.Add(files)
	if _, ok := files["agent/bin/agent"]; ok {
		r.Run("update-index", "--chmod=+x", "agent/bin/agent")
		if err := os.Chmod(r.Dir+"/agent/bin/agent", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.Commit("Begin", nil)
	return r
}

func judge(t *testing.T, r *gittest.Repo, base, tip string, bs ...policy.Bundle) (*Judge, error) {
	t.Helper()
	return judgeIn(t, t.Context(), r, base, tip, bs...)
}

func judgeIn(t *testing.T, ctx context.Context, r *gittest.Repo, base, tip string, bs ...policy.Bundle) (*Judge, error) {
	t.Helper()
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	temp := t.TempDir()
	j := &Judge{Repo: repo, Now: time.Unix(r.Now, 0), Temp: temp}
	p := policy.Default()
	p.Bundles = bs
	rg := rules.Range{New: r.Run("rev-parse", tip), Policy: p, Trust: policy.Untrusting("nowhere")}
	if base != "" {
		rg.Exclude = []string{r.Run("rev-parse", base)}
	}
	err = j.Range(ctx, rg)
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("%d directories are left behind", len(left))
	}
	if ctx.Err() == nil {
		sameAsked(t, repo, ask.Question{Range: rg, Now: j.Now}, j, err)
	}
	return j, err
}

// sameAsked holds that another process answers the same, as rig-bundle does for rig-hook.
func sameAsked(t *testing.T, repo *gitrepo.Repo, q ask.Question, here *Judge, problem error) {
	t.Helper()
	there := ask.Of(func(ctx context.Context, env gitrepo.Env, stdin io.Reader) (stdout, stderr []byte, code int, err error) {
		var out, errOut bytes.Buffer
		code = ask.Serve(ctx, env, stdin, &out, &errOut, Here(nil))
		return out.Bytes(), errOut.Bytes(), code, nil
	}, "none")
	got, err := there(t.Context(), repo, q)
	if (err == nil) != (problem == nil) || err != nil && (err.Error() != finding.Clean(problem.Error()) || policy.HintOf(err) != policy.HintOf(problem)) {
		t.Errorf("another process says %v, this one %v", err, problem)
	}
	a, b := fmt.Sprintf("%+v %+v", got.Findings, got.Bundles), fmt.Sprintf("%+v %+v", here.Findings, here.Bundles)
	if a != b {
		t.Errorf("another process finds\n%s\nthis one\n%s", a, b)
	}
}

// must judges what can be judged.
func must(t *testing.T, r *gittest.Repo, base, tip string, bs ...policy.Bundle) *Judge {
	t.Helper()
	j, err := judge(t, r, base, tip, bs...)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// commitBundle commits what the sources of HEAD give.
func commitBundle(t *testing.T, r *gittest.Repo, b policy.Bundle) string {
	t.Helper()
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	c, err := repo.Commit(r.Ref("HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	s := &side{Judge: &Judge{Repo: repo, Temp: t.TempDir()}, ctx: t.Context(), tip: c, r: rules.Range{Policy: policy.Default()}}
	var f builder = &rigBuilder{side: s, b: b}
	if b.Format == "agent" {
		f = &agentBuilder{side: s, b: b}
	}
	out, err := s.build(f, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out.close()
	if out.file == nil {
		t.Fatal(out.faults)
	}
	data := make([]byte, out.Size)
	if _, err := out.File.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return put(r, map[string]string{b.Output: string(data)})
}

func rulesOf(fs []finding.Finding) string {
	var out []string
	for _, f := range fs {
		out = append(out, f.Rule+" "+f.Path)
	}
	return strings.Join(out, ", ")
}

func change(t *testing.T, list []report.MemberChange, kind, path string) report.MemberChange {
	t.Helper()
	i := slices.IndexFunc(list, func(c report.MemberChange) bool { return c.Kind == kind && strings.HasSuffix(c.Path, path) })
	if i < 0 {
		t.Fatalf("no %s %s in %v", kind, path, list)
	}
	return list[i]
}

func TestReport(t *testing.T) {
	for _, tt := range []struct {
		b     policy.Bundle
		files map[string]string
		text  string // file of the source
		old   string
	}{
		{rigBundle, rigFiles, "rigs/team/agents/impl/role.md", "Build it."},
		{rigBundle, rigFiles, "shared/lead/role.md", "Lead it."},
		{agentBundle, agentFiles, "agent/etc/config", "a = 1"},
	} {
		t.Run(tt.b.Format+" "+tt.text, func(t *testing.T) {
			t.Parallel()
			r := start(t, tt.files)
			j := must(t, r, "", "HEAD", tt.b)
			if rulesOf(j.Findings) != "bundle-drift "+tt.b.Output || !j.Bundles[0].Drift || j.Bundles[0].Committed != "" {
				t.Fatalf("without a bundle: %v, %+v", j.Findings, j.Bundles)
			}
			commitBundle(t, r, tt.b)
			j = must(t, r, "HEAD~1", "HEAD", tt.b)
			first := j.Bundles[0]
			if len(j.Findings) > 0 || first.Drift || !first.Touched || !first.Deterministic || first.Committed == "" || first.Committed != first.Rebuilt || len(first.FromCommitted) > 0 {
				t.Fatalf("a fresh bundle: %v, %+v", j.Findings, first)
			}
			put(r, map[string]string{tt.text: "New text\n"})
			j = must(t, r, "HEAD~1", "HEAD", tt.b)
			if rulesOf(j.Findings) != "bundle-drift "+tt.b.Output || j.Findings[0].Severity != finding.Error || !strings.Contains(j.Findings[0].Hint, "rig-bundle create ") {
				t.Fatalf("forgotten: %v", j.Findings)
			}
			if made := "dist/agent-bundle-demo-1.0.0-linux-amd64-musl.tar.gz"; tt.b.Format == "agent" && !strings.HasSuffix(j.Findings[0].Hint, " && mv "+made+" dist/demo.tar.gz && rm "+made+".sha256, then commit it") {
				t.Errorf("hint %s", j.Findings[0].Hint)
			}
			got := j.Bundles[0]
			if !got.Drift || got.Committed != first.Committed || got.Base != first.Rebuilt || got.Rebuilt == got.Base {
				t.Errorf("forgotten: %+v", got)
			}
			base := tt.text[strings.LastIndex(tt.text, "/")+1:]
			for _, list := range [][]report.MemberChange{got.FromBase, got.FromCommitted} {
				c := change(t, list, "changed", base)
				if !strings.Contains(c.Diff, "-"+tt.old+"\n+New text\n") || !strings.HasPrefix(c.Old, "sha256:") || c.Old == c.New {
					t.Errorf("%+v", c)
				}
			}
			commitBundle(t, r, tt.b)
			if j = must(t, r, "HEAD~2", "HEAD", tt.b); len(j.Findings) > 0 || j.Bundles[0].Drift || len(j.Bundles[0].FromBase) == 0 {
				t.Errorf("rebuilt: %v, %+v", j.Findings, j.Bundles)
			}
			if j = must(t, r, "HEAD", "HEAD", tt.b); len(j.Bundles)+len(j.Findings) > 0 {
				t.Errorf("an empty range: %v", j.Bundles)
			}
			put(r, map[string]string{"shared/unused.md": "Still nobody's.\n"})
			if j = must(t, r, "HEAD~1", "HEAD", tt.b); len(j.Bundles)+len(j.Findings) > 0 {
				t.Errorf("an unrelated change: %v", j.Bundles)
			}
		})
	}
}

// TestUses: a build that looks at fewer files than before was touched too.
func TestUses(t *testing.T) {
	r := start(t, rigFiles)
	commitBundle(t, r, rigBundle)
	r.Run("rm", "-q", "-r", "shared/lead")
	r.Commit("Gone", nil)
	j := must(t, r, "HEAD~1", "HEAD", rigBundle)
	if len(j.Findings) == 0 || !strings.HasPrefix(j.Findings[0].Rule, "bundle-") {
		t.Errorf("%v", j.Findings)
	}
}

// unstable builds another bundle under other conditions.
type unstable struct{ builder }

func (u unstable) inputs(c *gitrepo.Commit, under conditions, like *file) (bundle.Format, *source, bundle.Input, error) {
	f, src, in, err := u.builder.inputs(c, under, like)
	if under != (conditions{}) {
		f = other{f}
	}
	return f, src, in, err
}

type other struct{ bundle.Format }

func (o other) Digest(ctx context.Context, src bundle.Input, opt bundle.Options) (*bundle.Result, error) {
	r, err := o.Format.Digest(ctx, src, opt)
	if err == nil {
		r.TarDigest = bundle.Digest{1}
	}
	return r, err
}

func TestNotDeterministic(t *testing.T) {
	r := start(t, agentFiles)
	commitBundle(t, r, agentBundle)
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	c, err := repo.Commit(r.Ref("HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	for _, stable := range []bool{true, false} {
		s := &side{Judge: &Judge{Repo: repo, Temp: t.TempDir()}, ctx: t.Context(), tip: c, r: rules.Range{Policy: policy.Default()}}
		var f builder = &agentBuilder{side: s, b: agentBundle}
		if !stable {
			f = unstable{f}
		}
		if err := s.archive(agentBundle, f); err != nil {
			t.Fatal(err)
		}
		if s.Bundles[0].Deterministic != stable || (len(s.Findings) == 0) != stable || !stable && !strings.Contains(s.Findings[0].Message, "differ") {
			t.Errorf("stable %v: %+v, %v", stable, s.Bundles[0], s.Findings)
		}
	}
}

func TestHostile(t *testing.T) {
	var bomb bytes.Buffer
	zw := gzip.NewWriter(&bomb)
	chunk := make([]byte, 1<<20)
	for range 128 {
		if _, err := zw.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	zw.Close()
	r := start(t, agentFiles)
	commitBundle(t, r, agentBundle)
	for name, output := range map[string]string{
		"F13 no archive": "../../etc/passwd", "a bomb": bomb.String(), "empty": "", "F14 bytes after the end": r.Run("show", "HEAD:"+agentBundle.Output) + "\n\x00more",
	} {
		t.Run(name, func(t *testing.T) {
			put(r, map[string]string{agentBundle.Output: output})
			j := must(t, r, "HEAD~1", "HEAD", agentBundle)
			if len(j.Findings) == 0 || !strings.HasPrefix(j.Findings[0].Rule, "bundle-container-") && !strings.HasPrefix(j.Findings[0].Rule, "bundle-limit-") || !j.Bundles[0].Drift {
				t.Errorf("%v, %+v", j.Findings, j.Bundles)
			}
		})
	}
	t.Run("a tree that holds itself many times over", func(t *testing.T) {
		tree := r.Tree(gittest.TreeEntry{Mode: "100644", Name: "f", ID: r.Blob("x")})
		for range 9 {
			var es []gittest.TreeEntry
			for i := range 10 {
				es = append(es, gittest.TreeEntry{Mode: "40000", Name: fmt.Sprintf("d%d", i), ID: tree})
			}
			tree = r.Tree(es...)
		}
		manifest := r.Blob(agentFiles["agent/manifest.json"])
		agent := r.Tree(gittest.TreeEntry{Mode: "40000", Name: "bin", ID: tree}, gittest.TreeEntry{Mode: "100644", Name: "manifest.json", ID: manifest})
		top := r.Tree(gittest.TreeEntry{Mode: "40000", Name: "agent", ID: agent})
		tip := r.CommitTree(top, "Bomb", r.Ref("HEAD"))
		j := must(t, r, "", tip, agentBundle)
		if !slices.ContainsFunc(j.Findings, func(f finding.Finding) bool { return f.Rule == "bundle-limit-entries" }) {
			t.Errorf("%v", j.Findings)
		}
	})
	t.Run("links of many bytes", func(t *testing.T) {
		long := r.Blob(strings.Repeat("x", 4<<20))
		var es []gittest.TreeEntry
		for i := range 50 {
			es = append(es, gittest.TreeEntry{Mode: "120000", Name: fmt.Sprintf("l%02d", i), ID: long})
		}
		es = append(es, gittest.TreeEntry{Mode: "100644", Name: "manifest.json", ID: r.Blob(agentFiles["agent/manifest.json"])})
		top := r.Tree(gittest.TreeEntry{Mode: "40000", Name: "agent", ID: r.Tree(es...)})
		j := must(t, r, "HEAD", r.CommitTree(top, "Links", r.Ref("HEAD")), agentBundle)
		if !slices.ContainsFunc(j.Findings, func(f finding.Finding) bool { return f.Rule == "bundle-link-target" }) {
			t.Errorf("%v", j.Findings)
		}
	})
	t.Run("time is up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := judgeIn(t, ctx, r, "", "HEAD", agentBundle)
		var u *policy.Undecided
		if !errors.Is(err, context.Canceled) || !errors.As(err, &u) {
			t.Errorf("%v", err)
		}
	})
}

// TestLevels: the policy decides how bad drift is; what is wrong with a bundle
// itself stays an error.
func TestLevels(t *testing.T) {
	r := start(t, agentFiles)
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	for _, level := range []finding.Severity{finding.Off, finding.Warning, finding.Error} {
		p := policy.Default()
		p.Bundles, p.Levels = []policy.Bundle{agentBundle}, map[string]finding.Severity{"bundle-drift": level}
		j := &Judge{Repo: repo, Temp: t.TempDir()}
		if err := j.Range(t.Context(), rules.Range{New: r.Ref("HEAD"), Policy: p}); err != nil {
			t.Fatal(err)
		}
		if finding.Worst(j.Findings) != level || len(j.Bundles) != 1 || !j.Bundles[0].Drift {
			t.Errorf("%v: %v", level, j.Findings)
		}
	}
}

// TestReversed shows that the second build sees other conditions, and that a
// reader of listings would notice.
func TestReversed(t *testing.T) {
	r := start(t, agentFiles)
	repo, err := gitrepo.Open(t.Context(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	tree := r.Run("rev-parse", "HEAD^{tree}")
	list := func(under conditions) (names []string) {
		items, err := newSource(t.Context(), repo, tree, "", under).ReadDir("agent")
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			names = append(names, it.Name)
		}
		return names
	}
	if a, b := list(conditions{}), list(again); slices.Equal(a, b) || len(a) != 3 {
		t.Errorf("%v and %v", a, b)
	}
	var _ bundle.Source = (*source)(nil)
}

// TestCapabilities: what a bundle may do and could not at the base is a finding of its
// own, at the level of the policy, and what it may do no more is none.
func TestCapabilities(t *testing.T) {
	r := start(t, agentFiles)
	commitBundle(t, r, agentBundle)
	manifest := agentFiles["agent/manifest.json"]
	gains := func(j *Judge) (out []string) {
		for _, f := range j.Findings {
			if f.Rule == "bundle-capability" {
				out = append(out, f.Severity.String()+" "+f.Message)
			}
		}
		return out
	}
	put(r, map[string]string{"agent/manifest.json": strings.Replace(manifest, `"libc"`, `"env": {"MODE": "root"}, "libc"`, 1)})
	commitBundle(t, r, agentBundle)
	j := must(t, r, "HEAD~2", "HEAD", agentBundle)
	if got := gains(j); len(got) != 1 || got[0] != `warning the bundle may do what it could not at the base: environment at "env.MODE": "is set to \"root\""` {
		t.Errorf("%q", got)
	}
	if list := j.Bundles[0].Capabilities; len(list) != 1 || !list[0].Gain {
		t.Errorf("%+v", list)
	}
	put(r, map[string]string{"agent/manifest.json": manifest})
	commitBundle(t, r, agentBundle)
	j = must(t, r, "HEAD~2", "HEAD", agentBundle)
	if got := gains(j); len(got) != 0 || len(j.Bundles[0].Capabilities) != 1 {
		t.Errorf("what is gone: %q, %+v", got, j.Bundles[0].Capabilities)
	}
}
