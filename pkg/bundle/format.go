package bundle

import (
	"context"
	"io"
	"path"
	"strings"
)

// A Format is one bundle format, as gates and the command see it.
type Format interface {
	// Name is the word of `--format`: "rig", "agent", "rye".
	Name() string
	// Recognize says how well a probe fits the format.
	Recognize(p *Probe) Match
	// Verify judges a bundle by all rules of the format. The error is for
	// what could not be read or decided.
	Verify(ctx context.Context, in Input, o VerifyOptions) (*Verdict, error)
}

// A Match says how sure a format is that an input is its own.
type Match int

// Matches, in rising order.
const (
	NoMatch     Match = iota
	NameMatch         // by the name of the file alone
	ContentHint       // by content that another format could have too
	ContentSure       // by its manifest
	Certain           // by its manifest and the name of the file
)

// An Input is a bundle to be judged: an archive file, or for formats that are
// trees a Source.
type Input struct {
	Name string      // base name of the file or directory, for naming rules and messages
	File io.ReaderAt // with Size; nil if Tree is set
	Size int64
	Tree Source
	// Checksum and Signature are the contents of the files beside the bundle,
	// nil if there is none.
	Checksum, Signature []byte
}

// VerifyOptions hold what all formats understand; a format's own verb may
// offer more.
type VerifyOptions struct {
	Limits Limits   // zero: the format's defaults
	Strict bool     // the notes that the format stars become findings
	Only   []string // with Strict: only these notes
	// Checksum is what to do without Input.Checksum: require it, or not.
	RequireChecksum bool
}

// A Verdict is what a format says about one bundle.
type Verdict struct {
	Code       string // "ok" or that of the first finding
	Message    string
	Findings   []Finding
	Notes      []Note
	FileDigest Digest
	TarDigest  Digest // identity; zero if unknown or the format has none
	Name       string // of the manifest, as far as it could be read
	Version    string
}

// OK reports whether the bundle was accepted.
func (v *Verdict) OK() bool { return v.Code == "ok" }

// A Probe is what can be seen of an input at little cost.
type Probe struct {
	Base        string // last part of the file's name
	Compression Compression
	Tree        Source   // set for a directory
	Names       []string // first member names of an archive, at most probeNames
	Complete    bool     // Names are all members
}

const (
	probeNames = 4096
	probeBytes = 8 << 20
)

// Has reports whether the archive has a member of that name, as far as the
// probe saw.
func (p *Probe) Has(name string) bool {
	for _, n := range p.Names {
		if n == name {
			return true
		}
	}
	return false
}

// ProbeFile looks at the beginning of an archive: at most 8 MiB of it,
// decompressed, and no further than to a root manifest.json. A faulty archive
// gives what could be seen; judging is the format's matter.
func ProbeFile(ctx context.Context, base string, file io.ReaderAt, size int64) (*Probe, error) {
	p := &Probe{Base: base}
	head := make([]byte, min(size, SniffLen))
	if _, err := file.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, err
	}
	p.Compression = Sniff(head)
	if p.Compression != Gzip && p.Compression != Zstd {
		return p, nil
	}
	limits := DefaultLimits()
	c, err := openContainer(p.Compression, io.NewSectionReader(file, 0, size), &limits)
	if err != nil {
		return nil, err
	}
	if closer, ok := c.(io.Closer); ok {
		defer closer.Close()
	}
	r := io.LimitReader(c, probeBytes)
	var b [blockSize]byte
	for len(p.Names) < probeNames && ctx.Err() == nil {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return p, nil
		}
		if b == ([blockSize]byte{}) {
			p.Complete = true
			return p, nil
		}
		h, fault := parseHeader(&b)
		if fault != nil {
			return p, nil
		}
		if strings.IndexByte("xgLK", h.flag) < 0 {
			name := path.Clean(h.name)
			p.Names = append(p.Names, name)
			if name == "manifest.json" { // of an agent bundle, whose rest may be large
				return p, nil
			}
		}
		if h.size > probeBytes {
			return p, nil
		}
		if _, err := io.CopyN(io.Discard, r, h.size+padding(h.size)); err != nil {
			return p, nil
		}
	}
	return p, ctx.Err()
}

// Choose returns the format that fits best, the first of equals; nil if none
// fits at all.
func Choose(p *Probe, formats []Format) Format {
	var best Format
	most := NoMatch
	for _, f := range formats {
		if m := f.Recognize(p); m > most {
			best, most = f, m
		}
	}
	return best
}
