package rules

import (
	"errors"
	"testing"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

const (
	loose  = "version: 1\nrules: {divergence: off}\n"
	strict = loose + all
	byPush = ", by what comes with it of policy or signers"
)

// pushWorld is a world whose policy and signers are those of its trees. Nothing but what
// must be is signed; op and bob may.
func pushWorld(t *testing.T, first string) *world {
	w := newWorld(t)
	w.commit("first", signed(keyOp), put(policy.Path, first), put(signersFile, lists("op", "bob")))
	w.accept()
	w.judge = func(j *Judge, r *Range) {
		l := &policy.Loader{Repo: w.fake}
		base, err := w.Commit(w.base)
		if err == nil {
			r.From, j.Later = w.base, l.Accepted
			r.Policy, r.Trust, err = l.At(base.Tree)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// audited is what an audit of the whole history finds, which lets a commit with nobody
// trusted pass.
func (w *world) audited() (found []finding.Finding, err error) {
	begin := w.judge
	w.judge = func(j *Judge, r *Range) {
		l := &policy.Loader{Repo: w.fake}
		j.OfTheTime = l.Accepted
		*r = Range{Ref: r.Ref, New: r.New, History: true, First: true}
		if r.Policy, r.Trust, err = l.At(""); err != nil {
			w.Fatal(err)
		}
	}
	j, err := w.judgeAt(Check)
	w.judge = begin
	return j.Findings, err
}

// joined makes a branch that has joined a side with other signers, signed by whom both trust, and
// returns the end of that side.
func joined(w *world) (side string) {
	side = w.commit("c", on(w.base), signed(keyOp), put(signersFile, lists("op", "bob", "new")))
	w.commit("a", on(w.base), signed(keyOp), put(signersFile, lists("op")))
	w.commit("j", on(w.named("a"), side), signed(keyOp), put(signersFile, lists("op")))
	w.accept()
	return side
}

// takenBack changes the policy of the branch, and changes it back.
func takenBack(w *world) {
	w.commit("p", signed(keyOp), put(policy.Path, loose+"limits: {file: 90000}\n"))
	w.commit("q", signed(keyOp), put(policy.Path, loose))
	w.accept()
}

// takenBackTwice makes a branch that has merged two merges which each took a change of the
// policy back by the files of an older side, and returns the second of them.
func takenBackTwice(w *world) (second string) {
	side := w.commit("s", signed(keyOp), put("README.md", "x\n"))
	x := w.commit("x", on(w.base), signed(keyOp), put(policy.Path, loose+"limits: {file: 90000}\n"))
	first := w.commit("m1", on(x, side), signed(keyOp), put(policy.Path, loose))
	second = w.commit("n1", on(x, side), signed(keyOp), put(policy.Path, loose), put("b.md", "x\n"))
	w.commit("k", on(first, second), signed(keyOp))
	w.accept()
	return second
}

// TestOfThePush: what changes policy or signers is judged by what was there before, and
// what comes after it also by what it brings; so does who reads the history.
func TestOfThePush(t *testing.T) {
	unsigned := func(name string) string {
		return "error commit-signed - @" + name + ": unsigned: the commit has no signature, expected that of an allowed signer"
	}
	listed := " | the key counts from the next push on: git push origin <c>:refs/heads/main, then push again"
	another := " | sign it with a key that is listed and valid: git config user.signingkey KEY.pub && git -c gpg.format=ssh rebase --no-ff --rebase-merges --gpg-sign "
	rebase := " | make the change on top of what the branch has: git rebase --gpg-sign <"
	word := put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n"))
	for _, p := range []struct {
		name, policy string
		make         func(w *world)
		want         []string
		clean        bool // an audit finds nothing, though the push is refused
	}{
		{"a stricter policy by itself", loose, func(w *world) { w.commit("c", signed(keyOp), put(policy.Path, strict)) }, nil, false},
		{"a message before it", loose, func(w *world) {
			w.commit("a", word)
			w.commit("c", signed(keyOp), put(policy.Path, strict))
		}, nil, false},
		{"a message after it that it refuses", loose, func(w *world) {
			w.commit("c", signed(keyOp), put(policy.Path, strict))
			w.commit("a", word)
		}, []string{unsigned("a") + byPush}, false},
		{"a message after it that it takes", loose, func(w *world) {
			w.commit("c", signed(keyOp), put(policy.Path, strict))
			w.commit("a", signed(keyOp), word)
		}, nil, false},
		{"a looser policy, and what it would take", strict, func(w *world) {
			w.commit("c", signed(keyOp), put(policy.Path, loose))
			w.commit("a", word)
		}, []string{unsigned("a")}, true},
		{"a stricter policy that is taken back again", loose, func(w *world) {
			w.commit("c", signed(keyOp), put(policy.Path, strict))
			w.commit("d", signed(keyOp), put(policy.Path, loose))
			w.commit("a", word)
		}, nil, false},
		{"the same in between", loose, func(w *world) {
			w.commit("c", signed(keyOp), put(policy.Path, strict))
			w.commit("a", word)
			w.commit("d", signed(keyOp), put(policy.Path, loose))
		}, []string{unsigned("a") + byPush}, false},
		{"a warning that the new fail-level refuses", loose, func(w *world) {
			w.commit("c", signed(keyOp), put(policy.Path, loose+"fail-level: warning\n"))
			w.commit("a", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n", answers("Never said.\n"))))
		}, []string{"error references t-one/a.md:8:14 @a: no earlier envelope of the thread has the body hash \"" +
			bodyHash("Never said.\n") + "\"" + byPush}, false},
		{"a key that is taken out, and what it signs", strict, func(w *world) {
			w.commit("c", signed(keyOp), put(signersFile, lists("op")))
			w.commit("a", signed(keyBob), by(bob), put("README.md", "x\n"))
		}, []string{"error commit-signed - @a: unknown key: no line lists the key " + keyBob.Fingerprint() + byPush}, false},
		{"a new key, and what it signs", strict, func(w *world) {
			w.commit("c", signed(keyOp), put(signersFile, lists("op", "bob", "new")))
			w.commit("a", signed(keyNew), put("README.md", "x\n"))
			w.commit("b", signed(keyNew), put("README.md", "y\n"))
		}, []string{"error commit-signed - @b: unknown key: no line lists the key " + keyNew.Fingerprint() + listed,
			"error commit-signed - @a: unknown key: no line lists the key " + keyNew.Fingerprint() + listed}, true},
		{"a key that lists itself, and what it signs", loose, func(w *world) {
			w.commit("c", signed(keyNew), put(signersFile, lists("op", "new")))
			w.relays("a", signed(keyNew))
		}, []string{"error commit-signed - @a: unknown key: no line lists the key " + keyNew.Fingerprint() + another + "<c>",
			"error commit-signed - @c: unknown key: no line lists the key " + keyNew.Fingerprint() + another + "<first>",
			"error signers-change - @c: policy or signers are changed by a commit that no trusted signer made"}, false},
		{"a new key, and what another one signs that nobody lists", strict, func(w *world) {
			w.commit("c", signed(keyOp), put(signersFile, lists("op", "new")))
			w.commit("a", signed(keyBob), by(bob), put("README.md", "x\n"))
		}, []string{"error commit-signed - @a: unknown key: no line lists the key " + keyBob.Fingerprint() + byPush}, false},
		{"a side of messages, merged after the policy", loose, func(w *world) {
			side := w.commit("a", on(w.base), word)
			w.commit("m", on(w.commit("c", on(w.base), signed(keyOp), put(policy.Path, strict)), side), signed(keyOp))
		}, []string{unsigned("a") + byPush}, false},
		{"a side of messages from before the branch was strict", loose, func(w *world) {
			old := w.base
			w.commit("c", signed(keyOp), put(policy.Path, strict))
			w.accept()
			w.commit("m", on(w.base, w.commit("a", on(old), word)), signed(keyOp))
		}, []string{unsigned("a")}, false},
		{"a side that had merged the branch before", loose, func(w *world) {
			old := w.base
			w.commit("c", signed(keyOp), put(policy.Path, strict))
			w.accept()
			both := w.commit("both", on(w.commit("a", on(old), word), w.base), signed(keyOp), put(policy.Path, strict))
			w.commit("m", on(w.commit("b", on(w.base), signed(keyOp), put("README.md", "x\n")), both), signed(keyOp))
		}, []string{unsigned("a")}, false},
		{"a policy on a side, and a branch that it would refuse", loose, func(w *world) {
			side := w.commit("c", on(w.base), signed(keyOp), put(policy.Path, strict))
			w.commit("a", on(w.base), word)
			w.accept()
			w.commit("m", on(w.base, side), signed(keyOp), put(policy.Path, strict))
		}, []string{"error signers-change - @m: policy or signers change on a side that lacks commit <a>, and whoever reads the history " +
			"would judge that by them: commit-signed" + rebase + "a>"}, false},
		{"the same with the parents turned round", loose, func(w *world) {
			side := w.commit("c", on(w.base), signed(keyOp), put(policy.Path, strict))
			w.commit("a", on(w.base), word)
			w.accept()
			w.commit("m", on(side, w.base), signed(keyOp))
		}, []string{"error signers-change - @m: policy or signers change on a side that lacks commit <a>, and whoever reads the history " +
			"would judge that by them: commit-signed" + rebase + "a>"}, false},
		{"a policy on a side, and a branch that it takes", loose, func(w *world) {
			side := w.commit("c", on(w.base), signed(keyOp), put(policy.Path, strict))
			w.commit("a", on(w.base), signed(keyBob), by(bob), put("README.md", "x\n"))
			w.accept()
			w.commit("m", on(w.base, side), signed(keyOp), put(policy.Path, strict))
		}, nil, false},
		{"a key taken out on a side, and what it had signed meanwhile", strict, func(w *world) {
			side := w.commit("c", on(w.base), signed(keyOp), put(signersFile, lists("op")))
			w.commit("a", on(w.base), signed(keyBob), by(bob), put("README.md", "x\n"))
			w.accept()
			w.commit("m", on(w.base, side), signed(keyOp), put(signersFile, lists("op")))
		}, []string{"error signers-change - @m: policy or signers change on a side that lacks commit <a>, and whoever reads the history " +
			"would judge that by them: commit-signed" + rebase + "a>"}, false},
		{"a looser policy on a side", strict, func(w *world) {
			side := w.commit("c", on(w.base), signed(keyOp), put(policy.Path, loose))
			w.commit("a", on(w.base), signed(keyOp), put("README.md", "x\n"))
			w.accept()
			w.commit("m", on(w.base, side), signed(keyOp), put(policy.Path, loose))
		}, nil, false},
		{"two sides that trust different people, joined by who is trusted by one", strict, func(w *world) {
			side := w.commit("c", on(w.base), signed(keyOp), put(signersFile, lists("bob", "new")))
			w.commit("a", on(w.base), signed(keyOp), put(signersFile, lists("op")))
			w.accept()
			w.commit("m", on(w.base, side), signed(keyOp), put(signersFile, lists("op")))
		}, []string{"error signers-change - @: commit <m> joins two histories that trust different signers, and nobody whom both trust has signed it"}, true},
		{"two such sides, joined by who is trusted by both", strict, func(w *world) {
			side := w.commit("c", on(w.base), signed(keyOp), put(signersFile, lists("op", "bob", "new")))
			w.commit("a", on(w.base), signed(keyOp), put(signersFile, lists("op")))
			w.accept()
			w.commit("m", on(w.base, side), signed(keyOp), put(signersFile, lists("op")))
		}, nil, false},
		{"a side that was joined by who is trusted by both, merged again", loose, func(w *world) {
			side := joined(w)
			w.commit("m", on(w.base, side), put(signersFile, lists("op")))
		}, nil, false},
		{"what comes later from such a side", loose, func(w *world) {
			side := joined(w)
			w.commit("m", on(w.base, w.commit("b", on(side), word)), put(signersFile, lists("op")))
		}, nil, false},
		{"what comes later from such a side, under a policy that the push brings", loose, func(w *world) {
			side := joined(w)
			w.commit("b", on(side), word)
			w.commit("m", on(w.commit("d", on(w.base), signed(keyOp), put(policy.Path, strict)), w.named("b")), signed(keyOp), put(signersFile, lists("op")))
		}, []string{unsigned("b") + byPush}, false},
		{"such a side that later trusts others, joined by who is trusted by one", loose, func(w *world) {
			side := joined(w)
			w.commit("d", on(side), signed(keyOp), put(signersFile, lists("bob", "new")))
			w.commit("m", on(w.base, w.named("d")), signed(keyOp), put(signersFile, lists("op")))
		}, []string{"error signers-change - @: commit <m> joins two histories that trust different signers, and nobody whom both trust has signed it"}, true},
		{"such a side that later trusts others, joined by who is trusted by both", loose, func(w *world) {
			side := joined(w)
			w.commit("d", on(side), signed(keyOp), put(signersFile, lists("op", "new")))
			w.commit("m", on(w.base, w.named("d")), signed(keyOp), put(signersFile, lists("op")))
		}, nil, false},
		{"a policy on a side from before another that was taken back, joined by who is trusted by both", loose, func(w *world) {
			old := w.base
			takenBack(w)
			w.commit("a", word)
			w.accept()
			w.commit("m", on(w.base, w.commit("d", on(old), signed(keyOp), put(policy.Path, strict))), signed(keyOp), put(policy.Path, strict))
		}, nil, false},
		{"the same with the parents turned round", loose, func(w *world) {
			old := w.base
			takenBack(w)
			w.commit("a", word)
			w.accept()
			w.commit("m", on(w.commit("d", on(old), signed(keyOp), put(policy.Path, strict)), w.base), signed(keyOp))
		}, []string{"error signers-change - @m: policy or signers change on a side that lacks commit <a>, and whoever reads the history " +
			"would judge that by them: commit-signed" + rebase + "a>"}, false},
		{"a side from before a policy that was taken back, joined by who is trusted by one", loose, func(w *world) {
			old := w.base
			takenBack(w)
			w.accept()
			w.commit("m", on(w.base, w.commit("d", on(old), signed(keyOp), put(signersFile, lists("op")))), signed(keyBob), by(bob), put(signersFile, lists("op")))
		}, []string{"error signers-change - @: commit <m> joins two histories that trust different signers, and nobody whom both trust has signed it"}, true},
		{"two merges that take a policy back by an older side's files, and a side of one of them", loose, func(w *world) {
			n := takenBackTwice(w)
			w.commit("m", on(w.base, w.commit("d", on(n), signed(keyOp), put(signersFile, lists("op")))), signed(keyBob), by(bob), put(signersFile, lists("op")))
		}, []string{"error signers-change - @: commit <m> joins two histories that trust different signers, and nobody whom both trust has signed it"}, true},
		{"the same, joined by who is trusted by both", loose, func(w *world) {
			n := takenBackTwice(w)
			w.commit("m", on(w.base, w.commit("d", on(n), signed(keyOp), put(signersFile, lists("op")))), signed(keyOp), put(signersFile, lists("op")))
		}, nil, false},
		{"a side from after a policy was taken back, merged by who it takes out", loose, func(w *world) {
			takenBack(w)
			old := w.base
			w.commit("a", word)
			w.accept()
			w.commit("m", on(w.base, w.commit("d", on(old), signed(keyOp), put(signersFile, lists("op")))), signed(keyBob), by(bob), put(signersFile, lists("op")))
		}, nil, false},
		{"sides from before and after, of messages alone", loose, func(w *world) {
			old := w.base
			takenBack(w)
			since := w.base
			w.commit("b", signed(keyOp), put("README.md", "x\n"))
			w.accept()
			m := w.commit("m", on(w.base, w.commit("a", on(old), word)), signed(keyOp))
			n := w.commit("n", on(m, w.commit("c", on(since), put("t-one/c.md", turn("rig-a", "ACK", "Seen.\n")))), signed(keyOp))
			w.commit("d", on(n), signed(keyOp), put(policy.Path, strict))
		}, nil, false},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := pushWorld(t, p.policy)
			p.make(w)
			for _, g := range []Gate{PrePush, PreReceive, Update, Check} {
				j, err := w.judgeAt(g)
				if err != nil {
					t.Fatal(g, err)
				}
				w.expect(j, p.want...)
			}
			found, err := w.audited()
			if torn := errors.Is(err, errTorn); err != nil && !torn || torn && len(p.want) == 0 || !torn && (len(p.want) == 0 || p.clean) != (len(found) == 0) {
				t.Errorf("an audit finds %v, %v", found, err)
			}
		})
	}
}
