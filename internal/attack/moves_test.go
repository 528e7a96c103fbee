package attack

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
)

// A player thinks of the pushes of one sequence.
type player struct {
	*world
	book  *book
	turn  *rand.Rand         // says which pushes are judged in other ways, too
	plan  []func() []mupdate // what is still to come of an intention
	sized []string           // paths of files whose size was chosen
}

// A move makes one push, none if it finds nothing to do.
type move struct {
	weight int
	make   func(*player) []mupdate
}

var moves = []move{
	{9, (*player).anything},
	{4, (*player).newPolicy},
	{2, (*player).newSigners},
	{6, (*player).bigFile},
	{6, (*player).aRelay},
	{3, (*player).aChange},
	{2, (*player).octopus},
	{2, (*player).freeRef},
	{2, (*player).aName},
	{8, (*player).aTombstone},
	{4, (*player).inThePush},
	{3, (*player).onASide},
}

// plans are intentions of several pushes. Other pushes may come between.
var plans = []func(*player) []func() []mupdate{
	(*player).planBig, (*player).planLowered, (*player).planUnguarded, (*player).planPrepared, (*player).planFreed,
	(*player).planRevoked, (*player).planSuccessor, (*player).planNonce, (*player).planExpunge,
}

// next thinks of a push.
func (p *player) next() []mupdate {
	p.labels = nil
	p.now += int64(10 + p.rng.IntN(200))
	if len(p.plan) == 0 && p.one(3) {
		p.plan = pick(p.world, plans...)(p)
	}
	if len(p.plan) > 0 && !p.one(4) {
		step := p.plan[0]
		p.plan = p.plan[1:]
		if updates := step(); len(updates) > 0 {
			return updates
		}
	}
	sum := 0
	for _, m := range moves {
		sum += m.weight
	}
	n := p.rng.IntN(sum)
	for _, m := range moves {
		if n -= m.weight; n < 0 {
			return m.make(p)
		}
	}
	return nil
}

// anything is a push of the generator that has no intention.
func (p *player) anything() []mupdate { return p.push(p.book.model) }

func (p *player) main() string { return p.tips["refs/heads/main"] }

// to is the push of a commit to a ref.
func (p *player) to(ref, id string) []mupdate {
	old := p.tips[ref]
	if old == "" {
		old = p.zero()
	}
	if id == old || id == "" {
		return nil
	}
	return []mupdate{{old, id, ref}}
}

// speaker is a key that may now speak as an operator, else keyA.
func (p *player) speaker(who ...string) *testkeys.Key {
	r := p.book.trust()
	for _, i := range p.rng.Perm(len(speakers)) {
		k := speakers[i]
		blob := string(k.PublicKey().Marshal())
		for _, s := range r.signers {
			fits := func(name string) bool { return s.speaks(name) }
			if s.blob == blob && s.git && s.after <= p.now && p.now <= s.before && !r.revoked[blob] && !slices.ContainsFunc(who, func(n string) bool { return !fits(n) }) {
				return k
			}
		}
	}
	return keyA
}

var speakers = []*testkeys.Key{keyA, keyP256, keyP384, keySK, keyNext}

// keyNext is a key that signers files get in the course of a sequence.
var keyNext = testkeys.Ed25519("attack next")

// commitOn commits a change on top of a commit.
func (p *player) commitOn(parent string, key *testkeys.Key, change func(t tree)) string {
	d := &draft{parents: []string{parent}, tree: p.copy(parent), key: key}
	change(d.tree)
	return p.keep(d)
}

// keep writes a draft as a commit a moment after its parents, and remembers it.
func (p *player) keep(d *draft) string {
	if d.when == 0 {
		for _, id := range d.parents {
			d.when = max(d.when, p.dates[id]+1)
		}
		d.when = max(d.when, p.now-int64(p.rng.IntN(60)))
	}
	id := p.commit(d)
	p.pool = append(p.pool, id)
	return id
}

// ref is some ref, most often one that exists.
func (p *player) ref() string {
	if p.one(3) {
		return "refs/heads/main"
	}
	return pick(p.world, "refs/heads/main", "refs/heads/release/1", "refs/heads/release/2", "refs/heads/feature", "refs/heads/free/x")
}

// base is where a push to a ref begins.
func (p *player) base(ref string) string {
	if id := p.tips[ref]; id != "" && p.trees[id] != nil {
		return id
	}
	return p.main()
}

// ---- who is trusted ----

// vary changes a policy a little.
func (p *player) vary(o mpolicy) mpolicy {
	for range 1 + p.rng.IntN(2) {
		switch p.rng.IntN(18) {
		case 16, 17:
			p.mayExpunge(&o)
		case 0, 1, 2:
			o.maxFile = pick(p.world, 500, 700, 1000, 1500, 3000, 8<<20)
		case 3, 4:
			o.maxFront = pick(p.world, 250, 300, 500, 700, 64<<10)
		case 5, 6, 7:
			o.protect = pick(p.world, nil, []string{"release/*"}, []string{"main", "release/*"}, []string{"**"}, []string{"refs/heads/feature", "main"}, []string{"free/*"})
		case 8:
			o.nonceRefs = !o.nonceRefs
		case 9:
			o.requireAll = !o.requireAll
		case 10:
			o.frozen = !o.frozen
		case 11:
			o.outsideDeny = p.one(3)
		case 12:
			o.revoked = pick(p.world, "", revokedFile)
		case 13:
			o.otherDeny = p.one(2)
		case 14:
			o.skew, o.clock = int64(pick(p.world, 300, 100)), int64(pick(p.world, 600, 60))
		case 15:
			switch p.rng.IntN(6) {
			case 0:
				o.ignore = pick(p.world, plainPolicy.ignore, []string{"docs", "other"})
			case 1:
				o.lowered = pick(p.world, nil, []string{"envelope-schema"}, []string{"append-only"})
			case 2:
				o.types = pick(p.world, plainPolicy.types, []string{"DECISIONS"})
			case 3:
				o.allow = pick(p.world, nil, []string{"refs/notes/*"})
			case 4:
				o.maxCommits = pick(p.world, 100000, 3)
			case 5:
				o.pathKey = !o.pathKey
			}
		}
	}
	return o
}

// inRepo is the policy that the default branch has, whether it counts or not.
func (p *player) inRepo() mpolicy {
	if e, ok := p.trees[p.main()][policyFile]; ok {
		if o, ok := meaning(string(p.objs[e.id].data)); ok {
			return o
		}
	}
	return plainPolicy
}

func (p *player) setPolicy(o mpolicy, key *testkeys.Key) []mupdate {
	return p.to("refs/heads/main", p.commitOn(p.main(), key, func(t tree) { p.put(t, policyFile, render(o)) }))
}

func (p *player) newPolicy() []mupdate {
	p.did("policy: another")
	key := p.speaker("op@example.com")
	if p.one(6) {
		key = pick(p.world, nil, keyX, keyB)
	}
	return p.setPolicy(p.vary(p.inRepo()), key)
}

// signersText is a signers file.
func (p *player) signersText() string {
	text := fixedSigners()
	switch p.rng.IntN(6) {
	case 0:
		text += keyNext.Line("op@example.com,op-relay", "")
	case 1:
		text = keyNext.Line("op@example.com,op-relay,rig-a", "") + keyB.Line("bob@example.com,bob-relay,rig-b", "")
	case 2:
		text = keyA.Line("op@example.com,op-relay,rig-a", "")
	case 3:
		text = keyA.Line("op@example.com,op-relay", fmt.Sprintf("valid-before=%q", time.Unix(p.now+500, 0).UTC().Format("20060102150405Z"))) + keyNext.Line("op@example.com", "")
	case 4:
		text = keyP256.Line("*@example.com,*", "") + keyA.Line("!bob@example.com,*@example.com,op-relay,rig-a", "")
	}
	return text
}

func (p *player) newSigners() []mupdate {
	p.did("signers: others")
	key := p.speaker("op@example.com")
	if p.one(5) {
		key = pick(p.world, nil, keyX, keyB)
	}
	return p.to("refs/heads/main", p.commitOn(p.main(), key, func(t tree) {
		if p.one(4) {
			p.put(t, revokedFile, pick(p.world, keyR.Authorized()+"\n", keyR.Authorized()+"\n"+keyP256.Authorized()+"\n", keyNext.Authorized()+"\n"))
		} else {
			p.put(t, p.inRepo().signers, p.signersText())
		}
	}))
}

// ---- sizes ----

// sizedText is an envelope of n bytes, or with front matter of n bytes.
func (p *player) sizedText(e *envelopeText, n int, front bool) string {
	if front {
		now := 0
		for _, k := range e.keys {
			now += len(k) + 1 + len(e.v[k]) + 1
		}
		if n >= now+3 {
			e.keys = append(e.keys, "#")
			e.v["#"] = strings.Repeat("x", n-now-3)
		}
		return e.text()
	}
	if more := n - len(e.text()); more > 1 {
		e.body += strings.Repeat("x", more-1) + "\n"
		e.set("body_hash", ` "`+bodyHash(e.body)+`"`)
	}
	return e.text()
}

// size is about the limit in force.
func (p *player) size() (n int, front bool) {
	o := p.book.trust().p
	limit := o.maxFile
	if front = o.maxFront < 64<<10 && p.one(3); front {
		limit = o.maxFront
	}
	if limit > 1<<20 && !p.one(60) { // much work for little
		return 300 + p.rng.IntN(3000), front
	}
	switch n := p.rng.IntN(5); n {
	case 0:
		p.did("size: far above the limit")
		return limit*2 + 7, front
	default:
		p.did("size: " + []string{"", "below the limit", "the limit", "above the limit", "above the limit"}[n])
		return limit + n - 2, front
	}
}

func unfenced(n int) string {
	const text = "no fence\n"
	return text + strings.Repeat("x", max(0, n-len(text)))
}

// where is the path of a file whose size matters.
func (p *player) where(t tree) string {
	p.serial++
	fresh := fmt.Sprintf("%s/%s-%d.md", pick(p.world, "big", "big-2", "t-one", "docs"), pick(p.world, "DECISIONS", "x"), p.serial)
	old := slices.DeleteFunc(slices.Clone(p.sized), func(q string) bool { _, ok := t[q]; return !ok })
	if len(old) > 0 && !p.one(3) {
		return pick(p.world, old...)
	}
	q := p.path(fresh)
	p.sized = append(p.sized, q)
	return q
}

func (p *player) bigFile() []mupdate {
	ref := p.ref()
	base := p.base(ref)
	t := p.copy(base)
	q := p.where(t)
	dir, _, _ := strings.Cut(strings.TrimPrefix(q, p.path("")), "/")
	n, front := p.size()
	key := pick(p.world, nil, p.speaker("op@example.com"))
	_, there := t[q]
	act := p.rng.IntN(10)
	switch {
	case act < 3 || !there && act < 5:
		p.did("file: without a fence")
		p.put(t, q, unfenced(n))
	case act < 5:
		p.did("file: no more")
		delete(t, q)
	case act == 5 && there:
		p.did("file: elsewhere")
		p.serial++
		t[p.path(fmt.Sprintf("%s/moved-%d.md", dir, p.serial))] = t[q]
		delete(t, q)
	case act == 6 && there:
		p.did("file: another mode")
		t[q] = mentry{pick(p.world, "100755", "120000"), t[q].id}
	case act == 7:
		p.did("file: as a relay")
		return p.relayAt(ref, q, n, front, pick(p.world, relayKinds...))
	default:
		p.did("file: as an envelope")
		p.put(t, q, p.sizedText(p.request(dir, fmt.Sprintf("Big %d\n", p.serial)), n, front))
	}
	return p.to(ref, p.keep(&draft{parents: []string{base}, tree: t, key: key}))
}

// ---- relays ----

// relayKinds are ways to forge a relay, each with its lawful neighbour (J14).
var relayKinds = []string{"as it should be", "nonce", "another's key", "turn", "signature", "unknown key", "author", "one path", "clock", "forged name of a key"}

func (p *player) aRelay() []mupdate {
	ref := p.ref()
	p.serial++
	q := p.path(fmt.Sprintf("%s/R-%d.md", pick(p.world, "t-one", "t-one", "other", "big"), p.serial))
	n := 0
	front := false
	if p.one(5) {
		n, front = p.size()
		p.sized = append(p.sized, q)
	}
	return p.relayAt(ref, q, n, front, pick(p.world, relayKinds...))
}

// relayAt pushes a relay at a path: of a kind, forged or not.
func (p *player) relayAt(ref, q string, n int, front bool, kind string) []mupdate {
	base := p.base(ref)
	dir, _, _ := strings.Cut(strings.TrimPrefix(q, p.path("")), "/")
	t := p.copy(base)
	reply := strings.Repeat("c", 64)
	if h := p.hashes(p.book.model, t, dir); len(h) > 0 {
		reply = pick(p.world, h...)
	}
	d := &draft{parents: []string{base}, tree: t, key: p.speaker("op@example.com", "op-relay")}
	d.when = max(p.dates[base]+1, p.now-int64(p.rng.IntN(60)))
	e := p.relay(dir, reply, d.when-int64(p.rng.IntN(30)), d.key)
	forged := p.one(2)
	p.did("relay: " + kind)
	switch kind {
	case "nonce":
		if forged {
			e.set("nonce", " "+pick(p.world, p.nonces...))
		}
	case "another's key":
		d.key = keyB
		e.set("attested_by", " "+keyB.Fingerprint())
		if !forged {
			d.committer = "Bob <bob@example.com>"
			e.set("from", " bob-relay")
		} else if p.one(2) {
			d.committer = "Bob <bob@example.com>"
		}
	case "turn":
		if forged {
			e.set("in_reply_to", fmt.Sprintf(" %q", pick(p.world, strings.Repeat("d", 64), bodyHash("Who is on call?\n"), bodyHash(e.body))))
		}
	case "signature":
		if forged {
			d.key = nil
		}
	case "unknown key":
		if forged {
			d.key = pick(p.world, keyX, keyOld, keyR, keyNew, keyFile, keyIdle, keyWeak)
			e.set("attested_by", " "+d.key.Fingerprint())
		}
	case "author":
		if forged {
			d.author = pick(p.world, "Bob <bob@example.com>", "rigward <op@example.com>", "Op <op@localhost>")
		}
	case "one path":
		if forged {
			p.put(t, "README.md", fmt.Sprintf("with %s\n", q))
		}
	case "clock":
		limit := int64(p.rules().clock)
		at := d.when + pick(p.world, -1, int64(1))*limit
		if forged {
			at = d.when + pick(p.world, -1, int64(1))*(limit+1)
		}
		e.set("attested_at", " "+stamp(at, pick(p.world, 0, 2, -5)))
	case "forged name of a key":
		if forged {
			e.set("attested_by", " "+pick(p.world, keyB, keyX).Fingerprint())
		}
	}
	p.put(t, q, p.sizedText(e, n, front))
	return p.to(ref, p.keep(d))
}

// ---- what was accepted ----

// aChange changes something that is there: an envelope, or a file beside it
// that is none.
func (p *player) aChange() []mupdate {
	ref := p.ref()
	base := p.base(ref)
	t := p.copy(base)
	kind := pick(p.world, "edit", "deletion", "move", "mode", "link", "restore")
	q := pick(p.world, "README.md", "docs/guide.md", "README.md")
	if files := p.envelopes(t); len(files) > 0 && p.one(2) {
		q = pick(p.world, files...)
	}
	e, ok := t[q]
	if !ok {
		return nil
	}
	p.did("change: " + kind)
	key := pick(p.world, nil, p.speaker("op@example.com"))
	switch kind {
	case "edit", "restore":
		p.put(t, q, string(p.objs[e.id].data)+"more\n")
	case "deletion":
		delete(t, q)
	case "move":
		delete(t, q)
		p.serial++
		t[fmt.Sprintf("%s-%d.md", strings.TrimSuffix(q, ".md"), p.serial)] = e
	case "mode":
		t[q] = mentry{"100755", e.id}
	case "link":
		t[q] = mentry{"120000", p.object("blob", []byte("x"))}
	}
	id := p.keep(&draft{parents: []string{base}, tree: t, key: key})
	if kind == "restore" {
		id = p.commitOn(id, key, func(t tree) { t[q] = e })
	}
	return p.to(ref, id)
}

// otherNames are what some file system takes for the name before, and names
// near it that none does (J06).
var otherNames = []struct {
	label         string
	alias, lawful []string
}{
	{"of a thread", []string{"T-One", "t-one.", "t-one ", "t-one::$INDEX_ALLOCATION", "t-\u200cone", "T-ONE:s", "t-one . "}, []string{"t-ones", "t_one", "Tone", "t-one~x"}},
	{"of an envelope", []string{"t-one/request.md", "t-one/REQUEST.md.", "t-one/REQUEST.md ", "t-one/REQUEST.md::$DATA", "t-one/RE\u200dQUEST.md", "t-one/Request.MD"},
		[]string{"t-one/REQUEST.txt", "t-one/sub/request.md", "t-one/REQUEST-md"}},
	{"of a clone's configuration", []string{".bridge/config.yaml"}, []string{".bridge/config.yml"}},
	{"of what .bridge guards", []string{".Bridge/policy.yaml", ".bridge./policy.yaml", ".BRIDGE", "BRIDGE~1", ".bridge/Policy.yaml", ".bridge/policy.yaml::$DATA", ".bridge/Allowed_Signers",
		".bri\u200ddge/x", ".bridge/ALLOWE~1", ".bridge /x", ".bridge\\policy.yaml"}, []string{".bridge/notes.md", ".bridges/x", "bridge.d/policy.yaml", ".bridge/README"}},
}

// aName brings a name, as a file, a link, a program, a submodule, or that of a
// directory.
func (p *player) aName() []mupdate {
	ref := p.ref()
	base := p.base(ref)
	t := p.copy(base)
	of := pick(p.world, otherNames...)
	q := pick(p.world, of.lawful...)
	if p.one(2) {
		q = pick(p.world, of.alias...)
	}
	if !strings.HasPrefix(of.label, "of what") && (!strings.HasPrefix(of.label, "of a clone") || p.one(2)) {
		q = p.path(q)
	}
	p.did("name: " + of.label)
	if p.one(3) {
		p.serial++
		q += fmt.Sprintf("/x-%d.txt", p.serial)
	}
	e := mentry{pick(p.world, "100644", "100755", "120000", "160000"), p.object("blob", []byte("x\n"))}
	if e.mode == "160000" {
		e.id = base
	}
	t[q] = e
	return p.to(ref, p.keep(&draft{parents: []string{base}, tree: t, key: pick(p.world, nil, p.speaker("op@example.com"))}))
}

// octopus merges several sides, of which one may have changed what was there.
func (p *player) octopus() []mupdate {
	ref := p.ref()
	base := p.base(ref)
	p.did("change: an octopus merge")
	past := p.book.history(base)
	olds := slices.DeleteFunc(slices.Clone(p.pool), func(id string) bool { return !past[id] || p.trees[id] == nil })
	d := &draft{parents: []string{base}, tree: p.copy(base), key: pick(p.world, nil, p.speaker("op@example.com"))}
	bad := p.one(3)
	n := 2 + p.rng.IntN(3)
	for i := range n {
		from := base
		if len(olds) > 0 && p.one(2) {
			from = pick(p.world, olds...)
		}
		p.serial++
		q := p.path(fmt.Sprintf("%s/S-%d.md", pick(p.world, "t-one", "other", "third"), p.serial))
		side := p.commitOn(from, pick(p.world, nil, p.speaker("op@example.com")), func(t tree) {
			if files := p.envelopes(t); bad && i == n-1 && len(files) > 0 {
				q = pick(p.world, files...)
			}
			if p.one(6) {
				q = pick(p.world, p.path("t-one/s.md"), p.path("t-one/S.md"), p.path("other/s.md"))
			}
			dir, _, _ := strings.Cut(strings.TrimPrefix(q, p.path("")), "/")
			p.put(t, q, p.request(dir, fmt.Sprintf("Side %d\n", p.serial)).text())
		})
		d.parents = append(d.parents, side)
		if _, ok := d.tree[q]; !ok || p.one(2) {
			d.tree[q] = p.trees[side][q]
		}
	}
	for _, id := range d.parents[1:] {
		for q, e := range p.trees[id] {
			if _, ok := d.tree[q]; !ok {
				d.tree[q] = e
			}
		}
	}
	if p.one(4) {
		first := d.parents[0]
		d.parents = append(slices.Clone(d.parents[1:]), first)
	}
	return p.to(ref, p.keep(d))
}

// freeRef does what one likes on a ref that most policies leave free.
func (p *player) freeRef() []mupdate {
	ref := pick(p.world, "refs/heads/feature", "refs/heads/free/x", "refs/heads/release/1", "refs/heads/release/2", "refs/heads/release/9")
	p.did("push: to a ref that is mostly free")
	base := p.base(ref)
	switch p.rng.IntN(4) {
	case 0:
		return p.to(ref, p.main())
	case 1:
		if len(p.pool) > 0 {
			return p.to(ref, pick(p.world, p.pool...))
		}
	case 2:
		if p.tips[ref] != "" {
			return []mupdate{{p.tips[ref], p.zero(), ref}}
		}
	}
	id := p.commitOn(base, pick(p.world, nil, keyX, keyA), func(t tree) {
		files := p.envelopes(t)
		if len(files) > 0 && p.one(2) {
			delete(t, pick(p.world, files...))
		} else {
			p.put(t, pick(p.world, "README.md", p.path("t-one/bad.md"), signersFile), pick(p.world, "x\n", keyX.Line("*@example.com,*", "")))
		}
	})
	return p.to(ref, id)
}

// ---- intentions ----

// planBig puts a large file where no envelope is, and a relay in its place
// (J01, J02).
func (p *player) planBig() []func() []mupdate {
	p.serial++
	dir := fmt.Sprintf("big-%d", p.serial)
	q := p.path(dir + "/DECISIONS.md")
	return []func() []mupdate{
		func() []mupdate {
			p.did("plan: a large file without a fence")
			n, _ := p.size()
			return p.to("refs/heads/main", p.commitOn(p.main(), nil, func(t tree) {
				p.put(t, q, unfenced(n))
				for i := range p.rng.IntN(4) {
					p.put(t, p.path(fmt.Sprintf("%s/more-%d.md", dir, i)), unfenced(n))
				}
			}))
		},
		func() []mupdate {
			p.did("plan: a turn beside it")
			return p.to("refs/heads/main", p.commitOn(p.main(), p.speaker("op@example.com"), func(t tree) {
				p.put(t, p.path(dir+"/REQUEST.md"), p.request(dir, "May it go?\n").text())
			}))
		},
		func() []mupdate {
			p.did("plan: a relay in place of a file without a fence")
			n, front := p.size()
			return p.relayAt("refs/heads/main", q, n, front, pick(p.world, relayKinds...))
		},
		func() []mupdate {
			p.did("plan: it goes again")
			return p.to("refs/heads/main", p.commitOn(p.main(), nil, func(t tree) { delete(t, q) }))
		},
	}
}

// planLowered lowers a limit below what was accepted (J03).
func (p *player) planLowered() []func() []mupdate {
	p.serial++
	q := p.path(fmt.Sprintf("t-one/L-%d.md", p.serial))
	o := p.inRepo()
	limit := pick(p.world, 1500, 2500)
	front := p.one(3)
	nonce := ""
	touch := func() []mupdate {
		base := p.main()
		t := p.copy(base)
		e, ok := t[q]
		if !ok {
			return nil
		}
		p.serial++
		key := p.speaker("op@example.com", "op-relay")
		d := &draft{parents: []string{base}, tree: t, key: pick(p.world, nil, key)}
		switch p.rng.IntN(6) {
		case 0:
			p.did("plan: what is too large now is edited")
			p.put(t, q, p.sizedText(p.request("t-one", "Edited\n"), pick(p.world, 0, limit), false))
		case 1:
			p.did("plan: what is too large now is deleted")
			delete(t, q)
		case 2:
			p.did("plan: what is too large now is moved")
			delete(t, q)
			t[p.path(fmt.Sprintf("t-one/elsewhere-%d.md", p.serial))] = e
		case 3:
			p.did("plan: the nonce of what is too large now")
			d.key, d.when = key, max(p.dates[base]+1, p.now-20)
			r := p.relay("t-one", bodyHash("Yes.\n"), d.when, key)
			if p.one(2) {
				r.set("nonce", " "+nonce)
			}
			p.put(t, p.path(fmt.Sprintf("t-one/again-%d.md", p.serial)), r.text())
		case 4:
			p.did("plan: an answer to what is too large now")
			d.key, d.when = key, max(p.dates[base]+1, p.now-20)
			reply := p.book.whole(e.id).hash
			p.put(t, p.path(fmt.Sprintf("t-one/answer-%d.md", p.serial)), p.relay("t-one", pick(p.world, reply, reply, strings.Repeat("e", 64)), d.when, key).text())
		default:
			p.did("plan: a word beside what is too large now")
			p.put(t, p.path(fmt.Sprintf("t-one/beside-%d.md", p.serial)), p.request("t-one", "Beside\n").text())
		}
		return p.to("refs/heads/main", p.keep(d))
	}
	return []func() []mupdate{
		func() []mupdate {
			if o = p.inRepo(); front {
				o.maxFront = limit
			} else {
				o.maxFile = limit
			}
			p.did("plan: a limit")
			return p.setPolicy(o, p.speaker("op@example.com"))
		},
		func() []mupdate {
			p.did("plan: an envelope of just that size")
			u := p.relayAt("refs/heads/main", q, limit+p.rng.IntN(4)/3, front, "as it should be")
			nonce = p.nonces[len(p.nonces)-1]
			return u
		},
		func() []mupdate {
			if o = p.inRepo(); front {
				o.maxFront = limit - 1 - p.rng.IntN(2)*700
			} else {
				o.maxFile = limit - 1 - p.rng.IntN(2)*700
			}
			p.did("plan: a lower limit")
			return p.setPolicy(o, p.speaker("op@example.com"))
		},
		touch, touch,
	}
}

// planUnguarded has a policy that does not name the default branch (J04).
func (p *player) planUnguarded() []func() []mupdate {
	forced := func(ref string) []mupdate {
		p.did("plan: a forced push")
		old := p.tips[ref]
		c := p.book.commit(old)
		if c == nil || len(c.parents) == 0 {
			return nil
		}
		return []mupdate{{old, p.commitOn(c.parents[0], nil, func(t tree) { p.put(t, "README.md", "forced\n") }), ref}}
	}
	return []func() []mupdate{
		func() []mupdate {
			o := p.inRepo()
			o.protect = pick(p.world, []string{"release/*"}, []string{"refs/heads/release/*"}, []string{})
			p.did("plan: protect without the default branch")
			return p.setPolicy(o, p.speaker("op@example.com"))
		},
		func() []mupdate {
			p.did("plan: another policy")
			o := p.inRepo()
			o.protect = []string{"nothing"}
			return p.setPolicy(o, pick(p.world, nil, p.speaker("op@example.com")))
		},
		func() []mupdate { return forced("refs/heads/main") },
		func() []mupdate { return forced("refs/heads/release/1") },
	}
}

// planPrepared prepares a free ref, which is then protected (J05).
func (p *player) planPrepared() []func() []mupdate {
	ref := pick(p.world, "refs/heads/release/1", "refs/heads/release/2", "refs/heads/free/x")
	mine := keyX.Line("*@example.com,*", "")
	swap := p.one(2)
	spoil := p.one(2)
	relay := func(ref, base string, key *testkeys.Key) []mupdate {
		p.serial++
		d := &draft{parents: []string{base}, tree: p.copy(base), key: key, when: max(p.dates[base]+1, p.now-20)}
		p.put(d.tree, p.path(fmt.Sprintf("t-one/P-%d.md", p.serial)), p.relay("t-one", bodyHash("Is the release ready?\n"), d.when, key).text())
		return p.to(ref, p.keep(d))
	}
	return []func() []mupdate{
		func() []mupdate {
			o := p.inRepo()
			o.protect, o.otherDeny = nil, false
			p.did("plan: a ref is free")
			return p.setPolicy(o, p.speaker("op@example.com"))
		},
		func() []mupdate {
			p.did("plan: it is prepared")
			id := p.base(ref)
			if swap {
				id = p.commitOn(id, keyX, func(t tree) { p.put(t, p.inRepo().signers, mine) })
			}
			if spoil && p.one(2) {
				id = p.commitOn(id, nil, func(t tree) { delete(t, p.path("t-one/REQUEST.md")) })
			}
			return p.to(ref, p.commitOn(id, nil, func(t tree) { p.put(t, "README.md", "prepared\n") }))
		},
		func() []mupdate {
			o := p.inRepo()
			o.protect = []string{"main", "release/*", "free/*"}
			p.did("plan: it is protected now")
			return p.setPolicy(o, p.speaker("op@example.com"))
		},
		func() []mupdate {
			key := keyX
			if p.one(2) {
				key = p.speaker("op@example.com", "op-relay")
			}
			p.did("plan: a relay on it")
			return relay(ref, p.base(ref), key)
		},
		func() []mupdate {
			p.did("plan: a new ref at its tip")
			return p.to("refs/heads/release/7", p.base(ref))
		},
		func() []mupdate {
			p.did("plan: a second relay on it")
			return relay(ref, p.base(ref), pick(p.world, keyX, keyA))
		},
		func() []mupdate {
			p.did("plan: it is merged")
			base, side := p.main(), p.base(ref)
			d := &draft{parents: []string{base, side}, tree: p.copy(base), key: p.speaker("op@example.com")}
			for q, e := range p.trees[side] {
				if _, ok := d.tree[q]; !ok {
					d.tree[q] = e
				}
			}
			return p.to("refs/heads/main", p.keep(d))
		},
	}
}

// planFreed frees a ref that was protected, and protects it again.
func (p *player) planFreed() []func() []mupdate {
	const ref = "refs/heads/release/1"
	protect := func(with ...string) func() []mupdate {
		return func() []mupdate {
			o := p.inRepo()
			o.protect = with
			o.otherDeny = false
			p.did("plan: other refs are protected")
			return p.setPolicy(o, p.speaker("op@example.com"))
		}
	}
	bad := p.one(2)
	word := func() []mupdate {
		p.serial++
		p.did("plan: a word on the release")
		return p.to(ref, p.commitOn(p.base(ref), nil, func(t tree) {
			p.put(t, p.path(fmt.Sprintf("t-one/W-%d.md", p.serial)), p.request("t-one", "Word\n").text())
		}))
	}
	return []func() []mupdate{
		protect("main", "release/*"), word, protect("main"),
		func() []mupdate {
			p.did("plan: on the free ref")
			return p.to(ref, p.commitOn(p.base(ref), nil, func(t tree) {
				if bad {
					delete(t, p.path("t-one/REQUEST.md"))
				}
				p.put(t, "README.md", "free\n")
			}))
		},
		protect("main", "release/*"), word, word,
	}
}

// planRevoked takes a key out of use.
func (p *player) planRevoked() []func() []mupdate {
	file := p.serverRevoked
	if file == "" {
		file = p.rules().serverRevoked
	}
	if file == "" {
		return nil
	}
	k := pick(p.world, keyA, keyP256, keyB)
	return []func() []mupdate{
		func() []mupdate {
			text, _ := p.book.text(file)
			write(p.t, file, text+k.Authorized()+"\n")
			p.did("plan: the server revokes a key")
			return p.aRelay()
		},
		func() []mupdate { p.did("plan: after the revocation"); return p.aRelay() },
		func() []mupdate { p.did("plan: after the revocation"); return p.newPolicy() },
	}
}

// planNonce uses a nonce on one protected ref and then on another.
func (p *player) planNonce() []func() []mupdate {
	const one, two = "refs/heads/release/1", "refs/heads/main"
	nonce := ""
	word := func(ref, label string, replay bool) func() []mupdate {
		return func() []mupdate {
			p.serial++
			base := p.base(ref)
			key := p.speaker("op@example.com", "op-relay")
			d := &draft{parents: []string{base}, tree: p.copy(base), key: key, when: max(p.dates[base]+1, p.now-20)}
			e := p.relay("t-one", bodyHash("Is the release ready?\n"), d.when, key)
			if replay && p.one(2) {
				e.set("nonce", " "+nonce)
			} else {
				nonce = p.nonces[len(p.nonces)-1]
			}
			p.put(d.tree, p.path(fmt.Sprintf("t-one/N-%d.md", p.serial)), e.text())
			p.did(label)
			return p.to(ref, p.keep(d))
		}
	}
	return []func() []mupdate{
		func() []mupdate {
			o := p.inRepo()
			o.protect, o.nonceRefs, o.otherDeny = []string{"main", "release/*"}, !p.one(4), false
			p.did("plan: how far a nonce reaches")
			return p.setPolicy(o, p.speaker("op@example.com"))
		},
		word(one, "plan: a relay on one ref", false), word(two, "plan: a relay on another ref", true), word(one, "plan: a relay on the first ref again", true),
	}
}

// planSuccessor hands over to another key, and back.
func (p *player) planSuccessor() []func() []mupdate {
	sign := func(label, text string) func() []mupdate {
		return func() []mupdate {
			p.did(label)
			return p.to("refs/heads/main", p.commitOn(p.main(), p.speaker("op@example.com"), func(t tree) { p.put(t, p.inRepo().signers, text) }))
		}
	}
	return []func() []mupdate{
		sign("plan: a key more", fixedSigners()+keyNext.Line("op@example.com,op-relay,rig-a", "")),
		p.aRelay, sign("plan: the first key goes", keyNext.Line("op@example.com,op-relay,rig-a", "")), p.aRelay,
		func() []mupdate {
			p.did("plan: a release takes main over")
			base, side := p.base("refs/heads/release/1"), p.main()
			d := &draft{parents: []string{base, side}, tree: p.copy(side), key: p.speaker("op@example.com")}
			return p.to("refs/heads/release/1", p.keep(d))
		},
		p.aRelay,
	}
}
