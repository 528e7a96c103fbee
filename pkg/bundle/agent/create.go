package agent

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Create packs a tree that is the bundle root, manifest.json included, into a
// new file, and writes the digest file beside it (docs/spec/agentbundle.md#create). Output is the
// directory for it, or its path, with the name that the manifest gives. The
// bundle is judged by all rules before it takes its place; if it is not
// accepted, Findings says why and nothing is left behind. The same tree gives
// the same tar stream everywhere.
func Create(ctx context.Context, src bundle.Source, output string, f Format, o bundle.Options) (*Result, error) {
	dir, want := OutputDir(output), ""
	if kindOf(output) != "" {
		want = filepath.Base(output)
	}
	ext, zip := extGzip, func(w io.Writer) (io.WriteCloser, error) { return bundle.NewFastGzipWriter(w), nil }
	if f.Compression == bundle.Zstd || f.Compression == bundle.Unknown && kindOf(want) == extZstd {
		ext, zip = extZstd, func(w io.Writer) (io.WriteCloser, error) { return bundle.NewZstdWriter(w) }
	}
	src = bundle.WithContext(ctx, src)
	manifest, faults, err := sourceManifest(src, o.LimitsOr(DefaultLimits()))
	if err != nil || len(faults) > 0 {
		return NewResult("create", faults...), err
	}
	base := manifest.FileName(ext)
	if want != "" && want != base {
		return NewResult("create", bundle.Faultf(codeNamingMismatch, "", "the file is to be named %s, its manifest says %s", finding.QuoteMax(want, 300), finding.Path(base))), nil
	}
	var left []bundle.Note
	entries, err := sourceEntries(src, &left)
	if err != nil {
		return failed("create", err)
	}
	name := filepath.Join(dir, base)
	var r *Result
	err = bundle.WriteFile(name, 0o644, func(w io.Writer) error {
		zw, err := zip(w)
		if err == nil {
			_, err = bundle.WriteCompressed(ctx, zw, bundle.USTAR{ModTime: f.ModTime}, entries)
		}
		return err
	}, func(tmp *os.File, size int64) error {
		var err error
		if r, err = Verify(ctx, bundle.Input{Name: name, File: tmp, Size: size, Made: true}, Format{}, bundle.Options{Limits: o.Limits, Allow: o.Allow}); err == nil && !r.OK() {
			err = r.Findings[0]
		}
		return err
	}, func() (string, []byte) { return sidecar(name, r.FileDigest) })
	if r != nil && !r.OK() {
		return r, nil
	}
	if err != nil {
		return failed("create", err)
	}
	r.Command = "create"
	r.Tell(left...)
	return r, nil
}

// OutputDir is the directory that Create writes to.
func OutputDir(output string) string {
	if kindOf(output) != "" {
		return filepath.Dir(output)
	}
	return output
}

// Digest tells the digest of the tar stream that [Create] packs, as Identity,
// or what is wrong with the source. No file is written, and the bundle as a
// whole is not judged.
func Digest(ctx context.Context, src bundle.Source, f Format, o bundle.Options) (*Result, error) {
	src = bundle.WithContext(ctx, src)
	_, faults, err := sourceManifest(src, o.LimitsOr(DefaultLimits()))
	r := NewResult("digest", faults...)
	if err != nil || !r.OK() {
		return r, err
	}
	entries, err := sourceEntries(src, nil)
	var done bundle.Written
	if err == nil {
		done, err = bundle.WriteTar(ctx, io.Discard, bundle.USTAR{ModTime: f.ModTime}, entries)
	}
	if err != nil {
		return failed("digest", err)
	}
	r.TarDigest, r.Identity = done.TarDigest, done.TarDigest
	return r, nil
}

// sidecar is FILE.sha256 as sha256sum writes it (docs/spec/agentbundle.md#checksum-and-signature).
func sidecar(name string, d bundle.Digest) (tail string, data []byte) {
	return ".sha256", fmt.Appendf(nil, "%s  %s\n", d.Hex(), filepath.Base(name))
}

// failed makes a result of a finding that came as an error.
func failed(command string, err error) (*Result, error) {
	if f := bundle.AsFinding(err); f != nil {
		return NewResult(command, f), nil
	}
	return nil, err
}

// sourceManifest reads the manifest of a tree, which names the bundle.
func sourceManifest(src bundle.Source, limits bundle.Limits) (*Manifest, []*bundle.Finding, error) {
	it, err := src.Lstat(ManifestName)
	switch {
	case isNotExist(err):
		return nil, []*bundle.Finding{bundle.Faultf(codeManifestMissing, "", "the directory has no manifest.json, one is expected at the bundle root")}, nil
	case err != nil:
		return nil, nil, err
	case it.Kind != bundle.KindFile:
		return nil, []*bundle.Finding{bundle.Faultf(codeManifestType, ManifestName, "manifest.json is not a file")}, nil
	case it.Size > limits.Manifest:
		return nil, []*bundle.Finding{bundle.Faultf(bundle.LimitManifest, ManifestName, "manifest.json is %d bytes long, the limit is %d", it.Size, limits.Manifest)}, nil
	}
	data, err := bundle.ReadFile(src, ManifestName, limits.Manifest)
	if err != nil {
		return nil, nil, err
	}
	m, faults, _ := ParseManifest(data)
	return m, faults, nil
}

// sourceEntries lists a tree as it is packed: every directory and every file,
// links as links. What [bundle.LeftBeside] names is not packed; left, if not nil, takes
// a note of it. A *bundle.Finding as error names what cannot be packed.
func sourceEntries(src bundle.Source, left *[]bundle.Note) ([]bundle.Entry, error) {
	var entries []bundle.Entry
	err := bundle.WalkSource(src, ".", func(name string, it bundle.Item) error {
		if name == "." {
			return nil
		}
		if why := bundle.LeftBeside(name, it); why != "" {
			if left != nil {
				*left = append(*left, bundle.Note{Code: bundle.NoteIgnoredFile, Path: name, Detail: why})
			}
			if it.Kind == bundle.KindDir {
				return fs.SkipDir
			}
			return nil
		}
		if f := checkName(name); f != nil {
			if strings.EqualFold(it.Name, ".git") {
				f.Hint = "create from a copy without it: git archive HEAD | tar -x -C DIR, " +
					"or with what was built: rsync -a --exclude=" + it.Name + " ./ DIR"
			}
			return f
		}
		e := bundle.Entry{Member: bundle.Member{Name: name}}
		switch it.Kind {
		case bundle.KindDir:
			e.Type, e.Mode = bundle.Dir, 0o755
		case bundle.KindSymlink:
			e.Type, e.Mode, e.Link = bundle.Symlink, 0o777, it.Link
		case bundle.KindFile:
			if it.Mode&0o6000 != 0 {
				return bundle.Faultf(bundle.MemberMode, name, "%s has mode %04o, set-uid and set-gid files are refused", finding.QuoteMax(name, 200), it.Mode)
			}
			e.Type, e.Mode, e.Size = bundle.File, bundle.NormalMode(it.Mode), it.Size
			e.Open = func() (io.ReadCloser, error) { return src.Open(name) }
		default:
			return specialFile(name)
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}
