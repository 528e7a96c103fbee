package testkeys

import (
	"bytes"
	"crypto/elliptic"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func keys() map[string]*Key {
	ca := Ed25519("ca")
	return map[string]*Key{
		"ed25519":     Ed25519("op"),
		"ecdsa256":    ECDSA("op", elliptic.P256()),
		"ecdsa384":    ECDSA("op", elliptic.P384()),
		"ecdsa521":    ECDSA("op", elliptic.P521()),
		"rsa2048":     RSA(2048),
		"rsa3072":     RSA(3072),
		"sk-ed25519":  SKEd25519("op"),
		"sk-ecdsa":    SKECDSA("op"),
		"certificate": Ed25519("op").Certify(ca, Cert{Principals: []string{"op@example.com"}, Serial: 1}),
		"rsa cert":    RSA(3072).Certify(RSA(2048), Cert{Principals: []string{"op@example.com"}}),
	}
}

// TestOpenSSHAccepts signs with every kind of key and lets ssh-keygen judge.
func TestOpenSSHAccepts(t *testing.T) {
	dir := t.TempDir()
	signers := Ed25519("ca").Line("*", "cert-authority") + RSA(2048).Line("*", "cert-authority")
	for _, k := range keys() {
		signers += k.Plain().Line("op@example.com", "")
	}
	write(t, filepath.Join(dir, "signers"), []byte(signers))
	for name, k := range keys() {
		for _, hash := range []string{"sha256", "sha512"} {
			sig := filepath.Join(dir, "sig")
			write(t, sig, Armor(Sign([]byte("message\n"), k, "git", hash, "").Marshal()))
			for message, want := range map[string]bool{"message\n": true, "other\n": false} {
				cmd := exec.Command("ssh-keygen", "-Y", "verify", "-n", "git", "-I", "op@example.com", "-f", filepath.Join(dir, "signers"), "-s", sig)
				cmd.Stdin = strings.NewReader(message)
				out, err := cmd.CombinedOutput()
				if (err == nil) != want {
					t.Errorf("%s %s %q: %v\n%s", name, hash, message, err, out)
				}
			}
		}
	}
}

// TestSameBytesAsGit signs with git and with this package.
func TestSameBytesAsGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		dir := t.TempDir()
		k := Ed25519("op")
		key := filepath.Join(t.TempDir(), "key")
		write(t, key, k.PEM())
		git := func(stdin string, args ...string) string {
			cmd := exec.Command("git", append([]string{"-C", dir, "-c", "gpg.format=ssh", "-c", "user.signingkey=" + key}, args...)...)
			cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir,
				"GIT_AUTHOR_NAME=Op", "GIT_AUTHOR_EMAIL=op@example.com", "GIT_AUTHOR_DATE=1700000000 +0000",
				"GIT_COMMITTER_NAME=Op", "GIT_COMMITTER_EMAIL=op@example.com", "GIT_COMMITTER_DATE=1700000000 +0000")
			cmd.Stdin = strings.NewReader(stdin)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, stderr.Bytes())
			}
			return string(out)
		}
		git("", "init", "-q", "--object-format="+format)
		tree := strings.TrimSpace(git("", "hash-object", "-t", "tree", "-w", "--stdin"))
		id := strings.TrimSpace(git("", "commit-tree", "-S", "-m", "Subject\n\nBody", tree))
		payload := Commit{Tree: tree, Message: "Subject\n\nBody\n"}.Bytes()
		header := map[string]string{"sha1": "gpgsig", "sha256": "gpgsig-sha256"}[format]
		want := string(SignCommitHeader(payload, header, Armor(Sign(payload, k, "git", "sha512", "").Marshal())))
		if got := git("", "cat-file", "commit", id); got != want {
			t.Errorf("%s: git wrote\n%s\nthis package\n%s", format, got, want)
		}
		git("", "tag", "-s", "-m", "Release", "v1", id)
		got := git("", "cat-file", "tag", "v1")
		unsigned := got[:strings.Index(got, "-----BEGIN")]
		if want := string(SignTag([]byte(unsigned), k)); got != want {
			t.Errorf("%s: git wrote\n%s\nthis package\n%s", format, got, want)
		}
	}
}

// TestDeterministic pins one key of each kind, so that recorded signatures
// stay valid.
func TestDeterministic(t *testing.T) {
	for name, want := range map[string]string{
		"ed25519":    "SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4",
		"ecdsa521":   "SHA256:7rIVhT/T+X1MP59G+/OO3Mt1h4ATWsaCUi+EYFLPSrI",
		"rsa3072":    "SHA256:Wrj6YoQbZgfvDRLz/2vJE/nWnzjg718GmbHRGcWBECA",
		"sk-ed25519": "SHA256:CqD/feYZlUBB1juqVWi5oP/Gm2qvnzcbCleiRiJLF9U",
		"sk-ecdsa":   "SHA256:AullgNjGNPqBooiCuKGE4EZi2DaseNLzT/iZhMHgEHE",
	} {
		if got := keys()[name].Fingerprint(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	at := Cert{Principals: []string{"op"}, After: time.Unix(1, 0), Before: time.Unix(2, 0)}
	for name, k := range keys() {
		a, b := Sign([]byte("m"), k, "git", "sha512", "").Marshal(), Sign([]byte("m"), keys()[name], "git", "sha512", "").Marshal()
		if !bytes.Equal(a, b) {
			t.Errorf("%s: two signatures", name)
		}
		if !bytes.Equal(k.Certify(RSA(2048), at).PublicKey().Marshal(), k.Certify(RSA(2048), at).PublicKey().Marshal()) {
			t.Errorf("%s: two certificates", name)
		}
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
