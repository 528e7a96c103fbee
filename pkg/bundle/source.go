package bundle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
)

// WithContext returns a source that reads no further once the context has
// ended.
func WithContext(ctx context.Context, src Source) Source { return contextSource{src, ctx} }

type contextSource struct {
	Source
	ctx context.Context
}

// Lstat implements Source.
func (s contextSource) Lstat(name string) (Item, error) {
	if err := s.ctx.Err(); err != nil {
		return Item{}, err
	}
	return s.Source.Lstat(name)
}

// ReadDir implements Source.
func (s contextSource) ReadDir(name string) ([]Item, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	return s.Source.ReadDir(name)
}

// Open implements Source.
func (s contextSource) Open(name string) (io.ReadCloser, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	r, err := s.Source.Open(name)
	if err != nil {
		return nil, err
	}
	return contextReader{r, s.ctx}, nil
}

type contextReader struct {
	io.ReadCloser
	ctx context.Context
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReadCloser.Read(p)
}

// A Source is a read-only tree that bundles are made from or, for formats
// that are trees, consist of: a directory on disk ([DirSource]) or the tree
// of a commit ([GitSource]). Names are clean, relative, with slashes; "." is
// the root. Nothing is ever read through a link.
type Source interface {
	// Lstat describes name itself; fs.ErrNotExist if there is nothing.
	Lstat(name string) (Item, error)
	// ReadDir lists a directory, sorted by the bytes of the names.
	ReadDir(name string) ([]Item, error)
	// Open opens a regular file for reading.
	Open(name string) (io.ReadCloser, error)
}

// An Item is one entry of a Source.
type Item struct {
	Name string // last component
	Kind Kind
	Mode uint32 // permission bits of a file
	Size int64  // bytes of a file
	Link string // target of a symlink
	ID   string // object id, if the source is a commit
}

// Kind of an Item.
type Kind int

// The kinds of items. Other stands for devices, FIFOs, sockets and
// submodules: whatever has no content to take.
const (
	KindFile Kind = iota
	KindDir
	KindSymlink
	KindOther
)

// ReadFile reads a whole file of at most limit bytes from a source.
func ReadFile(src Source, name string, limit int64) ([]byte, error) {
	r, err := src.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = Faultf(LimitMemberSize, name, "%s is over %d bytes", finding.QuoteMax(name, 200), limit)
	}
	return b, err
}

// WalkSource calls fn for name and everything below it, parents first, in the
// order of ReadDir. Links are reported, not followed. fn may return fs.SkipDir
// for a directory.
func WalkSource(src Source, name string, fn func(name string, it Item) error) error {
	it, err := src.Lstat(name)
	if err != nil {
		return err
	}
	return walkSource(src, name, it, fn, 0)
}

// MacFile says what a file is that [LeftByMac] reports.
const MacFile = "macOS leaves such a file beside others, no program of the bundle reads it"

// LeftByMac reports whether an item is what macOS leaves beside the files of a
// tree. No format packs it.
func LeftByMac(name string, it Item) bool {
	return portable.Mac(name) && (it.Kind == KindFile || it.Kind == KindDir && it.Name == "__MACOSX")
}

// maxSourceDepth bounds the recursion; deeper trees are over every format's
// depth limit, which the caller judges by the names it was given.
const maxSourceDepth = 1024

func walkSource(src Source, name string, it Item, fn func(string, Item) error, depth int) error {
	if err := fn(name, it); err != nil {
		if err == fs.SkipDir && it.Kind == KindDir {
			return nil
		}
		return err
	}
	if it.Kind != KindDir {
		return nil
	}
	if depth == maxSourceDepth {
		return Faultf(LimitPath, name, "the directory lies more than %d levels deep", maxSourceDepth)
	}
	items, err := src.ReadDir(name)
	if err != nil {
		return err
	}
	for _, child := range items {
		if err := walkSource(src, join(name, child.Name), child, fn, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// join joins without cleaning, so that odd names stay visible.
func join(dir, base string) string {
	if dir == "." {
		return base
	}
	return dir + "/" + base
}

// DirSource is a directory on disk.
type DirSource struct{ dirs *Dirs }

// OpenDirSource opens a directory as a source; Close releases it.
func OpenDirSource(dir string) (*DirSource, error) {
	d, err := OpenDirs(dir)
	if err != nil {
		return nil, err
	}
	return &DirSource{d}, nil
}

// Close releases the handles.
func (s *DirSource) Close() error { return s.dirs.Close() }

// Lstat implements Source.
func (s *DirSource) Lstat(name string) (Item, error) {
	if name == "." {
		return Item{Name: ".", Kind: KindDir}, nil
	}
	r, base, err := s.dirs.at(name)
	if err != nil {
		return Item{}, err
	}
	it, err := r.item(base)
	if err != nil {
		return Item{}, pathError("lstat", name, err)
	}
	return it, nil
}

// item is lstat with the target of a link.
func (d *dir) item(base string) (Item, error) {
	it, err := d.lstat(base)
	if err == nil && it.Kind == KindSymlink {
		it.Link, err = d.readlink(base)
	}
	return it, err
}

// ReadDir implements Source.
func (s *DirSource) ReadDir(name string) ([]Item, error) {
	r, err := s.dirs.dir(name)
	if err != nil {
		return nil, err
	}
	names, err := r.names()
	if err != nil {
		return nil, pathError("read", name, err)
	}
	slices.Sort(names)
	items := make([]Item, len(names))
	for i, base := range names {
		if items[i], err = r.item(base); err != nil {
			return nil, pathError("lstat", join(name, base), err)
		}
	}
	return items, nil
}

func sortItems(items []Item) {
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
}

// Open implements Source.
func (s *DirSource) Open(name string) (io.ReadCloser, error) { return s.dirs.Open(name) }

// GitObjects is what a GitSource needs of a repository. pkg/gitrepo offers
// it through a small adapter.
type GitObjects interface {
	// Tree returns the entries of a tree object, strictly parsed.
	Tree(id string) ([]GitEntry, error)
	// BlobSize returns the size of a blob in bytes.
	BlobSize(id string) (int64, error)
	// Blob returns the content of a blob.
	Blob(id string) ([]byte, error)
}

// GitEntry is an entry of a tree object. Mode is git's: 0o40000 a tree,
// 0o100644 and 0o100755 files, 0o120000 a symlink, 0o160000 a submodule.
type GitEntry struct {
	Name string
	Mode uint32
	ID   string
}

// GitSource is the tree of a commit: blobs as they are stored, without
// filters, line-end conversion or a work tree.
type GitSource struct {
	objects GitObjects
	root    string
	trees   map[string][]GitEntry // by directory
	sizes   map[string]int64      // by object id
}

// NewGitSource reads the tree with the given object id.
func NewGitSource(objects GitObjects, tree string) *GitSource {
	return &GitSource{objects, tree, map[string][]GitEntry{}, map[string]int64{}}
}

func (s *GitSource) entries(dir string) ([]GitEntry, error) {
	if es, ok := s.trees[dir]; ok {
		return es, nil
	}
	id := s.root
	if dir != "." {
		it, err := s.Lstat(dir)
		if err != nil {
			return nil, err
		}
		if it.Kind == KindSymlink {
			return nil, &LinkError{dir}
		}
		if it.Kind != KindDir {
			return nil, &fs.PathError{Op: "open", Path: dir, Err: ErrNotDir}
		}
		id = it.ID
	}
	es, err := s.objects.Tree(id)
	if err != nil {
		return nil, err
	}
	s.trees[dir] = es
	return es, nil
}

// Lstat implements Source.
func (s *GitSource) Lstat(name string) (Item, error) {
	if name == "." {
		return Item{Name: ".", Kind: KindDir, ID: s.root}, nil
	}
	es, err := s.entries(path.Dir(name))
	if err != nil {
		return Item{}, err
	}
	base := path.Base(name)
	for _, e := range es {
		if e.Name == base {
			return s.item(e)
		}
	}
	return Item{}, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
}

func (s *GitSource) item(e GitEntry) (Item, error) {
	it := Item{Name: e.Name, ID: e.ID}
	switch e.Mode {
	case 0o40000:
		it.Kind = KindDir
		return it, nil
	case 0o120000:
		it.Kind = KindSymlink
		b, err := s.objects.Blob(e.ID)
		it.Link = string(b)
		return it, err
	case 0o100644, 0o100664, 0o100755:
		it.Mode = e.Mode & 0o777
	default:
		it.Kind = KindOther
		return it, nil
	}
	size, ok := s.sizes[e.ID]
	if !ok {
		var err error
		if size, err = s.objects.BlobSize(e.ID); err != nil {
			return it, err
		}
		s.sizes[e.ID] = size
	}
	it.Size = size
	return it, nil
}

// ReadDir implements Source.
func (s *GitSource) ReadDir(name string) ([]Item, error) {
	es, err := s.entries(name)
	if err != nil {
		return nil, err
	}
	items := make([]Item, 0, len(es))
	for _, e := range es {
		it, err := s.item(e)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	sortItems(items)
	return items, nil
}

// Open implements Source.
func (s *GitSource) Open(name string) (io.ReadCloser, error) {
	it, err := s.Lstat(name)
	if err != nil {
		return nil, err
	}
	if it.Kind != KindFile {
		return nil, fmt.Errorf("%s is not a regular file", finding.QuoteMax(name, 200))
	}
	b, err := s.objects.Blob(it.ID)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}
