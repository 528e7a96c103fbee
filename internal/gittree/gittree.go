// Package gittree gives the trees of commits to package bundle, which knows
// nothing of git.
package gittree

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// MaxBlob bounds a file that goes into a bundle, in bytes: what a gate may hold
// in memory, whatever a format's own limit of a member is.
const MaxBlob = 256 << 20

// Repo is what is needed of a repository. *gitrepo.Repo is one.
type Repo interface {
	Tree(id string) (*gitrepo.Tree, error)
	Blob(id string, limit int64) ([]byte, error)
	Objects(ids []string, limit int64, fn func(gitrepo.Object) error) error
	Heads(ids []string, most int64, fn func(gitrepo.Object) error) error
}

// maxLink bounds what is read of a link's target, in bytes. No file system has a longer one,
// but a commit can: of those one byte more is kept, which every limit of a name refuses.
const maxLink = 4096

// A Tree is the tree of a commit as a source of bundles: blobs as they are
// stored, without filters, line-end conversion or a work tree.
type Tree struct {
	repo  Repo
	root  string
	trees map[string]*gitrepo.Tree // by directory
	sizes map[string]int64         // by object id
	links map[string]string        // targets by object id
}

// Source is the tree with an object id.
func Source(repo Repo, tree string) *Tree {
	return &Tree{repo, tree, map[string]*gitrepo.Tree{}, map[string]int64{}, map[string]string{}}
}

func (s *Tree) tree(dir string) (*gitrepo.Tree, error) {
	if t := s.trees[dir]; t != nil {
		return t, nil
	}
	it, err := s.Lstat(dir)
	switch {
	case err != nil:
		return nil, err
	case it.Kind == bundle.KindSymlink:
		return nil, &bundle.LinkError{Path: dir}
	case it.Kind != bundle.KindDir:
		return nil, &fs.PathError{Op: "open", Path: dir, Err: bundle.ErrNotDir}
	}
	t, err := s.repo.Tree(it.ID)
	if err == nil {
		s.trees[dir] = t
	}
	return t, err
}

// Lstat implements bundle.Source.
func (s *Tree) Lstat(name string) (bundle.Item, error) {
	if name == "." {
		return bundle.Item{Name: ".", Kind: bundle.KindDir, ID: s.root}, nil
	}
	t, err := s.tree(path.Dir(name))
	if err != nil {
		return bundle.Item{}, err
	}
	if e, ok := t.Lookup(path.Base(name)); ok {
		return s.item(e)
	}
	return bundle.Item{}, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
}

func (s *Tree) item(e gitrepo.TreeEntry) (it bundle.Item, err error) {
	it = bundle.Item{Name: e.Name, ID: e.ID}
	switch {
	case e.Mode == gitrepo.ModeTree:
		it.Kind = bundle.KindDir
	case e.Mode == gitrepo.ModeSymlink:
		it.Kind = bundle.KindSymlink
		it.Link, err = s.link(e.ID)
	case e.Mode.IsFile():
		it.Mode = uint32(e.Mode) & 0o777
		it.Size, err = s.size(e.ID)
	default:
		it.Kind = bundle.KindOther
	}
	return it, err
}

// link is the target of a link, cut behind maxLink bytes and one.
func (s *Tree) link(id string) (string, error) {
	if target, ok := s.links[id]; ok {
		return target, nil
	}
	err := s.repo.Heads([]string{id}, maxLink+1, func(obj gitrepo.Object) error {
		if obj.Err == nil {
			s.links[id] = string(obj.Data)
		}
		return obj.Err
	})
	return s.links[id], err
}

// size is that of a blob; no content is read.
func (s *Tree) size(id string) (int64, error) {
	if size, ok := s.sizes[id]; ok {
		return size, nil
	}
	err := s.repo.Objects([]string{id}, 0, func(obj gitrepo.Object) error {
		s.sizes[id] = obj.Size
		if obj.Err != nil && !errors.Is(obj.Err, gitrepo.ErrTooLarge) {
			return obj.Err
		}
		return nil
	})
	return s.sizes[id], err
}

// ReadDir implements bundle.Source.
func (s *Tree) ReadDir(name string) ([]bundle.Item, error) {
	t, err := s.tree(name)
	if err != nil {
		return nil, err
	}
	items := make([]bundle.Item, 0, t.Len())
	for e := range t.Entries() {
		it, err := s.item(e)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b bundle.Item) int { return strings.Compare(a.Name, b.Name) })
	return items, nil
}

// Open implements bundle.Source.
func (s *Tree) Open(name string) (io.ReadCloser, error) {
	it, err := s.Lstat(name)
	if err != nil {
		return nil, err
	}
	if it.Kind != bundle.KindFile {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	b, err := s.repo.Blob(it.ID, MaxBlob)
	return io.NopCloser(bytes.NewReader(b)), err
}
