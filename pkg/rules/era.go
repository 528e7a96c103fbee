package rules

import (
	"context"
	"errors"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/sshsign"
)

// An Era is a time in a history during which the same policy, signers and
// revocations count. It begins with the commit that changed them and that was
// accepted; a change that is refused begins none, whatever the trees say from
// then on.
//
// After a commit the era of its parent holds, or its own. A merge follows the
// parent that knows more eras, the first if they are equal: so a branch that
// began before a key was taken out does not bring it back. Commits that a
// merge brings are judged by what held on the side that it follows, as those
// of a push are by what held before the push. Where two sides trust different
// people and neither knows of the other, nobody is trusted until somebody whom
// both trust has signed the merge, or a later change. From then on both sides are
// known: what comes later from one of them is merged as an older side is.
type Era struct {
	From   int    // the era before, -1 if this is the first
	Joins  []int  `json:",omitempty"` // those of all its sides, if a merge of torn histories began it
	Commit string // that began it, "" for the first, in which nobody is trusted
	Files  policy.Accepted
	Torn   []int // the eras of the sides that trust different people; nil: none
}

// ErasFrom are the eras of a history of which all that came before counts as
// accepted: one, with the files of that tree.
func ErasFrom(tree string) []Era { return []Era{{From: -1, Files: policy.Accepted{Tree: tree}}} }

// eras are those of one range.
type eras struct {
	list   []Era
	sets   []*ruleSet // of list, once they were asked for
	of     []int32    // by commit, the era that holds after it
	bounds []int32    // the same for the bounds
	main   []int32    // by commit, which parent it follows
	torn   map[int32]bool
	by     []int32 // by commit, the era that judges it, -1 for that of the parent it follows; nil in the first pass
}

// A ruleSet is what counts in an era.
type ruleSet struct {
	policy *policy.Policy
	trust  *policy.Trust
}

// beginEras finds the eras of what lies just outside the range.
func (ps *pass) beginEras(ctx context.Context) error {
	e := &ps.eras
	if e.by != nil {
		return nil
	}
	if e.list = slices.Clone(ps.Eras); ps.erasOf != nil {
		var err error
		if e.list, ps.heldAt, err = ps.erasOf(ps.walk.bounds); err != nil {
			return err
		}
	} else if len(e.list) == 0 {
		e.list = []Era{{From: -1}}
	}
	e.sets = make([]*ruleSet, len(e.list))
	e.of, e.main, e.torn = make([]int32, ps.walk.len()), make([]int32, ps.walk.len()), map[int32]bool{}
	e.bounds = make([]int32, len(ps.walk.bounds))
	for i, b := range ps.walk.bounds {
		if n, known := ps.heldAt[b.id]; known {
			e.bounds[i] = n
			continue
		}
		if len(ps.rng.Exclude) == 1 && b.id == ps.rng.Exclude[0] && ps.Held > 0 && ps.Held < len(e.list) {
			e.bounds[i] = int32(ps.Held)
			continue
		}
		for n := len(e.list) - 1; n > 0; n-- {
			within := e.list[n].Commit == b.id
			if !within {
				var err error
				if within, err = ps.Repo.IsAncestor(ctx, e.list[n].Commit, b.id); err != nil {
					return err
				}
			}
			if within && (e.bounds[i] == 0 || e.knows(int32(n), e.bounds[i])) {
				e.bounds[i] = int32(n)
			}
			if within && e.linear() {
				break
			}
		}
	}
	return nil
}

// linear reports whether each era follows the one before it in the list.
func (e *eras) linear() bool {
	for i, era := range e.list {
		if era.From != i-1 {
			return false
		}
	}
	return true
}

// knows reports whether era b came before era a, on whatever side, or is it.
func (e *eras) knows(a, b int32) bool {
	for a > b && e.list[a].Joins == nil {
		a = int32(e.list[a].From)
	}
	if a <= b {
		return a == b
	}
	known := map[int]bool{int(a): true}
	for ; a > b; a-- {
		if era := e.list[a]; known[int(a)] {
			known[era.From] = true
			for _, n := range era.Joins {
				known[n] = true
			}
		}
	}
	return known[int(b)]
}

// after returns the era that holds after a commit or a bound.
func (e *eras) after(n int32) int32 {
	if n < 0 {
		return e.bounds[^n]
	}
	return e.of[n]
}

// set returns what counts in an era.
func (ps *pass) set(era int32) (*ruleSet, error) {
	e := &ps.eras
	if e.sets[era] == nil {
		s := &ruleSet{}
		var err error
		if s.policy, s.trust, err = e.list[era].Read(ps.OfTheTime); err != nil {
			return nil, err
		}
		e.sets[era] = s
	}
	return e.sets[era], nil
}

// Read reads what counts in an era.
func (e Era) Read(read func(policy.Accepted) (*policy.Policy, *policy.Trust, error)) (*policy.Policy, *policy.Trust, error) {
	p, t, err := read(e.Files)
	if err == nil && e.Torn != nil {
		t = policy.NewTrust("", func() ([]byte, []policy.RevocationFile, error) {
			return nil, nil, e.torn()
		})
	}
	return p, t, err
}

var errTorn = errors.New("two sides trust different people")

func (e Era) torn() error {
	return &policy.Undecided{
		Message: "commit " + finding.Short(e.Commit) + " joins two histories that trust different signers, and nobody whom both trust has signed it",
		Hint:    "let somebody whom both sides trust commit the signers file again: git commit -S",
		Cause:   errTorn,
	}
}

// ofTheTime gives a commit the policy and the trust that held before it.
func (ps *pass) ofTheTime(c *commit) error {
	if c.obj == nil || ps.OfTheTime == nil {
		return nil
	}
	e := &ps.eras
	parents := ps.walk.parents(c.n)
	if e.by == nil {
		e.follow(c.n, parents)
	}
	before := int32(0)
	if len(parents) > 0 {
		c.main = int(e.main[c.n])
		before = e.after(parents[c.main])
	}
	own, err := ps.set(before)
	if err != nil {
		return err
	}
	c.moves = e.torn[c.n] || slices.ContainsFunc(c.diffs[c.main].Changes, func(ch gitrepo.Change) bool { return own.policy.Guards(ch.Path) })
	if e.by != nil && e.by[c.n] >= 0 {
		if own, err = ps.set(e.by[c.n]); err != nil {
			return err
		}
	}
	c.policy, c.trust = own.policy, own.trust
	return nil
}

// follow finds the parent that a commit follows.
func (e *eras) follow(n int32, parents []int32) {
	if len(parents) == 0 {
		return
	}
	main := 0
	for i, p := range parents {
		if a, b := e.after(p), e.after(parents[main]); a != b && e.knows(a, b) {
			main = i
		}
	}
	for _, p := range parents {
		if !e.knows(e.after(parents[main]), e.after(p)) {
			main, e.torn[n] = 0, true
			break
		}
	}
	e.main[n], e.of[n] = int32(main), e.after(parents[main])
}

// authority are the rules that say whether a commit may change who is trusted.
var authority = []string{"commit-signed", "signer-identity", "signers-change", "quorum"}

// passed begins a new era after a commit that changed who is trusted and was
// accepted.
func (ps *pass) passed(c *commit) error {
	e := &ps.eras
	if ps.OfTheTime == nil || c.obj == nil || !c.moves || e.by != nil {
		return nil
	}
	before := e.of[c.n]
	torn := e.list[before].Torn
	var joins []int
	if e.torn[c.n] {
		parents := ps.walk.parents(c.n)
		torn = e.sides(parents)
		for _, p := range parents {
			joins = append(joins, int(e.after(p)))
		}
	}
	accepted := !c.refused
	if torn != nil {
		var err error
		if accepted, err = ps.agreed(c, torn); err != nil {
			return err
		}
		if !accepted && e.torn[c.n] {
			e.begin(c, Era{From: int(before), Joins: joins, Commit: c.id, Files: e.list[before].Files, Torn: torn})
		}
	} else if c.trust.Exists() {
		_, _, err := c.trust.Signers()
		accepted = accepted && err == nil
	}
	if !accepted {
		return nil
	}
	files, err := ps.acceptedIn(c, before)
	if err != nil {
		return err
	}
	e.begin(c, Era{From: int(before), Joins: joins, Commit: c.id, Files: files})
	return nil
}

// sides returns the eras that a merge of torn histories joins.
func (e *eras) sides(parents []int32) (torn []int) {
	for _, p := range parents {
		side := e.after(p)
		if e.list[side].Torn == nil {
			torn = append(torn, int(side))
		}
		torn = append(torn, e.list[side].Torn...)
	}
	return torn
}

// acceptedIn names the files of the era that an accepted commit begins: those of
// its tree, save what a refused commit of the era before had put there and it
// did not change.
func (ps *pass) acceptedIn(c *commit, before int32) (policy.Accepted, error) {
	files := policy.Accepted{Tree: c.obj.Tree}
	own, err := ps.set(before)
	if err != nil {
		return files, err
	}
	for _, path := range own.policy.TrustPaths() {
		if touches(c.diffs[c.main].Changes, path) {
			continue
		}
		was, err := ps.eras.list[before].Files.Entry(ps.Repo, path)
		if err != nil {
			return files, err
		}
		is, _, err := ps.Repo.EntryAt(c.obj.Tree, path)
		if err != nil {
			return files, err
		}
		if was != is {
			if files.Kept == nil {
				files.Kept = map[string]gitrepo.TreeEntry{}
			}
			files.Kept[path] = was
		}
	}
	return files, nil
}

func (e *eras) begin(c *commit, era Era) {
	e.of[c.n] = int32(len(e.list))
	e.list, e.sets = append(e.list, era), append(e.sets, nil)
}

// Latest returns the number of the era that holds after the range that was
// judged last, 0 for the first one.
func (j *Judge) Latest() int { return j.latest }

func (ps *pass) latest() int {
	if n := ps.walk.len(); n > 0 && ps.OfTheTime != nil {
		return int(ps.eras.of[n-1])
	}
	return 0
}

// Strayed reports whether the history that was judged last follows another line
// than that of the commit which its range excludes: a merge follows a side that
// knows more eras. Commits that were judged before are then to be judged anew.
func (j *Judge) Strayed() bool { return j.strayed }

func (ps *pass) strays() bool {
	if len(ps.eras.list) < 2 || len(ps.rng.Exclude) != 1 || ps.walk.len() == 0 {
		return false
	}
	n := int32(ps.walk.len() - 1)
	for n >= 0 {
		parents := ps.walk.parents(n)
		if len(parents) == 0 {
			return true
		}
		n = parents[ps.eras.main[n]]
	}
	return ps.walk.bounds[^n].id != ps.rng.Exclude[0]
}

// Moved reports whether the policies of the history that was judged last take different
// paths for envelopes. What was brought under one of them is then known to later
// commits that are judged apart, and not to those that are judged together with it.
func (j *Judge) Moved() bool { return j.moved }

func (ps *pass) moved() bool {
	scope := ""
	for n := range ps.eras.list {
		set, err := ps.set(int32(n))
		if err != nil {
			return true // it is not known
		}
		if this := indexScope(set.policy); n == 0 {
			scope = this
		} else if this != scope {
			return true
		}
	}
	return false
}

// agreed reports whether everybody who is trusted in one of the eras trusts who
// signed a commit.
func (ps *pass) agreed(c *commit, torn []int) (bool, error) {
	for _, era := range torn {
		set, err := ps.set(int32(era))
		if err != nil {
			return false, err
		}
		s, r, err := set.trust.Signers()
		if err != nil {
			return false, nil // who is trusted there cannot be read
		}
		v := sshsign.VerifyCommit(c.obj.Raw, ps.format(), s, r, sshsign.Options{MinRSABits: set.policy.MinRSABits})
		if !v.Speaks(c.obj.Committer.Email) {
			return false, nil
		}
	}
	return true, nil
}

// settle finds out, when all eras are known, by which each commit is to be
// judged; again reports whether some were judged by another one.
func (e *eras) settle(w *walk) (again bool) {
	if e.by != nil || len(e.list) == 1 || w.len() == 0 {
		return false
	}
	// The line that is followed, from its end back.
	var line []int32
	for n := int32(w.len() - 1); n >= 0; {
		line = append(line, n)
		parents := w.parents(n)
		if len(parents) == 0 {
			break
		}
		n = parents[e.main[n]]
	}
	by, seen := slices.Repeat([]int32{-1}, w.len()), make([]bool, w.len())
	for _, tip := range slices.Backward(line) {
		seen[tip] = true
		parents := w.parents(tip)
		if len(parents) < 2 {
			continue
		}
		main := parents[e.main[tip]]
		judges, torn := e.after(main), e.torn[tip] && e.list[e.of[tip]].Torn != nil
		if torn {
			judges = e.of[tip]
			for n := range tip { // what not all sides have
				if w.ancestor(n, tip) && slices.ContainsFunc(parents, func(p int32) bool { return n != p && (p < 0 || !w.ancestor(n, p)) }) {
					seen[n], by[n] = true, judges
				}
			}
		}
		for todo := slices.Clone(parents); len(todo) > 0; {
			n := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if n < 0 || seen[n] {
				continue
			}
			seen[n], by[n] = true, judges
			todo = append(todo, w.parents(n)...)
		}
	}
	for n := range int32(w.len()) {
		used := int32(0)
		if parents := w.parents(n); len(parents) > 0 {
			used = e.after(parents[e.main[n]])
		}
		again = again || by[n] >= 0 && by[n] != used
	}
	if again {
		e.by = by
	}
	return again
}

// moves reports whether what comes after a commit may be judged by what it brings.
func (ps *pass) moves(c *commit) bool { return c.moves && ps.eras.by == nil }
