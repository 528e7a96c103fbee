package sshsign

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/testkeys"
)

func TestParseSigners(t *testing.T) {
	key := keyA.Authorized()
	for _, test := range []struct {
		name, text string
		want       Signer // without key
	}{
		{"plain", "op@example.com " + key + "\n", Signer{Line: 1, Principals: "op@example.com"}},
		{"no final newline", "op@example.com " + key, Signer{Line: 1, Principals: "op@example.com"}},
		{"CRLF", "# c\r\n\r\nop@example.com " + key + "\r\n", Signer{Line: 3, Principals: "op@example.com"}},
		{"comment", "op@example.com " + key + "  Op's laptop # 2 \n", Signer{Line: 1, Principals: "op@example.com", Comment: "Op's laptop # 2"}},
		{"blanks", " \top@example.com\t \t" + key + "\n", Signer{Line: 1, Principals: "op@example.com"}},
		{"quoted", `"op@example.com,Op X <#>" ` + key, Signer{Line: 1, Principals: "op@example.com,Op X <#>"}},
		{"list", "op@example.com,!x,*@y.?,op-relay " + key, Signer{Line: 1, Principals: "op@example.com,!x,*@y.?,op-relay"}},
		{"authority", "* cert-authority " + key, Signer{Line: 1, Principals: "*", CertAuthority: true}},
		{"options in any case", `* CERT-Authority,NameSpaces="git" ` + key, Signer{Line: 1, Principals: "*", CertAuthority: true, Namespaces: "git", HasNamespaces: true}},
		{"namespaces with blanks and quotes", `* namespaces="a b,\"c" ` + key, Signer{Line: 1, Principals: "*", Namespaces: `a b,"c`, HasNamespaces: true}},
		{"backslash in a value", `* namespaces="a\b" ` + key, Signer{Line: 1, Principals: "*", Namespaces: `a\b`, HasNamespaces: true}},
		{"empty namespaces", `* namespaces="" ` + key, Signer{Line: 1, Principals: "*", HasNamespaces: true}},
		{"dates", `* valid-after="20200229",valid-before="20210101235959Z" ` + key,
			Signer{Line: 1, Principals: "*", ValidAfter: date("2020-02-29T00:00:00Z"), ValidBefore: date("2021-01-01T23:59:59Z")}},
		{"minutes and UTC", `* valid-after="202001010130UTC" ` + key, Signer{Line: 1, Principals: "*", ValidAfter: date("2020-01-01T01:30:00Z")}},
		{"small z", `* valid-after="202001010130z" ` + key, Signer{Line: 1, Principals: "*", ValidAfter: date("2020-01-01T01:30:00Z")}},
		{"bytes that are not UTF-8", "\xffop " + key, Signer{Line: 1, Principals: "\xffop"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := ParseSigners([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			got := s.List()[0]
			if len(s.List()) != 1 || got.Fingerprint() != keyA.Fingerprint() {
				t.Errorf("%d lines, key %s", len(s.List()), got.Fingerprint())
			}
			got.Key = nil
			if got != test.want {
				t.Errorf("got %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// TestSignersRefused is what cannot be honoured as it stands. In each file a
// good line precedes: none is taken.
func TestSignersRefused(t *testing.T) {
	key := keyA.Authorized()
	kind, blob, _ := strings.Cut(key, " ")
	cert := keyA.Certify(authority, testkeys.Cert{Principals: []string{"a"}})
	for _, test := range []struct {
		name, line string
		col        int
		message    string
	}{
		{"no key", "op@example.com", 15, "no key after the principals"},
		{"no key after blanks", "op@example.com \t", 17, "no key after the principals"},
		{"no key after options", "op cert-authority", 18, "no key after the options"},
		{"no base64", "op " + kind, 15, "no base64 after the key type"},
		{"key without principals", key, 1, "the line begins with a key"},
		{"base64 cut", "op " + kind + " " + blob[:20], 16, "does not hold a public key"},
		{"negative RSA modulus", "op ssh-rsa " + base64.StdEncoding.EncodeToString(rsaBlob(new(big.Int).Neg(rsaKey(testkeys.RSA(3072).PublicKey()).N))), 12, "does not hold a public key"},
		{"RSA modulus 0", "op ssh-rsa " + base64.StdEncoding.EncodeToString(rsaBlob(big.NewInt(0))), 12, "does not hold a public key"},
		{"base64 with junk", "op " + kind + " " + blob[:20] + "!" + blob[20:], 16, "not base64"},
		{"base64 with bits in its padding", "op " + testkeys.RSA(2048).Authorized() + "=", 12, "not base64"},
		{"other type", "op ecdsa-sha2-nistp256 " + blob, 4, `the line says ecdsa-sha2-nistp256, the key in it is "ssh-ed25519"`},
		{"DSA", "op ssh-dss AAAAB3NzaC1kc3M=", 4, `the key type "ssh-dss" is not supported`},
		{"type of the future", "op ssh-new AAAAB3NzaC1uZXcAAAABeA==", 4, `the key type "ssh-new" is not supported`},
		{"certificate", "op " + cert.Authorized(), 4, "a certificate stands where a key is expected"},
		{"unknown option", "op verify-required " + key, 4, `unknown option "verify-required"`},
		{"unknown option with value", `op from="10.0.0.1" ` + key, 4, `unknown option "from"`},
		{"unknown option after a known one", `op cert-authority,no-touch-required ` + key, 19, `unknown option "no-touch-required"`},
		{"negated option", "op no-cert-authority " + key, 4, "unknown option"},
		{"empty option", "op cert-authority,,namespaces=\"git\" " + key, 19, `unknown option ""`},
		{"comma at the end", "op cert-authority, " + key, 19, `unknown option ""`},
		{"comma alone", "op , " + key, 4, `unknown option ""`},
		{"value for a flag", `op cert-authority="yes" ` + key, 18, "unexpected text after the option cert-authority"},
		{"option without value", "op namespaces " + key, 14, "the option namespaces needs a value"},
		{"option without quotes", "op namespaces=git " + key, 15, "the option namespaces needs a value"},
		{"open quote", `op namespaces="git ` + key, 0, "no closing quotation mark"},
		{"text after a value", `op namespaces="git"x ` + key, 20, "unexpected text after the option namespaces"},
		{"second namespaces", `op namespaces="git",namespaces="file" ` + key, 21, "a second namespaces option"},
		{"second valid-after", `op valid-after="2020",valid-after="20200101" ` + key, 4, "valid-after is not a time"},
		{"second valid-after, both good", `op valid-after="20200101",valid-after="20200101" ` + key, 27, "a second valid-after option"},
		{"second valid-before", `op valid-before="20200101",valid-before="20200101" ` + key, 28, "a second valid-before option"},
		{"window turned round", `op valid-before="20200101",valid-after="20210101" ` + key, 4, "valid-before is not later than valid-after"},
		{"empty window", `op valid-after="20200101",valid-before="20200101" ` + key, 27, "valid-before is not later than valid-after"},
		{"30 February", `op valid-after="20230230" ` + key, 4, "not a time after 1970"},
		{"29 February", `op valid-after="20230229" ` + key, 4, "not a time after 1970"},
		{"month 13", `op valid-after="20231301" ` + key, 4, "not a time after 1970"},
		{"hour 24", `op valid-after="202301012400" ` + key, 4, "not a time after 1970"},
		{"second 60", `op valid-after="20230101000060" ` + key, 4, "not a time after 1970"},
		{"before the epoch", `op valid-after="19691231" ` + key, 4, "not a time after 1970"},
		{"the epoch", `op valid-after="19700101Z" ` + key, 4, "not a time after 1970"},
		{"digits missing", `op valid-after="2023010" ` + key, 4, "not a time after 1970"},
		{"blanks for digits", `op valid-after="2023 1 1" ` + key, 4, "not a time after 1970"},
		{"a zone", `op valid-after="20230101+0100" ` + key, 4, "not a time after 1970"},
		{"two zones", `op valid-after="20230101ZZ" ` + key, 4, "not a time after 1970"},
		{"empty time", `op valid-after="" ` + key, 4, "not a time after 1970"},
		{"open principals", `"op ` + key, 1, "the quotation mark is never closed"},
		{"quote within principals", `op"x y" ` + key, 3, "a quotation mark within the principals"},
		{"text after quote", `"op"x ` + key, 5, "text directly after the closing quotation mark"},
		{"empty principals", `"" ` + key, 2, "an empty principal"},
		{"empty principal", "a,,b " + key, 1, "an empty principal"},
		{"empty negated principal", "a,! " + key, 1, "an empty principal"},
		{"only negated", "!a,!b " + key, 1, "exclude names but list none"},
		{"endless principal", strings.Repeat("a", 1023) + " " + key, 1, "a principal of 1023 bytes"},
		{"control character", "a\x1bb " + key, 1, "a control character"},
		{"control character in a value", "op namespaces=\"a\x01\" " + key, 17, "a control character in the value of namespaces"},
		{"NUL", "op " + key + " \x00", 85, "a NUL byte"},
		{"NUL in a comment", "# a\x00", 4, "a NUL byte"},
		{"carriage return within", "op " + key + "\rop2 " + key, 84, "a carriage return within the line"},
		{"columns are code points", "öö " + kind, 15, "no base64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := ParseSigners([]byte(keyB.Line("b", "") + test.line + "\n" + keyB.Line("c", "")))
			var e *ParseError
			if s != nil || !errors.As(err, &e) {
				t.Fatalf("%v, %v", s, err)
			}
			if e.Line != 2 || e.Col != test.col && test.col != 0 || !strings.Contains(e.Message, test.message) {
				t.Errorf("line %d, column %d: %s\nwant column %d: %s", e.Line, e.Col, e.Message, test.col, test.message)
			}
			if strings.ContainsAny(e.Error()+e.Hint, "\n\r\x1b\x00") || strings.HasSuffix(e.Message, ".") {
				t.Errorf("%q %q is not one clause", e.Message, e.Hint)
			}
		})
	}
	for name, data := range map[string][]byte{
		"byte order mark": []byte("\xef\xbb\xbf" + keyA.Line("op", "")),
		"too large":       []byte(keyA.Line("op", "") + strings.Repeat("#\n", maxSigners/2)),
	} {
		if s, err := ParseSigners(data); s != nil || err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestHasRigIDs(t *testing.T) {
	for list, want := range map[string]bool{
		"op@example.com": false, "*": false, "op-*": false, "Op": false, "op@example.com,op-relay": true,
		"op-relay,op@example.com": true, "!op-relay,*": false, "o": true, "9op": false, "-op": false, "op_x": false, "op9": true,
	} {
		if got := signers(t, keyA.Line(list, "")).HasRigIDs(); got != want {
			t.Errorf("%s: %v", list, got)
		}
	}
	var none *Signers
	if none.HasRigIDs() || len(none.List()) != 0 {
		t.Error("nil lists somebody")
	}
}

func TestMatchPrincipals(t *testing.T) {
	for _, test := range []struct {
		list, name string
		want       bool
	}{
		{"op@example.com", "op@example.com", true},
		{"op@example.com", "Op@example.com", false},
		{"op@example.com", "op@example.com ", false},
		{"*", "", true},
		{"*", "anybody", true},
		{"?", "", false},
		{"?", "ö", false}, // two bytes
		{"??", "ö", true},
		{"*@example.com", "@example.com", true},
		{"*@example.com", "a@example.com.evil", false},
		{"a*b*c", "aXbXbXc", true},
		{"a*b*c", "aXbX", false},
		{"*a?", "aaab", true},
		{"**a**", "bab", true},
		{"!a,*", "a", false},
		{"*,!a", "a", false},
		{"*,!a", "b", true},
		{"!a", "b", false},
		{"!!a,*", "!a", false},
		{"!!a,*", "a", true},
		{"a,b", "b", true},
		{"a,b", "a,b", false},
		{"a, b", "b", false},
		{"a, b", " b", true},
		{"a,", "", false},
		{"a,,b", "", true},
		{"", "", false},
		{"", "a", false},
		{`\*`, "*", false},
		{`\*`, `\x`, true},
		{strings.Repeat("a", 1022), strings.Repeat("a", 1022), true},
		{strings.Repeat("a", 1023), strings.Repeat("a", 1023), false},
		{strings.Repeat("a", 1023) + ",b", "b", false},
		{"b," + strings.Repeat("a", 1023), "b", false},
	} {
		if got := MatchPrincipals(test.list, test.name); got != test.want {
			t.Errorf("MatchPrincipals(%.40q, %.40q) = %v", test.list, test.name, got)
		}
	}
}

// TestMatchIsNotExponential has patterns that ruin a recursive matcher.
func TestMatchIsNotExponential(t *testing.T) {
	start := time.Now()
	if MatchPrincipals(strings.Repeat("a*", 500)+"b", strings.Repeat("a", 2000)) {
		t.Error("matches")
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("took %v", d)
	}
}

// TestParseIsLinear has files at the limit.
func TestParseIsLinear(t *testing.T) {
	line := keyA.Line("op@example.com", "")
	for name, text := range map[string]string{
		"many lines":      strings.Repeat(line, maxSigners/len(line)),
		"many principals": "\"" + strings.Repeat("a,", maxSigners/2-100) + "a\" " + keyA.Authorized(),
		"one comment":     "#" + strings.Repeat("x", maxSigners-200) + "\n" + line,
		"blanks":          strings.Repeat(" ", maxSigners-200) + line,
		"an open quote":   `op namespaces="` + strings.Repeat("a", maxSigners-200),
	} {
		start := time.Now()
		_, err := ParseSigners([]byte(text))
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%s: %v", name, d)
		}
		if (err != nil) != (name == "an open quote") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func ExampleVerifyCommit() {
	op := testkeys.Ed25519("op")
	signers, err := ParseSigners([]byte(op.Line("op@example.com,op-relay", `namespaces="git"`)))
	if err != nil {
		fmt.Println(err)
		return
	}
	raw := testkeys.SignCommit(testkeys.Commit{Message: "DECISIONS (relay): t-one\n"}.Bytes(), op)
	v := VerifyCommit(raw, SHA1, signers, nil, Options{})
	fmt.Println(v.Reason, v.Fingerprint)
	fmt.Println(v.Speaks("op-relay"), v.Speaks("other-relay"))
	// Output:
	// good SHA256:gavf3RntXxOoNbog14sWRbTWHbkMr3wl1opnKbrbdl4
	// true false
}

// TestAddress: a key speaks for one address, or which one is not known.
func TestAddress(t *testing.T) {
	for lists, want := range map[string]string{
		"op@example.com,op-relay":                  "op@example.com",
		"op-relay,rig-a":                           "",
		"*@example.com":                            "",
		"op@example.com,second@example.com":        "",
		"op@example.com;op@example.com,op-relay":   "op@example.com",
		"op@example.com,!op@example.com,op-relay":  "",
		"op@example.com,!*@other.example,op-relay": "",
	} {
		v := Verdict{Reason: Good, Principals: strings.Split(lists, ";")}
		if got := v.Address(); got != want {
			t.Errorf("%s: %q, expected %q", lists, got, want)
		}
	}
	if got := (Verdict{Reason: Expired, Principals: []string{"op@example.com"}}).Address(); got != "" {
		t.Errorf("a bad signature is good for %q", got)
	}
}
