package rules

import (
	"testing"
	"time"
)

var relayClockPlays = []play{
	{name: "a minute before", make: func(w *world) {
		w.commit("c", signed(keyOp), put(relayAt, decision(nonce1, w.next()-time.Minute)))
	}},
	{name: "just within ten minutes", make: func(w *world) {
		w.commit("c", signed(keyOp), put(relayAt, decision(nonce1, w.next()-10*time.Minute)))
	}},
	{name: "long before", make: func(w *world) {
		w.commit("c", signed(keyOp), put(relayAt, decision(nonce1, w.next()-11*time.Minute)))
	}, want: []string{
		"error relay-clock t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:10:14 @c: attested_at is 660 s (11m0s) " +
			"before the committer date 2026-01-05T09:02:00Z, at most 600 s (10m0s) apart are allowed | relay again: " +
			"git rebase --onto <c>~1 <c> && rig-bridge relay TYPE --thread t-one --in-reply-to FILE --tldr TEXT",
	}},
	{name: "afterwards", make: func(w *world) {
		w.commit("c", signed(keyOp), put(relayAt, decision(nonce1, w.next()+11*time.Minute)))
	}, want: []string{
		"error relay-clock t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:10:14 @c: attested_at is 660 s (11m0s) " +
			"after the committer date 2026-01-05T09:02:00Z, at most 600 s (10m0s) apart are allowed",
	}},
	{name: "within what the policy takes", make: func(w *world) {
		w.policy = "relay: {clock: 20 m}\n"
		w.commit("c", signed(keyOp), put(relayAt, decision(nonce1, w.next()-11*time.Minute)))
	}},
	{name: "beyond what the policy takes", make: func(w *world) {
		w.policy = "relay: {clock: 30 s}\n"
		w.commit("c", signed(keyOp), put(relayAt, decision(nonce1, w.next()-time.Minute)))
	}, want: []string{
		"error relay-clock t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:10:14 @c: attested_at is 60 s (1m0s) before " +
			"the committer date 2026-01-05T09:02:00Z, at most 30 s apart are allowed",
	}},
}

func TestRelayClock(t *testing.T) { run(t, relayClockPlays) }
