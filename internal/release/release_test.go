package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/rigward/rigward/internal/test/gittest"
)

const testVersion = "1.2.3"

// archives writes the archives of a release of one program, and returns its bytes.
func archives(t *testing.T, dir string) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rig-hook")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X github.com/rigward/rigward/cmd/internal/version.release=rigward-release="+testVersion+";", "-o", name, module+"/cmd/rig-hook")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	g := gzip.NewWriter(&packed)
	w := tar.NewWriter(g)
	for name, text := range map[string]string{"rig-hook": string(data), "README.md": "read"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}))
		_, werr := w.Write([]byte(text))
		err = errors.Join(err, werr)
	}
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	m, zerr := z.Create("rig-hook.exe")
	_, werr := m.Write(data)
	if err := errors.Join(err, w.Close(), g.Close(), zerr, werr, z.Close(),
		os.WriteFile(filepath.Join(dir, "rigward_"+testVersion+"_linux_"+runtime.GOARCH+".tar.gz"), packed.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "rigward_"+testVersion+"_windows_amd64.zip"), zipped.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "rig-hook"), data, 0o755)); err != nil {
		t.Fatal(err)
	}
	return data
}

// cycloneDX is the schema of the format, as its own library brings it.
func cycloneDX(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	for url, file := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema", file))
		if err == nil {
			err = c.AddResource("http://cyclonedx.org/schema/"+url, bytes.NewReader(data))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRelease: what is listed of a release is what its programs were built from, in a form that the format's schema takes;
// its image holds the programs, and one of them runs from it; and both have the same bytes wherever they are made.
func TestRelease(t *testing.T) {
	gittest.NotShort(t)
	one, two := t.TempDir(), t.TempDir()
	data := archives(t, one)
	if err := os.CopyFS(two, os.DirFS(one)); err != nil {
		t.Fatal(err)
	}
	made := func(dir string, args ...string) []byte {
		t.Helper()
		file := filepath.Join(dir, "made")
		if err := run(append(args, file)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	schema := cycloneDX(t)
	version, err := exec.CommandContext(t.Context(), "go", "version", "-m", filepath.Join(one, "rig-hook")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(version)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "dep" {
			want = append(want, f[1]+" "+f[2])
		}
	}
	if len(want) == 0 {
		t.Fatalf("go version tells no module: %s", version)
	}
	for _, name := range []string{"rigward_" + testVersion + "_linux_" + runtime.GOARCH + ".tar.gz", "rigward_" + testVersion + "_windows_amd64.zip", "rig-hook"} {
		text := made(one, "sbom", testVersion, filepath.Join(one, name))
		if again := made(two, "sbom", testVersion, filepath.Join(two, name)); !bytes.Equal(text, again) {
			t.Errorf("%s: two lists differ", name)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if v.(map[string]any)["specVersion"] = "0.1"; schema.Validate(v) == nil {
			if v.(map[string]any)["components"] = 1; schema.Validate(v) == nil {
				t.Fatal("the schema takes everything")
			}
		}
		var b cdx.BOM
		if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&b); err != nil {
			t.Fatal(err)
		}
		var modules []string
		sum := sha256.Sum256(data)
		for _, c := range *b.Components {
			switch {
			case c.Type == cdx.ComponentTypeApplication:
				if c.Name != "rig-hook" || (*c.Hashes)[0].Value != hex.EncodeToString(sum[:]) {
					t.Errorf("%s: the program is listed as %+v", name, c)
				}
			case c.Name != "std":
				modules = append(modules, c.Name+" "+c.Version)
			}
		}
		slices.Sort(want)
		slices.Sort(modules)
		if !slices.Equal(modules, want) {
			t.Errorf("%s: the list has %q, the program %q", name, modules, want)
		}
	}
	image := made(one, "image", testVersion, "1700000000", one)
	if again := made(two, "image", testVersion, "1700000000", two); !bytes.Equal(image, again) {
		t.Error("two images differ")
	}
	if later := made(two, "image", testVersion, "1700000001", two); bytes.Equal(image, later) {
		t.Error("an image of another time is the same")
	}
	for _, args := range [][]string{{"image", testVersion, "1", t.TempDir(), "x"}, {"image", testVersion, "now", one, "x"}, {"sbom", testVersion, filepath.Join(one, "made"), "x"}, {"sbom"}} {
		if err := run(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if runtime.GOOS != "linux" {
		t.Skip("images are unpacked on linux")
	}
	if _, err := exec.LookPath("umoci"); err != nil {
		t.Skip("umoci is not installed")
	}
	layout := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(image)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		var text bytes.Buffer
		text.ReadFrom(r)
		name := filepath.Join(layout, h.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(t.TempDir(), "bundle")
	unpack := exec.CommandContext(t.Context(), "umoci", "unpack", "--rootless", "--image", layout+":"+testVersion, root)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "rootfs/usr/bin/rig-hook"), "--version").CombinedOutput()
	if err != nil || string(out) != "rig-hook v"+testVersion+"\n" {
		t.Errorf("the program of the image says %q: %v", out, err)
	}
	var config struct{ Process struct{ Args []string } }
	text, err := os.ReadFile(filepath.Join(root, "config.json"))
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil || !slices.Equal(config.Process.Args, []string{"/usr/bin/rig-hook", "--help"}) {
		t.Errorf("umoci would start %v: %v", config.Process, err)
	}
}
