package rules

import (
	"context"
	"slices"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/relay"
)

// A nonceUse is a nonce that the range brings.
type nonceUse struct {
	nonce, path, blob string
	commit            int32 // in the walk
	line, col         int32
	policy            *policy.Policy
	told              bool // that the nonce was used before
	taken             bool // over, and not to be judged
}

// maxSameNonce is with how many others of the range each use of a nonce is
// compared.
const maxSameNonce = 16

// maxBrought is how many nonces of a push the index takes over from it. A push
// with more is read when the next one asks.
const maxBrought = 1 << 16

// useNonce notes the nonce of an envelope, to be looked up when the range is
// whole.
func (ps *pass) useNonce(_ context.Context, c *commit, e *entry) error {
	if e.env == nil || e.env.Nonce == "" {
		return nil
	}
	if ps.Brought != nil {
		ps.Brought(e.env.Nonce, history.Hit{Path: e.path, Blob: e.blob, Commit: c.id})
	}
	if ps.Nonces != nil && len(ps.brought) < maxBrought {
		ps.brought = append(ps.brought, history.Hit{Path: e.path, Blob: e.blob, Commit: c.id})
		ps.nonced = append(ps.nonced, e.env.Nonce)
	}
	if e.relay && c.obj != nil && e.env.Conforms("nonce") && relay.ValidNonce(e.env.Nonce) {
		line, col := e.env.Place("nonce")
		u := nonceUse{nonce: e.env.Nonce, path: e.path, blob: e.blob, commit: c.n, line: int32(line), col: int32(col), policy: c.policy}
		if n := len(ps.uses) - 1; n >= 0 && ps.uses[n].nonce == u.nonce {
			u.nonce = ps.uses[n].nonce // kept once
		}
		ps.uses = append(ps.uses, u)
	}
	return nil
}

// nonces judges that each nonce of the range is unique in the history of the
// new tip, or of all protected refs (docs/spec/relay.md#nonce).
func (ps *pass) nonces(ctx context.Context) error {
	if len(ps.uses) > 0 {
		if ps.rng.Policy.NonceRefs {
			for _, u := range ps.uses {
				ps.claims = append(ps.claims, claim{u, ps.rng.Ref, ps.rng.Old, ps.walk.id(u.commit)})
			}
		}
		used, err := ps.usedTwice()
		if err != nil {
			return err
		}
		found, err := ps.usedBefore(ctx, used)
		if err != nil {
			return err
		}
		for _, u := range ps.uses {
			if u.taken {
				continue
			}
			for _, hit := range found[u.nonce] {
				if hit.Path != u.path || hit.Blob != u.blob {
					if err := ps.tellUsed(u, hit.Path, hit.Commit); err != nil {
						return err
					}
					break
				}
			}
		}
	}
	if ps.Nonces != nil && len(ps.brought) < maxBrought {
		ps.Nonces.Advance(ps.rng.New, ps.walk.boundIDs(), ps.brought, ps.nonced)
	}
	return nil
}

func (ps *pass) tellUsed(u nonceUse, path, commit string) error {
	out, err := ps.out(ps.walk.id(u.commit), len(ps.walk.parents(u.commit)))
	if err != nil {
		return err
	}
	where := finding.Quote(path)
	if commit != "" {
		where += " of commit " + finding.Short(commit)
	}
	ps.add(u.policy, finding.Finding{Rule: "relay-nonce", Path: u.path, Line: int(u.line), Col: int(u.col), Commit: ps.walk.id(u.commit), Ref: ps.rng.Ref,
		Message: "the nonce was used before, by " + where, Hint: anew(out, u.path)})
	return nil
}

// usedTwice tells of nonces that the range uses more than once, and returns all
// nonces of the range, sorted.
func (ps *pass) usedTwice() ([]string, error) {
	byNonce := map[string][]*nonceUse{}
	tell := func(u, other *nonceUse) error {
		if u.told || u.taken { // once, however many others there are
			return nil
		}
		u.told = true
		return ps.tellUsed(*u, other.path, ps.walk.id(other.commit))
	}
	for i := range ps.uses {
		u := &ps.uses[i]
		for _, other := range byNonce[u.nonce] {
			if other.path == u.path && other.blob == u.blob {
				continue // one envelope that two branches brought
			}
			err := tell(u, other)
			if err == nil && !ps.walk.ancestor(other.commit, u.commit) {
				err = tell(other, u)
			}
			if err != nil {
				return nil, err
			}
		}
		if len(byNonce[u.nonce]) < maxSameNonce {
			byNonce[u.nonce] = append(byNonce[u.nonce], u)
		}
	}
	return sortedKeys(byNonce), nil
}

// usedBefore returns who used nonces in the history before the range.
func (ps *pass) usedBefore(ctx context.Context, nonces []string) (map[string][]history.Hit, error) {
	if ps.Nonces == nil {
		if ps.Used == nil {
			return nil, nil
		}
		return ps.Used(nonces)
	}
	tips := slices.Concat(ps.walk.boundIDs(), ps.rng.NonceTips)
	slices.Sort(tips)
	if tips = slices.Compact(tips); len(tips) == 0 {
		return nil, nil
	}
	return ps.Nonces.Find(ctx, nonces, tips)
}

// A claim is a nonce that must be new among all protected refs.
type claim struct {
	nonceUse
	ref, old string // what gets it, and the ref's commit before
	id       string // of the commit that brings it
}

// Claim takes the nonces that the ranges bring, where they must be new among all
// protected refs, before any of these moves: two pushes at the same instant do
// not see each other's. dir is where claims are kept; pending reports whether a
// ref is protected and was at a commit, "" for none, when the ranges were judged
// (see history.Take). An error means that it is not known whether another push
// takes them.
func (j *Judge) Claim(dir string, pending func(ref, old string) bool) error {
	if len(j.claims) == 0 {
		return nil
	}
	of := map[history.Claim]claim{}
	var all []history.Claim
	for _, c := range j.claims {
		h := history.Claim{Nonce: c.nonce, Path: c.path, Blob: c.blob, Ref: c.ref, Old: c.old}
		if _, known := of[h]; !known {
			of[h] = c
			all = append(all, h)
		}
	}
	taken, err := history.Take(dir, j.Now, all, pending)
	if err != nil {
		return &policy.Undecided{Message: "whether another push uses the same nonce at this moment cannot be known: the claims of nonces cannot be written",
			Hint: "let the user of the hooks write to " + finding.Path(dir) + "; rig-hook doctor names what lies in the way there", Cause: err}
	}
	for _, h := range taken {
		c := of[h]
		j.add(c.policy, finding.Finding{Rule: "relay-nonce", Severity: finding.Error, Path: c.path, Line: int(c.line), Col: int(c.col), Commit: c.id, Ref: c.ref,
			Message: "another push uses the nonce at this moment, for another envelope", Hint: anew("", c.path)})
	}
	return nil
}
