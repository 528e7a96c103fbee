package drift

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/policy"
)

// A file that can be taken for the bundle is one that nobody has rebuilt.
func TestStrays(t *testing.T) {
	const name = "agent-bundle-demo-1.0.0-linux-amd64-musl.tar.gz"
	whole := policy.Bundle{Format: "agent", Source: "agent", Output: "dist"}
	other := policy.Bundle{Format: "agent", Source: "agent", Output: "dist/other.tar.gz"}
	at := agentBundle
	at.Output = "dist/" + name
	r := start(t, agentFiles)
	base := commitBundle(t, r, at)
	blob := func(r *gittest.Repo) string { return r.Run("rev-parse", "HEAD:dist/"+name) }
	for _, c := range []struct {
		name, path, mode string
		b                policy.Bundle
		more             []policy.Bundle
		want             string
	}{
		{"another name beside a named bundle", "dist/other.txt", "100644", at, nil, ""},
		{"another archive beside a named bundle", "dist/old.tar.gz", "100644", at, nil, ""},
		{"the file in capital letters", "dist/" + strings.ToUpper(name), "100644", at, nil, "bundle-drift"},
		{"the directory in capital letters", "DIST/" + name, "100644", at, nil, "bundle-drift"},
		{"a checksum in capital letters", "dist/" + name + ".SHA256", "100644", at, nil, "bundle-drift"},
		{"a link in place of the directory", "Dist", "120000", at, nil, "bundle-drift"},
		{"another file in capital letters", "DIST/other.txt", "100644", at, nil, ""},
		{"a text in the output's directory", "dist/README.md", "100644", whole, nil, ""},
		{"another version in the output's directory", "dist/agent-bundle-demo-9.0.0-linux-amd64-musl.tar.gz", "100644", whole, nil, "bundle-drift"},
		{"another name below the output's directory", "dist/new/x.tar.zst", "100644", whole, nil, "bundle-drift"},
		{"a signature of another version", "dist/x.tar.gz.sig", "100644", whole, nil, "bundle-drift"},
		{"the computed name in capital letters", "Dist/" + name, "100644", whole, nil, "bundle-drift"},
		{"another bundle of the policy in the directory", "dist/other.tar.gz", "100644", whole, []policy.Bundle{other}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := r.Copy(t)
			id := blob(r)
			if c.mode == "120000" {
				id = r.Run("rev-parse", "HEAD:agent/etc/config")
			}
			r.Run("update-index", "--add", "--cacheinfo", c.mode+","+id+","+c.path)
			r.Run("commit", "-q", "-m", "Change")
			j := must(t, r, base, "HEAD", append([]policy.Bundle{c.b}, c.more...)...)
			found := ""
			for _, f := range j.Findings {
				if f.Path == c.path {
					found = f.Rule
				} else if c.more == nil {
					t.Errorf("%s: %s", f.Path, f.Message)
				}
			}
			if found != c.want {
				t.Errorf("%q at %s, expected %q", found, c.path, c.want)
			}
			// It is there before the range: nobody's any more.
			if c.more == nil {
				before := r.Ref("HEAD")
				if j := must(t, r, before, r.Commit("More", map[string]string{"more.txt": "x"}), c.b); len(j.Findings) > 0 {
					t.Errorf("found again: %s", rulesOf(j.Findings))
				}
			}
		})
	}
}
