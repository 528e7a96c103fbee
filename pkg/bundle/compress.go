package bundle

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression is what a file's first bytes say it is.
type Compression int

// The kinds of file that [Sniff] knows.
const (
	Unknown Compression = iota
	Empty               // no bytes at all
	Gzip
	Zstd // also a file that starts with a skippable frame
	Tar  // not compressed
)

// String returns the name that messages use.
func (c Compression) String() string {
	return [...]string{"unknown", "empty", "gzip", "zstd", "tar"}[c]
}

// SniffLen is the number of bytes that Sniff looks at.
const SniffLen = 262

// Sniff tells the kind of a file by its first SniffLen bytes, fewer if the
// file is shorter.
func Sniff(head []byte) Compression {
	switch {
	case len(head) == 0:
		return Empty
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return Gzip
	case len(head) >= 4 && (binary.LittleEndian.Uint32(head) == zstdMagic || binary.LittleEndian.Uint32(head)&^0xf == zstdSkippable):
		return Zstd
	case len(head) >= SniffLen && string(head[257:262]) == "ustar":
		return Tar
	}
	return Unknown
}

// A container reads what a compressed file holds, through the whole file.
// Read gives a *Finding for a fault of the container.
type container interface {
	io.ReadCloser
	// members counts the gzip members or zstd frames begun so far.
	members() int
}

func openContainer(c Compression, r io.Reader, l *Limits) (container, error) {
	switch c {
	case Gzip:
		return &gzipReader{src: bufio.NewReaderSize(r, 64<<10)}, nil
	case Zstd:
		w := &zstdFrames{src: bufio.NewReaderSize(r, 64<<10), maxWindow: l.Window}
		d, err := zstd.NewReader(w, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(uint64(max(l.Window, 1<<10))), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("zstd decoder: %w", err)
		}
		return &zstdReader{frames: w, dec: d}, nil
	case Tar:
		return &plainReader{r}, nil
	}
	return nil, fmt.Errorf("no reader for %v", c)
}

// Decompress returns what comes out of r, for readers of what no bundle may hold, as the layers of images do. kind is
// Gzip, Zstd or Tar, size that of the whole of r in bytes. What is wrong with the container comes as a *Finding, as does
// more than l.TotalSize or l.Ratio allow. The end is that of r, not of the archive.
func Decompress(kind Compression, r io.Reader, size int64, l *Limits) (io.ReadCloser, error) {
	c, err := openContainer(kind, r, l)
	if err != nil {
		return nil, err
	}
	return &bounded{container: c, size: size, limits: l}, nil
}

// bounded stops what comes out of a container at the limits.
type bounded struct {
	container
	size, n int64
	limits  *Limits
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.container.Read(p)
	if b.n += int64(n); b.n > b.limits.TotalSize {
		return 0, Faultf(LimitTotalSize, "", "more than %d bytes come out, the limit total-size", b.limits.TotalSize)
	}
	if fault := checkRatio(b.n, b.size, b.limits.Ratio); fault != nil {
		return 0, fault
	}
	return n, err
}

type plainReader struct{ io.Reader }

func (*plainReader) Close() error { return nil }

func (*plainReader) members() int { return 1 }

// gzipReader reads gzip members back to back up to the last byte. It reads
// their headers and trailers itself: the library's reader refuses a name or
// comment of 512 bytes and more.
type gzipReader struct {
	src  *bufio.Reader
	data io.Reader // the deflate stream of the current member; nil before the first
	crc  uint32    // of what came out of it
	size uint32    // the same modulo 2^32
	n    int
	err  error
}

func (g *gzipReader) members() int { return g.n }

func (*gzipReader) Close() error { return nil }

func (g *gzipReader) Read(p []byte) (int, error) {
	for g.err == nil {
		if g.data == nil {
			g.err = g.open()
			continue
		}
		n, err := g.data.Read(p)
		g.crc = crc32.Update(g.crc, crc32.IEEETable, p[:n])
		g.size += uint32(n)
		if err == io.EOF {
			if err = g.trailer(); err == nil {
				err = g.open()
			}
		}
		if err != nil {
			g.err = gzipFault(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, g.err
}

// trailer compares checksum and length at the end of a member.
func (g *gzipReader) trailer() error {
	var b [8]byte
	if err := g.full(b[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(b[:]) != g.crc || binary.LittleEndian.Uint32(b[4:]) != g.size {
		return Faultf(ContainerCorrupt, "", "the gzip checksum or length does not match the data")
	}
	return nil
}

// open begins the next member; io.EOF if the file ends here.
func (g *gzipReader) open() error {
	head, err := g.src.Peek(4)
	if len(head) == 0 {
		return err
	}
	if err != nil && err != io.EOF {
		return err
	}
	if g.n > 0 && !bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return Faultf(ContainerTrailingData, "", "bytes follow the end of the gzip stream")
	}
	if len(head) == 4 && (head[2] != 8 || head[3]&0xe0 != 0) {
		return Faultf(ContainerCorrupt, "", "gzip header names an unknown method or reserved flags")
	}
	g.n++
	if err := g.header(); err != nil {
		return gzipFault(err)
	}
	g.crc, g.size = 0, 0
	if g.data == nil {
		g.data = flate.NewReader(g.src)
		return nil
	}
	return g.data.(flate.Resetter).Reset(g.src, nil)
}

// header reads a member's header (RFC 1952 section 2.3) and forgets what it says.
func (g *gzipReader) header() error {
	var b [10]byte
	if err := g.full(b[:]); err != nil {
		return err
	}
	flags := b[3]
	sum := crc32.ChecksumIEEE(b[:])
	if flags&4 != 0 { // extra field
		if err := g.full(b[:2]); err != nil {
			return err
		}
		extra := make([]byte, binary.LittleEndian.Uint16(b[:]))
		if err := g.full(extra); err != nil {
			return err
		}
		sum = crc32.Update(sum, crc32.IEEETable, b[:2])
		sum = crc32.Update(sum, crc32.IEEETable, extra)
	}
	for _, text := range []byte{8, 16} { // name, comment: up to a NUL
		for more := flags&text != 0; more; {
			part, err := g.src.ReadSlice(0)
			if more = err == bufio.ErrBufferFull; err != nil && !more {
				return unexpected(err)
			}
			sum = crc32.Update(sum, crc32.IEEETable, part)
		}
	}
	if flags&2 != 0 { // checksum of the header
		if err := g.full(b[:2]); err != nil {
			return err
		}
		if binary.LittleEndian.Uint16(b[:]) != uint16(sum) {
			return Faultf(ContainerCorrupt, "", "the gzip header's checksum does not match")
		}
	}
	return nil
}

// full fills b from the file.
func (g *gzipReader) full(b []byte) error {
	_, err := io.ReadFull(g.src, b)
	return unexpected(err)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func gzipFault(err error) error {
	var corrupt flate.CorruptInputError
	var internal flate.InternalError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Faultf(ContainerTruncated, "", "the gzip stream ends too early")
	case errors.As(err, &corrupt), errors.As(err, &internal):
		return Faultf(ContainerCorrupt, "", "the gzip stream is damaged")
	}
	return err
}

const (
	zstdMagic     = 0xFD2FB528
	zstdSkippable = 0x184D2A50
)

// zstdFrames passes the bytes of a zstd file on while it follows the frames
// (RFC 8878 section 3): it sees what the decoder does not tell, such as bytes
// after the last frame, a window over the limit, or a dictionary.
type zstdFrames struct {
	src       *bufio.Reader
	maxWindow int64
	n         int    // frames begun
	pass      int64  // bytes to hand on unseen
	pending   []byte // header bytes read, to hand on
	state     int    // what comes after pass and pending
	checksum  bool   // the frame ends with a checksum
	err       error
}

const (
	zstdAtFrame = iota
	zstdAtBlock
	zstdAtChecksum
)

func (z *zstdFrames) Read(p []byte) (int, error) {
	for {
		switch {
		case len(z.pending) > 0:
			n := copy(p, z.pending)
			z.pending = z.pending[n:]
			return n, nil
		case z.pass > 0:
			n, err := z.src.Read(p[:min(int64(len(p)), z.pass)])
			z.pass -= int64(n)
			if n > 0 {
				return n, nil
			}
			if err == io.EOF {
				err = z.truncated()
			}
			z.err = err
			return 0, err
		case z.err != nil:
			return 0, z.err
		}
		z.err = z.step()
	}
}

func (z *zstdFrames) truncated() error {
	return Faultf(ContainerTruncated, "", "the zstd stream ends too early")
}

// take reads n header bytes and queues them.
func (z *zstdFrames) take(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(z.src, b); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = z.truncated()
		}
		return nil, err
	}
	z.pending = append(z.pending, b...)
	return b, nil
}

func (z *zstdFrames) step() error {
	switch z.state {
	case zstdAtChecksum:
		z.state = zstdAtFrame
		z.pass = 4
		return nil
	case zstdAtBlock:
		b, err := z.take(3)
		if err != nil {
			return err
		}
		h := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		z.pass = int64(h >> 3)
		switch h >> 1 & 3 {
		case 1: // RLE
			z.pass = 1
		case 3:
			return Faultf(ContainerCorrupt, "", "the zstd stream has a block of the reserved type")
		}
		if h&1 == 1 { // last block
			z.state = zstdAtFrame
			if z.checksum {
				z.state = zstdAtChecksum
			}
		}
		return nil
	}
	return z.frame()
}

// frame begins the next frame, io.EOF if the file ends here.
func (z *zstdFrames) frame() error {
	head, err := z.src.Peek(zstd.HeaderMaxSize)
	if len(head) == 0 || err != nil && err != io.EOF {
		return err
	}
	var h zstd.Header
	switch err := h.Decode(head); {
	case len(head) < 4 || err == zstd.ErrMagicMismatch:
		return Faultf(ContainerTrailingData, "", "bytes follow the end of the zstd stream")
	case err == io.ErrUnexpectedEOF:
		return z.truncated()
	case err != nil:
		return Faultf(ContainerCorrupt, "", "the zstd frame header has a reserved bit set")
	}
	z.n++
	if _, err := z.take(h.HeaderSize); err != nil {
		return err
	}
	if h.Skippable {
		z.pass = int64(h.SkippableSize)
		return nil
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	if h.DictionaryID != 0 {
		return Faultf(ContainerUnsupported, "", "the zstd frame needs dictionary %d, dictionaries are not supported", h.DictionaryID)
	}
	if window > uint64(max(z.maxWindow, 0)) {
		return Faultf(LimitWindow, "", "the zstd window is %d bytes, the limit is %d", window, z.maxWindow)
	}
	z.checksum, z.state = h.HasCheckSum, zstdAtBlock
	return nil
}

type zstdReader struct {
	frames *zstdFrames
	dec    *zstd.Decoder
}

func (z *zstdReader) members() int { return z.frames.n }

func (z *zstdReader) Read(p []byte) (int, error) {
	n, err := z.dec.Read(p)
	if err == nil {
		return n, nil
	}
	// What the frames said weighs more than how the decoder words it.
	if fault := z.frames.err; fault != nil && fault != io.EOF {
		return n, fault
	}
	switch {
	case err == io.EOF:
		return n, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, Faultf(ContainerTruncated, "", "the zstd stream ends too early")
	}
	return n, Faultf(ContainerCorrupt, "", "the zstd stream is damaged")
}

// Close frees the decoder.
func (z *zstdReader) Close() error {
	z.dec.Close()
	return nil
}

// NewGzipWriter returns the gzip writer whose bytes docs/spec/rigbundle.md#identity
// pins: best compression, one member, no name, no time, OS 255. The result
// does not depend on how the input is cut into writes.
func NewGzipWriter(w io.Writer) io.WriteCloser { return newGzipWriter(w, gzip.BestCompression) }

// NewFastGzipWriter is NewGzipWriter at a level that costs a fraction of the
// time, for formats whose identity does not depend on compressed bytes.
func NewFastGzipWriter(w io.Writer) io.WriteCloser { return newGzipWriter(w, 6) }

func newGzipWriter(w io.Writer, level int) io.WriteCloser {
	zw, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		panic(err) // the levels are constants
	}
	zw.OS = 255
	zw.ModTime = time.Unix(0, 0) // written as 0, which means none
	return zw
}

// canonicalGzip is the header that NewGzipWriter writes.
var canonicalGzip = [10]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255}

// NewZstdWriter returns a zstd writer of one frame with a checksum and a
// window of 4 MiB, where docs/spec/agentbundle.md#create allows 8: memory stays
// below 64 MiB.
func NewZstdWriter(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(4<<20), zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1))
}
