package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
)

// The images of the tests are written here by hand, with none of the code that reads them.

// item is one member of a layer. A name that ends in a slash is a directory.
type item struct {
	name, text, link, hard string
	mode                   int64 // 0: 0755
	flag                   byte
}

func file(name, text string) item   { return item{name: name, text: text} }
func link(name, target string) item { return item{name: name, link: target} }
func gone(name string) item         { return item{name: filepath.Dir(name) + "/.wh." + filepath.Base(name)} }
func directory(name string) item    { return item{name: name + "/"} }
func hard(name, target string) item { return item{name: name, hard: target} }
func plain(name, text string) item  { return item{name: name, text: text, mode: 0o644} }
func elf(name, arch string) item    { return item{name: name, text: elfHead(arch)} }
func program(name, says string) item {
	return item{name: name, text: elfHead("amd64") + "\x00" + says + "\x00"}
}

func elfHead(arch string) string {
	h := make([]byte, 64)
	copy(h, "\x7fELF\x02\x01\x01")
	machine := map[string]uint16{"amd64": 62, "arm64": 183}[arch]
	binary.LittleEndian.PutUint16(h[18:], machine)
	return string(h)
}

func layerTar(t *testing.T, items []item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, it := range items {
		h := &tar.Header{Name: strings.TrimPrefix(it.name, "/"), Mode: it.mode, Size: int64(len(it.text)), Typeflag: tar.TypeReg}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		switch {
		case it.flag != 0:
			h.Typeflag = it.flag
		case it.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, it.link
		case it.hard != "":
			h.Typeflag, h.Linkname = tar.TypeLink, it.hard
		case strings.HasSuffix(it.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(it.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func squeeze(t *testing.T, kind string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	switch kind {
	case "gzip":
		w := gzip.NewWriter(&b)
		w.Write(data)
		w.Close()
	case "zstd":
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(data)
		w.Close()
	default:
		return data
	}
	return b.Bytes()
}

func digestOf(b []byte) string {
	d := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(d[:])
}

type object = map[string]any

// built is one image of one platform: its blobs by digest, and its manifest.
type built struct {
	blobs    map[string][]byte
	manifest []byte
	layers   [][]byte // as they lie there
	config   []byte
	platform object
}

// shape is what an image of the table looks like.
type shape struct {
	os, arch, variant string
	env               []string
	entrypoint        []string
	layers            [][]item
	kind              string // of compression; "" is gzip
	docker            bool   // media types of docker
}

func build(t *testing.T, s shape) *built {
	t.Helper()
	if s.os == "" {
		s.os = "linux"
	}
	if s.arch == "" {
		s.arch = "amd64"
	}
	if s.kind == "" {
		s.kind = "gzip"
	}
	b := &built{blobs: map[string][]byte{}, platform: object{"os": s.os, "architecture": s.arch}}
	if s.variant != "" {
		b.platform["variant"] = s.variant
	}
	layerType := map[string]string{"gzip": "application/vnd.oci.image.layer.v1.tar+gzip", "zstd": "application/vnd.oci.image.layer.v1.tar+zstd", "tar": "application/vnd.oci.image.layer.v1.tar"}[s.kind]
	manifestType, configType := "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.config.v1+json"
	if s.docker {
		layerType, manifestType, configType = "application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.container.image.v1+json"
	}
	diffs, layers := []string{}, []object{}
	for _, items := range s.layers {
		raw := layerTar(t, items)
		diffs = append(diffs, digestOf(raw))
		data := squeeze(t, s.kind, raw)
		b.layers = append(b.layers, data)
		layers = append(layers, b.add(layerType, data))
	}
	config := object{"os": s.os, "architecture": s.arch, "config": object{"Env": s.env, "Entrypoint": s.entrypoint, "Cmd": []string{"sh"}}, "rootfs": object{"type": "layers", "diff_ids": diffs}}
	if s.variant != "" {
		config["variant"] = s.variant
	}
	b.config = encode(t, config)
	b.manifest = encode(t, object{"schemaVersion": 2, "mediaType": manifestType, "config": b.add(configType, b.config), "layers": layers})
	return b
}

func (b *built) add(mediaType string, data []byte) object {
	d := digestOf(data)
	b.blobs[d] = data
	return object{"mediaType": mediaType, "digest": d, "size": len(data)}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// descriptor describes the manifest for an index.
func (b *built) descriptor() object {
	var said struct {
		MediaType string `json:"mediaType"`
	}
	_ = json.Unmarshal(b.manifest, &said)
	return object{"mediaType": said.MediaType, "digest": digestOf(b.manifest), "size": len(b.manifest), "platform": b.platform}
}

// layout writes images as an OCI layout: one as such, several as one index.
func layout(t *testing.T, images ...*built) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	var list []object
	for _, b := range images {
		for d, data := range b.blobs {
			write(t, filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(d, "sha256:")), data)
		}
		write(t, filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digestOf(b.manifest), "sha256:")), b.manifest)
		list = append(list, b.descriptor())
	}
	top := list
	if len(list) > 1 {
		index := encode(t, object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": list})
		write(t, filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digestOf(index), "sha256:")), index)
		top = []object{{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digestOf(index), "size": len(index)}}
	}
	write(t, filepath.Join(dir, "index.json"), encode(t, object{"schemaVersion": 2, "manifests": top}))
	return dir
}

// saveDocker writes one image as docker save does: each layer uncompressed, unless keep is set.
func saveDocker(t *testing.T, b *built, keep bool) string {
	t.Helper()
	var items []item
	var names []string
	for i, l := range b.layers {
		if !keep {
			r, err := gzip.NewReader(bytes.NewReader(l))
			if err != nil {
				t.Fatal(err)
			}
			var raw bytes.Buffer
			if _, err := raw.ReadFrom(r); err != nil {
				t.Fatal(err)
			}
			l = raw.Bytes()
		}
		names = append(names, fmt.Sprintf("layer-%d/layer.tar", i))
		items = append(items, file(names[i], string(l)))
	}
	items = append(items, file("config.json", string(b.config)), file("manifest.json", string(encode(t, []object{{"Config": "config.json", "RepoTags": []string{"demo:1"}, "Layers": names}}))))
	name := filepath.Join(t.TempDir(), "image.tar")
	write(t, name, layerTar(t, items))
	return name
}

// need is what a bundle of the table asks for; empty fields have the usual value.
type need struct {
	arch, libc, runtime, entry string
	capabilities               string
}

// bundleFor makes a bundle and returns what Verify says of it.
func bundleFor(t *testing.T, n need) *agent.Result {
	t.Helper()
	dir := t.TempDir()
	fields := map[string]any{"bundleVersion": "1", "name": "demo", "version": "1.0.0", "entry": "bin/agent", "platform": "linux", "arch": "amd64", "libc": "glibc"}
	if n.arch != "" {
		fields["arch"] = n.arch
	}
	if n.libc != "" {
		fields["libc"] = n.libc
	}
	if kind, version, ok := strings.Cut(n.runtime, "@"); ok {
		fields["runtime"] = object{"type": kind, "version": version}
	}
	if n.capabilities != "" {
		fields["capabilities"] = object{n.capabilities: true}
	}
	if n.entry == "" {
		n.entry = elfHead(fields["arch"].(string))
	}
	write(t, filepath.Join(dir, "src", "manifest.json"), encode(t, fields))
	write(t, filepath.Join(dir, "src", "bin", "agent"), []byte(n.entry))
	if err := os.Chmod(filepath.Join(dir, "src", "bin", "agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	src, err := bundle.OpenDirs(filepath.Join(dir, "src"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	made, err := agent.Create(t.Context(), src, dir, agent.Format{}, bundle.Options{})
	if err != nil || !made.OK() {
		t.Fatalf("%v %v", made, err)
	}
	f, size, err := bundle.OpenFile(filepath.Join(dir, filepath.Base(made.File)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r, err := agent.Verify(t.Context(), bundle.Input{Name: made.File, File: f, Size: size}, agent.Format{}, bundle.Options{})
	if err != nil || !r.OK() {
		t.Fatalf("%v %v", r, err)
	}
	return r
}

func openLayout(t *testing.T, dir string) *Base {
	t.Helper()
	b, err := Open(t.Context(), "oci:"+dir, Location{Layout: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func codesOf(j *Judgement) []string {
	codes := map[string]bool{}
	for _, f := range j.Findings {
		codes[f.Code] = true
	}
	return slices.Sorted(maps.Keys(codes))
}

// streamedItem is a member of a tar stream with its content.
type streamedItem struct {
	*tar.Header
	text string
}

// streamed reads a tar stream as far as it goes.
func streamed(data []byte) (items []streamedItem) {
	for r := tar.NewReader(bytes.NewReader(data)); len(items) < 100_000; {
		h, err := r.Next()
		if err != nil {
			return items
		}
		text, _ := io.ReadAll(io.LimitReader(r, 1<<16))
		items = append(items, streamedItem{h, string(text)})
	}
	return items
}

// headers are those of members.
func headers(t *testing.T, items ...item) (all []*tar.Header) {
	for _, it := range streamed(layerTar(t, items)) {
		all = append(all, it.Header)
	}
	return all
}

// memory is a store of one manifest and one config.
type memory struct {
	manifest, config []byte
	mediaType        string
}

func (m memory) Close() error { return nil }

func (m memory) root(context.Context) (v1.Descriptor, []byte, error) {
	h, n, err := v1.SHA256(bytes.NewReader(m.manifest))
	return v1.Descriptor{MediaType: types.MediaType(m.mediaType), Digest: h, Size: n}, m.manifest, err
}

func (m memory) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	if d.MediaType.IsImage() {
		return io.NopCloser(bytes.NewReader(m.manifest)), nil
	}
	return io.NopCloser(bytes.NewReader(m.config)), nil
}
