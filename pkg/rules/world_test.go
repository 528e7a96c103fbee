package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// began is when the history of a world begins; each commit comes a minute
// later.
var began = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// The people and rigs of the tests. The signers list op, bob and ci.
var (
	keyOp  = testkeys.Ed25519("op")
	keyBob = testkeys.Ed25519("bob")
	keyCI  = testkeys.Ed25519("ci")
	keyNew = testkeys.Ed25519("new") // nobody lists it

	signers = keyOp.Line("op@example.com,op-relay,rig-a", "") + keyBob.Line("bob@example.com,bob-relay,rig-b", "") +
		keyCI.Line("ci@example.com", "")
)

const (
	op  = "Op <op@example.com>"
	bob = "Bob <bob@example.com>"

	request = "t-one/REQUEST.md" // in every world
	asked   = "Is the release ready?\n"
)

// A world is a repository whose protected branch is about to get what a test
// commits, and the policy by which that is judged.
type world struct {
	testing.TB
	*fake
	names map[string]string // of commits, by id, for messages
	base  string            // what the branch has
	tip   string            // what it gets
	made  int

	policy    string               // lines of the policy file
	signers   string               // "" for no signers file
	revoked   string               // keys that are revoked
	judge     func(*Judge, *Range) // changes how it is judged
	gate      Gate                 // at which it is judged
	published []string             // at pre-commit, what other clones have; nil: the base
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, fake: &fake{objects: map[string]gitrepo.Object{}}, names: map[string]string{}, signers: signers,
		gate: PreReceive}
	w.base = w.commit("base", on(), put(request, turn("rig-a", "REQUEST", asked)), put(".bridge/allowed_signers", signers))
	return w
}

// A draft is a commit before it is written.
type draft struct {
	changes           []func(files map[string]file)
	parents           []string
	author, committer string
	at                time.Time
	key               *testkeys.Key
	raw               func([]byte) []byte
	said              string        // at the end of the message
	later             time.Duration // the committer date is than the author date
}

type edit func(*world, *draft)

func put(path, text string) edit {
	return putAs(gitrepo.ModeFile, path, text)
}

func putAs(mode gitrepo.Mode, path, text string) edit {
	return func(w *world, d *draft) {
		id := w.base // of a submodule
		if mode != gitrepo.ModeGitlink {
			id = w.write("blob", []byte(text))
		}
		d.changes = append(d.changes, func(files map[string]file) { files[path] = file{mode, id} })
	}
}

func del(path string) edit {
	return func(_ *world, d *draft) {
		d.changes = append(d.changes, func(files map[string]file) { delete(files, path) })
	}
}

// on says on which commits one is made instead of the tip. Of several, it has
// the files of all; where they differ those of the first.
func on(parents ...string) edit {
	return func(_ *world, d *draft) { d.parents = parents }
}

func by(who string) edit     { return func(_ *world, d *draft) { d.author, d.committer = who, who } }
func author(who string) edit { return func(_ *world, d *draft) { d.author = who } }

func signed(k *testkeys.Key) edit { return func(_ *world, d *draft) { d.key = k } }

// at says when, counted from the begin.
func at(after time.Duration) edit { return func(_ *world, d *draft) { d.at = began.Add(after) } }

// ending adds to the message of the commit.
func ending(text string) edit { return func(_ *world, d *draft) { d.said += text } }

// raw changes the bytes of the commit.
func raw(change func([]byte) []byte) edit { return func(_ *world, d *draft) { d.raw = change } }

func (w *world) files(commit string) map[string]file {
	w.Helper()
	c, err := w.Commit(commit)
	if err != nil {
		w.Fatal(err)
	}
	return w.flat(c.Tree)
}

// commit makes a commit on the tip, which it becomes.
func (w *world) commit(name string, edits ...edit) string {
	w.Helper()
	w.made++
	d := &draft{author: op, committer: op, at: began.Add(time.Duration(w.made) * time.Minute)}
	if w.tip != "" {
		d.parents = []string{w.tip}
	}
	for _, e := range edits {
		e(w, d)
	}
	files := map[string]file{}
	for _, p := range slices.Backward(d.parents) {
		maps.Copy(files, w.files(p))
	}
	for _, change := range d.changes {
		change(files)
	}
	stamp := fmt.Sprintf(" %d +0000", d.at.Unix())
	payload := testkeys.Commit{Tree: w.writeTree(files), Parents: d.parents, Author: d.author + stamp,
		Committer: d.committer + fmt.Sprintf(" %d +0000", d.at.Add(d.later).Unix()),
		Message:   name + "\n" + d.said}.Bytes()
	if d.key != nil {
		payload = testkeys.SignCommit(payload, d.key)
	}
	if d.raw != nil {
		payload = d.raw(payload)
	}
	w.tip = w.write("commit", payload)
	w.names[w.tip] = name
	return w.tip
}

// next is when the next commit is made, counted from the begin.
func (w *world) next() time.Duration { return time.Duration(w.made+1) * time.Minute }

// accept makes what was committed so far the branch.
func (w *world) accept() { w.base = w.tip }

// prefix is an abbreviated id, as references have it.
func prefix(id string) string { return id[:12] }

// fields are what a turn says by itself.
func fields(from, kind, body string) envelope.Fields {
	return envelope.Fields{From: from, To: []string{"rig-z"}, Date: "2026-01-05", Status: "▶ Going on", Type: kind,
		Thread: "t-one",
		Body:   []byte(body), BodyHash: bodyHash(body)}
}

func bodyHash(body string) string { return envelope.BodyHash(envelope.NormalizeBody([]byte(body))) }

func render(f envelope.Fields) string {
	text, err := envelope.Render(f)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// turn is a good envelope of t-one, changed by changes.
func turn(from, kind, body string, changes ...func(*envelope.Fields)) string {
	f := fields(from, kind, body)
	for _, change := range changes {
		change(&f)
	}
	return render(f)
}

func to(thread string) func(*envelope.Fields) { return func(f *envelope.Fields) { f.Thread = thread } }

func answers(body string) func(*envelope.Fields) {
	return func(f *envelope.Fields) { f.InReplyTo = bodyHash(body) }
}

func refers(ids ...string) func(*envelope.Fields) {
	return func(f *envelope.Fields) { f.References = ids }
}

// nonces of the tests.
const (
	nonce1 = "01KE6X0000AAAAAAAAAAAAAAA1"
	nonce2 = "01KE6X0000AAAAAAAAAAAAAAA2"
)

// decision is a good relay by op, attested a moment after a time.
func decision(nonce string, after time.Duration, changes ...func(*envelope.Fields)) string {
	f := fields("op-relay", "DECISIONS", "Ship it, says "+nonce+".\n")
	f.InReplyTo, f.AttestedBy, f.Nonce = bodyHash(asked), keyOp.Fingerprint(), nonce
	f.AttestedAt = began.Add(after).Format("2006-01-02T15:04:05.000Z")
	for _, change := range changes {
		change(&f)
	}
	return render(f)
}

// demands is the policy that a world is judged by.
func (w *world) demands() *policy.Policy {
	w.Helper()
	p, err := policy.Decode([]byte("version: 1\n"+w.policy), policy.FromServer)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) trust() *policy.Trust {
	if w.signers == "" {
		return policy.Untrusting(".bridge/allowed_signers")
	}
	return policy.NewTrust(".bridge/allowed_signers", func() ([]byte, []policy.RevocationFile, error) {
		if w.revoked == "" {
			return []byte(w.signers), nil, nil
		}
		return []byte(w.signers), []policy.RevocationFile{{Source: ".bridge/revoked", Data: []byte(w.revoked)}}, nil
	})
}

// judgeAt judges at a gate what is between base and tip; at pre-commit, what
// the tip has is in the index.
func (w *world) judgeAt(g Gate) (*Judge, error) {
	w.Helper()
	j, err := w.judgeWith(g, nil)
	if _, whole := j.Repo.(*fake); whole && j.Progress == nil {
		w.alike(g, j, err)
	}
	return j, err
}

// alike holds that the same is found where what lies in threads is looked up: when
// nothing is kept, when that is kept, and when it was read from the disk again.
func (w *world) alike(g Gate, want *Judge, failed error) {
	w.Helper()
	dir := w.TempDir()
	for n := range 3 {
		x := &history.Turns{Dir: dir, Format: "sha1", Recent: n}
		TurnsBy(w.demands(), x)
		j, err := w.judgeWith(g, x)
		if fmt.Sprint(err) != fmt.Sprint(failed) || !slices.Equal(j.Findings, want.Findings) || j.More != want.More || j.Envelopes != want.Envelopes {
			w.Errorf("looked up, run %d:\n%v %s\nexpected\n%v %s", n, err, lines(j.Findings), failed, lines(want.Findings))
		}
		if n == 1 {
			j.Keep()
		}
		x.Close()
	}
}

func (w *world) judgeWith(g Gate, turns *history.Turns) (*Judge, error) {
	w.Helper()
	j := &Judge{Repo: w.fake, Gate: g, Turns: turns, long: 1}
	if g.server() || g == PreCommit {
		j.Now = began.Add(30 * time.Minute)
	}
	r := Range{Ref: "refs/heads/main", Old: w.base, New: w.tip, Exclude: []string{w.base}, History: true,
		First: w.base == "", Policy: w.demands(), Trust: w.trust()}
	if w.base == "" {
		r.Exclude = nil
	}
	if w.judge != nil {
		w.judge(j, &r)
	}
	var err error
	if g == PreCommit {
		err = j.Index(context.Background(), w.staged(r))
	} else {
		err = j.Range(context.Background(), r)
	}
	finding.Sort(j.Findings)
	return j, err
}

// entries is an index by its paths.
type entries map[string]gitrepo.IndexEntry

func (e entries) Lookup(path string) (gitrepo.IndexEntry, bool) { x, ok := e[path]; return x, ok }

func (e entries) HasDir(dir string) bool {
	for path := range e {
		if strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

func (w *world) staged(r Range) Staged {
	w.Helper()
	s := Staged{Head: w.base, Policy: r.Policy, Trust: r.Trust}
	old := ""
	if w.base != "" {
		c, err := w.Commit(w.base)
		if err != nil {
			w.Fatal(err)
		}
		s.Published, old = []string{w.base}, c.Tree
	}
	if w.published != nil {
		s.Published = w.published
	}
	files := w.files(w.tip)
	all := entries{}
	for path, e := range files {
		all[path] = gitrepo.IndexEntry{Path: path, Mode: e.mode, ID: e.id}
	}
	s.Index = all
	s.Changes, _ = w.DiffTrees(old, w.writeTree(files))
	return s
}

// told is a finding as the tests write it: rule, severity, place, the name of
// the commit, message, and hint.
func (w *world) told(f finding.Finding) string {
	place := finding.Path(f.Path)
	if f.Path == "" {
		place = "-"
	}
	if f.Line > 0 {
		place += fmt.Sprintf(":%d:%d", f.Line, f.Col)
	}
	text := fmt.Sprintf("%s %s %s @%s: %s", f.Severity, f.Rule, place, w.names[f.Commit], f.Message)
	if f.Hint != "" {
		text += " | " + f.Hint
	}
	for id, name := range w.names {
		text = strings.NewReplacer(id, "<"+name+">", finding.Short(id), "<"+name+">").Replace(text)
	}
	return text
}

// A play is a case of a rule: what is committed, and what is found.
type play struct {
	name string
	make func(w *world)
	want []string // as world.told writes them; none: it is lawful
	err  string   // how the message of an Undecided begins
}

// plays are all cases of the tests, for TestGates: a rule's test adds its own.
var plays = map[string][]play{
	"append-only":     appendOnlyPlays,
	"body-hash":       contentPlays,
	"clone-config":    cloneConfigPlays,
	"commit-clock":    commitClockPlays,
	"commit-signed":   commitSignedPlays,
	"divergence":      divergencePlays,
	"envelope-path":   envelopePathPlays,
	"fast-forward":    fastForwardPlays,
	"hidden-text":     hiddenTextPlays,
	"outside-thread":  outsidePlays,
	"quorum":          quorumPlays,
	"references":      referencesPlays,
	"relay-author":    relayAuthorPlays,
	"relay-clock":     relayClockPlays,
	"relay-commit":    relayCommitPlays,
	"relay-frozen":    relayFrozenPlays,
	"relay-key":       relayKeyPlays,
	"relay-nonce":     relayNoncePlays,
	"relay-reply":     relayReplyPlays,
	"secret":          secretPlays,
	"sender-key":      senderKeyPlays,
	"signer-identity": signerIdentityPlays,
	"signers-change":  signersChangePlays,
	"thread-closed":   threadClosedPlays,
	"tombstone":       tombstonePlays,
}

// run plays cases, each in a world of its own.
func run(t *testing.T, list []play) {
	t.Helper()
	for _, p := range list {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p.make(w)
			j, err := w.judgeAt(w.gate)
			var u *policy.Undecided
			switch {
			case p.err == "" && err != nil:
				t.Fatal(err)
			case p.err != "" && (!errors.As(err, &u) || !strings.HasPrefix(u.Message, p.err)):
				t.Fatalf("got %v, want %s", err, p.err)
			}
			w.expect(j, p.want...)
		})
	}
}

// expect compares what was found; a line of want without a hint leaves it out.
func (w *world) expect(j *Judge, want ...string) {
	w.Helper()
	var got []string
	for i, f := range j.Findings {
		text := w.told(f)
		if i < len(want) && !strings.Contains(want[i], " | ") {
			text, _, _ = strings.Cut(text, " | ")
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		w.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	if j.More != (finding.Counts{}) {
		w.Errorf("%+v more", j.More)
	}
}
