package bundle

import (
	"context"
	"io"
	"io/fs"

	"github.com/rigward/rigward/internal/files"
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
// that are trees, consist of: a directory on disk ([Dirs]) or the tree of a
// commit. Names are clean, relative, with slashes; "." is
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

// MacFile says what a file is that macOS leaves.
const MacFile = "macOS leaves such a file beside others, no program of the bundle reads it"

// LeftBeside says why no format packs an item of a tree, "" if it is one of the files that
// are meant: macOS leaves it beside others, or a program of this module that was killed
// while it wrote a file.
func LeftBeside(name string, it Item) (why string) {
	switch {
	case portable.Mac(name) && (it.Kind == KindFile || it.Kind == KindDir && it.Name == "__MACOSX"):
		return MacFile
	case it.Kind == KindFile && files.Temporary(it.Name):
		return "it was being written when its writer was interrupted, and may be removed"
	}
	return ""
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
