// Package verdict tells whose word each envelope of a clone is: what the gates
// say of it, judged by the same package as they judge by.
//
// A Book is made for a view of the history: the commit that is accepted (the
// default branch as the remote has it), what the branch's upstream has, and
// HEAD. The accepted history is judged of the time, by what was accepted
// before each commit (see rules.Era); what lies beyond it is judged as a push
// onto it would be, so that a branch's own signers never speak for it.
//
// What was judged is kept in the git directory, and can be deleted at any
// time; see store for who may write there. Only new commits are judged, and
// only so many at once as the caller allows: of the others a Book says that
// they are pending, never that they are good.
package verdict

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/pkg/sshsign"
)

// A State is the verdict in one word.
type State string

// States.
const (
	Verified     State = "verified"      // the gates take it, and a listed key signed it
	Unsigned     State = "unsigned"      // the gates take it, and nobody's signature stands for it
	Refused      State = "refused"       // the gates refuse it
	NotPushed    State = "not-pushed"    // a commit that no remote has seen
	NotCommitted State = "not-committed" // only in the work tree, or not as it was committed
	Pending      State = "pending"       // its commit is not judged yet
	Unknown      State = "unknown"       // the gates cannot decide
)

// A Verdict is what a Book says of a file with certain content.
type Verdict struct {
	State       State
	Principal   string   // who signed, of a good signature
	Fingerprint string   // of the key that did
	Revoked     bool     // that key no longer counts now, whatever it was when it signed
	Rules       []string // by which it is refused
	Reason      string   // in words, where the state needs some
	Commit      string   // that brought it, "" if that is not known
	Pushed      bool     // a remote has the commit
	Relay       bool     // the file is, or claims to be, a relay
	Tombstone   bool     // it is what stands for a body that was taken out
	// Word is the blob that was accepted at the path before, where this content
	// is not it, else "".
	Word string
}

// View says what a history is looked at from; each is a commit, "" for none.
type View struct {
	Accepted string // of the default branch
	Upstream string // of the branch's upstream
	Head     string
	Remotes  bool // there is a remote, so that a commit can be not pushed
}

// Options of a Book.
type Options struct {
	Repo   *gitrepo.Repo
	Loader *policy.Loader
	Dir    string // where verdicts are kept, "" for nowhere
	Secret []byte // the user's own; without it nothing is kept
	Max    int    // how many commits may be judged now, 0 for all
	Now    time.Time
	Memory *rules.Memory // of what was read before; nil: none
	// ReadOnly says that nothing may be written: what was kept is read.
	ReadOnly bool
}

// A Book holds the verdicts of a view. Open makes one.
type Book struct {
	o       Options
	view    View
	store   *store
	memory  []record // where nothing is kept, or not yet
	pending bool
	unknown string // why nothing newer can be decided
	hint    string
	gone    *revoked // of revoked, once it was asked
	threads map[string]*Thread
	held    int // records of threads
}

// maxHeld is how many records of threads a Book holds for whoever asks again.
const maxHeld = 1 << 18

// Open judges what is new in a view, as far as o allows. An error means that
// the repository could not be read; that the gates cannot decide is none.
func Open(ctx context.Context, o Options, v View) (*Book, error) {
	b := &Book{o: o, view: v}
	if v.Accepted == "" {
		b.view.Accepted = v.Head
	}
	setting, err := setting(o.Repo, o.Loader)
	if err == nil {
		key := storeKey(o.Secret, setting...)
		dir := ""
		if key != nil && o.Dir != "" {
			id := storeKey(o.Secret, "name")
			dir = filepath.Join(o.Dir, "verdicts-"+hex.EncodeToString(id[:4]))
		}
		b.store = load(dir, key)
		err = b.update(ctx)
		if errors.Is(err, errStore) {
			b.store = &store{dir: dir, key: key}
			b.memory = nil
			err = b.update(ctx)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var u *policy.Undecided
	var g *gitrepo.Error
	switch {
	case errors.As(err, &u):
		b.unknown, b.hint = u.Message, policy.HintOf(err)
	case errors.As(err, &g):
		b.unknown, b.hint = g.Message, g.Hint
	case err != nil:
		return nil, err
	}
	if b.store == nil {
		b.store = &store{}
	}
	return b, nil
}

// setting is what verdicts depend on besides the history.
func setting(repo *gitrepo.Repo, loader *policy.Loader) ([]string, error) {
	parts := []string{repo.CommonDir(), repo.ObjectFormat()}
	for _, r := range policy.Rules() {
		parts = append(parts, r.ID)
	}
	outside, err := loader.Outside()
	return append(parts, outside...), err
}

// update brings the store up to the view.
func (b *Book) update(ctx context.Context) error {
	s, v := b.store, b.view
	if v.Head == "" || s.Tip == v.Accepted && s.Ahead.View == v {
		return nil
	}
	moved := false
	if s.Tip != v.Accepted && v.Accepted != "" {
		if err := b.base(ctx); err != nil || b.pending {
			return err
		}
		moved = true
	}
	if moved || s.Ahead.View != v {
		if err := b.beyond(ctx); err != nil {
			return err
		}
	}
	if b.pending || b.o.ReadOnly || s.key == nil || s.dir == "" {
		return nil
	}
	// What cannot be kept is judged again the next time.
	_ = s.save(b.o.Now)
	return nil
}

// base judges the accepted history.
func (b *Book) base(ctx context.Context) error {
	s, tip := b.store, b.view.Accepted
	if s.Tip != "" {
		known, err := b.o.Repo.IsAncestor(ctx, s.Tip, tip)
		if err != nil && !errors.Is(err, gitrepo.ErrMissing) {
			return err
		}
		if !known { // the branch was rewritten
			*s = store{dir: s.dir, key: s.key}
		}
	}
	r := rules.Range{Old: s.Tip, New: tip, History: true, First: s.Tip == "", Policy: policy.Default(), Trust: policy.Untrusting("")}
	if s.Tip != "" {
		r.Exclude = []string{s.Tip}
	}
	if err := b.few(ctx, []string{tip}, r.Exclude); err != nil || b.pending {
		return err
	}
	var out []record
	j := b.judge(&out)
	j.OfTheTime, j.Eras, j.Held = b.o.Loader.Accepted, s.Eras, s.Now
	j.Told = func(v rules.Verdict) { out = b.add(out, v) }
	if err := j.Range(ctx, r); err != nil {
		return err
	}
	if j.Commits < j.Total {
		return malformed(j)
	}
	if s.Tip != "" && j.Strayed() { // what was judged before is now judged by something else
		*s = store{dir: s.dir, key: s.key}
		b.memory = nil
		return b.base(ctx)
	}
	s.Tip, s.Eras, s.Now, s.Many = tip, j.Eras, j.Latest(), many{}
	if !b.kept() {
		b.memory = append(b.memory, out...)
		return nil
	}
	if err := s.keep(out); err != nil {
		if errors.Is(err, errStore) {
			return err
		}
		b.memory, s.key = append(b.memory, out...), nil
	}
	return nil
}

// malformed is why nothing is decided behind a commit that two readers could
// take for two different ones.
func malformed(j *rules.Judge) error {
	u := &policy.Undecided{Message: "a commit of the history is malformed", Hint: "git fsck --no-dangling"}
	for _, f := range j.Findings {
		if strings.HasPrefix(f.Message, "malformed commit") {
			u.Message = "commit " + f.Commit + " of the history is a " + f.Message
		}
	}
	return u
}

// kept reports whether there is a place to keep something, and makes it.
func (b *Book) kept() bool {
	s := b.store
	if b.o.ReadOnly || s.key == nil || s.dir == "" {
		return false
	}
	if err := makeDir(s.dir); err != nil {
		s.key = nil
		return false
	}
	return true
}

// beyond judges what the view has beyond the accepted history.
func (b *Book) beyond(ctx context.Context) error {
	s, v := b.store, b.view
	s.Ahead = ahead{View: v}
	if v.Head == v.Accepted {
		return nil
	}
	exclude := slices.DeleteFunc([]string{v.Accepted}, func(id string) bool { return id == "" })
	if err := b.few(ctx, []string{v.Head}, exclude); err != nil || b.pending {
		return err
	}
	if v.Remotes {
		if v.Upstream != "" && v.Upstream != v.Accepted {
			exclude = append(exclude, v.Upstream)
		}
		for rev, err := range b.o.Repo.RevList(ctx, []string{v.Head}, exclude, gitrepo.RevListOptions{}) {
			if err != nil {
				return err
			}
			s.Ahead.Unpushed = append(s.Ahead.Unpushed, rev.ID)
		}
	}
	era := rules.Era{}
	if s.Now < len(s.Eras) {
		era = s.Eras[s.Now]
	}
	p, t, err := era.Read(b.o.Loader.Accepted)
	if err != nil {
		return err
	}
	var out []record
	j := b.judge(&out)
	j.Told = func(v rules.Verdict) { out = b.add(out, v) }
	if err := j.Range(ctx, rules.Range{Old: v.Accepted, From: v.Accepted, New: v.Head, Exclude: exclude[:1], Policy: p, Trust: t}); err != nil {
		return err
	}
	if j.Commits < j.Total {
		return malformed(j)
	}
	if b.kept() {
		if s.Ahead.Segment, err = s.write(out); err == nil {
			return nil
		}
		s.key = nil
	}
	b.memory = append(b.memory, out...)
	return nil
}

// judge makes a judge, whose clock adds a record of each late commit.
func (b *Book) judge(out *[]record) *rules.Judge {
	late := func(m order.Moment) {
		*out = append(*out, record{key: lateKey(m.Commit), commit: m.Commit, second: m.Second, step: m.Step})
	}
	return &rules.Judge{Repo: b.o.Repo, Gate: rules.Check, Now: b.o.Now, Memory: b.o.Memory, Used: b.used, Clock: &order.Clock{Older: b.older, Late: late}}
}

// older is the moment of a commit that was judged before.
func (b *Book) older(commit string) (order.Moment, error) {
	records, err := b.records(lateKey(commit))
	if err != nil {
		return order.Moment{}, err
	}
	for _, r := range records {
		if r.name == "" && r.commit == commit {
			return r.came(), nil
		}
	}
	c, err := b.o.Repo.Commit(commit)
	if err != nil {
		return order.Moment{}, err
	}
	return order.Alone(commit, c.Committer.When), nil
}

// few finds out whether a range is small enough to be judged now.
func (b *Book) few(ctx context.Context, include, exclude []string) error {
	if b.o.Max == 0 {
		return nil
	}
	known := strings.Join(append(include, exclude...), " ")
	if b.store.Many.Range == known && b.o.Max <= b.store.Many.Commits {
		b.pending = true
		return nil
	}
	n := 0
	for _, err := range b.o.Repo.RevList(ctx, include, exclude, gitrepo.RevListOptions{Max: b.o.Max + 1, Unordered: true}) {
		if err != nil {
			return err
		}
		n++
	}
	if b.pending = n > b.o.Max; b.pending && b.kept() {
		b.store.Many = many{known, b.o.Max}
		_ = b.store.save(b.o.Now)
	}
	return nil
}

// add makes records of a verdict.
func (b *Book) add(out []record, v rules.Verdict) []record {
	dir, name := split(v.Path)
	r := record{key: dir, name: name, blob: v.Blob, commit: v.Commit, second: v.Came.Second, step: v.Came.Step, why: place(&b.store.Reasons, v.Undecided)}
	r.signer = place(&b.store.Signers, signer{v.Principal, v.Fingerprint})
	if v.Added {
		r.flags |= flagAdded
	}
	if v.Relay {
		r.flags |= flagRelay
	}
	if v.Tombstone {
		r.flags |= flagTombstone
	}
	if v.Certificate {
		r.flags |= flagCertificate
	}
	if v.Speaks {
		r.flags |= flagSpeaks
	}
	if v.Signature != "" && v.Signature != sshsign.Good && v.Signature != sshsign.Unsigned {
		r.flags |= flagSigned
		if v.Undecided == "" {
			r.why = place(&b.store.Reasons, string(v.Signature))
		}
	}
	for i, rule := range policy.Rules() {
		if slices.Contains(v.Rules, rule.ID) {
			r.rules |= 1 << i
		}
	}
	out = append(out, r)
	if v.Nonce != "" && v.Blob != "" {
		out = append(out, record{key: "\x00" + v.Nonce, name: v.Path, blob: v.Blob, commit: v.Commit})
	}
	return out
}

func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// used finds older envelopes by nonce.
func (b *Book) used(nonces []string) (map[string][]history.Hit, error) {
	found := map[string][]history.Hit{}
	for _, n := range nonces {
		records, err := b.records("\x00" + n)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r.name != "" {
				found[n] = append(found[n], history.Hit{Path: r.name, Blob: r.blob, Commit: r.commit})
			}
		}
	}
	return found, nil
}

// records returns those of a key, oldest first.
func (b *Book) records(key string) (out []record, err error) {
	add := func(r record) { out = append(out, r) }
	for _, seg := range append(slices.Clone(b.store.Segments), b.store.Ahead.Segment) {
		if b.store.key == nil {
			break
		}
		if err := b.store.find(seg, key, add); err != nil {
			return nil, err
		}
	}
	for _, r := range b.memory {
		if r.key == key {
			add(r)
		}
	}
	return out, nil
}

// Behind says why some commits are not judged: that there are more than might
// be, or what the gates cannot decide, with the command that helps; "" if all
// are judged.
func (b *Book) Behind() (why, hint string) {
	if b.unknown != "" {
		return b.unknown, b.hint
	}
	if b.pending {
		return fmt.Sprintf("more than %d commits are not judged yet", b.o.Max), ""
	}
	return "", ""
}

// A Thread holds the verdicts of one thread.
type Thread struct {
	book  *Book
	files map[string][]record
	came  map[version]order.Moment
}

// A version is what a file held.
type version struct{ file, blob string }

// Thread returns the verdicts of a thread.
func (b *Book) Thread(name string) *Thread {
	if t := b.threads[name]; t != nil {
		return t
	}
	records, err := b.records(name)
	if err != nil { // what was kept was removed or changed meanwhile
		b.pending = true
		return &Thread{book: b}
	}
	t := &Thread{b, map[string][]record{}, make(map[version]order.Moment, len(records))}
	var tombs []version
	for _, r := range records {
		t.files[r.name] = append(t.files[r.name], r)
		v := version{r.name, r.blob}
		if m := r.came(); m.Compare(t.came[v]) < 0 {
			t.came[v] = m
		}
		if r.flags&flagTombstone != 0 && r.rules == 0 {
			tombs = append(tombs, v)
		}
	}
	for _, v := range tombs { // the message is where it was
		t.came[v] = t.came[version{v.file, t.files[v.file][0].blob}]
	}
	if b.held += len(records); b.threads == nil || b.held > maxHeld {
		b.threads, b.held = map[string]*Thread{}, len(records)
	}
	b.threads[name] = t
	return t
}

// Came says when a commit first brought a file with certain content. It is the zero
// Moment where no commit that is judged has.
func (t *Thread) Came(file, blob string) order.Moment { return t.came[version{file, blob}] }

// A Version is what a file held, and when that Came.
type Version struct {
	File, Blob string
	Came       order.Moment
}

// After returns what came after a moment and was not taken out again, the newest
// first.
func (t *Thread) After(moment order.Moment) (out []Version) {
	for v, at := range t.came {
		if at.Compare(moment) > 0 && v.blob != "" {
			out = append(out, Version{v.file, v.blob, at})
		}
	}
	if len(out) > 0 {
		gone := t.Removed()
		out = slices.DeleteFunc(out, func(v Version) bool { return gone[v.File].Blob == v.Blob })
	}
	slices.SortFunc(out, func(a, b Version) int {
		return cmp.Or(b.Came.Compare(a.Came), cmp.Compare(a.File, b.File), cmp.Compare(a.Blob, b.Blob))
	})
	return out
}

// Of returns the verdict of a file with certain content, by the id that git
// gives it.
func (t *Thread) Of(file, blob string) Verdict {
	records := t.files[file]
	word := accepted(records)
	n := -1
	for i, r := range records {
		if r.blob == blob {
			n = i
		}
	}
	switch {
	case word != nil && word.blob == blob:
		return t.verdict(*word)
	case n >= 0:
		v := t.verdict(records[n])
		if word != nil {
			v.Word = word.blob
			if v.State != Refused {
				v.State, v.Rules = Refused, []string{"append-only"}
			}
		}
		return v
	}
	v := Verdict{State: NotCommitted}
	if word != nil {
		v.Word = word.blob
	}
	if t.book.unknown != "" {
		v.State, v.Reason = Unknown, t.book.unknown
	} else if t.book.pending {
		v.State = Pending
	}
	return v
}

// Latest returns the verdict of the newest change of a file that the gates
// refuse, whatever content it left; ok is false if there is none.
func (t *Thread) Latest(file string) (v Verdict, ok bool) {
	records := t.files[file]
	for _, r := range slices.Backward(records) {
		if r.rules != 0 {
			v = t.verdict(r)
			if word := accepted(records); word != nil {
				v.Word = word.blob
			}
			return v, true
		}
	}
	return v, false
}

// Committed reports whether some commit brought a file with this content.
func (t *Thread) Committed(file, blob string) bool {
	return slices.ContainsFunc(t.files[file], func(r record) bool { return r.blob == blob })
}

// Removed returns the files that were accepted and that a commit then deleted:
// what was said stays said. By file, the accepted blob and the verdict of the
// deletion.
func (t *Thread) Removed() map[string]Removal {
	out := map[string]Removal{}
	for file, records := range t.files {
		word := accepted(records)
		for i := len(records) - 1; i >= 0 && word != nil; i-- {
			if records[i].blob == "" {
				out[file] = Removal{Blob: word.blob, By: t.verdict(records[i])}
				break
			}
		}
	}
	return out
}

// A Removal is an accepted envelope that a commit deleted.
type Removal struct {
	Blob string // what was accepted
	By   Verdict
}

// accepted returns the first record of a path by which the gates take it, or that of
// the tombstone that has lawfully taken its place.
func accepted(records []record) (word *record) {
	for i := range records {
		r := &records[i]
		if r.blob != "" && r.rules == 0 && (word == nil || word.flags&flagTombstone == 0 && r.flags&flagTombstone != 0) {
			word = r
		}
	}
	return word
}

// Expunged reports whether the body of a file was taken out, so that no content but
// the tombstone may be shown.
func (t *Thread) Expunged(file string) bool {
	word := accepted(t.files[file])
	return word != nil && word.flags&flagTombstone != 0
}

func (t *Thread) verdict(r record) Verdict {
	s := t.book.store
	who := at(s.Signers, r.signer)
	v := Verdict{Principal: who.Principal, Fingerprint: who.Fingerprint, Commit: r.commit, Relay: r.flags&flagRelay != 0,
		Tombstone: r.flags&flagTombstone != 0, Pushed: true}
	v.Pushed = !slices.Contains(s.Ahead.Unpushed, r.commit)
	why := at(s.Reasons, r.why)
	for i, rule := range policy.Rules() {
		if r.rules&(1<<i) != 0 {
			v.Rules = append(v.Rules, rule.ID)
		}
	}
	v.State = state(r.rules != 0, why != "" && r.flags&flagSigned == 0, r.flags&flagSpeaks != 0)
	switch {
	case v.State == Unknown:
		v.Reason = why
	case v.State != Refused && !v.Pushed:
		v.State = NotPushed
	}
	switch {
	case r.flags&flagSpeaks != 0 || v.State == Unknown || v.State == Refused:
	case r.flags&flagSigned != 0:
		v.Reason = "its signature does not count: " + why
	case v.Fingerprint != "":
		v.Reason = "its signer may not speak for the sender"
	}
	v.Revoked = v.Fingerprint != "" && t.book.revoked(v.Fingerprint, r)
	return v
}

// state is the verdict on an envelope whose commit a remote has.
func state(refused, undecided, speaks bool) State {
	switch {
	case refused:
		return Refused
	case undecided:
		return Unknown
	case speaks:
		return Verified
	}
	return Unsigned
}

// Of is the verdict on an envelope, as the rules tell it of a commit that a
// remote has.
func Of(v rules.Verdict) State {
	signed := v.Signature != "" && v.Signature != sshsign.Good && v.Signature != sshsign.Unsigned
	return state(len(v.Rules) > 0, v.Undecided != "" && !signed, v.Speaks)
}

// ofContent are the rules that a file breaks by itself, whoever brings it.
var ofContent = []string{"envelope-parse", "envelope-schema", "envelope-date", "envelope-path", "body-hash"}

// Apart reports whether a message that the gates refuse by these rules does not
// count among what was said: it claims to be a relay, or breaks a rule that is not
// about its own content.
func Apart(broken []string, relay bool) bool {
	return relay || slices.ContainsFunc(broken, func(rule string) bool { return !slices.Contains(ofContent, rule) })
}
