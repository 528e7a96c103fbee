package attack

import (
	"bytes"
	"compress/zlib"
	"crypto/elliptic"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/testkeys"
)

// A world is a server that is attacked for a while, with what the attacker
// knows of it.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	now    int64
	server string // bare repository
	extra  string // object directory of all that was ever tried
	shared bool   // the server sees that directory, too
	client string // bare repository that real pushes come from
	env    []string
	home   string

	tips    map[string]string // refs of the server
	trees   map[string]tree   // of every commit that was made
	dates   map[string]int64
	pool    []string // commits that were tried, accepted or not
	nonces  []string
	written map[string]bool // objects that are not yet at the server
	serial  int
	policy  string
	sha256  bool
	alias   bool     // refs/heads/alias is a symbolic ref to main
	always  []string // what is special about the server
	labels  []string // what was done to make the push
	// Files of the server that its configuration names, "" for none.
	serverPolicy, serverSigners, serverRevoked string
	deflate                                    *zlib.Writer // kept, since a new one costs more than what it writes
	objs                                       map[string]mobj
}

type tree map[string]mentry

var (
	keyA    = testkeys.Ed25519("attack op")
	keyB    = testkeys.Ed25519("attack bob")
	keyOld  = testkeys.Ed25519("attack expired")
	keyNew  = testkeys.Ed25519("attack too early")
	keyR    = testkeys.Ed25519("attack revoked")
	keyFile = testkeys.Ed25519("attack file")
	keyNeg  = testkeys.Ed25519("attack negated")
	keyX    = testkeys.Ed25519("attack nobody")
	keyF    = testkeys.Ed25519("attack forge")
	keyP256 = testkeys.ECDSA("attack op", elliptic.P256())
	keyP384 = testkeys.ECDSA("attack op", elliptic.P384())
	keyP521 = testkeys.ECDSA("attack op", elliptic.P521())
	keyRSA  = testkeys.RSA(3072)
	keyWeak = testkeys.RSA(2048)
	keySK   = testkeys.SKEd25519("attack op")
	keyIdle = keySK.WithFlags(0) // nobody touched it
	allKeys = []*testkeys.Key{keyA, keyB, keyOld, keyNew, keyR, keyFile, keyNeg, keyX, keyF, keyWeak, keyIdle}
	// opKeys are the operator's: each may speak where keyA may.
	opKeys = []*testkeys.Key{keyA, keyA, keyA, keyA, keyA, keyP256, keyP384, keyP521, keyRSA, keySK}
)

// fixedSigners are lines whose windows do not depend on the clock: 2001 and
// 2096 are far enough.
func fixedSigners() string {
	lines := ""
	for _, k := range []*testkeys.Key{keyA, keyP256, keyP384, keyP521, keyRSA, keySK, keyWeak} {
		lines += k.Line("op@example.com,op-relay,rig-a", "")
	}
	return lines +
		keyB.Line("bob@example.com,bob-relay,rig-b", "") +
		keyOld.Line("op@example.com,op-relay", `valid-before="20250101000000Z"`) +
		keyNew.Line("op@example.com,op-relay", `valid-after="20960101000000Z"`) +
		keyR.Line("op@example.com,op-relay", "") +
		keyFile.Line("op@example.com,op-relay", `namespaces="file"`) +
		keyNeg.Line("!op@example.com,*@example.com,op-relay", `namespaces="git,file"`)
}

var plainPolicy = mpolicy{maxFile: 8 << 20, maxFront: 64 << 10, maxCommits: 100000, minRSA: 3072, signers: signersFile, ignore: []string{".github", ".bridge"}, types: []string{"DECISIONS", "RESPONSE", "ACK"},
	freeze: 1800, skew: 300, clock: 600}

func with(change func(p *mpolicy)) mpolicy {
	p := plainPolicy
	change(&p)
	return p
}

// policies are the policy files that are tried, and what they mean by
// docs/spec/policy.md. "" is no file.
var policies = map[string]mpolicy{
	"":                                       plainPolicy,
	"version: 1\n":                           plainPolicy,
	"version: 1\nrevoked: .bridge/revoked\n": with(func(p *mpolicy) { p.revoked = revokedFile }),
	"version: 1\nrequire-signed: all\n":      with(func(p *mpolicy) { p.requireAll = true }),
	"version: 1\nrequire-signed: all\nforge-commits: allow-empty-merge\n":                         with(func(p *mpolicy) { p.requireAll, p.emptyMerge = true, true }),
	"version: 1\nprotect: [main, \"release/*\"]\nother-refs: deny\n":                              with(func(p *mpolicy) { p.protect, p.otherDeny = []string{"main", "release/*"}, true }),
	"version: 1\nprotect: [\"**\"]\nallow-refs: [\"refs/notes/*\"]\n":                             with(func(p *mpolicy) { p.protect, p.allow = []string{"**"}, []string{"refs/notes/*"} }),
	"version: 1\nprotect: [main, \"release/*\"]\nrelay:\n  nonce-scope: refs\n":                   with(func(p *mpolicy) { p.protect, p.nonceRefs = []string{"main", "release/*"}, true }),
	"version: 1\nenvelopes:\n  outside: deny\n":                                                   with(func(p *mpolicy) { p.outsideDeny = true }),
	"version: 1\nlimits:\n  file: 700\nclock:\n  skew: 100 s\nrelay:\n  clock: 60\n":              with(func(p *mpolicy) { p.maxFile, p.skew, p.clock = 700, 100, 60 }),
	"version: 1\nrules:\n  relay-frozen: error\n":                                                 with(func(p *mpolicy) { p.frozen = true }),
	"version: 1\nrelay:\n  freeze-minutes: 5\nrules:\n  relay-frozen: error\nprotect: [\"**\"]\n": with(func(p *mpolicy) { p.frozen, p.freeze, p.protect = true, 300, []string{"**"} }),
	"version: 1\nrequire-signed: all\nrules:\n  relay-frozen:\n    level: error\n":                with(func(p *mpolicy) { p.frozen, p.requireAll = true, true }),
	"version: 1\nrequire-signed: all\nforge-commits:\n  - " + keyF.Fingerprint() + "\n":           with(func(p *mpolicy) { p.requireAll, p.forgeKeys = true, []string{keyF.Fingerprint()} }),
	"version: 1\nforge-commits:\n  - " + keyF.Fingerprint() + "=\n  - " + keyOld.Fingerprint() + "\nrevoked: .bridge/revoked\nrequire-signed: all\n": with(func(p *mpolicy) {
		p.requireAll, p.forgeKeys, p.revoked = true, []string{keyF.Fingerprint(), keyOld.Fingerprint()}, revokedFile
	}),
	"version: 1\nmin-rsa-bits: 2048\nrequire-signed: all\n":                    with(func(p *mpolicy) { p.minRSA, p.requireAll = 2048, true }),
	"version: 1\nsigners: " + otherFile + "\n":                                 with(func(p *mpolicy) { p.signers = otherFile }),
	"version: 1\nrelay:\n  types: [DECISIONS, ACK]\n  path-key: error\n":       with(func(p *mpolicy) { p.types, p.pathKey = []string{"DECISIONS", "ACK"}, true }),
	"version: 1\nenvelopes:\n  root: bridge\n":                                 with(func(p *mpolicy) { p.root = "bridge" }),
	"version: 1\nenvelopes:\n  root: a/b\n  outside: deny\n":                   with(func(p *mpolicy) { p.root, p.outsideDeny = "a/b", true }),
	"version: 1\nenvelopes:\n  root: a/b\n":                                    with(func(p *mpolicy) { p.root = "a/b" }),
	"version: 1\nenvelopes:\n  ignore: [\"docs/**\", \"other/**\"]\n":          with(func(p *mpolicy) { p.ignore = []string{"docs", "other"} }),
	"version: 1\nlimits:\n  commits: 2\n":                                      with(func(p *mpolicy) { p.maxCommits = 2 }),
	"version: 1\nprotect: [main, \"refs/tags/*\"]\nother-refs: allow\n":        with(func(p *mpolicy) { p.protect = []string{"main", "refs/tags/*"} }),
	"version: 1\nrules:\n  envelope-schema: warning\n  append-only: warning\n": with(func(p *mpolicy) { p.lowered = []string{"envelope-schema", "append-only"} }),
}

// serverPolicies are policies that a server alone may have.
var serverPolicies = map[string]mpolicy{
	"version: 1\nrules:\n  relay-nonce: off\n  relay-clock: off\n":                     with(func(p *mpolicy) { p.lowered = []string{"relay-nonce", "relay-clock"} }),
	"version: 1\nrules:\n  append-only: off\n  fast-forward: off\nprotect: [\"**\"]\n": with(func(p *mpolicy) { p.lowered, p.protect = []string{"append-only", "fast-forward"}, []string{"**"} }),
}

// rendered are policies that the generator has written, by their text.
var rendered sync.Map

// meaning is what a text means as a repository's policy.
func meaning(text string) (mpolicy, bool) {
	p, ok := policies[text]
	if !ok {
		if known, rendered := rendered.Load(text); rendered {
			return known.(mpolicy), true
		}
	}
	return p, ok
}

// render writes a policy as text, and remembers what it means.
func render(p mpolicy) string {
	list := func(of []string) string {
		var q []string
		for _, s := range of {
			q = append(q, strconv.Quote(s))
		}
		return "[" + strings.Join(q, ", ") + "]"
	}
	text := "version: 1\n"
	block := ""
	say := func(differs bool, line string, args ...any) {
		if differs {
			text += block + fmt.Sprintf(line, args...) + "\n"
			block = ""
		}
	}
	o := plainPolicy
	say(p.protect != nil, "protect: %s", list(p.protect))
	say(p.otherDeny, "other-refs: deny")
	say(len(p.allow) > 0, "allow-refs: %s", list(p.allow))
	say(p.requireAll, "require-signed: all")
	say(p.emptyMerge, "forge-commits: allow-empty-merge")
	say(len(p.forgeKeys) > 0, "forge-commits: %s", list(p.forgeKeys))
	say(p.revoked != "", "revoked: %s", p.revoked)
	say(p.serverRevoked != "", "revoked: %s", p.serverRevoked)
	say(p.minRSA != o.minRSA, "min-rsa-bits: %d", p.minRSA)
	say(len(p.expungers) > 0, "expunge:\n  signers: %s\n  quorum: %d", list(p.expungers), p.quorum)
	say(p.signers != o.signers, "signers: %s", p.signers)
	say(p.skew != o.skew, "clock:\n  skew: %d s", p.skew)
	block = "envelopes:\n"
	say(p.root != "", "  root: %s", p.root)
	say(p.outsideDeny, "  outside: deny")
	if !slices.Equal(p.ignore, o.ignore) {
		var globs []string
		for _, dir := range p.ignore {
			globs = append(globs, dir+"/**")
		}
		say(true, "  ignore: %s", list(globs))
	}
	block = "limits:\n"
	say(p.maxFile != o.maxFile, "  file: %d", p.maxFile)
	say(p.maxFront != o.maxFront, "  frontmatter: %d", p.maxFront)
	say(p.maxCommits != o.maxCommits, "  commits: %d", p.maxCommits)
	block = "relay:\n"
	say(p.nonceRefs, "  nonce-scope: refs")
	say(p.clock != o.clock, "  clock: %d", p.clock)
	say(!slices.Equal(p.types, o.types), "  types: %s", list(p.types))
	say(p.freeze != o.freeze, "  freeze-minutes: %d", p.freeze/60)
	say(p.pathKey, "  path-key: error")
	block = "rules:\n"
	say(p.frozen, "  relay-frozen: error")
	for _, rule := range p.lowered {
		say(true, "  %s: warning", rule)
	}
	if _, ok := policies[text]; !ok {
		rendered.Store(text, p)
	}
	return text
}

// noPolicies are files that no policy may be.
var noPolicies = []string{"version: 2\n", "versoin: 1\n", "version: 1\nrules:\n  relay-nonce: off\n", "[", "version: 1\nprotect: main\n"}

// begin is when each world begins. It lies in the past, so that a real hook
// finds no commit to be ahead of its clock.
const begin = 1_770_000_000

// A kind of server.
type kind struct {
	policy           string // in the repository
	own              string // of the server itself, "" for none
	ownSigners, long bool   // signers of the server itself; SHA-256
	ownRevoked       bool   // a revocation list of the server itself
	store            *store // where all objects lie; nil: each world has its own
}

// A store is a directory of loose objects that many servers see.
type store struct {
	dir     string
	written map[string]bool
	deflate *zlib.Writer
}

func kindOf(seed uint64) kind {
	rng := rand.New(rand.NewPCG(seed, 8))
	texts := sorted(policies)
	k := kind{policy: texts[seed%uint64(len(texts))], ownSigners: rng.IntN(4) == 0, long: rng.IntN(4) == 0}
	if rng.IntN(4) == 0 {
		texts = slices.Concat(texts[1:], sorted(serverPolicies), sorted(serverPolicies))
		k.own = texts[rng.IntN(len(texts))]
	}
	return k
}

func newWorld(t testing.TB, seed uint64, k kind) *world {
	home := gittest.TempDir(t)
	shared := k.store != nil
	if !shared {
		k.store = newStore(t)
	}
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: begin, home: home, env: gittest.Environ(home),
		server: filepath.Join(home, "server.git"), extra: k.store.dir, shared: shared, client: filepath.Join(home, "client.git"),
		tips: map[string]string{}, trees: map[string]tree{}, dates: map[string]int64{}, written: k.store.written, deflate: k.store.deflate, objs: map[string]mobj{}}
	now := w.now
	w.policy, w.sha256 = k.policy, k.long
	format := "sha1"
	if w.sha256 {
		format = "sha256"
	}
	w.always = append(w.always, "server: "+format)
	config := ""
	if k.own != "" {
		w.policy, w.serverPolicy = k.own, filepath.Join(home, "policy.yaml")
		write(t, w.serverPolicy, k.own)
		config += "\tpolicy = " + w.serverPolicy + "\n"
		w.always = append(w.always, "server: a policy of its own")
	}
	if k.ownSigners {
		w.serverSigners = filepath.Join(home, "signers")
		write(t, w.serverSigners, fixedSigners())
		config += "\tallowedSigners = " + w.serverSigners + "\n"
		w.always = append(w.always, "server: signers of its own")
	}
	if w.rules().frozen {
		w.always = append(w.always, "server: relay-frozen is on")
	}
	if k.ownRevoked {
		w.serverRevoked = filepath.Join(home, "revoked")
		write(t, w.serverRevoked, "# of the server\n")
		config += "\trevoked = " + w.serverRevoked + "\n"
		w.always = append(w.always, "server: revocations of its own")
	}
	w.bare(w.server, "[rigward]\n"+config)
	w.bare(w.client, "")
	if shared {
		write(t, filepath.Join(w.server, "objects/info/alternates"), w.extra+"\n")
	}
	write(t, filepath.Join(w.client, "objects/info/alternates"), w.extra+"\n"+w.server+"/objects\n")
	// The history that is there: signers, two threads, one relay.
	first := tree{}
	w.put(first, signersFile, fixedSigners())
	w.put(first, otherFile, fixedSigners())
	if w.serverSigners != "" { // then these count for nothing
		w.put(first, signersFile, keyX.Line("*@example.com,*", ""))
	}
	w.put(first, revokedFile, keyR.Authorized()+"\n")
	if k.policy != "" {
		w.put(first, policyFile, k.policy)
	}
	w.put(first, "README.md", "# Nobody's business\n")
	w.put(first, "docs/guide.md", "no envelope\n")
	w.put(first, w.path("t-one/REQUEST.md"), w.request("t-one", "Is the release ready?\n").text())
	w.put(first, w.path("other/REQUEST.md"), w.request("other", "Who is on call?\n").text())
	root := w.commit(&draft{tree: first, when: now - 3000, key: keyA})
	f := w.relay("t-one", bodyHash("Is the release ready?\n"), now-2000, keyA)
	second := w.copy(root)
	w.put(second, w.path("t-one/RELAY.md"), f.text())
	relay := w.commit(&draft{parents: []string{root}, tree: second, when: now - 2000, key: keyA})
	third := w.copy(relay)
	w.put(third, w.path("t-one/RESPONSE.md"), w.request("t-one", "Yes.\n").text())
	tip := w.commit(&draft{parents: []string{relay}, tree: third, when: now - 1000, key: keyA})
	w.accept()
	w.pool = sorted(w.trees)
	for _, ref := range []string{"refs/heads/main", "refs/heads/release/1"} {
		id := tip
		if ref != "refs/heads/main" {
			id = relay
		}
		write(t, filepath.Join(w.server, ref), id+"\n")
		w.tips[ref] = id
	}
	return w
}

// bare makes an empty bare repository, as git init does, but in no process.
func (w *world) bare(dir, config string) {
	version := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if w.sha256 {
		version = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n"
	}
	write(w.t, filepath.Join(dir, "HEAD"), "ref: refs/heads/main\n")
	write(w.t, filepath.Join(dir, "config"), version+config)
	for _, sub := range []string{"objects/info", "objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// object writes a loose object where the attacker keeps them.
func (w *world) object(typ string, data []byte) string {
	full := append(fmt.Appendf(nil, "%s %d\x00", typ, len(data)), data...)
	sum := sha1.Sum(full)
	id := hex.EncodeToString(sum[:])
	if w.sha256 {
		long := sha256.Sum256(full)
		id = hex.EncodeToString(long[:])
	}
	if !w.written[id] {
		w.written[id] = true
		w.loose(w.extra, id, full)
	}
	w.objs[id] = mobj{typ, data}
	return id
}

func (w *world) loose(dir, id string, full []byte) {
	file := filepath.Join(dir, id[:2], id[2:])
	if _, err := os.Stat(file); err == nil {
		return
	}
	var b bytes.Buffer
	w.deflate.Reset(&b)
	_, _ = w.deflate.Write(full)
	_ = w.deflate.Close()
	write(w.t, file, b.String())
}

// accept moves what was written to the server.
func (w *world) accept() {
	if w.shared {
		return
	}
	for id := range w.written {
		dir := filepath.Join(w.server, "objects", id[:2])
		if err := os.MkdirAll(dir, 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Link(filepath.Join(w.extra, id[:2], id[2:]), filepath.Join(dir, id[2:])); err != nil && !os.IsExist(err) {
			w.t.Fatal(err)
		}
	}
	clear(w.written)
}

func (w *world) put(t tree, path, text string) {
	t[path] = mentry{"100644", w.object("blob", []byte(text))}
}

func (w *world) copy(commit string) tree {
	t := tree{}
	for p, e := range w.trees[commit] {
		t[p] = e
	}
	return t
}

// writeTree writes the objects of a flat tree. Where a path is both a file and
// a directory, the tree has the name twice.
func (w *world) writeTree(t tree, odd int) string {
	type item struct{ mode, name, id, key string }
	var items []item
	below := map[string]tree{}
	for p, e := range t {
		dir, rest, ok := strings.Cut(p, "/")
		if !ok {
			items = append(items, item{e.mode, p, e.id, p})
			continue
		}
		if below[dir] == nil {
			below[dir] = tree{}
		}
		below[dir][rest] = e
	}
	for dir, sub := range below {
		items = append(items, item{"40000", dir, w.writeTree(sub, 0), dir + "/"})
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.key, b.key) })
	if n := len(items); n > 1 {
		switch odd {
		case 1: // out of order
			items[0], items[n-1] = items[n-1], items[0]
		case 2: // the same name twice
			items = append(items, items[n-1])
		case 3: // a name with a slash
			items = append(items, item{"100644", "zz/REQUEST.md", items[0].id, ""})
		case 4: // no name
			items = slices.Insert(items, 0, item{"100644", "", w.object("blob", nil), ""})
		case 5: // a file that is a tree
			items[n-1].mode = "100644"
			if !strings.HasSuffix(items[n-1].key, "/") {
				items[n-1].mode = "40000"
			}
		case 6: // a mode of old
			items[n-1].mode = "0" + items[n-1].mode
		}
	}
	var b bytes.Buffer
	for _, it := range items {
		raw, _ := hex.DecodeString(it.id)
		fmt.Fprintf(&b, "%s %s\x00%s", it.mode, it.name, raw)
	}
	return w.object("tree", b.Bytes())
}

// A draft is a commit before it is written.
type draft struct {
	parents           []string
	tree              tree
	author, committer string // "name <email>"
	when              int64
	key               *testkeys.Key // nil: unsigned
	headers, message  string
	sign              func(payload []byte) []byte // in place of key
	raw               func([]byte) []byte         // the last word
	odd               int
}

const op = "Op <op@example.com>"

func (w *world) commit(d *draft) string {
	w.serial++
	if d.committer == "" {
		d.committer = op
	}
	if d.author == "" {
		d.author = d.committer
	}
	if d.message == "" {
		d.message = fmt.Sprintf("Change %d\n", w.serial)
	}
	date := fmt.Sprintf(" %d +0000", d.when)
	raw := testkeys.Commit{Tree: w.writeTree(d.tree, d.odd), Parents: d.parents, Author: d.author + date, Committer: d.committer + date,
		Headers: d.headers, Message: d.message}.Bytes()
	switch {
	case d.sign != nil:
		raw = d.sign(raw)
	case d.key != nil:
		raw = testkeys.SignCommitHeader(raw, w.header(), testkeys.Armor(testkeys.Sign(raw, d.key, "git", "sha512", "").Marshal()))
	}
	if d.raw != nil {
		raw = d.raw(raw)
	}
	id := w.object("commit", raw)
	w.trees[id], w.dates[id] = d.tree, d.when
	return id
}

// path is a path below the directory that the world's first policy makes the
// root of all threads.
func (w *world) path(p string) string {
	if root := w.rules().root; root != "" {
		return root + "/" + p
	}
	return p
}

// header is the header that holds the signature of a commit, other the one of
// the other object format.
func (w *world) header() string {
	if w.sha256 {
		return "gpgsig-sha256"
	}
	return "gpgsig"
}

func (w *world) other() string {
	if w.sha256 {
		return "gpgsig"
	}
	return "gpgsig-sha256"
}

func (w *world) zero() string {
	if w.sha256 {
		return strings.Repeat("0", 64)
	}
	return strings.Repeat("0", 40)
}

// did notes what was done to make the next push.
func (w *world) did(what string) { w.labels = append(w.labels, what) }

// Fields of an envelope, in order; a value may be anything.
type envelopeText struct {
	keys       []string
	v          map[string]string
	body       string
	head, tail string // fences
	mangle     func(string) string
}

func (e *envelopeText) set(key, value string) {
	if !slices.Contains(e.keys, key) {
		e.keys = append(e.keys, key)
	}
	e.v[key] = value
}

func (e *envelopeText) drop(key string) {
	e.keys = slices.DeleteFunc(e.keys, func(k string) bool { return k == key })
}

func (e *envelopeText) text() string {
	var b strings.Builder
	b.WriteString(e.head)
	for _, k := range e.keys {
		b.WriteString(k + ":" + e.v[k] + "\n")
	}
	b.WriteString(e.tail + e.body)
	if e.mangle != nil {
		return e.mangle(b.String())
	}
	return b.String()
}

// request is a good envelope of a rig.
func (w *world) request(thread, body string) *envelopeText {
	e := &envelopeText{v: map[string]string{}, body: body, head: "---\n", tail: "---\n"}
	for _, kv := range [][2]string{{"from", " rig-a"}, {"to", " rig-z"}, {"date", " 2026-01-05"}, {"status", " ▶ Going on"}, {"type", " REQUEST"},
		{"thread", " " + thread}, {"body_hash", ` "` + bodyHash(body) + `"`}} {
		e.set(kv[0], kv[1])
	}
	return e
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

func (w *world) nonce() string {
	b := []byte{crockford[w.rng.IntN(8)]}
	for range 25 {
		b = append(b, crockford[w.rng.IntN(32)])
	}
	w.nonces = append(w.nonces, string(b))
	return string(b)
}

// relay is a good relay by the operator, to be signed by one of their keys.
func (w *world) relay(thread, reply string, at int64, key *testkeys.Key) *envelopeText {
	w.serial++
	e := w.request(thread, fmt.Sprintf("Decided, %d.\n", w.serial))
	e.set("from", " op-relay")
	e.set("type", " DECISIONS")
	e.set("in_reply_to", ` "`+reply+`"`)
	e.set("attested_by", " "+key.Fingerprint())
	e.set("attested_at", " "+stamp(at, 0))
	e.set("nonce", " "+w.nonce())
	return e
}
