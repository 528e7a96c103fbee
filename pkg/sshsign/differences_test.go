package sshsign

import "strings"

// rows are the deliberate differences from ssh-keygen and git: the ids of the
// table in docs/signatures.md and what this package says where they apply.
var rows = []struct {
	id   string
	says []string // a part of the reason, any of them
}{
	{"S2", []string{"is no time after 1970"}},
	{"S3", []string{"the key is not base64", "does not hold a public key as OpenSSH writes it"}},
	{"S4", []string{"an empty principal", `unknown option ""`}},
	{"S5", []string{"a quotation mark within the principals", "text directly after the closing quotation mark"}},
	{"S6", []string{"a NUL byte", "a carriage return within", "a control character"}},
	{"S7", []string{"byte order mark"}},
	{"S8", []string{"a certificate stands where a key is expected"}},
	{"S1", []string{"signers: "}}, // any other line
	{"G1", []string{"which git leaves out of what is signed", "a second gpgsig"}},
	{"G2", []string{"the signature is not the last header"}},
	{"G3", []string{"malformed commit: "}},
	{"G4", []string{"malformed tag: "}},
	{"G5", []string{"header in a tag, whose signature"}},
	{"N1", []string{"the armor is not as ssh-keygen writes it", "the armor is longer"}},
	{"N2", []string{"version 0 of the signature format"}},
	{"N3", []string{"the reserved field", "is not encoded as OpenSSH does", "not as long as the modulus"}},
	{"N4", []string{"an RSA key of"}},
	{"N5", []string{"without the presence of a person"}},
	{"N6", []string{"a WebAuthn signature"}},
	{"N7", []string{"unsupported type: a key of type"}},
	{"C1", []string{"it has critical options"}},
	{"C2", []string{"matches none of its principals"}},
	{"C3", []string{"its authority's signature has an algorithm"}},
	{"C4", []string{"its authority has an RSA key of"}},
	{"C5", []string{"one of its principals is empty"}},
	{"R2", []string{"revocations: it is empty"}},
	{"R4", []string{"revocations: a certificate"}},
	{"R3", []string{"revocations: the key revocation list is signed"}},
}

// rowOf returns the id of the row that explains a refusal, "" if none does.
func rowOf(why string) string {
	for _, row := range rows {
		for _, part := range row.says {
			if strings.Contains(why, part) {
				return row.id
			}
		}
	}
	return ""
}
