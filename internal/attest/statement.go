// Package attest makes and verifies the statements of a server's gates: one signed
// statement for each accepted push, with the digest of the statement before it
// (docs/spec/attestation.md). The forms are those of in-toto (Statement v1), SLSA
// (verification summary of the source track) and DSSE, so that other programs
// verify them, too; a test holds the bytes equal to those libraries.
package attest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Types of what is signed (docs/spec/attestation.md#statement).
const (
	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/verification_summary/v1"
	verifierID    = "https://github.com/rigward/rigward"
)

// A Statement is what a gate says of one push.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Digests are hexadecimal, by the name of their algorithm.
type Digests map[string]string

// A Subject is what a ref got.
type Subject struct {
	Name        string      `json:"name"`
	Digest      Digests     `json:"digest"`
	Annotations Annotations `json:"annotations"`
}

// Annotations name the refs that had a subject when it was verified.
type Annotations struct {
	SourceRefs []string `json:"sourceRefs"`
}

// A Predicate is a verification summary of SLSA, with an extension.
type Predicate struct {
	Verifier           Verifier `json:"verifier"`
	TimeVerified       string   `json:"timeVerified"`
	ResourceURI        string   `json:"resourceUri"`
	Policy             Resource `json:"policy"`
	VerificationResult string   `json:"verificationResult"`
	VerifiedLevels     []string `json:"verifiedLevels"`
	SLSAVersion        string   `json:"slsaVersion"`
	Update             Update   `json:"https://github.com/rigward/rigward/attestation/v1"`
}

// A Verifier is the program that judged.
type Verifier struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version,omitempty"`
}

// A Resource is a file by what it is called and holds.
type Resource struct {
	URI    string  `json:"uri"`
	Digest Digests `json:"digest,omitempty"`
}

// Kinds of statements.
const (
	kindBegin = "begin" // what refs had when the chain began
	kindPush  = "push"  // the gates have accepted it
	kindGap   = "gap"   // refs moved, and no gate was asked
	kindBeat  = "beat"  // nothing happened
)

// An Update is rigward's own part of a statement: its place in the chain, and
// what was verified.
type Update struct {
	Sequence   int64      `json:"sequence"`
	Previous   string     `json:"previous,omitempty"` // SHA-256 of the statement before
	Repository Repository `json:"repository"`
	Kind       string     `json:"kind"`
	Push       string     `json:"push,omitempty"`
	Moves      []Move     `json:"moves"`
	Verified   *Verified  `json:"verified,omitempty"` // of Push
}

// A Repository is told apart from all others.
type Repository struct {
	UUID string `json:"uuid"`
	Root string `json:"root,omitempty"` // the first commit of the default branch's line
}

// A Move is one ref, from what to what; zeros stand for nothing.
type Move struct {
	Ref string `json:"ref"`
	Old string `json:"old"`
	New string `json:"new"`
}

// Verified is what a gate judged a push by, and how much it judged. Digests are
// SHA-256 of files, "" where there is none.
type Verified struct {
	Hook      string   `json:"hook"`
	Head      string   `json:"head,omitempty"` // the default branch's commit before
	Policy    string   `json:"policy,omitempty"`
	Signers   string   `json:"signers,omitempty"`
	Revoked   []string `json:"revoked,omitempty"`
	Rules     string   `json:"rules"` // of "<rule> <severity>\n" for every rule
	Guarded   []string `json:"guarded,omitempty"`
	Commits   int      `json:"commits"`
	Envelopes int      `json:"envelopes"`
	Relays    int      `json:"relays"`
}

// An envelope is a signed statement as DSSE wraps it.
type envelope struct {
	Payload     string      `json:"payload"`
	PayloadType string      `json:"payloadType"`
	Signatures  []signature `json:"signatures"`
}

// A signature is one of an envelope. KeyID is the key's OpenSSH fingerprint.
type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// maxLine is how many bytes an envelope has at the most.
const maxLine = 1 << 20

// encode gives the one form of a value that counts: no spaces, fields in order,
// no escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// preAuth is what DSSE signs: the pre-authentication encoding.
func preAuth(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

// Digest names a statement for the one after it.
func Digest(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// A Key signs statements.
type Key struct {
	private ed25519.PrivateKey
	ID      string // OpenSSH fingerprint
	Public  ssh.PublicKey
}

// ParseKey reads a private key of type ed25519 without a passphrase, in OpenSSH's
// form or as PKCS 8.
func ParseKey(data []byte) (*Key, error) {
	raw, err := ssh.ParseRawPrivateKey(data)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		return nil, errors.New("it has a passphrase, and nobody is there to type it")
	}
	if err != nil {
		return nil, errors.New("it is not a private key")
	}
	k := &Key{}
	switch raw := raw.(type) {
	case ed25519.PrivateKey:
		k.private = raw
	case *ed25519.PrivateKey:
		k.private = *raw
	default:
		return nil, errors.New("it is not of type ed25519")
	}
	if k.Public, err = ssh.NewPublicKey(k.private.Public()); err == nil {
		k.ID = ssh.FingerprintSHA256(k.Public)
	}
	return k, err
}

// Sign wraps a payload, as one line without its end.
func (k *Key) Sign(payload []byte) ([]byte, error) {
	return encode(envelope{
		Payload: base64.StdEncoding.EncodeToString(payload), PayloadType: payloadType,
		Signatures: []signature{{k.ID, base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, preAuth(payload)))}},
	})
}

// raw is the ed25519 key that an OpenSSH one holds, nil if it is of another type.
func raw(key ssh.PublicKey) ed25519.PublicKey {
	c, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return nil
	}
	public, _ := c.CryptoPublicKey().(ed25519.PublicKey)
	return public
}

// A Signed is a statement, and by whom.
type Signed struct {
	Statement
	Payload []byte
	KeyID   string
	sig     []byte
}

// By reports whether this key has signed it.
func (s *Signed) By(key ssh.PublicKey) bool { return s.by(key, preAuth(s.Payload)) }

func (s *Signed) by(key ssh.PublicKey, message []byte) bool {
	public := raw(key)
	return public != nil && ed25519.Verify(public, message, s.sig)
}

// parse reads one line of a chain. It takes exactly the form that is written,
// so that two readers never read two things.
func parse(line []byte) (*Signed, error) {
	if len(line) > maxLine {
		return nil, fmt.Errorf("it has more than %d bytes", maxLine)
	}
	var e envelope
	if err := exact(line, &e); err != nil {
		return nil, err
	}
	if e.PayloadType != payloadType || len(e.Signatures) != 1 {
		return nil, errors.New("its payload type is another one, or it has not one signature")
	}
	s := &Signed{KeyID: e.Signatures[0].KeyID}
	var err error
	if s.Payload, err = unbase64(e.Payload); err != nil {
		return nil, err
	}
	if s.sig, err = unbase64(e.Signatures[0].Sig); err != nil {
		return nil, err
	}
	if err := exact(s.Payload, &s.Statement); err != nil {
		return nil, err
	}
	return s, s.sound()
}

func unbase64(s string) ([]byte, error) {
	data, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("its base64 is malformed")
	}
	return data, nil
}

// exact decodes JSON, and refuses all but the form that encode gives.
func exact(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return errors.New("it is not of the form of a statement")
	}
	again, err := encode(v)
	if err != nil || !bytes.Equal(again, data) {
		return errors.New("it is not in the one form that is written")
	}
	return nil
}

// sound checks what a statement says of itself.
func (s *Statement) sound() error {
	u, p := &s.Predicate.Update, &s.Predicate
	passed := map[string]string{kindBegin: "PASSED", kindPush: "PASSED", kindBeat: "PASSED", kindGap: "FAILED"}[u.Kind]
	switch {
	case s.Type != statementType || s.PredicateType != predicateType:
		return errors.New("it is a statement of another type")
	case passed == "" || p.VerificationResult != passed:
		return errors.New("its kind and its result contradict each other")
	case u.Sequence < 0 || (u.Sequence == 0) != (u.Previous == "") || u.Repository.UUID == "":
		return errors.New("its place in a chain is malformed")
	case (u.Kind == kindPush) != (u.Verified != nil):
		return errors.New("it does not say what was verified")
	case u.Kind != kindBeat && len(u.Moves) == 0:
		return errors.New("it names no ref")
	}
	seen := map[string]bool{}
	for i, m := range u.Moves {
		if seen[m.Ref] || !isID(m.Old) || !isID(m.New) || len(m.Old) != len(m.New) || m.Old == m.New {
			return errors.New("its ref updates are malformed")
		}
		seen[m.Ref] = true
		if i < len(s.Subject) && s.Subject[i].Name != m.Ref {
			return errors.New("its subjects are not what its refs got")
		}
		if i < len(s.Subject) && !has(s.Subject[i].Digest, subjectOf(m)) {
			return errors.New("its subjects are not what its refs got")
		}
	}
	if len(s.Subject) != max(1, len(u.Moves)) {
		return errors.New("its subjects are not what its refs got")
	}
	return nil
}

func has(d Digests, id string) bool {
	for _, v := range d {
		if v != id {
			return false
		}
	}
	return len(d) == 1
}

// subjectOf is the object that a move is about: of a deletion what was there.
func subjectOf(m Move) string {
	if zero(m.New) {
		return m.Old
	}
	return m.New
}

func isID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}

func zero(id string) bool { return strings.Trim(id, "0") == "" }
