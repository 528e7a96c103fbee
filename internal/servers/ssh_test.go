//go:build linux

package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// keyPair makes a key without a passphrase and returns its file.
func keyPair(t *testing.T, file string) string {
	t.Helper()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// sshd starts a server that lets in who holds a key of a file, with settings
// of the test besides. It returns the variable that makes git use it.
func sshd(t *testing.T, dir, authorized, key string, settings string) (address, gitSSH string) {
	t.Helper()
	server := program(t, "sshd", "openssh-server")
	if os.Getuid() == 0 {
		// Where sshd puts its unprivileged half; the package's service makes it.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Skipf("sshd cannot run here: %v", err)
		}
	}
	p := port(t)
	config := filepath.Join(dir, "sshd_config")
	// SHLVL: as in a shell below another one, bash reads no ~/.bashrc, which may
	// cost more than everything that is tried here.
	write(t, config, "ListenAddress 127.0.0.1:"+p+"\nHostKey "+keyPair(t, filepath.Join(dir, "host_key"))+
		"\nAuthorizedKeysFile "+authorized+"\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nMaxStartups 20\n"+settings+"\nSetEnv SHLVL=2\n", 0o600)
	daemon(t, shell(dir), server, "-D", "-e", "-f", config)
	await(t, "tcp", "127.0.0.1:"+p)
	return "ssh://" + me(t) + "@127.0.0.1:" + p, "GIT_SSH_COMMAND=ssh -F none -i " + key +
		" -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR -o UserKnownHostsFile=" + filepath.Join(dir, "known_hosts")
}

// TestSSH: a bare repository on a machine that people reach by ssh.
func TestSSH(t *testing.T) {
	t.Parallel()
	dir := gittest.TempDir(t)
	documented(t, "A bare repository over SSH", 0).with("/srv/git", dir).run(dir, shell(dir))
	key := keyPair(t, filepath.Join(dir, "key"))
	address, ssh := sshd(t, dir, key+".pub", key, "")
	s := &site{T: t, repo: bare(t, filepath.Join(dir, "bridge.git")), url: address + dir + "/bridge.git", env: []string{ssh}}
	s.scenario()

	// In a big push one bad commit is found; there is time enough for all.
	s.repo.Run("config", "rigward.timeout", "60s")
	many := thousands(t, s.client(), s.repo.Run("rev-parse", "main~1"))
	s.refused(many.Push(s.url, "worse"), "worse", "", "bulk-17/S5017.md:6:7", "[envelope-schema]")

	// The way back leaves nothing of ours.
	documented(t, "A bare repository over SSH", 1).with("/srv/git", dir).run(dir, shell(dir))
	for _, name := range []string{"pre-receive", "update"} {
		if _, err := os.Lstat(filepath.Join(s.repo.Dir, "hooks", name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}
