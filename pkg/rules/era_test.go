package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// eraWorld is a world whose policy and signers are those of its trees, each
// commit judged by what was accepted before it came. Every commit must be
// signed; op and bob may.
func eraWorld(t *testing.T) *world {
	w := newWorld(t)
	w.commit("first", signed(keyOp), put(".bridge/policy.yaml", "version: 1\n"+all+"rules: {divergence: off}\n"),
		put(signersFile, lists("op", "bob")))
	w.accept()
	w.judge = func(j *Judge, r *Range) {
		l := &policy.Loader{Repo: w.fake}
		j.OfTheTime = l.Accepted
		base, err := w.Commit(w.base)
		if err == nil {
			j.Eras = ErasFrom(base.Tree)
			r.Policy, r.Trust, err = l.At(base.Tree)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// lists is a signers file.
func lists(who ...string) (text string) {
	for _, name := range who {
		key := map[string]string{"op": keyOp.Line("op@example.com", ""), "bob": keyBob.Line("bob@example.com", ""),
			"new": keyNew.Line("op@example.com", "")}[name]
		text += key
	}
	return text
}

func TestEras(t *testing.T) {
	for _, p := range []struct {
		play
		latest int // the era that holds at the end
	}{
		{play{name: "nothing changes", make: func(w *world) { w.commit("c", signed(keyOp), put("README.md", "x\n")) }}, 0},
		{play{name: "a new signer counts from the next commit on", make: func(w *world) {
			w.commit("add", signed(keyOp), put(signersFile, lists("op", "bob", "new")))
			w.commit("c", signed(keyNew), put("README.md", "x\n"))
		}}, 1},
		{play{name: "who was taken out counts no more", make: func(w *world) {
			w.commit("out", signed(keyOp), put(signersFile, lists("op")))
			w.commit("c", signed(keyBob), by(bob), put("README.md", "x\n"))
		}, want: []string{
			"error commit-signed - @c: unknown key: no line lists the key " + keyBob.Fingerprint(),
		}}, 1},
		{play{name: "a change that is refused begins no era", make: func(w *world) {
			w.commit("add", signed(keyNew), put(signersFile, lists("op", "bob", "new")))
			w.commit("c", signed(keyNew), put("README.md", "x\n"))
		}, want: []string{
			"error commit-signed - @c: unknown key: no line lists the key " + keyNew.Fingerprint(),
			"error commit-signed - @add: unknown key: no line lists the key " + keyNew.Fingerprint(),
			"error signers-change - @add: policy or signers are changed by a commit that no trusted signer made",
		}}, 0},
		{play{name: "nor does what an accepted change leaves of it", make: func(w *world) {
			w.commit("add", signed(keyNew), put(signersFile, lists("op", "bob", "new")))
			w.commit("policy", signed(keyOp), put(".bridge/policy.yaml", "version: 1\n"+all))
			w.commit("c", signed(keyNew), put("README.md", "x\n"))
		}, want: []string{
			"error commit-signed - @add: unknown key: no line lists the key " + keyNew.Fingerprint(),
			"error commit-signed - @c: unknown key: no line lists the key " + keyNew.Fingerprint(),
			"error signers-change - @add: policy or signers are changed by a commit that no trusted signer made",
		}}, 1},
		{play{name: "a side that is older than the removal of its signer", make: func(w *world) {
			out := w.commit("out", signed(keyOp), put(signersFile, lists("op")))
			side := w.commit("side", on(w.base), signed(keyBob), by(bob), put("README.md", "x\n"))
			w.commit("merge", on(out, side), signed(keyOp))
		}, want: []string{
			"error commit-signed - @side: unknown key: no line lists the key " + keyBob.Fingerprint(),
		}}, 1},
		{play{name: "a side that brings a signer", make: func(w *world) {
			ours := w.commit("ours", on(w.base), signed(keyOp), put("README.md", "x\n"))
			side := w.commit("side", on(w.base), signed(keyBob), by(bob), put(signersFile, lists("op", "bob", "new")))
			w.commit("merge", on(ours, side), signed(keyOp), put(signersFile, lists("op", "bob", "new")))
			w.commit("c", signed(keyNew), put("LICENSE", "x\n"))
		}}, 1},
		{play{name: "two sides that trust different people, joined by who is trusted by both", make: func(w *world) {
			ours := w.commit("ours", on(w.base), signed(keyOp), put(signersFile, lists("op")))
			side := w.commit("side", on(w.base), signed(keyOp), put(signersFile, lists("op", "bob", "new")))
			w.commit("merge", on(ours, side), signed(keyOp))
			w.commit("c", signed(keyOp), put("LICENSE", "x\n"))
		}}, 3},
		{play{name: "two such sides, joined by who is trusted by one", make: func(w *world) {
			ours := w.commit("ours", on(w.base), signed(keyOp), put(signersFile, lists("op")))
			side := w.commit("side", on(w.base), signed(keyOp), put(signersFile, lists("bob", "new")))
			w.commit("merge", on(ours, side), signed(keyOp))
			w.commit("c", signed(keyOp), put("LICENSE", "x\n"))
		}, err: "commit ? joins two histories that trust different signers"}, 0},
	} {
		t.Run(p.name, func(t *testing.T) {
			w := eraWorld(t)
			p.make(w)
			j, err := w.judgeAt(PreReceive)
			if p.err != "" {
				if err == nil || !strings.HasPrefix(strings.Replace(err.Error(), finding.Short(w.named("merge")), "?", 1), p.err) {
					t.Errorf("got %v, want %s", err, p.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.expect(j, p.want...)
			if j.Latest() != p.latest || len(j.Eras) <= p.latest {
				t.Errorf("era %d of %d, want %d", j.Latest(), len(j.Eras), p.latest)
			}
		})
	}
}

func (w *world) named(name string) string {
	for id, n := range w.names {
		if n == name {
			return id
		}
	}
	w.Fatalf("no commit %s", name)
	return ""
}

// TestErasGoOn: what the eras of one range ended with, the next begins with.
func TestErasGoOn(t *testing.T) {
	w := eraWorld(t)
	w.commit("add", signed(keyOp), put(signersFile, lists("op", "bob", "new")))
	first, err := w.judgeAt(PreReceive)
	if err != nil {
		t.Fatal(err)
	}
	w.accept()
	w.commit("c", signed(keyNew), put("README.md", "x\n"))
	begin := w.judge
	w.judge = func(j *Judge, r *Range) { begin(j, r); j.Eras = first.Eras }
	j, err := w.judgeAt(PreReceive)
	if err != nil {
		t.Fatal(err)
	}
	w.expect(j)
	if j.Latest() != 1 || len(j.Eras) != 2 {
		t.Errorf("era %d of %d", j.Latest(), len(j.Eras))
	}
}

// TestVerdicts: what is told of each envelope.
func TestVerdicts(t *testing.T) {
	for _, p := range []struct {
		name string
		make func(w *world)
		want []string // path, what it is, signature, who, whether it may, rules
	}{
		{"an envelope", func(w *world) { w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n"))) },
			[]string{"t-one/a.md added  - false []"}},
		{"a signed one", func(w *world) { w.commit("c", signed(keyOp), put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n"))) },
			[]string{"t-one/a.md added good op@example.com true []"}},
		{"one signed for another rig", func(w *world) {
			w.commit("c", signed(keyOp), put("t-one/a.md",
				turn("rig-b", "ACK", "Yes.\n")))
		},
			[]string{"t-one/a.md added good op@example.com false [sender-key]"}},
		{"one signed for another committer", func(w *world) {
			w.commit("c", signed(keyOp), by(bob), put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n")))
		}, []string{"t-one/a.md added good op@example.com,op-relay,rig-a false [signer-identity]"}},
		{"a relay", func(w *world) { w.relays("c") },
			[]string{relayAt + " added relay " + nonce1 + " good op@example.com true []"}},
		{"a relay that nobody signed", func(w *world) { w.relays("c", signed(nil)) },
			[]string{relayAt + " added relay " + nonce1 + " unsigned - false [commit-signed]"}},
		{"one that is changed", func(w *world) { w.commit("c", put(request, turn("rig-a", "REQUEST", "Or not?\n"))) },
			[]string{request + "  - false [append-only]"}},
		{"one that is deleted", func(w *world) { w.commit("c", del(request)) },
			[]string{request + " deleted  - false [append-only]"}},
		{"several rules, in the order of the registry", func(w *world) {
			w.commit("c", put(request, turn("rig-a", "GOSSIP", "Or not?\n")), put("t-one/a.md", "---\n"))
		}, []string{
			request + "  - false [envelope-parse envelope-schema append-only]",
			"t-one/a.md added  - false [envelope-parse envelope-schema append-only]",
		}},
		{"with signers that cannot be read", func(w *world) { w.signers = "nonsense\n"; w.relays("c") },
			[]string{relayAt + " added relay " + nonce1 + "  - false [] undecided"}},
		{"no envelope", func(w *world) { w.commit("c", put("README.md", "x\n")) }, nil},
	} {
		t.Run(p.name, func(t *testing.T) {
			w := newWorld(t)
			var runs [][]string
			w.judge = func(j *Judge, _ *Range) {
				run := len(runs)
				runs = append(runs, nil)
				j.Told = func(v Verdict) {
					text := v.Path
					for word, is := range map[string]bool{" deleted": v.Blob == "", " added": v.Added} {
						if is {
							text += word
						}
					}
					if v.Relay {
						text += " relay " + v.Nonce
					}
					text += " " + string(v.Signature) + " " + strings.TrimSpace(v.Principal+" ")
					if v.Principal == "" {
						text += "-"
					}
					text += map[bool]string{true: " true", false: " false"}[v.Speaks] + " [" + strings.Join(v.Rules, " ") + "]"
					if v.Undecided != "" {
						text += " undecided"
					}
					if v.Commit != w.tip || (v.Fingerprint != "") != (v.Signature == "good") {
						t.Errorf("%+v", v)
					}
					runs[run] = append(runs[run], text)
				}
			}
			p.make(w)
			if _, err := w.judgeAt(Check); err != nil {
				t.Fatal(err)
			}
			for _, got := range runs {
				if !slices.Equal(got, p.want) {
					t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(p.want, "\n\t"))
				}
			}
		})
	}
}
