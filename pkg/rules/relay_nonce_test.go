package rules

import (
	"testing"

	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/pkg/envelope"
)

var relayNoncePlays = []play{
	{name: "two relays with two nonces", make: func(w *world) {
		w.relays("b")
		w.commit("c", signed(keyOp), put("t-one/RELAY-2.md", decision(nonce2, w.next())))
	}},
	{name: "used before in the same push", make: func(w *world) {
		w.relays("b")
		w.commit("c", signed(keyOp), put("t-one/again.md", decision(nonce1, w.next())))
	}, want: []string{
		`error relay-nonce t-one/again.md:11:8 @c: the nonce was used before, by ` +
			`"t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md" of commit <b> | relay again: git rebase --onto <c>~1 <c> && ` +
			`rig-bridge relay TYPE --thread t-one --in-reply-to FILE --tldr TEXT`,
	}},
	{name: "used on two sides", make: func(w *world) {
		w.policy = "rules: {divergence: off}\n"
		a := w.relays("ours", on(w.base), put(relayAt, decision(nonce1, w.next())))
		b := w.commit("theirs", on(w.base), signed(keyOp), put("t-one/again.md", decision(nonce1, w.next())))
		w.commit("merge", on(a, b))
	}, want: []string{
		`error relay-nonce t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:11:8 @ours: the nonce was used before, by ` +
			`"t-one/again.md" of commit <theirs>`,
		`error relay-nonce t-one/again.md:11:8 @theirs: the nonce was used before, by ` +
			`"t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md" of commit <ours>`,
	}},
	{name: "one relay that two sides brought", make: func(w *world) {
		text := decision(nonce1, w.next())
		a := w.commit("ours", on(w.base), signed(keyOp), put(relayAt, text))
		b := w.commit("theirs", on(w.base), signed(keyOp), put(relayAt, text))
		w.commit("merge", on(a, b))
	}},
	{name: "used before the push", make: func(w *world) {
		w.relays("c")
		w.judge = func(j *Judge, _ *Range) {
			j.Used = func(nonces []string) (map[string][]history.Hit, error) {
				return map[string][]history.Hit{nonces[0]: {{Path: "t-one/old.md", Blob: "1", Commit: w.base}}}, nil
			}
		}
	}, want: []string{
		`error relay-nonce t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:11:8 @c: the nonce was used before, by ` +
			`"t-one/old.md" of commit <base>`,
	}},
	{name: "used before the push by this very envelope", make: func(w *world) {
		w.relays("c")
		blob := w.files(w.tip)[relayAt].id
		w.judge = func(j *Judge, _ *Range) {
			j.Used = func(nonces []string) (map[string][]history.Hit, error) {
				return map[string][]history.Hit{nonces[0]: {{Path: relayAt, Blob: blob}}}, nil
			}
		}
	}},
	{name: "of another form", make: func(w *world) {
		w.relaysAs("c", func(f *envelope.Fields) { f.Nonce = "1" })
	}, want: []string{
		`error relay-nonce t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:11:8 @c: the nonce "1" is neither a ULID ` +
			`(26 characters 0-9 A-Z without I L O U, the first 0-7) nor ten such characters, a hyphen and ten more`,
	}},
	{name: "of what claims to be a relay", make: func(w *world) {
		nonced := func(f *envelope.Fields) { f.Nonce = nonce1 }
		w.commit("b", put("t-one/a.md", turn("rig-a", "STATE", "Ready.\n", nonced)))
		w.commit("c", put("t-one/b.md", turn("rig-a", "STATE", "So.\n", nonced)))
	}, want: []string{
		"error commit-signed - @c: unsigned: the commit has no signature, expected that of an allowed signer | " +
			"sign it: git -c gpg.format=ssh rebase --no-ff --rebase-merges --gpg-sign <b>",
		"error commit-signed - @b: unsigned: the commit has no signature, expected that of an allowed signer",
		`error relay-suffix t-one/a.md:2:7 @b: the sender "rig-a" does not end in -relay, but has nonce | remove ` +
			`nonce, or relay as rig-a-relay`,
		`error relay-fields t-one/a.md:6:7 @b: a relay has type "STATE", expected DECISIONS, RESPONSE or ACK`,
		"error relay-fields t-one/a.md:10:1 @b: a relay lacks attested_by, attested_at, in_reply_to",
		`error relay-suffix t-one/b.md:2:7 @c: the sender "rig-a" does not end in -relay, but has nonce`,
		`error relay-fields t-one/b.md:6:7 @c: a relay has type "STATE", expected DECISIONS, RESPONSE or ACK`,
		`error relay-nonce t-one/b.md:8:8 @c: the nonce was used before, by "t-one/a.md" of commit <b>`,
		"error relay-fields t-one/b.md:10:1 @c: a relay lacks attested_by, attested_at, in_reply_to",
	}},
}

func TestRelayNonce(t *testing.T) { run(t, relayNoncePlays) }

// TestClaim: where nonces are unique over all refs, two pushes at one instant
// do not take the same.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	for _, push := range []struct {
		ref, path string
		want      []string
	}{
		{"refs/heads/main", relayAt, nil},
		{"refs/heads/release", "t-one/other.md", []string{
			"error relay-nonce t-one/other.md:11:8 @c: another push uses the nonce at this moment, for another envelope | " +
				"relay again: rig-bridge relay TYPE --thread t-one --in-reply-to FILE --tldr TEXT",
		}},
		{"refs/heads/release", relayAt, nil}, // the same envelope
	} {
		w := newWorld(t)
		w.policy = "relay: {nonce-scope: refs}\n"
		w.judge = func(_ *Judge, r *Range) { r.Ref = push.ref }
		w.commit("c", signed(keyOp), put(push.path, decision(nonce1, w.next())))
		j, err := w.judgeAt(PreReceive)
		if err == nil {
			err = j.Claim(dir, func(ref, old string) bool { return true })
		}
		if err != nil {
			t.Fatal(err)
		}
		w.expect(j, push.want...)
	}
	// Where they are unique in one ref's history, there is nothing to claim.
	w := newWorld(t)
	w.relays("c")
	j, err := w.judgeAt(PreReceive)
	if err == nil {
		err = j.Claim("/dev/null/nowhere", nil)
	}
	if err != nil {
		t.Error(err)
	}
}
