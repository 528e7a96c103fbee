package bundle

import (
	"io"
	"time"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/sshsign"
)

// Codes of detached signatures (docs/spec/agentbundle.md#checksum-and-signature).
const (
	SignatureFormat    = "signature-format"
	SignatureNamespace = "signature-namespace"
	SignatureUntrusted = "signature-untrusted"
	SignatureInvalid   = "signature-invalid"
	SignatureMissing   = "signature-missing"

	NoteUnsigned = "unsigned"
)

// SignatureRules say whose detached signature a bundle file must carry.
type SignatureRules struct {
	Namespace string           // "agent-bundle", "rigbundle"
	Signers   *sshsign.Signers // nil: nobody is trusted or asked for
	Revoked   *sshsign.Revocations
	Signer    string    // the principal asked for; "" is anyone listed
	Require   bool      // no signature is a fault
	Now       time.Time // at which key and line must be valid
}

// minRSABits admits what ssh-keygen made by default before OpenSSH 8.0.
const minRSABits = 2048

// Check judges the armored signature of a file, the content of FILE.sig, nil
// if there is none, in the order format, namespace, trust, mathematics. Lines
// of certificate authorities do not count. A signature that nobody is
// configured to trust is not judged. The file is read only for the
// mathematics; the error is that of reading it.
func (s *SignatureRules) Check(file io.Reader, armored []byte) (*Finding, []Note, error) {
	if armored == nil {
		switch {
		case s.Require:
			return Faultf(SignatureMissing, "", "there is no signature, one is required"), nil, nil
		case s.Signers != nil:
			return nil, []Note{{Code: NoteUnsigned, Detail: "nobody has signed the file"}}, nil
		}
		return nil, nil, nil
	}
	if s.Signers == nil {
		return nil, nil, nil
	}
	o := sshsign.Options{Namespace: s.Namespace, At: s.Now, MinRSABits: minRSABits}
	v, err := sshsign.VerifyReader(file, armored, s.Signers, s.Revoked, o)
	if err != nil {
		return nil, nil, err
	}
	code := signatureCode(v)
	if code == "" || code == SignatureInvalid {
		if trust := s.Signers.Judge(v.Key, s.Revoked, o); s.Signer != "" && !trust.Speaks(s.Signer) {
			return Faultf(SignatureUntrusted, "", "the key %s does not speak for %s", v.Fingerprint, finding.QuoteMax(s.Signer, 100)), nil, nil
		}
	}
	if code == "" {
		return nil, nil, nil
	}
	return Faultf(code, "", "the signature is not accepted: %s", v.Why()), nil, nil
}

// signatureCode is the code of a verdict, "" if it is good. What is wrong
// before any line of the signers file was found is a matter of form.
func signatureCode(v sshsign.Verdict) string {
	switch v.Reason {
	case sshsign.WrongNamespace:
		return SignatureNamespace
	case sshsign.UnknownKey, sshsign.NotYetValid, sshsign.Expired, sshsign.Revoked, sshsign.CertificateRefused:
		return SignatureUntrusted
	case sshsign.UnsupportedType:
		if v.Key != nil {
			return SignatureUntrusted
		}
	case sshsign.BadSignature, sshsign.Good:
		switch {
		case v.Certificate != nil && v.Line > 0:
			return SignatureUntrusted
		case v.Good():
			return ""
		case v.Line > 0:
			return SignatureInvalid
		}
	}
	return SignatureFormat
}
