package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// progressDelay is how long a command works before it says so.
const progressDelay = time.Second

// countingReader counts what was read of a file.
type countingReader struct {
	io.ReaderAt
	read atomic.Int64
}

func (r *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	r.read.Add(int64(n))
	return n, err
}

// watchFile shows on a terminal how far an archive was read, once that takes
// long. Every verb reads it to judge it; what it reads again is its own work.
func (c *call) watchFile(f *os.File, size int64) io.ReaderAt {
	if !c.Terminal || size == 0 {
		return f
	}
	r := &countingReader{ReaderAt: f}
	base := finding.Path(filepath.Base(f.Name()))
	c.ticking(func() string {
		what, read := "verify", r.read.Load()
		if read > size {
			what, read = c.verb.name, read-size
		}
		return fmt.Sprintf("%s %s %d%%", what, base, min(read, size)*100/size)
	})
	return r
}

// countingTree counts the files that were opened, and what was read of them.
type countingTree struct {
	bundle.Source
	files, bytes atomic.Int64
}

func (t *countingTree) Open(name string) (io.ReadCloser, error) {
	r, err := t.Source.Open(name)
	if err != nil {
		return nil, err
	}
	t.files.Add(1)
	return &countedFile{r, t}, nil
}

type countedFile struct {
	io.ReadCloser
	t *countingTree
}

func (f *countedFile) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	f.t.bytes.Add(int64(n))
	return n, err
}

// watchTree shows on a terminal how much of a tree was read, once that takes
// long.
func (c *call) watchTree(src bundle.Source) bundle.Source {
	if !c.Terminal {
		return src
	}
	t, subject := &countingTree{Source: src}, finding.Path(c.subject)
	c.ticking(func() string {
		return fmt.Sprintf("%s %s: %s, %d MiB", c.verb.name, subject, count(t.files.Load(), "file"), t.bytes.Load()>>20)
	})
	return t
}

// ticking shows a line every second until release.
func (c *call) ticking(line func() string) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(progressDelay)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(c.Stderr, "\r%s\x1b[K", line())
				shown = true
			case <-done:
				if shown {
					fmt.Fprint(c.Stderr, "\r\x1b[K")
				}
				return
			}
		}
	}()
	var once sync.Once
	c.after(func() { once.Do(func() { close(done); <-gone }) })
}
