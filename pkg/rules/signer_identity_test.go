package rules

import "testing"

var signerIdentityPlays = []play{
	{name: "the committer's key", make: func(w *world) { w.commit("c", signed(keyOp), put("README.md", "x\n")) }},
	{name: "another committer", make: func(w *world) {
		w.commit("c", signed(keyOp), by(bob), put("README.md", "x\n"))
	}, want: []string{
		`error signer-identity - @c: the committer "bob@example.com" is not a principal of the key ` +
			`SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4 that signed | git config user.email op@example.com && ` +
			`git commit --amend --no-edit --reset-author -S`,
	}},
	{name: "another committer, not in the last commit", make: func(w *world) {
		w.commit("b", signed(keyOp), by(bob), put("README.md", "x\n"))
		w.commit("c", put("README.md", "y\n"))
	}, want: []string{
		`error signer-identity - @b: the committer "bob@example.com" is not a principal of the key ` +
			`SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4 that signed | git config user.email op@example.com && ` +
			`git rebase --interactive --gpg-sign <base>, with edit before this commit; then git commit --amend --no-edit ` +
			`--reset-author -S; then git rebase --continue`,
	}},
	{name: "another committer of what the key's own author wrote", make: func(w *world) {
		w.commit("c", signed(keyOp), by(bob), author(op), put("README.md", "x\n"))
	}, want: []string{
		`error signer-identity - @c: the committer "bob@example.com" is not a principal of the key ` +
			`SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4 that signed | git config user.email op@example.com && ` +
			`git commit --amend --no-edit -S`,
	}},
	{name: "the same, not in the last commit", make: func(w *world) {
		w.commit("b", signed(keyOp), by(bob), author(op), put("README.md", "x\n"))
		w.commit("c", put("README.md", "y\n"))
	}, want: []string{
		`error signer-identity - @b: the committer "bob@example.com" is not a principal of the key ` +
			`SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4 that signed | git config user.email op@example.com && ` +
			`git rebase --no-ff --rebase-merges --gpg-sign <base>`,
	}},
	{name: "another author", make: func(w *world) {
		w.commit("c", signed(keyOp), author(bob), put("README.md", "x\n"))
	}, want: []string{
		`error signer-identity - @c: the author "bob@example.com" is not the committer "op@example.com" | git ` +
			`commit --amend --no-edit --reset-author -S`,
	}},
	{name: "another author, not in the last commit", make: func(w *world) {
		w.commit("b", signed(keyOp), author(bob), put("README.md", "x\n"))
		w.commit("c", put("README.md", "y\n"))
	}, want: []string{
		`error signer-identity - @b: the author "bob@example.com" is not the committer "op@example.com" | git ` +
			`rebase --interactive --gpg-sign <base>, with edit before this commit; then git commit --amend --no-edit ` +
			`--reset-author -S; then git rebase --continue`,
	}},
	{name: "another author, where a forge makes commits", make: func(w *world) {
		w.policy = "forge-commits: ['" + keyNew.Fingerprint() + "']\n"
		w.commit("c", signed(keyOp), author(bob), put("README.md", "x\n"))
	}},
	{name: "without a signature", make: func(w *world) { w.commit("c", author(bob), put("README.md", "x\n")) }},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {signer-identity: off}\n"
		w.commit("c", signed(keyOp), by(bob), put("README.md", "x\n"))
	}},
}

func TestSignerIdentity(t *testing.T) { run(t, signerIdentityPlays) }
