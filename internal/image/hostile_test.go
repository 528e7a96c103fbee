package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
)

// TestUnreadable: an image of which nothing can be known is an error, never a pass and never a finding. Each attack
// changes one thing of an image that is accepted.
func TestUnreadable(t *testing.T) {
	good := func() shape { return shape{layers: [][]item{{elf(glibc, "amd64")}, {file("x", "y")}}} }
	edit := func(from, to string) func(t *testing.T, b *built) {
		return func(t *testing.T, b *built) {
			if !bytes.Contains(b.manifest, []byte(from)) {
				t.Fatalf("the manifest has no %q: %s", from, b.manifest)
			}
			b.manifest = bytes.Replace(b.manifest, []byte(from), []byte(to), 1)
		}
	}
	config := func(from, to string) func(t *testing.T, b *built) {
		return func(t *testing.T, b *built) {
			old := string(encode(t, b.add("x", b.config)))
			changed := bytes.Replace(b.config, []byte(from), []byte(to), 1)
			if bytes.Equal(changed, b.config) {
				t.Fatalf("the config has no %q", from)
			}
			d := b.add("application/vnd.oci.image.config.v1+json", changed)
			b.manifest = bytes.Replace(b.manifest, []byte(strings.Replace(old, `"x"`, `"application/vnd.oci.image.config.v1+json"`, 1)), encode(t, d), 1)
		}
	}
	blob := func(fn func(data []byte) []byte) func(t *testing.T, b *built) {
		return func(t *testing.T, b *built) { d := digestOf(b.layers[1]); b.blobs[d] = fn(b.blobs[d]) }
	}
	layer := func(items ...item) func(*shape) { return func(s *shape) { s.layers[1] = items } }
	limit := func(text string) func(*bundle.Limits) {
		return func(l *bundle.Limits) {
			if err := l.Set(text); err != nil {
				panic(err)
			}
		}
	}
	flip := func(data []byte) []byte { c := bytes.Clone(data); c[9] ^= 1; return c } // a byte that gzip does not look at
	for _, row := range []struct {
		name   string
		shape  func(*shape)
		build  func(*testing.T, *built)
		limits func(*bundle.Limits)
		want   string
	}{
		{name: "a layer with another digest", build: blob(flip), want: "has another digest"},
		{name: "a layer that is longer", build: blob(func(d []byte) []byte { return append(bytes.Clone(d), 0) }), want: "bytes, "},
		{name: "a layer that is shorter", build: blob(func(d []byte) []byte { return d[:len(d)-1] }), want: "bytes, "},
		{name: "a layer to be fetched from elsewhere", build: edit(`"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",`, `"urls":["https://example.com/x"],"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",`), want: "fetched from elsewhere"},
		{name: "a layer of a foreign type", build: edit("layer.v1.tar+gzip", "layer.nondistributable.v1.tar+gzip"), want: "a tar archive in gzip"},
		{name: "a layer called zstd that is gzip", build: edit("layer.v1.tar+gzip", "layer.v1.tar+zstd"), want: "zstd"},
		{name: "a digest of another algorithm", build: edit(`"sha256:`, `"sha512:`), want: "manifest"},
		{name: "a config that is none of an image", build: edit("image.config.v1", "empty.v1"), want: "is not an image"},
		{name: "a manifest that says it is an index", build: edit("image.manifest.v1", "image.index.v1"), want: "no image with a platform"},
		{name: "layers and manifests in one", build: edit(`"schemaVersion":2`, `"schemaVersion":2,"manifests":[]`), want: "both layers and manifests"},
		{name: "an old schema", build: edit(`"schemaVersion":2`, `"schemaVersion":1`), want: "schema version 1"},
		{name: "no JSON", build: func(_ *testing.T, b *built) { b.manifest = []byte("<html>") }, want: "not JSON"},
		{name: "a content that the config does not name", build: config(`"diff_ids":["sha256:`, `"diff_ids":["sha256:0`), want: "config"},
		{name: "fewer layers in the config", build: config(`"type":"layers"`, `"type":"layers","diff_ids":[]`), want: "names 0 layers"},
		{name: "a name that leads out", shape: layer(file("a/../../etc/passwd", "x")), want: "leads out of the image"},
		{name: "a hard link to nothing", shape: layer(hard("a", "b")), want: "which is not there"},
		{name: "a hard link that leads out", shape: layer(hard("a", "../../etc/passwd")), want: "leads out of the image"},
		{name: "links without end on the way", shape: layer(link("a", "b/x"), link("b", "a/x"), file("a/y", "")), want: "symlinks"},
		{name: "more entries than the limit", limits: limit("entries=2"), want: "the limit entries"},
		{name: "more bytes than the limit", limits: limit("total-size=3KiB"), want: "the limit total-size"},
		{name: "names longer than the limit", limits: limit("name-bytes=20"), want: "limits path"},
		{name: "a path longer than the limit", limits: limit("depth=1"), want: "the limit depth"},
		{name: "a link that is longer than any path", shape: layer(link("a", strings.Repeat("a/", 300_000)), file("a/x", "")), want: "limits path"},
		{name: "a bomb", shape: layer(file("zeros", strings.Repeat("\x00", 65<<20))), want: "the limit is 200 times"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := good()
			if row.shape != nil {
				row.shape(&s)
			}
			b := build(t, s)
			if row.build != nil {
				row.build(t, b)
			}
			limits := agent.DefaultLimits()
			if row.limits != nil {
				row.limits(&limits)
			}
			dir := layout(t, b)
			base, err := Open(t.Context(), "oci:"+dir, Location{Layout: dir}, nil)
			if err == nil {
				_, err = base.Judge(t.Context(), bundleFor(t, need{}), nil, limits)
			}
			var e *UnreadableError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want an UnreadableError with %q", err, row.want)
			}
		})
	}
	if j, err := openLayout(t, layout(t, build(t, good()))).Judge(t.Context(), bundleFor(t, need{}), nil, agent.DefaultLimits()); err != nil || len(j.Findings) > 0 {
		t.Errorf("the image as it was: %v %v", j, err)
	}
}

// TestUnreadableIndex: an index names images, nothing else is followed.
func TestUnreadableIndex(t *testing.T) {
	a, b := build(t, shape{layers: [][]item{{elf(glibc, "amd64")}}}), build(t, shape{arch: "arm64"})
	dir := layout(t, a, b)
	index := func(manifests ...object) string {
		raw := encode(t, object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests})
		write(t, filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digestOf(raw), "sha256:")), raw)
		d := object{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digestOf(raw), "size": len(raw), "platform": a.platform}
		write(t, filepath.Join(dir, "index.json"), encode(t, object{"schemaVersion": 2, "manifests": []object{d}}))
		return string(raw)
	}
	inner := a.descriptor()
	index(inner)
	judge := func() (*Judgement, error) {
		base, err := Open(t.Context(), dir, Location{Layout: dir}, nil)
		if err != nil {
			return nil, err
		}
		return base.Judge(t.Context(), bundleFor(t, need{}), nil, agent.DefaultLimits())
	}
	if j, err := judge(); err != nil || len(j.Findings) > 0 {
		t.Fatalf("an index of one image: %v %v", j, err)
	}
	nested := []byte(index(inner))
	index(object{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digestOf(nested), "size": len(nested), "platform": a.platform})
	if _, err := judge(); err == nil || !strings.Contains(err.Error(), "a manifest is expected") {
		t.Errorf("an index in an index: %v", err)
	}
	index(object{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digestOf(a.manifest), "size": len(a.manifest)})
	if _, err := judge(); err == nil || !strings.Contains(err.Error(), "no image with a platform") {
		t.Errorf("an index without platforms: %v", err)
	}
	index(object{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digestOf(a.manifest), "size": maxDocument + 1, "platform": a.platform})
	if _, err := judge(); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a manifest of 4 MiB: %v", err)
	}
	// Two images without an index need a tag.
	one, two := a.descriptor(), b.descriptor()
	one["annotations"], two["annotations"] = object{refName: "one"}, object{refName: "two"}
	write(t, filepath.Join(dir, "index.json"), encode(t, object{"schemaVersion": 2, "manifests": []object{one, two}}))
	if _, err := judge(); err == nil || !strings.Contains(err.Error(), "with TAG one of") {
		t.Errorf("two images: %v", err)
	}
	base, err := Open(t.Context(), dir, Location{Layout: dir, Tag: "two"}, nil)
	if err != nil || base.Digest.String() != digestOf(b.manifest) {
		t.Errorf("by its tag: %v %v", base, err)
	}
	if _, err := Open(t.Context(), dir, Location{Layout: dir, Tag: "three"}, nil); err == nil {
		t.Error("a tag that is not there was found")
	}
}

// TestUnreadableFiles: what is no layout and no archive.
func TestUnreadableFiles(t *testing.T) {
	b := build(t, shape{layers: [][]item{{file("x", "y")}}})
	dir := layout(t, b)
	if _, err := Open(t.Context(), dir, Location{Layout: dir}, nil); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(dir string) error{
		"another version": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"2.0.0"}`), 0o644)
		},
		"no mark":  func(dir string) error { return os.Remove(filepath.Join(dir, "oci-layout")) },
		"no index": func(dir string) error { return os.Remove(filepath.Join(dir, "index.json")) },
		"a directory": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "index.json")), os.Mkdir(filepath.Join(dir, "index.json"), 0o755))
		},
	} {
		dir := layout(t, b)
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), dir, Location{Layout: dir}, nil); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	tarOf := func(items ...item) string {
		name := filepath.Join(t.TempDir(), "x.tar")
		write(t, name, layerTar(t, items))
		return name
	}
	config := file("c", string(b.config))
	list := func(text string) item { return file("manifest.json", text) }
	for name, archive := range map[string]string{
		"no manifest.json":       tarOf(config),
		"no list":                tarOf(config, list("{}")),
		"an empty list":          tarOf(config, list("[]")),
		"a config outside":       tarOf(config, list(`[{"Config":"../c","Layers":["l"]}]`)),
		"no layer":               tarOf(config, list(`[{"Config":"c","Layers":["l"]}]`)),
		"a layer behind a loop":  tarOf(config, link("l", "m"), link("m", "l"), list(`[{"Config":"c","Layers":["l"]}]`)),
		"more layers than named": tarOf(config, file("l", "x"), list(`[{"Config":"c","Layers":["l","l"]}]`)),
		"two configs":            tarOf(config, config, file("l", "x"), list(`[{"Config":"c","Layers":["l"]}]`)),
		"no archive":             filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digestOf(b.manifest), "sha256:")),
		"a directory":            dir,
	} {
		if d, err := Open(t.Context(), archive, Location{Archive: archive}, nil); err == nil {
			t.Errorf("%s: opened as %v", name, d.Digest)
		}
	}
	tampered := tarOf(config, file("l", string(layerTar(t, []item{file("x", "z")}))), list(`[{"Config":"c","Layers":["l"]}]`))
	d, err := Open(t.Context(), tampered, Location{Archive: tampered}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Judge(t.Context(), bundleFor(t, need{}), nil, agent.DefaultLimits()); err == nil || !strings.Contains(err.Error(), "another digest") {
		t.Errorf("a layer that the config does not name: %v", err)
	}
}

// TestWhiteoutsAreCheap: whiteouts without end over a large layer cost what the entries cost.
func TestWhiteoutsAreCheap(t *testing.T) {
	fs := &rootFS{top: &node{kind: '5', children: map[string]*node{}}}
	limits := agent.DefaultLimits()
	fs.limits = &limits
	add := func(items ...item) {
		t.Helper()
		for _, h := range headers(t, items...) {
			if err := fs.add(h, strings.NewReader("")); err != nil {
				t.Fatal(err)
			}
		}
	}
	var low, high []item
	for i := range 20_000 {
		low = append(low, file(fmt.Sprintf("d/%d/%d", i%50, i), ""))
		high = append(high, file("d/z", ""), gone("d"), file(".wh..wh..opq", ""))
	}
	fs.layer = 1
	add(low...)
	fs.layer = 2
	add(high...)
	if d := fs.find("/d"); d == nil || len(d.children) != 1 {
		t.Errorf("what the layer itself put there is gone, or more is left: %v", d)
	}
}

// FuzzLayer: no tar stream makes the reader of layers panic, or its tree lead out of itself.
func FuzzLayer(f *testing.F) {
	t := &testing.T{}
	f.Add(layerTar(t, []item{elf(glibc, "amd64"), link("a", "b"), hard("h", glibc), gone("a"), file(".wh..wh..opq", ""), directory("d")}))
	f.Add(layerTar(t, []item{link("lib", "../usr/lib"), file("lib/x", "y"), file("usr/lib/os-release", "ID=x")}))
	f.Fuzz(func(t *testing.T, data []byte) {
		fs := &rootFS{top: &node{kind: '5', children: map[string]*node{}}}
		limits := agent.DefaultLimits()
		limits.Entries = 1000
		fs.limits = &limits
		for fs.layer = 1; fs.layer < 3; fs.layer++ {
			for _, h := range streamed(data) {
				if err := fs.add(h.Header, strings.NewReader(h.text)); err != nil {
					break
				}
			}
		}
		var check func(n *node)
		check = func(n *node) {
			for name, child := range n.children {
				if child.up != n || child.name != name || name == ".." || strings.Contains(name, "/") {
					t.Fatalf("%q below %q", name, n.path())
				}
				check(child)
			}
		}
		check(fs.top)
		for _, name := range []string{"/", "/etc/os-release", "/lib/../../x", "/a/b"} {
			if n := fs.find(name); n != nil && !strings.HasPrefix(n.path(), "/") {
				t.Fatalf("%q leads to %q", name, n.path())
			}
		}
	})
}

// FuzzDocuments: no manifest, index or config makes the reader panic.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:aa","size":2},"layers":[]}`), []byte(`{"os":"linux"}`))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"platform":{"os":"linux","architecture":"amd64"}}]}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		for _, mediaType := range []string{"application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"} {
			s := memory{manifest: manifest, config: config, mediaType: mediaType}
			d, raw, _ := s.root(t.Context())
			b := &Base{Name: "x", store: s, root: d, raw: raw, used: map[string]*Image{}}
			if _, err := b.Judge(t.Context(), &agent.Result{Manifest: &agent.Manifest{Platform: "linux", Arch: "amd64", Libc: "glibc"}}, nil, agent.DefaultLimits()); err != nil && err.Error() == "" {
				t.Fatal("an error without words")
			}
		}
	})
}

// FuzzDockerArchive: no file makes the reader of docker archives panic.
func FuzzDockerArchive(f *testing.F) {
	t := &testing.T{}
	f.Add(layerTar(t, []item{file("c", "{}"), file("manifest.json", `[{"Config":"c","Layers":[]}]`), link("l", "c"), hard("h", "c")}))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "x")
		write(t, name, data)
		if b, err := Open(t.Context(), name, Location{Archive: name}, nil); err == nil {
			b.Close()
		}
	})
}

// FuzzScanVersion: a version is found wherever the pieces of a file end, and only if it stands there.
func FuzzScanVersion(f *testing.F) {
	f.Add([]byte("\x00v20.15.1\x00"), uint16(0))
	f.Add([]byte("v20.15.1"), uint16(3))
	f.Add([]byte("node.js/v1.2.3/"), uint16(65535))
	f.Fuzz(func(t *testing.T, data []byte, pad uint16) {
		text := append(bytes.Repeat([]byte("\x01"), 2*int(pad)), data...)
		got, err := scanVersion(bytes.NewReader(text), "v", "", "\x00", "node.js/", "release/")
		if err != nil || got != "" && !bytes.Contains(text, []byte("v"+got)) {
			t.Fatalf("%q %v", got, err)
		}
		if pad > 0 {
			if again, _ := scanVersion(bytes.NewReader(text[1:]), "v", "", "\x00", "node.js/", "release/"); again != got {
				t.Fatalf("%q, and a byte earlier %q", got, again)
			}
		}
	})
}

// FuzzParseLocation: what is no name of an image is refused, and a path is taken as it is.
func FuzzParseLocation(f *testing.F) {
	for _, s := range []string{"alpine:3", "oci:dir:tag", "docker-archive:x.tar", "oci://localhost:5000/a/b@sha256:" + strings.Repeat("0", 64), "oci:", "../x", "A b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLocation(s, func(p string) string { return p })
		if err == nil && (l.Ref == nil) == (l.Layout == "" && l.Archive == "") {
			t.Fatalf("%q: %+v", s, l)
		}
		if IsReference(s) && (err != nil || l.Ref == nil) {
			t.Fatalf("%q is a reference and not a location: %v", s, err)
		}
	})
}
