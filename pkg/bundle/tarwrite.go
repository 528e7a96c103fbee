package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rigward/rigward/pkg/finding"
)

// A Layout fixes the bytes of a tar stream: the order of members and their
// headers. A stream ends with two zero blocks and has no padding after them.
type Layout interface {
	// Compare orders two names.
	Compare(a, b string) int
	// AppendHeader appends the extension header, if one is needed, and the
	// header block of m. It reads Name, Type, Mode, Size and Link.
	AppendHeader(dst []byte, m *Member) ([]byte, error)
}

// An Entry is a member to be written. Open gives a file's content; Size and,
// if it is set, SHA256 must be right.
type Entry struct {
	Member
	Open func() (io.ReadCloser, error)
	// Prepare, if set, is called once all entries before this one are written;
	// it may set Size, SHA256 and Open.
	Prepare func(e *Entry) error
}

// Written tells what [WriteArchive] wrote.
type Written struct {
	TarDigest Digest
	TarSize   int64
}

// WriteArchive writes the entries, sorted by the layout, as one compressed tar
// archive. The order in which they are given, the clock, the environment and
// the number of processors have no influence on the bytes.
func WriteArchive(ctx context.Context, w io.Writer, c Compression, l Layout, entries []Entry) (Written, error) {
	var zw io.WriteCloser
	switch c {
	case Gzip:
		zw = NewGzipWriter(w)
	case Zstd:
		var err error
		if zw, err = NewZstdWriter(w); err != nil {
			return Written{}, err
		}
	default:
		return Written{}, fmt.Errorf("no writer for %v", c)
	}
	return WriteCompressed(ctx, zw, l, entries)
}

// WriteCompressed writes the entries, sorted by the layout, as a tar stream
// through a compressor, which it closes.
func WriteCompressed(ctx context.Context, zw io.WriteCloser, l Layout, entries []Entry) (Written, error) {
	p := startPipe(zw)
	done, err := WriteTar(ctx, p, l, entries)
	if perr := p.Close(); perr != nil {
		err = perr
	}
	if cerr := zw.Close(); err == nil {
		err = cerr
	}
	return done, err
}

// WriteTar writes the entries, sorted by the layout, as a tar stream.
func WriteTar(ctx context.Context, w io.Writer, l Layout, entries []Entry) (Written, error) {
	sorted := make([]*Entry, len(entries))
	for i := range entries {
		sorted[i] = &entries[i]
	}
	slices.SortFunc(sorted, func(a, b *Entry) int { return l.Compare(a.Name, b.Name) })
	out := &tarSink{w: w, h: sha256.New()}
	var head []byte
	buf := make([]byte, 64<<10)
	for i, e := range sorted {
		if err := ctx.Err(); err != nil {
			return Written{}, err
		}
		if i > 0 && sorted[i-1].Name == e.Name {
			return Written{}, fmt.Errorf("two entries for %s", finding.QuoteMax(e.Name, 200))
		}
		var err error
		if e.Prepare != nil {
			if err = e.Prepare(e); err != nil {
				return Written{}, err
			}
		}
		if head, err = l.AppendHeader(head[:0], &e.Member); err != nil {
			return Written{}, err
		}
		if _, err = out.Write(head); err != nil {
			return Written{}, err
		}
		if e.Type != File {
			continue
		}
		if err = writeContent(out, e, buf); err != nil {
			return Written{}, err
		}
	}
	if _, err := out.Write(out.zero[:]); err != nil {
		return Written{}, err
	}
	done := Written{TarSize: out.n}
	out.h.Sum(done.TarDigest[:0])
	return done, nil
}

func writeContent(out *tarSink, e *Entry, buf []byte) error {
	if e.Size > 0 || e.Open != nil {
		r, err := e.Open()
		if err != nil {
			return err
		}
		n := int64(0)
		for err == nil && n <= e.Size {
			var m int
			m, err = r.Read(buf[:min(int64(len(buf)), e.Size+1-n)])
			n += int64(m)
			if _, werr := out.Write(buf[:m]); werr != nil {
				err = werr
			}
		}
		if err == io.EOF {
			err = nil
		}
		if cerr := r.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		if n != e.Size {
			return fmt.Errorf("%s changed its size while it was read", finding.QuoteMax(e.Name, 200))
		}
	}
	_, err := out.Write(out.zero[:padding(e.Size)])
	return err
}

type tarSink struct {
	w io.Writer
	h interface {
		io.Writer
		Sum([]byte) []byte
	}
	n    int64
	zero [2 * blockSize]byte
}

func (s *tarSink) Write(p []byte) (int, error) {
	s.h.Write(p)
	s.n += int64(len(p))
	return s.w.Write(p)
}

// BytesEntry is an entry of a file held in memory.
func BytesEntry(name string, mode uint32, content []byte) Entry {
	return Entry{
		Member: Member{Name: name, Type: File, Mode: mode, Size: int64(len(content)), SHA256: Sum(content)},
		Open:   func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	}
}

// pipe hands writes to a second goroutine, so that reading and hashing go on
// while the compressor works.
type pipe struct {
	full chan []byte
	free chan []byte
	exit chan error
	cur  []byte
	sent int
	bad  atomic.Bool // a write failed: Close tells why
}

var errPipe = errors.New("the other end of the pipe is closed")

func startPipe(w io.Writer) *pipe {
	p := &pipe{full: make(chan []byte, chunks), free: make(chan []byte, chunks), exit: make(chan error, 1)}
	for range chunks {
		p.free <- make([]byte, 0, chunkSize)
	}
	p.cur = <-p.free
	go func() {
		var err error
		for b := range p.full {
			if err == nil {
				if _, err = w.Write(b); err != nil {
					p.bad.Store(true)
				}
			}
			p.free <- b[:0]
		}
		p.exit <- err
	}()
	return p
}

// Write implements io.Writer. It fails soon after a write of the second
// goroutine has.
func (p *pipe) Write(b []byte) (n int, err error) {
	if p.bad.Load() {
		return 0, errPipe
	}
	for n < len(b) {
		m := min(len(b)-n, cap(p.cur)-len(p.cur))
		p.cur = append(p.cur, b[n:n+m]...)
		n += m
		if len(p.cur) == cap(p.cur) {
			p.full <- p.cur
			p.cur = <-p.free
			if p.sent++; p.sent > smallChunks && cap(p.cur) < chunkLong {
				p.cur = make([]byte, 0, chunkLong)
			}
		}
	}
	return n, nil
}

// Close hands the rest on, waits for the second goroutine and returns its
// error.
func (p *pipe) Close() error {
	p.full <- p.cur
	close(p.full)
	return <-p.exit
}

// USTAR is the layout of docs/spec/agentbundle.md#create, which is that of the
// standard library's writer: ustar headers, a pax header only where ustar
// cannot hold a value, with no other keys, owners 0, order by the bytes of the
// path. A test knows the bytes.
type USTAR struct {
	ModTime int64 // seconds since 1970, 0 to 8589934591, the same for every member
}

// Compare orders by the bytes of the path.
func (USTAR) Compare(a, b string) int { return strings.Compare(a, b) }

// AppendHeader appends the header of m. A directory's name gets a trailing
// slash.
func (u USTAR) AppendHeader(dst []byte, m *Member) ([]byte, error) {
	h := &tar.Header{Typeflag: byte(m.Type), Name: m.Name, Linkname: m.Link, Mode: int64(m.Mode), ModTime: time.Unix(u.ModTime, 0), Format: tar.FormatPAX}
	switch m.Type {
	case Dir:
		h.Name += "/"
	case Symlink:
		h.Mode = 0o777
	case File:
		h.Size = m.Size
	default:
		return nil, fmt.Errorf("this layout holds no %v", m.Type)
	}
	out := bytes.NewBuffer(dst)
	if err := tar.NewWriter(out).WriteHeader(h); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// BlockSum is the checksum of a header block, its own field taken as blanks.
func BlockSum(b []byte) int64 {
	const low = 0x00ff00ff00ff00ff // every second byte, in lanes of 16 bits, which 128 bytes do not overflow
	var lanes uint64
	for i := 0; i < blockSize; i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		switch i {
		case 144:
			v = v&0xffffffff | 0x20202020<<32
		case 152:
			v = v>>32<<32 | 0x20202020
		}
		lanes += v&low + v>>8&low
	}
	return int64(lanes&0xffff + lanes>>16&0xffff + lanes>>32&0xffff + lanes>>48)
}

// PaxRecord returns `LENGTH KEY=VALUE` LF, LENGTH counting the whole record.
func PaxRecord(key, value string) string {
	n := len(key) + len(value) + len(" =\n")
	size := n + len(strconv.Itoa(n))
	if n+len(strconv.Itoa(size)) != size { // the length itself grew by a digit
		size++
	}
	return strconv.Itoa(size) + " " + key + "=" + value + "\n"
}

// canonChecker compares a stream with what a layout would write.
type canonChecker struct {
	layout Layout
	prev   string
	any    bool
	why    string
	buf    []byte
}

func (c *canonChecker) deviate(why string) {
	if c.why == "" {
		c.why = why
	}
}

func (c *canonChecker) member(m *Member, raw []byte) {
	if c.why != "" {
		return
	}
	if c.any && c.layout.Compare(c.prev, m.Name) >= 0 {
		c.deviate("members are not in order: " + finding.QuoteMax(m.Name, 200) + " follows " + finding.QuoteMax(c.prev, 200))
	}
	c.any, c.prev = true, m.Name
	var err error
	if c.buf, err = c.layout.AppendHeader(c.buf[:0], m); err != nil || !bytes.Equal(c.buf, raw) {
		c.deviate("the header of " + finding.QuoteMax(m.Name, 200) + " is not the one that create writes")
	}
}
