package rules

import (
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/envelope"
)

const frozen = "rules: {relay-frozen: error, divergence: off, sender-key: off}\n"

// freezes commits a relay that freezes t-one, by op.
func (w *world) freezes(name string, edits ...edit) string {
	return w.commit(name, append([]edit{signed(keyOp), put("t-one/FREEZE.md", decision(nonce1, w.next(), freezing))},
		edits...)...)
}

func freezing(f *envelope.Fields) { f.Type, f.Status = "ACK", "⏸ Deciding" }

// thaws commits a relay that ends it.
func (w *world) thaws(name string, key *testkeys.Key, edits ...edit) string {
	return w.commit(name, append([]edit{signed(key), put("t-one/THAW.md", decision(nonce2, w.next()))}, edits...)...)
}

func says(name, from string) func(w *world) {
	return func(w *world) { w.commit(name, put("t-one/late.md", turn(from, "STATE", "Ready.\n"))) }
}

var relayFrozenPlays = []play{
	{name: "off by itself", make: func(w *world) {
		w.freezes("b")
		w.accept()
		says("c", "rig-a")(w)
	}},
	{name: "a turn while the thread is frozen", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		w.accept()
		says("c", "rig-a")(w)
	}, want: []string{
		`error relay-frozen t-one/late.md:6:7 @c: "op-relay" froze the thread with "t-one/FREEZE.md" until ` +
			`2026-01-05T09:32:00Z | wait for the decision, or send an ACK`,
	}},
	{name: "in one push with the freeze", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		says("c", "rig-a")(w)
	}, want: []string{
		`error relay-frozen t-one/late.md:6:7 @c: "op-relay" froze the thread with "t-one/FREEZE.md" until ` +
			`2026-01-05T09:32:00Z`,
	}},
	{name: "an ACK", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		w.commit("c", put("t-one/late.md", turn("rig-a", "ACK", "Good.\n")))
	}},
	{name: "the freezer itself", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		w.thaws("c", keyOp)
	}},
	{name: "another thread", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		w.commit("c", put("t-two/late.md", turn("rig-a", "STATE", "Ready.\n", to("t-two"))))
	}},
	{name: "after the decision", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		w.thaws("t", keyOp)
		says("c", "rig-a")(w)
	}},
	{name: "after the decision, all before the push", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		w.thaws("t", keyOp)
		w.accept()
		says("c", "rig-a")(w)
	}},
	{name: "after a decision that did not know of the freeze", make: func(w *world) {
		w.policy = frozen
		a := w.freezes("ours", on(w.base))
		b := w.thaws("theirs", keyOp, on(w.base))
		w.commit("merge", on(a, b))
		says("c", "rig-a")(w)
	}, want: []string{
		`error relay-frozen t-one/late.md:6:7 @c: "op-relay" froze the thread with "t-one/FREEZE.md" until ` +
			`2026-01-05T09:32:00Z`,
	}},
	{name: "after a decision that came before the freeze, all before the push", make: func(w *world) {
		w.policy = frozen
		w.thaws("t", keyOp)
		w.freezes("b")
		w.accept()
		says("c", "rig-a")(w)
	}, want: []string{
		`error relay-frozen t-one/late.md:6:7 @c: "op-relay" froze the thread with "t-one/FREEZE.md" until ` +
			`2026-01-05T09:33:00Z`,
	}},
	{name: "frozen before the push, thawed in it", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		w.accept()
		w.thaws("t", keyOp)
		says("c", "rig-a")(w)
	}},
	{name: "thawed before the push, frozen in it", make: func(w *world) {
		w.policy = frozen
		w.thaws("t", keyOp)
		w.accept()
		w.freezes("b")
		says("c", "rig-a")(w)
	}, want: []string{
		`error relay-frozen t-one/late.md:6:7 @c: "op-relay" froze the thread with "t-one/FREEZE.md" until ` +
			`2026-01-05T09:33:00Z | wait for the decision, or send an ACK`,
	}},
	{name: "on a side that knows of no freeze", make: func(w *world) {
		w.policy = frozen
		side := w.freezes("side", on(w.base))
		w.commit("c", on(w.base), put("t-one/late.md", turn("rig-a", "STATE", "Ready.\n")))
		w.commit("merge", on(w.tip, side))
	}},
	{name: "frozen twice, thawed once", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		w.thaws("t", keyOp)
		w.commit("again", signed(keyOp), put("t-one/AGAIN.md", decision("01KE6X0000AAAAAAAAAAAAAAA3", w.next(), freezing)))
		w.commit("c", put("t-one/late.md", turn("rig-a", "STATE", "Ready.\n")), put("t-one/later.md",
			turn("rig-b", "STATE", "So.\n")))
	}, want: []string{
		`error relay-frozen t-one/late.md:6:7 @c: "op-relay" froze the thread with "t-one/AGAIN.md" until ` +
			`2026-01-05T09:34:00Z`,
		`error relay-frozen t-one/later.md:6:7 @c: "op-relay" froze the thread with "t-one/AGAIN.md" until ` +
			`2026-01-05T09:34:00Z`,
	}},
	{name: "thawed on one side only, all before the push", make: func(w *world) {
		w.policy = frozen
		b := w.freezes("b")
		t := w.thaws("t", keyOp)
		side := w.commit("side", on(b), put("README.md", "x\n"))
		w.commit("merge", on(t, side))
		w.accept()
		w.commit("c", put("t-one/late.md", turn("rig-a", "STATE", "Ready.\n")))
	}},
	{name: "after the decision of somebody else", make: func(w *world) {
		w.policy = frozen
		w.freezes("b")
		w.commit("t", signed(keyBob), by(bob), put("t-one/THAW.md", decision(nonce2, w.next(), func(f *envelope.Fields) {
			f.From, f.AttestedBy = "bob-relay", keyBob.Fingerprint()
		})))
		w.policy = frozen + "fail-level: error\n"
		says("c", "rig-a")(w)
	}, want: []string{
		`error relay-frozen t-one/THAW.md:6:7 @t: "op-relay" froze the thread with "t-one/FREEZE.md" until ` +
			`2026-01-05T09:32:00Z`,
		`error relay-frozen t-one/late.md:6:7 @c: "op-relay" froze the thread with "t-one/FREEZE.md" until ` +
			`2026-01-05T09:32:00Z`,
	}},
	{name: "when it is over", make: func(w *world) {
		w.policy = frozen + "relay: {freeze-minutes: 5}\n"
		w.freezes("b")
		w.accept()
		says("c", "rig-a")(w)
	}},
	{name: "where no clock counts, the commit's date does", make: func(w *world) {
		w.policy, w.gate = frozen+"relay: {freeze-minutes: 5}\n", Check
		w.freezes("b")
		says("c", "rig-a")(w)
		w.commit("d", at(time.Hour), put("t-one/later.md", turn("rig-a", "STATE", "Now.\n")))
	}, want: []string{
		`error relay-frozen t-one/late.md:6:7 @c: "op-relay" froze the thread with "t-one/FREEZE.md" until ` +
			`2026-01-05T09:07:00Z`,
	}},
	{name: "what claims to be a relay and is none does not freeze", make: func(w *world) {
		w.policy = frozen + "require-signed: none\n"
		w.commit("b", put("t-one/FREEZE.md", turn("rig-b", "ACK", "Wait.\n",
			func(f *envelope.Fields) { f.Status = "⏸ Deciding" })))
		says("c", "rig-a")(w)
	}},
	{name: "in the index", make: func(w *world) {
		w.policy, w.gate = frozen, PreCommit
		w.freezes("b")
		w.accept()
		says("c", "rig-a")(w)
	}, want: []string{
		`error relay-frozen t-one/late.md:6:7 @: "op-relay" froze the thread with "t-one/FREEZE.md" until ` +
			`2026-01-05T09:32:00Z`,
	}},
}

func TestRelayFrozen(t *testing.T) { run(t, relayFrozenPlays) }
