package attack

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
)

func stamp(at int64, zone int) string {
	return time.Unix(at, 0).In(time.FixedZone("", zone*3600)).Format("2006-01-02T15:04:05Z07:00")
}

func pick[T any](w *world, of ...T) T { return of[w.rng.IntN(len(of))] }

// one tells of one in n.
func (w *world) one(n int) bool { return w.rng.IntN(n) == 0 }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

var threads = []string{"t-one", "other", "fresh", "con", "docs", "dist", "x", "T-one", "third"}

// envelopes lists the paths of a tree that may be envelopes.
func (w *world) envelopes(t tree) []string {
	return slices.DeleteFunc(sorted(t), func(p string) bool { return w.rules().thread(p) == "" })
}

// hashes lists the body hashes of a thread in a tree, as the attacker reads
// them.
func (w *world) hashes(m *model, t tree, thread string) (out []string) {
	for _, p := range w.envelopes(t) {
		if w.rules().thread(p) == thread && regular(t[p]) {
			if e := m.envelope(t[p].id, plainPolicy); e.parses {
				out = append(out, e.hash)
			}
		}
	}
	return out
}

// spoils names what spoil does.
var spoils = []string{"from", "to", "date", "status", "type", "thread", "body hash", "a key less", "an unknown key", "a key twice", "tldr", "opening fence", "closing fence",
	"bytes of the body", "line ends", "a long file", "form of the nonce", "replayed nonce", "replayed nonce", "replayed nonce", "replayed nonce", "in_reply_to", "attested_by",
	"attested_at", "attested_at", "form of attested_at", "an attestation field less", "from a relay without attestation", "attestation without relay", "no body", "display name", "references"}

// spoil makes an envelope wrong, or odd.
func (w *world) spoil(e *envelopeText) {
	q := func(s string) string { return ` "` + s + `"` }
	n := w.rng.IntN(44)
	if n < len(spoils) {
		w.did("envelope: " + spoils[n])
	}
	switch n {
	case 0:
		e.set("from", pick(w, " Rig-A", " rig_a", "", " 12", ` "rig-a"`, " op", " x-relay", " rig-b", " -relay", " bob-relay"))
	case 1:
		e.set("to", pick(w, " Rig-Z", "\n  - rig-z\n  - rig-y", "\n  - rig-z\n  - 12", "", " rig-z rig-y"))
	case 2:
		e.set("date", pick(w, " 2026-13-01", " 2026-02-30", " 20260105", " 2026-01-05 10:00", " 0000-01-01", ` "2026-01-05T10:00:00+02:00"`, ` "2026-01-05T25:00:00Z"`))
	case 3:
		e.set("status", pick(w, " Going on", " ▶\ufe0f Going on", " ▶", " ✅ Done", " ⏸ wait", ` "▶ "`, " ▶\u00a0x"))
	case 4:
		e.set("type", pick(w, " FOO", " HANDOFF", " ACK", " RESOLUTION", " request", ""))
	case 5:
		e.set("thread", pick(w, " other", " t-one", " con", " dist", " T-one", " x", ""))
	case 6:
		e.set("body_hash", pick(w, q(strings.Repeat("0", 64)), " "+strings.Repeat("1", 64), q("abc"), ""))
	case 7:
		e.drop(pick(w, e.keys...))
	case 8:
		e.set(pick(w, "extra", "nonces", "From"), " x")
	case 9:
		e.keys = append(e.keys, pick(w, e.keys...))
	case 10:
		e.set("tldr", pick(w, " &a x", " *a", " !!str x", " | ", " a: b", " 'x", ` ""`, ` "unfinished`, " 61e9540", " short and sweet"))
	case 11:
		e.head = pick(w, "", "--- \n", "----\n", "\ufeff---\n", "---\r\n", "\n---\n")
	case 12:
		e.tail = pick(w, "", "---", "----\n", "...\n", "---\r\n")
	case 13:
		e.body += pick(w, "\xff", "\ufeff", "\x00", "\u200b", "OK\U000e0041", lawfulJoiner, "  \n\n", "\r\n", "more")
	case 14:
		e.mangle = func(s string) string { return strings.ReplaceAll(s, "\n", pick(w, "\r\n", "\r")) }
	case 15:
		e.mangle = func(s string) string { return s + strings.Repeat("x", 800) }
	case 16:
		e.set("nonce", pick(w, " "+strings.ToLower(w.nonce()), " 01ABC", " 8"+strings.Repeat("0", 25), " 0123456789-ABCDEFGHJK", ` "`+strings.Repeat("0", 26)+`"`, ""))
	case 17, 18, 19, 20:
		e.set("nonce", " "+pick(w, w.nonces...))
	case 21:
		e.set("in_reply_to", pick(w, q(strings.Repeat("a", 64)), q(bodyHash("Who is on call?\n")), q(bodyHash(e.body)), q("short")))
	case 22:
		e.set("attested_by", pick(w, " "+keyB.Fingerprint(), " "+keyA.Fingerprint()+"=", " ~/.ssh/id_ed25519.pub", ` "key::`+keyA.Authorized()+` op"`, " "+keyB.Authorized(), " 0xDEADBEEF", ""))
	case 23, 24:
		e.set("attested_at", " "+stamp(w.now+int64(pick(w, -700, -601, -600, -599, 0, 599, 600, 601, -61, 59)), pick(w, 0, 2, -5)))
	case 25:
		e.set("attested_at", pick(w, " 2026-01-05", " 2026-02-30T00:00:00Z", " never", ""))
	case 26:
		e.drop(pick(w, "body_hash", "in_reply_to", "nonce", "attested_by", "attested_at"))
	case 27:
		e.set("from", " op-relay")
	case 28:
		e.set("nonce", " "+w.nonce())
	case 29:
		e.body = ""
	case 30:
		e.set("display_name", pick(w, " "+strings.Repeat("é", 80), " "+strings.Repeat("é", 81), " Op"))
	case 31:
		e.set("references", pick(w, "\n  - a1b2c3d", "\n  - 1234567", "", " a1b2c3d"))
	}
	if e.v["body_hash"] != "" && strings.HasPrefix(e.v["body_hash"], ` "`) && len(e.v["body_hash"]) == 67 && w.one(2) && e.v["body_hash"] != q(strings.Repeat("0", 64)) {
		e.v["body_hash"] = q(bodyHash(e.body))
	}
}

var hellNames = []string{"con.md", "aux.x.md", "a:b.md", "back\\slash.md", " lead.md", "trail .md", "trail.md ", "-dash.md", "q\"uote.md", "nl\nx.md", "[slug].md",
	"tab\tx.md", "e\u0301.md", "é.md", "É.md", "request.md", "REQUEST.MD", "Request.md", "a b/c.md", "..md", ".md", "\u202egnp.md", "\xff.md", strings.Repeat("n", 253) + ".md",
	strings.Repeat("n", 252) + ".md", "lpt1.md", "COM5.md", "c\u0085.md", "ß.md", "SS.md"}

// aliasNames are other names of directories, for some file system, and names
// that are near them.
var aliasNames = []string{"T-one", "t-one.", "t-one ", "t-one::$INDEX_ALLOCATION", "t-\u200done", "OTHER", "other\ufeff", "other:s", "t-one~1", "third-~1", "THIRD", "t\uff0done",
	".Bridge", ".bridge.", ".bridge\u200b", "BRIDGE~1", "bridge", "Docs"}

// change makes one commit's worth of change on a commit; the draft can still
// be spoiled.
func (w *world) change(m *model, base string) *draft {
	d := &draft{parents: []string{base}, tree: w.copy(base), when: w.dates[base] + int64(w.rng.IntN(20)), key: pick(w, nil, keyA, pick(w, opKeys...))}
	if len(w.rules().forgeKeys) > 0 && w.one(4) {
		w.did("commit: by the forge")
		d.key, d.committer, d.author = keyF, "Forge <noreply@forge.example>", pick(w, "", "Ann <ann@example.com>")
	}
	thread := pick(w, "t-one", "t-one", "other", "third")
	if w.one(8) {
		thread = pick(w, threads...)
	}
	if w.one(12) {
		thread = pick(w, aliasNames...)
	}
	w.serial++
	name := fmt.Sprintf("M-%d.md", w.serial)
	hostile := w.one(3)
	if hostile && w.one(4) {
		name = pick(w, hellNames...)
	}
	p := w.path(thread + "/" + name)
	if w.rules().root != "" && w.one(8) {
		p = pick(w, "Bridge/", "A/B/", "bridge/bridge/", "a/", "") + pick(w, thread+"/"+name, "t-one/REQUEST.md", "other/request.md")
	}
	old := w.envelopes(d.tree)
	some := func() string {
		if len(old) == 0 {
			return p
		}
		return pick(w, old...)
	}
	switch n := w.rng.IntN(24); {
	case n < 5:
		w.did("change: an envelope")
		e := w.request(thread, fmt.Sprintf("Body %d\n", w.serial))
		if w.one(4) {
			e.set("from", pick(w, " op-relay", " rig-b", " bob-relay", " rig-c"))
			e.set("type", pick(w, " ACK", " HANDOFF", " RESPONSE", " ACK"))
		}
		if hostile {
			w.spoil(e)
		}
		w.put(d.tree, p, e.text())
	case n < 13:
		reply := strings.Repeat("b", 64)
		if h := w.hashes(m, d.tree, thread); len(h) > 0 {
			reply = pick(w, h...)
		}
		at := w.now - 30 + int64(w.rng.IntN(30))
		d.when, d.key, d.committer, d.author = max(at-int64(w.rng.IntN(5)), w.dates[base]), pick(w, opKeys...), "", ""
		e := w.relay(thread, reply, at, d.key)
		switch {
		case w.one(8):
			w.did("change: a relay of another person")
			d.key, d.committer = keyB, "Bob <bob@example.com>"
			e.set("from", " bob-relay")
			e.set("attested_by", " "+keyB.Fingerprint())
		default:
			w.did("change: a relay by " + d.key.PublicKey().Type())
		}
		if w.one(4) || w.rules().frozen && w.one(2) {
			w.did("change: a freeze")
			e.set("type", " ACK")
			e.set("status", pick(w, " ⏸ deciding", " ⏸ deciding", " ▶ deciding"))
		}
		if hostile {
			w.spoil(e)
		}
		w.put(d.tree, p, e.text())
		if w.one(15) {
			w.put(d.tree, "README.md", "also\n")
		}
		if w.one(25) {
			w.put(d.tree, w.path(thread+"/second.md"), w.relay(thread, reply, at, d.key).text())
		}
	case n < 15:
		w.did("change: a file outside threads")
		w.put(d.tree, pick(w, "README.md", "docs/guide.md", "src/a/b/c.go", "docs/x.md", "a/b/c.md", "t-one/notes.txt"), fmt.Sprintf("text %d\n", w.serial))
	case n < 16: // edit
		w.did("change: an edit of an envelope")
		if w.one(2) {
			w.put(d.tree, some(), w.request(thread, "Edited\n").text())
		} else {
			q := some()
			e := d.tree[q]
			e.mode = pick(w, "100755", "120000", "100644")
			if e.id != "" {
				d.tree[q] = e
			}
		}
	case n < 17: // delete, rename, copy
		w.did("change: a deletion, a move or a copy")
		q := some()
		e, ok := d.tree[q]
		if w.one(3) == false && ok {
			delete(d.tree, q)
		}
		if ok && w.one(2) {
			d.tree[p] = e
		}
	case n < 18: // another kind of thing
		w.did("change: a link, a submodule, a program or a directory")
		q := pick(w, p, p, some())
		switch w.rng.IntN(4) {
		case 0:
			d.tree[q] = mentry{"120000", w.object("blob", []byte("../README.md"))}
		case 1:
			d.tree[q] = mentry{"160000", base}
		case 2:
			d.tree[q] = mentry{"100755", w.object("blob", []byte(w.request(thread, "Run me\n").text()))}
		case 3:
			delete(d.tree, q)
			w.put(d.tree, q+"/deep.md", "a directory now\n")
		}
	case n < 20: // policy and signers
		w.did("change: policy or signers")
		q := pick(w, policyFile, signersFile, revokedFile, w.rules().signers)
		switch {
		case w.one(6):
			delete(d.tree, q)
		case w.one(8):
			d.tree[q] = mentry{pick(w, "120000", "100755"), w.object("blob", []byte("../README.md"))}
		case q == policyFile:
			text := pick(w, sorted(policies)[1:]...)
			if w.one(4) {
				text = pick(w, noPolicies...)
			}
			w.put(d.tree, q, text)
		case q == signersFile || q == otherFile:
			w.put(d.tree, q, pick(w, fixedSigners()+keyX.Line("op@example.com,op-relay", ""), keyX.Line("*@example.com,*", ""), fixedSigners()+"garbage\n", "", "# none\n",
				keyA.Line("op@example.com,op-relay,rig-a", ""), keyA.Line("op@example.com", ""), fixedSigners()))
		default:
			w.put(d.tree, q, pick(w, keyA.Authorized()+"\n", "", "nonsense\n", "# nobody\n", keyR.Authorized()+"\n"+keyB.Authorized()+"\n"))
		}
		d.when = max(d.when, w.now-60)
	case n < 21: // many or deep
		w.did("change: a large or deep tree")
		switch w.rng.IntN(12) {
		case 0, 1, 2:
			for i := range 40 {
				w.put(d.tree, w.path(fmt.Sprintf("third/n-%d-%d.md", w.serial, i)), w.request("third", fmt.Sprintf("Many %d %d\n", w.serial, i)).text())
			}
		case 3:
			for i := range 1000 {
				d.tree[fmt.Sprintf("wide/%d-%d", w.serial%3, i)] = mentry{"100644", w.object("blob", nil)}
			}
		case 4:
			w.put(d.tree, strings.Repeat("d/", 400)+"x.md", "deeper\n")
		default:
			w.put(d.tree, strings.Repeat("d/", 60)+"x.md", "deep\n")
		}
	case n < 22: // nothing at all
		w.did("change: nothing")
	case n < 23: // an old file comes back, or a file of another commit
		w.did("change: a file of another commit")
		from := w.trees[pick(w, w.pool...)]
		if files := sorted(from); len(files) > 0 {
			q := pick(w, files...)
			d.tree[q] = from[q]
		}
	default:
		w.did("change: no envelope in a thread")
		d.tree[p] = mentry{"100644", w.object("blob", []byte(pick(w, "no fence\n", "", "---\n", "---\n---\n", "---\nfrom: a\n")))}
	}
	if w.one(6) {
		w.forge(d)
	}
	return d
}

// forgeries names what forge does.
var forgeries = []string{"key", "key", "committer", "author", "another person's key", "ahead of the clock", "before the parent", "date", "header", "header before the signature", "text after the armor",
	"text before the armor", "header of the other object format", "two armors", "armor", "namespace", "reserved field", "version", "signature", "signature", "public key", "signature of another payload",
	"other signatures", "namespace", "malformed commit", "odd tree", "message", "a parent more", "a root", "a parent twice"}

// forge plays with the commit object itself.
func (w *world) forge(d *draft) {
	replace := func(old, new string) func([]byte) []byte {
		return func(raw []byte) []byte { return bytes.Replace(raw, []byte(old), []byte(new), 1) }
	}
	armored := func(header string, change func([]byte) []byte) func([]byte) []byte {
		return func(p []byte) []byte {
			a := testkeys.Armor(testkeys.Sign(p, keyA, "git", "sha512", "").Marshal())
			return testkeys.SignCommitHeader(p, header, change(a))
		}
	}
	blob := func(change func(*testkeys.Signature)) func([]byte) []byte {
		return func(p []byte) []byte {
			s := testkeys.Sign(p, keyA, "git", pick(w, "sha256", "sha512"), "")
			change(s)
			return testkeys.SignCommitHeader(p, w.header(), testkeys.Armor(s.Marshal()))
		}
	}
	n := w.rng.IntN(len(forgeries))
	w.did("commit: " + forgeries[n])
	sig := "\n" + w.header() + " "
	switch n {
	case 0, 1:
		d.key = pick(w, allKeys...)
	case 2:
		d.committer = pick(w, "Bob <bob@example.com>", "Op <OP@example.com>", "Op <op@elsewhere.com>", "rig-bridge <op@example.com>", "Dep [bot] <op@example.com>", "Op <>", "Op <op>")
	case 3:
		d.author = pick(w, "Bob <bob@example.com>", "Somebody <op@example.com>", "Op <op@localhost>", "rigward <op@example.com>")
	case 4:
		d.key, d.committer = pick(w, keyB, keyNeg, keyB), pick(w, "Bob <bob@example.com>", op, "Ann <ann@example.com>")
	case 5:
		d.when = w.now + int64(pick(w, 301, 300, 299, 3600, 101, 99))
	case 6:
		d.when = w.dates[d.parents[0]] - int64(pick(w, 301, 300, 299, 101, 99, 1<<30))
	case 7:
		d.when = pick[int64](w, 0, 253402300799, 253402300800, 1<<62, 1577880000)
	case 8:
		d.headers = pick(w, "encoding ISO-8859-1\n", "change-id abc\n", "gpgsigx junk\n", "gpgsig-sha256 junk\n", "mergetag object x\n y\n", "HG:extra x\n")
	case 9:
		d.raw = replace(sig, pick(w, "\ngpgsigx junk", "\nparent "+d.parents[0], "\nauthor Op <op@example.com> 1 +0000", "\ntree "+w.zero())+sig)
	case 10:
		d.raw = replace("-----END SSH SIGNATURE-----\n", pick(w, "-----END SSH SIGNATURE-----\nx y\n", "-----END SSH SIGNATURE-----\n junk\n", "-----END SSH SIGNATURE-----\ngpgsig x\n", "-----END SSH SIGNATURE----- \n"))
	case 11:
		d.raw = replace(sig+"-----BEGIN", sig+pick(w, "x\n -----BEGIN", " -----BEGIN", "\n -----BEGIN"))
	case 12:
		d.sign = armored(w.other(), func(a []byte) []byte { return a })
	case 13:
		d.sign = armored(w.header(), func(a []byte) []byte { return append(a, a...) })
	case 14:
		d.sign = armored(w.header(), func(a []byte) []byte {
			return bytes.Replace(a, []byte("\n"), []byte(pick(w, "\r\n", "\n\n", " \n", "\nComment: x\n\n")), 1)
		})
	case 15:
		d.sign = blob(func(s *testkeys.Signature) { s.Namespace = pick(w, "file", "", "git ") })
	case 16:
		d.sign = blob(func(s *testkeys.Signature) { s.Reserved = "x" })
	case 17:
		d.sign = blob(func(s *testkeys.Signature) { s.Version = pick(w, uint32(0), 2) })
	case 18:
		d.sign = blob(func(s *testkeys.Signature) { s.Signature[len(s.Signature)-1] ^= 1 })
	case 19:
		d.sign = blob(func(s *testkeys.Signature) { s.Signature = append(s.Signature, 0) })
	case 20:
		d.sign = blob(func(s *testkeys.Signature) { s.PublicKey = pick(w, keyB.PublicKey().Marshal(), nil, s.PublicKey[:20]) })
	case 21:
		d.sign = func(p []byte) []byte { // for another payload
			return testkeys.SignCommitHeader(p, w.header(), testkeys.Armor(testkeys.Sign(append(p, '\n'), keyA, "git", "sha512", "").Marshal()))
		}
	case 22:
		d.sign = func(p []byte) []byte {
			return testkeys.SignCommitHeader(p, w.header(), []byte(pick(w, "-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n", "-----BEGIN SIGNED MESSAGE-----\nMII=\n-----END SIGNED MESSAGE-----\n", "x\n", "")))
		}
	case 23:
		d.sign = func(p []byte) []byte {
			return testkeys.SignCommitHeader(p, w.header(), testkeys.Armor(testkeys.Sign(p, keyA, "file", "sha512", "").Marshal()))
		}
	case 24:
		d.raw = pick(w,
			replace("\ncommitter ", "\ncommiter "), replace("tree ", "tree  "), replace(" +0000\n", "\n"), replace("author Op <", "author Op<"),
			replace("committer Op <", "committer Op\x00 <"), replace("\nauthor ", "\nparent "+d.parents[0][:39]+"\nauthor "), replace(" +0000\n", " +00000\n"),
			replace("author ", "author \nauthor "), func(raw []byte) []byte { return bytes.TrimSuffix(raw[:bytes.Index(raw, []byte("\n\n"))], []byte("\n")) })
	case 25:
		d.odd = 1 + w.rng.IntN(6)
	case 26:
		d.message = pick(w, "CRLF\r\nmessage\r\n", "-----BEGIN SSH SIGNATURE-----\nx\n-----END SSH SIGNATURE-----\n", "no end", "nul\x00byte\n", "\n\n", " gpgsig x\n")
	case 27:
		d.parents = append(d.parents, pick(w, w.pool...)) // merge in name only
	case 28:
		d.parents = nil
	case 29:
		d.parents = append(d.parents, d.parents[0])
	}
}

// merge joins commits; sometimes it is evil.
func (w *world) merge(m *model, parents ...string) *draft {
	d := &draft{parents: parents, tree: w.copy(parents[0]), key: pick(w, nil, keyA)}
	w.did("change: a merge")
	if w.one(4) {
		d.key, d.committer = keyF, "Forge <noreply@forge.example>"
	}
	for _, p := range parents {
		d.when = max(d.when, w.dates[p])
	}
	for _, p := range parents[1:] {
		for q, e := range w.trees[p] {
			if _, ours := d.tree[q]; !ours {
				d.tree[q] = e
			}
		}
	}
	switch {
	case w.one(4): // evil: something of its own
		c := w.change(m, parents[0])
		d.tree, d.sign, d.raw, d.odd = c.tree, c.sign, c.raw, c.odd
		if w.one(2) {
			for q, e := range w.trees[parents[len(parents)-1]] {
				d.tree[q] = e
			}
		}
	case w.one(5): // the other side's tree alone
		d.tree = w.copy(parents[len(parents)-1])
	case w.one(6): // files of the other side win
		maps.Copy(d.tree, w.trees[parents[len(parents)-1]])
	}
	return d
}

// chain makes the commits of one update and returns the last.
func (w *world) chain(m *model, base string) string {
	id := base
	for range 1 + w.rng.IntN(3) {
		var d *draft
		switch {
		case w.one(7):
			side := w.commit(w.change(m, pick(w, id, base, base)))
			w.pool = append(w.pool, side)
			sides := []string{id, side}
			if w.one(3) {
				slices.Reverse(sides)
			}
			if w.one(4) {
				sides = append(sides, pick(w, w.pool...))
			}
			d = w.merge(m, sides...)
		case w.one(15) && len(w.pool) > 0:
			d = w.merge(m, id, pick(w, w.pool...))
		case w.one(18): // a branch from an older tip, which has merged a later one
			w.did("change: a merge of what has merged")
			past := m.history(base)
			olds := slices.DeleteFunc(slices.Clone(w.pool), func(id string) bool { return !past[id] })
			if len(olds) == 0 {
				olds = []string{base}
			}
			side := w.commit(w.change(m, pick(w, olds...)))
			sides := []string{side, pick(w, olds...)}
			if w.one(2) {
				slices.Reverse(sides)
			}
			inner := w.commit(w.merge(m, sides...))
			w.pool = append(w.pool, side, inner)
			d = w.merge(m, id, inner)
		default:
			d = w.change(m, id)
		}
		id = w.commit(d)
		w.pool = append(w.pool, id)
	}
	return id
}

// tag makes an annotated tag of an object.
func (w *world) tag(id, kind string) string {
	return w.object("tag", []byte("object "+id+"\ntype "+kind+"\ntag v1\ntagger Op <op@example.com> 1 +0000\n\nx\n"))
}

// rules are what the world's first policy says.
func (w *world) rules() mpolicy {
	if p, ok := meaning(w.policy); ok {
		return p
	}
	return serverPolicies[w.policy]
}

// push thinks of a push.
func (w *world) push(m *model) (updates []mupdate) {
	used := map[string]bool{}
	n := 1
	if w.one(6) {
		n = 2 + w.rng.IntN(4)
		w.did("push: several refs")
	}
	if w.one(8) { // time goes by
		w.now += int64(w.rng.IntN(1500))
	}
	for range n {
		ref := "refs/heads/main"
		if w.one(3) || n > 2 && !w.one(n) {
			ref = pick(w, "refs/heads/release/1", "refs/heads/release/2", "refs/heads/feature", "refs/heads/feature/x", "refs/heads/new", "refs/tags/v1", "refs/tags/v2", "refs/notes/x",
				"refs/replace/"+w.tips["refs/heads/main"], "refs/heads/alias", "refs/heads/release/a/b")
		}
		if used[ref] {
			continue
		}
		used[ref] = true
		u := mupdate{old: w.zero(), ref: ref}
		base := w.tips["refs/heads/main"]
		tip := w.tips[ref]
		if ref == "refs/heads/alias" && w.alias && !w.one(4) {
			tip = w.tips["refs/heads/main"]
		}
		if tip != "" {
			u.old, base = tip, tip
			if w.trees[base] == nil {
				base = w.tips["refs/heads/main"]
			}
		}
		switch {
		case w.one(25) && !zero(u.old):
			u.new = w.zero()
			w.did("push: a deletion")
			if under := ref + "/" + pick(w, "x", "y"); w.one(2) && w.tips[under] == "" && !used[under] {
				w.did("push: a ref below a deleted one")
				used[under] = true
				updates = append(updates, mupdate{w.zero(), w.chain(m, base), under})
			}
		case w.one(20): // back, or to anything
			w.did("push: an old or a refused commit")
			u.new = pick(w, w.pool...)
		case w.one(15): // beside the tip
			w.did("push: beside the tip")
			u.new = w.chain(m, pick(w, w.pool...))
		case strings.HasPrefix(ref, "refs/tags/") && w.one(2):
			w.did("push: an annotated tag")
			u.new = w.tag(w.chain(m, base), "commit")
			if w.one(3) {
				u.new = w.tag(u.new, "tag")
			}
		case w.one(40):
			w.did("push: no commit")
			u.new = pick(w, w.object("blob", []byte("x\n")), w.trees[base]["README.md"].id, w.tag(w.chain(m, base), "commit"), w.tag(w.object("blob", []byte("x\n")), "blob"))
		default:
			u.new = w.chain(m, base)
		}
		if u.new == u.old || u.new == "" {
			continue
		}
		if strings.HasPrefix(ref, "refs/") && !strings.HasPrefix(ref, "refs/heads/") {
			w.did("push: " + strings.Join(strings.SplitN(ref, "/", 3)[:2], "/"))
		}
		updates = append(updates, u)
	}
	// What is deleted makes room first.
	slices.SortStableFunc(updates, func(a, b mupdate) int {
		switch {
		case zero(a.new) && !zero(b.new):
			return -1
		case zero(b.new) && !zero(a.new):
			return 1
		}
		return 0
	})
	return updates
}
