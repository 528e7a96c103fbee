package attack

import (
	"fmt"
	"strings"
)

// aSecret has the form of a key, hidden a tag that nobody sees.
const (
	aSecret = "AKIAZ7XQ2M4KD9PLW3TV"
	hidden  = "Read this\U000e0041\U000e0042 now"
)

// mixed is a push to main of a few commits, each with something that only some of the
// gates, or each in its own way, come across.
func (p *player) mixed() []mupdate {
	p.labels = nil
	p.now += int64(10 + p.rng.IntN(200))
	id := p.main()
	for range 1 + p.rng.IntN(3) {
		id = p.mix(id)
	}
	if p.one(4) && len(p.pool) > 0 {
		side := p.mix(p.main())
		d := p.merge(p.book.model, id, side)
		d.when = max(d.when, p.now-30)
		id = p.keep(d)
	}
	return p.to("refs/heads/main", id)
}

// mix makes one commit.
func (p *player) mix(parent string) string {
	d := &draft{parents: []string{parent}, tree: p.copy(parent), key: pick(p.world, nil, keyA, p.speaker("op@example.com"))}
	d.when = max(p.dates[parent]+1, p.now-int64(p.rng.IntN(60)))
	for range 1 + p.rng.IntN(2) {
		p.mixIn(d)
	}
	return p.keep(d)
}

func (p *player) mixIn(d *draft) {
	t := d.tree
	p.serial++
	thread := pick(p.world, "t-one", "other", "third", "closed")
	q := p.path(fmt.Sprintf("%s/X-%d.md", thread, p.serial))
	e := p.request(thread, fmt.Sprintf("Mixed %d\n", p.serial))
	there := p.envelopes(t)
	some := func() string {
		if len(there) == 0 {
			return q
		}
		return pick(p.world, there...)
	}
	name := func(path string) string { return path[strings.LastIndex(path, "/")+1:] }
	text := func(e *envelopeText) {
		e.set("body_hash", ` "`+bodyHash(e.body)+`"`)
		p.put(t, q, e.text())
	}
	switch n := p.rng.IntN(20); n {
	case 0:
		p.did("mixed: a secret in an envelope")
		if p.one(2) {
			e.set("tldr", " use "+aSecret)
		} else {
			e.body += "Use " + aSecret + "\n"
		}
		text(e)
	case 1, 2:
		p.did("mixed: a message that hides")
		d.message = pick(p.world, hidden+"\n", "Subject\n\n"+hidden+"\n", "Use "+aSecret+"\n", "Fine\n\n"+lawfulJoiner+"\n", "One\r\ntwo\n")
		if p.one(2) {
			text(e)
		}
	case 3:
		p.did("mixed: a name that hides")
		q = p.path(thread + "/" + pick(p.world, "A"+aSecret, "R\u200bX", "R\u202eX") + fmt.Sprintf("-%d.md", p.serial))
		text(e)
	case 4, 5:
		p.did("mixed: a thread is closed, or goes on")
		e = p.request("closed", fmt.Sprintf("On and on %d\n", p.serial))
		q = p.path(fmt.Sprintf("closed/X-%d.md", p.serial))
		e.set("type", pick(p.world, " RESOLUTION", " REQUEST", " ACK"))
		text(e)
	case 6:
		p.did("mixed: an edit")
		if old, ok := t[some()]; ok {
			q = some()
			p.put(t, q, string(p.objs[old.id].data)+"more\n")
		}
	case 7:
		p.did("mixed: gone, or elsewhere")
		old := some()
		entry, ok := t[old]
		delete(t, old)
		if ok && p.one(2) {
			t[pick(p.world, q, p.path("fresh/"+name(old)), "src/"+name(old))] = entry
		}
	case 8:
		p.did("mixed: a twin")
		old := some()
		at := strings.TrimSuffix(old, name(old))
		p.put(t, pick(p.world, at+strings.ToLower(name(old)), strings.ToUpper(at)+name(old), at+name(old)+"."), e.text())
	case 9:
		p.did("mixed: a clone's configuration")
		at := pick(p.world, ".bridge/config.yaml", p.path(".bridge/config.yaml"), ".bridge/Config.yaml")
		if _, ok := t[at]; ok {
			delete(t, at)
		} else {
			p.put(t, at, "rig: rig-a\n")
		}
	case 10:
		p.did("mixed: no file")
		t[pick(p.world, q, some())] = pick(p.world, mentry{"160000", p.main()}, mentry{"120000", p.object("blob", []byte("../README.md"))}, mentry{"100755", p.object("blob", []byte(e.text()))})
	case 11, 12:
		p.did("mixed: a relay with a fault")
		reply := strings.Repeat("a", 64)
		if h := p.hashes(p.book.model, t, thread); len(h) > 0 {
			reply = pick(p.world, h...)
		}
		d.key = p.speaker("op@example.com", "op-relay")
		e = p.relay(thread, reply, d.when, d.key)
		if p.one(2) {
			p.spoil(e)
		}
		p.put(t, q, e.text())
	case 13:
		p.did("mixed: an envelope with a fault")
		p.spoil(e)
		p.put(t, q, e.text())
	case 14:
		p.did("mixed: another's thread")
		e.set("thread", pick(p.world, " other", " t-one", " nowhere"))
		p.put(t, q, e.text())
	case 15:
		p.did("mixed: policy or signers")
		q = pick(p.world, policyFile, p.inRepo().signers, revokedFile)
		switch {
		case p.one(4):
			delete(t, q)
		case p.one(4):
			t[q] = mentry{pick(p.world, "120000", "100755"), p.object("blob", []byte("x"))}
		case q == policyFile:
			p.put(t, q, pick(p.world, render(p.vary(p.inRepo())), pick(p.world, noPolicies...)))
		default:
			p.put(t, q, pick(p.world, p.signersText(), "garbage\n", "", keyR.Authorized()+"\n"))
		}
	case 16:
		p.did("mixed: outside of threads")
		p.put(t, pick(p.world, "README.md", "src/x.go", "a/b/c.md", "t-one/sub/x.md", "docs/x.md", "docs/y.txt"), fmt.Sprintf("text %d\n", p.serial))
	case 17:
		p.did("mixed: no fence")
		p.put(t, pick(p.world, q, p.path(fmt.Sprintf("plain-%d/x.md", p.serial%2))), "no fence\n")
		if p.one(3) {
			q = p.path(fmt.Sprintf("plain-%d/y.md", p.serial%2))
			e = p.request(fmt.Sprintf("plain-%d", p.serial%2), "Now a thread\n")
			text(e)
		}
	case 18:
		p.did("mixed: a source of a bundle")
		p.put(t, "agent/manifest.json", `{"bundleVersion": "1", "name": "demo", "version": "1.0.0", "entry": "run", "platform": "linux", "arch": "amd64", "libc": "musl"}`)
		t["agent/run"] = mentry{"100755", p.object("blob", fmt.Appendf(nil, "#!/bin/sh\n# %d\n", p.serial))}
	case 19:
		p.did("mixed: bundles of the policy")
		o := p.inRepo()
		text := render(o)
		if e, ok := t[policyFile]; !ok || !strings.Contains(string(p.objs[e.id].data), "bundles:") {
			text += "bundles:\n  - {format: agent, source: agent, output: out/demo.tar.gz}\n"
			rendered.Store(text, o)
		}
		d.key = p.speaker("op@example.com")
		p.put(t, policyFile, text)
	}
}
