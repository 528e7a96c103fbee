package rules

import "testing"

var relayAuthorPlays = []play{
	{name: "the operator", make: func(w *world) { w.relays("c") }},
	{name: "another author", make: func(w *world) { w.relays("c", author(bob)) }, want: []string{
		`error relay-author t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:2:7 @c: the author is "bob@example.com", ` +
			`the committer "op@example.com"; a relay's author is its committer | the operator commits it under their ` +
			`own name: git commit --amend --no-edit --reset-author -S`,
	}},
	{name: "another name", make: func(w *world) { w.relays("c", author("Opa <op@example.com>")) }, want: []string{
		`error relay-author t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:2:7 @c: the author's name is "Opa", the ` +
			`committer's "Op"; a relay's author is its committer`,
	}},
	{name: "a program", make: func(w *world) { w.relays("c", by("rig-bridge <op@example.com>")) }, want: []string{
		`error relay-author t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:2:7 @c: the author "rig-bridge" is a ` +
			`program, not an operator`,
	}},
	{name: "whom the policy denies", make: func(w *world) {
		w.policy = "relay: {denied-authors: ['*@example.com']}\n"
		w.relays("c")
	}, want: []string{
		`error relay-author t-one/RELAY-01KE6X0000AAAAAAAAAAAAAAA1.md:2:7 @c: the author "Op <op@example.com>" ` +
			`is denied by relay.denied-authors "*@example.com"`,
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {relay-author: off}\n"
		w.relays("c", author("Opa <op@example.com>"))
	}},
	{name: "without a signature that counts", make: func(w *world) {
		w.relays("c", author(bob), signed(keyNew))
	}, want: []string{
		"error commit-signed - @c: unknown key: no line lists the key " +
			"SHA256:yP482uWWd/MiEsC2F55jB1Wp48BIuQiSJNlILiMw6fk | sign it with a key that is listed and valid: git " +
			"config user.signingkey KEY.pub && git -c gpg.format=ssh rebase --no-ff --rebase-merges --gpg-sign " +
			"<base>",
	}},
}

func TestRelayAuthor(t *testing.T) { run(t, relayAuthorPlays) }
