package drift

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/gittree"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Bounds of what one build may read. A tree may name one blob or subtree any
// number of times, so that the size of a repository bounds nothing.
const (
	maxBytes = 1 << 30 // bytes of all files that are opened
	maxItems = 1 << 18 // entries of all directories that are listed
)

// conditions are what a build must not depend on.
type conditions struct {
	reverse bool // directories are listed from their ends
	chunk   int  // most bytes of one read; 0 for as many as are asked for
}

// A source is a commit's tree, or a directory of it, as one build reads it:
// within bounds, until the context ends, under some conditions. It keeps the
// places that were looked at, and the Git LFS pointers among them.
type source struct {
	bundle.Source
	under conditions
	dir   string // of the root within the commit's tree, "" for its top
	bytes int64
	items int64
	read  map[string]bool // paths within the commit's tree; a directory stands for its list
	lfs   []string
}

func newSource(ctx context.Context, repo Repo, tree, dir string, under conditions) *source {
	return &source{Source: bundle.WithContext(ctx, gittree.Source(repo, tree)), under: under, dir: dir, read: map[string]bool{}}
}

// Lstat implements bundle.Source.
func (s *source) Lstat(name string) (bundle.Item, error) {
	s.read[path.Join(s.dir, name)] = true
	return s.Source.Lstat(name)
}

// ReadDir implements bundle.Source.
func (s *source) ReadDir(name string) ([]bundle.Item, error) {
	s.read[path.Join(s.dir, name)+"/"] = true
	items, err := s.Source.ReadDir(name)
	if s.items += int64(len(items)); s.items > maxItems {
		return nil, bundle.Faultf(bundle.LimitEntries, name, "the source has more than %d directory entries", maxItems)
	}
	if s.under.reverse {
		items = slices.Clone(items)
		slices.Reverse(items)
	}
	return items, err
}

// Open implements bundle.Source.
func (s *source) Open(name string) (io.ReadCloser, error) {
	it, err := s.Lstat(name)
	if err != nil {
		return nil, err
	}
	if it.Kind == bundle.KindFile && it.Size > gittree.MaxBlob {
		return nil, bundle.Faultf(bundle.LimitMemberSize, name, "%s has %d bytes, a gate reads at most %d", finding.QuoteMax(name, 200), it.Size, gittree.MaxBlob)
	}
	if s.bytes += it.Size; s.bytes > maxBytes {
		return nil, bundle.Faultf(bundle.LimitTotalSize, name, "building reads more than %d bytes of the source", maxBytes)
	}
	r, err := s.Source.Open(name)
	if err != nil {
		return nil, err
	}
	if it.Size < maxPointer {
		head, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, err
		}
		if isPointer(head) && !slices.Contains(s.lfs, name) {
			s.lfs = append(s.lfs, name)
		}
		r = io.NopCloser(strings.NewReader(string(head)))
	}
	if s.under.chunk > 0 {
		return chunked{r, s.under.chunk}, nil
	}
	return r, nil
}

// uses reports whether a change of path p could matter to the build: it looked
// at p, or at a directory that p lies below, whether or not there was anything.
func (s *source) uses(p string) bool {
	for ; p != "."; p = path.Dir(p) {
		if s.read[p] || s.read[p+"/"] {
			return true
		}
	}
	return s.read["./"]
}

type chunked struct {
	io.ReadCloser
	most int
}

func (c chunked) Read(p []byte) (int, error) {
	return c.ReadCloser.Read(p[:min(len(p), c.most)])
}

// maxPointer is the size that a Git LFS pointer stays below.
const maxPointer = 1024

// isPointer recognises a Git LFS pointer by its first line.
func isPointer(b []byte) bool {
	return len(b) < maxPointer && strings.HasPrefix(string(b), "version https://git-lfs.github.com/spec/")
}

// below reports whether p is dir or lies below it; "" is the top.
func below(dir, p string) bool {
	return dir == "" || dir == "." || p == dir || strings.HasPrefix(p, dir+"/")
}
