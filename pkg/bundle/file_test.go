package bundle

import (
	"bytes"
	"errors"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
)

// TestWriteWatched: the check sees the bytes of the file, all of them, while
// they are written; its error and the writer's leave the old file.
func TestWriteWatched(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	content := make([]byte, 3<<20)
	rand.New(rand.NewSource(1)).Read(content)
	write := func(w io.Writer) error {
		for i := 0; i < len(content); i += 99_991 {
			if _, err := w.Write(content[i:min(len(content), i+99_991)]); err != nil {
				return err
			}
		}
		return nil
	}
	var seen []byte
	err := WriteWatched(name, 0o644, write, func(f io.ReaderAt) (err error) {
		seen, err = io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
		return err
	})
	if got, rerr := os.ReadFile(name); err != nil || rerr != nil || !bytes.Equal(got, content) || !bytes.Equal(seen, content) {
		t.Fatalf("%v, %v: %d bytes seen, %d written", err, rerr, len(seen), len(got))
	}
	refused := errors.New("refused")
	unlike := func(io.Writer) error { return errors.New("cannot write") }
	for _, tt := range []struct {
		write func(io.Writer) error
		check func(io.ReaderAt) error
		want  string
	}{
		{write, func(io.ReaderAt) error { return refused }, "refused"},
		{unlike, func(f io.ReaderAt) error { _, err := f.ReadAt(make([]byte, 1), 0); return err }, "cannot write"},
	} {
		if err := WriteWatched(name, 0o644, tt.write, tt.check); err == nil || err.Error() != tt.want {
			t.Errorf("error %v, want %s", err, tt.want)
		}
		entries, err := os.ReadDir(filepath.Dir(name))
		if got, _ := os.ReadFile(name); err != nil || len(entries) != 1 || !bytes.Equal(got, content) {
			t.Errorf("after %s: %d entries, %v", tt.want, len(entries), err)
		}
	}
}

// TestScanGrowing: a file whose size is not known is judged as one whose size
// is, its ratio at the end.
func TestScanGrowing(t *testing.T) {
	entry := func(size int) Entry { return BytesEntry("zeros", 0o644, make([]byte, size)) }
	p := &Profile{Limits: DefaultLimits(), Compressions: []Compression{Gzip}}
	for _, tt := range []struct {
		size int
		want string
	}{{1000, ""}, {65 << 20, LimitRatio}} {
		var b bytes.Buffer
		if _, err := WriteArchive(t.Context(), &b, Gzip, USTAR{}, []Entry{entry(tt.size)}); err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{int64(b.Len()), -1} {
			a, err := Scan(t.Context(), bytes.NewReader(b.Bytes()), size, p)
			if err != nil {
				t.Fatal(err)
			}
			code := ""
			if a.Fault != nil {
				code = a.Fault.Code
			}
			if code != tt.want || a.FileSize != int64(b.Len()) || a.FileDigest != Sum(b.Bytes()) {
				t.Errorf("%d bytes, size %d: %q and %d, want %q and %d", tt.size, size, code, a.FileSize, tt.want, b.Len())
			}
		}
	}
}
