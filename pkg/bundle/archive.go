package bundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rigward/rigward/pkg/finding"
)

// An Archive is what one pass over a bundle file found.
type Archive struct {
	Compression  Compression
	FileDigest   Digest // of the file's bytes
	TarDigest    Digest // of the tar stream: the identity; zero if it was not read to its end
	FileSize     int64
	TarSize      int64             // bytes of the tar stream, as far as it was read
	Members      []Member          // in archive order; the root itself is left out
	Kept         map[string][]byte // contents that the profile asked for, by name
	Notes        []Note
	Screened     []*Finding // what is hidden in its texts, at most maxScreenedAll of it
	Fault        *Finding   // the first faulty position of file or stream; nil if there is none
	NotCanonical string     // why Profile.Layout would not write this stream; "" if it would

	profile *Profile
	file    io.ReaderAt
	index   map[string]int
	hash    hash.Hash
}

// Scan reads a bundle file of the given size once, to its last byte, and
// judges it as the profile says: container, stream in archive order, end of
// the archive. A negative size stands for a file that is still being written:
// it is read to its end, and its ratio judged there. A fault is in [Archive.Fault], with everything found before it.
// The error is for reading alone (or ctx): then nothing was decided.
func Scan(ctx context.Context, file io.ReaderAt, size int64, p *Profile) (*Archive, error) {
	grows := size < 0
	if grows {
		size = math.MaxInt64
	}
	a := &Archive{FileSize: size, Kept: map[string][]byte{}, profile: p, file: file, index: map[string]int{}, hash: sha256.New()}
	head := make([]byte, min(size, SniffLen))
	n, err := file.ReadAt(head, 0)
	if err != nil && !(err == io.EOF && (grows || size == int64(len(head)))) {
		return nil, err
	}
	a.Compression = Sniff(head[:n])
	raw := &hashReader{r: io.NewSectionReader(file, 0, size), h: sha256.New()}
	if a.Fault = a.checkKind(); a.Fault == nil {
		if err := a.scan(ctx, raw); err != nil {
			fault := AsFinding(err)
			if fault == nil {
				return nil, err
			}
			a.Fault = fault
		}
	}
	if _, err := io.Copy(io.Discard, raw); err != nil { // the digest is that of the whole file
		return nil, err
	}
	switch {
	case grows:
		a.FileSize = raw.n.Load()
		if a.Fault == nil {
			a.Fault = checkRatio(a.TarSize, a.FileSize, p.Limits.Ratio)
		}
	case raw.n.Load() != size:
		return nil, fmt.Errorf("the file changed its size while it was read")
	}
	raw.h.Sum(a.FileDigest[:0])
	return a, nil
}

func (a *Archive) checkKind() *Finding {
	switch a.Compression {
	case Empty:
		return Faultf(ContainerEmpty, "", "the file is empty")
	case Unknown:
		return Faultf(ContainerUnknown, "", "the file is neither gzip nor zstd nor tar")
	}
	if slices.Contains(a.profile.Compressions, a.Compression) {
		return nil
	}
	what := a.Compression.String() + " data"
	if a.Compression == Tar {
		what = "an uncompressed tar archive"
	}
	var takes []string
	for _, c := range a.profile.Compressions {
		takes = append(takes, c.String())
	}
	return Faultf(ContainerMismatch, "", "the file is %s, expected %s", what, strings.Join(takes, " or "))
}

func (a *Archive) scan(ctx context.Context, raw *hashReader) error {
	c, s, err := a.open(ctx, a.Compression, raw)
	if err != nil {
		return err
	}
	defer s.stop()
	s.hash, s.spool = sha256.New(), a.profile.Spool
	t := &tarReader{p: a.profile, s: s, a: a, raw: raw}
	if a.profile.Layout != nil {
		t.canon = &canonChecker{layout: a.profile.Layout}
	}
	err = t.run()
	a.TarSize = s.offset
	if t.canon != nil {
		a.NotCanonical = t.canon.why
	}
	if err != nil {
		return err
	}
	s.hash.Sum(a.TarDigest[:0])
	if t.canon != nil && a.NotCanonical == "" && a.Compression == Gzip {
		var head [len(canonicalGzip)]byte
		if _, err := a.file.ReadAt(head[:], 0); err != nil && err != io.EOF {
			return err
		}
		switch {
		case c.members() != 1:
			a.NotCanonical = fmt.Sprintf("the file has %d gzip members", c.members())
		case head != canonicalGzip:
			a.NotCanonical = "the gzip header is not the one that create writes"
		}
	}
	return nil
}

// open begins to decompress a stream; its stop ends that.
func (a *Archive) open(ctx context.Context, kind Compression, file io.Reader) (container, *stream, error) {
	c, err := openContainer(kind, file, &a.profile.Limits)
	if err != nil {
		return nil, nil, err
	}
	return c, startStream(ctx, c, a.FileSize, a.profile.Limits.Ratio), nil
}

func (a *Archive) hasher() hash.Hash {
	a.hash.Reset()
	return a.hash
}

func (a *Archive) note(code, path, detail string) {
	a.Notes = append(a.Notes, Note{Code: code, Path: path, Detail: detail})
}

// maxScreenedAll is how much is told of the texts of one archive.
const maxScreenedAll = 1000

// screened takes what was found in a text.
func (a *Archive) screened(faults []*Finding, notes []Note) {
	a.Screened = append(a.Screened, faults[:min(len(faults), maxScreenedAll-len(a.Screened))]...)
	a.Notes = append(a.Notes, notes[:min(len(notes), max(0, maxScreenedAll-len(a.Notes)))]...)
}

// Member returns the member of a normalised name, nil if there is none.
func (a *Archive) Member(name string) *Member {
	if i := a.Index(name); i >= 0 {
		return &a.Members[i]
	}
	return nil
}

// Index returns the place of a normalised name in Members, -1 if it has none.
func (a *Archive) Index(name string) int {
	if i, ok := a.index[name]; ok && i < len(a.Members) { // the member in which reading stopped has no place
		return i
	}
	return -1
}

// Names returns all members as [CheckTree] takes them, in archive order.
func (a *Archive) Names() []Name {
	names := make([]Name, len(a.Members))
	for i := range a.Members {
		names[i] = Name{a.Members[i].Name, a.Members[i].Type}
	}
	return names
}

// ErrStop ends a Walk early without an error.
var ErrStop = errors.New("stop")

// Walk reads the contents of an archive without Fault again, from the same
// handle, and calls fn for each member in archive order. The reader gives a
// file's content; fn may leave it unread. Content that differs from what Scan
// read gives an error at its end.
func (a *Archive) Walk(ctx context.Context, fn func(m *Member, content io.Reader) error) error {
	if a.Fault != nil {
		return fmt.Errorf("the archive is faulty: %w", a.Fault)
	}
	file, kind := io.NewSectionReader(a.file, 0, a.FileSize), a.Compression
	if a.Spooled() {
		file, kind = io.NewSectionReader(a.profile.Spool.f, 0, a.TarSize), Tar
	}
	_, s, err := a.open(ctx, kind, file)
	if err != nil {
		return err
	}
	defer s.stop()
	for i := range a.Members {
		m := &a.Members[i]
		if _, err := s.copyN(m.data-s.offset, func([]byte) {}); err != nil {
			return err
		}
		r := &memberReader{s: s, m: m, left: m.Size}
		if m.Type == File {
			r.h = a.hasher()
		}
		if err := fn(m, r); err != nil {
			if err == ErrStop {
				return nil
			}
			return err
		}
	}
	return nil
}

// Contents returns the contents of the named files, kept ones without reading
// again. The caller knows that their sizes are bounded.
func (a *Archive) Contents(ctx context.Context, names ...string) (map[string][]byte, error) {
	got := make(map[string][]byte, len(names))
	missing := map[string]bool{}
	for _, n := range names {
		m := a.Member(n)
		if m == nil || m.Type != File {
			return nil, fmt.Errorf("no file %s in the archive", finding.QuoteMax(n, 200))
		}
		if b, ok := a.Kept[n]; ok && int64(len(b)) == m.Size {
			got[n] = b
		} else {
			missing[n] = true
		}
	}
	if len(missing) == 0 {
		return got, nil
	}
	err := a.Walk(ctx, func(m *Member, r io.Reader) error {
		if !missing[m.Name] {
			return nil
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		got[m.Name] = b
		delete(missing, m.Name)
		if len(missing) == 0 {
			return ErrStop
		}
		return nil
	})
	return got, err
}

// memberReader gives one file's content and compares its hash at the end.
type memberReader struct {
	s    *stream
	m    *Member
	left int64
	h    hash.Hash
}

func (r *memberReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		var d Digest
		if r.h != nil && Digest(r.h.Sum(d[:0])) != r.m.SHA256 {
			return 0, fmt.Errorf("%s changed while it was read", finding.QuoteMax(r.m.Name, 200))
		}
		return 0, io.EOF
	}
	n, err := r.s.readFull(p[:min(int64(len(p)), r.left)])
	if n == 0 && err == nil && len(p) > 0 {
		err = fmt.Errorf("%s changed while it was read", finding.QuoteMax(r.m.Name, 200))
	}
	r.left -= int64(n)
	if r.h != nil {
		r.h.Write(p[:n])
	}
	return n, err
}

// WriteTo implements io.WriterTo: content goes on without a copy.
func (r *memberReader) WriteTo(w io.Writer) (n int64, err error) {
	got, rerr := r.s.copyN(r.left, func(b []byte) {
		if r.h != nil {
			r.h.Write(b)
		}
		if err == nil {
			var m int
			m, err = w.Write(b)
			n += int64(m)
		}
	})
	r.left -= got
	if err = cmpErr(err, rerr); err != nil {
		return n, err
	}
	if r.left > 0 {
		return n, fmt.Errorf("%s changed while it was read", finding.QuoteMax(r.m.Name, 200))
	}
	if _, err = r.Read(nil); err == io.EOF {
		err = nil
	}
	return n, err
}

type hashReader struct {
	r io.Reader
	h hash.Hash
	n atomic.Int64 // bytes read
}

func (h *hashReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.h.Write(p[:n])
	h.n.Add(int64(n))
	return n, err
}
