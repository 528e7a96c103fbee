package action

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/layout"
	"github.com/rigward/rigward/internal/test/programs"
)

// imageRepo is a repository with an agent bundle, three bases, and rig-bundle to make what is wanted.
type imageRepo struct {
	*gittest.Repo
	t    *testing.T
	tool string
	base string // the commit that others are proposed to
}

const imageBundle = "dist/agent-bundle-demo-1.0.0-linux-amd64-musl.tar.gz"

// bundle runs rig-bundle in the work tree and returns its result.
func (r imageRepo) bundle(args ...string) map[string]any {
	r.t.Helper()
	cmd := exec.Command(r.tool, append(args, "--json")...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	out, err := cmd.CombinedOutput()
	var v map[string]any
	if json.Unmarshal(out, &v); err != nil {
		r.t.Fatalf("%q: %v %s", args, err, out)
	}
	return v
}

// composed is the digest of the image that rig-bundle makes of the work tree.
func (r imageRepo) composed(base string) string {
	r.t.Helper()
	return r.bundle("image", imageBundle, "--base", base, "-o", "oci:"+filepath.Join(r.t.TempDir(), "out"))["digest"].(string)
}

// propose commits all that is in the work tree, on the base.
func (r imageRepo) propose(files map[string]string) string {
	r.t.Helper()
	r.Run("add", "-A")
	return r.Commit("propose", files)
}

func newImageRepo(t *testing.T, tool, base string) imageRepo {
	r := imageRepo{Repo: gittest.New(t, gittest.Options{}), t: t, tool: tool}
	layout.Write(t, filepath.Join(r.Dir, "images/musl"), "amd64", map[string]string{"lib/ld-musl-x86_64.so.1": "loader", "bin/sh": "sh"})
	layout.Write(t, filepath.Join(r.Dir, "images/glibc"), "amd64", map[string]string{"lib64/ld-linux-x86-64.so.2": "loader", "bin/sh": "sh"})
	r.Add(map[string]string{".bridge/policy.yaml": imagePolicy(base), "agent/manifest.json": agentManifest(""), "agent/bin/agent": "#!/bin/sh\necho one\n"})
	if err := os.Chmod(filepath.Join(r.Dir, "agent/bin/agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.Dir, "dist"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.bundle("create", "--format", "agent", "agent", "-o", "dist")
	r.base = r.propose(nil)
	r.Run("update-ref", "refs/remotes/origin/main", r.base)
	return r
}

func imagePolicy(base string) string {
	return "version: 1\nbundles:\n  - {format: agent, source: agent, output: dist, base: '" + base + "'}\n"
}

func agentManifest(more string) string {
	return `{"bundleVersion":"1","name":"demo","version":"1.0.0","entry":"bin/agent","platform":"linux","arch":"amd64","libc":"musl"` + more + `}`
}

// TestImages: a pull request tells the digest of the image before and after, which is the one that rig-bundle makes, and
// what changed in it; a base that does not fit is a finding, one that cannot be read no pass, and what is proposed never
// says which base counts.
func TestImages(t *testing.T) {
	tool := filepath.Join(gittest.TempDir(t), "rig-bundle")
	if err := programs.Build(filepath.Dir(tool), "rig-bundle"); err != nil {
		t.Fatal(err)
	}
	whole := newImageRepo(t, tool, "oci:images/musl")
	before := whole.composed("oci:images/musl")
	other := t.TempDir()
	layout.Write(t, other, "amd64", map[string]string{"lib/ld-musl-x86_64.so.1": "loader", "bin/sh": "sh", "etc/motd": "newer"})
	replace := func(r imageRepo, with string) {
		r.t.Helper()
		if err := os.RemoveAll(filepath.Join(r.Dir, "images/musl")); err != nil {
			r.t.Fatal(err)
		}
		if with != "" {
			if err := os.CopyFS(filepath.Join(r.Dir, "images/musl"), os.DirFS(with)); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	rebuild := func(r imageRepo) { r.bundle("create", "--format", "agent", "agent", "-o", "dist") }
	for _, c := range []struct {
		name   string
		edit   func(r imageRepo) map[string]string // files that are committed besides
		code   int
		result string
		same   bool     // the image is the one before
		says   []string // of the summary
		log    string
	}{
		{"another program", func(r imageRepo) map[string]string {
			r.Add(map[string]string{"agent/bin/agent": "#!/bin/sh\necho two\n", "agent/manifest.json": agentManifest(`,"env":{"LEVEL":"high"}`)})
			rebuild(r)
			return nil
		}, 0, "clean", false, []string{"layer of the bundle", "env LEVEL", "label com.github.rigward.bundle.tar-digest"}, ""},
		{"another base", func(r imageRepo) map[string]string {
			replace(r, other)
			return nil
		}, 0, "clean", false, []string{"| changed | `base` |", "`layer 1 of the base`"}, ""},
		{"something else", func(r imageRepo) map[string]string { return map[string]string{"notes.txt": "x"} }, 0, "clean", true, nil, ""},
		{"a base that does not fit", func(r imageRepo) map[string]string {
			replace(r, filepath.Join(r.Dir, "images/glibc"))
			return nil
		}, 1, "findings", false, []string{"none: the bundle and the base do not go together"}, "[bundle-base-libc]"},
		{"no base", func(r imageRepo) map[string]string {
			replace(r, "")
			return nil
		}, 2, "undecided", false, nil, "cannot be looked up"},
		{"a damaged base", func(r imageRepo) map[string]string {
			names, _ := filepath.Glob(filepath.Join(r.Dir, "images/musl/blobs/sha256/*"))
			for _, name := range names {
				data, _ := os.ReadFile(name)
				os.WriteFile(name, []byte(strings.ReplaceAll(string(data), "loader", "LOADER")), 0o644)
			}
			return nil
		}, 2, "undecided", false, nil, "cannot be looked up"},
		{"a base that is a link", func(r imageRepo) map[string]string {
			replace(r, "")
			if err := os.Symlink("glibc", filepath.Join(r.Dir, "images/musl")); err != nil {
				r.t.Fatal(err)
			}
			return nil
		}, 2, "undecided", false, nil, "cannot be looked up"},
		{"a policy that names another base", func(r imageRepo) map[string]string {
			r.Add(map[string]string{"agent/bin/agent": "#!/bin/sh\necho two\n"})
			rebuild(r)
			return map[string]string{".bridge/policy.yaml": imagePolicy("oci:images/glibc")}
		}, 1, "findings", false, []string{"`oci:images/musl`"}, "[signers-change]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := imageRepo{whole.Copy(t), t, whole.tool, whole.base}
			head := r.propose(c.edit(r))
			res := runStep(t, r.Repo, "pull_request", payload(t, "pull_request", "@BASE@", r.base, "@HEAD@", head))
			res.check(t, c.code, c.result, c.log)
			res.summary = strings.NewReplacer("<code>", "`", "</code>", "`", "<span>&#58;</span>", ":").Replace(res.summary)
			for _, w := range c.says {
				if !strings.Contains(res.summary, w) {
					t.Errorf("the summary does not say %q:\n%s", w, res.summary)
				}
			}
			image := strings.TrimPrefix(res.outputs["images"], imageBundle+"=")
			switch {
			case c.same:
				if image != "" || strings.Contains(res.summary, "Image") {
					t.Errorf("an image of a bundle that nothing touches: %v\n%s", res.outputs, res.summary)
				}
			case strings.Contains(c.log, "bundle-") || c.code == 2:
				if image != "" {
					t.Errorf("there is no image: %v", res.outputs)
				}
			default:
				if want := r.composed("oci:images/musl"); image != want || want == before || !strings.Contains(res.summary, "| Image before | `"+before+"` |") || !strings.Contains(res.summary, "| Image | `"+want+"` |") {
					t.Errorf("outputs %v, expected the image %s, before %s\n%s", res.outputs, want, before, res.summary)
				}
			}
		})
	}
	t.Run("a docker archive", func(t *testing.T) {
		r := imageRepo{whole.Copy(t), t, whole.tool, whole.base}
		r.bundle("image", imageBundle, "--base", "oci:images/musl", "-o", "docker-archive:images/base.tar")
		r.base = r.propose(map[string]string{".bridge/policy.yaml": imagePolicy("docker-archive:images/base.tar")})
		r.Run("update-ref", "refs/remotes/origin/main", r.base)
		r.Add(map[string]string{"agent/bin/agent": "#!/bin/sh\necho two\n"})
		rebuild(r)
		head := r.propose(nil)
		res := runStep(t, r.Repo, "pull_request", payload(t, "pull_request", "@BASE@", r.base, "@HEAD@", head))
		res.check(t, 0, "clean")
		if want := imageBundle + "=" + r.composed("docker-archive:images/base.tar"); res.outputs["images"] != want {
			t.Errorf("outputs %v, expected %s", res.outputs, want)
		}
	})
	t.Run("a registry", func(t *testing.T) { imagesOfRegistries(t, tool) })
}

// imagesOfRegistries: a base in a registry is asked for only where the workflow says so, by the digest that the policy
// names, and what is not that is no pass.
func imagesOfRegistries(t *testing.T, tool string) {
	var asked atomic.Int32
	var lie atomic.Bool
	keep := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			t.Error("credentials were sent")
		}
		if lie.Load() && strings.Contains(r.URL.Path, "/blobs/") {
			w.Write([]byte("something else"))
			return
		}
		keep.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	first := newImageRepo(t, tool, "oci:images/musl")
	digest := first.bundle("image", imageBundle, "--base", "oci:images/musl", "-o", host+"/base:1")["digest"].(string)
	pinned := host + "/base@" + digest
	first.base = first.propose(map[string]string{".bridge/policy.yaml": imagePolicy(pinned)})
	first.Run("update-ref", "refs/remotes/origin/main", first.base)
	first.Add(map[string]string{"agent/bin/agent": "#!/bin/sh\necho two\n"})
	first.bundle("create", "--format", "agent", "agent", "-o", "dist")
	head := first.propose(nil)
	event := payload(t, "pull_request", "@BASE@", first.base, "@HEAD@", head)
	asked.Store(0)
	res := runStep(t, first.Repo, "pull_request", event)
	res.check(t, 0, "clean")
	if asked.Load() != 0 || res.outputs["images"] != "" || !strings.Contains(res.summary, "none: the base is in a registry, which the action's input fetch-bases allows to read") {
		t.Errorf("asked %d times, outputs %v\n%s", asked.Load(), res.outputs, res.summary)
	}
	res = runStep(t, first.Repo, "pull_request", event, "INPUT_FETCH_BASES=true")
	res.check(t, 0, "clean")
	if want := imageBundle + "=" + first.composed(pinned); res.outputs["images"] != want {
		t.Errorf("outputs %v, expected %s", res.outputs, want)
	}
	lie.Store(true)
	runStep(t, first.Repo, "pull_request", event, "INPUT_FETCH_BASES=true").check(t, 2, "undecided", "cannot be looked up")
	runStep(t, first.Repo, "pull_request", event, "INPUT_FETCH_BASES=maybe").check(t, 2, "undecided", "the input fetch-bases is")
}
