package sshsign

import (
	"bytes"
	"encoding/base64"
)

const (
	armorBegin = "-----BEGIN SSH SIGNATURE-----\n"
	armorEnd   = "-----END SSH SIGNATURE-----\n"
	armorWidth = 70 // characters of base64 in a line, as ssh-keygen wraps them

	// maxArmor limits a signature, in bytes of armor. An RSA key of 16384
	// bits with a certificate by another one needs 15 KiB.
	maxArmor = 64 << 10
)

// Armor returns the armored form of an SSHSIG blob exactly as ssh-keygen
// writes it: lines of 70 characters, a final newline.
func Armor(blob []byte) []byte {
	text := base64.StdEncoding.EncodeToString(blob)
	b := make([]byte, 0, len(armorBegin)+len(text)+len(text)/armorWidth+1+len(armorEnd))
	b = append(b, armorBegin...)
	for len(text) > 0 {
		n := min(armorWidth, len(text))
		b = append(b, text[:n]...)
		b = append(b, '\n')
		text = text[n:]
	}
	return append(b, armorEnd...)
}

// Beginnings of the armors that git knows (gpg-interface.c).
var (
	sshArmor     = []byte("-----BEGIN SSH SIGNATURE-----")
	openPGPArmor = [][]byte{[]byte("-----BEGIN PGP SIGNATURE-----"), []byte("-----BEGIN PGP MESSAGE-----")}
	x509Armor    = []byte("-----BEGIN SIGNED MESSAGE-----")
)

// beginsArmor reports whether git takes a line that starts like b for the
// beginning of a signature.
func beginsArmor(b []byte) bool {
	return bytes.HasPrefix(b, sshArmor) || bytes.HasPrefix(b, openPGPArmor[0]) ||
		bytes.HasPrefix(b, openPGPArmor[1]) || bytes.HasPrefix(b, x509Armor)
}

// dearmor returns the blob in armored, or a verdict with a reason.
func dearmor(armored []byte) ([]byte, Verdict) {
	switch {
	case bytes.HasPrefix(armored, openPGPArmor[0]), bytes.HasPrefix(armored, openPGPArmor[1]):
		return nil, Verdict{Reason: UnsupportedType, Detail: "an OpenPGP signature; only SSH signatures are judged"}
	case bytes.HasPrefix(armored, x509Armor):
		return nil, Verdict{Reason: UnsupportedType, Detail: "an X.509 signature; only SSH signatures are judged"}
	case len(armored) > maxArmor:
		return nil, Verdict{Reason: NotCanonical, Detail: "the armor is longer than 64 KiB"}
	}
	const form = "the armor is not as ssh-keygen writes it"
	text, ok := bytes.CutPrefix(armored, []byte(armorBegin))
	if !ok {
		return nil, Verdict{Reason: NotCanonical, Detail: form}
	}
	if text, ok = bytes.CutSuffix(text, []byte(armorEnd)); !ok {
		return nil, Verdict{Reason: NotCanonical, Detail: form}
	}
	blob := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(blob, text) // skips line ends
	if err != nil || !bytes.Equal(Armor(blob[:n]), armored) {
		return nil, Verdict{Reason: NotCanonical, Detail: form}
	}
	return blob[:n], Verdict{}
}
