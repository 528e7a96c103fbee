package attack

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/test/gittest"
)

// A book is the model of one server over a whole sequence of pushes. What was
// accepted and who is trusted is kept here, push by push, and never asked of
// the server again. It follows the specification alone:
//
//   - an entry at <thread>/<name>.md of a protected ref is an accepted envelope
//     if its blob begins with a fence, whatever its size and the limits;
//   - policy, signers and revocations come from the default branch as it was
//     before the push, or from the server's own files;
//   - the default branch is protected unless the server's own policy leaves it
//     out;
//   - a ref that a policy newly protects is judged over all commits that no
//     protected ref has that was judged.
type book struct {
	*model
	tips  map[string]string // what each ref holds
	links map[string]string // symbolic refs
	held  map[string]mtree  // accepted entries of each judged ref, by path
	// judged has the commits that were judged for each ref while it was
	// protected. Of the default branch, as long as it is protected, that is
	// every commit that it had.
	judged map[string]map[string]bool
	had    []string // what the default branch had when it was first found to be free
}

// A use of a nonce: the relay that has it.
type use struct{ path, blob string }

// trust is what holds for the next push.
func (b *book) trust() mrules {
	if id := b.tips[b.head]; id != "" {
		r := b.rulesOf(b.files(id))
		if !r.policyBad && b.serverSigners == "" && !b.guards(r, b.head) {
			r.exists, r.ok = true, false // anybody may write the signers file
		}
		return r
	}
	return b.rulesOf(nil)
}

// guards reports whether a ref is protected.
func (b *book) guards(r mrules, ref string) bool {
	switch {
	case anyRef(r.p.protect, ref):
		return true
	case b.tips[b.head] == "" && len(r.p.protect) == 0:
		return strings.HasPrefix(ref, "refs/heads/")
	}
	return ref == b.head && (b.serverPolicy == "" || len(r.p.protect) == 0)
}

// settled reports whether a ref is protected and what it has was judged for it.
func (b *book) settled(r mrules, ref string) bool {
	id := b.peel(b.tips[ref])
	return id != "" && b.guards(r, ref) && (ref == b.head || b.judged[ref][id])
}

// target is the ref that a push to a name moves.
func (b *book) target(ref string) string {
	if to := b.links[ref]; to != "" {
		return to
	}
	return ref
}

// peel follows tags to a commit, "" if there is none.
func (b *book) peel(id string) string {
	for range 20 {
		o := b.get(id)
		switch o.typ {
		case "commit":
			return id
		case "tag":
			id = strings.TrimPrefix(strings.SplitN(string(o.data), "\n", 2)[0], "object ")
		default:
			return ""
		}
	}
	return ""
}

// A span is what a push brings to one protected ref.
type span struct {
	ref, tip string
	old      string          // "" if the ref is new
	before   map[string]bool // the commits that need no judgement
	others   map[string]bool // histories whose nonces count, too
	first    bool            // nothing was ever judged
}

// judge says what the server must say of a push at a time.
func (b *book) judge(updates []mupdate, now int64) *verdict {
	v := &verdict{rules: map[string]bool{}, may: map[string]bool{}}
	if text, _ := b.text("info/grafts"); text != "" {
		v.cannot("grafts")
		return v
	}
	shallow, _ := b.text("shallow")
	r := b.trust()
	if r.policyBad {
		v.cannot("the policy is none")
		return v
	}
	if b.had == nil && !b.guards(r, b.head) && b.tips[b.head] != "" {
		b.had = []string{b.tips[b.head]}
	}
	judged := slices.Clone(b.had)
	var guarded []string // tips
	for _, ref := range sorted(b.tips) {
		if id := b.peel(b.tips[ref]); id != "" && b.guards(r, ref) {
			guarded = append(guarded, id)
			if b.settled(r, ref) {
				judged = append(judged, id)
			}
		}
	}
	var came []string
	for _, u := range updates {
		u.ref = b.target(u.ref)
		if !b.guards(r, u.ref) {
			if !anyRef(r.p.allow, u.ref) && (r.p.otherDeny || anyRef([]string{"refs/replace/**", "refs/notes/**"}, u.ref)) {
				v.add("other-refs")
			}
			continue
		}
		if zero(u.new) {
			v.add("fast-forward")
			continue
		}
		s := span{ref: u.ref, tip: b.peel(u.new)}
		if s.tip == "" {
			v.cannot("no commit")
			continue
		}
		if !zero(u.old) {
			if s.old = b.peel(u.old); b.commit(s.old) == nil {
				v.cannot("the old tip is malformed, or none")
				continue
			}
		}
		switch {
		case s.old == "" || !b.settled(r, u.ref):
			s.before = b.history(judged...)
			if len(guarded) == 0 && b.serverPolicy == "" && b.serverSigners == "" {
				v.cannot("the first push")
			}
		case b.settled(r, b.head): // what the default branch has was judged by the same rules
			s.before = b.history(s.old, b.tips[b.head])
		default:
			s.before = b.history(s.old)
		}
		s.first = len(s.before) == 0
		if r.p.nonceRefs {
			s.others = b.history(slices.Concat(guarded, came)...)
		}
		b.judgeSpan(v, s, r, now)
		came = append(came, s.tip)
	}
	if v.rules["relay-reply"] && shallow != "" {
		v.cannot("the history is cut")
	}
	for _, rule := range r.p.lowered {
		delete(v.rules, rule)
	}
	return v
}

// accept notes what a push that passed has brought. It returns what an
// accepted push must never do, as far as the book alone tells, "" if it did
// nothing of the kind.
func (b *book) accept(updates []mupdate) string {
	r := b.trust()
	wrong := ""
	for _, u := range updates {
		ref := b.target(u.ref)
		if zero(u.new) {
			delete(b.tips, ref)
			delete(b.held, ref)
			continue
		}
		b.tips[ref] = u.new
		tip := b.peel(u.new)
		if tip == "" || !b.guards(r, ref) {
			delete(b.held, ref)
			continue
		}
		tree := b.files(tip)
		if !slices.Contains(r.p.lowered, "append-only") {
			for q, e := range b.held[ref] {
				if r.p.thread(q) != "" && tree[q] != e && b.buries(r.p, q, e, tree[q]) == nil {
					wrong = "an accepted envelope is lost: " + ref + " " + q
				}
			}
		}
		if b.judged[ref] == nil {
			b.judged[ref] = map[string]bool{}
		}
		b.judged[ref][tip] = true
		b.held[ref] = mtree{}
		owner := map[string]use{}
		for q, e := range tree {
			if !regular(e) || !b.whole(e.id).fenced {
				continue
			}
			b.held[ref][q] = e
			env := b.whole(e.id)
			if n := env.v["nonce"]; r.p.thread(q) != "" && env.parses && env.attested() && nonceRe.MatchString(n) {
				if u, twice := owner[n]; twice && !slices.Contains(r.p.lowered, "relay-nonce") {
					wrong = fmt.Sprintf("a nonce is accepted twice: %s %s and %s", ref, u.path, q)
				}
				owner[n] = use{q, e.id}
			}
		}
	}
	return wrong
}

// whole reads an envelope without any limit.
func (b *book) whole(id string) *menv {
	p := plainPolicy
	p.maxFile, p.maxFront = 1<<40, 1<<40
	return b.envelope(id, p)
}

// isEnvelope reports whether an entry is an envelope: nothing but its path and
// the first line of its blob decide.
func (b *book) isEnvelope(q string, e mentry, p mpolicy) bool {
	return p.thread(q) != "" && regular(e) && b.whole(e.id).fenced
}

// A task is one span while it is judged.
type task struct {
	*book
	span
	r   mrules
	v   *verdict
	now int64
	at  string // the commit and the path that are looked at, for a person
	all map[string]bool
	// near is the range and the commits just outside, around their trees.
	near   map[string]bool
	around []mtree
	fresh  map[string]map[use]bool // nonces of the range's relays
}

func (t *task) add(rule string) {
	if !slices.Contains(t.r.p.lowered, rule) {
		t.v.add(rule)
		t.v.where = append(t.v.where, rule+" "+t.at)
	}
}

// isThread reports whether a directory is a thread anywhere near.
func (t *task) isThread(dir string) bool {
	return slices.ContainsFunc(t.around, func(f mtree) bool { return t.threadIn(f, dir) })
}

func (t *task) threadIn(f mtree, dir string) bool {
	for q, e := range f {
		if t.r.p.thread(q) == dir && t.isEnvelope(q, e, t.r.p) {
			return true
		}
	}
	return false
}

func (b *book) judgeSpan(v *verdict, s span, r mrules, now int64) {
	t := &task{book: b, span: s, r: r, v: v, now: now, all: b.history(s.tip), near: map[string]bool{}, fresh: map[string]map[use]bool{}}
	var news []string
	for id := range t.all {
		if !s.before[id] {
			news = append(news, id)
		}
	}
	slices.Sort(news)
	if len(news) > r.p.maxCommits {
		v.cannot("too many commits")
		return
	}
	for _, id := range news {
		if b.commit(id) == nil {
			v.add("commit-signed")
			v.odd = true
			return
		}
	}
	t.at = s.ref
	if s.old != "" && !t.all[s.old] {
		v.add("fast-forward")
	}
	roots := 0
	for _, id := range news {
		c := b.commit(id)
		t.near[id] = true
		t.around = append(t.around, c.tree)
		if len(c.parents) == 0 {
			roots++
		}
		for _, p := range c.parents {
			if b.commit(p) == nil { // accepted where nothing was protected
				v.cannot("a malformed parent")
				return
			}
			t.near[p] = true
			t.around = append(t.around, b.commit(p).tree)
		}
	}
	if roots > 0 && !(s.first && roots == 1) {
		t.add("fast-forward")
	}
	for _, id := range news {
		t.judgeCommit(b.commit(id))
	}
	t.configs()
	// Each nonce with who has it; false: a file of this push that is refused for
	// what it says, or as a change of an accepted one, so that it need not be told
	// of.
	nonces := map[string]map[use]bool{}
	for _, ids := range []map[string]bool{t.all, s.others} {
		for id := range ids {
			for q, e := range b.files(id) {
				if r.p.thread(q) == "" || !regular(e) {
					continue
				}
				if env := b.whole(e.id); env.parses && t.fresh[env.v["nonce"]] != nil {
					n := env.v["nonce"]
					if nonces[n] == nil {
						nonces[n] = map[use]bool{}
					}
					refused := !env.schema && !slices.Contains(r.p.lowered, "envelope-schema") || !b.envelope(e.id, r.p).parses
					refused = refused || !t.fresh[n][use{q, e.id}] && !s.others[id]
					refused = refused && t.all[id] && !s.before[id]
					nonces[n][use{q, e.id}] = nonces[n][use{q, e.id}] || !refused
				}
			}
		}
	}
	for n, uses := range t.fresh {
		for u := range uses {
			for o, counts := range nonces[n] {
				t.at = u.path + " and " + o.path
				switch {
				case o == u:
				case counts:
					t.add("relay-nonce")
				default:
					v.may["relay-nonce"] = true
				}
			}
		}
	}
}

// configs judges that the ref gets no configuration of a clone: what it has afterwards,
// against what it had, or what the default branch has.
func (t *task) configs() {
	paths := []string{".bridge/config.yaml"}
	if t.r.p.root != "" {
		paths = append(paths, t.r.p.under()+paths[0])
	}
	in := func(f mtree, at string) string {
		text := ""
		for _, q := range sorted(f) {
			if q == at || strings.HasPrefix(q, at+"/") {
				text += fmt.Sprintf("%q %v\n", q, f[q])
			}
		}
		return text
	}
	if t.before[t.tip] {
		return
	}
	from := []string{t.tips[t.head]}
	if t.near[t.old] && t.before[t.old] {
		from = append(from, t.old)
	} else {
		for id := range t.near {
			if t.before[id] {
				from = append(from, id)
			}
		}
	}
	for _, at := range paths {
		is, was := in(t.files(t.tip), at), false
		for _, id := range from {
			was = was || id != "" && t.commit(id) != nil && in(t.files(id), at) == is
		}
		if is != "" && !was {
			t.at = t.tip + ":" + at
			t.add("clone-config")
		}
	}
}

// changes lists the paths that differ between two trees.
func changes(a, b mtree) []string { return gittest.Differ(a, b) }

// An added is an envelope where no parent has one.
type added struct {
	path string
	env  *menv
}

func (t *task) judgeCommit(c *mcommit) {
	t.at = c.id
	p := t.r.p
	var parents []*mcommit
	for _, id := range c.parents {
		parents = append(parents, t.commit(id))
	}
	// What differs from every parent is the commit's own work.
	var own []string
	if len(parents) == 0 {
		own = changes(nil, c.tree)
	} else {
		for _, q := range changes(parents[0].tree, c.tree) {
			if !slices.ContainsFunc(parents, func(o *mcommit) bool { return o.tree[q] == c.tree[q] }) {
				own = append(own, q)
			}
		}
	}
	// Clock.
	if c.committer.when > t.now+p.skew || c.committer.when > 253402300799 {
		t.add("commit-clock")
	}
	for _, o := range parents {
		if c.committer.when < o.committer.when-p.skew {
			t.add("commit-clock")
		}
	}
	// What a parent has stays.
	for _, o := range parents {
		for q, e := range o.tree {
			if c.tree[q] != e && t.keeps(o.tree, q) && !t.buried(c, parents, o, q) {
				t.at = c.id + ":" + q
				t.add("append-only")
			}
		}
	}
	t.twins(c, parents, own)
	t.names(c, parents, own)
	introduced := t.content(c, parents, own)
	var relays []added
	attested := 0
	for _, e := range introduced {
		if e.env.relay() {
			attested++
			if e.env.schema || slices.Contains(p.lowered, "envelope-schema") {
				relays = append(relays, e)
			}
		}
	}
	t.at = c.id
	blob, good := t.signed(c, parents, own, introduced, attested)
	t.relays(c, parents, own, relays, blob, good)
}

// keeps reports whether an entry of a tree may never change.
func (t *task) keeps(f mtree, q string) bool {
	return t.isEnvelope(q, f[q], t.r.p)
}

// twins judges names that a merge brings together: twins that no side has both
// of.
func (t *task) twins(c *mcommit, parents []*mcommit, own []string) {
	if len(parents) < 2 {
		return
	}
	folded := map[string][]string{}
	for q := range c.tree {
		folded[fold(q)] = append(folded[fold(q)], q)
	}
	for _, twins := range folded {
		for _, q := range twins {
			for _, other := range twins {
				both := q == other || slices.Contains(own, q) || slices.Contains(own, other)
				for _, o := range parents {
					_, x := o.tree[q]
					_, y := o.tree[other]
					both = both || x && y
				}
				if dir := t.r.p.thread(q); !both && dir != "" && t.isThread(dir) {
					t.at = c.id + ":" + q
					t.add("envelope-path")
				}
			}
		}
	}
}

// names judges the names of a tree's directories: none may be brought, by the
// commit itself or by a merge, that is another name of a guarded one.
func (t *task) names(c *mcommit, parents []*mcommit, own []string) {
	p := t.r.p
	below := func(f mtree) map[string]bool {
		tops := map[string]bool{}
		for q := range f {
			if rest, ok := strings.CutPrefix(q, p.under()); ok {
				top, _, _ := strings.Cut(rest, "/")
				tops[top] = true
			}
		}
		return tops
	}
	mine := map[string]bool{}
	for _, q := range own {
		if _, ok := c.tree[q]; !ok {
			continue
		}
		for i, g := range []string{policyFile, ".bridge/config.yaml", p.signers, p.revoked, p.root} {
			qs, gs := strings.Split(strings.ReplaceAll(q, `\`, "/"), "/"), strings.Split(g, "/")
			n := 0
			for g != "" && n < len(qs) && n < len(gs) && alias(qs[n], gs[n]) {
				n++
			}
			if n == 0 {
				continue
			}
			whole := strings.Join(gs[:n], "/") // a backslash behind it is none of its separators
			if exact := q == whole || strings.HasPrefix(q, whole+"/"); !exact && i == 4 {
				t.add("envelope-path")
			} else if i < 4 && (!exact || n == len(qs) && n < len(gs)) {
				t.add("signers-change")
			}
		}
		if rest, ok := strings.CutPrefix(q, p.under()); ok {
			top, _, _ := strings.Cut(rest, "/")
			mine[top] = true
		}
	}
	// What takes the place of an envelope may be a directory, too.
	place := func(q string) (thread, name string) {
		rest, ok := strings.CutPrefix(q, p.under())
		f := strings.Split(rest, "/")
		if !ok || len(f) < 2 {
			return "", ""
		}
		return f[0], f[1]
	}
	for _, q := range own {
		thread, name := place(q)
		if _, ok := c.tree[q]; !ok || threadOf(thread+"/x.md") == "" || !t.isThread(thread) {
			continue
		}
		if p.thread(q) != "" && strings.Contains(q, `\`) {
			t.add("envelope-path") // elsewhere it is a file below the thread
		}
		for o := range c.tree {
			dir, other := place(o)
			guarded := p.thread(o) != "" || p.thread(q) != ""
			if dir == thread && other != name && guarded && (alias(name, other) || alias(other, name)) {
				t.add("envelope-path")
			}
		}
	}
	tops := below(c.tree)
	for thread := range tops {
		if threadOf(thread+"/x.md") == "" || !t.threadIn(c.tree, thread) {
			continue
		}
		for top := range tops {
			if top == thread || !alias(top, thread) {
				continue
			}
			both := false
			for _, parent := range parents {
				both = both || below(parent.tree)[top] && t.threadIn(parent.tree, thread)
			}
			if mine[top] || !both {
				t.add("envelope-path")
			}
		}
	}
}

// content judges the files that are a commit's own, and returns the envelopes
// among them that are new.
func (t *task) content(c *mcommit, parents []*mcommit, own []string) (introduced []added) {
	p := t.r.p
	for _, q := range own {
		t.at = c.id + ":" + q
		e, ok := c.tree[q]
		dir := p.thread(q)
		trusts := slices.Contains(t.r.trustedPath, q) // it is judged as such
		if !ok {
			if p.outsideDeny && dir == "" && !p.ignored(q) && !trusts {
				t.add("outside-thread")
			}
			continue
		}
		if hides(q) {
			t.add("hidden-text")
		}
		env := &menv{v: map[string]string{}}
		if dir != "" && regular(e) {
			env = t.envelope(e.id, p)
		}
		// A link may read like an envelope and is then judged as none can be.
		reads := env.fenced || dir != "" && e.mode == "120000" && t.whole(e.id).fenced
		judged := dir != "" && (reads || t.isThread(dir))
		if p.outsideDeny && !judged && !p.ignored(q) && !trusts {
			t.add("outside-thread")
		}
		if p.outsideDeny && !reads {
			t.v.may["outside-thread"] = true // its directory may become a thread later in the push only
		}
		for other := range c.tree {
			if other != q && fold(other) == fold(q) && (judged || p.thread(other) != "") {
				t.add("envelope-path")
			}
		}
		if !judged {
			continue
		}
		if _, message, _ := strings.Cut(string(c.raw), "\n\n"); hides(message) {
			t.add("hidden-text") // of a commit that brings an envelope
		}
		if regular(e) && env.hidden {
			t.add("hidden-text")
		}
		if regular(e) && !env.parses {
			t.add("envelope-parse") // and nothing else is told of the file
			continue
		}
		if e.mode != "100644" || !portable(q[strings.LastIndex(q, "/")+1:]) || len(dir) > 255 {
			t.add("envelope-path")
		}
		if !regular(e) {
			continue
		}
		for _, rule := range env.rules {
			t.add(rule)
		}
		if th, ok := env.v["thread"]; ok && threadID.MatchString(th) && (th != dir || !portable(th) || th == "dist" || th == "node_modules") {
			t.add("envelope-path")
		}
		replaces := slices.ContainsFunc(parents, func(o *mcommit) bool { return t.isEnvelope(q, o.tree[q], p) })
		if env.stone != nil && !replaces {
			t.add("append-only")
		}
		if replaces && t.lawful(c, parents, q) {
			continue
		}
		// Where a policy lets envelopes be changed, what replaces one is new.
		frozen := !slices.Contains(p.lowered, "append-only")
		if frozen && replaces {
			continue
		}
		introduced = append(introduced, added{q, env})
		if p.frozen && (env.schema || slices.Contains(p.lowered, "envelope-schema")) && env.v["type"] != "ACK" && t.frozen(c, dir, env.v["from"]) {
			t.add("relay-frozen")
		}
	}
	return introduced
}

// counts tells of each parent of a merge whether a change of who is trusted,
// against that parent, is the merge's own.
func (t *task) counts(c *mcommit) func(i int) bool {
	base := t.tips[t.head] // which says who is trusted
	good := func(i int) bool { return base == "" || t.history(c.parents[i])[base] }
	for i := range c.parents {
		if len(c.parents) > 1 && good(i) {
			return good
		}
	}
	if len(c.parents) < 2 {
		return func(int) bool { return true }
	}
	// A side that has less of what was there before than another.
	old := func(i int) map[string]bool {
		had := map[string]bool{}
		for id := range t.history(c.parents[i]) {
			if t.before[id] {
				had[id] = true
			}
		}
		return had
	}
	return func(i int) bool {
		mine := old(i)
		for k := range c.parents {
			more, lacks := false, false
			theirs := old(k)
			for id := range theirs {
				more = more || !mine[id]
			}
			for id := range mine {
				lacks = lacks || !theirs[id]
			}
			if more && !lacks {
				return false
			}
		}
		return true
	}
}

// guardedChange judges changes of who is trusted; change reports whether there is
// one that must be signed.
func (t *task) guardedChange(c *mcommit, parents []*mcommit, own []string) (change bool) {
	if len(parents) == 0 {
		for _, q := range t.r.trustedPath {
			if _, ok := c.tree[q]; ok {
				change = true
			}
		}
	}
	counts := t.counts(c)
	for i, o := range parents {
		for _, q := range t.r.trustedPath {
			if o.tree[q] != c.tree[q] && counts(i) {
				change = true
			}
		}
	}
	for _, q := range t.r.trustedPath {
		e, ok := c.tree[q]
		if !ok || !slices.Contains(own, q) {
			continue
		}
		text := string(t.get(e.id).data)
		fine := regular(e)
		switch q {
		case policyFile:
			_, known := meaning(text)
			fine = fine && known && text != ""
		case t.r.p.signers:
			_, known := parseSigners(text)
			fine = fine && known
		default:
			_, known := parseRevoked(text)
			fine = fine && known
		}
		if !fine {
			t.add("signers-change")
		}
	}
	// A policy must not name a revocation file that cannot be read.
	if now, ok := t.ownRevoked(t.r, c.tree); ok {
		var before mtree
		if len(parents) > 0 {
			before = parents[0].tree
		}
		differs := before[now] != c.tree[now] || t.serverPolicy == "" && before[policyFile] != c.tree[policyFile]
		e, there := c.tree[now]
		if _, known := parseRevoked(string(t.get(e.id).data)); differs && (!there || !regular(e) || !known) {
			t.add("signers-change")
		}
	}
	if change && !t.r.exists {
		t.add("signers-change")
		change = false
	}
	return change
}

// signed judges who signed a commit. It returns the key of a sound signature,
// and the signers lines that let it sign.
func (t *task) signed(c *mcommit, parents []*mcommit, own []string, introduced []added, attested int) (blob string, good []msigner) {
	change := t.guardedChange(c, parents, own)
	stone := t.stoneOf(c, parents) != nil
	must := change || t.r.p.requireAll || attested > 0 || stone
	if !t.r.ok {
		// Who signed cannot be told where there is a list that cannot be read.
		if must || t.r.exists && strings.Contains(string(c.raw[:bytes.Index(c.raw, []byte("\n\n"))+1]), "\ngpgsig") {
			t.v.cannot("no signers")
		}
		return "", nil
	}
	blob, good = t.signature(t.r, c, t.now)
	forge := t.r.byForge(blob, good)
	if must && !change && attested == 0 && !stone {
		must = !forge && !(t.r.p.emptyMerge && len(parents) > 1 && len(own) == 0)
	}
	if len(good) == 0 {
		if must {
			t.add("commit-signed")
			if change {
				t.add("signers-change")
			}
		}
		return blob, good
	}
	if forge && !must {
		return blob, good
	}
	if !speaks(good, c.committer.email) {
		t.add("signer-identity")
	}
	if attested == 0 && c.author.email != c.committer.email && len(t.r.p.forgeKeys) == 0 {
		t.add("signer-identity")
	}
	if t.r.hasRigIDs {
		for _, e := range introduced {
			if e.env.schema && !speaks(good, e.env.v["from"]) {
				t.add("sender-key")
			}
		}
	}
	return blob, good
}

func speaks(good []msigner, who string) bool {
	return slices.ContainsFunc(good, func(s msigner) bool { return s.speaks(who) })
}

// relays judges the relays that a commit brings.
func (t *task) relays(c *mcommit, parents []*mcommit, own []string, relays []added, blob string, good []msigner) {
	n := len(own)
	if len(parents) > 0 {
		n = len(changes(parents[0].tree, c.tree))
	}
	for _, e := range relays {
		t.at = c.id + ":" + e.path
		if len(parents) > 1 || n > 1 {
			t.add("relay-commit")
		}
		if len(good) > 0 {
			host := strings.ToLower(c.author.email[strings.LastIndex(c.author.email, "@")+1:])
			name := strings.ToLower(c.author.name)
			if c.author.name != c.committer.name || c.author.email != c.committer.email || !speaks(good, c.author.email) ||
				!strings.Contains(c.author.email, "@") || host == "localhost" || strings.HasSuffix(host, ".local") || host == "(none)" ||
				name == "rig-bridge" || name == "rigward" || strings.HasSuffix(name, "[bot]") {
				t.add("relay-author")
			}
			if by := e.env.v["attested_by"]; e.env.fits["attested_by"] {
				kind, _ := wire([]byte(blob), 1)
				literal := kind[0] + " " + base64.StdEncoding.EncodeToString([]byte(blob))
				by = strings.TrimPrefix(by, "key::")
				isPath := by[0] == '/' || by[0] == '~' || strings.HasSuffix(by, ".pub")
				named := strings.TrimSuffix(by, "=") == fingerprint(blob) || by == literal || strings.HasPrefix(by, literal+" ")
				if !named && (!isPath || t.r.p.pathKey) {
					t.add("relay-key")
				}
			}
		}
		if at, _, ok := instant(e.env.v["attested_at"]); ok && e.env.fits["attested_at"] {
			if d := at - c.committer.when; d > t.r.p.clock || d < -t.r.p.clock {
				t.add("relay-clock")
			}
		}
		if want := e.env.v["in_reply_to"]; e.env.fits["in_reply_to"] && !t.answered(c, t.r.p.thread(e.path), want) {
			t.add("relay-reply")
		}
		if n := e.env.v["nonce"]; e.env.fits["nonce"] && nonceRe.MatchString(n) {
			if t.fresh[n] == nil {
				t.fresh[n] = map[use]bool{}
			}
			t.fresh[n][use{e.path, c.tree[e.path].id}] = true
		}
	}
}

// frozen reports whether a freeze holds in a thread for what is from another
// sender (docs/spec/relay.md#freeze).
func (t *task) frozen(c *mcommit, thread, from string) bool {
	type relay struct {
		path, blob string
		env        *menv
	}
	relays := func(id string) (out []relay) {
		for q, e := range t.files(id) {
			if t.r.p.thread(q) == thread && regular(e) {
				env := t.whole(e.id)
				if !t.before[id] {
					env = t.envelope(e.id, t.r.p)
				}
				if env.parses && env.schema && env.suffix() && env.attested() {
					out = append(out, relay{q, e.id, env})
				}
			}
		}
		return out
	}
	freezes := func(e *menv) bool {
		_, _, ok := instant(e.v["attested_at"])
		return e.v["type"] == "ACK" && strings.HasPrefix(e.v["status"], "⏸") && ok
	}
	below := t.history(c.parents...)
	for id := range below {
		if slices.Contains(t.r.p.lowered, "append-only") && !t.near[id] {
			continue
		}
		for _, z := range relays(id) {
			at, _, _ := instant(z.env.v["attested_at"])
			if !freezes(z.env) || z.env.v["from"] == from || t.now > at+t.r.p.freeze {
				continue
			}
			thawed := false
			for other := range below { // that brings a word of the same sender, knowing z
				o := t.commit(other)
				if o == nil {
					continue
				}
				for _, y := range relays(other) {
					if y.env.v["from"] != z.env.v["from"] || freezes(y.env) || slices.ContainsFunc(o.parents, func(q string) bool { return t.files(q)[y.path].id == y.blob }) {
						continue
					}
					for knew := range t.history(o.parents...) {
						thawed = thawed || t.files(knew)[z.path].id == z.blob
					}
				}
			}
			if !thawed {
				return true
			}
		}
	}
	return false
}

// answered reports whether some commit in the history below c holds an envelope
// of the thread with that body hash. Where a policy has let envelopes be
// deleted, one that was deleted before the push answers nothing.
func (t *task) answered(c *mcommit, thread, hash string) bool {
	refused := false
	for id := range t.history(c.parents...) {
		if slices.Contains(t.r.p.lowered, "append-only") && !t.near[id] {
			continue
		}
		for q, e := range t.files(id) {
			if t.r.p.thread(q) == thread && regular(e) {
				if env := t.whole(e.id); env.parses && env.hash == hash {
					if t.before[id] || t.envelope(e.id, t.r.p).parses {
						return true
					}
					refused = true
				}
			}
		}
	}
	if refused { // what is too large in this push is refused, and may be told to answer nothing
		t.v.may["relay-reply"] = true
	}
	return refused
}
