package drift

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/gittree"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/bundle/agent"
	"github.com/rigward/rigward/pkg/bundle/rig"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// A builder knows one format whose bundles are files.
type builder interface {
	// kind is what the source has to be.
	kind() bundle.Kind
	// scope reports whether p belongs to the source, whatever that holds; whole
	// that a build reads nothing else.
	scope(p string) bool
	whole() bool
	// output is the path of the bundle that a tree is to hold.
	output(tree string) (string, error)
	// inputs are what a build of a commit's sources takes. like is the accepted
	// bundle whose stamps are taken over, nil for none.
	inputs(c *gitrepo.Commit, under conditions, like *file) (bundle.Format, *source, bundle.Input, error)
	// repair is the command that writes the bundle anew.
	repair(output string) string
}

// A file is a bundle at hand.
type file struct {
	bundle.Input
	judged *bundle.Result // nil if it is not accepted
}

// tar is the digest of an accepted bundle's tar stream.
func (f *file) tar() string { return f.judged.TarDigest.String() }

// built is what a build gave: faults of its source, or the digest of the tar
// stream, with the file if one was asked for.
type built struct {
	*file
	tar    string
	faults []*bundle.Finding
	more   int // faults that are left out
	src    *source
	close  func()
}

// limits are a format's, with no more in all than a gate builds.
func limits(f bundle.Format) bundle.Limits {
	l := bundle.DefaultLimits()
	if _, ok := f.(agent.Format); ok {
		l = agent.DefaultLimits()
		l.TotalSize = min(l.TotalSize, maxBytes)
	}
	return l
}

// digest tells what bundle a commit's sources give, without its file.
func (s *side) digest(b builder, c *gitrepo.Commit, under conditions, like *file) (*built, error) {
	f, src, in, err := b.inputs(c, under, like)
	if err != nil {
		return nil, err
	}
	r, err := f.Digest(s.ctx, in, bundle.Options{Limits: limits(f), Allow: s.r.Policy.Allow})
	if err != nil {
		return nil, err
	}
	return &built{tar: r.TarDigest.String(), faults: r.Findings, more: r.More.Findings, src: src}, nil
}

// verify judges a committed bundle by all rules of its format.
func (s *side) verify(p policy.Bundle, b builder, in *file) (*bundle.Result, error) {
	f, _, _, err := b.inputs(s.tip, conditions{}, nil)
	if err != nil {
		return nil, err
	}
	o := bundle.Options{Limits: limits(f), Allow: s.r.Policy.Allow}
	if o.Signed, err = s.signed(p); err != nil {
		return nil, err
	}
	r, err := f.Verify(s.ctx, in.Input, o)
	if err == nil && r.OK() {
		in.judged = r
	}
	return r, err
}

// diff lists the changes from a to b, without a all members of b.
func (s *side) diff(with builder, a, b *file) ([]report.MemberChange, []bundle.CapabilityChange, error) {
	f, _, _, err := with.inputs(s.tip, conditions{}, nil)
	if err != nil {
		return nil, nil, err
	}
	o := bundle.Options{Limits: limits(f), Allow: s.r.Policy.Allow, Texts: true}
	if a == nil {
		r, err := f.Verify(s.ctx, b.Input, o)
		if err != nil {
			return nil, nil, err
		}
		return memberChanges(bundle.Compare(nil, r.Archive.Nodes())), nil, nil
	}
	r, err := f.Diff(s.ctx, a.Input, b.Input, o)
	if err != nil {
		return nil, nil, err
	}
	return memberChanges(r.Changes), r.Capabilities, nil
}

// bundleOf gives the bundle of a commit's sources. Nothing is packed if its
// tar stream is that of the accepted bundle like, which is the file then.
func (s *side) bundleOf(f builder, c *gitrepo.Commit, like *file) (*built, error) {
	out, err := s.digest(f, c, conditions{}, like)
	switch {
	case err != nil:
		return nil, err
	case len(out.faults) > 0:
		return out, nil
	case like != nil && like.tar() == out.tar:
		out.file = like
		return out, nil
	}
	return s.build(f, c, like)
}

// build runs one build in a scratch directory of its own.
func (s *side) build(b builder, c *gitrepo.Commit, like *file) (*built, error) {
	f, src, in, err := b.inputs(c, conditions{}, like)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Temp, "rigward-bundle-*")
	if err != nil {
		return nil, err
	}
	out := &built{src: src, close: func() { os.RemoveAll(dir) }}
	to := dir // a bundle root gives the file its name
	if b.kind() == bundle.KindFile {
		to = filepath.Join(dir, "built"+rig.Ext)
	}
	r, err := f.Create(s.ctx, in, to, bundle.Options{Limits: limits(f), Allow: s.r.Policy.Allow})
	if err != nil {
		out.close()
		return nil, err
	}
	if out.faults, out.more = r.Findings, r.More.Findings; !r.OK() {
		return out, nil
	}
	made, size, err := bundle.OpenFile(r.File)
	if err != nil {
		out.close()
		return nil, err
	}
	out.file = &file{Input: bundle.Input{Name: filepath.Base(r.File), File: made, Size: size, Made: true}, judged: r}
	out.tar, out.close = r.TarDigest.String(), func() { made.Close(); os.RemoveAll(dir) }
	return out, nil
}

// done releases what a build holds.
func (b *built) done() {
	if b.close != nil {
		b.close()
	}
}

// archive judges one bundle that is a file.
func (s *side) archive(b policy.Bundle, f builder) error {
	if err := s.strays(b, f); err != nil {
		return err
	}
	mine := func(p string) bool {
		return f.scope(p) || below(b.Output, p) || beside(b.Output)(p) || s.Images != nil && b.BasePath() != "" && below(b.BasePath(), p)
	}
	touched := s.touches(mine)
	if !touched && !s.All {
		if f.whole() {
			return nil
		}
		if wrong, err := s.source(b, s.tip.Tree, f.kind()); wrong != "" || err != nil {
			return err
		}
		probe, err := s.digest(f, s.tip, conditions{}, nil)
		if err != nil {
			return err
		}
		if !s.touches(probe.src.uses) {
			return nil
		}
		touched = true
	}
	rep := report.Bundle{Name: b.Name, Format: b.Format, Source: b.Source, Output: b.Output, Touched: touched}
	err := s.judgeArchive(b, f, &rep)
	if err == nil {
		s.Bundles = append(s.Bundles, rep)
	}
	return err
}

func (s *side) judgeArchive(b policy.Bundle, f builder, rep *report.Bundle) error {
	if wrong, err := s.source(b, s.tip.Tree, f.kind()); wrong != "" || err != nil {
		rep.Drift = true
		if err == nil {
			s.sourceFinding(b, wrong)
		}
		return err
	}
	out, err := f.output(s.tip.Tree)
	if err != nil {
		return err
	}
	rep.Output = out
	old, wrong, err := s.committed(s.tip.Tree, out)
	if err != nil {
		return err
	}
	var like *file
	if old != nil {
		v, err := s.verify(b, f, old)
		if err != nil {
			return err
		}
		rep.Committed, rep.Name = v.TarDigest.String(), v.Name
		if v.OK() {
			like = old
			s.names(b, out, v)
		} else {
			rep.Drift = true
			for _, fault := range v.Findings {
				if strings.HasPrefix(fault.Code, "signature-") {
					fault.Hint = cmp.Or(fault.Hint, "with a key that counts: "+sign(out)+thenCommit)
				}
			}
			s.addAll(out, v.Findings, v.More.Findings, repair(b, f, out))
		}
	}
	now, err := s.bundleOf(f, s.tip, like)
	if err != nil {
		return err
	}
	defer now.done()
	if len(now.faults) > 0 {
		rep.Drift = true
		s.addAll(b.Source, now.faults, now.more, "")
		return nil
	}
	if s.pointers(b, now.src) {
		rep.Drift = true
		return nil
	}
	rep.Rebuilt = now.tar
	second, err := s.digest(f, s.tip, again, like)
	if err != nil {
		return err
	}
	rep.Deterministic = second.tar == now.tar
	if !rep.Deterministic {
		s.add(b.Source, fmt.Sprintf("two builds of the bundle %s from the same commit differ, so that no rebuild can prove it", finding.Path(out)), "please report it with the two digests: "+now.tar+" "+cmp.Or(second.tar, "none"))
	}
	switch {
	case old == nil:
		rep.Drift = true
		hint := repair(b, f, out)
		if dir := path.Dir(out); dir != "." && strings.HasPrefix(hint, "rig-bundle ") {
			hint = "mkdir -p " + finding.Word(dir) + " && " + hint
		}
		if wrong == notFile {
			hint = "git rm -rq -- " + finding.Word(out) + " && " + hint
		}
		s.add(out, wrong, hint)
	case like != nil && like.tar() != now.tar:
		rep.Drift = true
		changes, _, err := s.diff(f, like, now.file)
		if err != nil {
			return err
		}
		s.add(out, "the committed bundle differs from what its source gives: "+summary(changes), repair(b, f, out))
		rep.FromCommitted = limit(changes, &rep.Truncated)
	}
	img, err := s.image(b, rep, now.file)
	if err != nil {
		return err
	}
	return s.fromBase(b, f, rep, now, img, like)
}

// fromBase builds the base's sources and compares. What is wrong at the base
// was for those to judge who let it in.
func (s *side) fromBase(b policy.Bundle, f builder, rep *report.Bundle, now *built, img *Image, like *file) error {
	if s.base == nil {
		return nil
	}
	var before *file
	if wrong, err := s.source(b, s.base.Tree, f.kind()); err != nil {
		return err
	} else if wrong == "" {
		out, err := f.output(s.base.Tree)
		if err != nil {
			return err
		}
		if old, _, err := s.committed(s.base.Tree, out); err != nil {
			return err
		} else if old != nil {
			if v, err := s.verify(b, f, old); err != nil {
				return err
			} else if v.OK() {
				like = old
			}
		}
		base, err := s.bundleOf(f, s.base, like)
		if err != nil {
			return err
		}
		defer base.done()
		if base.file == nil {
			return nil
		}
		before, rep.Base = base.file, base.tar
		if img != nil {
			if err := s.imageBefore(b, rep, before, img); err != nil {
				return err
			}
		}
	}
	changes, may, err := s.diff(f, before, now.file)
	rep.FromBase = limit(changes, &rep.Truncated)
	s.capabilities(rep, may)
	return err
}

// notFile is said of a directory or a submodule, which no command that writes a bundle
// puts aside.
const notFile = "no regular file stands where the policy names a bundle"

// committed opens the bundle that a tree holds; wrong says why there is none.
func (s *side) committed(tree, output string) (f *file, wrong string, err error) {
	src := gittree.Source(s.Repo, tree)
	it, err := src.Lstat(output)
	switch {
	case absent(err):
		return nil, "the bundle is missing that the policy names", nil
	case err != nil:
		return nil, "", err
	case it.Kind == bundle.KindSymlink:
		return nil, "a symlink stands where the policy names a bundle, expected a regular file", nil
	case it.Kind != bundle.KindFile:
		return nil, notFile, nil
	case it.Size > gittree.MaxBlob:
		return nil, fmt.Sprintf("the committed bundle has %d bytes, a gate reads at most %d", it.Size, gittree.MaxBlob), nil
	}
	data, err := s.Repo.Blob(it.ID, gittree.MaxBlob)
	if err != nil {
		return nil, "", err
	}
	if isPointer(data) {
		return nil, "the commit holds a Git LFS pointer instead of the bundle", nil
	}
	f = &file{Input: bundle.Input{Name: path.Base(output), File: bytes.NewReader(data), Size: it.Size}}
	if f.Checksum, err = small(src, output+".sha256"); err == nil {
		f.Signature, err = small(src, output+".sig")
	}
	return f, "", err
}

// small reads a file beside a bundle, nil if there is none. What is not a file or
// too long is read as empty, which no rule accepts.
func small(src bundle.Source, name string) ([]byte, error) {
	const most = 64 << 10
	it, err := src.Lstat(name)
	switch {
	case absent(err):
		return nil, nil
	case err != nil:
		return nil, err
	case it.Kind != bundle.KindFile || it.Size > most:
		return []byte{}, nil
	}
	data, err := bundle.ReadFile(src, name, most)
	if data == nil {
		data = []byte{}
	}
	return data, err
}

// names holds what a bundle calls itself against the policy.
func (s *side) names(b policy.Bundle, out string, v *bundle.Result) {
	for _, field := range []struct{ what, want, got string }{{"name", b.Name, v.Name}, {"version", b.Version, v.Version}} {
		if field.want != "" && field.want != field.got {
			s.add(out, fmt.Sprintf("the bundle's %s is %s, the policy says %s", field.what, finding.QuoteMax(field.got, 100), finding.QuoteMax(field.want, 100)), "build it with the policy's "+field.what+", or change the policy first")
		}
	}
}

// signed are the rules that the policy's signer makes.
func (s *side) signed(b policy.Bundle) (rules bundle.SignatureRules, err error) {
	if b.Signer == "" {
		return rules, nil
	}
	rules = bundle.SignatureRules{Signer: b.Signer, Require: true, Now: s.Now}
	rules.Signers, rules.Revoked, err = s.r.Trust.Signers()
	return rules, err
}

// thenCommit ends the hint of a command that makes what a commit lacks.
const thenCommit = ", then commit it"

// sign is the command that signs a bundle.
func sign(out string) string { return "rig-bundle sign " + finding.Word(out) + " --key FILE" }

// repair is the hint of how to make a bundle anew, and to sign it where it must be.
func repair(b policy.Bundle, f builder, out string) string {
	hint := f.repair(out)
	if cmd, ok := strings.CutSuffix(hint, thenCommit); ok && b.Signer != "" {
		hint = cmd + " && " + sign(out) + thenCommit
	}
	return hint
}

// when is a commit's time; the second build gets it in another zone.
func when(c *gitrepo.Commit, under conditions) time.Time {
	t := time.Unix(c.Committer.When, 0).UTC()
	if under != (conditions{}) {
		t = t.In(time.FixedZone("again", 5*3600+45*60))
	}
	return t
}

// summary is a few of the changes in words.
func summary(changes []report.MemberChange) string {
	const shown = 3
	var parts []string
	for i, c := range changes {
		if i == shown {
			parts = append(parts, fmt.Sprintf("and %d more", len(changes)-i))
			break
		}
		kind := c.Kind
		if kind == "manifest" {
			kind = "manifest field"
		}
		parts = append(parts, kind+" "+finding.QuoteMax(c.Path, 100))
	}
	if len(parts) == 0 {
		return "the members are the same, the archive is written otherwise"
	}
	return strings.Join(parts, ", ")
}
