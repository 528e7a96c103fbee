package attack

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
)

// Tombstones, by docs/spec/tombstone.md alone.

// An mstone is what a body says that begins as a tombstone's.
type mstone struct {
	whole                                  bool // it says all that a tombstone does
	path, replaces, repo, ref, by, at, why string
	text                                   string // of the body, without approvals
	approvals                              []string
}

const stoneHead, stoneEnd = "rigward tombstone 1\n", "\nThe body of this message was taken out. The history, and clones of before, still have it:\na key or a token in it has to be replaced.\n"

var stoneRe = regexp.MustCompile(`^rigward tombstone 1\n\npath: (.*)\nreplaces: (.*)\nrepository: (.*)\nref: (.*)\nby: (.*)\nat: (.*)\nwhy: (.*)\n` + stoneEnd)

// armorRe is the form of an armored signature, as ssh-keygen writes it.
var armorRe = regexp.MustCompile(`^-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/]{70}\n)*[A-Za-z0-9+/=]{1,70}\n-----END SSH SIGNATURE-----\n$`)

func readStone(body string) *mstone {
	if !strings.HasPrefix(body, stoneHead) {
		return nil
	}
	f := stoneRe.FindStringSubmatch(body)
	if f == nil {
		return &mstone{}
	}
	s := &mstone{true, f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[0], nil}
	rest := body[len(f[0]):]
	if rest == "" {
		return s
	}
	if rest[0] != '\n' {
		return &mstone{}
	}
	s.approvals = strings.SplitAfter(rest[1:], "-----END SSH SIGNATURE-----\n")
	if n := len(s.approvals); s.approvals[n-1] == "" {
		s.approvals = s.approvals[:n-1]
	}
	return s
}

func (s *mstone) body() string {
	return fmt.Sprintf("%s\npath: %s\nreplaces: %s\nrepository: %s\nref: %s\nby: %s\nat: %s\nwhy: %s\n%s", stoneHead, s.path, s.replaces, s.repo, s.ref, s.by, s.at, s.why, stoneEnd)
}

// stoneText is the whole file, without approvals, in the place of a message.
func stoneText(old *menv, s *mstone) string {
	text := "---\n"
	for _, key := range []string{"from", "to", "date", "status", "type", "thread", "in_reply_to"} {
		v, ok := old.v[key]
		if key == "status" {
			v = string([]rune(v)[:1]) + " Expunged"
		}
		if ok {
			text += key + ": " + v + "\n"
		}
	}
	return text + "body_hash: " + old.hash + "\n---\n" + s.body()
}

// buries reads the tombstone by which one entry of a path replaces another; nil if
// it is none in form.
func (b *book) buries(p mpolicy, q string, old, now mentry) *mstone {
	if old.mode != "100644" || now.mode != "100644" || p.thread(q) == "" {
		return nil
	}
	was, env := b.whole(old.id), b.whole(now.id)
	s := env.stone
	if !env.parses || s == nil || !s.whole || s.path != q || !was.parses || !was.schema || was.relay() || was.stone != nil {
		return nil
	}
	if sum := sha256.Sum256(b.get(old.id).data); s.replaces != fmt.Sprintf("%x", sum) {
		return nil
	}
	whole := stoneText(was, s)
	if len(s.approvals) > 0 {
		whole += "\n" + strings.Join(s.approvals, "")
	}
	if whole != string(b.get(now.id).data) {
		return nil
	}
	return s
}

// stoneOf returns the tombstone that a commit is about, as far as its form tells.
func (t *task) stoneOf(c *mcommit, parents []*mcommit) *mstone {
	if len(parents) != 1 || len(t.r.p.expungers) == 0 {
		return nil
	}
	paths := changes(parents[0].tree, c.tree)
	if len(paths) != 1 || !t.keeps(parents[0].tree, paths[0]) || !t.envelope(c.tree[paths[0]].id, t.r.p).parses {
		return nil
	}
	return t.buries(t.r.p, paths[0], parents[0].tree[paths[0]], c.tree[paths[0]])
}

// lawful reports whether a commit takes the body of a path out and may.
func (t *task) lawful(c *mcommit, parents []*mcommit, q string) bool {
	s := t.stoneOf(c, parents)
	if s == nil || s.path != q || !t.r.ok {
		return false
	}
	_, good := t.signature(t.r, c, t.now)
	root := t.commit(s.repo)
	at, err := time.Parse("2006-01-02T15:04:05Z", s.at)
	if err != nil || len(good) == 0 || s.by != c.committer.email || !speaks(good, s.by) || !slices.Contains(t.r.p.expungers, s.by) ||
		at.Unix() > c.committer.when+t.r.p.skew || s.ref != t.ref || root == nil || len(root.parents) > 0 || !t.history(c.id)[s.repo] {
		return false
	}
	data := string(t.get(c.tree[q].id).data)
	signed := data[:strings.Index(data, stoneEnd)+len(stoneEnd)]
	voices := [][]msigner{good}
	for _, a := range s.approvals {
		if !armorRe.MatchString(a) {
			return false // other text
		}
		text := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(a, "-----BEGIN SSH SIGNATURE-----\n"), "-----END SSH SIGNATURE-----\n"), "\n", "")
		if !strings.HasPrefix(text, "U1NIU0lHAAAAA") { // no signature at all
			return false
		}
		_, good := t.r.sealed(text, "rigward-approval", signed, c.committer.when, t.now, func(s msigner) bool { return s.any })
		voices = append(voices, good)
	}
	// People: whoever shares a name with somebody is that one.
	group := map[string]int{}
	n := 0
	for _, good := range voices {
		var mine []string
		for _, name := range t.r.p.expungers {
			if speaks(good, name) {
				mine = append(mine, name)
			}
		}
		if len(mine) == 0 {
			continue
		}
		n++
		joined := map[int]bool{n: true}
		for _, name := range mine {
			if g := group[name]; g > 0 {
				joined[g] = true
			}
			group[name] = n
		}
		for name, g := range group {
			if joined[g] {
				group[name] = n
			}
		}
	}
	people := map[int]bool{}
	for _, g := range group {
		people[g] = true
	}
	return len(people) >= t.r.p.quorum
}

// buried reports whether it is lawful that a commit has at a path something else than
// a parent: by its own tombstone, or by one that it takes from another parent.
func (t *task) buried(c *mcommit, parents []*mcommit, o *mcommit, q string) bool {
	if len(parents) == 1 {
		return t.lawful(c, parents, q)
	}
	taken := slices.ContainsFunc(parents, func(other *mcommit) bool { return other.tree[q] == c.tree[q] })
	return taken && t.buries(t.r.p, q, o.tree[q], c.tree[q]) != nil
}

// ---- what the player does with them ----

// mayExpunge changes who may take bodies out.
func (p *player) mayExpunge(o *mpolicy) {
	o.expungers, o.quorum = nil, 0
	switch p.rng.IntN(5) {
	case 0, 1:
		o.expungers, o.quorum = []string{"op@example.com"}, 1
	case 2:
		o.expungers, o.quorum = []string{"op@example.com", "bob@example.com"}, 1
	case 3:
		o.expungers, o.quorum = []string{"op@example.com", "bob@example.com"}, 2
	}
}

// stoneKinds are ways to forge a tombstone, each with its lawful neighbour.
var stoneKinds = []string{"as it should be", "signer", "unsigned", "quorum", "relay", "hash", "content", "merge", "repository", "ref", "path", "sender", "type",
	"new", "beside", "late", "mode", "text behind"}

// simple lists the paths of messages of which this file knows how a tombstone is written.
func (p *player) simple(t tree, relays bool) (out []string) {
	for _, q := range p.envelopes(t) {
		e := p.book.whole(t[q].id)
		if t[q].mode != "100644" || !e.parses || !e.schema || e.relay() != relays || e.stone != nil || len(e.v["date"]) != 10 || strings.Contains(e.v["to"], "\n") || e.v["thread"] != p.rules().thread(q) {
			continue
		}
		if _, ok := e.v["references"]; !ok && len(p.objs[t[q].id].data) < 1<<20 {
			out = append(out, q)
		}
	}
	return out
}

func (p *player) aTombstone() []mupdate {
	if len(p.book.trust().p.expungers) == 0 && !p.one(4) {
		o := p.inRepo()
		for len(o.expungers) == 0 {
			p.mayExpunge(&o)
		}
		p.did("policy: somebody may expunge")
		return p.setPolicy(o, p.speaker("op@example.com"))
	}
	return p.stone(pick(p.world, "refs/heads/main", "refs/heads/main", p.ref()), pick(p.world, stoneKinds...), "")
}

// stone pushes a tombstone to a ref: of a kind, forged or not; q is what it is of, ""
// for anything.
func (p *player) stone(ref, kind, q string) []mupdate {
	base := p.base(ref)
	t := p.copy(base)
	forged := p.one(2)
	if q == "" {
		list := p.simple(t, kind == "relay" && forged)
		if len(list) == 0 {
			return nil
		}
		q = pick(p.world, list...)
	}
	old := t[q]
	p.did("tombstone: " + kind)
	root := base
	for c := p.book.commit(root); c != nil && len(c.parents) > 0; c = p.book.commit(root) {
		root = c.parents[0]
	}
	d := &draft{parents: []string{base}, tree: t, key: p.speaker("op@example.com"), when: max(p.dates[base]+1, p.now-20)}
	s := &mstone{path: q, replaces: fmt.Sprintf("%x", sha256.Sum256(p.objs[old.id].data)), repo: root, ref: p.book.target(ref), by: "op@example.com",
		at: time.Unix(d.when-5, 0).UTC().Format("2006-01-02T15:04:05Z"), why: "an access token"}
	env := p.book.whole(old.id)
	approvers := []*testkeys.Key{keyB}
	namespace, edit, after := "rigward-approval", func(s string) string { return s }, ""
	swap := func(from, to string) { edit = func(s string) string { return strings.Replace(s, from, to, 1) } }
	if forged {
		switch kind {
		case "signer":
			d.key, d.committer, s.by = keyB, "Bob <bob@example.com>", pick(p.world, "bob@example.com", "op@example.com")
		case "unsigned":
			d.key = pick(p.world, nil, keyX, keyR, keyF)
		case "quorum":
			if namespace, approvers = pick(p.world, "git", "file", "rigward-approval"), []*testkeys.Key{pick(p.world, keyP256, keyX, keyB, keyR)}; p.one(2) {
				approvers = nil
			}
		case "hash":
			swap(env.hash, strings.Repeat("a", 64))
		case "content":
			s.replaces = strings.Repeat("b", 64)
		case "repository":
			s.repo = pick(p.world, base, strings.Repeat("c", len(base)), p.zero())
		case "ref":
			s.ref = pick(p.world, "refs/heads/other", "refs/heads/release/9", "main")
		case "path":
			s.path = p.path("t-one/other.md")
		case "sender":
			swap("from: "+env.v["from"], "from: rig-b")
		case "type":
			swap("type: "+env.v["type"], "type: RESULT")
		case "late":
			s.at = time.Unix(d.when+1000, 0).UTC().Format("2006-01-02T15:04:05Z")
		case "text behind":
			after = pick(p.world, "\nMore.\n", "-----BEGIN SSH SIGNATURE-----\nMore\n-----END SSH SIGNATURE-----\n")
		}
	}
	text := edit(stoneText(env, s))
	if len(approvers) > 0 {
		signed := text
		text += "\n"
		for _, k := range approvers {
			text += string(testkeys.Armor(testkeys.Sign([]byte(signed), k, namespace, "sha512", "").Marshal()))
		}
	}
	text += after
	e := mentry{"100644", p.object("blob", []byte(text))}
	if forged {
		switch kind {
		case "new":
			p.serial++
			t[p.path(fmt.Sprintf("%s/T-%d.md", env.v["thread"], p.serial))] = e
			return p.to(ref, p.keep(d))
		case "beside":
			p.put(t, "README.md", fmt.Sprintf("beside %d\n", p.serial))
		case "mode":
			e.mode = "100755"
		case "merge":
			side := p.commitOn(base, nil, func(t tree) { p.serial++; p.put(t, "README.md", fmt.Sprintf("side %d\n", p.serial)) })
			d.parents = append(d.parents, side)
			t["README.md"] = p.trees[side]["README.md"]
			d.when = max(d.when, p.dates[side]+1)
		}
	}
	t[q] = e
	return p.to(ref, p.keep(d))
}

// planExpunge takes a body out, and then tries what must not be possible any more,
// with its lawful neighbours.
func (p *player) planExpunge() []func() []mupdate {
	const ref = "refs/heads/main"
	p.serial++
	q := p.path(fmt.Sprintf("t-one/E-%d.md", p.serial))
	body := fmt.Sprintf("A secret %d\n", p.serial)
	before := ""
	after := func() []mupdate {
		base := p.base(ref)
		t := p.copy(base)
		e, ok := t[q]
		if !ok || p.book.whole(e.id).stone == nil {
			return nil
		}
		p.serial++
		key := p.speaker("op@example.com", "op-relay")
		d := &draft{parents: []string{base}, tree: t, key: key, when: max(p.dates[base]+1, p.now-20)}
		switch p.rng.IntN(6) {
		case 0:
			p.did("plan: a tombstone is edited")
			p.put(t, q, strings.Replace(string(p.objs[e.id].data), "an access token", "nothing", 1))
		case 1:
			p.did("plan: the body comes back")
			t[q] = p.trees[before][q]
		case 2:
			p.did("plan: a tombstone is deleted")
			delete(t, q)
		case 3:
			p.did("plan: an answer to what was taken out")
			p.put(t, p.path(fmt.Sprintf("t-one/answer-%d.md", p.serial)),
				p.relay("t-one", pick(p.world, bodyHash(body), bodyHash(body), strings.Repeat("e", 64)), d.when, key).text())
		case 4:
			p.did("plan: a side that does not know of it is merged")
			side := p.commitOn(before, nil, func(t tree) {
				p.put(t, p.path(fmt.Sprintf("t-one/side-%d.md", p.serial)), p.request("t-one", "Side\n").text())
			})
			sides := []string{base, side}
			if p.one(2) {
				slices.Reverse(sides)
			}
			d.parents, d.when = sides, max(d.when, p.dates[side]+1)
			for q, e := range p.trees[side] {
				if _, ok := t[q]; !ok {
					t[q] = e
				}
			}
			if p.one(3) {
				t[q] = p.trees[side][q]
			}
		default:
			p.did("plan: twice")
			s := *p.book.whole(e.id).stone
			s.why = "again"
			s.replaces = fmt.Sprintf("%x", sha256.Sum256(p.objs[e.id].data))
			p.put(t, q, stoneText(p.book.whole(e.id), &s))
		}
		return p.to(ref, p.keep(d))
	}
	return []func() []mupdate{
		func() []mupdate {
			o := p.inRepo()
			for len(o.expungers) == 0 {
				p.mayExpunge(&o)
			}
			p.did("plan: who may expunge")
			return p.setPolicy(o, p.speaker("op@example.com"))
		},
		func() []mupdate {
			p.did("plan: a message with a secret")
			return p.to(ref, p.commitOn(p.base(ref), p.speaker("op@example.com"), func(t tree) { p.put(t, q, p.request("t-one", body).text()) }))
		},
		func() []mupdate {
			if _, ok := p.trees[p.base(ref)][q]; !ok {
				return nil
			}
			before = p.base(ref)
			return p.stone(ref, pick(p.world, "as it should be", "as it should be", "quorum", "signer", "beside"), q)
		},
		after, after,
	}
}
