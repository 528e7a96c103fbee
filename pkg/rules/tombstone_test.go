package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/sshsign"
)

// one and two are policies by which one of op and bob, or both, may expunge.
const (
	one = "expunge: {signers: [op@example.com, bob@example.com]}\n"
	two = "expunge: {signers: [op@example.com, bob@example.com], quorum: 2}\n"
)

// A grave says what a tombstone of a test is about.
type grave struct {
	path  string
	text  string                    // of the file that it replaces; "": what the tip has
	say   func(*envelope.Tombstone) // changes what it says
	mends func(string) string       // changes the text, before it is approved
	by    []*testkeys.Key           // approve of it
	as    string                    // namespace of the approvals
	after func(text string) string  // changes the text in the end
}

// stone is a tombstone by op, as rig-hook expunge makes it, and changed.
func (w *world) stone(g grave) string {
	w.Helper()
	old := g.text
	if old == "" {
		old = string(w.objects[w.files(w.tip)[g.path].id].Data)
	}
	root := w.base
	for c, _ := w.Commit(root); len(c.Parents) > 0; c, _ = w.Commit(root) {
		root = c.Parents[0]
	}
	t := &envelope.Tombstone{Path: g.path, Repository: root, Ref: "refs/heads/main", By: "op@example.com",
		At: envelope.TombstoneTime(began.Add(w.next())), Why: "an access token"}
	if g.say != nil {
		g.say(t)
	}
	data, err := envelope.Bury([]byte(old), t, envelope.DefaultLimits())
	if err != nil {
		w.Fatal(err)
	}
	if g.mends != nil {
		data = []byte(g.mends(string(data)))
	}
	var approvals [][]byte
	if g.as == "" {
		g.as = sshsign.NamespaceApproval
	}
	for _, k := range g.by {
		approvals = append(approvals, testkeys.Armor(testkeys.Sign(data, k, g.as, "sha512", "").Marshal()))
	}
	text := string(envelope.Approve(data, approvals...))
	if g.after != nil {
		text = g.after(text)
	}
	return text
}

// buries commits a tombstone, signed by op.
func (w *world) buries(name string, g grave, edits ...edit) string {
	return w.commit(name, append([]edit{signed(keyOp), put(g.path, w.stone(g))}, edits...)...)
}

func replacing(old, new string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, new, 1) }
}

// doesNotCount is the finding about a tombstone of the request.
func doesNotCount(why string) string {
	return "error append-only t-one/REQUEST.md @c: an accepted envelope is replaced by a tombstone that does not count: " + why
}

var ours = grave{path: request}

// keyOp2 is another key of op's.
var keyOp2 = testkeys.Ed25519("op, the second")

var tombstonePlays = []play{
	{name: "by one whom the policy names", make: func(w *world) {
		w.policy = one
		w.buries("c", ours)
	}},
	{name: "by two, if the policy wants two", make: func(w *world) {
		w.policy = two
		w.buries("c", grave{path: request, by: []*testkeys.Key{keyBob}})
	}},
	{name: "of a message that was brought in the same push", make: func(w *world) {
		w.policy = one
		w.commit("b", put("t-one/a.md", turn("rig-a", "STATE", "Oops.\n")))
		w.buries("c", grave{path: "t-one/a.md"})
	}},
	{name: "a reply to what was taken out", make: func(w *world) {
		w.policy = one
		w.buries("b", ours)
		w.commit("c", put("t-one/a.md", turn("rig-b", "RESPONSE", "Yes.\n", answers(asked))))
		w.relays("d")
	}},
	{name: "a reply to what was taken out before the push", make: func(w *world) {
		w.policy = one
		w.buries("b", ours)
		w.accept()
		w.commit("c", put("t-one/a.md", turn("rig-b", "RESPONSE", "Yes.\n", answers(asked))))
		w.relays("d")
	}},
	{name: "what closes a thread closes it still", make: func(w *world) {
		w.policy = one
		w.commit("a", put("t-one/end.md", turn("rig-a", "RESOLUTION", "Done.\n")))
		w.buries("b", grave{path: "t-one/end.md"})
		w.accept()
		w.commit("c", put("t-one/late.md", turn("rig-b", "STATE", "Wait.\n")))
	}, want: []string{
		`warning thread-closed t-one/late.md:6:7 @c: the thread was closed by "t-one/end.md"`,
	}},
	{name: "a merge with a side that does not know it", make: func(w *world) {
		w.policy = "rules: {divergence: off}\n" + one
		side := w.commit("side", on(w.base), put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
		main := w.buries("main", ours, on(w.base))
		w.commit("merge", on(main, side))
		w.commit("other", on(side, main), put(request, string(w.objects[w.files(main)[request].id].Data)))
		w.commit("both", on(w.tip, main))
	}},
	{name: "a merge of what was taken out before the push", make: func(w *world) {
		w.policy = "rules: {divergence: off}\n" + one
		first := w.base
		w.buries("b", ours)
		w.accept()
		side := w.commit("side", on(first), put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
		w.commit("merge", on(w.base, side))
	}},
	{name: "where nobody is named", make: func(w *world) { w.buries("c", ours) },
		want: []string{doesNotCount("the policy names nobody in expunge.signers") +
			" | those whom expunge.signers of the policy names take a message's body out: rig-hook expunge t-one/REQUEST.md"}},
	{name: "by another signer", make: func(w *world) {
		w.policy = "expunge: {signers: [op@example.com]}\n"
		w.buries("c", grave{path: request, say: func(t *envelope.Tombstone) { t.By = "bob@example.com" }}, signed(keyBob), by(bob))
	}, want: []string{doesNotCount(`"bob@example.com" is not one of expunge.signers`)}},
	{name: "by another signer in the name of one who is named", make: func(w *world) {
		w.policy = "expunge: {signers: [op@example.com]}\n"
		w.buries("c", ours, signed(keyBob), by(bob))
	}, want: []string{doesNotCount(`it is by "op@example.com", who did not sign its commit`)}},
	{name: "unsigned", make: func(w *world) {
		w.policy = one
		w.buries("c", ours, signed(nil))
	}, want: []string{
		"error commit-signed - @c: unsigned: the commit has no signature, expected that of an allowed signer",
		doesNotCount("the signature of its commit does not count"),
	}},
	{name: "by a key that nobody lists", make: func(w *world) {
		w.policy = one
		w.buries("c", ours, signed(keyNew))
	}, want: []string{
		"error commit-signed - @c: unknown key: no line lists the key " + keyNew.Fingerprint(),
		doesNotCount("the signature of its commit does not count"),
	}},
	{name: "by fewer than the quorum", make: func(w *world) {
		w.policy = two
		w.buries("c", ours)
	}, want: []string{doesNotCount("1 of expunge.signers stand for it, the policy wants 2 (expunge.quorum)")}},
	{name: "by two keys of one principal", make: func(w *world) {
		w.policy = two
		w.signers += keyOp2.Line("op@example.com", "")
		w.buries("c", grave{path: request, by: []*testkeys.Key{keyOp2, keyOp}})
	}, want: []string{doesNotCount("1 of expunge.signers stand for it, the policy wants 2 (expunge.quorum)")}},
	{name: "by a key that speaks for both", make: func(w *world) {
		w.policy = two
		w.signers += keyOp2.Line("*@example.com", "")
		w.buries("c", grave{path: request, by: []*testkeys.Key{keyOp2}})
	}, want: []string{doesNotCount("1 of expunge.signers stand for it, the policy wants 2 (expunge.quorum)")}},
	{name: "approved by one who is not named", make: func(w *world) {
		w.policy = two
		w.buries("c", grave{path: request, by: []*testkeys.Key{keyCI}})
	}, want: []string{doesNotCount("1 of expunge.signers stand for it, the policy wants 2 (expunge.quorum)")}},
	{name: "approved by a signature of another namespace", make: func(w *world) {
		w.policy = two
		w.buries("c", grave{path: request, by: []*testkeys.Key{keyBob}, as: "git"})
	}, want: []string{doesNotCount("1 of expunge.signers stand for it, the policy wants 2 (expunge.quorum); of its approvals these do not count: " +
		keyBob.Fingerprint() + " wrong namespace")}},
	{name: "approved was another reason", make: func(w *world) {
		w.policy = two
		w.buries("c", grave{path: request, by: []*testkeys.Key{keyBob}, after: replacing("an access token", "an address")})
	}, want: []string{doesNotCount("1 of expunge.signers stand for it, the policy wants 2 (expunge.quorum); of its approvals these do not count: " +
		keyBob.Fingerprint() + " bad signature")}},
	{name: "approved by a key that is revoked", make: func(w *world) {
		w.policy = two
		w.revoked = keyBob.Authorized() + "\n"
		w.buries("c", grave{path: request, by: []*testkeys.Key{keyBob}})
	}, want: []string{doesNotCount("1 of expunge.signers stand for it, the policy wants 2 (expunge.quorum); of its approvals these do not count: " +
		keyBob.Fingerprint() + " revoked")}},
	{name: "twice", make: func(w *world) {
		w.policy = one
		text := w.stone(ours)
		w.buries("b", ours)
		w.commit("c", signed(keyOp), put(request, strings.Replace(text, "an access token", "another reason", 1)))
	}, want: []string{doesNotCount("its body was taken out before")}},
	{name: "edited afterwards", make: func(w *world) {
		w.policy = one
		text := w.stone(ours)
		w.buries("b", ours)
		w.commit("c", signed(keyOp), put(request, strings.Replace(text, "rigward tombstone", "Rigward tombstone", 1)))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is changed in place",
		"error body-hash t-one/REQUEST.md:8:12 @c: body_hash differs from the body's hash " +
			"43a0b71e9de2eb00f3ce454b41d8c617aa133048c84aec259628fa4a7402a08d",
	}},
	{name: "and the body brought back", make: func(w *world) {
		w.policy = one
		w.buries("b", ours)
		w.commit("c", signed(keyOp), put(request, turn("rig-a", "REQUEST", asked)))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is changed in place",
	}},
	{name: "and the body brought back by a merge", make: func(w *world) {
		w.policy = one
		side := w.commit("side", on(w.base), put("README.md", "x\n"))
		main := w.buries("main", ours, on(w.base))
		w.commit("c", on(main, side), put(request, turn("rig-a", "REQUEST", asked)))
	}, want: []string{
		"error append-only t-one/REQUEST.md @c: an accepted envelope is changed in place",
	}},
	{name: "of a relay", make: func(w *world) {
		w.policy = one
		w.relays("b")
		w.accept()
		text := w.stone(ours)
		kept := strings.Split(string(w.objects[w.files(w.tip)[relayAt].id].Data), "---\n")
		w.commit("c", signed(keyOp), put(relayAt, "---\n"+kept[1]+"---\n"+strings.Split(text, "---\n")[2]))
	}, want: []string{
		"error append-only " + relayAt + " @c: an accepted envelope is replaced by a tombstone that does not count: " +
			"it is a relay: what a person decided and signed stays as it is",
	}},
	{name: "about another content", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, text: turn("rig-a", "REQUEST", asked, func(f *envelope.Fields) { f.TLDR = "x" })})
	}, want: []string{doesNotCount("it is about another content than the file has")}},
	{name: "with the hash of another body", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, mends: replacing(bodyHash(asked), bodyHash("Never asked.\n"))})
	}, want: []string{doesNotCount("its body_hash is not that of the body that goes")}},
	{name: "with another sender", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, mends: replacing("from: rig-a", "from: rig-b")})
	}, want: []string{doesNotCount("it changes from")}},
	{name: "with another type", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, mends: replacing("type: REQUEST", "type: RESOLUTION")})
	}, want: []string{doesNotCount("it changes type")}},
	{name: "with another thread", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, mends: replacing("thread: t-one", "thread: t-two")})
	}, want: []string{
		doesNotCount("it changes thread"),
		`error envelope-path t-one/REQUEST.md:7:9 @c: thread is "t-two", the file lies in the directory "t-one", expected the same name`,
	}},
	{name: "with a word more", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, mends: replacing("thread: t-one\n", "thread: t-one\ntldr: Ship it\n")})
	}, want: []string{doesNotCount("it is not what rig-hook expunge makes of the message")}},
	{name: "with text after the approvals", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, by: []*testkeys.Key{keyBob}, after: func(s string) string { return s + "Ship it.\n" }})
	}, want: []string{doesNotCount("behind its approvals there is other text")}},
	{name: "with text in the place of approvals", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, after: func(s string) string { return s + "\nShip it.\n" }})
	}, want: []string{doesNotCount("behind its approvals there is other text")}},
	{name: "replayed from another path", make: func(w *world) {
		w.policy = one
		text := turn("rig-a", "REQUEST", asked)
		w.commit("b", put("t-one/again.md", text))
		w.accept()
		w.commit("c", signed(keyOp), put(request, w.stone(grave{path: "t-one/again.md"})))
	}, want: []string{doesNotCount(`it is about "t-one/again.md"`)}},
	{name: "replayed from another thread", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, text: turn("rig-a", "REQUEST", asked, to("t-two")),
			say: func(t *envelope.Tombstone) { t.Path = "t-two/REQUEST.md" }})
	}, want: []string{
		doesNotCount("it changes thread"),
		`error envelope-path t-one/REQUEST.md:7:9 @c: thread is "t-two", the file lies in the directory "t-one", expected the same name`,
	}},
	{name: "replayed from another repository", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, say: func(t *envelope.Tombstone) { t.Repository = strings.Repeat("d", 40) }})
	}, want: []string{doesNotCount(`it is for a repository whose first commit is "` + strings.Repeat("d", 40) + `"`)}},
	{name: "replayed from a repository that begins with another commit of this one", make: func(w *world) {
		w.policy = one
		second := w.commit("second", put("README.md", "x\n"))
		w.accept()
		w.buries("c", grave{path: request, say: func(t *envelope.Tombstone) { t.Repository = second }})
	}, want: []string{doesNotCount(`it is for a repository whose first commit is "<second>"`)}},
	{name: "replayed from another ref", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, say: func(t *envelope.Tombstone) { t.Ref = "refs/heads/release/1" }})
	}, want: []string{doesNotCount(`it is for the ref "refs/heads/release/1"`)}},
	{name: "made after its commit", make: func(w *world) {
		w.policy = one
		w.buries("c", grave{path: request, say: func(t *envelope.Tombstone) { t.At = envelope.TombstoneTime(began.Add(time.Hour)) }})
	}, want: []string{doesNotCount("it was made after its commit")}},
	{name: "hidden in a merge", make: func(w *world) {
		w.policy = one
		side := w.commit("side", on(w.base), put("README.md", "x\n"))
		main := w.commit("main", on(w.base), put("docs.md", "x\n"))
		w.buries("c", ours, on(main, side))
	}, want: []string{doesNotCount("it comes with a merge")}},
	{name: "hidden behind a merge", make: func(w *world) {
		w.policy = one
		side := w.buries("c", ours, on(w.base), signed(keyBob), by(bob))
		main := w.commit("main", on(w.base), put("docs.md", "x\n"))
		w.commit("merge", on(main, side), put(request, string(w.objects[w.files(side)[request].id].Data)))
	}, want: []string{doesNotCount(`it is by "op@example.com", who did not sign its commit`)}},
	{name: "beside another change", make: func(w *world) {
		w.policy = one
		w.buries("c", ours, put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
	}, want: []string{doesNotCount("the commit changes other paths besides it (1)")}},
	{name: "of a file that is not an envelope", make: func(w *world) {
		w.policy = one
		w.commit("b", put("t-one/notes.md", "Notes.\n"))
		w.accept()
		w.commit("c", signed(keyOp), put("t-one/notes.md", w.stone(ours)))
	}, want: []string{
		"error append-only t-one/notes.md:10:1 @c: a new message reads as a tombstone, which takes the place of a message " +
			"that was accepted | begin the body with other words",
	}},
	{name: "of an envelope that cannot be read", make: func(w *world) {
		w.policy = one
		w.commit("b", put("t-one/bad.md", "---\nfrom: [\n---\n"))
		w.accept()
		w.commit("c", signed(keyOp), put("t-one/bad.md", w.stone(ours)))
	}, want: []string{
		"error append-only t-one/bad.md @c: an accepted envelope is replaced by a tombstone that does not count: it cannot be read as a message",
	}},
	{name: "a new envelope that reads as one", make: func(w *world) {
		w.policy = one
		w.commit("c", signed(keyOp), put("t-one/a.md", w.stone(ours)))
	}, want: []string{"error append-only t-one/a.md:10:1 @c: a new message reads as a tombstone, which takes the place of a message that was accepted"}},
	{name: "a new envelope that begins as one", make: func(w *world) {
		w.policy = one
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "rigward tombstone 1\n\nwhy: so\n")))
	}, want: []string{"error append-only t-one/a.md:10:1 @c: a new message reads as a tombstone, which takes the place of a message that was accepted"}},
	{name: "a new envelope that speaks of one", make: func(w *world) {
		w.policy = one
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "The text is:\nrigward tombstone 1\n")))
	}},
	{name: "executable", make: func(w *world) {
		w.policy = one
		w.commit("c", signed(keyOp), putAs(gitrepo.ModeExecutable, request, w.stone(ours)))
	}, want: []string{
		doesNotCount("the mode of the file is not 100644"),
		"error envelope-path t-one/REQUEST.md:1:1 @c: an envelope is executable (mode 100755), expected a regular file of mode 100644",
	}},
	{name: "where the policy lets envelopes be changed, it is that of nobody new", make: func(w *world) {
		w.policy = "rules: {append-only: warning}\n" + one
		w.commit("b", put("t-one/a.md", turn("rig-c", "STATE", "Oops.\n")))
		w.accept()
		w.buries("c", grave{path: "t-one/a.md"})
	}},
	{name: "a forge's key is not enough", make: func(w *world) {
		w.policy = "forge-commits: [" + keyNew.Fingerprint() + "]\nrequire-signed: all\n" + one
		w.buries("c", ours, signed(keyNew))
	}, want: []string{
		"error commit-signed - @c: unknown key: no line lists the key " + keyNew.Fingerprint(),
		doesNotCount("the signature of its commit does not count"),
	}},
	{name: "in the index", make: func(w *world) {
		w.policy = one
		w.gate = PreCommit
		w.buries("c", ours)
	}},
	{name: "in the index, of another content", make: func(w *world) {
		w.policy = one
		w.gate = PreCommit
		w.buries("c", grave{path: request, text: turn("rig-a", "REQUEST", asked, func(f *envelope.Fields) { f.TLDR = "x" })})
	}, want: []string{strings.Replace(doesNotCount("it is about another content than the file has"), "@c", "@", 1)}},
	{name: "where the history is cut", make: func(w *world) {
		w.policy = one
		w.shallow = map[string]bool{w.base: true}
		w.buries("c", grave{path: request, say: func(t *envelope.Tombstone) { t.Repository = strings.Repeat("d", 40) }})
	}, err: "whether a tombstone is for this repository cannot be known"},
}

func TestTombstone(t *testing.T) { run(t, tombstonePlays) }
