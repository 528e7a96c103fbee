package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/bundle"
)

// slowTree takes a second and a half for each file.
type slowTree struct{ bundle.Source }

func (t slowTree) Open(name string) (io.ReadCloser, error) {
	time.Sleep(1500 * time.Millisecond)
	return t.Source.Open(name)
}

// screen is a terminal that can be looked at while it is written to.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestProgress: on a terminal, and only there, work that takes long says so,
// for archives and trees, and cleans its line before the result is told.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), strings.Repeat("x", 1000), 0o644)
	for _, terminal := range []bool{true, false} {
		errs := &screen{}
		c := &call{Env: Env{Stderr: errs, Terminal: terminal, Dir: dir}, verb: &verb{name: "install"}, subject: "b"}
		src, err := bundle.OpenDirs(dir)
		if err != nil {
			t.Fatal(err)
		}
		tree := c.watchTree(slowTree{src})
		for range 2 {
			if _, err := bundle.ReadFile(tree, "file", 1000); err != nil {
				t.Fatal(err)
			}
		}
		c.release()
		f, size, err := bundle.OpenFile(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		r := c.watchFile(f, size)
		for range 3 { // half of it twice makes one pass
			if _, err := r.ReadAt(make([]byte, 500), 0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(1200 * time.Millisecond)
		c.release()
		f.Close()
		src.Close()
		got := errs.String()
		if !terminal {
			if got != "" {
				t.Errorf("no terminal: %q", got)
			}
			continue
		}
		if !strings.Contains(got, "\rinstall b: 1 file, 0 MiB\x1b[K") || !strings.Contains(got, "\rinstall file 50%\x1b[K") || !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("terminal: %q", got)
		}
	}
}
