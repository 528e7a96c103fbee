package rig

import (
	"context"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
)

// Result is what verify, create, inspect and install tell about a bundle.
type Result struct {
	bundle.Result
	CreatedAt string  `json:"created_at,omitempty"`
	Agents    []Agent `json:"agents,omitempty"`
	Form      string  `json:"form,omitempty"`
	Counts    *Counts `json:"counts,omitempty"`

	man *manifest
}

// Agent is one agents entry of a manifest.
type Agent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
}

// Counts are the files of a bundle and the bytes of their contents.
type Counts struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// newResult returns an accepted result without content.
func newResult(command string) *Result {
	return &Result{Result: bundle.NewResult(command)}
}

// Verify judges a bundle file by all rules (docs/spec/rigbundle.md#verify) and
// writes nothing. Findings are those of the first layer that failed; the
// message says when later layers were not run. The error means that nothing
// could be decided.
func Verify(ctx context.Context, in bundle.Input, o bundle.Options) (*Result, error) {
	j, err := run(ctx, in, o, false)
	if err != nil {
		return nil, err
	}
	r := j.result("verify")
	r.File = in.Name
	j.verdict(r, o)
	return r, nil
}

// result fills in what is known of the bundle.
func (j *judge) result(command string) *Result {
	r := newResult(command)
	a := j.archive
	r.Archive, r.FileDigest, r.TarDigest, r.Identity = a, a.FileDigest, a.TarDigest, a.TarDigest
	if m := j.man; m != nil {
		r.man = m
		r.Name, r.Version, r.CreatedAt = m.name, m.version, m.createdAt
		for _, a := range m.agents {
			r.Agents = append(r.Agents, Agent{a.name, a.version, a.path})
		}
		r.Form = j.form()
	}
	counts := &Counts{}
	for i := range j.archive.Members {
		if m := &j.archive.Members[i]; m.Type == bundle.File {
			counts.Files++
			counts.Bytes += m.Size
		}
	}
	r.Counts = counts
	return r
}

// verdict sets code, findings and notes by the first layer that failed, then
// by the notes that --strict makes errors.
func (j *judge) verdict(r *Result, o bundle.Options) {
	j.into(&r.Result, 0)
	for i, l := range j.layers {
		if len(l.faults) == 0 {
			continue
		}
		r.Fail(l.faults...)
		var skipped []string
		for _, later := range j.layers[i+1:] {
			if !later.ran {
				skipped = append(skipped, later.name)
			}
		}
		if len(skipped) > 0 {
			r.Message += " (not judged: " + strings.Join(skipped, ", ") + ")"
		}
		return
	}
	if o.Strict {
		j.strict(r, o.Only)
	}
}

func (j *judge) strict(r *Result, only []string) {
	for _, code := range strictNotes {
		if only != nil && !slices.Contains(only, code) {
			continue
		}
		for _, n := range j.told {
			if n.Code == code && !n.soft {
				msg := n.Detail
				if n.Path != "" {
					msg = n.Path + ": " + msg
				}
				f := bundle.Faultf(code, n.Path, "%s", bundle.EscapeLine(msg))
				f.Field, f.Line, f.Column = n.Field, n.Line, n.Column
				f.Hint = "--strict makes this note an error"
				r.Fail(f)
			}
		}
		r.Left(code, j.more[noteKind{code, false}], 0)
	}
}

// Forms of docs/spec/rigbundle.md#create.
const (
	FormRigward = "rigward"
	FormOpenRig = "openrig-0.4"
)

// form tells which form a bundle has: openrig-0.4 where it shows one of that
// form's marks and none of the other's, "" if the stream is not canonical.
func (j *judge) form() string {
	if j.archive.NotCanonical != "" || j.archive.Fault != nil || j.man.schema != 2 {
		return ""
	}
	if c := j.man.culture; c != "" && !j.file(c) {
		return FormOpenRig
	}
	for i := range j.archive.Members {
		m := &j.archive.Members[i]
		if j.listed(i) == nil && m.Name != manifestName {
			return FormOpenRig
		}
	}
	return FormRigward
}
