package bundle

import (
	"context"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/pkg/finding"
)

// A Format is one bundle format, as gates and the command see it. What only
// one format asks for is set in its value; [Options] mean the same in all. A
// verb ends soon after its context does. Its error is for what could not be
// read, written or decided; what is wrong with a bundle is in the Result.
type Format interface {
	// Name is the word of `--format`: "rig", "agent", "rye".
	Name() string
	// Recognize says how well a probe fits the format.
	Recognize(p *Probe) Match
	// Create makes the bundle of a source and writes it, unless it would not be
	// accepted. Output is a file or directory, as the format has it.
	Create(ctx context.Context, src Input, output string, o Options) (*Result, error)
	// Verify judges a bundle by all rules of the format.
	Verify(ctx context.Context, in Input, o Options) (*Result, error)
	// Digest tells the Identity that Create gives, and writes nothing.
	Digest(ctx context.Context, src Input, o Options) (*Result, error)
	// Diff lists the Changes from a to b, both as they are.
	Diff(ctx context.Context, a, b Input, o Options) (*Result, error)
	// Rebuild makes a bundle again from a source, or without one from itself, and
	// compares it with one that exists: Identity is that of the new one.
	Rebuild(ctx context.Context, src, against Input, o Options) (*Result, error)
	// Install verifies a bundle and puts what it holds into a directory.
	Install(ctx context.Context, in Input, target string, o Options) (*Result, error)
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

// An Input is a bundle, or what one is made from: an archive file, or a tree.
type Input struct {
	Name string      // path of the file or directory; its last part counts for naming rules
	File io.ReaderAt // with Size; nil if Tree is set
	Size int64
	Tree Source
	// Checksum and Signature are the contents of the files beside the bundle,
	// nil if there is none.
	Checksum, Signature []byte
	SHA256              string // digest that a reference carries, in hex; "" if none
	Made                bool   // the bytes come from here: nothing needs to vouch for them
}

// Options are what all verbs of all formats understand. A format without files
// has no use for digests and signatures of files.
type Options struct {
	Limits          Limits         // zero: the format's own
	RequireChecksum bool           // no digest that the file should have is a finding
	Signed          SignatureRules // detached signature that the file must carry
	Allow           []string       // keys of findings about texts that are none, see [Finding]
	Strict          bool           // the notes that the format stars become findings
	Only            []string       // with Strict: only these notes
	Plan            bool           // Install tells what it would do, and writes nothing
	Backup          bool           // Install moves files in its way aside
	Windows         bool           // Install writes where names mean what they mean to Windows, see [WindowsNames]
	Texts           bool           // Diff makes unified diffs of changed texts
	Temp            string         // directory for scratch files, "" for the system's
	State           string         // the user's state directory, in which Install keeps what later runs believe, see [OpenState]
	Now             time.Time      // recorded where a format records when something was done
}

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
	return slices.Contains(p.Names, name)
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
	defer c.Close()
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

// LimitsOr returns the limits that are set, or else a format's own.
func (o *Options) LimitsOr(own Limits) Limits {
	if o.Limits != (Limits{}) {
		return o.Limits
	}
	return own
}

// CheckDigest holds the digest of a file against those that vouch for it, the
// digest file first (docs/spec/rigbundle.md#identity, docs/spec/agentbundle.md#checksum-and-signature).
func (in *Input) CheckDigest(is Digest, require bool) (*Finding, []Note) {
	differs := func(where, want string) (*Finding, []Note) {
		return Faultf(ChecksumMismatch, "", "the file's SHA-256 is %s, %s says %s", is.Hex(), where, want), nil
	}
	base := filepath.Base(in.Name)
	if in.Checksum != nil {
		want, fault := ParseChecksum(in.Checksum, base)
		switch {
		case fault != nil:
			return fault, nil
		case want != is:
			return differs("the digest file", want.Hex())
		}
	}
	switch {
	case in.SHA256 != "" && in.SHA256 != is.Hex():
		return differs("the reference", finding.QuoteMax(in.SHA256, 64))
	case in.Checksum != nil, in.SHA256 != "", in.Made:
		return nil, nil
	case require:
		f := Faultf(ChecksumMissing, "", "there is no digest file %s, one is required", finding.QuoteMax(base+".sha256", 200))
		f.Hint = "accept that with --allow-missing-digest"
		return f, nil
	}
	return nil, []Note{{Code: NoteNoChecksum, Detail: "nothing says which digest the file should have"}}
}

// CheckSignature judges the detached signature of a file, which is no part of
// any format.
func (in *Input) CheckSignature(rules SignatureRules, namespace string) (*Finding, []Note, error) {
	rules.Namespace = namespace
	return rules.Check(io.NewSectionReader(in.File, 0, in.Size), in.Signature)
}
