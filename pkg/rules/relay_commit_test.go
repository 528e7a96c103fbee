package rules

import "testing"

// relayAt is where the tests put a relay.
const relayAt = "t-one/RELAY-" + nonce1 + ".md"

// relays commits a good relay by op, a minute after it was attested.
func (w *world) relays(name string, edits ...edit) string {
	return w.commit(name, append([]edit{signed(keyOp), put(relayAt, decision(nonce1, w.next()))}, edits...)...)
}

var relayCommitPlays = []play{
	{name: "a relay alone", make: func(w *world) { w.relays("c") }},
	{name: "two relays", make: func(w *world) {
		w.relays("c", put("t-one/other.md", decision(nonce2, w.next())))
	}, want: []string{
		"error relay-commit t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:2:7 @c: the commit brings 2 relays, " +
			"expected one | rig-bridge relay commits a relay alone; take this commit apart",
		"error relay-commit t-one/other.md:2:7 @c: the commit brings 2 relays, expected one",
	}},
	{name: "a relay and another path", make: func(w *world) { w.relays("c", put("README.md", "x\n")) }, want: []string{
		"error relay-commit t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:2:7 @c: the commit changes other paths " +
			"besides the relay (1), expected none",
	}},
	{name: "a relay of a merge", make: func(w *world) {
		side := w.commit("side", on(w.base), put("README.md", "x\n"))
		w.relays("c", on(w.base, side), put(relayAt, decision(nonce1, w.next())))
	}, want: []string{
		"error relay-commit t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:2:7 @c: a relay is added by a merge commit",
	}},
	{name: "a merge that takes a relay from a side", make: func(w *world) {
		side := w.relays("side")
		ours := w.commit("ours", on(w.base), put("README.md", "x\n"))
		w.commit("merge", on(ours, side))
	}},
	{name: "what only looks like a relay", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n")), put("README.md", "x\n"))
	}},
}

func TestRelayCommit(t *testing.T) { run(t, relayCommitPlays) }
