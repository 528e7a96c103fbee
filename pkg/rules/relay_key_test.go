package rules

import (
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
)

func attestedBy(by string) func(*envelope.Fields) {
	return func(f *envelope.Fields) { f.AttestedBy = by }
}

// relaysAs commits a relay that is changed.
func (w *world) relaysAs(name string, change func(*envelope.Fields), edits ...edit) string {
	return w.relays(name, append([]edit{put(relayAt, decision(nonce1, w.next(), change))}, edits...)...)
}

var relayKeyPlays = []play{
	{name: "the key that signed", make: func(w *world) { w.relays("c") }},
	{name: "the key itself", make: func(w *world) { w.relaysAs("c", attestedBy(keyOp.Authorized())) }},
	{name: "another key", make: func(w *world) { w.relaysAs("c", attestedBy(keyBob.Fingerprint())) }, want: []string{
		"error relay-key t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:9:14 @c: attested_by does not name the key " +
			"that signed, SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4 | attested_by: " +
			"SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4",
	}},
	{name: "a path", make: func(w *world) { w.relaysAs("c", attestedBy("~/.ssh/id_ed25519.pub")) }, want: []string{
		"warning relay-key t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:9:14 @c: attested_by is a path, which names " +
			"no key; the key that signed is SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4",
	}},
	{name: "a path, which the policy refuses", make: func(w *world) {
		w.policy = "relay: {path-key: error}\n"
		w.relaysAs("c", attestedBy("~/.ssh/id_ed25519.pub"))
	}, want: []string{
		"error relay-key t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:9:14 @c: attested_by is a path, which names " +
			"no key; the key that signed is SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4",
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {relay-key: off}\n"
		w.relaysAs("c", attestedBy(keyBob.Fingerprint()))
	}},
}

func TestRelayKey(t *testing.T) { run(t, relayKeyPlays) }
