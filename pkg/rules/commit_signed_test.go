package rules

import (
	"bytes"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
)

const all = "require-signed: all\n"

var commitSignedPlays = []play{
	{name: "not asked for", make: func(w *world) { w.commit("c", put("README.md", "x\n")) }},
	{name: "asked for", make: func(w *world) {
		w.policy = all
		w.commit("c", put("README.md", "x\n"))
	}, want: []string{
		"error commit-signed - @c: unsigned: the commit has no signature, expected that of an allowed signer | " +
			"sign it: git -c gpg.format=ssh rebase --no-ff --rebase-merges --gpg-sign <base>",
	}},
	{name: "asked for, and there", make: func(w *world) {
		w.policy = all
		w.commit("c", signed(keyOp), put("README.md", "x\n"))
	}},
	{name: "a relay without", make: func(w *world) { w.relays("c", signed(nil)) }, want: []string{
		"error commit-signed - @c: unsigned: the commit has no signature, expected that of an allowed signer",
	}},
	{name: "a relay without, where none is asked for", make: func(w *world) {
		w.policy = "require-signed: none\n"
		w.relays("c", signed(nil))
	}, want: []string{
		"error commit-signed - @c: unsigned: the commit has no signature, expected that of an allowed signer",
	}},
	{name: "by a key that nobody lists", make: func(w *world) { w.relays("c", signed(keyNew)) }, want: []string{
		"error commit-signed - @c: unknown key: no line lists the key " +
			"SHA256:yP482uWWd/MiEsC2F55jB1Wp48BIuQiSJNlILiMw6fk | sign it with a key that is listed and valid: git " +
			"config user.signingkey KEY.pub && git -c gpg.format=ssh rebase --no-ff --rebase-merges --gpg-sign " +
			"<base>",
	}},
	{name: "by a key that is revoked", make: func(w *world) {
		w.revoked = keyOp.Authorized() + "\n"
		w.relays("c")
	}, want: []string{
		"error commit-signed - @c: revoked: the key SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4: it is " +
			"revoked",
	}},
	{name: "by a key that has expired", make: func(w *world) {
		w.signers = keyOp.Line("op@example.com,op-relay", `valid-before="20200101"`)
		w.relays("c")
	}, want: []string{
		"error commit-signed - @c: expired: line 1 held until 2020-01-01T00:00:00Z, asked for " +
			"2026-01-05T09:02:00Z",
	}},
	{name: "by a short RSA key", make: func(w *world) {
		key := testkeys.RSA(2048)
		w.signers = key.Line("op@example.com,op-relay", "")
		w.relaysAs("c", attestedBy(key.Fingerprint()), signed(key))
	}, want: []string{
		"error commit-signed - @c: unsupported type: an RSA key of 2048 bits; at least 3072 are required",
	}},
	{name: "of other bytes", make: func(w *world) {
		w.relays("c", raw(func(b []byte) []byte { return bytes.Replace(b, []byte("\n\nc\n"), []byte("\n\nd\n"), 1) }))
	}, want: []string{
		"error commit-signed - @c: bad signature: the signature does not belong to these bytes",
	}},
	{name: "a forge's empty merge", make: func(w *world) {
		w.policy = all
		side := w.commit("side", on(w.base), signed(keyOp), put("README.md", "x\n"))
		ours := w.commit("ours", on(w.base), signed(keyOp), put("LICENSE", "x\n"))
		w.commit("merge", on(ours, side))
	}, want: []string{
		"error commit-signed - @merge: unsigned: the commit has no signature, expected that of an allowed signer " +
			"| merge in a clone with git merge -S instead of the forge's merge button, or set forge-commits in the " +
			"policy",
	}},
	{name: "a forge's empty merge, which the policy takes", make: func(w *world) {
		w.policy = all + "forge-commits: allow-empty-merge\n"
		side := w.commit("side", on(w.base), signed(keyOp), put("README.md", "x\n"))
		ours := w.commit("ours", on(w.base), signed(keyOp), put("LICENSE", "x\n"))
		w.commit("merge", on(ours, side))
	}},
	{name: "a merge that brings something is not empty", make: func(w *world) {
		w.policy = all + "forge-commits: allow-empty-merge\n"
		side := w.commit("side", on(w.base), signed(keyOp), put("README.md", "x\n"))
		ours := w.commit("ours", on(w.base), signed(keyOp), put("LICENSE", "x\n"))
		w.commit("merge", on(ours, side), put("more", "x\n"))
	}, want: []string{
		"error commit-signed - @merge: unsigned: the commit has no signature, expected that of an allowed signer",
	}},
	{name: "by a forge's key", make: func(w *world) {
		w.policy = all + "forge-commits: ['" + keyNew.Fingerprint() + "']\n"
		w.commit("c", signed(keyNew), put("README.md", "x\n"))
	}},
	{name: "by a forge's key, which is revoked", make: func(w *world) {
		w.policy = all + "forge-commits: ['" + keyNew.Fingerprint() + "']\n"
		w.revoked = keyNew.Authorized() + "\n"
		w.commit("c", signed(keyNew), put("README.md", "x\n"))
	}, want: []string{
		"error commit-signed - @c: revoked: the key SHA256:yP482uWWd/MiEsC2F55jB1Wp48BIuQiSJNlILiMw6fk: it is " +
			"revoked",
	}},
	{name: "a relay by a forge's key", make: func(w *world) {
		w.policy = "forge-commits: ['" + keyNew.Fingerprint() + "']\n"
		w.relays("c", signed(keyNew))
	}, want: []string{
		"error commit-signed - @c: unknown key: no line lists the key " +
			"SHA256:yP482uWWd/MiEsC2F55jB1Wp48BIuQiSJNlILiMw6fk",
	}},
	{name: "malformed", make: func(w *world) {
		w.commit("c", raw(func(b []byte) []byte { return bytes.Replace(b, []byte("author"), []byte("writer"), 1) }))
	}, want: []string{
		"error commit-signed - @c: malformed commit: no author in its place | git fsck --no-dangling",
	}},
	{name: "malformed, and no policy lets it pass", make: func(w *world) {
		w.policy = "rules: {commit-signed: off}\n"
		w.commit("c", raw(func(b []byte) []byte { return bytes.Replace(b, []byte("author"), []byte("writer"), 1) }))
	}, want: []string{
		"error commit-signed - @c: malformed commit: no author in its place",
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {commit-signed: off}\n"
		w.relays("c", signed(nil))
	}},
	{name: "with nobody to trust", make: func(w *world) {
		w.signers = ""
		w.relays("c")
	}, err: "there are no trusted signers"},
	{name: "the first signers, where all must be signed", make: func(w *world) {
		w.policy, w.signers = all, ""
		w.commit("c", put(".bridge/allowed_signers", keyOp.Line("op@example.com", "")))
	}, want: []string{ // which the server's consent lets in
		"error signers-change - @c: nobody is trusted yet who could sign for a change of \".bridge/allowed_signers\"",
	}},
	{name: "with nobody to trust, where all must be signed", make: func(w *world) {
		w.policy, w.signers = all, ""
		w.commit("c", put("README.md", "x\n"))
	}, err: "there are no trusted signers"},
	{name: "the first signers with a relay", make: func(w *world) {
		w.policy, w.signers = all, ""
		w.relays("c", put(".bridge/allowed_signers", keyOp.Line("op@example.com", "")))
	}, err: "there are no trusted signers"},
	{name: "another file than the first signers, where all must be signed", make: func(w *world) {
		w.policy, w.signers = all, ""
		w.commit("c", put(".bridge/policy.yaml", "version: 1\n"))
	}, err: "there are no trusted signers"},
	{name: "with a signers file that cannot be read", make: func(w *world) {
		w.signers = "op@example.com\n"
		w.relays("c")
	}, err: "the signers file .bridge/allowed_signers is malformed"},
	{name: "with such a file, and no signature is needed", make: func(w *world) {
		w.signers = "op@example.com\n"
		w.commit("c", put("README.md", "x\n"))
	}},
}

func TestCommitSigned(t *testing.T) { run(t, commitSignedPlays) }

func TestMessage(t *testing.T) {
	for want, commit := range map[string]func(w *world){
		"":             func(w *world) { w.commit("c", put("t-one/a.md", turn("rig-a", "ACK", "Yes.\n"))) },
		"a relay":      func(w *world) { w.relays("c") },
		"every commit": func(w *world) { w.policy = all; w.commit("c", put("README.md", "x\n")) },
	} {
		w := newWorld(t)
		commit(w)
		j := &Judge{Repo: w.fake, Gate: PreCommit, Now: began.Add(time.Hour)}
		if got, err := j.Message(t.Context(),
			w.staged(Range{Policy: w.demands(), Trust: w.trust()}), []byte("Say it\n")); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}
