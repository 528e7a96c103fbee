package rules

import (
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
)

var relayReplyPlays = []play{
	{name: "to a turn of the thread", make: func(w *world) { w.relays("c") }},
	{name: "to nothing", make: func(w *world) { w.relaysAs("c", answers("Never asked.\n")) }, want: []string{
		"error relay-reply t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:8:14 @c: no earlier envelope of the thread " +
			"has this body hash | rig-bridge thread t-one --json lists the hashes",
	}},
	{name: "to a turn of another thread", make: func(w *world) {
		w.commit("b", put("t-two/REQUEST.md", turn("rig-a", "REQUEST", "What else?\n", to("t-two"))))
		w.accept()
		w.relaysAs("c", answers("What else?\n"))
	}, want: []string{
		"error relay-reply t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:8:14 @c: no earlier envelope of the thread " +
			"has this body hash",
	}},
	{name: "to a turn that was deleted since", make: func(w *world) {
		w.policy = "rules: {append-only: off}\n"
		w.commit("b", put("t-one/a.md", turn("rig-a", "REQUEST", "What else?\n")))
		w.commit("d", del("t-one/a.md"))
		w.relaysAs("c", answers("What else?\n"))
	}},
	{name: "to a turn of a side that it did not know", make: func(w *world) {
		side := w.commit("side", on(w.base), put("t-one/a.md", turn("rig-a", "REQUEST", "What else?\n")))
		ours := w.relaysAs("c", answers("What else?\n"), on(w.base), put(relayAt,
			decision(nonce1, w.next(), answers("What else?\n"))))
		w.policy = "rules: {divergence: off}\n"
		w.commit("merge", on(ours, side))
	}, want: []string{
		"error relay-reply t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:8:14 @c: no earlier envelope of the thread " +
			"has this body hash",
	}},
	{name: "to nothing, where the history is cut", make: func(w *world) {
		w.shallow = map[string]bool{w.base: true}
		w.relaysAs("c", answers("Never asked.\n"))
	}, err: `whether the turn that "t-one/RELAY-` + nonce1 + `.md" answers is in the history cannot be known`},
	{name: "malformed, which the schema tells", make: func(w *world) {
		w.relaysAs("c", func(f *envelope.Fields) { f.InReplyTo = "none" })
	}, want: []string{
		`error envelope-schema t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:8:14 @c: in_reply_to is "none" (4 ` +
			`characters), expected 64 lower-case hexadecimal digits`,
	}},
	{name: "in the index", make: func(w *world) {
		w.gate = PreCommit
		w.relaysAs("c", answers("Never asked.\n"))
	}, want: []string{
		"error relay-reply t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:8:14 @: no earlier envelope of the thread " +
			"has this body hash",
	}},
}

func TestRelayReply(t *testing.T) { run(t, relayReplyPlays) }
