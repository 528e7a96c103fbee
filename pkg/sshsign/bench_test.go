package sshsign

import (
	"crypto/ed25519"
	"crypto/elliptic"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/testkeys"
)

// BenchmarkVerifyCommit has the price of the mathematics alone as its first
// case.
func BenchmarkVerifyCommit(b *testing.B) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	sum := make([]byte, 64)
	sig := ed25519.Sign(private, sum)
	b.Run("crypto/ed25519", func(b *testing.B) {
		for b.Loop() {
			if !ed25519.Verify(public, sum, sig) {
				b.Fatal("refused")
			}
		}
	})
	ecdsa := testkeys.ECDSA("op", elliptic.P256())
	rsa := testkeys.RSA(3072)
	cert := keyA.Certify(authority, testkeys.Cert{Principals: []string{"op@example.com"}})
	var many strings.Builder
	for i := range 1000 {
		many.WriteString(testkeys.Ed25519(string(rune('a'+i))).Line("x@example.com", ""))
	}
	s := signers(b, many.String()+usualLines+ecdsa.Line("op@example.com", "")+rsa.Line("op@example.com", "")+authority.Line("*", "cert-authority"))
	r, err := ParseRevocations([]byte(stranger.Authorized()))
	if err != nil {
		b.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"ed25519":     testkeys.SignCommit(message, keyA),
		"ecdsa":       testkeys.SignCommit(message, ecdsa),
		"rsa3072":     testkeys.SignCommit(message, rsa),
		"certificate": testkeys.SignCommit(message, cert),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v := VerifyCommit(raw, SHA1, s, r, Options{}); !v.Good() {
					b.Fatal(v)
				}
			}
		})
	}
	b.Run("unsigned", func(b *testing.B) {
		for b.Loop() {
			VerifyCommit(message, SHA1, s, r, Options{})
		}
	})
}
