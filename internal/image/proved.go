package image

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rigward/rigward/pkg/bundle"
)

// Composed reads the whole of an image, or of every image of an index, each of which rig-bundle has to have composed, and
// tells what they say of themselves. All layers are read, and are what manifest and config name. The error is an
// *UnreadableError.
func (b *Base) Composed(ctx context.Context, limits bundle.Limits) ([]Made, error) {
	list := []v1.Descriptor{b.root}
	if b.root.MediaType.IsIndex() {
		var index v1.IndexManifest
		if err := strict(b.raw, b.root.MediaType, &index); err != nil {
			return nil, &UnreadableError{b.Name, err}
		}
		list = index.Manifests
	}
	if len(list) == 0 || len(list) > maxIndex {
		return nil, &UnreadableError{b.Name, fmt.Errorf("the index has %d manifests", len(list))}
	}
	var all []Made
	for _, d := range list {
		m, err := b.composed(ctx, d, &limits)
		if err != nil {
			return nil, &UnreadableError{b.Name, err}
		}
		all = append(all, m)
	}
	return all, nil
}

func (b *Base) composed(ctx context.Context, d v1.Descriptor, limits *bundle.Limits) (Made, error) {
	raw := b.raw
	if d.Digest != b.Digest {
		if d.MediaType.IsIndex() {
			return Made{}, errors.New("the index holds an index")
		}
		var err error
		if raw, err = readDocument(ctx, b.store, d, "a manifest"); err != nil {
			return Made{}, err
		}
	}
	m, err := readImage(ctx, b.store, d, raw)
	if err != nil {
		return Made{}, err
	}
	if _, err := readRoot(ctx, m, limits); err != nil {
		return Made{}, err
	}
	labels, n := m.Config.Config.Labels, len(m.Manifest.Layers)-1
	for _, key := range []string{ociPrefix + "base.digest", prefix + "bundle.tar-digest"} {
		if _, err := v1.NewHash(labels[key]); err != nil || n < 0 || m.Manifest.Annotations[key] != labels[key] {
			return Made{}, errors.New("it is not an image that rig-bundle composed")
		}
	}
	return Made{platformText(v1.Platform{OS: m.Config.OS, Architecture: m.Config.Architecture, Variant: m.Config.Variant}), d.Digest.String(), m.Manifest.Layers[n].Digest.String(),
		m.Config.RootFS.DiffIDs[n].String(), labels[ociPrefix+"base.digest"], labels[prefix+"bundle.tar-digest"]}, nil
}

// Proofs collects what refers to the image in its registry. The error is an *UnreadableError.
func (b *Base) Proofs(ctx context.Context, net *Network) (p Proofs, err error) {
	r, ok := b.store.(*registry)
	if !ok {
		return p, nil
	}
	if p, err = r.proofs(ctx, b.root, net); err != nil {
		err = &UnreadableError{b.Name, err}
	}
	return p, err
}

// Manifest is what an image is signed as: the bytes of its manifest, or of its index.
func (b *Base) Manifest() []byte { return b.raw }
