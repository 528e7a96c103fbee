package bundle

import (
	"bytes"
	"crypto/elliptic"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
	"github.com/rigward/rigward/pkg/sshsign"
)

// TestSignatureRules has each refusal and its neighbour that is fine, in the
// order format, namespace, trust, mathematics.
func TestSignatureRules(t *testing.T) {
	const ns = "agent-bundle"
	message := []byte("the bytes of a bundle\x00")
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	key, other, ca := testkeys.Ed25519("release"), testkeys.Ed25519("other"), testkeys.Ed25519("ca")
	sign := func(k *testkeys.Key, namespace, text string) string {
		return string(testkeys.Armor(testkeys.Sign([]byte(text), k, namespace, "sha512", "").Marshal()))
	}
	good := sign(key, ns, string(message))
	cert := key.Certify(ca, testkeys.Cert{KeyID: "id", Principals: []string{"release@example.com"}})
	line := key.Line("release@example.com", "")
	for _, c := range []struct{ name, signers, armored, signer, code string }{
		{"good", line, good, "", "ok"},
		{"good by name", line, good, "release@example.com", "ok"},
		{"wildcard", key.Line("*@example.com,!ci@example.com", ""), good, "release@example.com", "ok"},
		{"negated", key.Line("*@example.com,!release@example.com", ""), good, "release@example.com", SignatureUntrusted},
		{"another signer", line, good, "ci@example.com", SignatureUntrusted},
		{"another signer of other bytes", line, sign(key, ns, "x"), "ci@example.com", SignatureUntrusted},
		{"other bytes", line, sign(key, ns, "x"), "", SignatureInvalid},
		{"other bytes by name", line, sign(key, ns, "x"), "release@example.com", SignatureInvalid},
		{"unknown key", line, sign(other, ns, string(message)), "", SignatureUntrusted},
		{"namespace allowed", key.Line("r", `namespaces="git,agent-bundle"`), good, "", "ok"},
		{"namespace not allowed", key.Line("r", `namespaces="git"`), good, "", SignatureUntrusted},
		{"made for another namespace", line, sign(key, "rigbundle", string(message)), "", SignatureNamespace},
		{"another namespace, unknown key, other bytes", line, sign(other, "git", "x"), "", SignatureNamespace},
		{"within its dates", key.Line("r", `valid-after="20260101Z",valid-before="20270101Z"`), good, "", "ok"},
		{"expired", key.Line("r", `valid-before="20260101Z"`), good, "", SignatureUntrusted},
		{"not yet valid", key.Line("r", `valid-after="20270101Z"`), good, "", SignatureUntrusted},
		{"certificate of a listed authority", ca.Line("*", "cert-authority"), sign(cert, ns, string(message)), "", SignatureUntrusted},
		{"certificate beside its plain key", line + ca.Line("*", "cert-authority"), sign(cert, ns, string(message)), "", SignatureUntrusted},
		{"plain key of an authority line", key.Line("r", "cert-authority"), good, "", SignatureUntrusted},
		{"empty", line, "", "", SignatureFormat},
		{"plain text", line, "signed, honestly\n", "", SignatureFormat},
		{"CRLF", line, strings.ReplaceAll(good, "\n", "\r\n"), "", SignatureFormat},
		{"text before", line, "x\n" + good, "", SignatureFormat},
		{"text after", line, good + "x\n", "", SignatureFormat},
		{"two signatures", line, good + good, "", SignatureFormat},
		{"no final line feed", line, strings.TrimSuffix(good, "\n"), "", SignatureFormat},
		{"armor around something else", line, string(testkeys.Armor([]byte("SSHSIG"))), "", SignatureFormat},
		{"ECDSA", testkeys.ECDSA("e", elliptic.P256()).Line("r", ""), sign(testkeys.ECDSA("e", elliptic.P256()), ns, string(message)), "", "ok"},
		{"RSA of 2048 bits", testkeys.RSA(2048).Line("r", ""), sign(testkeys.RSA(2048), ns, string(message)), "", "ok"},
		{"RSA of 1024 bits", testkeys.RSA(1024).Line("r", ""), sign(testkeys.RSA(1024), ns, string(message)), "", SignatureUntrusted},
		{"security key", testkeys.SKEd25519("s").Line("r", ""), sign(testkeys.SKEd25519("s").WithFlags(1), ns, string(message)), "", "ok"},
		{"security key nobody touched", testkeys.SKEd25519("s").Line("r", ""), sign(testkeys.SKEd25519("s").WithFlags(0), ns, string(message)), "", SignatureInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			signers, err := sshsign.ParseSigners([]byte(c.signers))
			if err != nil {
				t.Fatal(err)
			}
			rules := SignatureRules{Namespace: ns, Signers: signers, Signer: c.signer, Now: now}
			f, _, err := rules.Check(bytes.NewReader(message), []byte(c.armored))
			if err != nil {
				t.Fatal(err)
			}
			code := "ok"
			if f != nil {
				code = f.Code
				t.Log(f.Message)
			}
			if code != c.code {
				t.Errorf("code %s, want %s", code, c.code)
			}
		})
	}

	signers, err := sshsign.ParseSigners([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	rules := SignatureRules{Namespace: ns, Signers: signers, Now: now}
	if f, notes, err := rules.Check(bytes.NewReader(message), nil); f != nil || err != nil || len(notes) != 1 || notes[0].Code != NoteUnsigned {
		t.Errorf("unsigned: %v %v %v", f, notes, err)
	}
	for name, c := range map[string]struct{ revoked, code string }{
		"the key":     {key.Authorized(), SignatureUntrusted},
		"another key": {other.Authorized(), ""},
		"nobody":      {"# nobody\n", ""},
	} {
		list, err := sshsign.ParseRevocations([]byte(c.revoked + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		for _, signer := range []string{"", "release@example.com"} {
			rules := SignatureRules{Namespace: ns, Signers: signers, Revoked: list, Signer: signer, Now: now}
			f, _, err := rules.Check(bytes.NewReader(message), []byte(good))
			if err != nil || f != nil && f.Code != c.code || f == nil && c.code != "" {
				t.Errorf("%s is revoked: %v %v", name, f, err)
			}
		}
	}
	broken := errors.New("disk")
	if f, _, err := rules.Check(iotest.ErrReader(broken), []byte(good)); !errors.Is(err, broken) || f != nil {
		t.Errorf("a file that cannot be read: %v %v", f, err)
	}
	rules.Require = true
	if f, _, err := rules.Check(bytes.NewReader(message), nil); f == nil || f.Code != SignatureMissing || err != nil {
		t.Errorf("missing: %v %v", f, err)
	}
	if f, notes, err := (&SignatureRules{Namespace: ns, Now: now}).Check(bytes.NewReader(message), []byte("x")); f != nil || notes != nil || err != nil {
		t.Errorf("nobody configured: %v %v %v", f, notes, err)
	}
}

// TestSignatureOfSSHKeygen: what ssh-keygen signs is accepted.
func TestSignatureOfSSHKeygen(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "bundle")
	if err := os.WriteFile(file, []byte("bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		key := filepath.Join(dir, kind)
		for _, args := range [][]string{{"-q", "-t", kind, "-N", "", "-f", key}, {"-q", "-Y", "sign", "-f", key, "-n", "agent-bundle", file}} {
			if out, err := exec.Command(keygen, args...).CombinedOutput(); err != nil {
				t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
			}
		}
		armored, err := os.ReadFile(file + ".sig")
		if err != nil {
			t.Fatal(err)
		}
		pub, err := os.ReadFile(key + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		signers, err := sshsign.ParseSigners(append([]byte("me@example.com "), pub...))
		if err != nil {
			t.Fatal(err)
		}
		rules := SignatureRules{Namespace: "agent-bundle", Signers: signers, Signer: "me@example.com", Now: time.Unix(1_700_000_000, 0)}
		if f, _, err := rules.Check(strings.NewReader("bytes"), armored); f != nil || err != nil {
			t.Errorf("%s: %v %v", kind, f, err)
		}
		if err := os.Remove(file + ".sig"); err != nil {
			t.Fatal(err)
		}
	}
}
