package drift

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/rigward/rigward/internal/gittree"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/rye"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// rye judges a Rye bundle (docs/spec/ryebundle.md). It is a tree with a signed
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
	it, err := gittree.Source(s.Repo, tree).Lstat(root(b.Source))
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
	verdict, err := rye.Verify(s.ctx, src, rye.Options{ID: ryeID(b), Keys: keys, Allow: s.r.Policy.Allow})
	if errors.Is(err, rye.ErrBundles) {
		rep.Drift = true
		s.add(b.Output, "the source "+finding.Path(root(b.Source))+" holds no manifest, or more than one", "name the manifest as the policy's output, or "+s.ryeRepair(b, nil))
		return nil
	}
	if err != nil {
		return err
	}
	rep.Name = verdict.Name
	if verdict.Manifest != nil {
		s.names(policy.Bundle{Version: b.Version}, b.Output, &verdict.Result)
	}
	for _, f := range verdict.Findings {
		if f.Code == rye.UntrustedKey && verdict.Signer != nil && b.Signer == "" {
			f.Hint = "first let the policy name the key, for the bundle whose output is " + finding.Path(b.Output) + ": signer: " + *verdict.Signer
		}
	}
	s.addAll(root(b.Source), verdict.Findings, verdict.More.Findings, s.ryeRepair(b, verdict))
	if s.pointers(b, src) || len(verdict.Findings) > 0 {
		rep.Drift = true
	}
	first, err := rye.Rebuild(s.ctx, src, ryeID(b))
	if err != nil {
		return err
	}
	other, err := s.ryeTree(b, s.tip.Tree, conditions{chunk: again.chunk})
	if err != nil {
		return err
	}
	second, err := rye.Rebuild(s.ctx, other, ryeID(b))
	if err != nil {
		return err
	}
	if first.Status == "failed" {
		if len(verdict.Findings) == 0 {
			rep.Drift = true
			s.addAll(root(b.Source), first.Findings, first.More.Findings, "")
		}
		return nil
	}
	rep.Committed, rep.Rebuilt = sha(first.Digest), sha(first.RebuiltDigest)
	rep.Deterministic = reflect.DeepEqual(first, second)
	if !rep.Deterministic {
		s.add(root(b.Source), fmt.Sprintf("two builds of the bundle %s from the same commit differ, so that no rebuild can prove it", finding.Path(b.Output)), "please report it with the two digests: "+rep.Rebuilt+" "+sha(second.RebuiltDigest))
	}
	if first.Status != "identical" {
		rep.Drift = true
		changes := memberChanges(first.Changes)
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
	old, err := rye.Rebuild(s.ctx, before, ryeID(b))
	if errors.Is(err, rye.ErrBundles) || err == nil && old.Status == "failed" {
		return nil
	}
	if err != nil {
		return err
	}
	rep.Base = sha(old.RebuiltDigest)
	d, err := rye.Diff(s.ctx, before, ryeID(b), now, ryeID(b), true)
	if err != nil || d.Status == "failed" {
		return err
	}
	rep.FromBase = limit(memberChanges(d.Changes), &rep.Truncated)
	s.capabilities(rep, d.Capabilities)
	return nil
}

// ryeRepair is the command that writes the manifest anew; only the signer can.
func (s *side) ryeRepair(b policy.Bundle, r *rye.Report) string {
	id, version, rest := ryeID(b), b.Version, ""
	if r != nil {
		id = r.Name
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
	return "SOURCE_DATE_EPOCH=$(date +%s) rig-bundle create --format rye " + finding.Word(root(b.Source)) + " --id " + finding.Word(id) + " --version " + finding.Word(version) + rest + " --key FILE" + thenCommit
}
