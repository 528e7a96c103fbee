package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/rigward/rigward/internal/test/layout"
)

// agentBundle makes a bundle in dir and returns its name. edit changes the manifest's fields.
func agentBundle(t *testing.T, dir string, edit map[string]any, files map[string]string) string {
	t.Helper()
	fields := map[string]any{"bundleVersion": "1", "name": "demo", "version": "1.0.0+b.1", "entry": "bin/agent", "platform": "linux", "arch": "amd64", "libc": "musl",
		"env": map[string]string{"NODE_ENV": "production", "A": "b c"}, "capabilities": map[string]bool{"needsCoffee": true}}
	for k, v := range edit {
		fields[k] = v
	}
	src := t.TempDir()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(src, "manifest.json"), string(text), 0o644)
	put(t, filepath.Join(src, "bin", "agent"), "#!/bin/sh\n", 0o755)
	for name, content := range files {
		put(t, filepath.Join(src, name), content, 0o755)
	}
	v := agentObject(t, dir, nil, 0, "create", src, "--format", "agent", "-o", dir)
	return filepath.Base(v["file"].(string))
}

// treeDigest is one digest of all files below a directory.
func treeDigest(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		h.Write([]byte(rel + "\n"))
		h.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func blobOf(dir, digest string) string {
	return filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
}

// tool runs a program that may be missing, and skips then.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, errs.String())
	}
	return string(out)
}

// TestImageIsTheSameEverywhere: the same bundle on the same base gives the same bytes, whatever the directories, the
// umask, the compression of the bundle and the form of the base; and another epoch gives others.
func TestImageIsTheSameEverywhere(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	digests := map[string]bool{}
	for i, dir := range []string{one, two} {
		name := agentBundle(t, dir, nil, map[string]string{"dist/main.js": strings.Repeat("x", 100_000), "a-b": "1", "a/b": "2"})
		if i == 1 {
			again := t.TempDir()
			v := agentObject(t, dir, nil, 0, "create", filepath.Join(unpacked(t, dir, name), "agent"), "--format", "agent", "--compression", "zstd", "-o", again)
			if v["tar_digest"] == nil {
				t.Fatal(v)
			}
			name = v["file"].(string)
			defer umask(0o077)()
		}
		layout.Write(t, filepath.Join(dir, "base"), "amd64", muslBase)
		v := agentObject(t, dir, nil, 0, "image", name, "--base", "oci:base", "-o", "oci:out")
		digests[v["digest"].(string)+treeDigest(t, filepath.Join(dir, "out"))] = true
	}
	if len(digests) != 1 {
		t.Errorf("two machines, %d digests: %v", len(digests), digests)
	}
	name := demoName(t, one)
	v := agentObject(t, one, map[string]string{"SOURCE_DATE_EPOCH": "1700000000"}, 0, "image", name, "--base", "oci:base", "-o", "oci:later")
	for d := range digests {
		if strings.HasPrefix(d, v["digest"].(string)) {
			t.Error("another time gives the same image")
		}
	}
	agentObject(t, one, nil, 2, "image", name, "--base", "oci:base", "-o", "oci:out") // it is there already
}

func demoName(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "agent-bundle-*.tar.gz"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no bundle in %s: %v", dir, err)
	}
	return names[0]
}

// unpacked stages a bundle without looking at a base.
func unpacked(t *testing.T, dir, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "ctx")
	agentObject(t, dir, nil, 0, "stage", name, "--target", "linux/amd64/musl", "--base", "x", "--unchecked-base", "--out", out)
	return out
}

// TestImageHoldsTheContract: the base's layers unchanged, one layer more, and a config that starts the agent as
// docs/spec/agentbundle.md#image says.
func TestImageHoldsTheContract(t *testing.T) {
	dir := t.TempDir()
	name := agentBundle(t, dir, nil, nil)
	baseDigest := layout.Write(t, filepath.Join(dir, "base"), "amd64", map[string]string{"lib/ld-musl-x86_64.so.1": "loader", "bin/sh": "sh", "holon/agent/old.js": "of the base"})
	v := agentObject(t, dir, nil, 0, "image", name, "--base", "oci:base", "-o", "oci:out")
	made := v["images"].([]any)[0].(map[string]any)
	if v["media_type"] != "application/vnd.oci.image.manifest.v1+json" || v["digest"] != made["digest"] || made["base"] != baseDigest {
		t.Fatalf("%v", v)
	}
	var m, below struct {
		Layers      []map[string]any
		Config      map[string]any
		Annotations map[string]string
	}
	readJSON(t, blobOf(filepath.Join(dir, "out"), v["digest"].(string)), &m)
	readJSON(t, blobOf(filepath.Join(dir, "base"), baseDigest), &below)
	if len(m.Layers) != 2 || m.Layers[0]["digest"] != below.Layers[0]["digest"] || m.Layers[1]["digest"] != made["layer"] {
		t.Errorf("layers: %v over %v", m.Layers, below.Layers)
	}
	var config struct {
		Config struct {
			Entrypoint, Cmd, Env []string
			WorkingDir           string
			Labels               map[string]string
		} `json:"config"`
		Created string `json:"created"`
	}
	readJSON(t, blobOf(filepath.Join(dir, "out"), m.Config["digest"].(string)), &config)
	run := config.Config
	if !slices.Equal(run.Entrypoint, []string{"/holon/agent/bin/agent"}) || run.Cmd != nil || run.WorkingDir != "/holon/workspace" || config.Created != "1970-01-01T00:00:00Z" ||
		!slices.Equal(run.Env, []string{"PATH=/usr/bin:/bin", "A=b c", "NODE_ENV=production"}) {
		t.Errorf("config: %+v", config)
	}
	for key, want := range map[string]string{
		"org.opencontainers.image.title": "demo", "org.opencontainers.image.version": "1.0.0+b.1", "org.opencontainers.image.base.digest": baseDigest,
		"com.github.rigward.run.mounts":       `[{"path":"/holon/input","read_only":true},{"path":"/holon/workspace","read_only":false},{"path":"/holon/output","read_only":false}]`,
		"com.github.rigward.run.capabilities": `{"needsCoffee":true}`, "com.github.rigward.bundle.target": "linux/amd64/musl",
	} {
		if run.Labels[key] != want || m.Annotations[key] != want {
			t.Errorf("%s: label %q, annotation %q, want %q", key, run.Labels[key], m.Annotations[key], want)
		}
	}
	listing := tool(t, "tar", "-tzf", blobOf(filepath.Join(dir, "out"), made["layer"].(string)))
	want := "holon/\nholon/agent/\nholon/agent/.wh..wh..opq\nholon/agent/bin/\nholon/agent/bin/agent\nholon/agent/manifest.json\nholon/input/\nholon/output/\nholon/run.json\nholon/workspace/\n"
	if listing != want {
		t.Errorf("the layer holds:\n%s", listing)
	}
}

// TestImageRefuses: what does not fit is not composed, and nothing is written.
func TestImageRefuses(t *testing.T) {
	dir := t.TempDir()
	layout.Write(t, filepath.Join(dir, "base"), "amd64", muslBase)
	layout.Write(t, filepath.Join(dir, "arm"), "arm64", muslBase)
	good := agentBundle(t, dir, nil, nil)
	node := agentBundle(t, dir, map[string]any{"name": "node", "runtime": map[string]string{"type": "node", "version": "20.15.1"}}, nil)
	hiding := agentBundle(t, dir, map[string]any{"name": "hiding"}, map[string]string{"lib/.wh.x": ""})
	hidden := agentBundle(t, dir, map[string]any{"name": "hidden"}, map[string]string{"lib/x.wh.y": ""}) // the lawful neighbour
	glibc := agentBundle(t, dir, map[string]any{"libc": "glibc"}, nil)
	damaged := strings.Replace(good, "demo", "other", 1)
	put(t, filepath.Join(dir, damaged), "no archive", 0o644)
	for _, row := range []struct {
		args []string
		exit int
		code string
	}{
		{[]string{hidden, "--base", "oci:base"}, 0, "ok"},
		{[]string{good, "--base", "oci:arm"}, 1, "base-platform"},
		{[]string{node, "--base", "oci:base"}, 1, "base-runtime"},
		{[]string{hiding, "--base", "oci:base"}, 1, "member-name"},
		{[]string{damaged, "--base", "oci:base"}, 1, "container-unknown"},
		{[]string{good, glibc, "--base", "oci:base"}, 1, "base-libc"},
		{[]string{good, good, "--base", "oci:base"}, 2, "usage"},
		{[]string{good, "--base", "oci:none"}, 2, "image-unreadable"},
		{[]string{good}, 2, "usage"},
		{[]string{good, "--base", "oci:"}, 2, "usage"},
		{[]string{good, "--base", "oci:base", "--unchecked-base"}, 2, "usage"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		v := agentObject(t, dir, nil, row.exit, append(append([]string{"image"}, row.args...), "-o", "oci:"+out)...)
		if _, err := os.Stat(out); v["code"] != row.code || (err == nil) != (row.exit == 0) {
			t.Errorf("%q: %v, written: %v", row.args, v, err == nil)
		}
	}
	if v := agentObject(t, dir, nil, 2, "image", good, "--base", "oci:base", "-o", "oci:none/out"); v["code"] != "io-error" {
		t.Errorf("no such directory: %v", v)
	}
}

// bothBases writes a layout of a base for amd64 and arm64.
func bothBases(t *testing.T, dir string) {
	t.Helper()
	amdDigest := layout.Write(t, dir, "amd64", muslBase)
	armDigest := layout.Write(t, dir, "arm64", map[string]string{"lib/ld-musl-aarch64.so.1": "loader", "bin/sh": "sh"})
	manifest := func(digest, arch string) map[string]any {
		data, err := os.ReadFile(blobOf(dir, digest))
		if err != nil {
			t.Fatal(err)
		}
		return map[string]any{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": len(data), "platform": map[string]string{"os": "linux", "architecture": arch}}
	}
	index, _ := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{manifest(amdDigest, "amd64"), manifest(armDigest, "arm64")}})
	put(t, filepath.Join(dir, "index.json"), string(index), 0o644)
}

// TestImageOfSeveralPlatforms: bundles for several platforms make one index, on the images of one.
func TestImageOfSeveralPlatforms(t *testing.T) {
	dir := t.TempDir()
	amd := agentBundle(t, dir, nil, nil)
	arm := agentBundle(t, dir, map[string]any{"arch": "arm64"}, nil)
	bothBases(t, filepath.Join(dir, "base"))
	v := agentObject(t, dir, nil, 0, "image", arm, amd, "--base", "oci:base", "-o", "oci:out:both")
	if v["media_type"] != "application/vnd.oci.image.index.v1+json" || len(v["images"].([]any)) != 2 {
		t.Fatalf("%v", v)
	}
	again := agentObject(t, dir, nil, 0, "image", amd, arm, "--base", "oci:base", "-o", "oci:again")
	if again["digest"] != v["digest"] {
		t.Errorf("the order of the bundles makes another index: %v, %v", v["digest"], again["digest"])
	}
	for i, arch := range []string{"amd64", "arm64"} {
		raw := tool(t, "skopeo", "inspect", "--override-os", "linux", "--override-arch", arch, "oci:"+filepath.Join(dir, "out")+":both")
		if !strings.Contains(raw, `"Architecture": "`+arch+`"`) || !strings.Contains(raw, v["images"].([]any)[i].(map[string]any)["layer"].(string)) {
			t.Errorf("%s: %s", arch, raw)
		}
	}
	if v := agentObject(t, dir, nil, 2, "image", amd, arm, "--base", "oci:base", "-o", "docker-archive:two.tar"); v["code"] != "usage" {
		t.Errorf("two images in a docker archive: %v", v)
	}
}

// TestImageAsUmociSeesIt: umoci reads the digest, the layers and the history that were written, and unpacks every file of
// base and bundle with its mode; so it does after skopeo copied the image, whose digest stays.
func TestImageAsUmociSeesIt(t *testing.T) {
	dir := t.TempDir()
	name := agentBundle(t, dir, nil, map[string]string{"a/b/c.txt": "c"})
	layout.Write(t, filepath.Join(dir, "base"), "amd64", map[string]string{"lib/ld-musl-x86_64.so.1": "loader", "bin/sh": "sh", "etc/motd": "hello"})
	v := agentObject(t, dir, map[string]string{"SOURCE_DATE_EPOCH": "1700000000"}, 0, "image", name, "--base", "oci:base", "-o", "oci:out:1")
	made := v["images"].([]any)[0].(map[string]any)
	tool(t, "skopeo", "copy", "--insecure-policy", "--preserve-digests", "oci:"+filepath.Join(dir, "out")+":1", "oci:"+filepath.Join(dir, "copied")+":1")
	for _, at := range []string{"out", "copied"} {
		layoutOf := filepath.Join(dir, at) + ":1"
		var stat struct {
			History []struct {
				Layer     *struct{ Digest string }
				DiffID    string `json:"diff_id"`
				Created   string
				CreatedBy string `json:"created_by"`
				Empty     bool   `json:"empty_layer"`
			}
		}
		if err := json.Unmarshal([]byte(tool(t, "umoci", "stat", "--image", layoutOf, "--json")), &stat); err != nil {
			t.Fatal(err)
		}
		var layers []string
		for _, h := range stat.History {
			if h.Layer != nil {
				layers = append(layers, h.Layer.Digest)
			}
		}
		if len(layers) != 2 || layers[1] != made["layer"] || stat.History[1].DiffID != made["diff_id"] || stat.History[1].CreatedBy != "rig-bundle image" {
			t.Errorf("%s: umoci sees the layers %v, the last one is %v", at, layers, made["layer"])
		}
		root := filepath.Join(t.TempDir(), "bundle")
		args := []string{"unpack", "--image", layoutOf, root}
		if os.Getuid() != 0 {
			args = append(args[:1], append([]string{"--rootless"}, args[1:]...)...)
		}
		tool(t, "umoci", args...)
		var about struct {
			From struct {
				Walk []struct{ Digest string } `json:"descriptor_walk"`
			} `json:"from_descriptor_path"`
		}
		readJSON(t, filepath.Join(root, "umoci.json"), &about)
		if n := len(about.From.Walk); n == 0 || about.From.Walk[n-1].Digest != v["digest"] {
			t.Errorf("%s: umoci unpacked %v, %v was made", at, about.From.Walk, v["digest"])
		}
		for file, want := range map[string]struct {
			text string
			mode os.FileMode
		}{"holon/agent/bin/agent": {"#!/bin/sh\n", 0o755}, "holon/agent/a/b/c.txt": {"c", 0o755}, "etc/motd": {"hello", 0o755}, "bin/sh": {"sh", 0o755}} {
			full := filepath.Join(root, "rootfs", file)
			got, err := os.ReadFile(full)
			info, serr := os.Stat(full)
			if err != nil || serr != nil || string(got) != want.text || info.Mode().Perm() != want.mode {
				t.Errorf("%s: %s is %q %v, want %v: %v", at, file, got, info, want, err)
			}
		}
		info, err := os.Stat(filepath.Join(root, "rootfs", "holon/agent/bin/agent"))
		if err != nil || info.ModTime().Unix() != 1700000000 {
			t.Errorf("%s: the agent's time is %v: %v", at, info.ModTime(), err)
		}
		var config struct {
			Process struct {
				Args, Env []string
				Cwd       string
			}
			Annotations map[string]string
		}
		readJSON(t, filepath.Join(root, "config.json"), &config)
		if p := config.Process; !slices.Equal(p.Args, []string{"/holon/agent/bin/agent"}) || p.Cwd != "/holon/workspace" || !slices.Contains(p.Env, "NODE_ENV=production") || !slices.Contains(p.Env, "A=b c") {
			t.Errorf("%s: umoci would start %+v", at, p)
		}
		if config.Annotations["com.github.rigward.bundle.tar-digest"] == "" || config.Annotations["org.opencontainers.image.base.digest"] != made["base"] {
			t.Errorf("%s: umoci passes on %v", at, config.Annotations)
		}
	}
}

// TestImageAsOthersSeeIt: skopeo reads the same digest, and makes the same image of the docker archive.
func TestImageAsOthersSeeIt(t *testing.T) {
	dir := t.TempDir()
	name := agentBundle(t, dir, nil, nil)
	layout.Write(t, filepath.Join(dir, "base"), "amd64", muslBase)
	v := agentObject(t, dir, nil, 0, "image", name, "--base", "oci:base", "-o", "oci:out")
	var seen struct{ Digest string }
	if err := json.Unmarshal([]byte(tool(t, "skopeo", "inspect", "oci:"+filepath.Join(dir, "out")+":1.0.0_b.1")), &seen); err != nil || seen.Digest != v["digest"] {
		t.Errorf("skopeo sees %q, we made %q: %v", seen.Digest, v["digest"], err)
	}
	agentObject(t, dir, nil, 0, "image", name, "--base", "oci:base", "-o", "docker-archive:out.tar:mine")
	two := filepath.Join(dir, "copied")
	tool(t, "skopeo", "copy", "--insecure-policy", "docker-archive:"+filepath.Join(dir, "out.tar")+":demo:mine", "oci:"+two+":x")
	var config struct{ Config struct{ Entrypoint []string } }
	if err := json.Unmarshal([]byte(tool(t, "skopeo", "inspect", "--config", "oci:"+two+":x")), &config); err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/holon/agent/bin/agent"}) {
		t.Errorf("what skopeo made of the docker archive: %+v %v", config, err)
	}
	// What was written can be the next base, and is the same base in both forms.
	a := agentObject(t, dir, nil, 0, "image", name, "--base", "oci:out:1.0.0_b.1", "-o", "oci:next")
	b := agentObject(t, dir, nil, 0, "image", name, "--base", "docker-archive:out.tar:demo:mine", "-o", "oci:other")
	layer := func(v map[string]any) any { return v["images"].([]any)[0].(map[string]any)["diff_id"] }
	if layer(a) == nil || layer(b) == nil {
		t.Errorf("%v %v", a, b)
	}
}

// TestImageInARegistry: an image is pushed, seen there by skopeo with the same digest, and is a base there, of which each
// blob is fetched once.
func TestImageInARegistry(t *testing.T) {
	dir := t.TempDir()
	name := agentBundle(t, dir, nil, nil)
	layout.Write(t, filepath.Join(dir, "base"), "amd64", muslBase)
	var mu sync.Mutex
	fetched := map[string]int{}
	keep := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/sha256:") {
			mu.Lock()
			fetched[r.URL.Path]++
			mu.Unlock()
		}
		keep.ServeHTTP(w, r)
	}))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/acme/demo:1"
	v := agentObject(t, dir, nil, 0, "image", name, "--base", "oci:base", "-o", ref)
	same := agentObject(t, dir, nil, 0, "image", name, "--base", "oci:base", "-o", "oci:out")
	if v["digest"] != same["digest"] {
		t.Errorf("pushed as %v, written as %v", v["digest"], same["digest"])
	}
	next := agentObject(t, dir, nil, 0, "image", name, "--base", ref, "-o", "oci:next")
	made := next["images"].([]any)[0].(map[string]any)
	if made["base"] != v["digest"] || len(fetched) != 3 {
		t.Errorf("on the pushed image: %v, fetched %v", made, fetched)
	}
	for blob, n := range fetched {
		if n != 1 {
			t.Errorf("%s was fetched %d times", blob, n)
		}
	}
	var m struct{ Annotations map[string]string }
	readJSON(t, blobOf(filepath.Join(dir, "next"), next["digest"].(string)), &m)
	if m.Annotations["org.opencontainers.image.base.name"] != ref {
		t.Errorf("the name of the base: %v", m.Annotations)
	}
	var seen struct{ Digest string }
	if err := json.Unmarshal([]byte(tool(t, "skopeo", "inspect", "--tls-verify=false", "docker://"+ref)), &seen); err != nil || seen.Digest != v["digest"] {
		t.Errorf("skopeo sees %q in the registry, we made %q: %v", seen.Digest, v["digest"], err)
	}
	server.Close()
	if v := agentObject(t, dir, nil, 2, "image", name, "--base", "oci:base", "-o", ref); v["code"] != "registry-error" {
		t.Errorf("a registry that is gone: %v", v)
	}
}

// TestImageStarts: umoci unpacks the image, and the agent starts in it as the manifest says, in a namespace without a
// network.
func TestImageStarts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("images are unpacked on linux")
	}
	dir := t.TempDir()
	src := filepath.Join(t.TempDir(), "main.go")
	put(t, src, "package main\nimport (\"fmt\"; \"net\"; \"os\")\nfunc main() { wd, _ := os.Getwd(); list, _ := net.Interfaces(); _, err := os.Stat(\"/holon/agent/old.js\")\n"+
		"fmt.Println(\"started\", os.Args, wd, os.Getenv(\"A\"), os.Getenv(\"NODE_ENV\"), len(list) <= 1, err != nil) }\n", 0o644)
	binary := filepath.Join(t.TempDir(), "agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, src)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	name := agentBundle(t, dir, map[string]any{"arch": runtime.GOARCH}, map[string]string{"bin/agent": string(program), "node_modules/x/y.js": "y"})
	loader := map[string]string{"amd64": "lib/ld-musl-x86_64.so.1", "arm64": "lib/ld-musl-aarch64.so.1"}[runtime.GOARCH]
	layout.Write(t, filepath.Join(dir, "base"), runtime.GOARCH, map[string]string{loader: "loader", "holon/agent/old.js": "of the base", "etc/hostname": "x"})
	agentObject(t, dir, nil, 0, "image", name, "--base", "oci:base", "-o", "oci:out:1")
	root := filepath.Join(dir, "bundle")
	args := []string{"unpack", "--image", filepath.Join(dir, "out") + ":1", root}
	if os.Getuid() != 0 {
		args = append(args[:1], append([]string{"--rootless"}, args[1:]...)...)
	}
	tool(t, "umoci", args...)
	for file, want := range map[string]string{"holon/agent/node_modules/x/y.js": "y", "etc/hostname": "x", "holon/agent/bin/agent": string(program)} {
		if got, err := os.ReadFile(filepath.Join(root, "rootfs", file)); err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, want %d: %v", file, len(got), len(want), err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "rootfs", "holon/agent/old.js")); err == nil {
		t.Error("what the base had in the place of the agent is still there")
	}
	var config map[string]any
	readJSON(t, filepath.Join(root, "config.json"), &config)
	process := config["process"].(map[string]any)
	process["terminal"] = false
	if process["cwd"] != "/holon/workspace" {
		t.Errorf("umoci starts it in %v", process["cwd"])
	}
	text, _ := json.Marshal(config)
	put(t, filepath.Join(root, "config.json"), string(text), 0o644)
	ran := false
	for _, runner := range []string{"runc", "crun"} {
		if _, err := exec.LookPath(runner); err != nil {
			t.Logf("%s is not installed", runner)
			continue
		}
		cmd := exec.CommandContext(t.Context(), runner, "--root", t.TempDir(), "run", "--bundle", root, "rigward-test")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%s cannot start a container here: %v %s", runner, err, out)
			continue
		}
		ran = true
		if want := "started [/holon/agent/bin/agent] /holon/workspace b c production true true\n"; string(out) != want {
			t.Errorf("%s: the agent says %q, want %q", runner, out, want)
		}
	}
	if !ran {
		t.Log("no container could be started here: the files were compared as umoci unpacks them")
	}
}
