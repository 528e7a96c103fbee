package image

import (
	"context"
)

// Open opens an image, or an index of images, for reading. Of layers nothing is read yet. The error is an
// *UnreadableError.
func Open(ctx context.Context, name string, at Location, net *Network) (*Base, error) {
	b := &Base{Name: name, At: at, used: map[string]*Image{}}
	var err error
	switch {
	case at.Layout != "":
		b.store = ociLayout{at.Layout, at.Tag}
	case at.Archive != "":
		b.store, err = openDockerArchive(at.Archive, at.Tag)
	default:
		b.store, err = openRegistry(at.Ref, net)
	}
	if err != nil {
		return nil, &UnreadableError{name, err}
	}
	if b.root, b.raw, err = b.store.root(ctx); err != nil {
		b.store.Close()
		return nil, &UnreadableError{name, err}
	}
	b.Digest = b.root.Digest
	return b, nil
}

// Keep makes the layers that are read from a registry stay in scratch files in dir ("" for the system's) until Close, so
// that each is fetched once, however often it is read.
func (b *Base) Keep(dir string) {
	if r, ok := b.store.(*registry); ok {
		r.keep, r.temp = true, dir
	}
}
