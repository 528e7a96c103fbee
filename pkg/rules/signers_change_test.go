package rules

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/gitrepo"
)

const signersFile = ".bridge/allowed_signers"

var signersChangePlays = []play{
	{name: "signed by an old signer", make: func(w *world) {
		w.commit("c", signed(keyOp), put(signersFile, signers+"# more\n"))
	}},
	{name: "not signed", make: func(w *world) { w.commit("c", put(signersFile, signers+"# more\n")) }, want: []string{
		"error commit-signed - @c: unsigned: the commit has no signature, expected that of an allowed signer | " +
			"sign it: git -c gpg.format=ssh rebase --no-ff --rebase-merges --gpg-sign <base>",
		"error signers-change - @c: policy or signers are changed by a commit that no trusted signer made | let " +
			"a signer of the old file make this commit",
	}},
	{name: "signed by who is added", make: func(w *world) {
		w.commit("c", signed(keyNew), put(signersFile, signers+keyNew.Line("op@example.com", "")))
	}, want: []string{
		"error commit-signed - @c: unknown key: no line lists the key " +
			"SHA256:yP482uWWd/MiEsC2F55jB1Wp48BIuQiSJNlILiMw6fk | sign it with a key that is listed and valid: git " +
			"config user.signingkey KEY.pub && git -c gpg.format=ssh rebase --no-ff --rebase-merges --gpg-sign " +
			"<base>",
		"error signers-change - @c: policy or signers are changed by a commit that no trusted signer made",
	}},
	{name: "signed by a key that speaks for somebody else", make: func(w *world) {
		w.commit("c", signed(keyBob), put(signersFile, signers+"# more\n"))
	}, want: []string{
		`error signer-identity - @c: the committer "op@example.com" is not a principal of the key ` +
			`SHA256:Ce6FgBcjj8E6yrJnBBrWa/sDAIRQ7gzusCdAq2Taze0 that signed | git config user.email bob@example.com ` +
			`&& git commit --amend --no-edit --reset-author -S`,
	}},
	{name: "the signers file is deleted", make: func(w *world) { w.commit("c", del(signersFile)) }, want: []string{
		"error commit-signed - @c: unsigned: the commit has no signature, expected that of an allowed signer",
		"error signers-change - @c: policy or signers are changed by a commit that no trusted signer made",
	}},
	{name: "a policy without a signature", make: func(w *world) {
		w.commit("c", put(".bridge/policy.yaml", "version: 1\n"))
	}, want: []string{
		"error commit-signed - @c: unsigned: the commit has no signature, expected that of an allowed signer",
		"error signers-change - @c: policy or signers are changed by a commit that no trusted signer made",
	}},
	{name: "a merge that drops what a side has changed", make: func(w *world) {
		w.policy = "forge-commits: allow-empty-merge\n"
		side := w.commit("side", on(w.base), signed(keyOp), put(signersFile, signers+"# more\n"))
		ours := w.commit("ours", on(w.base), put("README.md", "x\n"))
		w.commit("merge", on(ours, side), put(signersFile, signers))
	}, want: []string{
		"error commit-signed - @merge: unsigned: the commit has no signature, expected that of an allowed signer " +
			"| merge in a clone with git merge -S instead of the forge's merge button, or set forge-commits in the " +
			"policy",
		"error signers-change - @merge: policy or signers are changed by a commit that no trusted signer made",
	}},
	{name: "a merge takes it from a side that was signed", make: func(w *world) {
		side := w.commit("side", on(w.base), signed(keyOp), put(signersFile, signers+"# more\n"))
		ours := w.commit("ours", on(w.base), put("README.md", "x\n"))
		w.commit("merge", on(side, ours), signed(keyOp))
	}},
	{name: "a merge takes an old one from a side that is not the branch", make: func(w *world) {
		old := w.base
		w.commit("b", signed(keyOp), put(signersFile, signers+"# more\n"))
		w.accept()
		side := w.commit("side", on(old), put("README.md", "x\n"))
		w.commit("merge", on(w.base, side), put(signersFile, signers))
	}, want: []string{
		"error commit-signed - @merge: unsigned: the commit has no signature, expected that of an allowed signer",
		"error signers-change - @merge: policy or signers are changed by a commit that no trusted signer made",
	}},
	{name: "a merge of two sides that both come from the branch whose signers count", make: func(w *world) {
		trusted := w.base
		w.judge = func(_ *Judge, r *Range) { r.Ref, r.Old, r.From = "refs/heads/release", "", trusted }
		ours := w.commit("ours", on(w.base), put("README.md", "x\n"))
		side := w.commit("side", on(w.base), signed(keyOp), put(signersFile, signers+"# more\n"))
		w.commit("merge", on(ours, side), put(signersFile, signers))
	}, want: []string{
		"error commit-signed - @merge: unsigned: the commit has no signature, expected that of an allowed signer " +
			"| merge in a clone with git merge -S instead of the forge's merge button, or set forge-commits in the " +
			"policy",
		"error signers-change - @merge: policy or signers are changed by a commit that no trusted signer made | " +
			"let a signer of the old file make this commit",
	}},
	{name: "a merge of a side that does not come from there, with what it has", make: func(w *world) {
		ours, side := w.oldSide(false)
		w.commit("merge", on(ours, side))
	}},
	{name: "a merge of such a side, with its old list", make: func(w *world) {
		ours, side := w.oldSide(false)
		w.commit("merge", on(ours, side), put(signersFile, signers))
	}, want: []string{
		"error commit-signed - @merge: unsigned: the commit has no signature, expected that of an allowed signer",
		"error signers-change - @merge: policy or signers are changed by a commit that no trusted signer made",
	}},
	{name: "a merge where no side comes from there: that counts which has most of the history", make: func(w *world) {
		ours, side := w.oldSide(true)
		w.commit("merge", on(ours, side), put(signersFile, signers))
	}, want: []string{
		"error commit-signed - @merge: unsigned: the commit has no signature, expected that of an allowed signer",
		"error signers-change - @merge: policy or signers are changed by a commit that no trusted signer made",
	}},
	{name: "a merge where no side comes from there, with the newer list", make: func(w *world) {
		ours, side := w.oldSide(true)
		w.commit("merge", on(ours, side))
	}},
	{name: "a signers file that cannot be read", make: func(w *world) {
		w.commit("c", signed(keyOp), put(signersFile, "op@example.com\n"))
	}, want: []string{
		"error signers-change .bridge/allowed_signers:1:15 @c: no key after the principals | write: <principals> " +
			"<key type> <base64 key>",
	}},
	{name: "a signers file that is a symbolic link", make: func(w *world) {
		w.commit("c", signed(keyOp), putAs(gitrepo.ModeSymlink, signersFile, "other"))
	}, want: []string{
		"error signers-change .bridge/allowed_signers @c: an entry of mode 120000, expected a regular file",
	}},
	{name: "a policy that cannot be read", make: func(w *world) {
		w.commit("c", signed(keyOp), put(".bridge/policy.yaml", "version: 1\nprotekt: [main]\n"))
	}, want: []string{
		`error signers-change .bridge/policy.yaml:2:1 @c: unknown key "protekt" | did you mean protect?`,
	}},
	{name: "a policy that is too large", make: func(w *world) {
		w.commit("c", signed(keyOp), put(".bridge/policy.yaml", "version: 1\n"+strings.Repeat("#\n", 200_000)))
	}, want: []string{
		"error signers-change .bridge/policy.yaml @c: more than 262144 bytes",
	}},
	{name: "a revocation file that cannot be read", make: func(w *world) {
		w.policy = "revoked: .bridge/revoked\n"
		w.commit("c", signed(keyOp), put(".bridge/revoked", "nonsense\n"))
	}, want: []string{
		`error signers-change .bridge/revoked:1:1 @c: no public key, but "nonsense" | a revocation file holds ` +
			`one public key a line, <key type> <base64 key>, or is a KRL of ssh-keygen -k`,
	}},
	{name: "a revocation file that is deleted", make: func(w *world) {
		w.commit("b", signed(keyOp), put(".bridge/revoked", keyNew.Authorized()+"\n"))
		w.accept()
		w.policy = "revoked: .bridge/revoked\n"
		w.commit("c", signed(keyOp), del(".bridge/revoked"))
	}, want: []string{
		"error signers-change .bridge/revoked @c: the policy names this revocation file, which is missing: " +
			"nothing signed could be decided any more | commit the policy together with the file: rig-hook keys " +
			"revoke KEY writes it; or take the key revoked out of the policy",
	}},
	{name: "a policy that names a revocation file that is missing", make: func(w *world) {
		w.judge = func(_ *Judge, r *Range) { r.Policy.Server = false }
		w.commit("c", signed(keyOp), put(".bridge/policy.yaml", "version: 1\nrevoked: .bridge/revoked\n"))
	}, want: []string{
		"error signers-change .bridge/revoked @c: the policy names this revocation file, which is missing: " +
			"nothing signed could be decided any more",
	}},
	{name: "a policy that names a directory as revocation file", make: func(w *world) {
		w.judge = func(_ *Judge, r *Range) { r.Policy.Server = false }
		w.commit("c", signed(keyOp), put(".bridge/policy.yaml", "version: 1\nrevoked: keys\n"), put("keys/a", "x\n"))
	}, want: []string{
		"error signers-change keys @c: the policy names this revocation file, which is not a regular file: nothing " +
			"signed could be decided any more | commit the policy together with the file: rig-hook keys revoke KEY " +
			"writes it; or take the key revoked out of the policy",
	}},
	{name: "a policy together with its revocation file", make: func(w *world) {
		w.judge = func(_ *Judge, r *Range) { r.Policy.Server = false }
		w.commit("c", signed(keyOp), put(".bridge/policy.yaml", "version: 1\nrevoked: .bridge/revoked\n"),
			put(".bridge/revoked", keyNew.Authorized()+"\n"))
	}},
	{name: "a policy that names something else as revocation file", make: func(w *world) {
		w.judge = func(_ *Judge, r *Range) { r.Policy.Server = false }
		w.commit("c", signed(keyOp), put(".bridge/policy.yaml", "version: 1\nrevoked: README.md\n"), put("README.md",
			"nonsense\n"))
	}, want: []string{
		`error signers-change README.md @c: the policy names this revocation file, which cannot be read: line 1, ` +
			`column 1: no public key, but "nonsense": nothing signed could be decided any more`,
	}},
	{name: "the first files at a server", make: func(w *world) {
		w.signers = ""
		w.commit("c", put(signersFile, signers+"# more\n"))
	}, want: []string{
		`error signers-change - @c: nobody is trusted yet who could sign for a change of ` +
			`".bridge/allowed_signers" | on the server, for the push that brings it: git config rigward.bootstrap ` +
			`true`,
	}},
	{name: "the first files at a server that takes them", make: func(w *world) {
		w.signers = ""
		w.judge = func(j *Judge, _ *Range) { j.Bootstrap = true }
		w.commit("c", put(signersFile, signers+"# more\n"))
	}},
	{name: "the first files in a clone", make: func(w *world) {
		w.signers, w.gate = "", PrePush
		w.commit("c", put(signersFile, signers+"# more\n"))
	}},
	{name: "the first files where updates are received", make: func(w *world) {
		w.signers, w.gate = "", Check
		w.judge = func(j *Judge, _ *Range) { j.Receives = true }
		w.commit("c", put(signersFile, signers+"# more\n"))
	}, want: []string{
		`error signers-change - @c: nobody is trusted yet who could sign for a change of ` +
			`".bridge/allowed_signers"`,
	}},
	{name: "a name that some file systems take for the signers file", make: func(w *world) {
		w.commit("c", put(".Bridge/allowed_signers", "x\n"))
	}, want: []string{
		`error signers-change .Bridge/allowed_signers:1:1 @c: some file systems take this path for ".bridge", ` +
			`which is guarded | give it another name: git mv -- .Bridge/allowed_signers NAME`,
	}},
	{name: "a file where its directory must be", make: func(w *world) {
		w.policy = "signers: keys/signers\n"
		w.commit("c", put("keys", "x\n"))
	}, want: []string{
		`error signers-change keys:1:1 @c: a directory is expected here, for "keys/signers" | give it another ` +
			`name: git mv -- keys NAME`,
	}},
	{name: "the client's configuration", make: func(w *world) {
		w.commit("c", put(".bridge/CONFIG.yaml", "x\n"))
	}, want: []string{
		`error signers-change .bridge/CONFIG.yaml:1:1 @c: some file systems take this path for ` +
			`".bridge/config.yaml", which is guarded | give it another name: git mv -- .bridge/CONFIG.yaml NAME`,
	}},
	{name: "a malformed policy in the index", make: func(w *world) {
		w.gate = PreCommit
		w.commit("c", put(".bridge/policy.yaml", "nonsense\n"))
	}, want: []string{
		"error signers-change .bridge/policy.yaml:1:1 @: expected a YAML mapping of keys to values, found a " +
			"single scalar | write one key: value on each line, with a blank after the colon",
	}},
	{name: "off", make: func(w *world) {
		w.policy = "rules: {signers-change: off, commit-signed: off}\n"
		w.commit("c", put(signersFile, "nonsense\n"))
	}},
}

func TestSignersChange(t *testing.T) { run(t, signersChangePlays) }

// oldSide makes two commits of a new branch, one on the newer list of signers
// and one on the list before it. With elsewhere trust comes from a third commit.
func (w *world) oldSide(elsewhere bool) (ours, side string) {
	old := w.base
	newer := w.commit("b", signed(keyOp), put(signersFile, signers+"# more\n"))
	w.accept()
	from := newer
	if elsewhere {
		from = w.commit("elsewhere", on(), put("x", "x\n"))
	}
	w.judge = func(_ *Judge, r *Range) {
		r.Ref, r.Old, r.From, r.Exclude = "refs/heads/release", "", from, []string{newer, old}
		r.History = r.History && !elsewhere
	}
	return w.commit("ours", on(newer), put("README.md", "x\n")), w.commit("side", on(old), put("LICENSE", "x\n"))
}
