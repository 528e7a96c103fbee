// Package gittree gives the trees of commits to package bundle, which knows
// nothing of git.
package gittree

import (
	"errors"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// MaxBlob bounds a file that goes into a bundle, in bytes.
const MaxBlob = 256 << 20

// Repo is what is needed of a repository. *gitrepo.Repo is one.
type Repo interface {
	Tree(id string) (*gitrepo.Tree, error)
	Blob(id string, limit int64) ([]byte, error)
	Objects(ids []string, limit int64, fn func(gitrepo.Object) error) error
}

// Source is the tree with an object id.
func Source(repo Repo, tree string) *bundle.GitSource {
	return bundle.NewGitSource(objects{repo}, tree)
}

type objects struct{ repo Repo }

// Tree implements bundle.GitObjects.
func (o objects) Tree(id string) ([]bundle.GitEntry, error) {
	t, err := o.repo.Tree(id)
	if err != nil {
		return nil, err
	}
	out := make([]bundle.GitEntry, 0, t.Len())
	for e := range t.Entries() {
		out = append(out, bundle.GitEntry{Name: e.Name, Mode: uint32(e.Mode), ID: e.ID})
	}
	return out, nil
}

// BlobSize implements bundle.GitObjects; no content is read.
func (o objects) BlobSize(id string) (size int64, err error) {
	err = o.repo.Objects([]string{id}, 0, func(obj gitrepo.Object) error {
		size = obj.Size
		if obj.Err != nil && !errors.Is(obj.Err, gitrepo.ErrTooLarge) {
			return obj.Err
		}
		return nil
	})
	return size, err
}

// Blob implements bundle.GitObjects.
func (o objects) Blob(id string) ([]byte, error) { return o.repo.Blob(id, MaxBlob) }
