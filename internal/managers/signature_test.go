package managers

import "testing"

// TestForeignTrust shows that git's own opinion of a signature (%G?) counts
// for nothing, however good it is: only who the server lists may sign.
func TestForeignTrust(t *testing.T) {
	t.Run("A16 G and U of git are not a pass", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.must(d.clone, `ssh-keygen -q -t ed25519 -N '' -C '' -f ../op && ssh-keygen -q -t ed25519 -N '' -C '' -f ../stranger
rig-hook keys add op@example.com,op-relay ../op.pub && git add . && git commit -q -m 'Who may sign' && git push -q && rig-hook install
git config gpg.format ssh && git config commit.gpgsign true && git config user.signingkey "$PWD/../stranger"`)
		change := "echo '# ours' >>.bridge/allowed_signers && git commit -q -a -m 'Change the signers' && git log -1 --format='git says %G?'"
		// Nobody lists the key: git takes the signature for good and the signer
		// for unknown.
		d.must(d.clone, `echo "other@example.com $(cat ../op.pub)" >../mine && git config gpg.ssh.allowedSignersFile "$PWD/../mine"`)
		d.want(d.clone, change, 0, "git says U")
		d.refused(d.clone, "git push -q", "commit-signed")
		d.want(d.clone, "git push -q --no-verify", 1, "[commit-signed]", "[signers-change]", "unknown key")
		// The pusher's own list has it.
		d.must(d.clone, `echo "op@example.com $(cat ../stranger.pub)" >../mine`)
		d.want(d.clone, "git log -1 --format='git says %G?'", 0, "git says G")
		d.want(d.clone, "git push -q --no-verify", 1, "[commit-signed]", "unknown key")
		// The key that the server lists, which git does not know.
		d.want(d.clone, `git config user.signingkey "$PWD/../op" && git commit -q --amend --no-edit && git log -1 --format='git says %G?'`, 0, "git says U")
		d.must(d.clone, "git push -q")
	})
}
