package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progressDelay is how long a command works before it says so.
const progressDelay = time.Second

// countingReader counts how far a file was read.
type countingReader struct {
	io.ReaderAt
	most atomic.Int64
}

func (r *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	if end := off + int64(n); end > r.most.Load() {
		r.most.Store(end)
	}
	return n, err
}

// progress shows on a terminal how far a file was read, once that takes long.
func (c *call) progress(what string, f io.ReaderAt, size int64) (io.ReaderAt, func()) {
	if !c.Terminal || size == 0 {
		return f, func() {}
	}
	r := &countingReader{ReaderAt: f}
	return r, c.ticking(func() string { return fmt.Sprintf("%s %d%%", what, r.most.Load()*100/size) })
}

// spin shows on a terminal that work goes on, once that takes long.
func (c *call) spin(what string) func() {
	if !c.Terminal {
		return func() {}
	}
	seconds := 0
	return c.ticking(func() string { seconds++; return fmt.Sprintf("%s, %d s", what, seconds) })
}

func (c *call) ticking(line func() string) (stop func()) {
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
	return func() { once.Do(func() { close(done); <-gone }) }
}
