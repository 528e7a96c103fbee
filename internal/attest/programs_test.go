package attest

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"golang.org/x/mod/sumdb/tlog"
	"google.golang.org/protobuf/encoding/protojson"
)

func base64of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func removeState(s *site) error { return os.Remove(filepath.Join(Dir(s.Dir), "state.json")) }

// treeHash is the root of the tree of the first n numbers, by tlog.
func treeHash(t *testing.T, n int) tlog.Hash {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (hashes []tlog.Hash, err error) {
		for _, i := range indexes {
			hashes = append(hashes, stored[i])
		}
		return hashes, nil
	})
	for i := range n {
		more, err := tlog.StoredHashes(int64(i), []byte(itoa(i)), reader)
		must(t, err)
		stored = append(stored, more...)
	}
	root, err := tlog.TreeHash(int64(n), reader)
	must(t, err)
	return root
}

func itoa(i int) string { data, _ := json.Marshal(i); return string(data) }

// dsseKey is a Key as the library of DSSE wants it.
type dsseKey struct{ *Key }

func (k dsseKey) Sign(_ context.Context, data []byte) ([]byte, error) {
	return k.private.Sign(nil, data, crypto.Hash(0))
}
func (k dsseKey) Verify(_ context.Context, data, sig []byte) error {
	if !(&Signed{sig: sig}).by(k.Key.Public, data) {
		return os.ErrInvalid
	}
	return nil
}
func (k dsseKey) KeyID() (string, error)   { return k.ID, nil }
func (k dsseKey) Public() crypto.PublicKey { return k.private.Public() }

// TestLibraries holds envelope, encoding and statement equal to go-securesystemslib
// and in-toto/attestation.
func TestLibraries(t *testing.T) {
	t.Parallel()
	s := newSite(t, "one", "gate")
	s.Run("update-ref", "refs/heads/begun", s.commit(main))
	s.push(t, main)
	s.push(t, main, "refs/tags/v1")
	s.sign(t)
	s.Run("update-ref", "refs/heads/gap", s.commit(main))
	s.sign(t)
	key := dsseKey{s.signer.Key}
	verifier, err := dsse.NewEnvelopeVerifier(key)
	must(t, err)
	signer, err := dsse.NewEnvelopeSigner(key)
	must(t, err)
	lines := s.lines(t)
	for _, line := range lines {
		var e dsse.Envelope
		must(t, json.Unmarshal(line, &e))
		_, err := verifier.Verify(context.Background(), &e)
		must(t, err)
		own, err := parse(line)
		must(t, err)
		again, err := signer.SignPayload(context.Background(), payloadType, own.Payload)
		must(t, err)
		// Fields of an object may come in any order; ours is as the specification has it.
		if theirs, err := encode(again); err != nil || !sameJSON(theirs, line) {
			t.Errorf("the library makes %s, we make %s", theirs, line)
		}
		e.Payload = base64of(append([]byte(" "), own.Payload...))
		if _, err := verifier.Verify(context.Background(), &e); err == nil {
			t.Error("control: the library takes an altered payload")
		}
		var statement intoto.Statement
		must(t, protojson.Unmarshal(own.Payload, &statement))
		must(t, statement.Validate())
		predicate, err := statement.Predicate.MarshalJSON()
		must(t, err)
		var summary vsa.VerificationSummary
		must(t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(predicate, &summary))
		if summary.VerificationResult != own.Predicate.VerificationResult || summary.ResourceUri != s.signer.URI || summary.Verifier.Id != verifierID || len(summary.VerifiedLevels) == 0 ||
			summary.TimeVerified.AsTime().IsZero() || summary.Policy.Uri == "" {
			t.Errorf("read as %v", &summary)
		}
		if statement.Type != statementType || statement.PredicateType != predicateType {
			t.Errorf("types %s, %s", statement.Type, statement.PredicateType)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d statements", len(lines))
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

// reader is a second reader of a chain, which shares nothing with the first one:
// python, with the signatures of securesystemslib.
const reader = `
import base64, hashlib, json, sys
from securesystemslib import keys
public = {"keytype": "ed25519", "scheme": "ed25519", "keyid": sys.argv[1], "keyval": {"public": sys.argv[1], "private": ""}}
before, at = "", {}
for n, line in enumerate(sys.stdin.buffer.read().splitlines()):
    e = json.loads(line)
    payload, kind = base64.b64decode(e["payload"], validate=True), e["payloadType"].encode()
    pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    sig = base64.b64decode(e["signatures"][0]["sig"], validate=True).hex()
    if not keys.verify_signature(public, {"keyid": sys.argv[1], "sig": sig}, pae):
        sys.exit("statement %d: signature" % n)
    s = json.loads(payload)
    u = s["predicate"]["https://github.com/rigward/rigward/attestation/v1"]
    if u["sequence"] != n or u.get("previous", "") != before:
        sys.exit("statement %d: order" % n)
    before = hashlib.sha256(payload).hexdigest()
    for m in u["moves"]:
        if at.get(m["ref"], "0" * len(m["old"])) != m["old"]:
            sys.exit("statement %d: update" % n)
        at[m["ref"]] = m["new"]
print(n + 1, before)
`

// TestSecondProgram lets python read chains, good ones and altered ones, and
// compares what it finds.
func TestSecondProgram(t *testing.T) {
	t.Parallel()
	python := ""
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import securesystemslib.keys").Run() == nil {
			python = name
			break
		}
	}
	if python == "" {
		t.Skip("python3 with securesystemslib is not installed (Debian: python3-securesystemslib)")
	}
	s := newSite(t, "one", "gate")
	for range 3 {
		s.push(t, main, "refs/heads/b")
	}
	s.sign(t)
	lines := s.lines(t)
	own := func(lines [][]byte) string {
		c, found := verified(lines, s.ring)
		if len(found) > 0 {
			return "refused"
		}
		return itoa(int(c.Size)) + " " + c.Last
	}
	for name, lines := range map[string][][]byte{
		"as it is": lines, "altered": alter(t, append([][]byte(nil), lines...), 1), "dropped": {lines[0], lines[2]}, "reordered": {lines[1], lines[0], lines[2]},
		"replayed": append(append([][]byte(nil), lines...), replay(t, s, lines)),
	} {
		cmd := exec.Command(python, "-c", reader, hex.EncodeToString(raw(s.signer.Key.Public)))
		text := ""
		for _, l := range lines {
			text += string(l) + "\n"
		}
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		got := strings.TrimSpace(string(out))
		if err != nil {
			got = "refused"
		}
		if want := own(lines); got != want || (name == "as it is") == (got == "refused") {
			t.Errorf("%s: python says %s (%v), we say %s", name, got, err, want)
		}
	}
}

// FuzzParse: what is taken is taken in one form only, and signs what it shows.
func FuzzParse(f *testing.F) {
	s := newSite(f, "one", "gate")
	s.push(f, main, "refs/heads/b")
	s.sign(f)
	for _, line := range s.lines(f) {
		f.Add(line)
		signed, err := parse(line)
		must(f, err)
		f.Add(signed.Payload)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		wrapped, err := s.signer.Key.Sign(data) // a payload of anything, well signed
		must(t, err)
		for _, line := range [][]byte{data, wrapped} {
			var c Chain
			_, _ = c.Add(line, s.ring)
			own, err := parse(line)
			if err != nil {
				continue
			}
			payload, err := encode(&own.Statement)
			must(t, err)
			if string(payload) != string(own.Payload) || len(own.Subject) == 0 {
				t.Errorf("%s is taken, and is %s", own.Payload, payload)
			}
		}
	})
}
