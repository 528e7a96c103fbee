package agent

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/rigward/rigward/pkg/bundle"
)

// A Rebuilt is what Rebuild found.
type Rebuilt struct {
	Code             string  // tar-differs, "ok", or that of a side which is not accepted
	Source           *Result // what was packed again
	Against          *Result // what it was compared with
	TarDigest        bundle.Digest
	RebuiltTarDigest bundle.Digest
	Changes          []Change // from Against to the rebuilt bundle
}

// RebuildOptions say how Rebuild packs.
type RebuildOptions struct {
	Limits  bundle.Limits
	ModTime int64  // of all members, in seconds since 1970
	TempDir string // for the rebuilt stream; empty: the system's
}

// Rebuild packs a bundle again by section 10 and compares its tar digest with
// that of against (nil: the bundle itself). Both are judged first.
func Rebuild(ctx context.Context, src Opened, against *Opened, o RebuildOptions) (*Rebuilt, error) {
	r, err := Verify(ctx, src.File, src.Size, src.Name, Options{Limits: o.Limits, Proof: Proof{Made: true}})
	if err != nil {
		return nil, err
	}
	out := &Rebuilt{Source: r, Against: r}
	if len(r.Findings) > 0 {
		out.Code = r.Code()
		return out, nil
	}
	tmp, done, err := scratch(o.TempDir)
	if err != nil {
		return nil, err
	}
	defer done()
	entries, err := archiveEntries(ctx, r.Archive, tmp)
	if err != nil {
		return nil, err
	}
	written, err := bundle.WriteTar(ctx, io.Discard, bundle.USTAR{ModTime: o.ModTime}, entries)
	if err != nil {
		return nil, err
	}
	out.RebuiltTarDigest = written.TarDigest
	return out, out.compare(ctx, r.Archive, against, o.Limits)
}

// RebuildTree packs a tree by section 10, judges the result, and compares its
// tar digest with that of against.
func RebuildTree(ctx context.Context, src bundle.Source, against Opened, o RebuildOptions) (*Rebuilt, error) {
	tmp, done, err := scratch(o.TempDir)
	if err != nil {
		return nil, err
	}
	defer done()
	entries, err := sourceEntries(src)
	if err == nil {
		_, err = bundle.WriteTar(ctx, tmp, bundle.USTAR{ModTime: o.ModTime}, entries)
	}
	if err != nil {
		r, err := failed(err)
		if err != nil {
			return nil, err
		}
		return &Rebuilt{Source: r, Code: r.Code()}, nil
	}
	size, err := tmp.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	p := profile(o.Limits, []bundle.Compression{bundle.Tar})
	a, err := bundle.Scan(ctx, tmp, size, p)
	if err != nil {
		return nil, err
	}
	r := &Result{Archive: a, Notes: a.Notes}
	if err := r.judgeContent(ctx); err != nil {
		return nil, err
	}
	out := &Rebuilt{Source: r, RebuiltTarDigest: a.TarDigest}
	if len(r.Findings) > 0 {
		out.Code = r.Code()
		return out, nil
	}
	return out, out.compare(ctx, a, &against, o.Limits)
}

// compare sets what depends on the other side; rebuilt holds the content of
// the rebuilt bundle.
func (out *Rebuilt) compare(ctx context.Context, rebuilt *bundle.Archive, against *Opened, limits bundle.Limits) error {
	if against != nil {
		r, err := readTree(ctx, *against, limits)
		if err != nil {
			return err
		}
		out.Against = r
		if !r.Comparable() {
			out.Code = r.Code()
			return nil
		}
		out.Changes = compare(r.Archive, rebuilt)
	}
	out.TarDigest = out.Against.Archive.TarDigest
	out.Code = CodeTarDiffers
	if out.TarDigest == out.RebuiltTarDigest {
		out.Code = "ok"
	}
	return nil
}

// archiveEntries lists an accepted archive as it is packed again: hard links
// become files, parents that were left out become directories. Contents are
// copied to tmp, because archive order is not the order of packing.
func archiveEntries(ctx context.Context, a *bundle.Archive, tmp *os.File) ([]bundle.Entry, error) {
	at := make(map[string]int64, len(a.Members))
	end := int64(0)
	buf := make([]byte, 64<<10)
	err := a.Walk(ctx, func(m *bundle.Member, r io.Reader) error {
		if m.Type != bundle.File {
			return nil
		}
		at[m.Name] = end
		n, err := io.CopyBuffer(struct{ io.Writer }{tmp}, r, buf)
		end += n
		return err
	})
	if err != nil {
		return nil, err
	}
	entries := make([]bundle.Entry, 0, len(a.Members))
	have := make(map[string]bool, len(a.Members))
	for i := range a.Members {
		m := a.Members[i]
		have[m.Name] = true
		content := m.Name
		if m.Type == bundle.Hardlink {
			content = m.Link
			file := a.Member(content)
			m = bundle.Member{Name: m.Name, Type: bundle.File, Mode: file.Mode, Size: file.Size, SHA256: file.SHA256}
		}
		e := bundle.Entry{Member: m}
		if m.Type == bundle.File {
			from := io.NewSectionReader(tmp, at[content], m.Size)
			e.Open = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(from, 0, m.Size)), nil }
		}
		entries = append(entries, e)
	}
	for i := range a.Members {
		for _, dir := range parents(a.Members[i].Name) {
			if !have[dir] {
				have[dir] = true
				entries = append(entries, bundle.Entry{Member: bundle.Member{Name: dir, Type: bundle.Dir, Mode: 0o755}})
			}
		}
	}
	return entries, nil
}

// parents are the directories above a name, the innermost first.
func parents(name string) (dirs []string) {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			dirs = append(dirs, name[:i])
		}
	}
	return dirs
}

// scratch makes a temporary file; done removes it.
func scratch(dir string) (f *os.File, done func(), err error) {
	f, err = os.CreateTemp(dir, ".rigward-*")
	if err != nil {
		return nil, nil, err
	}
	return f, func() {
		f.Close()
		os.Remove(f.Name())
	}, nil
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
