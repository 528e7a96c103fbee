package rules

import (
	"slices"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// Ref judges what a push does to a ref that is not protected, and deletions.
// It reports whether the ref's commits are to be judged as a Range. head is the
// full name of the default branch, "" if it is not known.
func (j *Judge) Ref(p *policy.Policy, u change.RefUpdate, head string) bool {
	f := finding.Finding{Severity: finding.Error, Ref: u.Ref}
	if policy.Reserved(u.Ref) || policy.Reserved(portable.Fold(u.Ref)) {
		f.Rule = "other-refs"
		f.Message = "refs below refs/rigward are written by the server alone"
		f.Hint = "leave the ref out of the push"
		j.keep(f) // no policy says otherwise
		return false
	}
	protected := p.Protected(u.Ref, head)
	switch {
	case protected && u.Delete():
		f.Rule = "fast-forward"
		f.Message = "a protected ref is deleted"
		f.Hint = "take it out of the policy's protect list first"
		if u.Ref == head || head == "" {
			f.Hint = "let another branch be the default first; on the server: git symbolic-ref HEAD refs/heads/<branch>"
		}
		j.add(p, f)
		return false
	case protected:
		return true
	}
	other := p.OtherRef(u.Ref)
	if other == policy.RefFree {
		other = p.OtherRef(portable.Fold(u.Ref)) // refs/Replace is refs/replace to some file systems
	}
	switch other {
	case policy.RefNeverFree:
		f.Rule = "other-refs"
		f.Message = "refs below refs/replace and refs/notes change what others see of commits, expected none"
		f.Hint = "name the ref in the policy's allow-refs"
		j.add(p, f)
	case policy.RefDenied:
		f.Rule = "other-refs"
		f.Message = "the policy denies refs that are not protected (other-refs: deny)"
		f.Hint = "name the ref in the policy's allow-refs"
		j.add(p, f)
	}
	return false
}

// Twin tells of a ref that a push makes, moves or deletes, and that some file systems
// take for another one, which is protected.
func (j *Judge) Twin(p *policy.Policy, ref, of string) {
	j.add(p, finding.Finding{Rule: "fast-forward", Severity: finding.Error, Ref: ref,
		Message: "some file systems take this ref for the protected " + finding.Path(of), Hint: "choose another name for it"})
}

// MayTwin reports whether some file system may take a ref for one that is protected.
// head is as for policy.Policy.Protected.
func MayTwin(p *policy.Policy, ref, head string) bool {
	key := portable.Fold(ref)
	folded := *p
	folded.Protect, folded.ProtectToo = foldAll(p.Protect), foldAll(p.ProtectToo)
	return key == portable.Fold(head) || folded.Lists(key)
}

func foldAll(patterns []string) []string {
	out := slices.Clone(patterns)
	for i, p := range out {
		out[i] = portable.Fold(p)
	}
	return out
}
