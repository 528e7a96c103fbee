package rye

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"strings"
)

// EncodeKey returns the PEM text of a public key, 113 bytes, of which a
// fingerprint is made (docs/spec/ryebundle.md#keys, RFC 8410 section 4).
func EncodeKey(key ed25519.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err) // only keys of other types give one
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// decodeKey reads a PEM text as EncodeKey writes it, newlines around it aside.
func decodeKey(text string) (ed25519.PublicKey, bool) {
	text = strings.Trim(text, "\n") + "\n"
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, false
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	public, ok := key.(ed25519.PublicKey)
	return public, err == nil && ok && EncodeKey(public) == text
}

// Fingerprint returns the short fingerprint of a key: the first 16 hex digits
// of the SHA-256 of its PEM text.
func Fingerprint(key ed25519.PublicKey) string { return hexSum([]byte(EncodeKey(key)))[:16] }

// LongFingerprint returns the 64 hex digits of the SHA-256 of the key's 32
// bytes. The short one has 64 bits only: where a person decides, show both.
func LongFingerprint(key ed25519.PublicKey) string { return hexSum(key) }

// fingerprintLike returns the fingerprint of key that is as long as fp.
func fingerprintLike(key ed25519.PublicKey, fp string) string {
	if len(fp) == 64 {
		return LongFingerprint(key)
	}
	return Fingerprint(key)
}

// isFingerprint reports whether s has the form of a short or long fingerprint.
func isFingerprint(s string) bool { return isHex(s, 16) || isHex(s, 64) }

// ParsePrivateKey reads an unencrypted Ed25519 key in PKCS#8 PEM.
func ParsePrivateKey(data []byte) (ed25519.PrivateKey, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("the key file is not one unencrypted PKCS#8 PEM block (BEGIN PRIVATE KEY)")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the key file holds no readable PKCS#8 key")
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("the key file holds a key of another type than Ed25519")
	}
	return private, nil
}

// A Pin is a key that is trusted because the caller named it
// (`--trust-fingerprint`): by short or long fingerprint, or in full.
type Pin struct {
	fingerprint string
	key         ed25519.PublicKey // nil if named by fingerprint
}

// ParsePin reads 16 or 64 hex digits, or "ed25519:" and the standard base64 of
// the 32 bytes of a key.
func ParsePin(s string) (Pin, error) {
	if isFingerprint(s) {
		return Pin{fingerprint: s}, nil
	}
	if key, ok := parseKeyText(s); ok {
		return Pin{fingerprint: LongFingerprint(key), key: key}, nil
	}
	return Pin{}, errors.New("a pin is 16 or 64 lower-case hex digits, or ed25519: and the base64 of the 32 bytes of a key")
}

// parseKeyText reads "ed25519:" and canonical standard base64 of a key.
func parseKeyText(s string) (ed25519.PublicKey, bool) {
	b64, ok := strings.CutPrefix(s, keyTextPrefix)
	if !ok {
		return nil, false
	}
	key, err := base64.StdEncoding.Strict().DecodeString(b64)
	if err != nil || len(key) != ed25519.PublicKeySize || keyText(key) != s {
		return nil, false
	}
	return key, true
}

const keyTextPrefix = "ed25519:"

func keyText(key ed25519.PublicKey) string {
	return keyTextPrefix + base64.StdEncoding.EncodeToString(key)
}

// matches reports whether the pin names the key.
func (p Pin) matches(key ed25519.PublicKey) bool {
	return fingerprintLike(key, p.fingerprint) == p.fingerprint
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// verifies reports whether the line's signature over its hash is the key's.
func (l *Line) verifies(key ed25519.PublicKey) bool {
	return ed25519.Verify(key, []byte(l.Hash), l.Signature)
}
