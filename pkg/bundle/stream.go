package bundle

import (
	"context"
	"hash"
	"io"
)

// Chunks carry what one goroutine has ready to the one that works on it. A short
// run gets along with small ones: memory touched for the first time costs more
// than waiting saves.
const (
	chunks      = 3
	chunkSize   = 64 << 10
	chunkLong   = 256 << 10 // once more than smallChunks were used
	smallChunks = 48
)

type chunk struct {
	b   []byte
	err error // after b
}

// stream is the decompressed side of a file. A second goroutine reads and
// decompresses while the first one judges and hashes.
type stream struct {
	full   chan chunk
	free   chan []byte
	done   chan struct{} // closed by stop
	exited chan struct{} // closed when the second goroutine is gone, and what it read from closed

	cur    []byte    // rest of the chunk in hand
	held   []byte    // the whole chunk in hand, to give back
	err    error     // after cur
	offset int64     // bytes consumed
	hash   hash.Hash // of all that was consumed; nil if nobody asks
	spool  *Spool    // where all of it goes; nil if nobody asks

	fileSize int64
	maxRatio int64
}

func startStream(ctx context.Context, c container, fileSize, maxRatio int64) *stream {
	s := &stream{
		full: make(chan chunk, chunks), free: make(chan []byte, chunks),
		done: make(chan struct{}), exited: make(chan struct{}),
		fileSize: fileSize, maxRatio: maxRatio,
	}
	for range chunks {
		s.free <- make([]byte, chunkSize)
	}
	go s.pump(ctx, c)
	return s
}

func (s *stream) pump(ctx context.Context, c container) {
	defer close(s.exited)
	defer c.Close()
	for sent := 0; ; sent++ {
		var b []byte
		select {
		case b = <-s.free:
		case <-s.done:
			return
		}
		if sent > smallChunks && len(b) < chunkLong {
			b = make([]byte, chunkLong)
		}
		n, err := 0, ctx.Err()
		for n < len(b) && err == nil {
			var m int
			m, err = c.Read(b[n:])
			n += m
		}
		s.full <- chunk{b[:n], err} // never blocks: at most as many as free holds
		if err != nil {
			return
		}
	}
}

// stop ends the second goroutine and waits for it.
func (s *stream) stop() {
	close(s.done)
	<-s.exited
}

// next gets the next chunk in hand; false at the end of the stream or at an
// error, which s.err tells.
func (s *stream) next() bool {
	if s.held != nil {
		s.free <- s.held[:cap(s.held)]
		s.held = nil
	}
	if s.err != nil {
		return false
	}
	c := <-s.full
	s.cur, s.held, s.err = c.b, c.b, c.err
	if s.hash != nil {
		s.hash.Write(c.b)
	}
	s.spool.write(c.b)
	return len(s.cur) > 0
}

// fail returns the error that ended the stream, nil for its proper end.
func (s *stream) fail() error {
	if s.err == io.EOF {
		return nil
	}
	return s.err
}

// readFull fills p; n is less than len(p) only at the end of the stream.
func (s *stream) readFull(p []byte) (n int, err error) {
	for n < len(p) {
		if len(s.cur) == 0 && !s.next() {
			return n, s.fail()
		}
		m := copy(p[n:], s.cur)
		s.cur = s.cur[m:]
		s.offset += int64(m)
		n += m
	}
	return n, nil
}

// ready returns what can be consumed without waiting.
func (s *stream) ready() []byte { return s.cur }

// copyN hands size bytes to fn; n is less only at the end of the stream.
func (s *stream) copyN(size int64, fn func([]byte)) (n int64, err error) {
	for n < size {
		if len(s.cur) == 0 && !s.next() {
			return n, s.fail()
		}
		m := min(int64(len(s.cur)), size-n)
		fn(s.cur[:m])
		s.cur = s.cur[m:]
		s.offset += m
		n += m
	}
	return n, nil
}

// ratio judges the decompression ratio as it will be after size more bytes.
func (s *stream) ratio(size int64) *Finding {
	return checkRatio(s.offset+size, s.fileSize, s.maxRatio)
}

func checkRatio(out, fileSize, maxRatio int64) *Finding {
	most := int64(1 << 62)
	if maxRatio <= 0 || fileSize <= most/maxRatio {
		most = max(1, fileSize*maxRatio)
	}
	if out > ratioFloor && out > most {
		return Faultf(LimitRatio, "", "%d bytes come out of a file of %d bytes, the limit is %d times", out, fileSize, maxRatio)
	}
	return nil
}
