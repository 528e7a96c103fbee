package drift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/rigward/rigward/internal/drift/ask"
	"github.com/rigward/rigward/internal/gittree"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// rule is the id of what this package finds itself.
const rule = "bundle-drift"

// Repo is what is needed of a repository. *gitrepo.Repo is one.
type Repo interface {
	Commit(id string) (*gitrepo.Commit, error)
	Tree(id string) (*gitrepo.Tree, error)
	Blob(id string, limit int64) ([]byte, error)
	Objects(ids []string, limit int64, fn func(gitrepo.Object) error) error
	Heads(ids []string, most int64, fn func(gitrepo.Object) error) error
	DiffTrees(old, new string) ([]gitrepo.Change, error)
	MergeBases(ctx context.Context, a, b string) ([]string, error)
}

// A Judge collects what becomes of the bundles of one or more ranges.
type Judge struct {
	Repo Repo
	Now  time.Time // at which signatures must be valid
	All  bool      // judge also the bundles that a range does not touch
	// Trusted is the commit whose Rye trust store counts for a range without a
	// base, "" for none.
	Trusted string
	Temp    string // directory for rebuilt bundles, "" for the system's; nothing stays there
	Images  Images // composes the images of bundles, nil if nobody does

	Bundles  []report.Bundle // of those that were judged
	Findings []finding.Finding
}

// Here returns a Judge that answers in this process. images composes the images of
// bundles, nil if nobody does.
func Here(images Images) ask.Judge {
	return func(ctx context.Context, repo *gitrepo.Repo, q ask.Question) (ask.Answer, error) {
		j := Judge{Repo: repo, Now: q.Now, All: q.All, Trusted: q.Trusted, Images: images}
		err := j.Range(ctx, q.Range)
		return ask.Answer{Bundles: j.Bundles, Findings: j.Findings}, err
	}
}

// Range judges the bundles of the range's policy at the commit r.New. A bundle
// is touched if a path that its build reads, its output or a file beside that
// changes since the range left its base, the first of r.Old and r.Exclude;
// without one, every bundle is. Memory is bounded by the largest committed
// bundle, of at most 256 MiB, and a file of the source of that size; each
// build reads at most 1 GiB. The error is *policy.Undecided where a sentence
// for people is known.
func (j *Judge) Range(ctx context.Context, r rules.Range) error {
	if r.Policy == nil || len(r.Policy.Bundles) == 0 {
		return nil
	}
	tip, err := j.Repo.Commit(r.New)
	if err != nil {
		return err
	}
	s := &side{Judge: j, ctx: ctx, r: r, tip: tip}
	from := r.Old
	if from == "" && len(r.Exclude) > 0 {
		from = r.Exclude[0]
	}
	if trusted := cmp.Or(from, j.Trusted); trusted != "" {
		c, err := j.Repo.Commit(trusted)
		if err != nil {
			return err
		}
		s.trusted = c.Tree
	}
	if from != "" {
		forks, err := j.Repo.MergeBases(ctx, from, r.New)
		if err != nil {
			return err
		}
		if len(forks) > 0 {
			base, err := j.Repo.Commit(forks[0])
			if err != nil {
				return err
			}
			s.base = base
			if s.changes, err = j.Repo.DiffTrees(base.Tree, tip.Tree); err != nil {
				return err
			}
		}
	}
	for _, b := range r.Policy.Bundles {
		if err := s.bundle(b); err != nil {
			return s.undecided(b, err)
		}
	}
	return nil
}

// A side is one range with its two commits.
type side struct {
	*Judge
	ctx     context.Context
	r       rules.Range
	tip     *gitrepo.Commit
	base    *gitrepo.Commit // nil without one
	trusted string          // tree whose Rye keys are trusted, "" for none
	changes []gitrepo.Change
}

// undecided names the bundle in an error; what ended the run stays to be seen.
func (s *side) undecided(b policy.Bundle, err error) error {
	if ctxErr := s.ctx.Err(); ctxErr != nil {
		return &policy.Undecided{Message: "the time was up while the bundle " + finding.Path(b.Output) + " was rebuilt", Hint: "raise --timeout or the policy's timeout", Cause: errors.Join(ctxErr, err)}
	}
	var u *policy.Undecided
	if errors.As(err, &u) {
		return err
	}
	u = &policy.Undecided{Message: "the bundle " + finding.Path(b.Output) + " cannot be judged: " + finding.Clean(err.Error()), Hint: gitrepo.Hint(err), Cause: err}
	return u
}

// touches reports whether the range changes a path that match takes. Without
// a base everything counts as changed.
func (s *side) touches(match func(p string) bool) bool {
	if s.base == nil {
		return true
	}
	return slices.ContainsFunc(s.changes, func(c gitrepo.Change) bool { return match(c.Path) })
}

// beside are the paths that make up a committed bundle file.
func beside(output string) func(p string) bool {
	return func(p string) bool { return p == output || p == output+".sha256" || p == output+".sig" }
}

// add keeps a finding of this package, at the policy's level.
func (s *side) add(p, message, hint string) {
	level := s.r.Policy.Level(rule)
	if level == finding.Off {
		return
	}
	s.Findings = append(s.Findings, finding.Finding{Rule: rule, Severity: level, Path: p, Commit: s.tip.ID, Ref: s.r.Ref, Message: message, Hint: hint})
}

// capability is the id of the rule about what a bundle may do and could not before.
const capability = "bundle-capability"

// capabilities reports what became of what a bundle may do since the base; each gain is
// a finding.
func (s *side) capabilities(rep *report.Bundle, list []bundle.CapabilityChange) {
	for i, g := range list {
		if i == maxChanges {
			rep.Truncated += len(list) - i
			break
		}
		rep.Capabilities = append(rep.Capabilities, report.Capability(g))
	}
	level := s.r.Policy.Level(capability)
	if level == finding.Off {
		return
	}
	n := 0
	for _, g := range list {
		if !g.Gain {
			continue
		}
		if n++; n > maxFindings {
			continue
		}
		text := g.Kind + ": " + finding.QuoteMax(cmp.Or(g.New, g.Where), maxValue)
		if g.Where != "" {
			text = g.Kind + " at " + finding.QuoteMax(g.Where, 200) + ": " + finding.QuoteMax(g.New, maxValue)
		}
		if g.Old != "" {
			text += ", before " + finding.QuoteMax(g.Old, maxValue)
		}
		s.Findings = append(s.Findings, finding.Finding{Rule: capability, Severity: level, Path: rep.Output, Commit: s.tip.ID, Ref: s.r.Ref,
			Message: "the bundle may do what it could not at the base: " + text})
	}
	if n > maxFindings {
		s.Findings[len(s.Findings)-1].Message += fmt.Sprintf(", and %d more", n-maxFindings)
	}
}

// maxFindings bounds what is told of one bundle.
const maxFindings = 20

// addAll keeps what a format found in a bundle or in its source; more was left out there.
func (s *side) addAll(p string, fs []*bundle.Finding, more int, hint string) {
	for i, f := range fs {
		if i == maxFindings {
			s.Findings[len(s.Findings)-1].Message += fmt.Sprintf(", and %d more", len(fs)-i+more)
			return
		}
		out := f.Finding(p, finding.Error)
		if out.Hint == "" {
			out.Hint = hint
		}
		out.Commit, out.Ref = s.tip.ID, s.r.Ref
		s.Findings = append(s.Findings, out)
	}
}

func (s *side) bundle(b policy.Bundle) error {
	switch b.Format {
	case "rig":
		return s.archive(b, &rigBuilder{side: s, b: b})
	case "agent":
		return s.archive(b, &agentBuilder{side: s, b: b})
	case "rye":
		return s.rye(b)
	}
	return fmt.Errorf("the policy names the format %s, expected rig, agent or rye", finding.QuoteMax(b.Format, 40))
}

// source checks what stands at the source of a bundle; wrong is "" if it is of
// the kind that the format takes.
func (s *side) source(b policy.Bundle, tree string, want bundle.Kind) (wrong string, err error) {
	if b.Source == "" && want == bundle.KindDir {
		return "", nil
	}
	it, err := gittree.Source(s.Repo, tree).Lstat(b.Source)
	switch what := map[bundle.Kind]string{bundle.KindFile: "a file", bundle.KindDir: "a directory"}[want]; {
	case absent(err):
		return "is missing", nil
	case err != nil:
		return "", err
	case it.Kind == bundle.KindSymlink:
		return "is a symlink, expected " + what, nil
	case it.Kind != want:
		return "is not " + what, nil
	}
	return "", nil
}

// absent reports whether an error of a tree's Lstat says that nothing is
// there; nothing is found through links.
func absent(err error) bool {
	var link *bundle.LinkError
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, bundle.ErrNotDir) || errors.As(err, &link)
}

// sourceFinding tells that there is nothing to build from.
func (s *side) sourceFinding(b policy.Bundle, wrong string) {
	hint := "take the bundle out of the policy's bundles, if it goes for good"
	if wrong == "is missing" && s.base != nil {
		hint = "git checkout " + finding.Short(s.base.ID) + " -- " + finding.Word(b.Source) + ", or first " + hint
	}
	s.add(b.Source, fmt.Sprintf("the source of the bundle %s %s", finding.Path(b.Output), wrong), hint)
}

// pointers tells of Git LFS pointers among what went into a bundle.
func (s *side) pointers(b policy.Bundle, src *source) bool {
	for i, name := range src.lfs {
		if i == maxFindings {
			break
		}
		s.add(path.Join(src.dir, name), "the commit holds a Git LFS pointer, so the bundle "+finding.Path(b.Output)+" cannot be built from it", "git lfs untrack "+finding.Word(path.Join(src.dir, name))+", then add the file again")
	}
	return len(src.lfs) > 0
}

// again are the conditions of the second build: other order, other reads.
var again = conditions{reverse: true, chunk: 1021}
