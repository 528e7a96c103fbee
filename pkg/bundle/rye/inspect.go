package rye

import (
	"context"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"gopkg.in/yaml.v3"
)

// An Inspection is a manifest as it says of itself. Nothing in it is verified,
// and there is no verdict: findings say why something is missing.
type Inspection struct {
	bundle.Result
	Generation string      `json:"generation"` // "object_hash", "sha256" or "head"
	Path       string      `json:"path"`       // of the manifest below the root
	Unverified *Unverified `json:"unverified"` // null if the manifest cannot be parsed
	// ManifestDigest is computed from what the manifest lists.
	ManifestDigest string `json:"manifest_digest,omitempty"`
	SignerClaim    *Claim `json:"signer_claim"` // null if there is no signature line
	// Dependencies are what tools ask to be installed before they run.
	Dependencies []Dependencies `json:"dependencies"`
}

// Unverified are the values of a manifest, none of which is proven.
type Unverified struct {
	ID             string            `json:"id"`
	Version        string            `json:"version"`
	Entrypoint     string            `json:"entrypoint"`
	Description    string            `json:"description"`
	CreatedAt      string            `json:"created_at"`
	Type           string            `json:"type"`
	ManifestDigest string            `json:"manifest_digest"`
	Files          []UnverifiedEntry `json:"files"`
}

// An UnverifiedEntry is one listed file.
type UnverifiedEntry struct {
	Path         string `json:"path"`
	ItemType     string `json:"item_type"` // from the path
	ItemID       string `json:"item_id"`   // from the path
	InlineSigned bool   `json:"inline_signed"`
	ObjectHash   string `json:"object_hash,omitempty"`
	SHA256       string `json:"sha256,omitempty"`
}

// A Claim is what a signature line says.
type Claim struct {
	Fingerprint string `json:"fingerprint"`
	Time        string `json:"time"` // covered by no signature
	Hash        string `json:"hash"`
}

// Inspect reads the manifest of a bundle without judging it. id "" takes the
// only one. The manifest must exist; the error is one of reading.
func Inspect(ctx context.Context, t bundle.Source, id string) (*Inspection, error) {
	t = bundle.WithContext(ctx, t)
	v := newVerifier(t, Options{ID: id})
	head, err := v.choose()
	if err != nil {
		return nil, err
	}
	in := &Inspection{Result: bundle.NewResult("inspect"), Generation: "object_hash", Path: ManifestPath(v.r.Name)}
	if head {
		in.Generation, in.Path = "head", headManifest
	}
	if len(v.r.Findings) > 0 {
		in.fault(v.r.Findings...)
		return in, nil
	}
	data, fault, err := manifestFile(t, in.Path)
	if err != nil {
		return nil, err
	}
	if fault != nil {
		in.fault(fault)
		return in, nil
	}
	in.read(data, head)
	if in.Dependencies = []Dependencies{}; in.Unverified == nil {
		return in, nil
	}
	if m, _, faults, err := readBundle(t, id); err != nil {
		return nil, err
	} else if m != nil && len(faults) == 0 {
		in.Dependencies, err = dependencies(t, m.paths())
		return in, err
	}
	return in, nil
}

func (in *Inspection) fault(fs ...*bundle.Finding) {
	in.Fail(at(in.Path, fs...)...)
	in.Finish()
}

func (in *Inspection) read(data []byte, head bool) {
	s, fault := readManifest(data, lineFormat{prefix: "#", head: head})
	body := data
	if s != nil {
		in.SignerClaim = &Claim{s.line.Fingerprint, s.line.Time, s.line.Hash}
		body = s.hashed
	}
	if fault != nil {
		in.fault(fault)
		if fault.Code == NotUTF8 {
			return
		}
	}
	if head {
		root, _, faults := parseYAML(body)
		if in.fault(faults...); root == nil {
			return
		}
		text := func(key string) string {
			if n := child(root, key); n != nil && n.Kind == yaml.ScalarNode {
				return n.Value
			}
			return ""
		}
		in.Unverified = &Unverified{ID: text("name"), Version: text("version"), Description: text("description"), Files: []UnverifiedEntry{}}
		return
	}
	m, faults := parseManifest(body)
	in.fault(faults...)
	if m == nil {
		return
	}
	in.ManifestDigest = m.digest()
	in.Generation = m.generation()
	in.Unverified = &Unverified{m.ID, m.Version, m.Entrypoint, m.Description, m.CreatedAt, m.Type, m.Digest, []UnverifiedEntry{}}
	for _, e := range m.Entries {
		in.Unverified.Files = append(in.Unverified.Files, UnverifiedEntry{e.Path, string(TypeOf(e.Path)), ItemID(e.Path), e.InlineSigned, e.ObjectHash, e.SHA256})
	}
}

// generation tells which hash key the manifest uses.
func (m *Manifest) generation() string {
	for _, e := range m.Entries {
		if e.ObjectHash != "" {
			return "object_hash"
		}
	}
	return "sha256"
}

// readBundle parses the manifest of a bundle for comparison, unverified. Its
// faults are those that keep it from being read at all.
func readBundle(t bundle.Source, id string) (*Manifest, []byte, []*bundle.Finding, error) {
	v := newVerifier(t, Options{ID: id})
	head, err := v.choose()
	if err != nil {
		return nil, nil, nil, err
	}
	if len(v.r.Findings) > 0 {
		return nil, nil, v.r.Findings, nil
	}
	p := ManifestPath(v.r.Name)
	if head {
		return readHead(t)
	}
	data, fault, err := manifestFile(t, p)
	if err != nil {
		return nil, nil, nil, err
	}
	if fault != nil {
		return nil, nil, at(p, fault), nil
	}
	s, fault := readManifest(data, hashLine)
	if fault != nil {
		return nil, nil, at(p, fault), nil
	}
	m, faults := parseManifest(s.hashed)
	return m, s.hashed, at(p, faults...), nil
}

// manifestFile reads the file of a manifest.
func manifestFile(t bundle.Source, p string) ([]byte, *bundle.Finding, error) {
	data, code, err := load(t, p, MaxManifest, nil)
	switch {
	case err != nil || code == "":
		return data, nil, err
	case code == FileMissing:
		return nil, bundle.Faultf(ManifestMissing, p, "there is no manifest at %s", finding.Path(p)), nil
	case code == SymlinkFound:
		return nil, bundle.Faultf(code, p, "a link stands in the way to the manifest"), nil
	case code == LimitExceeded:
		return nil, bundle.Faultf(code, p, "the manifest has more than %d bytes", MaxManifest), nil
	}
	return nil, bundle.Faultf(code, p, "the manifest is not a regular file"), nil
}

// nodes returns the listed files of a bundle as [bundle.Compare] takes them.
// What is not there, or no regular file, is left out. The format knows no
// modes, so all are equal.
func nodes(t bundle.Source, m *Manifest) ([]bundle.Node, error) {
	list := make([]bundle.Node, 0, len(m.Entries))
	for _, e := range m.Entries {
		data, code, err := load(t, e.Path, MaxFile, nil)
		if err != nil {
			return nil, err
		}
		if code != "" {
			continue
		}
		list = append(list, bundle.Node{Path: e.Path, Type: bundle.File, Mode: 0o644, Size: int64(len(data)), SHA256: bundle.Sum(data)})
	}
	return list, nil
}
