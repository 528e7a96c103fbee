package image

import (
	"context"

	"github.com/rigward/rigward/pkg/bundle"
)

// Open opens an image, or an index of images, for reading. Of layers nothing is read yet. The error is an
// *UnreadableError.
func Open(ctx context.Context, name string, at Location, net *Network) (*Base, error) {
	s, err := open(at, onDisk, net)
	if err != nil {
		return nil, &UnreadableError{name, err}
	}
	return opened(ctx, name, at, s)
}

// OpenIn is Open for an image that lies in a tree, whose paths name names, or in a registry. A docker archive is copied to a
// scratch file in temp ("" for the system's).
func OpenIn(ctx context.Context, name string, tree bundle.Source, temp string, net *Network) (*Base, error) {
	at, err := parseLocation(name, func(path string) string { return path }, func(path string) bool {
		_, err := tree.Lstat(path)
		return err == nil
	})
	if err != nil {
		return nil, &UnreadableError{name, err}
	}
	files := inTree(tree)
	var s store
	if at.Archive != "" {
		s, err = copyDockerArchive(files, at.Archive, at.Tag, temp)
	} else {
		s, err = open(at, files, net)
	}
	if err != nil {
		return nil, &UnreadableError{name, err}
	}
	return opened(ctx, name, at, s)
}

func open(at Location, files opener, net *Network) (store, error) {
	switch {
	case at.Layout != "":
		return ociLayout{at.Layout, at.Tag, files}, nil
	case at.Archive != "":
		return openDockerArchive(at.Archive, at.Tag)
	}
	return openRegistry(at.Ref, net)
}

// opened reads what a store names.
func opened(ctx context.Context, name string, at Location, s store) (*Base, error) {
	b := &Base{Name: name, At: at, store: s, used: map[string]*Image{}}
	var err error
	if b.root, b.raw, err = s.root(ctx); err != nil {
		s.Close()
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
