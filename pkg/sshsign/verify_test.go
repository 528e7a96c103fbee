package sshsign

import (
	"bytes"
	"crypto/elliptic"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/internal/test/testkeys"
)

// Keys of the tests: A is op's, B another listed person's.
var (
	keyA       = testkeys.Ed25519("op")
	keyB       = testkeys.Ed25519("other")
	stranger   = testkeys.Ed25519("stranger")
	authority  = testkeys.Ed25519("authority")
	usualLines = keyA.Line("op@example.com,op-relay", "") + keyB.Line("other@example.com,other-relay", "")
)

func signers(t testing.TB, text string) *Signers {
	t.Helper()
	s, err := ParseSigners([]byte(text))
	if err != nil {
		t.Fatalf("ParseSigners: %v", err)
	}
	return s
}

func date(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

func committed(at string) string { return fmt.Sprintf("Op <op@example.com> %d +0000", date(at).Unix()) }

var message = testkeys.Commit{Message: "DECISIONS (relay): t-one\n"}.Bytes()

// want fails unless v has that reason, and "good" only with a key and without
// a detail that says otherwise.
func want(t *testing.T, v Verdict, r Reason) {
	t.Helper()
	if v.Reason != r {
		t.Errorf("reason %q (%s), want %q", v.Reason, v.Detail, r)
	}
	if v.Good() != (r == Good) || v.Good() && (v.Key == nil || len(v.Principals) == 0 || v.Line == 0 || v.Detail != "") {
		t.Errorf("inconsistent verdict %+v", v)
	}
	if !v.Good() && (v.Principals != nil || v.Speaks("op@example.com")) {
		t.Errorf("a refused signature speaks: %+v", v)
	}
	if r != Good && r != Unsigned && v.Detail == "" {
		t.Errorf("no detail for %q", r)
	}
	if strings.ContainsAny(v.Detail, "\n\r\x1b\x00") || strings.HasSuffix(v.Detail, ".") {
		t.Errorf("detail %q is not one clause", v.Detail)
	}
}

func verifyWith(t *testing.T, lines string, raw []byte, o Options) Verdict {
	t.Helper()
	return VerifyCommit(raw, SHA1, signers(t, lines), nil, o)
}

// replace is bytes.Replace of exactly one place.
func replace(t *testing.T, raw []byte, old, new string) []byte {
	t.Helper()
	if n := bytes.Count(raw, []byte(old)); n != 1 {
		t.Fatalf("%q stands there %d times", old, n)
	}
	return bytes.Replace(raw, []byte(old), []byte(new), 1)
}

// TestRelayAttacks is rows 14 to 28 of docs/spec/relay.md#attacks as far as the
// signature goes, each with its control.
func TestRelayAttacks(t *testing.T) {
	signed := testkeys.SignCommit(message, keyA)

	t.Run("14 committer is not a principal", func(t *testing.T) {
		v := verifyWith(t, usualLines, signed, Options{})
		want(t, v, Good)
		if v.Speaks("ceo@example.com") || v.Speaks("other@example.com") || !v.Speaks("op@example.com") || !v.Speaks("op-relay") {
			t.Errorf("speaks for the wrong names: %v", v.Principals)
		}
		if v := verifyWith(t, keyA.Line("*@example.com", ""), signed, Options{}); !v.Speaks("ceo@example.com") {
			t.Error("the wildcard does not match")
		}
	})
	t.Run("15 negated principal", func(t *testing.T) {
		for _, list := range []string{"!op@example.com,*@example.com", "*@example.com,!op@example.com"} {
			v := verifyWith(t, keyA.Line(list, ""), signed, Options{})
			want(t, v, Good)
			if v.Speaks("op@example.com") || !v.Speaks("ops@example.com") {
				t.Errorf("%s: the negation does not win", list)
			}
		}
	})
	t.Run("16 unsigned", func(t *testing.T) {
		want(t, verifyWith(t, usualLines, message, Options{}), Unsigned)
		want(t, verifyWith(t, usualLines, signed, Options{}), Good)
	})
	t.Run("17 unknown key", func(t *testing.T) {
		v := verifyWith(t, usualLines, testkeys.SignCommit(message, stranger), Options{})
		want(t, v, UnknownKey)
		if v.Fingerprint != stranger.Fingerprint() || !strings.Contains(v.Detail, stranger.Fingerprint()) {
			t.Errorf("the key is not named: %+v", v)
		}
		want(t, verifyWith(t, usualLines+stranger.Line("s@example.com", ""), testkeys.SignCommit(message, stranger), Options{}), Good)
	})
	t.Run("18 key B as op-relay", func(t *testing.T) {
		v := verifyWith(t, usualLines, testkeys.SignCommit(message, keyB), Options{})
		want(t, v, Good)
		if v.Speaks("op-relay") || !v.Speaks("other-relay") {
			t.Errorf("speaks for the wrong rig: %v", v.Principals)
		}
	})
	t.Run("19 expired", func(t *testing.T) {
		lines := keyA.Line("op@example.com", `valid-before="20231114"`)
		want(t, verifyWith(t, lines, testkeys.SignCommit(testkeys.Commit{Committer: committed("2023-11-14T00:00:01Z")}.Bytes(), keyA), Options{}), Expired)
		want(t, verifyWith(t, lines, testkeys.SignCommit(testkeys.Commit{Committer: committed("2023-11-14T00:00:00Z")}.Bytes(), keyA), Options{}), Good)
	})
	t.Run("20 expired, date set back; D06", func(t *testing.T) {
		lines := keyA.Line("op@example.com", `valid-after="20180101",valid-before="20200101"`)
		raw := testkeys.SignCommit(testkeys.Commit{Committer: committed("2019-06-01T00:00:00Z")}.Bytes(), keyA)
		want(t, verifyWith(t, lines, raw, Options{Now: date("2024-01-01T00:00:00Z")}), Expired)
		want(t, verifyWith(t, lines, raw, Options{Now: date("2017-01-01T00:00:00Z")}), NotYetValid)
		want(t, verifyWith(t, lines, raw, Options{Now: date("2019-06-01T00:00:03Z")}), Good)
		want(t, verifyWith(t, lines, raw, Options{}), Good)
	})
	t.Run("21 edge in every time zone; D05", func(t *testing.T) {
		local := time.Local
		defer func() { time.Local = local }()
		for i, option := range []string{`valid-after="20240101"`, `valid-after="20240101Z"`, `valid-after="202401010000utc"`, `valid-after="20240101"`} {
			time.Local = time.FixedZone("local", []int{0, 9 * 3600, -5 * 3600, 9 * 3600}[i])
			lines := keyA.Line("op@example.com", option)
			for _, zone := range []string{"+0000", "+0900", "-0500"} {
				at := func(s string) []byte {
					return testkeys.SignCommit(testkeys.Commit{Committer: fmt.Sprintf("Op <op@example.com> %d %s", date(s).Unix(), zone)}.Bytes(), keyA)
				}
				want(t, verifyWith(t, lines, at("2023-12-31T23:30:00Z"), Options{}), NotYetValid)
				want(t, verifyWith(t, lines, at("2023-12-31T23:59:59Z"), Options{}), NotYetValid)
				want(t, verifyWith(t, lines, at("2024-01-01T00:00:00Z"), Options{}), Good)
			}
		}
	})
	t.Run("22 revoked", func(t *testing.T) {
		s := signers(t, usualLines)
		r, err := ParseRevocations([]byte("# left\n" + keyA.Authorized() + " op\n"))
		if err != nil {
			t.Fatal(err)
		}
		raw := testkeys.SignCommit(testkeys.Commit{Committer: committed("2000-01-01T00:00:00Z")}.Bytes(), keyA)
		want(t, VerifyCommit(raw, SHA1, s, r, Options{}), Revoked)
		want(t, VerifyCommit(raw, SHA1, signers(t, keyB.Line("b@example.com", "")), r, Options{}), Revoked)
		want(t, VerifyCommit(testkeys.SignCommit(message, keyB), SHA1, s, r, Options{}), Good)
	})
	t.Run("23 namespace; D11", func(t *testing.T) {
		file := testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(testkeys.Sign(message, keyA, "file", "sha512", "").Marshal()))
		want(t, verifyWith(t, usualLines, file, Options{}), WrongNamespace)
		for namespaces, r := range map[string]Reason{
			"git": Good, "git,file": Good, "file,git": Good, "g*": Good, "*": Good, "GIT": UnknownKey,
			"file": UnknownKey, "": UnknownKey, "*,!git": UnknownKey, "gitx": UnknownKey,
		} {
			t.Run(namespaces, func(t *testing.T) {
				want(t, verifyWith(t, keyA.Line("op@example.com", `namespaces="`+namespaces+`"`), signed, Options{}), r)
			})
		}
	})
	t.Run("24 D02 other gpgsig headers", func(t *testing.T) {
		armor := signed[bytes.Index(signed, []byte("gpgsig ")):bytes.Index(signed, []byte("\n\n"))]
		for name, raw := range map[string][]byte{
			"second copy":           replace(t, signed, "\n\nDEC", "\n"+string(armor)+"\n\nDEC"),
			"gpgsigx":               replace(t, signed, "\n\nDEC", "\ngpgsigx junk\n\nDEC"),
			"gpgsigx before":        replace(t, signed, "\ngpgsig ", "\ngpgsigx junk\ngpgsig "),
			"gpgsigx before author": replace(t, signed, "\nauthor ", "\ngpgsigx junk\nauthor "),
			"gpgsig without value":  replace(t, signed, "\n\nDEC", "\ngpgsig\n\nDEC"),
			"gpgsig-sha256":         replace(t, signed, "\n\nDEC", "\ngpgsig-sha256 junk\n more junk\n\nDEC"),
			"junk after the armor":  replace(t, signed, "-----END SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\n junk\n"),
			"empty continuation":    replace(t, signed, "-----END SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\n \n"),
			"moved before author":   []byte(strings.Replace(strings.Replace(string(signed), string(armor)+"\n", "", 1), "\nauthor ", "\n"+string(armor)+"\nauthor ", 1)),
			"moved before encoding": testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(testkeys.Sign(replace(t, message, "\n\n", "\nencoding UTF-8\n\n"), keyA, "git", "sha512", "").Marshal())),
		} {
			if name == "moved before encoding" {
				raw = replace(t, raw, "-----END SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\nencoding UTF-8\n")
			}
			t.Run(name, func(t *testing.T) { want(t, verifyWith(t, usualLines, raw, Options{}), NotCanonical) })
		}
		for _, headers := range []string{"encoding ISO-8859-1\n", "change-id kvsnmplvtmpqkxpzwxsn\n", "HG:extra a b\n", "x\n", "mergetag object 1\n type commit\n \n gpgsig no header\n"} {
			t.Run("control "+headers, func(t *testing.T) {
				want(t, verifyWith(t, usualLines, testkeys.SignCommit(testkeys.Commit{Headers: headers, Message: "m\n"}.Bytes(), keyA), Options{}), Good)
			})
		}
	})
	t.Run("25 D03 D19 armor", func(t *testing.T) {
		blob := testkeys.Sign(message, keyA, "git", "sha512", "").Marshal()
		armor := string(testkeys.Armor(blob))
		lines := strings.Split(strings.TrimSuffix(armor, "\n"), "\n")
		body := strings.Join(lines[1:len(lines)-1], "")
		for name, a := range map[string]string{
			"text before":   "junk\n" + armor,
			"blank before":  "\n" + armor,
			"text after":    armor + "junk\n",
			"blank after":   armor + "\n",
			"inside":        lines[0] + "\nComment: x\n\n" + strings.Join(lines[1:], "\n") + "\n",
			"blank inside":  lines[0] + "\n\n" + strings.Join(lines[1:], "\n") + "\n",
			"CRLF":          strings.ReplaceAll(armor, "\n", "\r\n"),
			"one CR":        strings.Replace(armor, "\n", "\r\n", 1),
			"two armors":    armor + armor,
			"doubled label": lines[0] + "\n" + armor,
			"64 columns":    string(pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: blob})),
			"76 columns":    lines[0] + "\n" + wrap(body, 76) + lines[len(lines)-1] + "\n",
			"one line":      lines[0] + "\n" + body + "\n" + lines[len(lines)-1] + "\n",
			"spaces":        strings.ReplaceAll(armor, "\n", " \n"),
			"no padding":    strings.Replace(armor, "=", "", 1),
			"bits in pad":   nextDigit(armor, strings.Index(armor, "=")-1),
			"no end":        strings.Join(lines[:len(lines)-1], "\n") + "\n",
			"other label":   strings.ReplaceAll(armor, "SSH SIG", "SSH2 SIG"),
			"lower case":    strings.ReplaceAll(armor, "BEGIN", "begin"),
			"empty":         "",
			"only labels":   lines[0] + "\n" + lines[len(lines)-1] + "\n",
			"too long":      string(testkeys.Armor(make([]byte, maxArmor))),
		} {
			if a == armor {
				t.Fatalf("%s: no attack", name)
			}
			t.Run(name, func(t *testing.T) {
				raw := testkeys.SignCommitHeader(message, "gpgsig", []byte(a))
				r := NotCanonical
				if name == "only labels" {
					r = BadSignature // canonical armor of nothing
				}
				want(t, verifyWith(t, usualLines, raw, Options{}), r)
			})
		}
		want(t, verifyWith(t, usualLines, testkeys.SignCommitHeader(message, "gpgsig", []byte(armor)), Options{}), Good)
	})
	t.Run("26 D01 doubled headers", func(t *testing.T) {
		for name, payload := range map[string][]byte{
			"two trees":                replace(t, message, "author ", "tree "+testkeys.EmptyTree+"\nauthor "),
			"tree at the end":          replace(t, message, "\n\nDEC", "\ntree "+testkeys.EmptyTree+"\n\nDEC"),
			"two authors":              replace(t, message, "author ", "author Ceo <ceo@example.com> 1 +0000\nauthor "),
			"author at the end":        replace(t, message, "\n\nDEC", "\nauthor Ceo <ceo@example.com> 1 +0000\n\nDEC"),
			"two committers":           replace(t, message, "committer ", "committer Ceo <ceo@example.com> 1 +0000\ncommitter "),
			"committer at the end":     replace(t, message, "\n\nDEC", "\ncommitter Ceo <ceo@example.com> 1 +0000\n\nDEC"),
			"parent after author":      replace(t, message, "committer ", "parent "+testkeys.EmptyTree+"\ncommitter "),
			"parent at the end":        replace(t, message, "\n\nDEC", "\nparent "+testkeys.EmptyTree+"\n\nDEC"),
			"two encodings":            replace(t, message, "\n\nDEC", "\nencoding UTF-8\nencoding ISO-8859-1\n\nDEC"),
			"header before the tree":   append([]byte("x y\n"), message...),
			"header before the author": replace(t, message, "author ", "x y\nauthor "),
			"no author":                replace(t, message, "author Op <op@example.com> 1700000000 +0000\n", ""),
			"no committer":             replace(t, message, "committer Op <op@example.com> 1700000000 +0000\n", ""),
			"committer first":          replace(t, message, "author Op <op@example.com> 1700000000 +0000\ncommitter", "committer Op <op@example.com> 1700000000 +0000\nauthor"),
			"folded author":            replace(t, message, "committer ", " more\ncommitter "),
			"folded tree":              replace(t, message, "author ", " more\nauthor "),
			"NUL in a header":          replace(t, message, "\n\nDEC", "\nx a\x00b\n\nDEC"),
			"NUL in the committer":     replace(t, message, "committer Op <op@", "committer Op\x00 <op@"),
			"CRLF headers":             bytes.ReplaceAll(message, []byte("\n"), []byte("\r\n")),
			"upper case id":            []byte(strings.Replace(string(message), "4b825dc6", "4B825DC6", 1)),
			"short id":                 []byte(strings.Replace(string(message), "4b825dc6", "4b825dc", 1)),
			"SHA-256 id":               []byte(strings.Replace(string(message), testkeys.EmptyTree, testkeys.EmptyTree256, 1)),
			"no e-mail":                []byte(strings.Replace(string(message), "committer Op <op@example.com>", "committer Op", 1)),
			"two e-mails":              []byte(strings.Replace(string(message), "committer Op <op@example.com>", "committer Op <a@example.com> <op@example.com>", 1)),
			"no space":                 []byte(strings.Replace(string(message), "committer Op <", "committer Op<", 1)),
			"no zone":                  []byte(strings.Replace(string(message), "committer Op <op@example.com> 1700000000 +0000", "committer Op <op@example.com> 1700000000", 1)),
			"odd zone":                 []byte(strings.Replace(string(message), "committer Op <op@example.com> 1700000000 +0000", "committer Op <op@example.com> 1700000000 +00000", 1)),
			"zero padded":              []byte(strings.Replace(string(message), "committer Op <op@example.com> 1700000000", "committer Op <op@example.com> 01700000000", 1)),
			"negative date":            []byte(strings.Replace(string(message), "committer Op <op@example.com> 1700000000", "committer Op <op@example.com> -1", 1)),
			"far future":               []byte(strings.Replace(string(message), "committer Op <op@example.com> 1700000000", "committer Op <op@example.com> 9223372036854775808", 1)),
		} {
			t.Run(name, func(t *testing.T) {
				want(t, verifyWith(t, usualLines, payload, Options{}), MalformedCommit)
				want(t, verifyWith(t, usualLines, testkeys.SignCommit(payload, keyA), Options{}), MalformedCommit)
			})
		}
		want(t, verifyWith(t, usualLines, nil, Options{}), MalformedCommit)
		want(t, verifyWith(t, usualLines, signed[:40], Options{}), MalformedCommit)
		merge := testkeys.Commit{Parents: []string{strings.Repeat("1", 40), strings.Repeat("2", 40)}, Message: "merge\n"}
		want(t, verifyWith(t, usualLines, testkeys.SignCommit(merge.Bytes(), keyA), Options{}), Good)
		t.Run("parents reordered", func(t *testing.T) {
			raw := string(testkeys.SignCommit(merge.Bytes(), keyA))
			raw = strings.NewReplacer(strings.Repeat("1", 40), strings.Repeat("2", 40), strings.Repeat("2", 40), strings.Repeat("1", 40)).Replace(raw)
			want(t, verifyWith(t, usualLines, []byte(raw), Options{}), BadSignature)
		})
	})
	t.Run("27 other bytes", func(t *testing.T) {
		other := testkeys.Commit{Message: "RESPONSE (relay): t-one\n"}.Bytes()
		pasted := testkeys.SignCommitHeader(other, "gpgsig", testkeys.Armor(testkeys.Sign(message, keyA, "git", "sha512", "").Marshal()))
		want(t, verifyWith(t, usualLines, pasted, Options{}), BadSignature)
		want(t, verifyWith(t, usualLines, replace(t, signed, "DECISIONS", "DECISIONs"), Options{}), BadSignature)
		want(t, verifyWith(t, usualLines, append(slices.Clone(signed), '\n'), Options{}), BadSignature)
		want(t, verifyWith(t, usualLines, signed[:len(signed)-1], Options{}), BadSignature)
		want(t, verifyWith(t, usualLines, testkeys.SignCommit(other, keyA), Options{}), Good)
		for _, m := range []string{"CRLF\r\n\r\nbody\r\n", "", "no end", "NUL \x00 inside\n", "\n\n\n", "-----BEGIN SSH SIGNATURE-----\n", "gpgsig x\n"} {
			want(t, verifyWith(t, usualLines, testkeys.SignCommit(testkeys.Commit{Message: m}.Bytes(), keyA), Options{}), Good)
		}
	})
	t.Run("28 D13 types", func(t *testing.T) {
		for name, armor := range map[string]string{
			"OpenPGP":         "-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n",
			"OpenPGP message": "-----BEGIN PGP MESSAGE-----\n\niQ==\n-----END PGP MESSAGE-----\n",
			"X.509":           "-----BEGIN SIGNED MESSAGE-----\nMIIB\n-----END SIGNED MESSAGE-----\n",
		} {
			t.Run(name, func(t *testing.T) {
				want(t, verifyWith(t, usualLines, testkeys.SignCommitHeader(message, "gpgsig", []byte(armor)), Options{}), UnsupportedType)
			})
		}
		for _, k := range []*testkeys.Key{
			keyA, testkeys.ECDSA("op", elliptic.P256()), testkeys.ECDSA("op", elliptic.P384()), testkeys.ECDSA("op", elliptic.P521()),
			testkeys.RSA(3072), testkeys.SKEd25519("op"), testkeys.SKECDSA("op"),
		} {
			lines := k.Line("op@example.com", "")
			for _, hash := range []string{"sha256", "sha512"} {
				t.Run(k.PublicKey().Type()+" "+hash, func(t *testing.T) {
					raw := testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(testkeys.Sign(message, k, "git", hash, "").Marshal()))
					want(t, verifyWith(t, lines, raw, Options{}), Good)
					want(t, verifyWith(t, lines, append(raw, 'x'), Options{}), BadSignature)
				})
			}
		}
		rsaSigned := func(k *testkeys.Key, algorithm string) []byte {
			return testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(testkeys.Sign(message, k, "git", "sha512", algorithm).Marshal()))
		}
		rsa := testkeys.RSA(3072)
		want(t, verifyWith(t, rsa.Line("op@example.com", ""), rsaSigned(rsa, ssh.KeyAlgoRSASHA256), Options{}), Good)
		want(t, verifyWith(t, rsa.Line("op@example.com", ""), rsaSigned(rsa, ssh.KeyAlgoRSA), Options{}), UnsupportedType)
		small := testkeys.RSA(2048)
		want(t, verifyWith(t, small.Line("op@example.com", ""), rsaSigned(small, ""), Options{}), UnsupportedType)
		want(t, verifyWith(t, small.Line("op@example.com", ""), rsaSigned(small, ""), Options{MinRSABits: 2048}), Good)
		want(t, verifyWith(t, small.Line("op@example.com", ""), rsaSigned(small, ""), Options{MinRSABits: 2049}), UnsupportedType)

		for _, k := range []*testkeys.Key{testkeys.SKEd25519("op"), testkeys.SKECDSA("op")} {
			lines := k.Line("op@example.com", "")
			want(t, verifyWith(t, lines, testkeys.SignCommit(message, k.WithFlags(0)), Options{}), BadSignature)
			want(t, verifyWith(t, lines, testkeys.SignCommit(message, k.WithFlags(4)), Options{}), BadSignature)
			want(t, verifyWith(t, lines, testkeys.SignCommit(message, k.WithFlags(5)), Options{}), Good)
			t.Run("flags byte is signed", func(t *testing.T) {
				sig := testkeys.Sign(message, k.WithFlags(0), "git", "sha512", "")
				sig.Signature[len(sig.Signature)-5] = 1
				want(t, verifyWith(t, lines, testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(sig.Marshal())), Options{}), BadSignature)
			})
		}
	})
}

// TestEncodings changes the bytes of signatures that verify, in ways that
// leave them mathematically good.
func TestEncodings(t *testing.T) {
	commit := func(sig *testkeys.Signature) []byte {
		return testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(sig.Marshal()))
	}
	parse := func(sig *testkeys.Signature) *ssh.Signature {
		var s ssh.Signature
		if err := ssh.Unmarshal(sig.Signature, &s); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	ecdsa, rsa, sk := testkeys.ECDSA("op", elliptic.P256()), testkeys.RSA(3072), testkeys.SKEd25519("op")
	lines := keyA.Line("a", "") + ecdsa.Line("a", "") + rsa.Line("a", "") + sk.Line("a", "")
	for _, test := range []struct {
		name   string
		key    *testkeys.Key
		change func(*testkeys.Signature)
		want   Reason
	}{
		{"none", keyA, func(*testkeys.Signature) {}, Good},
		{"version 0", keyA, func(s *testkeys.Signature) { s.Version = 0 }, UnsupportedType},
		{"version 2", keyA, func(s *testkeys.Signature) { s.Version = 2 }, UnsupportedType},
		{"magic", keyA, func(s *testkeys.Signature) { s.Magic[0] = 's' }, BadSignature},
		{"reserved", keyA, func(s *testkeys.Signature) { s.Reserved = "x" }, NotCanonical},
		{"hash sha1", keyA, func(s *testkeys.Signature) { s.HashAlgorithm = "sha1" }, UnsupportedType},
		{"hash none", keyA, func(s *testkeys.Signature) { s.HashAlgorithm = "" }, UnsupportedType},
		{"hash swapped", keyA, func(s *testkeys.Signature) { s.HashAlgorithm = "sha256" }, BadSignature},
		{"namespace swapped", keyA, func(s *testkeys.Signature) { s.Namespace = "file" }, WrongNamespace},
		{"namespace with NUL", keyA, func(s *testkeys.Signature) { s.Namespace = "git\x00" }, WrongNamespace},
		{"key swapped", keyA, func(s *testkeys.Signature) { s.PublicKey = rsa.PublicKey().Marshal() }, BadSignature},
		{"other key of that type", keyA, func(s *testkeys.Signature) { s.PublicKey = stranger.PublicKey().Marshal() }, UnknownKey},
		{"key cut", keyA, func(s *testkeys.Signature) { s.PublicKey = s.PublicKey[:40] }, BadSignature},
		{"key empty", keyA, func(s *testkeys.Signature) { s.PublicKey = nil }, BadSignature},
		{"key longer", keyA, func(s *testkeys.Signature) { s.PublicKey = append(s.PublicKey, 0) }, BadSignature},
		{"key of unknown type", keyA, func(s *testkeys.Signature) { s.PublicKey = ssh.Marshal(struct{ T string }{"ssh-dss"}) }, UnsupportedType},
		{"key of ML-DSA", keyA, func(s *testkeys.Signature) {
			s.PublicKey = ssh.Marshal(struct{ T, K string }{"ssh-mldsa-44", strings.Repeat("k", 1312)})
		}, UnsupportedType},
		{"RSA modulus with zeros", rsa, func(s *testkeys.Signature) {
			k := rsaKey(rsa.PublicKey())
			s.PublicKey = ssh.Marshal(struct {
				T string
				E *big.Int
				N []byte
			}{"ssh-rsa", big.NewInt(int64(k.E)), append([]byte{0, 0}, k.N.Bytes()...)})
		}, NotCanonical},
		{"RSA modulus 0", rsa, func(s *testkeys.Signature) { s.PublicKey = rsaBlob(big.NewInt(0)) }, BadSignature},
		{"RSA modulus negative", rsa, func(s *testkeys.Signature) { s.PublicKey = rsaBlob(new(big.Int).Neg(rsaKey(rsa.PublicKey()).N)) }, BadSignature},
		{"RSA modulus even", rsa, func(s *testkeys.Signature) { s.PublicKey = rsaBlob(new(big.Int).Lsh(big.NewInt(1), 3071)) }, BadSignature},
		{"signature cut", keyA, func(s *testkeys.Signature) { s.Signature = s.Signature[:10] }, BadSignature},
		{"signature empty", keyA, func(s *testkeys.Signature) { s.Signature = nil }, BadSignature},
		{"signature longer", keyA, func(s *testkeys.Signature) { s.Signature = append(s.Signature, 0) }, NotCanonical},
		{"ed25519 longer inside", keyA, func(s *testkeys.Signature) {
			sig := parse(s)
			sig.Blob = append(sig.Blob, 0)
			s.Signature = ssh.Marshal(sig)
		}, BadSignature},
		{"sk longer", sk, func(s *testkeys.Signature) { s.Signature = append(s.Signature, 0) }, NotCanonical},
		{"sk without counter", sk, func(s *testkeys.Signature) { s.Signature = s.Signature[:len(s.Signature)-4] }, BadSignature},
		{"sk without flags", sk, func(s *testkeys.Signature) { s.Signature = s.Signature[:len(s.Signature)-5] }, BadSignature},
		{"sk other counter", sk, func(s *testkeys.Signature) { s.Signature[len(s.Signature)-1]++ }, BadSignature},
		{"ecdsa longer", ecdsa, func(s *testkeys.Signature) { s.Signature = append(s.Signature, 0) }, NotCanonical},
		{"ecdsa padded number", ecdsa, func(s *testkeys.Signature) {
			sig := parse(s)
			var pair struct{ R, S *big.Int }
			if err := ssh.Unmarshal(sig.Blob, &pair); err != nil {
				t.Fatal(err)
			}
			sig.Blob = ssh.Marshal(struct{ R, S []byte }{append([]byte{0, 0}, pair.R.Bytes()...), append([]byte{0, 0}, pair.S.Bytes()...)})
			s.Signature = ssh.Marshal(sig)
		}, NotCanonical},
		{"ecdsa no numbers", ecdsa, func(s *testkeys.Signature) {
			sig := parse(s)
			sig.Blob = nil
			s.Signature = ssh.Marshal(sig)
		}, BadSignature},
		{"ecdsa of another curve", ecdsa, func(s *testkeys.Signature) {
			sig := parse(s)
			sig.Format = ssh.KeyAlgoECDSA384
			s.Signature = ssh.Marshal(sig)
		}, BadSignature},
		{"ecdsa as ed25519", ecdsa, func(s *testkeys.Signature) {
			sig := parse(s)
			sig.Format = ssh.KeyAlgoED25519
			s.Signature = ssh.Marshal(sig)
		}, BadSignature},
		{"rsa longer", rsa, func(s *testkeys.Signature) { s.Signature = append(s.Signature, 0) }, NotCanonical},
		{"rsa with a zero before", rsa, func(s *testkeys.Signature) {
			sig := parse(s)
			sig.Blob = append([]byte{0}, sig.Blob...)
			s.Signature = ssh.Marshal(sig)
		}, NotCanonical},
		{"rsa other hash name", rsa, func(s *testkeys.Signature) {
			sig := parse(s)
			sig.Format = ssh.KeyAlgoRSASHA256
			s.Signature = ssh.Marshal(sig)
		}, BadSignature},
		{"webauthn", testkeys.SKECDSA("op"), func(s *testkeys.Signature) {
			sig := parse(s)
			sig.Format = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
			s.Signature = ssh.Marshal(sig)
		}, UnsupportedType},
	} {
		t.Run(test.name, func(t *testing.T) {
			sig := testkeys.Sign(message, test.key, "git", "sha512", "")
			test.change(sig)
			want(t, verifyWith(t, lines, commit(sig), Options{}), test.want)
		})
	}
	t.Run("rsa without its zero", func(t *testing.T) {
		// Among many messages one has a signature that begins with a zero.
		for i := range 4096 {
			payload := testkeys.Commit{Message: fmt.Sprint(i)}.Bytes()
			sig := testkeys.Sign(payload, rsa, "git", "sha512", "")
			s := parse(sig)
			if s.Blob[0] != 0 {
				continue
			}
			raw := testkeys.SignCommitHeader(payload, "gpgsig", testkeys.Armor(sig.Marshal()))
			want(t, verifyWith(t, lines, raw, Options{}), Good)
			s.Blob = s.Blob[1:]
			sig.Signature = ssh.Marshal(s)
			raw = testkeys.SignCommitHeader(payload, "gpgsig", testkeys.Armor(sig.Marshal()))
			want(t, verifyWith(t, lines, raw, Options{}), NotCanonical)
			return
		}
		t.Fatal("no such signature")
	})
	t.Run("blob longer", func(t *testing.T) {
		blob := append(testkeys.Sign(message, keyA, "git", "sha512", "").Marshal(), 0)
		want(t, verifyWith(t, lines, testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(blob)), Options{}), BadSignature)
	})
}

// TestBitFlips changes every bit of the armor and of the headers: nothing else
// than the original verifies.
func TestBitFlips(t *testing.T) {
	s := signers(t, usualLines)
	raw := testkeys.SignCommit(message, keyA)
	want(t, VerifyCommit(raw, SHA1, s, nil, Options{}), Good)
	for i := range raw {
		for bit := range 8 {
			changed := slices.Clone(raw)
			changed[i] ^= 1 << bit
			if v := VerifyCommit(changed, SHA1, s, nil, Options{}); v.Good() {
				t.Errorf("bit %d of byte %d is not protected: %q", bit, i, changed)
			}
		}
		if v := VerifyCommit(slices.Delete(slices.Clone(raw), i, i+1), SHA1, s, nil, Options{}); v.Good() {
			t.Errorf("byte %d can be left out", i)
		}
		for _, b := range []byte{'\n', ' ', '\r', 'A', '='} {
			if v := VerifyCommit(slices.Insert(slices.Clone(raw), i, b), SHA1, s, nil, Options{}); v.Good() {
				t.Errorf("%q can be put in at %d", b, i)
			}
		}
	}
}

// TestD12Certificates is D12 and the certificates of row 28.
func TestD12Certificates(t *testing.T) {
	ca := authority
	base := testkeys.Cert{Serial: 7, KeyID: "op laptop", Principals: []string{"op@example.com", "op-relay"}}
	caLine := ca.Line("*@example.com,op-relay", "cert-authority")
	with := func(change func(*testkeys.Cert)) *testkeys.Key {
		c := base
		change(&c)
		return keyA.Certify(ca, c)
	}
	now := date("2024-01-01T00:00:00Z")
	for _, test := range []struct {
		name  string
		key   *testkeys.Key
		lines string
		o     Options
		want  Reason
	}{
		{"control", with(func(*testkeys.Cert) {}), caLine, Options{}, Good},
		{"valid then and now", with(func(c *testkeys.Cert) { c.After, c.Before = date("2023-01-01T00:00:00Z"), date("2025-01-01T00:00:00Z") }), caLine, Options{Now: now}, Good},
		{"expired at the commit", with(func(c *testkeys.Cert) { c.Before = date("2023-01-01T00:00:00Z") }), caLine, Options{}, CertificateRefused},
		{"expires in that second", with(func(c *testkeys.Cert) { c.Before = time.Unix(1700000000, 0) }), caLine, Options{}, CertificateRefused},
		{"expires a second later", with(func(c *testkeys.Cert) { c.Before = time.Unix(1700000001, 0) }), caLine, Options{}, Good},
		{"begins in that second", with(func(c *testkeys.Cert) { c.After = time.Unix(1700000000, 0) }), caLine, Options{}, Good},
		{"expired now", with(func(c *testkeys.Cert) { c.Before = date("2023-12-01T00:00:00Z") }), caLine, Options{Now: now}, CertificateRefused},
		{"not yet valid", with(func(c *testkeys.Cert) { c.After = now }), caLine, Options{}, CertificateRefused},
		{"wrong principal", with(func(c *testkeys.Cert) { c.Principals = []string{"op@example.org"} }), caLine, Options{}, CertificateRefused},
		{"principal excluded by the line", with(func(*testkeys.Cert) {}), ca.Line("!op@example.com,*@example.com", "cert-authority"), Options{}, CertificateRefused},
		{"no principals", with(func(c *testkeys.Cert) { c.Principals = nil }), caLine, Options{}, CertificateRefused},
		{"empty principal", with(func(c *testkeys.Cert) { c.Principals = []string{"", "op@example.com"} }), caLine, Options{}, CertificateRefused},
		{"principal is a pattern", with(func(c *testkeys.Cert) { c.Principals = []string{"*@example.com"} }), caLine, Options{}, CertificateRefused},
		{"principal is a list", with(func(c *testkeys.Cert) { c.Principals = []string{"op@example.com,b@example.com"} }), ca.Line("*", "cert-authority"), Options{}, CertificateRefused},
		{"host certificate", with(func(c *testkeys.Cert) { c.Host = true }), caLine, Options{}, CertificateRefused},
		{"unknown critical option", with(func(c *testkeys.Cert) { c.Critical = map[string]string{"x@example.com": ""} }), caLine, Options{}, CertificateRefused},
		{"force-command", with(func(c *testkeys.Cert) { c.Critical = map[string]string{"force-command": "true"} }), caLine, Options{}, CertificateRefused},
		{"line without cert-authority", with(func(*testkeys.Cert) {}), ca.Line("*", ""), Options{}, CertificateRefused},
		{"line of the plain key", with(func(*testkeys.Cert) {}), keyA.Line("*", ""), Options{}, CertificateRefused},
		{"plain key by an authority's line", keyA, keyA.Line("*", "cert-authority"), Options{}, UnknownKey},
		{"plain key by its authority's line", keyA, caLine, Options{}, UnknownKey},
		{"other authority", keyA.Certify(stranger, base), caLine, Options{}, CertificateRefused},
		{"forged: names the authority, not made by it", with(func(c *testkeys.Cert) {}).Certify(stranger, testkeys.Cert{Principals: base.Principals, Claims: ca}), caLine, Options{}, CertificateRefused},
		{"forged by the key itself", keyA.Certify(keyA, testkeys.Cert{Principals: base.Principals, Claims: ca}), caLine, Options{}, CertificateRefused},
		{"authority's line expired", with(func(*testkeys.Cert) {}), ca.Line("*", `cert-authority,valid-before="20230101"`), Options{}, Expired},
		{"authority's line not yet valid", with(func(*testkeys.Cert) {}), ca.Line("*", `cert-authority,valid-after="20240101"`), Options{}, NotYetValid},
		{"authority for other namespaces", with(func(*testkeys.Cert) {}), ca.Line("*", `cert-authority,namespaces="file"`), Options{}, CertificateRefused},
		{"second line fits", with(func(*testkeys.Cert) {}), ca.Line("*", `cert-authority,namespaces="file"`) + ca.Line("x", "cert-authority") + caLine, Options{}, Good},
		{"authority with small RSA key", keyA.Certify(testkeys.RSA(2048), base), testkeys.RSA(2048).Line("*", "cert-authority"), Options{}, CertificateRefused},
		{"authority with RSA key", keyA.Certify(testkeys.RSA(3072), base), testkeys.RSA(3072).Line("*", "cert-authority"), Options{}, Good},
		{"authority with ECDSA key", keyA.Certify(testkeys.ECDSA("ca", elliptic.P521()), base), testkeys.ECDSA("ca", elliptic.P521()).Line("*", "cert-authority"), Options{}, Good},
		{"authority with security key", keyA.Certify(testkeys.SKEd25519("ca"), base), testkeys.SKEd25519("ca").Line("*", "cert-authority"), Options{}, Good},
		{"RSA key", testkeys.RSA(3072).Certify(ca, base), caLine, Options{}, Good},
		{"small RSA key", testkeys.RSA(2048).Certify(ca, base), caLine, Options{}, UnsupportedType},
		{"ECDSA key", testkeys.ECDSA("op", elliptic.P384()).Certify(ca, base), caLine, Options{}, Good},
		{"security key", testkeys.SKECDSA("op").Certify(ca, base), caLine, Options{}, Good},
		{"security key not touched", testkeys.SKECDSA("op").WithFlags(0).Certify(ca, base), caLine, Options{}, BadSignature},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw := testkeys.SignCommit(message, test.key)
			v := verifyWith(t, test.lines, raw, test.o)
			want(t, v, test.want)
			if test.want != Good {
				return
			}
			if v.Certificate == nil || v.Fingerprint != test.key.Fingerprint() || v.Key.Type() != test.key.Plain().PublicKey().Type() {
				t.Errorf("the certificate or its key is not told: %+v", v)
			}
			if !v.Speaks("op@example.com") || v.Speaks("b@example.com") || v.Speaks("*@example.com") {
				t.Errorf("speaks for the wrong names: %v", v.Principals)
			}
			want(t, verifyWith(t, test.lines, append(raw, 'x'), test.o), BadSignature)
		})
	}
	t.Run("signed with SHA-1", func(t *testing.T) {
		k := testkeys.RSA(3072).Certify(ca, base)
		sig := testkeys.Sign(message, k, "git", "sha512", ssh.KeyAlgoRSA)
		want(t, verifyWith(t, caLine, testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(sig.Marshal())), Options{}), UnsupportedType)
	})
	t.Run("certificate changed", func(t *testing.T) {
		sig := testkeys.Sign(message, with(func(*testkeys.Cert) {}), "git", "sha512", "")
		sig.PublicKey = bytes.Replace(sig.PublicKey, []byte("op laptop"), []byte("op lapdog"), 1)
		want(t, verifyWith(t, caLine, testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(sig.Marshal())), Options{}), CertificateRefused)
	})
	t.Run("authority's signature encoded otherwise", func(t *testing.T) {
		rsaCA := testkeys.RSA(3072)
		cert := keyA.Certify(rsaCA, base).PublicKey().(*ssh.Certificate)
		cert.Signature.Blob = append([]byte{0}, cert.Signature.Blob...)
		sig := testkeys.Sign(message, keyA, "git", "sha512", "")
		sig.PublicKey = cert.Marshal()
		want(t, verifyWith(t, rsaCA.Line("*", "cert-authority"), testkeys.SignCommitHeader(message, "gpgsig", testkeys.Armor(sig.Marshal())), Options{}), CertificateRefused)
	})
}

// TestD07 is a good signature by somebody in the list over another's name.
func TestD07AnotherPerson(t *testing.T) {
	raw := testkeys.SignCommit(testkeys.Commit{
		Author: "Ceo <ceo@example.com> 1700000000 +0000", Committer: "Mallory <mallory@example.com> 1700000000 +0000", Message: "m\n",
	}.Bytes(), keyA)
	v := verifyWith(t, usualLines, raw, Options{})
	want(t, v, Good)
	c, err := SplitCommit(raw, SHA1)
	if err != nil {
		t.Fatal(err)
	}
	if v.Speaks(c.Committer.Email) || v.Speaks(c.Author.Email) {
		t.Error("key A speaks for mallory or the ceo")
	}
	// Bytes are compared: no case folding.
	if v.Speaks("OP@example.com") || v.Speaks("op@EXAMPLE.com") || !v.Speaks("op@example.com") {
		t.Error("e-mail addresses are not compared byte for byte")
	}
}

// TestSeveralLines has one key in several lines.
func TestSeveralLines(t *testing.T) {
	raw := testkeys.SignCommit(message, keyA) // 2023-11-14T22:13:20Z
	for _, test := range []struct {
		name, lines string
		want        Reason
		principals  []string
		line        int
	}{
		{"both fit", keyA.Line("a", "") + keyA.Line("b", ""), Good, []string{"a", "b"}, 1},
		{"one expired", keyA.Line("a", `valid-before="20200101"`) + keyA.Line("b", ""), Good, []string{"b"}, 2},
		{"one for files", keyA.Line("a", `namespaces="file"`) + keyA.Line("b", ""), Good, []string{"b"}, 2},
		{"one as authority", keyA.Line("a", "cert-authority") + keyA.Line("b", ""), Good, []string{"b"}, 2},
		{"expired, then not yet", keyA.Line("a", `valid-before="20200101"`) + keyA.Line("b", `valid-after="20240101"`), Expired, nil, 1},
		{"files, then not yet", keyA.Line("a", `namespaces="file"`) + keyA.Line("b", `valid-after="20240101"`), NotYetValid, nil, 2},
		{"negation counts in its line", keyA.Line("*,!x", "") + keyA.Line("x", ""), Good, []string{"*,!x", "x"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := verifyWith(t, test.lines, raw, Options{})
			want(t, v, test.want)
			if !slices.Equal(v.Principals, test.principals) || v.Line != test.line {
				t.Errorf("principals %q line %d", v.Principals, v.Line)
			}
		})
	}
}

// TestNobody is D09: without a list nobody is trusted.
func TestD09NobodyListed(t *testing.T) {
	raw := testkeys.SignCommit(message, keyA)
	want(t, VerifyCommit(raw, SHA1, nil, nil, Options{}), UnknownKey)
	want(t, VerifyCommit(testkeys.SignCommit(message, keyA.Certify(authority, testkeys.Cert{Principals: []string{"a"}})), SHA1, nil, nil, Options{}), CertificateRefused)
	for _, text := range []string{"", "\n", "# nobody\n", "  \r\n\t\n"} {
		s, err := ParseSigners([]byte(text))
		if err == nil || s != nil {
			t.Errorf("ParseSigners(%q) gives signers", text)
		}
	}
	for _, text := range []string{"", "\n", " \r\n"} {
		r, err := ParseRevocations([]byte(text))
		if err == nil || r != nil {
			t.Errorf("ParseRevocations(%q) gives revocations", text)
		}
	}
	r, err := ParseRevocations([]byte("# nothing revoked yet\n"))
	if err != nil {
		t.Fatal(err)
	}
	want(t, VerifyCommit(raw, SHA1, signers(t, usualLines), r, Options{}), Good)
}

// TestD17ObjectFormats has each format's own header, and the other's.
func TestD17ObjectFormats(t *testing.T) {
	s := signers(t, usualLines)
	payload := testkeys.Commit{Tree: testkeys.EmptyTree256, Message: "m\n"}.Bytes()
	armor := testkeys.Armor(testkeys.Sign(payload, keyA, "git", "sha512", "").Marshal())
	good := testkeys.SignCommitHeader(payload, "gpgsig-sha256", armor)
	want(t, VerifyCommit(good, SHA256, s, nil, Options{}), Good)
	want(t, VerifyCommit(testkeys.SignCommitHeader(payload, "gpgsig", armor), SHA256, s, nil, Options{}), NotCanonical)
	want(t, VerifyCommit(testkeys.SignCommitHeader(good, "gpgsig", armor), SHA256, s, nil, Options{}), NotCanonical)
	want(t, VerifyCommit(good, SHA1, s, nil, Options{}), MalformedCommit) // ids of 64 digits
	want(t, VerifyCommit(testkeys.SignCommitHeader(message, "gpgsig-sha256", testkeys.Armor(testkeys.Sign(message, keyA, "git", "sha512", "").Marshal())), SHA1, s, nil, Options{}), NotCanonical)
}

// TestD16Tags has signatures in the bodies of tags.
func TestD16Tags(t *testing.T) {
	s := signers(t, usualLines)
	tag := func(kind, headers, body string) []byte {
		return []byte("object " + testkeys.EmptyTree + "\ntype " + kind + "\ntag v1\ntagger Op <op@example.com> 1700000000 +0000\n" + headers + "\n" + body)
	}
	const pgp = "-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n"
	plainTag := tag("commit", "", "Release\n")
	signed := testkeys.SignTag(plainTag, keyA)
	for _, test := range []struct {
		name string
		raw  []byte
		want Reason
	}{
		{"signed", signed, Good},
		{"signed tag of a tag", testkeys.SignTag(tag("tag", "", "Nested\n"), keyA), Good},
		{"empty message", testkeys.SignTag(tag("commit", "", ""), keyA), Good},
		{"unsigned", plainTag, Unsigned},
		{"by a stranger", testkeys.SignTag(plainTag, stranger), UnknownKey},
		{"changed", replace(t, signed, "Release", "release"), BadSignature},
		{"OpenPGP", tag("commit", "", "Release\n"+pgp), UnsupportedType},
		{"X.509", tag("commit", "", "-----BEGIN SIGNED MESSAGE-----\nMIIB\n-----END SIGNED MESSAGE-----\n"), UnsupportedType},
		{"PEM-looking text in the message", testkeys.SignTag(tag("commit", "", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"), keyA), Good},
		{"signature-looking text in the message", testkeys.SignTag(tag("commit", "", pgp+string(testkeys.Armor([]byte("x")))), keyA), Good},
		{"PEM-looking text, unsigned", tag("commit", "", "-----BEGIN CERTIFICATE-----\nx\n"), Unsigned},
		{"indented armor", tag("commit", "", " -----BEGIN SSH SIGNATURE-----\n"), Unsigned},
		{"text after", append(slices.Clone(signed), "more\n"...), NotCanonical},
		{"newline after", append(slices.Clone(signed), '\n'), NotCanonical},
		{"CRLF armor", append(slices.Clone(plainTag), bytes.ReplaceAll(signed[len(plainTag):], []byte("\n"), []byte("\r\n"))...), NotCanonical},
		{"signature twice", append(slices.Clone(signed), signed[len(plainTag):]...), BadSignature},
		{"OpenPGP after", append(slices.Clone(signed), pgp...), UnsupportedType},
		{"gpgsig header", testkeys.SignTag(tag("commit", "gpgsig x\n", "Release\n"), keyA), NotCanonical},
		{"gpgsig-sha256 header added", replace(t, signed, "\n\nRel", "\ngpgsig-sha256 x\n\nRel"), NotCanonical},
		{"unknown header", testkeys.SignTag(tag("commit", "x y\n", "Release\n"), keyA), MalformedTag},
		{"second tagger", testkeys.SignTag(tag("commit", "tagger Op <op@example.com> 1 +0000\n", "Release\n"), keyA), MalformedTag},
		{"no tagger", testkeys.SignTag([]byte("object "+testkeys.EmptyTree+"\ntype commit\ntag v1\n\nRelease\n"), keyA), MalformedTag},
		{"unknown type", testkeys.SignTag(tag("bundle", "", "Release\n"), keyA), MalformedTag},
		{"folded type", testkeys.SignTag(replace(t, plainTag, "type commit\n", "type commit\n x\n"), keyA), MalformedTag},
		{"a commit", testkeys.SignCommit(message, keyA), MalformedTag},
		{"nothing", nil, MalformedTag},
	} {
		t.Run(test.name, func(t *testing.T) { want(t, VerifyTag(test.raw, SHA1, s, nil, Options{}), test.want) })
	}
	t.Run("no tagger, but a time", func(t *testing.T) {
		raw := testkeys.SignTag([]byte("object "+testkeys.EmptyTree+"\ntype commit\ntag v1\n\nRelease\n"), keyA)
		want(t, VerifyTag(raw, SHA1, s, nil, Options{At: date("2024-01-01T00:00:00Z")}), Good)
	})
	got, err := SplitTag(testkeys.SignTag(tag("commit", "", "Release\n"), keyA), SHA1)
	if err != nil || got.Tag != "v1" || got.Type != "commit" || string(got.Message) != "Release\n" || got.Tagger.Email != "op@example.com" {
		t.Errorf("SplitTag: %+v, %v", got, err)
	}
}

// TestMessage has detached signatures as bundles use them.
func TestMessage(t *testing.T) {
	s := signers(t, usualLines)
	o := Options{Namespace: "agent-bundle", At: date("2024-01-01T00:00:00Z")}
	data := []byte("bytes of a bundle\n")
	signer, err := ssh.ParsePrivateKey(keyA.PEM())
	if err != nil {
		t.Fatal(err)
	}
	armored, err := Sign(data, signer, "agent-bundle")
	if err != nil {
		t.Fatal(err)
	}
	if string(armored) != string(testkeys.Armor(testkeys.Sign(data, keyA, "agent-bundle", "sha512", "").Marshal())) {
		t.Error("Sign does not write what ssh-keygen writes")
	}
	want(t, VerifyMessage(data, armored, s, nil, o), Good)
	want(t, VerifyMessage(data[1:], armored, s, nil, o), BadSignature)
	want(t, VerifyMessage(data, armored, s, nil, Options{At: o.At}), WrongNamespace)
	want(t, VerifyMessage(data, nil, s, nil, o), Unsigned)
	want(t, VerifyMessage(data, bytes.TrimSpace(armored), s, nil, o), NotCanonical)
	o.At = time.Time{}
	want(t, VerifyMessage(data, armored, s, nil, o), Expired) // no time, no trust
}

func TestReader(t *testing.T) {
	s := signers(t, usualLines)
	o := Options{At: date("2024-01-01T00:00:00Z")}
	armored := testkeys.Armor(testkeys.Sign(message, keyA, "git", "sha512", "").Marshal())
	verify := func(r io.Reader, armored []byte) Verdict {
		t.Helper()
		v, err := VerifyReader(r, armored, s, nil, o)
		if err != nil {
			t.Errorf("VerifyReader: %v", err)
		}
		return v
	}
	want(t, verify(bytes.NewReader(message), armored), Good)
	want(t, verify(bytes.NewReader(message[1:]), armored), BadSignature)
	want(t, verify(iotest.OneByteReader(bytes.NewReader(message)), armored), Good)
	want(t, verify(nil, nil), Unsigned)
	want(t, verify(iotest.ErrReader(errors.New("not read")), testkeys.Armor(testkeys.Sign(message, stranger, "git", "sha512", "").Marshal())), UnknownKey)
	failed := errors.New("disk")
	if v, err := VerifyReader(io.MultiReader(bytes.NewReader(message), iotest.ErrReader(failed)), armored, s, nil, o); !errors.Is(err, failed) || v.Good() {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestConcurrent shares one list among goroutines; run it with -race.
func TestConcurrent(t *testing.T) {
	s := signers(t, usualLines)
	r, err := ParseRevocations([]byte(stranger.Authorized()))
	if err != nil {
		t.Fatal(err)
	}
	good, unknown := testkeys.SignCommit(message, keyA), testkeys.SignCommit(message, stranger)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if v := VerifyCommit(good, SHA1, s, r, Options{}); !v.Good() || !v.Speaks("op-relay") {
					t.Errorf("%+v", v)
				}
				if v := VerifyCommit(unknown, SHA1, s, r, Options{}); v.Reason != Revoked {
					t.Errorf("%+v", v)
				}
			}
		})
	}
	wg.Wait()
}

// TestJudge asks for a key before it signs.
func TestJudge(t *testing.T) {
	s := signers(t, usualLines)
	at := Options{At: date("2024-01-01T00:00:00Z")}
	if v := s.Judge(keyA.PublicKey(), nil, at); !v.Good() || !v.Speaks("op-relay") {
		t.Errorf("%+v", v)
	}
	want(t, s.Judge(stranger.PublicKey(), nil, at), UnknownKey)
}

// TestSplitCommit looks at the parts.
func TestSplitCommit(t *testing.T) {
	p1, p2 := strings.Repeat("1", 40), strings.Repeat("2", 40)
	payload := testkeys.Commit{
		Parents: []string{p1, p2}, Author: " <> 0 -0000", Committer: "Ö P <op@example.com> 1700000000 +0530",
		Headers: "encoding UTF-8\nx a\n b\n c\n", Message: "subject\n\nbody",
	}.Bytes()
	raw := testkeys.SignCommit(payload, keyA)
	c, err := SplitCommit(raw, SHA1)
	if err != nil {
		t.Fatal(err)
	}
	if c.Tree != testkeys.EmptyTree || !slices.Equal(c.Parents, []string{p1, p2}) || string(c.Message) != "subject\n\nbody" {
		t.Errorf("%+v", c)
	}
	if c.Author != (Ident{"", "", 0, "-0000"}) || c.Committer != (Ident{"Ö P", "op@example.com", 1700000000, "+0530"}) {
		t.Errorf("author %+v, committer %+v", c.Author, c.Committer)
	}
	if !bytes.Equal(c.Payload, payload) || !bytes.HasPrefix(c.Signature, sshArmor) {
		t.Errorf("payload %q\nsignature %q", c.Payload, c.Signature)
	}
	if got := c.Committer.Time().Format(time.RFC3339); got != "2023-11-14T22:13:20Z" {
		t.Errorf("time %s", got)
	}
	unsigned, err := SplitCommit(payload, SHA1)
	if err != nil || unsigned.Signature != nil || !bytes.Equal(unsigned.Payload, payload) {
		t.Errorf("%+v, %v", unsigned, err)
	}
	headersOnly := bytes.TrimSuffix(testkeys.Commit{}.Bytes(), []byte("\n"))
	if c, err := SplitCommit(headersOnly, SHA1); err != nil || len(c.Message) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	want(t, verifyWith(t, usualLines, testkeys.SignCommit(headersOnly, keyA), Options{}), Good)
}

func rsaBlob(n *big.Int) []byte {
	return ssh.Marshal(struct {
		T    string
		E, N *big.Int
	}{"ssh-rsa", big.NewInt(65537), n})
}

// nextDigit puts the next digit of base64 for the one at i.
func nextDigit(s string, i int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return s[:i] + digits[strings.IndexByte(digits, s[i])+1:][:1] + s[i+1:]
}

func wrap(s string, n int) string {
	var b strings.Builder
	for len(s) > 0 {
		k := min(n, len(s))
		b.WriteString(s[:k] + "\n")
		s = s[k:]
	}
	return b.String()
}
