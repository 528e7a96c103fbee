package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Bounds of what is held in memory, and of lists that are gone through.
const (
	maxDocument = 4 << 20 // bytes of a manifest, an index or a config
	maxLayers   = 512
	maxIndex    = 1024 // manifests in one index
)

// A store is where the blobs of images lie.
type store interface {
	// root describes the manifest or index that the location names, and returns its bytes.
	root(ctx context.Context) (v1.Descriptor, []byte, error)
	// blob gives the content that d describes, a manifest by its media type. What differs from it in size or digest is
	// an error by its end.
	blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
	io.Closer
}

// An UnreadableError says that an image cannot be read, so that nothing is known of it.
type UnreadableError struct {
	Name string // of the image, as it was given
	Err  error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the image %s can't be read: %s", finding.QuoteMax(e.Name, 200), Why(e.Err))
}

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Why is the text of an error that others worded, on one line and of bounded length.
func Why(err error) string {
	if f := bundle.AsFinding(err); f != nil {
		return f.Message
	}
	text := bundle.EscapeLine(strings.Join(strings.Fields(err.Error()), " "))
	if len(text) > 400 {
		text = strings.ToValidUTF8(text[:400], "") + "…"
	}
	return text
}

// checkDescriptor refuses what no honest index or manifest holds.
func checkDescriptor(d v1.Descriptor, what string) error {
	switch {
	case d.Digest.Algorithm != "sha256" || len(d.Digest.Hex) != 64:
		return fmt.Errorf("%s has the digest %s, sha256 is expected", what, finding.QuoteMax(d.Digest.String(), 100))
	case d.Size < 0:
		return fmt.Errorf("%s has a negative size", what)
	case len(d.URLs) > 0:
		return fmt.Errorf("%s is to be fetched from elsewhere, which is not done", what)
	}
	return nil
}

// readDocument reads a blob that is held in memory.
func readDocument(ctx context.Context, s store, d v1.Descriptor, what string) ([]byte, error) {
	if err := checkDescriptor(d, what); err != nil {
		return nil, err
	}
	if d.Size > maxDocument {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", what, d.Size, maxDocument)
	}
	r, err := s.blob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// verified gives exactly the bytes of a descriptor: more, fewer or others are an error.
type verified struct {
	io.ReadCloser
	d    v1.Descriptor
	left int64
	h    hash.Hash
}

func verify(r io.ReadCloser, d v1.Descriptor) io.ReadCloser {
	return &verified{r, d, d.Size, sha256.New()}
}

func (v *verified) Read(p []byte) (int, error) {
	if v.left == 0 {
		var more [1]byte
		switch n, err := io.ReadFull(v.ReadCloser, more[:]); {
		case n > 0:
			return 0, fmt.Errorf("the blob %s has more than %d bytes", v.d.Digest, v.d.Size)
		case err != io.EOF:
			return 0, err
		case hex.EncodeToString(v.h.Sum(nil)) != v.d.Digest.Hex:
			return 0, fmt.Errorf("the blob %s has another digest", v.d.Digest)
		}
		return 0, io.EOF
	}
	n, err := v.ReadCloser.Read(p[:min(int64(len(p)), v.left)])
	v.h.Write(p[:n])
	if v.left -= int64(n); err == io.EOF {
		if err = nil; v.left > 0 {
			err = fmt.Errorf("the blob %s ends after %d of %d bytes", v.d.Digest, v.d.Size-v.left, v.d.Size)
		}
	}
	return n, err
}

// strict parses one JSON object of an image. mediaType is what it was called by; the object may not say otherwise.
func strict(data []byte, mediaType types.MediaType, into any) error {
	var said struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     types.MediaType `json:"mediaType"`
		Layers        json.RawMessage `json:"layers"`
		Manifests     json.RawMessage `json:"manifests"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return errors.New("a manifest is not JSON")
	}
	switch {
	case said.SchemaVersion != 2:
		return fmt.Errorf("a manifest has the schema version %d, 2 is expected", said.SchemaVersion)
	case said.MediaType != "" && said.MediaType != mediaType:
		return fmt.Errorf("a manifest says that it is %s, and was given as %s", finding.QuoteMax(string(said.MediaType), 100), finding.QuoteMax(string(mediaType), 100))
	case said.Layers != nil && said.Manifests != nil: // CVE-2021-41190: one digest, two readings
		return errors.New("a manifest has both layers and manifests")
	}
	if err := json.Unmarshal(data, into); err != nil {
		return errors.New("a manifest has a field of the wrong type")
	}
	return nil
}

// A Base is an image that was opened, whole or as an index of several.
type Base struct {
	Name   string // as it was given
	At     Location
	Digest v1.Hash // of what the location names

	store store
	root  v1.Descriptor
	raw   []byte
	used  map[string]*Image
}

// Close gives back what reading needed.
func (b *Base) Close() error { return b.store.Close() }

// An Image is one image for one platform.
type Image struct {
	Descriptor v1.Descriptor
	Manifest   v1.Manifest
	Config     v1.ConfigFile

	store store
	root  *rootFS // what its layers hold, once it was read
}

// image opens the image of the base for a platform, or the only one there is. ok is false if the base is an index
// without such an image; offered names what it has.
func (b *Base) image(ctx context.Context, os, arch string) (m *Image, offered []string, ok bool, err error) {
	d, raw := b.root, b.raw
	if d.MediaType.IsIndex() {
		var index v1.IndexManifest
		if err := strict(raw, d.MediaType, &index); err != nil {
			return nil, nil, false, err
		}
		if len(index.Manifests) > maxIndex {
			return nil, nil, false, fmt.Errorf("the index has %d manifests, at most %d are looked at", len(index.Manifests), maxIndex)
		}
		var best *v1.Descriptor
		for i, m := range index.Manifests {
			if m.Platform == nil || m.Platform.OS == "unknown" { // an attestation, or nobody's
				continue
			}
			offered = append(offered, platformText(*m.Platform))
			if m.Platform.OS == os && m.Platform.Architecture == arch && (best == nil || variantRank(arch, m.Platform.Variant) < variantRank(arch, best.Platform.Variant)) {
				best = &index.Manifests[i]
			}
		}
		if best == nil {
			if len(offered) == 0 {
				return nil, nil, false, errors.New("the index names no image with a platform")
			}
			slices.Sort(offered)
			return nil, slices.Compact(offered), false, nil
		}
		if !best.MediaType.IsImage() {
			return nil, nil, false, fmt.Errorf("the index names %s as the image of %s, a manifest is expected", finding.QuoteMax(string(best.MediaType), 100), platformText(*best.Platform))
		}
		d = *best
		if m := b.used[d.Digest.Hex]; m != nil {
			return m, nil, true, nil
		}
		if raw, err = readDocument(ctx, b.store, d, "a manifest"); err != nil {
			return nil, nil, false, err
		}
	}
	if m := b.used[d.Digest.Hex]; m != nil {
		return m, nil, true, nil
	}
	m, err = readImage(ctx, b.store, d, raw)
	if err == nil {
		b.used[d.Digest.Hex] = m
	}
	return m, nil, err == nil, err
}

func readImage(ctx context.Context, s store, d v1.Descriptor, raw []byte) (*Image, error) {
	m := &Image{Descriptor: v1.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: int64(len(raw))}, store: s}
	if err := strict(raw, d.MediaType, &m.Manifest); err != nil {
		return nil, err
	}
	if t := m.Manifest.Config.MediaType; t != types.OCIConfigJSON && t != types.DockerConfigJSON {
		return nil, fmt.Errorf("its config is %s, so it is not an image", finding.QuoteMax(string(t), 100))
	}
	if n := len(m.Manifest.Layers); n > maxLayers {
		return nil, fmt.Errorf("it has %d layers, at most %d are read", n, maxLayers)
	}
	for _, l := range m.Manifest.Layers {
		if err := checkDescriptor(l, "a layer"); err != nil {
			return nil, err
		}
		if _, err := layerKind(l.MediaType); err != nil {
			return nil, err
		}
	}
	config, err := readDocument(ctx, s, m.Manifest.Config, "its config")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(config, &m.Config); err != nil {
		return nil, errors.New("its config is not JSON of an image")
	}
	if got := len(m.Config.RootFS.DiffIDs); got != len(m.Manifest.Layers) {
		return nil, fmt.Errorf("its config names %d layers, its manifest %d", got, len(m.Manifest.Layers))
	}
	return m, nil
}

// layerKind is the compression of a layer by its media type.
func layerKind(t types.MediaType) (bundle.Compression, error) {
	switch t {
	case types.OCILayer, types.DockerLayer:
		return bundle.Gzip, nil
	case types.OCILayerZStd:
		return bundle.Zstd, nil
	case types.OCIUncompressedLayer, types.DockerUncompressedLayer:
		return bundle.Tar, nil
	}
	return 0, fmt.Errorf("a layer is %s, a tar archive in gzip, zstd or no compression is expected", finding.QuoteMax(string(t), 100))
}

func platformText(p v1.Platform) string {
	text := finding.Clean(p.OS + "/" + p.Architecture)
	if p.Variant != "" {
		text += "/" + finding.Clean(p.Variant)
	}
	return text
}

// variantRank orders the variants of an architecture, the one that most machines run first.
func variantRank(arch, variant string) int {
	order := map[string][]string{"amd64": {"", "v1", "v2", "v3", "v4"}, "arm64": {"v8", ""}, "arm": {"v7", "", "v6", "v5", "v8"}}[arch]
	if i := slices.Index(order, variant); i >= 0 {
		return i
	}
	return len(order)
}
