package policy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/relay"
)

// relays judges the attestation of the relays that a commit brings, by
// spec/relay.md section 4, and collects what is looked up when the range is
// whole: nonces and references.
func (j *Judge) relays(ctx context.Context, r Range, c *commit) error {
	if c.obj != nil {
		if err := j.collect(r, c); err != nil {
			return err
		}
	}
	for _, e := range c.entries {
		if e.env != nil && e.env.Nonce != "" && j.Nonces != nil && len(j.brought) < maxBrought {
			j.brought = append(j.brought, history.Hit{Path: e.path, Blob: e.blob, Commit: c.id})
			j.nonced = append(j.nonced, e.env.Nonce)
		}
		if e.env == nil || !e.judged || !e.added || !e.env.Valid() && c.policy.Level(envelope.RuleSchema) == finding.Error {
			continue // nothing to judge, or told by another rule
		}
		if err := j.frozen(ctx, r, c, e); err != nil {
			return err
		}
		if !e.env.IsRelay() {
			continue
		}
		add := func(rule, key, message, hint string) {
			line, col := e.env.Place(key)
			j.add(c.policy, finding.Finding{Rule: rule, Severity: finding.Error, Path: e.path, Line: line, Col: col, Commit: c.id, Ref: r.Ref, Message: message, Hint: hint})
		}
		if c.obj != nil {
			j.relayCommit(c, e, add)
		}
		if err := j.relayReply(c, e, add); err != nil {
			return err
		}
		if c.obj != nil && e.env.Conforms("nonce") && relay.ValidNonce(e.env.Nonce) {
			line, col := e.env.Place("nonce")
			j.uses = append(j.uses, nonceUse{nonce: e.env.Nonce, path: e.path, blob: e.blob, commit: c.n, line: line, col: col, policy: c.policy})
		}
	}
	return nil
}

// relayCommit judges relay-commit, relay-author, relay-key and relay-clock.
func (j *Judge) relayCommit(c *commit, e *entry, add func(rule, key, message, hint string)) {
	const alone = "rig-bridge relay commits a relay alone; take this commit apart"
	switch n := len(c.diffs[0].Changes); {
	case len(c.parents) > 1:
		add("relay-commit", "from", "a relay is added by a merge commit", alone)
	case n > 1 && c.attested > 1:
		add("relay-commit", "from", fmt.Sprintf("the commit brings %d relays, expected one", c.attested), alone)
	case n > 1:
		add("relay-commit", "from", "the commit changes other paths besides the relay ("+strconv.Itoa(n-1)+"), expected none", alone)
	}
	if v := c.verdict; v != nil && v.Good() {
		who := func(i gitrepo.Ident) relay.Person { return relay.Person{Name: i.Name, Email: i.Email} }
		if why := relay.Author(who(c.obj.Author), who(c.obj.Committer), v.Speaks, c.policy.DeniedAuthors); why != "" {
			add("relay-author", "from", why, "the operator commits it under their own name: rig-bridge relay")
		}
		if e.env.Conforms("attested_by") {
			switch relay.NamesKey(e.env.AttestedBy, v.Key) {
			case relay.OtherKey:
				add("relay-key", "attested_by", "attested_by does not name the key that signed, "+v.Fingerprint, "attested_by: "+v.Fingerprint)
			case relay.NoKey:
				line, col := e.env.Place("attested_by")
				j.add(c.policy, finding.Finding{Rule: "relay-key", Severity: c.policy.PathKey, Path: e.path, Line: line, Col: col, Commit: c.id,
					Message: "attested_by is a path, which names no key; the key that signed is " + v.Fingerprint, Hint: "attested_by: " + v.Fingerprint})
			}
		}
	}
	if e.env.Conforms("attested_at") {
		if at, _, err := envelope.ParseTime(e.env.AttestedAt); err == nil {
			if why := relay.Clock(at, committed(c.obj), c.policy.RelayClock); why != "" {
				add("relay-clock", "attested_at", why, "relay again: rig-bridge relay")
			}
		}
	}
}

// answered tells whether in_reply_to is the body hash of an envelope of the
// same thread in the history of the commit (spec/relay.md section 6).
func (j *Judge) answered(c *commit, e *entry) (bool, error) {
	t, err := j.thread(c.policy, e.thread)
	if err != nil {
		return false, err
	}
	for f := range t.withHash(hashOf(e.env.InReplyTo)) {
		if c.obj != nil && f.commit == c.n {
			break // its own come last
		}
		if j.before(c, f) {
			return true, nil
		}
	}
	return false, nil
}

func (j *Judge) relayReply(c *commit, e *entry, add func(rule, key, message, hint string)) error {
	if !e.env.Conforms("in_reply_to") {
		return nil // absent or malformed: told by relay-fields, envelope-schema
	}
	found, err := j.answered(c, e)
	if found || err != nil {
		return err
	}
	cut, err := j.cut()
	if err != nil {
		return err
	}
	if cut {
		return &Undecided{
			Message: "whether the turn that " + finding.Quote(e.path) + " answers is in the history cannot be known: the history is cut",
			Hint:    "git fetch --unshallow (in a GitHub workflow: fetch-depth: 0)",
		}
	}
	add("relay-reply", "in_reply_to", "no earlier envelope of the thread has this body hash", "rig-bridge thread "+e.thread+" --json lists the hashes")
	return nil
}

// A nonceUse is a nonce that the range brings.
type nonceUse struct {
	nonce, path, blob string
	commit            int32 // in the walk
	line, col         int
	policy            *Policy
	told              bool // that the nonce was used before
}

// maxSameNonce is with how many others of the range each use of a nonce is
// compared.
const maxSameNonce = 16

// maxBrought is how many nonces of a push the index takes over from it. A push
// with more is read when the next one asks.
const maxBrought = 1 << 16

// nonces judges that each nonce of the range is unique in the history of the
// new tip, or of all protected refs (spec/relay.md section 3).
func (j *Judge) nonces(ctx context.Context, r Range) error {
	uses := j.uses
	j.uses = nil
	tips := j.walk.boundIDs()
	if j.Nonces != nil {
		defer func() {
			if len(j.brought) < maxBrought {
				j.Nonces.Advance(r.New, tips, j.brought, j.nonced)
			}
		}()
	}
	if len(uses) == 0 {
		return nil
	}
	add := func(u nonceUse, path, commit string) {
		where := finding.Quote(path)
		if commit != "" {
			where += " of commit " + short(commit)
		}
		j.add(u.policy, finding.Finding{Rule: "relay-nonce", Severity: finding.Error, Path: u.path, Line: u.line, Col: u.col, Commit: j.walk.id(u.commit), Ref: r.Ref,
			Message: "the nonce was used before, by " + where, Hint: "relay again with a fresh nonce: rig-bridge relay"})
	}
	if r.Policy.NonceRefs {
		for _, u := range uses {
			j.claims = append(j.claims, claim{u, r.Ref, j.walk.id(u.commit)})
		}
	}
	byNonce := map[string][]*nonceUse{}
	tell := func(u, other *nonceUse) {
		if !u.told { // once, however many others there are
			u.told = true
			add(*u, other.path, j.walk.id(other.commit))
		}
	}
	for i := range uses {
		u := &uses[i]
		for _, other := range byNonce[u.nonce] {
			if other.path == u.path && other.blob == u.blob {
				continue // one envelope that two branches brought
			}
			tell(u, other)
			if !j.walk.ancestor(other.commit, u.commit) {
				tell(other, u)
			}
		}
		if len(byNonce[u.nonce]) < maxSameNonce {
			byNonce[u.nonce] = append(byNonce[u.nonce], u)
		}
	}
	if j.Nonces == nil && j.Used != nil {
		found, err := j.Used(sortedKeys(byNonce))
		if err != nil {
			return err
		}
		tellUses(uses, found, add)
	}
	if j.Nonces == nil {
		return nil
	}
	all := slices.Concat(tips, r.NonceTips)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return nil
	}
	found, err := j.Nonces.Find(ctx, sortedKeys(byNonce), all)
	if err != nil {
		return err
	}
	tellUses(uses, found, add)
	return nil
}

func tellUses(uses []nonceUse, found map[string][]history.Hit, add func(u nonceUse, path, commit string)) {
	for _, u := range uses {
		for _, hit := range found[u.nonce] {
			if hit.Path != u.path || hit.Blob != u.blob {
				add(u, hit.Path, hit.Commit)
				break
			}
		}
	}
}

// A claim is a nonce that must be new among all protected refs.
type claim struct {
	nonceUse
	ref, id string // of what brings it
}

// Claim takes the nonces that the ranges bring, where they must be new among all
// protected refs, before any of these moves: two pushes at the same instant do
// not see each other's. dir is where claims are kept. An error means that it is
// not known whether another push takes them.
func (j *Judge) Claim(dir string) error {
	if len(j.claims) == 0 {
		return nil
	}
	of := map[history.Claim]claim{}
	var all []history.Claim
	for _, c := range j.claims {
		h := history.Claim{Nonce: c.nonce, Path: c.path, Blob: c.blob}
		if _, known := of[h]; !known {
			of[h] = c
			all = append(all, h)
		}
	}
	taken, err := history.Take(dir, j.Now, all)
	if err != nil {
		return &Undecided{Message: "whether another push uses the same nonce at this moment cannot be known: the claims of nonces cannot be written",
			Hint: "let the user of the hooks write to " + finding.Path(dir), Cause: err}
	}
	for _, h := range taken {
		c := of[h]
		j.add(c.policy, finding.Finding{Rule: "relay-nonce", Severity: finding.Error, Path: c.path, Line: c.line, Col: c.col, Commit: c.id, Ref: c.ref,
			Message: "another push uses the nonce at this moment, for another envelope", Hint: "relay again with a fresh nonce: rig-bridge relay"})
	}
	return nil
}

// frozen judges relay-frozen (spec/relay.md section 8): nothing but ACKs and
// the freezer's own words enters a thread while a freeze holds.
func (j *Judge) frozen(ctx context.Context, r Range, c *commit, e *entry) error {
	if c.policy.Level("relay-frozen") == finding.Off || e.env.Type == "ACK" {
		return nil
	}
	freezes, err := j.freezes(c, e.thread)
	if err != nil {
		return err
	}
	var holds *freeze
	for i := range freezes {
		z := &freezes[i]
		if z.from == e.env.From {
			continue
		}
		if err := j.hold(ctx, c, e.thread, z); err != nil {
			return err
		}
		if z.holds {
			holds = z
			break
		}
	}
	if holds == nil {
		return nil
	}
	line, col := e.env.Place("type")
	j.add(c.policy, finding.Finding{Rule: "relay-frozen", Severity: finding.Error, Path: e.path, Line: line, Col: col, Commit: c.id, Ref: r.Ref,
		Message: fmt.Sprintf("%s froze the thread with %s until %s", finding.QuoteMax(holds.from, 60), finding.Quote(holds.path), holds.until.UTC().Format(time.RFC3339)),
		Hint:    "wait for the decision, or send an ACK"})
	return nil
}

// A freeze is a fact that freezes its thread, as a commit sees it.
type freeze struct {
	*fact
	until        time.Time
	asked, holds bool // holds says nothing before it was asked for
}

// freezes returns what may freeze a thread when c comes, the longest first.
func (j *Judge) freezes(c *commit, name string) ([]freeze, error) {
	if list, known := c.freezes[name]; known {
		return list, nil
	}
	t, err := j.thread(c.policy, name)
	if err != nil {
		return nil, err
	}
	now := j.Now
	if c.obj != nil && !j.Gate.server() {
		now = committed(c.obj)
	}
	var list []freeze
	for _, z := range t.facts {
		if !z.freezes {
			continue
		}
		if end := z.more.attested.Add(time.Duration(c.policy.FreezeMinutes) * time.Minute); !now.After(end) {
			list = append(list, freeze{fact: z, until: end})
		}
	}
	slices.SortStableFunc(list, func(a, b freeze) int { return b.until.Compare(a.until) })
	if c.freezes == nil {
		c.freezes = map[string][]freeze{}
	}
	c.freezes[name] = list
	return list, nil
}

// hold finds out, once, whether a freeze holds for c: it lies in its history,
// and no thaw of it does.
func (j *Judge) hold(ctx context.Context, c *commit, name string, z *freeze) error {
	if z.asked {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if z.asked = true; !j.before(c, z.fact) {
		return nil
	}
	t, err := j.thread(c.policy, name)
	if err != nil {
		return err
	}
	thawed, err := j.thawed(ctx, c, t, z.fact)
	z.holds = !thawed
	return err
}

// thawed tells whether the history of c holds a relay by the same sender that
// is no freeze and knew z.
func (j *Judge) thawed(ctx context.Context, c *commit, t *thread, z *fact) (bool, error) {
	for _, f := range t.facts {
		if !f.valid || !f.relay || f.freezes || f.from != z.from {
			continue
		}
		if !j.before(c, f) {
			continue
		}
		if knew, err := j.after(ctx, f, z); knew || err != nil {
			return knew, err
		}
	}
	return false, nil
}

// after tells whether z is in the history of the commit that brought f.
func (j *Judge) after(ctx context.Context, f, z *fact) (bool, error) {
	switch {
	case f.commit >= 0 && z.commit >= 0:
		return j.walk.ancestor(z.commit, f.commit), nil
	case f.commit < 0 && z.commit >= 0:
		return false, nil // f was there before the range, z came with it
	case f.commit < 0:
		// A freeze that counts is young, f may be as old as the history: what
		// was there when z came did not come after it.
		with, err := j.broughtBy(ctx, z)
		if err != nil {
			return false, err
		}
		c, err := j.Repo.Commit(with)
		if err != nil {
			return false, err
		}
		if older, err := j.present(f, c.Tree); older || err != nil {
			return false, err
		}
	}
	from := ""
	if f.commit >= 0 {
		from = j.walk.id(f.commit)
	} else {
		var err error
		if from, err = j.broughtBy(ctx, f); err != nil {
			return false, err
		}
	}
	gc, err := j.Repo.Commit(from)
	if err != nil {
		return false, err
	}
	for _, p := range gc.Parents {
		pc, err := j.Repo.Commit(p)
		if err != nil {
			return false, err
		}
		if ok, err := j.present(z, pc.Tree); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// broughtBy finds, once, the commit outside the range that brought a fact's
// path. It walks back from the range, and is used only for what is recent.
func (j *Judge) broughtBy(ctx context.Context, f *fact) (string, error) {
	if f.detail().brought != "" {
		return f.more.brought, nil
	}
	tips := j.walk.boundIDs()
	slices.Sort(tips)
	for rev, err := range j.Repo.RevList(ctx, tips, nil, gitrepo.RevListOptions{}) {
		if err != nil {
			return "", err
		}
		c, err := j.Repo.Commit(rev.ID)
		if err != nil {
			return "", err
		}
		if ok, err := j.present(f, c.Tree); err != nil || !ok {
			if err != nil {
				return "", err
			}
			continue
		}
		first := true
		for _, p := range rev.Parents {
			pc, err := j.Repo.Commit(p)
			if err != nil {
				return "", err
			}
			ok, err := j.present(f, pc.Tree)
			if err != nil {
				return "", err
			}
			first = first && !ok
		}
		if first {
			f.more.brought = rev.ID
			return rev.ID, nil
		}
	}
	return "", &Undecided{Message: "the commit that brought " + finding.Quote(f.path) + " is not in the history"}
}
