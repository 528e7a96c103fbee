package agent

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/rigward/rigward/pkg/bundle"
)

// A Rebuilt is what Rebuild found. TarDigest is that of the bundle which
// exists; Code, findings and file are those of a side that is not accepted.
type Rebuilt struct {
	bundle.Result
	RebuiltTarDigest bundle.Digest `json:"rebuilt_tar_digest,omitzero"`
	Member           string        `json:"member,omitempty"` // path of the first finding
	Listed           []Change      `json:"changes"`          // to the rebuilt bundle
}

// side takes over what is wrong with one of the two.
func (out *Rebuilt) side(r *Result) *Rebuilt {
	out.Result, out.Member = r.Result, r.Member
	out.Command = "rebuild"
	return out
}

// Rebuild packs a tree, or a bundle again, by docs/spec/agentbundle.md#create and compares its tar
// digest with that of against, which is the bundle itself if there is no
// other. All are judged first.
func Rebuild(ctx context.Context, src, against bundle.Input, f Format, o bundle.Options) (*Rebuilt, error) {
	if src.File == nil && src.Tree == nil {
		src, against = against, bundle.Input{}
	}
	out := &Rebuilt{Result: bundle.NewResult("rebuild"), Listed: []Change{}}
	tmp, done, err := bundle.Scratch(o.Temp)
	if err != nil {
		return nil, err
	}
	defer done()
	repack := packTree
	if src.File != nil {
		repack = packAgain
	}
	r, rebuilt, err := repack(ctx, src, tmp, f, o)
	if err != nil {
		return nil, err
	}
	if !r.OK() {
		return out.side(r), nil
	}
	out.RebuiltTarDigest, out.Identity, out.TarDigest = rebuilt, rebuilt, r.TarDigest
	out.Name, out.Version = r.Name, r.Version
	if against.File != nil {
		old, err := readTree(ctx, "rebuild", against, o)
		if err != nil {
			return nil, err
		}
		if !old.Comparable() {
			return out.side(old), nil
		}
		out.Changes, out.TarDigest = compare(old.Archive, r.Archive), old.TarDigest
		out.Listed = listed(out.Changes)
	}
	out.Message = "the rebuilt tar stream is the same"
	if out.TarDigest != rebuilt {
		changes := "changes"
		if len(out.Changes) == 1 {
			changes = "change"
		}
		out.Differs(bundle.TarDiffers, "the rebuilt tar stream differs, with %d %s of content", len(out.Changes), changes)
	}
	return out, nil
}

// packAgain judges a bundle and packs what it holds.
func packAgain(ctx context.Context, src bundle.Input, tmp *os.File, f Format, o bundle.Options) (*Result, bundle.Digest, error) {
	src.Made = true
	r, err := Verify(ctx, src, Format{}, bundle.Options{Limits: o.Limits, Allow: o.Allow})
	if err != nil || !r.OK() {
		return r, bundle.Digest{}, err
	}
	entries, err := Entries(ctx, r.Archive, tmp)
	if err != nil {
		return nil, bundle.Digest{}, err
	}
	written, err := bundle.WriteTar(ctx, io.Discard, bundle.USTAR{ModTime: f.ModTime}, entries)
	return r, written.TarDigest, err
}

// packTree packs a tree and judges what comes out.
func packTree(ctx context.Context, src bundle.Input, tmp *os.File, f Format, o bundle.Options) (*Result, bundle.Digest, error) {
	entries, err := sourceEntries(bundle.WithContext(ctx, src.Tree), nil)
	if err == nil {
		_, err = bundle.WriteTar(ctx, tmp, bundle.USTAR{ModTime: f.ModTime}, entries)
	}
	if err != nil {
		r, err := failed("rebuild", err)
		return r, bundle.Digest{}, err
	}
	size, err := tmp.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, bundle.Digest{}, err
	}
	a, err := bundle.Scan(ctx, tmp, size, profile(o, []bundle.Compression{bundle.Tar}))
	if err != nil {
		return nil, bundle.Digest{}, err
	}
	r := NewResult("rebuild")
	r.File = src.Name
	r.read(a)
	return r, a.TarDigest, r.judgeContent(ctx)
}

// Entries lists an accepted archive as it is packed again: hard links become files, parents that were left out become
// directories. Contents are copied to tmp, an empty file that the entries read from, because archive order is not the
// order of packing.
func Entries(ctx context.Context, a *bundle.Archive, tmp *os.File) ([]bundle.Entry, error) {
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

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
