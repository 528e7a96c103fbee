package drift

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/report"
)

// rye judges a Rye bundle (spec/ryebundle.md). It is a tree with a signed
// manifest in it, so that source and bundle are one: the output is the source
// itself, or the manifest below it. Keys that count are those of the policy's
// signer, and of the trust store in the tree that the range is judged by.
func (s *side) rye(b policy.Bundle) error {
	space := path.Join(b.Source, ".ai")
	touched := s.touches(func(p string) bool { return below(space, p) })
	if !touched && !s.All {
		return nil
	}
	rep := report.Bundle{Name: b.Name, Format: b.Format, Source: b.Source, Output: b.Output, Touched: touched}
	err := s.judgeRye(b, &rep)
	if err == nil {
		s.Bundles = append(s.Bundles, rep)
	}
	return err
}

// ryeID is the id that the policy gives by name or by the manifest's path; ""
// takes the only bundle.
func ryeID(b policy.Bundle) string {
	if b.Name != "" {
		return b.Name
	}
	id, ok := strings.CutSuffix(b.Output, "/manifest.yaml")
	if prefix := path.Join(b.Source, ".ai/bundles") + "/"; ok && strings.HasPrefix(id, prefix) {
		return id[len(prefix):]
	}
	return ""
}

// ryeTree is the bundle root in a commit's tree.
func (s *side) ryeTree(b policy.Bundle, tree string, under conditions) (*source, error) {
	it, err := bundle.NewGitSource(objects{s.Repo}, tree).Lstat(root(b.Source))
	if err != nil {
		return nil, err
	}
	return newSource(s.ctx, s.Repo, it.ID, b.Source, under), nil
}

func (s *side) judgeRye(b policy.Bundle, rep *report.Bundle) error {
	if wrong, err := s.source(b, s.tip.Tree, bundle.KindDir); wrong != "" || err != nil {
		rep.Drift = true
		if err == nil {
			s.sourceFinding(b, wrong)
		}
		return err
	}
	src, err := s.ryeTree(b, s.tip.Tree, conditions{})
	if err != nil {
		return err
	}
	keys := &rye.Keyring{Bundle: src}
	if b.Signer != "" {
		pin, err := rye.ParsePin(b.Signer)
		if err != nil {
			return &policy.Undecided{Message: "the policy's signer of the bundle " + finding.Path(b.Output) + " is " + finding.QuoteMax(b.Signer, 100) + ", expected the fingerprint of a key, or ed25519: and the key in base64", Cause: err}
		}
		keys.Pins = []rye.Pin{pin}
	}
	if s.trusted != "" {
		keys.Stores = []rye.Store{{Trust: rye.TrustProject, Tree: newSource(s.ctx, s.Repo, s.trusted, "", conditions{})}}
	}
	verdict, err := rye.Verify(src, rye.Options{ID: ryeID(b), Keys: keys})
	if errors.Is(err, rye.ErrBundles) {
		rep.Drift = true
		s.add(b.Output, "the source "+finding.Path(root(b.Source))+" holds no manifest, or more than one", "name the manifest as the policy's output, or "+s.ryeRepair(b, nil))
		return nil
	}
	if err != nil {
		return err
	}
	if rep.Name = verdict.ID; verdict.Manifest != nil && b.Version != "" && b.Version != verdict.Manifest.Version {
		s.add(b.Output, fmt.Sprintf("the bundle's version is %s, the policy says %s", finding.QuoteMax(verdict.Manifest.Version, 100), finding.QuoteMax(b.Version, 100)), "build it with the policy's version, or change the policy first")
	}
	s.addAll(root(b.Source), verdict.Verdict().Findings, s.ryeRepair(b, verdict))
	if s.pointers(b, src) || len(verdict.Findings) > 0 {
		rep.Drift = true
	}
	first, err := rye.Rebuild(src, ryeID(b))
	if err != nil {
		return err
	}
	other, err := s.ryeTree(b, s.tip.Tree, conditions{chunk: again.chunk})
	if err != nil {
		return err
	}
	second, err := rye.Rebuild(other, ryeID(b))
	if err != nil {
		return err
	}
	if first.Status == "failed" {
		if len(verdict.Findings) == 0 {
			rep.Drift = true
			for _, f := range first.Findings {
				s.addAll(root(b.Source), []bundle.Finding{*f}, "")
			}
		}
		return nil
	}
	rep.Committed, rep.Rebuilt = sha(first.Digest), sha(first.RebuiltDigest)
	rep.Deterministic = first.RebuiltDigest == second.RebuiltDigest && first.SameBody == second.SameBody && first.Status == second.Status &&
		slices.Equal(first.Added, second.Added) && slices.Equal(first.Removed, second.Removed) && slices.Equal(first.Modified, second.Modified)
	if !rep.Deterministic {
		s.add(root(b.Source), fmt.Sprintf("two builds of the bundle %s from the same commit differ, so that no rebuild can prove it", finding.Path(b.Output)), "please report it with the two digests: "+rep.Rebuilt+" "+sha(second.RebuiltDigest))
	}
	if first.Status != "identical" {
		rep.Drift = true
		var changes []report.MemberChange
		for _, list := range []struct {
			kind  string
			paths []string
		}{{"added", first.Added}, {"removed", first.Removed}, {"changed", first.Modified}} {
			for _, p := range list.paths {
				changes = append(changes, report.MemberChange{Path: p, Kind: list.kind})
			}
		}
		if len(verdict.Findings) == 0 {
			s.add(b.Output, "the committed manifest differs from what its files give: "+summary(changes), s.ryeRepair(b, verdict))
		}
		rep.FromCommitted = limit(changes, &rep.Truncated)
	}
	return s.ryeFromBase(b, rep, src)
}

func sha(hex string) string {
	if hex == "" {
		return ""
	}
	return "sha256:" + hex
}

// ryeFromBase compares the files that the manifests of the two commits list.
func (s *side) ryeFromBase(b policy.Bundle, rep *report.Bundle, now *source) error {
	if s.base == nil {
		return nil
	}
	if wrong, err := s.source(b, s.base.Tree, bundle.KindDir); wrong != "" || err != nil {
		return err
	}
	before, err := s.ryeTree(b, s.base.Tree, conditions{})
	if err != nil {
		return err
	}
	old, err := rye.Rebuild(before, ryeID(b))
	if errors.Is(err, rye.ErrBundles) || err == nil && old.Status == "failed" {
		return nil
	}
	if err != nil {
		return err
	}
	rep.Base = sha(old.RebuiltDigest)
	d, err := rye.Diff(before, ryeID(b), now, ryeID(b))
	if err != nil || d.Status == "failed" {
		return err
	}
	var changes []report.MemberChange
	for _, f := range d.Fields {
		changes = append(changes, report.MemberChange{Path: f.Field, Kind: "manifest", Old: f.A, New: f.B})
	}
	total := int64(0)
	for _, c := range d.Files {
		m := member(c.Change, c.Path, c.A, c.B)
		if c.Change == "modified" && c.A.Size <= bundle.MaxTextDiff && c.B.Size <= bundle.MaxTextDiff && total+c.A.Size+c.B.Size <= maxRead {
			total += c.A.Size + c.B.Size
			a, err := bundle.ReadFile(before, c.Path, c.A.Size)
			if err != nil {
				return err
			}
			z, err := bundle.ReadFile(now, c.Path, c.B.Size)
			if err != nil {
				return err
			}
			m.Diff = string(bundle.UnifiedDiff("a/"+c.Path, a, "b/"+c.Path, z))
		}
		changes = append(changes, m)
	}
	rep.FromBase = limit(changes, &rep.Truncated)
	return nil
}

// ryeRepair is the command that writes the manifest anew; only the signer can.
func (s *side) ryeRepair(b policy.Bundle, r *rye.Report) string {
	id, version, rest := ryeID(b), b.Version, ""
	if r != nil {
		id = r.ID
		if m := r.Manifest; m != nil {
			if version == "" {
				version = m.Version
			}
			if m.Entrypoint != "" {
				rest += " --entrypoint " + finding.Word(m.Entrypoint)
			}
			if m.Description != "" {
				rest += " --description " + finding.Word(m.Description)
			}
		}
	}
	if id == "" {
		id = "ID"
	}
	if version == "" {
		version = "VERSION"
	}
	return "SOURCE_DATE_EPOCH=$(date +%s) rig-bundle create --format rye " + finding.Word(root(b.Source)) + " --id " + finding.Word(id) + " --version " + finding.Word(version) + rest + " --key FILE, then commit it"
}
