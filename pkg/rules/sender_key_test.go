package rules

import "testing"

var senderKeyPlays = []play{
	{name: "a rig of the key", make: func(w *world) {
		w.commit("c", signed(keyOp), put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n")))
	}},
	{name: "a rig of another key", make: func(w *world) {
		w.commit("c", signed(keyOp), put("t-one/a.md", turn("rig-b", "STATE", "Ready.\n")))
	}, want: []string{
		`error sender-key t-one/a.md:2:7 @c: the key SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4 that ` +
			`signed may not speak for the rig "rig-b" | add the rig id to the key's principals in the signers file, ` +
			`or send as a rig that is listed there`,
	}},
	{name: "a relay by somebody else's key", make: func(w *world) {
		w.commit("c", signed(keyBob), by(bob), put(relayAt, decision(nonce1, w.next(), attestedBy(keyBob.Fingerprint()))))
	}, want: []string{
		`error sender-key t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:2:7 @c: the key ` +
			`SHA256:Ce6FgBcjj8E6yrJnBBrWa/sDAIRQ7gzusCdAq2Taze0 that signed may not speak for the rig "op-relay"`,
	}},
	{name: "two of them", make: func(w *world) {
		w.commit("c", signed(keyOp), put("t-one/a.md", turn("rig-b", "STATE", "Ready.\n")), put("t-one/b.md",
			turn("rig-c", "STATE", "So.\n")))
	}, want: []string{
		`error sender-key t-one/a.md:2:7 @c: the key SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4 that ` +
			`signed may not speak for the rig "rig-b"`,
		`error sender-key t-one/b.md:2:7 @c: the key SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4 that ` +
			`signed may not speak for the rig "rig-c"`,
	}},
	{name: "where signers list no rig ids", make: func(w *world) {
		w.signers = keyOp.Line("op@example.com", "")
		w.commit("c", signed(keyOp), put("t-one/a.md", turn("rig-b", "STATE", "Ready.\n")))
	}},
	{name: "without a signature", make: func(w *world) {
		w.commit("c", put("t-one/a.md", turn("rig-b", "STATE", "Ready.\n")))
	}},
	{name: "with a signature by nobody who is listed, which is worth as much as none", make: func(w *world) {
		w.commit("c", signed(keyNew), put("t-one/a.md", turn("rig-b", "STATE", "Ready.\n")))
	}},
	{name: "an envelope that another commit brought", make: func(w *world) {
		side := w.commit("side", on(w.base), put("t-one/a.md", turn("rig-b", "STATE", "Ready.\n")))
		ours := w.commit("ours", on(w.base), put("README.md", "x\n"))
		w.commit("merge", on(ours, side), signed(keyOp))
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {sender-key: off}\n"
		w.commit("c", signed(keyOp), put("t-one/a.md", turn("rig-b", "STATE", "Ready.\n")))
	}},
}

func TestSenderKey(t *testing.T) { run(t, senderKeyPlays) }
