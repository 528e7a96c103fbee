package drift

import (
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// strays tells of files that the range brings to where they can be taken for
// the bundle, though no rebuild stands for them: at its path in another
// spelling, which is the same file on many systems; in the way of its path; and
// other archives in a directory that the policy has as output.
func (s *side) strays(b policy.Bundle, f builder) error {
	top, out, told := portable.Fold(b.Output), "", 0
	for _, c := range s.changes {
		p := portable.Fold(c.Path)
		if c.Deleted() || !below(top, p) && !below(p, top) && !beside(top)(p) {
			continue
		}
		if out == "" {
			var err error
			if out, err = f.output(s.tip.Tree); err != nil {
				return err
			}
		}
		folded := portable.Fold(out)
		var what string
		switch {
		case beside(out)(c.Path):
			continue // judged
		case beside(folded)(p), below(p, folded):
			what = "stands where the bundle " + finding.Path(out) + " is to be, on systems that ignore case if nowhere else"
		case out != b.Output && archived(p) && !s.others(b, c.Path):
			what = "lies beside the bundle " + finding.Path(out) + ", and is not what its source gives"
		default:
			continue
		}
		if told++; told <= maxFindings {
			s.add(c.Path, "this file "+what, "git rm -- "+finding.Word(c.Path)+", or let the policy's bundles name it first")
		}
	}
	return nil
}

// others reports whether p lies where the policy has another bundle.
func (s *side) others(b policy.Bundle, p string) bool {
	return slices.ContainsFunc(s.r.Policy.Bundles, func(o policy.Bundle) bool {
		return o.Output != b.Output && below(b.Output, o.Output) && (below(o.Output, p) || beside(o.Output)(p))
	})
}

// archived reports whether a folded path is an archive's, or one of the files
// that prove it.
func archived(p string) bool {
	for _, proof := range []string{".sha256", ".sig"} {
		p = strings.TrimSuffix(p, proof)
	}
	return strings.HasSuffix(p, ".tar.gz") || strings.HasSuffix(p, ".tar.zst")
}
