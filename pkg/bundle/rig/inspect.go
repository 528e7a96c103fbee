package rig

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rigward/rigward/pkg/bundle"
)

// Inspection is all that can be known of a bundle, also of a bad one
// (docs/spec/rigbundle.md#inspect).
type Inspection struct {
	Result
	Manifest    *node      `json:"manifest,omitempty"`
	Rig         *node      `json:"rig,omitempty"`
	DigestValid *bool      `json:"digest_valid"` // null: there is no digest file
	Integrity   *Integrity `json:"integrity,omitempty"`
	Files       []FileInfo `json:"files"`
	Canonical   bool       `json:"canonical"`
	Legacy      bool       `json:"legacy"`
	Behaviour   *Behaviour `json:"behaviour,omitempty"`      // set by Describe
	Package     string     `json:"package_digest,omitempty"` // of the files alone, as OpenRig computes it

	judge *judge

	// For the text form.
	Content    []string          `json:"-"` // content lists, as "skills: PATH"
	Provenance *node             `json:"-"`
	Faults     []*bundle.Finding `json:"-"` // of all layers
	Largest    []FileInfo        `json:"-"`
}

// Describe sets Behaviour, for a bundle whose archive and manifest can be read.
// It goes through the contents once more.
func (ins *Inspection) Describe() (err error) {
	ins.Behaviour, err = ins.judge.behaviour()
	return err
}

// Integrity tells how files and manifest fit together.
type Integrity struct {
	Passed     bool     `json:"passed"`
	Mismatches []string `json:"mismatches"`
	Missing    []string `json:"missing"`
	Extra      []string `json:"extra"`
	Errors     []string `json:"errors"` // faults of the map itself
}

// FileInfo is one file of a bundle.
type FileInfo struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Mode   string `json:"mode"`
	SHA256 string `json:"sha256"`
	Listed bool   `json:"listed"`
}

// Inspect looks at all that Verify looks at, without stopping at the first
// layer that fails. Code and exit status are those of Verify.
func Inspect(ctx context.Context, in bundle.Input, o bundle.Options) (*Inspection, error) {
	j, err := run(ctx, in, o, true)
	if err != nil {
		return nil, err
	}
	r := j.result("inspect")
	r.File = in.Name
	for _, l := range j.layers {
		if len(l.faults) > 0 && r.OK() {
			r.Fail(l.faults...)
		}
	}
	j.into(&r.Result, 0)
	ins := &Inspection{Result: *r, judge: j, Files: []FileInfo{}, Canonical: j.archive.NotCanonical == "" && j.archive.Fault == nil}
	for _, l := range j.layers {
		ins.Faults = append(ins.Faults, l.faults...)
	}
	if in.Checksum != nil {
		valid := len(j.layers[0].faults) == 0
		ins.DigestValid = &valid
	}
	for i := range j.archive.Members {
		m := &j.archive.Members[i]
		if m.Type != bundle.File {
			continue
		}
		f := FileInfo{Path: m.Name, Size: m.Size, Mode: fmt.Sprintf("%04o", m.Mode), SHA256: m.SHA256.Hex(), Listed: m.Name == manifestName}
		if j.listed(i) != nil {
			f.Listed = true
		}
		ins.Files = append(ins.Files, f)
	}
	ins.Largest = slices.Clone(ins.Files)
	slices.SortStableFunc(ins.Largest, func(a, b FileInfo) int { return cmp.Compare(b.Size, a.Size) })
	ins.Largest = ins.Largest[:min(len(ins.Largest), 5)]
	if j.man != nil {
		ins.fillManifest(j)
	}
	if j.rig != nil {
		ins.Rig = j.rig.root
	}
	return ins, nil
}

func (ins *Inspection) fillManifest(j *judge) {
	m := j.man
	ins.Manifest, ins.Legacy = m.root, m.schema == 1
	ins.Provenance = m.root.get("provenance")
	in := &Integrity{Mismatches: []string{}, Missing: []string{}, Extra: []string{}, Errors: []string{}}
	in.Mismatches = append(in.Mismatches, j.wrong...)
	in.Missing = append(in.Missing, j.missing...)
	in.Extra = append(in.Extra, j.extra...)
	judged := false
	for _, l := range j.layers {
		for _, f := range l.faults {
			switch f.Code {
			case IntegritySection, IntegrityAlgorithm, IntegrityKey, IntegrityHashFormat:
				in.Errors = append(in.Errors, f.Message)
			}
		}
		judged = judged || l.name == "integrity" && l.ran
	}
	if len(m.files) > 0 && len(in.Errors) == 0 {
		ins.Package = packageDigest(m.files)
	}
	in.Passed = judged && j.archive.Fault == nil && len(in.Mismatches)+len(in.Missing)+len(in.Extra)+len(in.Errors) == 0
	ins.Integrity = in
	add := func(key string, list []pathField) {
		for _, p := range list {
			ins.Content = append(ins.Content, key+": "+p.path)
		}
	}
	add("skills", m.content.skills)
	for _, p := range m.content.plugins {
		ins.Content = append(ins.Content, "plugins: "+p.id+" at "+p.path)
	}
	add("workflow_specs", m.content.workflowSpecs)
	add("context_packs", m.content.contextPacks)
	add("agent_images", m.content.agentImages)
}
