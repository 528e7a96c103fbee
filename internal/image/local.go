package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// refName is the annotation by which a layout names its images.
const refName = "org.opencontainers.image.ref.name"

// ociLayout reads a directory that is laid out as the OCI image layout says.
type ociLayout struct {
	dir, tag string
	open     opener
}

// An opener opens a regular file, and says how long it is.
type opener func(name string) (io.ReadCloser, int64, error)

func onDisk(name string) (io.ReadCloser, int64, error) { return bundle.OpenFile(name) }

// inTree opens files of a tree, which nothing but its object ids names: no link leads out of it.
func inTree(src bundle.Source) opener {
	return func(name string) (io.ReadCloser, int64, error) {
		name = path.Clean(filepath.ToSlash(name))
		it, err := src.Lstat(name)
		if err == nil && it.Kind != bundle.KindFile {
			err = fmt.Errorf("%s is not a regular file", finding.QuoteMax(name, 200))
		}
		if err != nil {
			return nil, 0, err
		}
		r, err := src.Open(name)
		return r, it.Size, err
	}
}

func (l ociLayout) Close() error { return nil }

func (l ociLayout) root(ctx context.Context) (v1.Descriptor, []byte, error) {
	var d v1.Descriptor
	mark, err := l.readSmall(filepath.Join(l.dir, "oci-layout"))
	if err != nil {
		return d, nil, err
	}
	var about struct {
		Version string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(mark, &about); err != nil || !strings.HasPrefix(about.Version, "1.") {
		return d, nil, errors.New("its file oci-layout does not name version 1")
	}
	raw, err := l.readSmall(filepath.Join(l.dir, "index.json"))
	if err != nil {
		return d, nil, err
	}
	var index v1.IndexManifest
	if err := strict(raw, types.OCIImageIndex, &index); err != nil {
		return d, nil, err
	}
	if len(index.Manifests) == 0 || len(index.Manifests) > maxIndex {
		return d, nil, fmt.Errorf("its index.json names %d images", len(index.Manifests))
	}
	var tags []string
	digests, platforms := map[string]v1.Descriptor{}, 0
	for _, m := range index.Manifests {
		tag := m.Annotations[refName]
		if tag != "" {
			tags = append(tags, tag)
		}
		if m.Platform != nil && tag == "" {
			platforms++
		}
		if l.tag == "" || l.tag == tag {
			digests[m.Digest.String()] = m
		}
	}
	switch {
	case len(digests) == 1:
		for _, d = range digests {
		}
		b, err := readDocument(ctx, l, d, "a manifest")
		return d, b, err
	case l.tag == "" && platforms == len(index.Manifests): // the images of one index, without a file of their own
		h, n, err := v1.SHA256(bytes.NewReader(raw))
		return v1.Descriptor{MediaType: types.OCIImageIndex, Digest: h, Size: n}, raw, err
	case l.tag == "":
		return d, nil, fmt.Errorf("it holds %d images, name one of them: oci:DIR:TAG with TAG one of %s", len(digests), finding.QuoteMax(strings.Join(tags, " "), 200))
	}
	return d, nil, fmt.Errorf("it has no image %s, only %s", finding.QuoteMax(l.tag, 130), finding.QuoteMax(strings.Join(tags, " "), 200))
}

func (l ociLayout) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	f, size, err := l.open(filepath.Join(l.dir, "blobs", "sha256", d.Digest.Hex))
	if err != nil {
		return nil, err
	}
	if size != d.Size {
		f.Close()
		return nil, fmt.Errorf("the blob %s has %d bytes, %d are expected", d.Digest, size, d.Size)
	}
	return verify(f, d), nil
}

func (l ociLayout) readSmall(name string) ([]byte, error) {
	f, size, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxDocument {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", finding.Path(filepath.Base(name)), size, maxDocument)
	}
	return io.ReadAll(io.LimitReader(f, maxDocument))
}

// dockerArchive reads what docker save writes: a tar archive with manifest.json, a config and the layers, of which it
// makes a manifest.
type dockerArchive struct {
	f     *os.File
	done  func()
	tag   string
	files map[string]span   // by the name in the archive
	links map[string]string // symlinks and hard links
	blobs map[string]span   // by digest
}

type span struct{ at, size int64 }

// maxArchived bounds the members of a docker archive: layers, each with two files more in old ones.
const maxArchived = 4 * maxLayers

func openDockerArchive(name, tag string) (*dockerArchive, error) {
	f, size, err := bundle.OpenFile(name)
	if err != nil {
		return nil, err
	}
	return newDockerArchive(f, size, tag, func() { f.Close() })
}

// copyDockerArchive opens an archive whose reader cannot seek, by way of a scratch file.
func copyDockerArchive(open opener, name, tag, temp string) (*dockerArchive, error) {
	r, _, err := open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, done, err := bundle.Scratch(temp)
	if err != nil {
		return nil, err
	}
	size, err := io.Copy(f, r)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		done()
		return nil, err
	}
	return newDockerArchive(f, size, tag, done)
}

// newDockerArchive takes a file, which done closes.
func newDockerArchive(f *os.File, size int64, tag string, done func()) (*dockerArchive, error) {
	a := &dockerArchive{f: f, done: done, tag: tag, files: map[string]span{}, links: map[string]string{}, blobs: map[string]span{}}
	if err := a.list(size); err != nil {
		done()
		return nil, err
	}
	return a, nil
}

// list notes where each file of the archive lies. The tar reader reads no further than to the header.
func (a *dockerArchive) list(size int64) error {
	r := tar.NewReader(a.f)
	for n := 0; ; n++ {
		h, err := r.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return errors.New("it is not a tar archive")
		case n == maxArchived:
			return fmt.Errorf("it has more than %d members", maxArchived)
		}
		member := path.Clean(h.Name)
		_, known := a.files[member]
		_, linked := a.links[member]
		if (known || linked) && h.Typeflag != tar.TypeDir {
			return fmt.Errorf("it has %s twice", finding.QuoteMax(member, 200))
		}
		at, err := a.f.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
			if h.Size > size-at {
				return errors.New("it ends too early")
			}
			a.files[member] = span{at, h.Size}
		case tar.TypeSymlink:
			a.links[member] = path.Join(path.Dir(member), h.Linkname)
		case tar.TypeLink:
			a.links[member] = path.Clean(h.Linkname)
		}
	}
}

func (a *dockerArchive) file(name string) (*io.SectionReader, error) {
	at := path.Clean(name)
	for range 8 {
		if s, ok := a.files[at]; ok {
			return io.NewSectionReader(a.f, s.at, s.size), nil
		}
		if at = a.links[at]; at == "" {
			break
		}
	}
	return nil, fmt.Errorf("it has no file %s", finding.QuoteMax(name, 200))
}

func (a *dockerArchive) small(name string) ([]byte, error) {
	r, err := a.file(name)
	if err != nil {
		return nil, err
	}
	if r.Size() > maxDocument {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", finding.QuoteMax(name, 200), r.Size(), maxDocument)
	}
	return io.ReadAll(r)
}

func (a *dockerArchive) Close() error {
	a.done()
	return nil
}

// saved is one image of manifest.json.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (a *dockerArchive) choose() (saved, error) {
	raw, err := a.small("manifest.json")
	if err != nil {
		return saved{}, err
	}
	var list []saved
	if err := json.Unmarshal(raw, &list); err != nil {
		return saved{}, errors.New("its manifest.json is not a list of images")
	}
	names := map[string]saved{}
	for _, s := range list {
		for _, t := range s.RepoTags {
			if a.tag == "" || t == a.tag || strings.HasSuffix(t, ":"+a.tag) {
				names[t] = s
			}
		}
	}
	switch {
	case len(list) == 1 && (a.tag == "" || len(names) > 0):
		return list[0], nil
	case len(names) == 1:
		for _, s := range names {
			return s, nil
		}
	}
	return saved{}, fmt.Errorf("it holds %d images, of which %s fit the tag %s, one is expected", len(list),
		finding.QuoteMax(strings.Join(slices.Sorted(maps.Keys(names)), " "), 200), finding.QuoteMax(a.tag, 130))
}

func (a *dockerArchive) root(ctx context.Context) (v1.Descriptor, []byte, error) {
	var none v1.Descriptor
	s, err := a.choose()
	if err != nil {
		return none, nil, err
	}
	raw, err := a.small(s.Config)
	if err != nil {
		return none, nil, err
	}
	var config v1.ConfigFile
	if err := json.Unmarshal(raw, &config); err != nil {
		return none, nil, errors.New("its config is not JSON of an image")
	}
	if len(s.Layers) > maxLayers || len(config.RootFS.DiffIDs) != len(s.Layers) {
		return none, nil, fmt.Errorf("its config names %d layers, its manifest.json %d", len(config.RootFS.DiffIDs), len(s.Layers))
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Layers: []v1.Descriptor{}}
	m.Config, err = a.describe(ctx, s.Config, types.OCIConfigJSON, nil)
	for i, l := range s.Layers {
		if err != nil {
			return none, nil, err
		}
		var d v1.Descriptor
		d, err = a.describeLayer(ctx, l, config.RootFS.DiffIDs[i])
		m.Layers = append(m.Layers, d)
	}
	if err != nil {
		return none, nil, err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return none, nil, err
	}
	h, n, err := v1.SHA256(bytes.NewReader(b))
	return v1.Descriptor{MediaType: m.MediaType, Digest: h, Size: n}, b, err
}

func (a *dockerArchive) describeLayer(ctx context.Context, name string, diffID v1.Hash) (v1.Descriptor, error) {
	r, err := a.file(name)
	if err != nil {
		return v1.Descriptor{}, err
	}
	head := make([]byte, min(r.Size(), bundle.SniffLen))
	if _, err := io.ReadFull(r, head); err != nil {
		return v1.Descriptor{}, err
	}
	switch bundle.Sniff(head) {
	case bundle.Gzip:
		return a.describe(ctx, name, types.OCILayer, nil)
	case bundle.Zstd:
		return a.describe(ctx, name, types.OCILayerZStd, nil)
	}
	return a.describe(ctx, name, types.OCIUncompressedLayer, &diffID) // what is not compressed has the digest that the config says
}

// describe makes a descriptor of a file, whose digest is computed unless it is known.
func (a *dockerArchive) describe(ctx context.Context, name string, t types.MediaType, known *v1.Hash) (v1.Descriptor, error) {
	r, err := a.file(name)
	if err != nil {
		return v1.Descriptor{}, err
	}
	d := v1.Descriptor{MediaType: t, Size: r.Size()}
	if known != nil {
		d.Digest = *known
	} else if d.Digest, _, err = v1.SHA256(contextReader{ctx, r}); err != nil {
		return d, err
	}
	_, start, _ := r.Outer()
	a.blobs[d.Digest.String()] = span{start, d.Size}
	return d, nil
}

func (a *dockerArchive) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	s, ok := a.blobs[d.Digest.String()]
	if !ok || s.size != d.Size {
		return nil, fmt.Errorf("it has no blob %s", d.Digest)
	}
	return verify(io.NopCloser(io.NewSectionReader(a.f, s.at, s.size)), d), nil
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
