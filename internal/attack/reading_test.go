package attack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/test/testkeys"
)

// reads says what of a push to the default branch is refused as its history is read
// (docs/spec/policy.md#of-the-push). A line of commits is judged one after the other, as if
// each had been pushed alone. Of merges, the audit says it: merged reports that it must be
// asked.
func (b *book) reads(v *verdict, updates []mupdate, now int64) (merged bool) {
	r := b.trust()
	u := b.ofHead(updates)
	if r.policyBad || v.undecided != "" || zero(u.new) {
		return false
	}
	if u.ref != b.head || !b.guards(r, u.ref) || u.old != b.tips[b.head] || zero(u.old) {
		return false
	}
	before := b.history(u.old)
	var line []string
	for id := range b.history(u.new) {
		c := b.commit(id)
		if before[id] {
			continue
		}
		if c == nil {
			return false
		}
		for i := range c.parents {
			if b.moves(r, c, i) {
				merged = true
			}
		}
	}
	if !merged {
		return false
	}
	for id := u.new; id != u.old; {
		c := b.commit(id)
		if len(c.parents) != 1 {
			return true
		}
		line = append(line, id)
		id = c.parents[0]
	}
	tip := b.tips[b.head]
	defer func() { b.tips[b.head] = tip }()
	for _, id := range slices.Backward(line) {
		at := b.tips[b.head]
		if at != tip {
			one := b.judge([]mupdate{{at, id, b.head}}, now)
			for rule := range one.rules {
				v.add(rule)
			}
			v.where = append(v.where, one.where...)
			if one.undecided != "" {
				v.cannot(one.undecided)
			}
		}
		if !v.pass() {
			v.odd = true // what a refused change changes is another question
			return false
		}
		b.tips[b.head] = id
	}
	return false
}

// ofHead is what a push makes of the default branch; nothing, if it leaves that alone.
func (b *book) ofHead(updates []mupdate) (of mupdate) {
	of.new = strings.Repeat("0", 40)
	for _, u := range updates {
		if u.ref = b.target(u.ref); u.ref == b.head {
			of = u
		}
	}
	return of
}

// moves reports whether a commit changes who is trusted, against a parent.
func (b *book) moves(r mrules, c *mcommit, i int) bool {
	old := b.files(c.parents[i])
	return slices.ContainsFunc(r.trustedPath, func(q string) bool { return old[q] != c.tree[q] })
}

// fresh is what an audit of a commit finds that one of the commit before did not; of what
// cannot be decided, the error. ok is false where that could not be audited either.
func (p *player) fresh(old, tip string) (found []string, ok bool) {
	was, err := p.audit(old, 0)
	if err != nil {
		return nil, false
	}
	now, err := p.audit(tip, 0)
	if err != nil {
		return []string{err.Error()}, true
	}
	known := map[string]bool{}
	for _, f := range was.Findings {
		known[f.Rule+" "+f.Commit+" "+f.Path] = true
	}
	for _, f := range now.Findings {
		if text := f.Rule + " " + f.Commit + " " + f.Path; f.Severity.String() == "error" && !known[text] {
			found = append(found, text)
		}
	}
	return found, true
}

// asRead compares what the hook says of a push that changes who is trusted with what is
// read of it afterwards: it accepts just what the model and the audit accept.
func (p *player) asRead(updates []mupdate, v *verdict, a answer, merged bool) string {
	if !merged || a.code == 2 {
		return ""
	}
	if !v.pass() { // the second pass may tell more
		for rule := range a.rules {
			v.may[rule] = true
		}
		return ""
	}
	u := p.book.ofHead(updates)
	found, ok := p.fresh(u.old, u.new)
	switch {
	case !ok && a.code == 0:
		return ""
	case !ok:
	case a.code == 0 && len(found) > 0:
		return fmt.Sprintf("the hook takes what an audit refuses: %q", found)
	case a.code != 0 && len(found) == 0 && !strings.Contains(a.text, "joins two histories"):
		return "the hook refuses what model and audit take"
	case a.code == 0:
		return p.readers(updates)
	}
	v.rules["signers-change"] = true // and what else is told is another question
	v.odd = true
	return ""
}

// inThePush changes policy or signers between what else comes.
func (p *player) inThePush() []mupdate {
	p.did("push: a policy in the middle")
	id, o := p.main(), p.inRepo()
	key := func() *testkeys.Key {
		return pick(p.world, p.speaker("op@example.com"), p.speaker("op@example.com"), keyA, keyNext, nil)
	}
	for range 2 + p.rng.IntN(4) {
		p.serial++
		switch p.rng.IntN(8) {
		case 0:
			o = p.vary(o)
			id = p.commitOn(id, p.speaker("op@example.com"), func(t tree) { p.put(t, policyFile, render(o)) })
		case 1, 2:
			o.requireAll = !o.requireAll
			id = p.commitOn(id, p.speaker("op@example.com"), func(t tree) { p.put(t, policyFile, render(o)) })
		case 3:
			id = p.commitOn(id, p.speaker("op@example.com"), func(t tree) { p.put(t, o.signers, p.signersText()) })
		case 4:
			k := key()
			d := &draft{parents: []string{id}, tree: p.copy(id), key: k, when: max(p.dates[id]+1, p.now-20)}
			if k == nil {
				k = keyA
			}
			p.put(d.tree, p.path(fmt.Sprintf("t-one/M-%d.md", p.serial)), p.relay("t-one", bodyHash("Is the release ready?\n"), d.when, k).text())
			id = p.keep(d)
		default:
			id = p.commitOn(id, key(), func(t tree) {
				p.put(t, p.path(fmt.Sprintf("t-one/M-%d.md", p.serial)), p.request("t-one", "Middle\n").text())
			})
		}
	}
	return p.to("refs/heads/main", id)
}

// onASide changes policy or signers on a side that begins some commits ago, and merges it.
func (p *player) onASide() []mupdate {
	base := p.main()
	from := base
	for range 1 + p.rng.IntN(4) {
		if c := p.book.commit(from); c != nil && len(c.parents) > 0 && p.book.commit(c.parents[0]) != nil {
			from = c.parents[0]
		}
	}
	p.did("push: a policy on a side")
	o := p.inRepo()
	file, text := policyFile, ""
	switch p.rng.IntN(3) {
	case 0:
		o.requireAll = !o.requireAll
		text = render(o)
	case 1:
		text = render(p.vary(o))
	default:
		file, text = o.signers, p.signersText()
	}
	key := p.speaker("op@example.com")
	side := p.commitOn(from, key, func(t tree) { p.put(t, file, text) })
	if p.one(3) {
		p.serial++
		side = p.commitOn(side, pick(p.world, nil, key), func(t tree) {
			p.put(t, p.path(fmt.Sprintf("t-one/A-%d.md", p.serial)), p.request("t-one", "Aside\n").text())
		})
	}
	d := &draft{parents: []string{base, side}, tree: p.copy(base), key: pick(p.world, key, key, p.speaker("op@example.com"), nil)}
	for q, e := range p.trees[side] {
		if _, ok := d.tree[q]; !ok {
			d.tree[q] = e
		}
	}
	if !p.one(4) {
		d.tree[file] = p.trees[side][file]
	}
	if p.one(2) {
		d.parents = []string{side, base}
	}
	return p.to("refs/heads/main", p.keep(d))
}

// onlyGates are rules that an audit cannot know enough for: the clock of the server, and
// the refs of a push (as relay-nonce, where other refs count).
var onlyGates = []string{"fast-forward", "commit-clock", "other-refs", "push-cert"}

// missed says which rules that the hook has told of a push to main an audit of the same
// history does not find.
func (p *player) missed(updates []mupdate, a answer, merged bool) string {
	if len(updates) != 1 || updates[0].ref != "refs/heads/main" || p.trees[updates[0].new] == nil || a.code != 1 || merged {
		return ""
	}
	rep, err := p.audit(updates[0].new, 0)
	if err != nil {
		return ""
	}
	found := map[string]bool{}
	for _, f := range rep.Findings {
		found[f.Rule] = true
	}
	// By which ref a commit came is in no history (docs/spec/tombstone.md).
	elsewhere := strings.Contains(a.text, "a tombstone that does not count: it is for the ref ")
	for rule := range a.rules {
		if elsewhere && rule == "append-only" {
			continue
		}
		if !found[rule] && !slices.Contains(onlyGates, rule) && (rule != "relay-nonce" || !p.book.trust().p.nonceRefs) {
			return "an audit does not find " + rule
		}
	}
	return ""
}
