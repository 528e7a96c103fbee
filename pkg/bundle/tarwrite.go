package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

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
	if perr := p.Close(); err == nil {
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
}

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
				_, err = w.Write(b)
			}
			p.free <- b[:0]
		}
		p.exit <- err
	}()
	return p
}

func (p *pipe) Write(b []byte) (n int, err error) {
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

// USTAR is the layout of spec/agentbundle.md section 10: ustar headers, a pax
// header only where ustar cannot hold a value, with no other keys, owners 0,
// order by the bytes of the path. The standard library's writer gives the same
// bytes; a test holds the two together.
type USTAR struct {
	ModTime int64 // seconds since 1970, 0 to 8589934591, the same for every member
}

// Compare orders by the bytes of the path.
func (USTAR) Compare(a, b string) int { return strings.Compare(a, b) }

// AppendHeader appends the header of m. A directory's name gets a trailing
// slash.
func (u USTAR) AppendHeader(dst []byte, m *Member) ([]byte, error) {
	name := m.Name
	mode := m.Mode
	switch m.Type {
	case Dir:
		name += "/"
	case Symlink:
		mode = 0o777
	case File:
	default:
		return nil, fmt.Errorf("this layout holds no %v", m.Type)
	}
	size := m.Size
	if m.Type != File {
		size = 0
	}
	prefix, last, split := splitUSTAR(name)
	longName := len(name) > ustarName || !isASCII(name)
	longLink := len(m.Link) > ustarName || !isASCII(m.Link)
	longSize := size > ustarSize
	f := ustarFields{name: name, mode: mode, size: size, mtime: u.ModTime, flag: byte(m.Type), link: m.Link, devices: true}
	if split {
		f.prefix, f.name = prefix, last
	}
	if longLink || longSize || longName && !split {
		var body []byte // records in the order of their keys
		if longLink {
			body = append(body, PaxRecord("linkpath", m.Link)...)
		}
		if longName {
			body = append(body, PaxRecord("path", name)...)
		}
		if longSize {
			body = append(body, PaxRecord("size", strconv.FormatInt(size, 10))...)
			f.size = 0
		}
		dir, base := path.Split(name)
		ext := toASCII(path.Join(dir, "PaxHeaders.0", base))
		ext = strings.TrimRight(ext[:min(len(ext), ustarName)], "/")
		dst = appendUSTAR(dst, ustarFields{name: ext, size: int64(len(body)), flag: 'x'})
		dst = append(dst, body...)
		dst = append(dst, make([]byte, padding(int64(len(body))))...)
		f.name, f.prefix, f.link = asciiField(name), "", asciiField(m.Link)
	}
	return appendUSTAR(dst, f), nil
}

// Field sizes of a ustar header block.
const (
	ustarName   = 100
	ustarPrefix = 155
	ustarSize   = 0o77777777777
)

// splitUSTAR splits an ASCII name of over 100 bytes at the last slash that
// gives a prefix of at most 155 bytes.
func splitUSTAR(name string) (prefix, last string, ok bool) {
	if len(name) <= ustarName || !isASCII(name) {
		return "", "", false
	}
	n := len(name)
	if n > ustarPrefix+1 {
		n = ustarPrefix + 1
	} else if name[n-1] == '/' {
		n--
	}
	i := strings.LastIndexByte(name[:n], '/')
	if i <= 0 || len(name)-i-1 > ustarName || len(name)-i-1 == 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 || s[i] == 0 {
			return false
		}
	}
	return true
}

// toASCII leaves out what is not ASCII.
func toASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x80 || r == 0 {
			return -1
		}
		return r
	}, s)
}

// asciiField is what a header block repeats of a value that a pax record
// holds: the ASCII characters that fit, without slashes at a cut.
func asciiField(s string) string {
	s = toASCII(s)
	if len(s) > ustarName {
		s = s[:ustarName]
		if s[ustarName-1] == '/' {
			s = strings.TrimRight(s, "/")
		}
	}
	return s
}

type ustarFields struct {
	name, prefix, link string
	mode               uint32
	size, mtime        int64
	flag               byte
	devices            bool // write the device numbers, as 0
}

func appendUSTAR(dst []byte, f ustarFields) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, blockSize)...)
	b := dst[at:]
	copy(b[0:100], f.name)
	octal(b[100:108], int64(f.mode))
	octal(b[108:116], 0)
	octal(b[116:124], 0)
	octal(b[124:136], f.size)
	octal(b[136:148], f.mtime)
	b[156] = f.flag
	copy(b[157:257], f.link)
	copy(b[257:265], "ustar\x0000")
	if f.devices {
		octal(b[329:337], 0)
		octal(b[337:345], 0)
	}
	copy(b[345:500], f.prefix)
	octal(b[148:155], BlockSum(b))
	b[155] = ' '
	return dst
}

// octal writes v with leading zeros and a NUL at the end.
func octal(b []byte, v int64) {
	for i := len(b) - 2; i >= 0; i-- {
		b[i] = '0' + byte(v&7)
		v >>= 3
	}
	b[len(b)-1] = 0
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
