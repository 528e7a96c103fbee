package rules

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/sshsign"
)

const (
	twoForTrust = "quorum: {of: [op@example.com, bob@example.com, ci@example.com], trust: 2}\n"
	twoForRelay = "quorum: {of: [op@example.com, bob@example.com], relays: [{threads: ['t-*'], types: [DECISIONS], quorum: 2}]}\n"
	rescue      = "quorum: {of: [op@example.com, bob@example.com], trust: 2, recovery: [ci@example.com]}\n"

	more = "# one more line\n"
)

// A vote says who approves of a commit, and of what.
type vote struct {
	by    []*testkeys.Key
	on    string // default: the tip
	ref   string // default: main
	as    string // namespace
	text  func(string) string
	block func(string) string
}

// approved commits what others approved of.
func (w *world) approved(name string, v vote, edits ...edit) string {
	w.Helper()
	tip, made := w.tip, w.made
	if v.on == "" {
		v.on = tip
	}
	if v.ref == "" {
		v.ref = "refs/heads/main"
	}
	if v.as == "" {
		v.as = sshsign.NamespaceApproval
	}
	c, err := w.Commit(w.commit(name, edits...))
	if err != nil {
		w.Fatal(err)
	}
	text, err := ApprovalText(w.fake, c, v.on, v.ref)
	if err != nil {
		w.Fatal(err)
	}
	if v.text != nil {
		text = []byte(v.text(string(text)))
	}
	a := Approval{On: v.on, Ref: v.ref}
	for _, k := range v.by {
		a.Signatures = append(a.Signatures, testkeys.Armor(testkeys.Sign(text, k, v.as, "sha512", "").Marshal())...)
	}
	block := string(a.Block())
	if v.block != nil {
		block = v.block(block)
	}
	w.tip, w.made = tip, made
	return w.commit(name, append(slices.Clone(edits), ending("\n"+block))...)
}

// takes makes the committer date later than the author date.
func takes(d time.Duration) edit { return func(_ *world, x *draft) { x.later = d } }

// Security keys of op and bob, and a policy that asks for what they can say.
var (
	skOp  = testkeys.SKEd25519("op")
	skBob = testkeys.SKECDSA("bob")
)

func byKeys(hardware string) (policy, signers string) {
	return "quorum: {of: [op@example.com, bob@example.com], trust: 2, hardware: " + hardware + "}\n",
		skOp.Line("op@example.com", "") + skBob.Line("bob@example.com", "")
}

func changesSigners(text string) []edit {
	return []edit{signed(keyOp), put(".bridge/allowed_signers", signers+text)}
}

func few(n, want int, what, key, why string) string {
	path := "-"
	if strings.HasPrefix(what, "this") {
		path = "t-one/RELAY-" + nonce1 + ".md"
	}
	return fmt.Sprintf("error quorum %s @c: %d of quorum.of stand for %s, the policy wants %d (%s)%s"+
		" | rig-hook approve <c> shows what others have to sign", path, n, what, want, key, why)
}

func fewSigners(n int, why string) string {
	return few(n, 2, "a change of .bridge/allowed_signers", "quorum.trust", why)
}

// theDecision is a relay by op.
func (w *world) theDecision() []edit {
	return []edit{signed(keyOp), put("t-one/RELAY-"+nonce1+".md", decision(nonce1, w.next()))}
}

var quorumPlays = []play{
	{name: "two stand for a change of signers", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}}, changesSigners(more)...)
	}},
	{name: "one does", make: func(w *world) {
		w.policy = twoForTrust
		w.commit("c", changesSigners(more)...)
	}, want: []string{fewSigners(1, "")}},
	{name: "no quorum is asked for", make: func(w *world) {
		w.policy = "quorum: {of: [op@example.com, bob@example.com], trust: 1}\n"
		w.commit("c", changesSigners(more)...)
	}},
	{name: "what changes nobody's trust needs no quorum", make: func(w *world) {
		w.policy = twoForTrust
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Going on.\n")))
	}},
	{name: "the policy itself", make: func(w *world) {
		w.policy = twoForTrust
		w.commit("c", signed(keyOp), put(".bridge/policy.yaml", "version: 1\n"))
	}, want: []string{few(1, 2, "a change of .bridge/policy.yaml", "quorum.trust", "")}},
	{name: "one key twice is one", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyOp, keyOp}}, changesSigners(more)...)
	}, want: []string{fewSigners(1, "")}},
	{name: "two keys of one person are one", make: func(w *world) {
		w.policy = twoForTrust
		w.signers += keyOp2.Line("op@example.com", "")
		w.approved("c", vote{by: []*testkeys.Key{keyOp2}}, signed(keyOp), put(".bridge/allowed_signers", w.signers+more))
	}, want: []string{fewSigners(1, "")}},
	{name: "one key for two names is one", make: func(w *world) {
		w.policy = twoForTrust
		w.signers = keyOp.Line("op@example.com,bob@example.com,op-relay", "")
		w.approved("c", vote{by: []*testkeys.Key{keyOp}}, signed(keyOp), put(".bridge/allowed_signers", w.signers+more))
	}, want: []string{fewSigners(1, "")}},
	{name: "somebody who is not asked", make: func(w *world) {
		w.policy = "quorum: {of: [op@example.com, bob@example.com], trust: 2}\n"
		w.approved("c", vote{by: []*testkeys.Key{keyCI}}, changesSigners(more)...)
	}, want: []string{fewSigners(1, "")}},
	{name: "a key that nobody lists", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyNew}}, changesSigners(more)...)
	}, want: []string{fewSigners(1, "; of its approvals these do not count: "+keyNew.Fingerprint()+" unknown key")}},
	{name: "a key that the change lists", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyNew}}, changesSigners(keyNew.Line("bob@example.com", ""))...)
	}, want: []string{fewSigners(1, "; of its approvals these do not count: "+keyNew.Fingerprint()+" unknown key")}},
	{name: "a key that was revoked", make: func(w *world) {
		w.policy, w.revoked = twoForTrust+"revoked: .bridge/revoked\n", keyBob.Authorized()
		w.approved("c", vote{by: []*testkeys.Key{keyBob}}, append(changesSigners(more), put(".bridge/revoked", keyBob.Authorized()))...)
	}, want: []string{fewSigners(1, "; of its approvals these do not count: "+keyBob.Fingerprint()+" revoked")}},
	{name: "a signature for another use", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}, as: "git"}, changesSigners(more)...)
	}, want: []string{fewSigners(1, "; of its approvals these do not count: "+keyBob.Fingerprint()+" wrong namespace")}},
	{name: "of another change", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}, text: func(s string) string { return strings.Replace(s, "allowed_signers", "revoked", 1) }},
			changesSigners(more)...)
	}, want: []string{fewSigners(1, "; of its approvals these do not count: "+keyBob.Fingerprint()+" bad signature")}},
	{name: "for another ref", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}, ref: "refs/heads/other"}, changesSigners(more)...)
	}, want: []string{fewSigners(1, `; its approvals do not count: they are for the ref "refs/heads/other"`)}},
	{name: "that says another ref than was signed", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}, ref: "refs/heads/other", block: func(s string) string {
			return strings.Replace(s, "refs/heads/other", "refs/heads/main", 1)
		}}, changesSigners(more)...)
	}, want: []string{fewSigners(1, "; of its approvals these do not count: "+keyBob.Fingerprint()+" bad signature")}},
	{name: "of another history", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}, on: strings.Repeat("1", 40)}, changesSigners(more)...)
	}, want: []string{fewSigners(1, "; its approvals do not count: they are for a history with the commit 111111111111")}},
	{name: "other commits came since", make: func(w *world) {
		w.policy = twoForTrust
		before := w.tip
		w.commit("a", put("t-one/a.md", turn("rig-a", "STATE", "Going on.\n")))
		w.accept()
		w.commit("b", put("t-one/b.md", turn("rig-a", "STATE", "Still.\n")))
		w.approved("c", vote{by: []*testkeys.Key{keyBob}, on: before}, changesSigners(more)...)
	}},
	{name: "a second time, after it was taken back", make: func(w *world) {
		w.policy = twoForTrust
		before := w.tip
		w.approved("a", vote{by: []*testkeys.Key{keyBob}}, changesSigners(more)...)
		w.approved("b", vote{by: []*testkeys.Key{keyBob}}, changesSigners("")...)
		w.accept()
		w.approved("c", vote{by: []*testkeys.Key{keyBob}, on: before}, changesSigners(more)...)
	}, want: []string{fewSigners(1, "; its approvals do not count: who is trusted was changed since, by <a>")}},
	{name: "with more in the commit than was approved of", make: func(w *world) {
		w.policy = twoForTrust
		tip, made := w.tip, w.made
		c := w.approved("c", vote{by: []*testkeys.Key{keyBob}}, changesSigners(more)...)
		obj, _ := w.Commit(c)
		_, block, _ := bytes.Cut(obj.Message, []byte("\n"))
		w.tip, w.made = tip, made
		w.commit("c", append(changesSigners(more+more), ending(string(block)))...)
	}, want: []string{fewSigners(1, "; of its approvals these do not count: "+keyBob.Fingerprint()+" bad signature")}},
	{name: "text behind the signatures", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}, block: func(s string) string { return s + "Signed-off-by: x\n" }}, changesSigners(more)...)
	}, want: []string{fewSigners(1, "; its approvals do not count: there is other text between or behind them")}},
	{name: "a block of another form", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}, block: func(s string) string { return strings.Replace(s, "on: ", "upon: ", 1) }}, changesSigners(more)...)
	}, want: []string{fewSigners(1, "; its approvals do not count: they are not of their form")}},
	{name: "by a merge", make: func(w *world) {
		w.policy = twoForTrust
		base := w.tip
		w.commit("a", append(changesSigners(more), on(base))...)
		side := w.tip
		w.tip = base
		w.commit("b", put("t-one/a.md", turn("rig-a", "STATE", "Going on.\n")))
		w.commit("c", signed(keyOp), on(w.tip, side), put(".bridge/allowed_signers", signers+more))
	}, want: []string{
		strings.Replace(strings.Replace(fewSigners(1, ""), "@c", "@a", 1), "<c>", "<a>", 1),
		fewSigners(1, ""),
	}},
	{name: "one of those who can always let in", make: func(w *world) {
		w.policy = rescue
		w.approved("c", vote{by: []*testkeys.Key{keyCI}}, changesSigners(more)...)
	}},
	{name: "signed by one of those", make: func(w *world) {
		w.policy = rescue
		w.commit("c", by("CI <ci@example.com>"), signed(keyCI), put(".bridge/allowed_signers", signers+more))
	}},
	{name: "people at security keys", make: func(w *world) {
		w.policy, w.signers = byKeys("verification")
		w.approved("c", vote{by: []*testkeys.Key{skBob.WithFlags(5)}}, signed(skOp.WithFlags(5)), put(".bridge/allowed_signers", w.signers+more))
	}},
	{name: "one whom the key does not know", make: func(w *world) {
		w.policy, w.signers = byKeys("verification")
		w.approved("c", vote{by: []*testkeys.Key{skBob.WithFlags(1)}}, signed(skOp.WithFlags(5)), put(".bridge/allowed_signers", w.signers+more))
	}, want: []string{fewSigners(1, "; of its approvals these do not count: "+skBob.Fingerprint()+" without the verification that quorum.hardware wants of a security key")}},
	{name: "who touched it is enough", make: func(w *world) {
		w.policy, w.signers = byKeys("presence")
		w.approved("c", vote{by: []*testkeys.Key{skBob.WithFlags(1)}}, signed(skOp.WithFlags(1)), put(".bridge/allowed_signers", w.signers+more))
	}},
	{name: "a key in a file", make: func(w *world) {
		w.policy, w.signers = byKeys("presence")
		w.signers += keyOp.Line("op@example.com", "")
		w.approved("c", vote{by: []*testkeys.Key{skBob.WithFlags(1)}}, signed(keyOp), put(".bridge/allowed_signers", w.signers+more))
	}, want: []string{fewSigners(1, "")}},
	{name: "a change after which nobody could make another", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}}, signed(keyOp), put(".bridge/allowed_signers", keyOp.Line("op@example.com,op-relay,rig-a", "")))
	}, want: []string{"error signers-change .bridge/allowed_signers @c: 1 of quorum.of have a key here, and quorum.trust wants 2: " +
		`nobody could change anything any more | list a key of "bob@example.com", "ci@example.com", or name others in quorum.of, in the same commit`}},
	{name: "as many as are wanted are left", make: func(w *world) {
		w.policy = twoForTrust
		w.approved("c", vote{by: []*testkeys.Key{keyBob}}, signed(keyOp),
			put(".bridge/allowed_signers", keyOp.Line("op@example.com,op-relay,rig-a", "")+keyBob.Line("bob@example.com", "")))
	}},
	{name: "somebody is left who can always let in", make: func(w *world) {
		w.policy = rescue
		w.approved("c", vote{by: []*testkeys.Key{keyBob}}, signed(keyOp), put(".bridge/allowed_signers", keyCI.Line("ci@example.com", "")))
	}},
	{name: "nobody was trusted before", make: func(w *world) {
		w.policy, w.signers = twoForTrust, ""
		w.judge = func(j *Judge, _ *Range) { j.Bootstrap = true }
		w.commit("c", put(".bridge/allowed_signers", signers+more))
	}},

	{name: "two stand for a relay", make: func(w *world) {
		w.policy = twoForRelay
		w.approved("c", vote{by: []*testkeys.Key{keyBob}}, w.theDecision()...)
	}},
	{name: "two who took an hour", make: func(w *world) {
		w.policy = twoForRelay
		w.approved("c", vote{by: []*testkeys.Key{keyBob}}, append(w.theDecision(), takes(20*time.Minute))...)
	}},
	{name: "one who took an hour", make: func(w *world) {
		w.commit("c", append(w.theDecision(), takes(20*time.Minute))...)
	}, want: []string{"error relay-clock t-one/RELAY-" + nonce1 + ".md:10:14 @c: attested_at is 1200 s (20m0s) before the committer date " +
		"2026-01-05T09:22:00Z, at most 600 s (10m0s) apart are allowed | relay again: git rebase " +
		"--onto <c>~1 <c> && rig-bridge relay TYPE --thread t-one --in-reply-to FILE --tldr TEXT"}},
	{name: "one stands for a relay", make: func(w *world) {
		w.policy = twoForRelay
		w.commit("c", w.theDecision()...)
	}, want: []string{few(1, 2, "this relay", "quorum.relays", "")}},
	{name: "a relay of another thread", make: func(w *world) {
		w.policy = strings.Replace(twoForRelay, "t-*", "prod-*", 1)
		w.commit("c", w.theDecision()...)
	}},
	{name: "a relay of another type", make: func(w *world) {
		w.policy = strings.Replace(twoForRelay, "DECISIONS", "ACK", 1)
		w.commit("c", w.theDecision()...)
	}},
	{name: "approval of another relay", make: func(w *world) {
		w.policy = twoForRelay
		edits := w.theDecision()
		tip, made := w.tip, w.made
		c := w.approved("c", vote{by: []*testkeys.Key{keyBob}}, signed(keyOp),
			put("t-one/RELAY-"+nonce1+".md", decision(nonce1, w.next(), func(f *envelope.Fields) { f.Body, f.BodyHash = []byte("No.\n"), bodyHash("No.\n") })))
		obj, _ := w.Commit(c)
		_, block, _ := bytes.Cut(obj.Message, []byte("\n"))
		w.tip, w.made = tip, made
		w.commit("c", append(edits, ending(string(block)))...)
	}, want: []string{few(1, 2, "this relay", "quorum.relays", "; of its approvals these do not count: "+keyBob.Fingerprint()+" bad signature")}},
}

func TestQuorum(t *testing.T) { run(t, quorumPlays) }

// TestQuorumModel plays random pushes of who has stolen some of the keys: no
// change of trust and no relay passes unless as many people as the policy wants
// have signed for exactly that. An own count of who signed what says which pass.
func TestQuorumModel(t *testing.T) {
	rounds := 100
	if n, err := strconv.Atoi(os.Getenv("RIGWARD_QUORUM_ROUNDS")); err == nil {
		rounds = n
	}
	keys := []*testkeys.Key{keyOp, keyBob, keyCI, keyNew, keyOp2}
	person := map[*testkeys.Key]string{keyOp: "op", keyOp2: "op", keyBob: "bob", keyCI: "ci"} // keyNew is nobody's
	passed, refused := 0, 0
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 26))
		w := newWorld(t)
		w.signers += keyOp2.Line("op@example.com,op-relay", "")
		want := 2 + r.IntN(2)
		w.policy = fmt.Sprintf("quorum: {of: [op@example.com, bob@example.com, ci@example.com], trust: %d, relays: [{quorum: %[1]d}]}\n", want)
		type seen struct {
			block string // of an approval that was really given
			text  string // what it is about
			by    map[string]bool
		}
		var given []seen
		for step := range 3 + r.IntN(4) {
			relay := r.IntN(2) == 0
			nonce := fmt.Sprintf("01KE6X0000AAAAAAAAAAAA%04d", seed%100*10+step)
			made := func() []edit {
				if relay {
					return []edit{signed(keyOp), put("t-one/RELAY-"+nonce+".md", decision(nonce, w.next()))}
				}
				text := w.signers + strings.Repeat(more, r.IntN(3)+1)
				if string(w.objects[w.files(w.tip)[".bridge/allowed_signers"].id].Data) == text {
					text += "#\n"
				}
				return []edit{signed(keyOp), put(".bridge/allowed_signers", text)}
			}()
			tip, number := w.tip, w.made
			var by []*testkeys.Key
			for range r.IntN(4) {
				by = append(by, keys[r.IntN(len(keys))])
			}
			people := map[string]bool{"op": true} // who signs the commit
			id := ""
			if len(given) > 0 && r.IntN(3) == 0 { // an approval is used for something else, or again
				old := given[r.IntN(len(given))]
				id = w.commit("c", append(made, ending(old.block))...)
				c, _ := w.Commit(id)
				a, _, _ := ParseApproval(c.Message)
				if text, err := ApprovalText(w.fake, c, a.On, a.Ref); err == nil && string(text) == old.text && a.On == tip {
					for p := range old.by {
						people[p] = true
					}
				}
			} else {
				id = w.approved("c", vote{by: by}, made...)
				c, _ := w.Commit(id)
				a, _, _ := ParseApproval(c.Message)
				text, _ := ApprovalText(w.fake, c, a.On, a.Ref)
				s := seen{block: string(c.Message[bytes.IndexByte(c.Message, '\n')+1:]), text: string(text), by: map[string]bool{}}
				for _, k := range by {
					if p := person[k]; p != "" {
						people[p], s.by[p] = true, true
					}
				}
				given = append(given, s)
			}
			j, err := w.judgeAt(PreReceive)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(j.Findings, func(f finding.Finding) bool { return f.Rule == "quorum" })
			if lawful := len(people) >= want; lawful == found {
				t.Fatalf("seed %d, step %d: %v stand for it of %d, found %t: %v", seed, step, people, want, found, j.Findings)
			}
			if found {
				refused++
				w.tip, w.made = tip, number
			} else {
				passed++
				w.accept()
			}
		}
	}
	t.Logf("%d pushes passed, %d were refused", passed, refused)
	if passed == 0 || refused == 0 {
		t.Error("the model decides nothing")
	}
}

// FuzzApproval reads what was written, and nothing else.
func FuzzApproval(f *testing.F) {
	f.Add([]byte("Change\n\nrigward approval 1\non: 11\nref: refs/heads/main\n\nx"))
	f.Add([]byte("\nrigward approval 1\non: \n"))
	f.Fuzz(func(t *testing.T, message []byte) {
		a, before, ok := ParseApproval(message)
		if ok && a.On != "" && !bytes.Equal(append(bytes.Clone(before), a.Block()...), message) {
			t.Errorf("%q: %+v", message, a)
		}
		if !ok && !bytes.Equal(before, message) {
			t.Errorf("%q: %q", message, before)
		}
	})
}
