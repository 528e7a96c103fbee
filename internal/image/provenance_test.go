package image

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/bundle"
	"github.com/rigward/rigward/pkg/sshsign"
)

// sealer signs with a key of its own, and rules trust it.
func sealer(t testing.TB, name, namespace string) (func([]byte) ([]byte, string, error), bundle.SignatureRules) {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		t.Fatal(err)
	}
	signers, err := sshsign.ParseSigners([]byte("op@example.com " + string(ssh.MarshalAuthorizedKey(signer.PublicKey()))))
	if err != nil {
		t.Fatal(err)
	}
	return func(text []byte) ([]byte, string, error) {
		sig, err := sshsig.Sign(bytes.NewReader(text), signer, sshsig.HashSHA512, namespace)
		if err != nil {
			return nil, "", err
		}
		return sshsign.Armor(sig.Marshal()), "key", nil
	}, bundle.SignatureRules{Signers: signers, Now: time.Unix(1_800_000_000, 0)}
}

// TestEnvelopes: a statement counts if who is trusted signed these bytes of it, for this use, about this bundle.
func TestEnvelopes(t *testing.T) {
	file, tar := bundle.Sum([]byte("file")), bundle.Sum([]byte("tar"))
	sign, rules := sealer(t, "one", ProvenanceNamespace)
	seal := func(s *Statement, by func([]byte) ([]byte, string, error)) []byte {
		e, err := s.Seal(by)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	good := seal(RebuildStatement("x.tar.gz", file, tar, "1"), sign)
	if err := CheckEnvelope(good, rules, file, tar); err != nil {
		t.Fatal(err)
	}
	stranger, _ := sealer(t, "two", ProvenanceNamespace)
	elsewhere, _ := sealer(t, "one", "agent-bundle")
	other := RebuildStatement("x.tar.gz", file, tar, "1")
	other.PredicateType = "https://example.com/guess"
	for name, e := range map[string][]byte{
		"of a stranger":          seal(RebuildStatement("x.tar.gz", file, tar, "1"), stranger),
		"signed for another use": seal(RebuildStatement("x.tar.gz", file, tar, "1"), elsewhere),
		"about another file":     seal(RebuildStatement("x.tar.gz", tar, tar, "1"), sign),
		"about another stream":   seal(RebuildStatement("x.tar.gz", file, file, "1"), sign),
		"of another kind":        seal(other, sign),
		"changed":                bytes.Replace(good, []byte(`"payload":"ey`), []byte(`"payload":"fy`), 1),
		"without signatures":     good[:bytes.Index(good, []byte(`,"signatures"`))],
		"of another payload":     bytes.Replace(good, []byte("in-toto"), []byte("other"), 1),
	} {
		if err := CheckEnvelope(e, rules, file, tar); err == nil {
			t.Errorf("an envelope %s counts", name)
		}
	}
	many := bytes.Replace(good, []byte(`"signatures":[`), []byte(`"signatures":[`+strings.Repeat(`{"sig":"eA=="},`, 3)), 1)
	if err := CheckEnvelope(many, rules, file, tar); err != nil {
		t.Errorf("a good signature among bad ones: %v", err)
	}
}

// FuzzEnvelope: nobody but the signer makes an envelope that counts.
func FuzzEnvelope(f *testing.F) {
	file, tar := bundle.Sum([]byte("file")), bundle.Sum([]byte("tar"))
	sign, rules := sealer(f, "one", ProvenanceNamespace)
	e, err := RebuildStatement("x.tar.gz", tar, file, "1").Seal(sign) // about another bundle
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e)
	hash, made := v1.Hash{Algorithm: "sha256", Hex: file.Hex()}, []Made{{Base: tar.String(), Bundle: tar.String()}}
	if e, err = imageStatement("x", v1.Hash{Algorithm: "sha256", Hex: tar.Hex()}, made, "1").Seal(sign); err != nil { // about another image
		f.Fatal(err)
	}
	f.Add(e)
	f.Fuzz(func(t *testing.T, data []byte) {
		if CheckEnvelope(data, rules, file, tar) == nil || CheckImageEnvelope(data, rules, hash, made) == nil {
			t.Fatalf("%q counts", data)
		}
	})
}

// FuzzArtifact: no manifest of an artifact makes the reader panic, and what it gives can be fetched.
func FuzzArtifact(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"artifactType":"application/vnd.rigward.agent-bundle.v1","layers":[{"digest":"sha256:` + strings.Repeat("0", 64) + `","size":3}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := onlyBlob(data, types.OCIManifestSchema1, bundleType, nil); err == nil && (len(d.Digest.Hex) != 64 || d.Size < 0 || len(d.URLs) > 0) {
			t.Fatalf("%+v", d)
		}
	})
}
