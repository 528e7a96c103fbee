package agent

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
)

// Namespace of signatures of agent bundles (docs/spec/agentbundle.md#checksum-and-signature).
const Namespace = "agent-bundle"

// A Result is what is known of one bundle file. It is accepted if Findings is
// empty; else the first finding decides (docs/spec/agentbundle.md#verify).
type Result struct {
	bundle.Result
	Member    string    `json:"member,omitempty"` // path of the first finding
	*Overview           // of inspect
	*Staged             // of stage
	BaseImage any       `json:"base_image,omitempty"` // what was seen in the base image
	Manifest  *Manifest `json:"-"`                    // nil if it could not be read

	// Interpreter are the words of the entry's #! line, nil if it is a binary.
	Interpreter []string `json:"-"`

	treeOK bool // the rules of container and members hold
}

// NewResult returns the result of a verb, with what is wrong before a bundle
// was read.
func NewResult(command string, faults ...*bundle.Finding) *Result {
	r := &Result{Result: bundle.NewResult(command)}
	r.Message = "the bundle is accepted"
	r.add(faults...)
	return r
}

// Comparable reports whether the rules of container and members hold, so that
// the tree can be relied on.
func (r *Result) Comparable() bool { return r.treeOK }

// Verify judges a bundle file by all rules, in the order of
// docs/spec/agentbundle.md#verify. Of the name under which it was found only the
// last part is judged. The file is read once, to its last byte. The error is
// for what kept it from being read.
func Verify(ctx context.Context, in bundle.Input, f Format, o bundle.Options) (*Result, error) {
	if in.File == nil {
		return nil, errors.New("an agent bundle is an archive, not a directory")
	}
	r, err := scan(ctx, "verify", in, o)
	if err != nil {
		return nil, err
	}
	r.found(in.CheckDigest(r.Archive.FileDigest, o.RequireChecksum))
	fault, notes, err := in.CheckSignature(o.Signed, Namespace)
	if err != nil {
		return nil, err
	}
	r.found(fault, notes)
	if err := r.judgeContent(ctx); err != nil {
		return nil, err
	}
	if r.Manifest == nil {
		return r, nil
	}
	if !f.AnyName {
		ext := extGzip
		if r.Archive.Compression == bundle.Zstd {
			ext = extZstd
		}
		faults, notes := r.Manifest.CheckFileName(filepath.Base(in.Name), ext)
		r.add(faults...)
		r.Tell(notes...)
	}
	if f.Target != nil {
		faults, notes := r.Manifest.CheckTarget(*f.Target, f.Runtime)
		r.add(faults...)
		r.Tell(notes...)
	}
	return r, nil
}

func (r *Result) add(fs ...*bundle.Finding) {
	if r.Fail(fs...); len(r.Findings) > 0 {
		r.Member = bundle.EscapeLine(r.Findings[0].Path)
	}
}

func (r *Result) found(fault *bundle.Finding, notes []bundle.Note) {
	r.add(fault)
	r.Tell(notes...)
}

// scan reads the container; its fault stays in the archive.
func scan(ctx context.Context, command string, in bundle.Input, o bundle.Options) (*Result, error) {
	a, err := bundle.Scan(ctx, in.File, in.Size, profile(o, compressions(in.Name)))
	if err != nil {
		return nil, err
	}
	r := NewResult(command)
	r.File = in.Name
	r.read(a)
	return r, nil
}

// read takes what is known of an archive.
func (r *Result) read(a *bundle.Archive) {
	r.Archive, r.FileDigest, r.TarDigest, r.Identity = a, a.FileDigest, a.TarDigest, a.TarDigest
	r.Tell(a.Notes...)
}

// compressions are those that a file's extension allows: its own, or any
// under another extension (docs/spec/agentbundle.md#container).
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
	if r.Manifest = manifest; manifest != nil {
		r.Name, r.Version = manifest.Name, manifest.Version
	}
	r.add(faults...)
	r.Tell(notes...)
	r.Tell(more...)
	if !r.treeOK || manifest == nil {
		return nil
	}
	head, f, err := checkEntry(ctx, r.Archive, tree, manifest)
	r.add(f)
	if line, script := bytes.CutPrefix(head, []byte("#!")); script && f == nil {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		r.Interpreter = strings.Fields(string(line))
	}
	r.add(r.Archive.Screened...)
	return err
}
