package sshsign

import (
	"bytes"
	"crypto/rsa"
	"fmt"
	"math/big"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/pkg/finding"
)

// wireSignature is the SSHSIG blob of OpenSSH PROTOCOL.sshsig.
type wireSignature struct {
	Magic         [6]byte
	Version       uint32
	PublicKey     []byte
	Namespace     string
	Reserved      []byte
	HashAlgorithm string
	Signature     []byte
}

// parseSignature reads a blob, or returns a verdict with a reason. What it
// returns has one encoding only, a key of a supported type, and a signature
// algorithm that belongs to that type. A key that is listed has been read already, and is
// known.
func parseSignature(blob []byte, s *Signers) (sig *sshsig.Signature, known *listed, v Verdict) {
	var w wireSignature
	if err := ssh.Unmarshal(blob, &w); err != nil || w.Magic != [6]byte{'S', 'S', 'H', 'S', 'I', 'G'} {
		return nil, nil, Verdict{Reason: BadSignature, Detail: "the armor does not hold an SSH signature"}
	}
	if w.Version != 1 {
		return nil, nil, Verdict{Reason: UnsupportedType, Detail: fmt.Sprintf("version %d of the signature format; there is only 1", w.Version)}
	}
	hash := sshsig.HashAlgorithm(w.HashAlgorithm)
	if hash != sshsig.HashSHA256 && hash != sshsig.HashSHA512 {
		return nil, nil, Verdict{Reason: UnsupportedType, Detail: "the hash algorithm " + finding.QuoteMax(w.HashAlgorithm, 40) + "; sha256 and sha512 are supported"}
	}
	if len(w.Reserved) != 0 {
		return nil, nil, Verdict{Reason: NotCanonical, Detail: "the reserved field of the signature is not empty"}
	}
	var key ssh.PublicKey
	if known = s.key(w.PublicKey); known != nil {
		key = known.key
	} else if key, v = parseBlobKey(w.PublicKey); v.Reason != "" {
		return nil, nil, v
	}
	var made ssh.Signature
	if err := ssh.Unmarshal(w.Signature, &made); err != nil {
		return nil, nil, named(key).refuse(BadSignature, "the signature cannot be read")
	}
	if r, detail := checkForm(plain(key), &made); r != "" {
		return nil, nil, named(key).refuse(r, detail)
	}
	return &sshsig.Signature{Version: 1, PublicKey: key, Namespace: w.Namespace, HashAlgorithm: hash, Signature: &made}, known, Verdict{}
}

// parseBlobKey reads the public key or certificate of a signature.
func parseBlobKey(blob []byte) (ssh.PublicKey, Verdict) {
	var name struct {
		Type string
		Rest []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(blob, &name); err != nil {
		return nil, Verdict{Reason: BadSignature, Detail: "the public key in the signature cannot be read"}
	}
	if !supportedKey(name.Type) && !supportedCertificate(name.Type) {
		return nil, Verdict{Reason: UnsupportedType, Detail: "a key of type " + finding.QuoteMax(name.Type, 60)}
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil || !sound(plain(key)) {
		return nil, Verdict{Reason: BadSignature, Detail: "the public key in the signature cannot be read"}
	}
	if !bytes.Equal(key.Marshal(), blob) {
		return nil, Verdict{Reason: NotCanonical, Detail: "the public key in the signature is not encoded as OpenSSH does"}
	}
	return key, Verdict{}
}

// checkForm tells with which reason a signature by key is refused for its
// algorithm or its encoding, "" if it is not. Some encodings that verify could
// be changed by anybody into others that verify, too; only one is accepted.
func checkForm(key ssh.PublicKey, sig *ssh.Signature) (Reason, string) {
	if !algorithmFits(key.Type(), sig.Format) {
		if key.Type() == ssh.KeyAlgoRSA && sig.Format == ssh.KeyAlgoRSA {
			return UnsupportedType, "an RSA signature with SHA-1; rsa-sha2-256 and rsa-sha2-512 are supported"
		}
		if sig.Format == "webauthn-sk-ecdsa-sha2-nistp256@openssh.com" {
			return UnsupportedType, "a WebAuthn signature"
		}
		return BadSignature, fmt.Sprintf("the signature algorithm %s does not belong to a key of type %s", finding.QuoteMax(sig.Format, 60), key.Type())
	}
	rest := 0
	if isSecurityKey(key) {
		rest = 5 // flags and counter, OpenSSH PROTOCOL.u2f
	}
	if len(sig.Rest) > rest {
		return NotCanonical, "bytes follow the signature in its blob"
	}
	switch key.Type() {
	case ssh.KeyAlgoRSA:
		if len(sig.Blob) != rsaKey(key).Size() {
			return NotCanonical, "the RSA signature is not as long as the modulus"
		}
	case ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256:
		var pair struct{ R, S *big.Int }
		if ssh.Unmarshal(sig.Blob, &pair) != nil {
			return BadSignature, "the ECDSA signature cannot be read"
		}
		if !bytes.Equal(ssh.Marshal(pair), sig.Blob) {
			return NotCanonical, "the ECDSA signature is not encoded as OpenSSH does"
		}
	}
	return "", ""
}

func supportedKey(kind string) bool {
	switch kind {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSA, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return true
	}
	return false
}

func supportedCertificate(kind string) bool {
	switch kind {
	case ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSAv01, ssh.CertAlgoSKED25519v01, ssh.CertAlgoSKECDSA256v01:
		return true
	}
	return false
}

// algorithmFits reports whether a plain key of that type makes signatures of
// that algorithm (RFC 8332 for RSA; elsewhere the names are the same).
func algorithmFits(kind, algorithm string) bool {
	if kind == ssh.KeyAlgoRSA {
		return algorithm == ssh.KeyAlgoRSASHA256 || algorithm == ssh.KeyAlgoRSASHA512
	}
	return algorithm == kind
}

func isSecurityKey(key ssh.PublicKey) bool {
	return key.Type() == ssh.KeyAlgoSKED25519 || key.Type() == ssh.KeyAlgoSKECDSA256
}

// flags returns what a security key says of its user: the bits of OpenSSH's
// PROTOCOL.u2f. security is false for a signature by another kind of key.
func flags(sig *sshsig.Signature) (bits byte, security bool) {
	if !isSecurityKey(plain(sig.PublicKey)) {
		return 0, false
	}
	if len(sig.Signature.Rest) == 0 {
		return 0, true
	}
	return sig.Signature.Rest[0], true
}

// parsePublicKey reads a public key in the one encoding that OpenSSH writes.
func parsePublicKey(blob []byte) (ssh.PublicKey, bool) {
	key, err := ssh.ParsePublicKey(blob)
	if err != nil || !bytes.Equal(key.Marshal(), blob) || !sound(key) {
		return nil, false
	}
	return key, true
}

// sound is false for an RSA modulus that can be none: it would pass for the
// key with the opposite one.
func sound(key ssh.PublicKey) bool {
	k := rsaKey(key)
	return k == nil || k.N.Sign() > 0 && k.N.Bit(0) == 1
}

// rsaKey returns the RSA key in key, nil if it is of another type.
func rsaKey(key ssh.PublicKey) *rsa.PublicKey {
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		k, _ := c.CryptoPublicKey().(*rsa.PublicKey)
		return k
	}
	return nil
}
