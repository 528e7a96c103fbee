package sshsign

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/internal/test/testkeys"
)

// An example is one input that ssh-keygen or git accepts and this package
// refuses, or the other way round if looser.
type example struct {
	pair        *pair
	commit, tag []byte
	looser      bool
}

// A row is one deliberate difference from ssh-keygen or git, a row of the
// table in docs/signatures.md.
type row struct {
	id   string
	says []string // a part of what this package says, any of them
	// special rows say what others say, too, so they explain no difference
	// that a comparison finds.
	special bool
	example func(t *testing.T) example
}

// rows is the whole table. S1 comes after the other S: it takes the rest.
var rows = []row{
	{id: "S2", says: []string{"is not a time after 1970"}, example: line(func(key string) string {
		return `op@example.com valid-after="20220230" ` + key
	})},
	{id: "S3", says: []string{"signers: the key is not base64", "signers: the base64 does not hold"}, example: line(func(key string) string {
		return "op@example.com " + key[:30] + "\v" + key[30:]
	})},
	{id: "S4", says: []string{"signers: an empty principal", `signers: unknown option ""`}, example: line(func(key string) string {
		return "a,,op@example.com " + key
	})},
	{id: "S5", says: []string{"signers: a quotation mark within the principals", "signers: text directly after the closing quotation mark"}, example: line(func(key string) string {
		return `op"@example.com" ` + key
	})},
	{id: "S6", says: []string{"signers: a NUL byte", "signers: a carriage return within", "signers: a control character"}, example: line(func(key string) string {
		return "op@example.com " + key + " \x00"
	})},
	{id: "S7", says: []string{"signers: it begins with a byte order mark"}, example: line(func(key string) string {
		return "\ufeffx,op@example.com " + key
	})},
	{id: "S8", says: []string{"signers: a certificate stands where a key is expected"}, example: func(*testing.T) example {
		k := keyA.Certify(authority, testkeys.Cert{Principals: []string{"op@example.com"}})
		return by(k, k.Line("op@example.com", ""))
	}},
	{id: "S9", says: []string{"not yet valid: line 1 holds from 2024-01-01T00:00:00Z on"}, special: true, example: func(*testing.T) example {
		e := by(keyA, keyA.Line("op@example.com", `valid-after="20240101"`))
		e.pair.at, e.pair.zone = date("2023-12-31T23:30:00Z"), "Asia/Tokyo"
		return e
	}},
	{id: "S1", says: []string{"signers: "}, example: line(func(key string) string {
		return "op@example.com no-touch-required " + key + "\nop@example.com " + key
	})},
	{id: "N1", says: []string{"the armor is not as ssh-keygen writes it", "the armor is longer"}, example: changed(func(e *example) {
		e.pair.armored += "text\n"
	})},
	{id: "N2", says: []string{"version 0 of the signature format"}, example: signature(func(s *testkeys.Signature) { s.Version = 0 })},
	{id: "N3", says: []string{"the reserved field", "is not encoded as OpenSSH does", "not as long as the modulus"},
		example: signature(func(s *testkeys.Signature) { s.Reserved = "x" })},
	{id: "N4", says: []string{"an RSA key of"}, example: func(*testing.T) example {
		e := by(testkeys.RSA(2048), testkeys.RSA(2048).Line("op@example.com", ""))
		e.pair.minRSABits = DefaultMinRSABits
		return e
	}},
	{id: "N5", says: []string{"without the presence of a person"}, example: func(*testing.T) example {
		k := testkeys.SKEd25519("op").WithFlags(0)
		return by(k, k.Line("op@example.com", ""))
	}},
	{id: "N6", says: []string{"a WebAuthn signature"}, example: webauthn},
	{id: "N7", says: []string{"unsupported type: a key of type", `the key type "ssh-dss" is not supported`}, example: dsa},
	{id: "C1", says: []string{"it has critical options"}, example: certificate(testkeys.Cert{
		Principals: []string{"op@example.com"}, Critical: map[string]string{"force-command": "true"},
	})},
	{id: "C2", says: []string{"matches none of its principals", "the principal of the certificate is a pattern"}, example: func(t *testing.T) example {
		e := certificate(testkeys.Cert{Principals: []string{"*@example.com"}})(t)
		e.pair.principal = "*@example.com"
		return e
	}},
	{id: "C3", says: []string{"its authority's signature has an algorithm"}, example: func(t *testing.T) example {
		ca := testkeys.RSA(3072)
		cert := keyA.Certify(ca, testkeys.Cert{Principals: []string{"op@example.com"}}).PublicKey().(*ssh.Certificate)
		signed := *cert
		signed.Signature = nil
		bytes := signed.Marshal()
		sig, err := ca.SignWithAlgorithm(nil, bytes[:len(bytes)-4], ssh.KeyAlgoRSA)
		if err != nil {
			t.Fatal(err)
		}
		cert.Signature = sig
		e := signature(func(s *testkeys.Signature) { s.PublicKey = cert.Marshal() })(t)
		e.pair.signers = ca.Line("*", "cert-authority")
		return e
	}},
	{id: "C4", says: []string{"its authority has an RSA key of"}, example: func(*testing.T) example {
		k := keyA.Certify(testkeys.RSA(2048), testkeys.Cert{Principals: []string{"op@example.com"}})
		e := by(k, testkeys.RSA(2048).Line("*", "cert-authority"))
		e.pair.minRSABits = DefaultMinRSABits
		return e
	}},
	{id: "C5", says: []string{"one of its principals is empty"}, example: certificate(testkeys.Cert{Principals: []string{"", "op@example.com"}})},
	{id: "R1", says: []string{"good"}, special: true, example: changed(func(e *example) {
		e.pair.revoked, e.looser = keyB.Authorized()+"\r\n\r\n", true
	})},
	{id: "R2", says: []string{"revocations: it is empty"}, example: changed(func(e *example) { e.pair.revoked = "\n" })},
	{id: "R3", says: []string{"revocations: a certificate"}, example: changed(func(e *example) {
		e.pair.revoked = keyB.Certify(authority, testkeys.Cert{Principals: []string{"x"}}).Authorized() + "\n"
	})},
	{id: "R4", says: []string{"revocations: the key revocation list is signed"}, example: changed(func(e *example) {
		list := ssh.Marshal(struct {
			Magic             [8]byte
			Format            uint32
			Version, At, Flag uint64
			Reserved, Comment string
			Section           byte
			Key               []byte
		}{[8]byte([]byte(krlMagic)), 1, 1, 1, 0, "", "", krlSignature, keyB.PublicKey().Marshal()})
		sig, err := keyB.Sign(nil, list)
		if err != nil {
			panic(err)
		}
		e.pair.revoked = string(list) + string(ssh.Marshal(struct{ S []byte }{ssh.Marshal(sig)}))
	})},
	{id: "G1", says: []string{"which git leaves out of what is signed", "a second gpgsig"}, example: commit("\n\nDEC", "\ngpgsigx junk\n\nDEC")},
	{id: "G2", says: []string{"the signature is not the last header"}, example: func(t *testing.T) example {
		payload := testkeys.Commit{Headers: "encoding UTF-8\n", Message: "m\n"}.Bytes()
		armor := testkeys.Armor(testkeys.Sign(payload, keyA, "git", "sha512", "").Marshal())
		moved := testkeys.SignCommitHeader(testkeys.Commit{Message: "m\n"}.Bytes(), "gpgsig", armor)
		return example{commit: replace(t, moved, "-----END SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\nencoding UTF-8\n")}
	}},
	{id: "G3", says: []string{"malformed commit: "}, example: func(*testing.T) example {
		return example{commit: testkeys.SignCommit(testkeys.Commit{Headers: "author Ceo <ceo@example.com> 1 +0000\n", Message: "m\n"}.Bytes(), keyA)}
	}},
	{id: "G4", says: []string{"malformed tag: "}, example: tag("x y\n", "", "")},
	{id: "G5", says: []string{"header in a tag, whose signature"}, example: tag("", "\n\nRelease", "\ngpgsig-sha256 x\n\nRelease")},
	{id: "G6", says: []string{"not yet valid: "}, special: true, example: func(*testing.T) example {
		return example{commit: testkeys.SignCommit(testkeys.Commit{Committer: "Op <op@example.com> 0 +0000"}.Bytes(), keyA)}
	}},
}

// rowOf returns the id of the row that explains a refusal, "" if none does.
func rowOf(why string) string {
	for _, row := range rows {
		if !row.special && row.explains(why) {
			return row.id
		}
	}
	return ""
}

func (r row) explains(why string) bool {
	return slices.ContainsFunc(r.says, func(part string) bool { return strings.Contains(why, part) })
}

// TestDifferences runs the example of every row with ssh-keygen or git and
// with this package, and compares the ids with the table in the docs.
func TestDifferences(t *testing.T) {
	needs(t, "git")
	needs(t, "ssh-keygen")
	repo := newRepository(t, SHA1, linesForGit())
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			e := row.example(t)
			var ours, theirs bool
			var why, out string
			switch {
			case e.pair != nil:
				ours, why = e.pair.ours()
				theirs, out = e.pair.openssh(t, t.TempDir())
			case e.commit != nil:
				v := VerifyCommit(e.commit, SHA1, signers(t, linesForGit()), nil, Options{})
				ours, why = v.Good(), string(v.Reason)+": "+v.Detail
				theirs, out = repo.accepts(t, "commit", "UTC", e.commit)
			default:
				v := VerifyTag(e.tag, SHA1, signers(t, linesForGit()), nil, Options{})
				ours, why = v.Good(), string(v.Reason)+": "+v.Detail
				theirs, out = repo.accepts(t, "tag", "UTC", e.tag)
			}
			if ours != e.looser || theirs == e.looser || !e.looser && !row.explains(why) {
				t.Errorf("ours %v (%s), theirs %v (%s)", ours, why, theirs, out)
			}
		})
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "signatures.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented, known []string
	for line := range strings.Lines(string(data)) {
		if cells := strings.Split(line, "|"); len(cells) > 4 {
			if id := strings.TrimSpace(cells[1]); len(id) == 2 && id != "id" {
				documented = append(documented, id)
			}
		}
	}
	for _, row := range rows {
		known = append(known, row.id)
	}
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("docs/signatures.md has the rows %v, the tests %v", documented, known)
	}
}

// by returns a good signature by k and the signers that are given.
func by(k *testkeys.Key, signers string) example {
	p := &pair{signers: signers, message: "message\n", namespace: "git", principal: "op@example.com", at: date("2024-06-01T00:00:00Z")}
	p.armored = string(testkeys.Armor(testkeys.Sign([]byte(p.message), k, "git", "sha512", "").Marshal()))
	return example{pair: p}
}

func changed(change func(*example)) func(*testing.T) example {
	return func(*testing.T) example {
		e := by(keyA, keyA.Line("op@example.com", ""))
		change(&e)
		return e
	}
}

func line(make func(key string) string) func(*testing.T) example {
	return changed(func(e *example) { e.pair.signers = make(keyA.Authorized()) + "\n" })
}

func signature(change func(*testkeys.Signature)) func(*testing.T) example {
	return changed(func(e *example) {
		sig := testkeys.Sign([]byte(e.pair.message), keyA, "git", "sha512", "")
		change(sig)
		e.pair.armored = string(testkeys.Armor(sig.Marshal()))
	})
}

func certificate(c testkeys.Cert) func(*testing.T) example {
	return func(*testing.T) example {
		return by(keyA.Certify(authority, c), authority.Line("*@example.com", "cert-authority"))
	}
}

func commit(old, new string) func(*testing.T) example {
	return func(t *testing.T) example {
		return example{commit: replace(t, testkeys.SignCommit(message, keyA), old, new)}
	}
}

func tag(headers, old, new string) func(*testing.T) example {
	return func(t *testing.T) example {
		raw := testkeys.SignTag([]byte("object "+testkeys.EmptyTree+"\ntype tree\ntag v1\ntagger Op <op@example.com> 1700000000 +0000\n"+headers+"\nRelease\n"), keyA)
		if old != "" {
			raw = replace(t, raw, old, new)
		}
		return example{tag: raw}
	}
}

// webauthn makes the signature of a browser (OpenSSH PROTOCOL.u2f, "SSH U2F
// Signatures", webauthn-sk-ecdsa-sha2-nistp256@openssh.com).
func webauthn(t *testing.T) example {
	k := testkeys.SKECDSA("op")
	e := by(k, k.Line("op@example.com", ""))
	sum := sha512.Sum512([]byte(e.pair.message))
	data := ssh.Marshal(struct {
		Magic                     [6]byte
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{[6]byte([]byte("SSHSIG")), "git", "", "sha512", sum[:]})
	const origin = "https://example.com"
	client := `{"type":"webauthn.get","challenge":"` + base64.RawURLEncoding.EncodeToString(data) + `","origin":"` + origin + `"}`
	// The authenticator signs SHA-256 of the application, flags, counter and
	// SHA-256 of the client data: what the key signs for data = client.
	raw, err := k.Sign(nil, []byte(client))
	if err != nil {
		t.Fatal(err)
	}
	sig := testkeys.Sign([]byte(e.pair.message), k, "git", "sha512", "")
	sig.Signature = ssh.Marshal(struct {
		Format     string
		Blob       []byte
		Flags      byte
		Counter    uint32
		Origin     string
		Client     string
		Extensions string
	}{"webauthn-sk-ecdsa-sha2-nistp256@openssh.com", raw.Blob, raw.Rest[0], binary.BigEndian.Uint32(raw.Rest[1:]), origin, client, ""})
	e.pair.armored = string(testkeys.Armor(sig.Marshal()))
	return e
}

// dsa makes a signature with a key that only older versions of ssh-keygen
// make; without one there is no difference.
func dsa(t *testing.T) example {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if out, ok := keygen(t, "", "-q", "-t", "dsa", "-N", "", "-f", key); !ok {
		t.Skipf("ssh-keygen makes no DSA keys: %s", out)
	}
	e := by(keyA, keyA.Line("op@example.com", ""))
	file := e.pair.file(t, dir, "message", e.pair.message)
	if out, ok := keygen(t, "", "-q", "-Y", "sign", "-n", "git", "-f", key, file); !ok {
		t.Fatal(out)
	}
	armored, err := os.ReadFile(file + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	theirs := *e.pair
	theirs.armored, theirs.signers = string(armored), "op@example.com "+string(pub)
	if ok, out := theirs.openssh(t, dir); !ok {
		t.Errorf("ssh-keygen refuses its own DSA signature: %s", out)
	}
	if _, why := theirs.ours(); !strings.Contains(why, `the key type "ssh-dss" is not supported`) {
		t.Errorf("the line is refused with %s", why)
	}
	// With a good line beside it: ssh-keygen accepts neither, but here the
	// signature is to be told from a bad one.
	e.pair.armored = string(armored)
	if _, why := e.pair.ours(); !strings.Contains(why, "unsupported type: a key of type") {
		t.Errorf("the signature is refused with %s", why)
	}
	e.pair.signers = "op@example.com " + string(pub)
	return e
}
