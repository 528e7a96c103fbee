package image

import (
	"context"
	"errors"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// upload is a blob as the client of registries takes it.
type upload struct {
	ctx context.Context
	content
}

func (u upload) Digest() (v1.Hash, error)             { return u.d.Digest, nil }
func (u upload) DiffID() (v1.Hash, error)             { return v1.Hash{}, errors.New("not known") }
func (u upload) Compressed() (io.ReadCloser, error)   { return u.open(u.ctx) }
func (u upload) Uncompressed() (io.ReadCloser, error) { return nil, errors.New("not known") }
func (u upload) Size() (int64, error)                 { return u.d.Size, nil }
func (u upload) MediaType() (types.MediaType, error)  { return u.d.MediaType, nil }

// document is a manifest as the client of registries takes it.
type document struct {
	t   types.MediaType
	raw []byte
}

func (d document) RawManifest() ([]byte, error)        { return d.raw, nil }
func (d document) MediaType() (types.MediaType, error) { return d.t, nil }

// push uploads blobs first, then manifests by their digests, those of the proofs before what they refer to, then the name.
func (c *Composition) push(ctx context.Context, to Location, net *Network) error {
	blobs, manifests, err := c.proofs.attached(c.Root)
	if err != nil {
		return err
	}
	return pushAll(ctx, to.Ref, net, append(blobs, c.blobs...), append(manifests, c.manifests...))
}

// pushAll uploads blobs, then manifests by their digests, of which the last one gets the name.
func pushAll(ctx context.Context, ref name.Reference, net *Network, blobs, manifests []content) error {
	repo := ref.Context()
	p, err := remote.NewPusher(net.options(repo)...)
	if err != nil {
		return err
	}
	for _, b := range blobs {
		if err := p.Upload(ctx, repo, upload{ctx, b}); err != nil {
			return err
		}
	}
	for i, m := range manifests {
		r, err := m.open(ctx)
		if err != nil {
			return err
		}
		raw, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return err
		}
		at := name.Reference(repo.Digest(m.d.Digest.String()))
		if i == len(manifests)-1 {
			at = ref
		}
		if err := p.Put(ctx, at, document{m.d.MediaType, raw}); err != nil {
			return err
		}
	}
	return nil
}
