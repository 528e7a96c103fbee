package relay

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"golang.org/x/crypto/ssh"
)

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// good is a relay whose content is as it should be.
func good() envelope.Fields {
	f := envelope.Fields{From: "op-relay", To: []string{"win"}, Date: "2026-05-15", Status: "▶ Go", Type: "DECISIONS", Thread: "t-one", InReplyTo: zeros,
		AttestedBy: "SHA256:abc", AttestedAt: "2026-05-15T10:00:00Z", Nonce: "01HZX9K3T7A4B7C9D2E1FGHJKM", Body: []byte("Go.\n")}
	f.BodyHash = envelope.BodyHash(f.Body)
	return f
}

// content returns the findings of both packages, sorted.
func content(t *testing.T, f envelope.Fields, types ...string) (*envelope.Envelope, []finding.Finding) {
	t.Helper()
	file, err := envelope.Render(f)
	if err != nil {
		t.Fatal(err)
	}
	e, fs := envelope.Parse(file, envelope.Options{Path: "t-one/x.md"})
	if e == nil {
		t.Fatal(fs)
	}
	fs = append(fs, CheckContent(e, types...)...)
	finding.Sort(fs)
	return e, fs
}

func expect(t *testing.T, fs []finding.Finding, rules ...string) {
	t.Helper()
	var got []string
	for _, f := range fs {
		got = append(got, f.Rule)
		if f.Severity != finding.Error || f.Path != "t-one/x.md" || f.Message == "" || f.Line < 1 || f.Col < 1 {
			t.Errorf("incomplete finding %+v", f)
		}
	}
	if strings.Join(got, " ") != strings.Join(rules, " ") {
		t.Errorf("rules %v, expected %v: %+v", got, rules, fs)
	}
}

func TestGoodRelay(t *testing.T) {
	_, fs := content(t, good())
	expect(t, fs)
	for _, typ := range DefaultTypes() {
		f := good()
		f.Type = typ
		_, fs := content(t, f)
		expect(t, fs)
	}
	f := good() // no relay at all: in_reply_to is anybody's
	f.From, f.AttestedBy, f.AttestedAt, f.Nonce = "op", "", "", ""
	_, fs = content(t, f)
	expect(t, fs)
}

func TestSuffix(t *testing.T) {
	t.Run("attack 34: attestation by a sender without -relay", func(t *testing.T) {
		for _, from := range []string{"op", "op-relay-", "oprelay", "relay", "op-relay2"} {
			f := good()
			f.From = from
			e, fs := content(t, f)
			expect(t, fs, RuleSuffix)
			if line, col := e.Place("from"); fs[0].Line != line || fs[0].Col != col || !strings.Contains(fs[0].Message, "attested_by, attested_at, nonce") {
				t.Errorf("%+v", fs[0])
			}
		}
	})
	t.Run("attack 34: one field is enough", func(t *testing.T) {
		f := good()
		f.From, f.AttestedBy, f.AttestedAt = "op", "", ""
		_, fs := content(t, f)
		expect(t, fs, RuleSuffix, RuleFields)
	})
	t.Run("attack 35: -relay without attestation", func(t *testing.T) {
		f := good()
		f.AttestedBy, f.AttestedAt, f.Nonce = "", "", ""
		_, fs := content(t, f)
		expect(t, fs, RuleSuffix)
		f.BodyHash = "" // not told as a warning either: the sender is a relay
		_, fs = content(t, f)
		expect(t, fs, RuleSuffix)
	})
}

func TestFields(t *testing.T) {
	for name, remove := range map[string]func(*envelope.Fields){
		"attested_by": func(f *envelope.Fields) { f.AttestedBy = "" },
		"attested_at": func(f *envelope.Fields) { f.AttestedAt = "" },
		"nonce":       func(f *envelope.Fields) { f.Nonce = "" },
		"in_reply_to": func(f *envelope.Fields) { f.InReplyTo = "" },
		"body_hash":   func(f *envelope.Fields) { f.BodyHash = "" },
	} {
		t.Run("attack 36: no "+name, func(t *testing.T) {
			f := good()
			remove(&f)
			e, fs := content(t, f)
			expect(t, fs, RuleFields)
			if fs[0].Line != e.Closing || fs[0].Col != 1 || !strings.HasSuffix(fs[0].Message, "lacks "+name) {
				t.Errorf("%+v", fs[0])
			}
		})
	}
	t.Run("all that is missing in one finding", func(t *testing.T) {
		f := good()
		f.InReplyTo, f.BodyHash, f.AttestedBy = "", "", ""
		e, fs := content(t, f)
		expect(t, fs, RuleFields)
		if !strings.HasSuffix(fs[0].Message, "attested_by, in_reply_to, body_hash") || !strings.Contains(fs[0].Hint, e.Hash) {
			t.Errorf("%+v", fs[0])
		}
	})
	for _, typ := range envelope.Types() {
		if typ == "DECISIONS" || typ == "RESPONSE" || typ == "ACK" {
			continue
		}
		t.Run("attack 37: type "+typ, func(t *testing.T) {
			f := good()
			f.Type = typ
			e, fs := content(t, f)
			expect(t, fs, RuleFields)
			if line, col := e.Place("type"); fs[0].Line != line || fs[0].Col != col || !strings.Contains(fs[0].Message, "DECISIONS, RESPONSE or ACK") {
				t.Errorf("%+v", fs[0])
			}
			_, fs = content(t, f, typ) // the policy may name others
			expect(t, fs)
		})
	}
	t.Run("a type that is none is told once", func(t *testing.T) {
		f := good()
		f.Type = "RELAY"
		_, fs := content(t, f)
		expect(t, fs, envelope.RuleSchema)
	})
	t.Run("attack 38: body edited, body_hash kept", func(t *testing.T) {
		f := good()
		f.Body = []byte("Stop.\n")
		_, fs := content(t, f)
		expect(t, fs, envelope.RuleBodyHash)
		f.Body = []byte("Go. \t\r\n\n")
		_, fs = content(t, f)
		expect(t, fs)
	})
	t.Run("a time that is none", func(t *testing.T) {
		f := good()
		f.AttestedAt = "2026-02-30T10:00:00Z"
		_, fs := content(t, f)
		expect(t, fs, envelope.RuleDate)
	})
}

func TestNonceForm(t *testing.T) {
	for _, nonce := range []string{"01HZX9K3T7A4B7C9D2E1FGHJKM", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01HZX9K3T7-A4B7C9D2E1", "0123456789-0123456789"} {
		f := good()
		f.Nonce = nonce
		_, fs := content(t, f)
		expect(t, fs)
	}
	for _, nonce := range []string{"01hzx9k3t7a4b7c9d2e1fghjkm", "01HZX9K3T7A4B7C9D2E1FGHJKI", "01HZX9K3T7A4B7C9D2E1FGHJKL", "O1HZX9K3T7A4B7C9D2E1FGHJKM", "01HZX9K3T7A4B7C9D2E1FGHJKU", "01HZX9K3T7A4B7C9D2E1FGHJKMN", "01HZX9K3T7A4B7C9D2E1FGHJK", "81HZX9K3T7A4B7C9D2E1FGHJKM",
		"8123456789-0123456789", "01HZX9K3T7_A4B7C9D2E1", "01HZX9K3T-7A4B7C9D2E1", "01HZX9K3T7-A4B7C9D2E", "01HZX9K3T7-A4B7C9D2E1\n", " 01HZX9K3T7-A4B7C9D2E1", "n", "01HZX9K3T7-A4B7C9D2é", "01HZX9K3T7A4B7C9D2E1-FGHJK"} {
		t.Run("attack 6: "+nonce, func(t *testing.T) {
			f := good()
			f.Nonce = nonce
			e, fs := content(t, f)
			expect(t, fs, RuleNonce)
			if line, col := e.Place("nonce"); fs[0].Line != line || fs[0].Col != col {
				t.Errorf("%+v", fs[0])
			}
		})
	}
	t.Run("a nonce that violates the schema is told once", func(t *testing.T) {
		f := good()
		f.Nonce = strings.Repeat("n", 65)
		_, fs := content(t, f)
		expect(t, fs, envelope.RuleSchema)
	})
}

func TestNewNonce(t *testing.T) {
	// 2016-07-30T22:36:16.385Z is the time of the ULID specification's example.
	got, err := NewNonce(time.UnixMilli(1469918176385), bytes.NewReader(make([]byte, 10)))
	if err != nil || got != "01ARYZ6S410000000000000000" {
		t.Errorf("%s, %v", got, err)
	}
	got, err = NewNonce(time.UnixMilli(1<<48-1), bytes.NewReader(bytes.Repeat([]byte{0xff}, 10)))
	if err != nil || got != "7ZZZZZZZZZZZZZZZZZZZZZZZZZ" || !ValidNonce(got) {
		t.Errorf("%s, %v", got, err)
	}
	got, err = NewNonce(time.UnixMilli(0), bytes.NewReader([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}))
	if err != nil || got != "00000000000000000000000001" {
		t.Errorf("%s, %v", got, err)
	}
	for name, f := range map[string]func() (string, error){
		"short source":   func() (string, error) { return NewNonce(time.UnixMilli(0), bytes.NewReader(make([]byte, 9))) },
		"failing source": func() (string, error) { return NewNonce(time.UnixMilli(0), iotest.ErrReader(errors.New("x"))) },
		"before 1970":    func() (string, error) { return NewNonce(time.UnixMilli(-1), bytes.NewReader(make([]byte, 10))) },
		"after 10889":    func() (string, error) { return NewNonce(time.UnixMilli(1<<48), bytes.NewReader(make([]byte, 10))) },
	} {
		if got, err := f(); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	before := ""
	for ms := int64(1); ms < 1<<47; ms *= 3 { // sorts by time
		got, err := NewNonce(time.UnixMilli(ms), bytes.NewReader(make([]byte, 10)))
		if err != nil || !ValidNonce(got) || got <= before {
			t.Errorf("%s after %s, %v", got, before, err)
		}
		before = got
	}
}

func TestNamesKey(t *testing.T) {
	key := func(seed byte) ssh.PublicKey {
		k, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)).Public())
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a, b := key(1), key(2)
	literal := func(k ssh.PublicKey) string { return k.Type() + " " + base64.StdEncoding.EncodeToString(k.Marshal()) }
	fpA, fpB := ssh.FingerprintSHA256(a), ssh.FingerprintSHA256(b)
	for _, c := range []struct {
		name, by string
		want     KeyVerdict
	}{
		{"attack 29: fingerprint of another key", fpB, OtherKey},
		{"attack 29 control", fpA, SameKey},
		{"attack 29 control with =", fpA + "=", SameKey},
		{"two =", fpA + "==", OtherKey},
		{"attack 30: literal of another key", "key::" + literal(b), OtherKey},
		{"attack 30 control: another comment", "key::" + literal(a) + " other comment", SameKey},
		{"attack 30 control without key::", literal(a), SameKey},
		{"comment that looks like a path", literal(a) + ` DOMAIN\op id.pub`, SameKey},
		{"literal of another key with such a comment", literal(b) + ` C:\id.pub`, OtherKey},
		{"literal over two lines", strings.Replace(literal(a), "AAAA", "AA\nAA", 1), OtherKey},
		{"other type word", "ssh-rsa " + strings.SplitN(literal(a), " ", 2)[1], OtherKey},
		{"type alone", a.Type(), OtherKey},
		{"blob alone", strings.SplitN(literal(a), " ", 2)[1], OtherKey},
		{"attack 30: OpenPGP id", "0xDEADBEEFDEADBEEF", OtherKey},
		{"e-mail", "op@example.com", OtherKey},
		{"MD5", "MD5:" + ssh.FingerprintLegacyMD5(a), OtherKey},
		{"bare MD5", ssh.FingerprintLegacyMD5(a), OtherKey},
		{"upper-case prefix", strings.Replace(fpA, "SHA256", "sha256", 1), OtherKey},
		{"short fingerprint", fpA[:len(fpA)-1], OtherKey},
		{"attack 31: path", "/home/op/.ssh/id", NoKey},
		{"home", "~/.ssh/id", NoKey},
		{"relative", "./id", NoKey},
		{"above", "../id", NoKey},
		{"drive letter", "C:/Users/op/id", NoKey},
		{"backslash", `keys\id`, NoKey},
		{".pub", "id_ed25519.pub", NoKey},
		{"fingerprint of another key made a path", fpB + ".pub", NoKey},
		{"empty", "", OtherKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := NamesKey(c.by, a); got != c.want {
				t.Errorf("%q %v, expected it %v", c.by, got, c.want)
			}
		})
	}
}

func FuzzValidNonce(f *testing.F) {
	f.Add("01HZX9K3T7-A4B7C9D2E1")
	f.Add("01HZX9K3T7A4B7C9D2E1FGHJKM")
	f.Fuzz(func(t *testing.T, s string) {
		rest, ok := s, len(s) > 0 && s[0] <= '7'
		if len(s) == 21 && s[10] == '-' {
			rest = s[:10] + s[11:] + "000000"
		}
		ok = ok && len(rest) == 26 && strings.Trim(rest, crockford) == ""
		if ValidNonce(s) != ok {
			t.Errorf("%q: %v", s, !ok)
		}
	})
}
