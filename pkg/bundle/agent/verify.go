package agent

import (
	"context"
	"io"
	"path/filepath"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
)

// Namespace of signatures of agent bundles (section 11).
const Namespace = "agent-bundle"

// Options say what a bundle has to hold against.
type Options struct {
	// Limits of section 7; start from DefaultLimits.
	Limits bundle.Limits
	// Target and Runtime, if set, are judged (section 13).
	Target  *Target
	Runtime *Runtime
	// Proof says what is known of the file's bytes (section 11).
	Proof Proof
	// AnyName leaves the file name unjudged.
	AnyName bool
}

// Proof holds what vouches for the bytes of a bundle file.
type Proof struct {
	// Sidecar is the content of FILE.sha256, nil if there is none.
	Sidecar []byte
	// SHA256 is the digest that a reference carries, in hex; empty if none.
	SHA256 string
	// RequireChecksum makes the absence of both an error.
	RequireChecksum bool
	// Signature is the content of FILE.sig, nil if there is none; Signed says
	// by whom it has to be.
	Signature []byte
	Signed    bundle.SignatureRules
	// Made says that the bytes come from here, so that nothing needs to vouch
	// for them.
	Made bool
}

// A Result is what is known of one bundle file. It is accepted if Findings is
// empty; else the first finding decides (section 8).
type Result struct {
	File     string // path as given
	Findings []*bundle.Finding
	Notes    []bundle.Note
	Archive  *bundle.Archive
	Manifest *Manifest // nil if it could not be read

	treeOK bool // the rules of container and members hold
}

// Code is "ok" or the code of the first finding.
func (r *Result) Code() string {
	if len(r.Findings) == 0 {
		return "ok"
	}
	return r.Findings[0].Code
}

// Comparable tells whether the rules of container and members hold, so that
// the tree can be relied on.
func (r *Result) Comparable() bool { return r.treeOK }

// Verify judges a bundle file of the given size by spec/agentbundle.md
// sections 2 to 9, 11 and 13, in the order of section 8. name is the path
// under which it was found; only its last part is judged. The file is read
// once, to its last byte. The error is for what kept it from being read.
func Verify(ctx context.Context, file io.ReaderAt, size int64, name string, o Options) (*Result, error) {
	r, err := scan(ctx, file, size, name, o)
	if err != nil {
		return nil, err
	}
	r.add(o.Proof.checkDigest(r))
	signed := o.Proof.Signed
	signed.Namespace = Namespace
	f, n, err := signed.Check(io.NewSectionReader(file, 0, size), o.Proof.Signature)
	if err != nil {
		return nil, err
	}
	r.add(f)
	r.Notes = append(r.Notes, n...)
	if err := r.judgeContent(ctx); err != nil {
		return nil, err
	}
	if r.Manifest == nil {
		return r, nil
	}
	if !o.AnyName {
		ext := extGzip
		if r.Archive.Compression == bundle.Zstd {
			ext = extZstd
		}
		f, n := r.Manifest.CheckFileName(filepath.Base(name), ext)
		r.add(f...)
		r.Notes = append(r.Notes, n...)
	}
	if o.Target != nil {
		f, n := r.Manifest.CheckTarget(*o.Target, o.Runtime)
		r.add(f...)
		r.Notes = append(r.Notes, n...)
	}
	return r, nil
}

func (r *Result) add(fs ...*bundle.Finding) {
	for _, f := range fs {
		if f != nil {
			r.Findings = append(r.Findings, f)
		}
	}
}

// scan reads the container; its fault stays in the archive.
func scan(ctx context.Context, file io.ReaderAt, size int64, name string, o Options) (*Result, error) {
	a, err := bundle.Scan(ctx, file, size, profile(o.Limits, compressions(name)))
	if err != nil {
		return nil, err
	}
	return &Result{File: name, Archive: a, Notes: a.Notes}, nil
}

// compressions are those that a file's extension allows: its own, or any
// under another extension (section 2).
func compressions(name string) []bundle.Compression {
	switch kindOf(name) {
	case extGzip:
		return []bundle.Compression{bundle.Gzip}
	case extZstd:
		return []bundle.Compression{bundle.Zstd}
	}
	return []bundle.Compression{bundle.Gzip, bundle.Zstd}
}

// judgeContent judges container and members, manifest and entry.
func (r *Result) judgeContent(ctx context.Context) error {
	if r.Archive.Fault != nil {
		r.add(r.Archive.Fault)
		return nil
	}
	tree, faults, notes := checkTree(r.Archive)
	r.treeOK = len(faults) == 0
	r.add(faults...)
	manifest, faults, more := readManifest(r.Archive)
	r.Manifest = manifest
	r.add(faults...)
	r.Notes = append(append(r.Notes, notes...), more...)
	if !r.treeOK || manifest == nil {
		return nil
	}
	f, err := checkEntry(ctx, r.Archive, tree, manifest)
	r.add(f)
	return err
}

// checkDigest judges the file's digest: checksum codes in the order of section 11.
func (p *Proof) checkDigest(r *Result) *bundle.Finding {
	a := r.Archive
	differs := func(where string, want string) *bundle.Finding {
		return bundle.Faultf(bundle.ChecksumMismatch, "", "the file's SHA-256 is %s, %s says %s", a.FileDigest.Hex(), where, want)
	}
	if p.Sidecar != nil {
		want, f := bundle.ParseChecksum(p.Sidecar, filepath.Base(r.File))
		if f != nil {
			return f
		}
		if want != a.FileDigest {
			return differs("the digest file", want.Hex())
		}
	}
	if p.SHA256 != "" && p.SHA256 != a.FileDigest.Hex() {
		return differs("the reference", finding.QuoteMax(p.SHA256, 64))
	}
	if p.Sidecar == nil && p.SHA256 == "" && !p.Made {
		if p.RequireChecksum {
			return bundle.Faultf(bundle.ChecksumMissing, "", "there is no digest for the file, one is required")
		}
		r.Notes = append(r.Notes, bundle.Note{Code: noteNoChecksum, Detail: "nothing says which digest the file should have"})
	}
	return nil
}
