// Package sshsign says whose signature a git commit, a git tag or a file
// carries.
//
// It takes raw bytes and returns a Verdict: a Reason, and if that is Good the
// key and the principals that the allowed_signers file gives it. Nothing is
// read, started or looked up here, so a verdict is a function of its
// arguments; the time comes in through Options.
//
// A signature is accepted in exactly one form, the one that git and ssh-keygen
// write: a single signature header in the last place, armor equal to its own
// re-encoding, no other header that begins with gpgsig. Whoever holds no key
// therefore cannot turn a signed object into another one that still verifies.
// (ECDSA is the exception that mathematics makes: (r, s) and (r, -s) are both
// signatures of one message.)
//
// Trust is what OpenSSH's allowed_signers and revocation files say. A line
// that cannot be honoured as it stands makes the file an error; it is never
// skipped. Every deliberate difference from ssh-keygen and git is in
// docs/signatures.md, and a test lists them.
//
// All values are immutable once made and may be used by many goroutines.
package sshsign

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
)

// A Reason is the outcome of a verification in the words of docs/signatures.md#reasons.
type Reason string

// Reasons. Only Good is a pass. Unsigned is told apart because a policy may
// allow it.
const (
	Good               Reason = "good"
	Unsigned           Reason = "unsigned"
	UnknownKey         Reason = "unknown key"
	NotYetValid        Reason = "not yet valid"
	Expired            Reason = "expired"
	Revoked            Reason = "revoked"
	WrongNamespace     Reason = "wrong namespace"
	NotCanonical       Reason = "not canonical"
	MalformedCommit    Reason = "malformed commit"
	MalformedTag       Reason = "malformed tag"
	BadSignature       Reason = "bad signature"
	CertificateRefused Reason = "certificate refused"
	UnsupportedType    Reason = "unsupported type"
)

// NamespaceGit is the namespace of signatures of commits and tags.
const NamespaceGit = "git"

// DefaultMinRSABits is the least length of an RSA modulus unless Options says
// otherwise: ssh-keygen's own default since OpenSSH 8.0.
const DefaultMinRSABits = 3072

// Options say what a signature must hold against.
type Options struct {
	// Namespace the signature must be made for; "" means NamespaceGit.
	Namespace string
	// MinRSABits is the least length of an RSA modulus, in bits; 0 means
	// DefaultMinRSABits.
	MinRSABits int
	// At is the time at which key and certificate must be valid. Zero means
	// the committer's (tagger's) date; a detached signature has no date, so
	// there it must be set, else no key is trusted.
	At time.Time
	// Now, unless zero, is a second time at which they must be valid: the
	// time of receipt, which the signer does not choose.
	Now time.Time
}

// A Verdict is the outcome for one signature. Its zero value is not good.
type Verdict struct {
	Reason Reason
	// Detail says more in one clause of printable text, "" if Reason says all.
	Detail string
	// Key is the plain public key that the signature names, also if it is not
	// good; nil if there is none that can be read.
	Key ssh.PublicKey
	// Certificate holds Key if the signature was made with one, else nil.
	Certificate *ssh.Certificate
	// Fingerprint of Key: "SHA256:" and 43 characters of base64.
	Fingerprint string
	// Principals, if Good, has the pattern list of each line that lets the
	// key speak. For a certificate they are those of its own principals that
	// the authority's line matches; they have no pattern characters.
	Principals []string
	// Line in the signers file that decided about trust, counted from 1; 0 if
	// none did. A bad signature by a trusted key has one, too.
	Line int
	// Presence says that a security key (sk-…) made the signature and a person
	// touched it, Verification that it also knew the person, by PIN or finger
	// (OpenSSH, PROTOCOL.u2f). A good signature of such a key has presence.
	Presence, Verification bool
}

// Good reports whether the signature verifies and its key is trusted.
func (v Verdict) Good() bool { return v.Reason == Good }

// Why is the reason of v, with the detail if there is one.
func (v Verdict) Why() string {
	if v.Detail == "" {
		return string(v.Reason)
	}
	return string(v.Reason) + ": " + v.Detail
}

// Speaks reports whether v is good for name: an e-mail address or a rig id that
// one of v's pattern lists matches.
func (v Verdict) Speaks(name string) bool {
	if v.Reason != Good {
		return false
	}
	for _, list := range v.Principals {
		if MatchPrincipals(list, name) {
			return true
		}
	}
	return false
}

// Address returns the e-mail address that v is good for, "" if there is not just
// one.
func (v Verdict) Address() string {
	address := ""
	for _, list := range v.Principals {
		for name := range strings.SplitSeq(list, ",") {
			switch {
			case !strings.Contains(name, "@") || name == address:
			case address != "" || !v.Speaks(name):
				return ""
			default:
				address = name
			}
		}
	}
	if strings.ContainsAny(address, "*?!") {
		return ""
	}
	return address
}

// VerifyCommit judges the signature of a commit. raw is the content of the
// commit object as git cat-file commit prints it, f the repository's object
// format. A nil s lists nobody, a nil r revokes nothing.
func VerifyCommit(raw []byte, f ObjectFormat, s *Signers, r *Revocations, o Options) Verdict {
	c, err := SplitCommit(raw, f)
	if err != nil {
		return Verdict{Reason: MalformedCommit, Detail: err.Error()}
	}
	return c.Verify(s, r, o)
}

// Verify judges the signature of a commit that is already split.
func (c CommitParts) Verify(s *Signers, r *Revocations, o Options) Verdict {
	if c.fault != "" {
		return Verdict{Reason: NotCanonical, Detail: c.fault}
	}
	if c.Signature == nil {
		return Verdict{Reason: Unsigned}
	}
	if o.At.IsZero() {
		o.At = c.Committer.Time()
	}
	return verify(bytes.NewReader(c.Payload), c.Signature, s, r, o)
}

// VerifyTag judges the signature of a tag. raw is the content of the tag
// object as git cat-file tag prints it.
func VerifyTag(raw []byte, f ObjectFormat, s *Signers, r *Revocations, o Options) Verdict {
	t, err := SplitTag(raw, f)
	if err != nil {
		return Verdict{Reason: MalformedTag, Detail: err.Error()}
	}
	return t.Verify(s, r, o)
}

// Verify judges the signature of a tag that is already split.
func (t TagParts) Verify(s *Signers, r *Revocations, o Options) Verdict {
	if t.fault != "" {
		return Verdict{Reason: NotCanonical, Detail: t.fault}
	}
	if t.Signature == nil {
		return Verdict{Reason: Unsigned}
	}
	if o.At.IsZero() {
		if !t.HasTagger {
			return Verdict{Reason: MalformedTag, Detail: "signed, but without a tagger whose date could be compared"}
		}
		o.At = t.Tagger.Time()
	}
	return verify(bytes.NewReader(t.Payload), t.Signature, s, r, o)
}

// VerifyMessage judges a detached signature: the armored file that
// ssh-keygen -Y sign writes beside message. o.Namespace and o.At are set by
// the caller. An empty armored is Unsigned.
func VerifyMessage(message, armored []byte, s *Signers, r *Revocations, o Options) Verdict {
	if len(armored) == 0 {
		return Verdict{Reason: Unsigned}
	}
	return verify(bytes.NewReader(message), armored, s, r, o)
}

// VerifyReader is VerifyMessage for a message that need not be in memory. It
// is read once, and only if all but the mathematics is in order. The error is
// that of reading, with which there is no verdict.
func VerifyReader(message io.Reader, armored []byte, s *Signers, r *Revocations, o Options) (Verdict, error) {
	if len(armored) == 0 {
		return Verdict{Reason: Unsigned}, nil
	}
	m := &readError{r: message}
	v := verify(m, armored, s, r, o)
	if m.err != nil {
		return Verdict{}, m.err
	}
	return v, nil
}

// readError remembers the error that ended a reader.
type readError struct {
	r   io.Reader
	err error
}

func (m *readError) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

// Sign signs message for namespace and returns the armored signature as
// ssh-keygen -Y sign writes it, with SHA-512.
func Sign(message []byte, signer ssh.Signer, namespace string) ([]byte, error) {
	sig, err := sshsig.Sign(bytes.NewReader(message), signer, sshsig.HashSHA512, namespace)
	if err != nil {
		return nil, err
	}
	return Armor(sig.Marshal()), nil
}

// verify goes from form over namespace and trust to mathematics, the dearest.
func verify(payload io.Reader, armored []byte, s *Signers, r *Revocations, o Options) Verdict {
	o = o.withDefaults()
	blob, v := dearmor(armored)
	if v.Reason != "" {
		return v
	}
	sig, known, v := parseSignature(blob, s)
	if v.Reason != "" {
		return v
	}
	if sig.Namespace != o.Namespace {
		v = named(sig.PublicKey)
		v.Reason = WrongNamespace
		v.Detail = fmt.Sprintf("made for the namespace %s, not %s", finding.QuoteMax(sig.Namespace, 60), finding.Quote(o.Namespace))
		return v
	}
	v = s.judge(sig.PublicKey, known, r, o)
	if !v.Good() {
		return v
	}
	bits, security := flags(sig)
	v.Presence, v.Verification = security && bits&1 != 0, security && bits&5 == 5
	if security && !v.Presence {
		return v.refuse(BadSignature, "made without the presence of a person at the security key")
	}
	if sshsig.Verify(payload, sig, sig.PublicKey, sig.HashAlgorithm, o.Namespace) != nil {
		return v.refuse(BadSignature, "the signature does not belong to these bytes")
	}
	return v
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = NamespaceGit
	}
	if o.MinRSABits == 0 {
		o.MinRSABits = DefaultMinRSABits
	}
	return o
}

// named returns a verdict without a reason about key.
func named(key ssh.PublicKey) Verdict { return namedAs(key, nil) }

// namedAs is named for a key that is listed; nil: it may not be.
func namedAs(key ssh.PublicKey, known *listed) Verdict {
	v := Verdict{Key: plain(key)}
	if known != nil {
		v.Fingerprint = known.fingerprint
	} else {
		v.Fingerprint = ssh.FingerprintSHA256(v.Key)
	}
	v.Certificate, _ = key.(*ssh.Certificate)
	return v
}

// plain returns the key in a certificate, and any other key itself.
func plain(key ssh.PublicKey) ssh.PublicKey {
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert.Key
	}
	return key
}

// refuse returns v with another reason and without the rights of a good one.
func (v Verdict) refuse(r Reason, detail string) Verdict {
	v.Reason, v.Detail, v.Principals, v.Presence, v.Verification = r, detail, nil, false, false
	return v
}
