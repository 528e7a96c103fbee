package sshsign

import (
	"bytes"
	"crypto/elliptic"
	"encoding/pem"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/rigward/rigward/internal/test/testkeys"
)

// FuzzArmor: what is accepted is what Armor makes of it, and encoding/pem
// reads the same bytes in it.
func FuzzArmor(f *testing.F) {
	armor := testkeys.Armor(testkeys.Sign(message, keyA, "git", "sha512", "").Marshal())
	f.Add(armor)
	f.Add(bytes.ReplaceAll(armor, []byte("\n"), []byte("\r\n")))
	f.Add(append([]byte("x\n"), armor...))
	f.Add(append(slices.Clone(armor), armor...))
	f.Add(testkeys.Armor(nil))
	f.Add(testkeys.Armor(make([]byte, 105)))
	f.Add([]byte("-----BEGIN PGP SIGNATURE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, v := dearmor(Armor(data)); v.Reason == "" && !bytes.Equal(got, data) {
			t.Errorf("dearmor(Armor(%q)) = %q", data, got)
		}
		if !bytes.Equal(Armor(data), testkeys.Armor(data)) {
			t.Errorf("Armor(%q) = %q", data, Armor(data))
		}
		blob, v := dearmor(data)
		if v.Reason != "" {
			want(t, v, v.Reason)
			return
		}
		if !bytes.Equal(Armor(blob), data) {
			t.Errorf("accepts %q", data)
		}
		if block, rest := pem.Decode(data); len(blob) > 0 && (block == nil || len(rest) > 0 || !bytes.Equal(block.Bytes, blob)) {
			t.Errorf("encoding/pem reads %v in %q", block, data)
		}
	})
}

// FuzzSignature: what is accepted has one encoding, and the library reads the
// same in it.
func FuzzSignature(f *testing.F) {
	for _, k := range []*testkeys.Key{
		keyA, testkeys.ECDSA("op", elliptic.P256()), testkeys.RSA(2048), testkeys.SKEd25519("op"), testkeys.SKECDSA("op"),
		keyA.Certify(authority, testkeys.Cert{Principals: []string{"op@example.com"}, Critical: map[string]string{"a": "b"}}),
	} {
		f.Add(testkeys.Sign(message, k, "git", "sha512", "").Marshal())
	}
	s := signers(f, usualLines)
	f.Fuzz(func(t *testing.T, blob []byte) {
		sig, _, v := parseSignature(blob, nil)
		if listed, _, u := parseSignature(blob, s); !reflect.DeepEqual(listed, sig) || !reflect.DeepEqual(u, v) {
			t.Errorf("%q is read as %v, %v where the key is listed, else as %v, %v", blob, listed, u, sig, v)
		}
		if v.Reason != "" {
			want(t, v, v.Reason)
			return
		}
		if !bytes.Equal(sig.Marshal(), blob) {
			t.Errorf("%q is encoded again as %q", blob, sig.Marshal())
		}
		lib, err := sshsig.ParseSignature(blob)
		if err != nil || !bytes.Equal(lib.PublicKey.Marshal(), sig.PublicKey.Marshal()) || lib.Namespace != sig.Namespace || lib.HashAlgorithm != sig.HashAlgorithm {
			t.Errorf("the library reads %v, %v in %q", lib, err, blob)
		}
		if v := VerifyMessage(message, Armor(blob), s, nil, Options{Namespace: sig.Namespace, At: date("2024-01-01T00:00:00Z")}); v.Good() {
			if err := sshsig.Verify(bytes.NewReader(message), lib, lib.PublicKey, lib.HashAlgorithm, "git"); err != nil {
				t.Errorf("accepts what the library refuses: %v", err)
			}
		}
	})
}

// gitPayload does what git documents of its own reading: lines of the
// signature header and of every header that begins with gpgsig are not part
// of what is signed.
func gitPayload(raw []byte, header string) (payload, signature []byte) {
	const payloadLine, signatureLine, otherLine = 0, 1, 2
	state := payloadLine
	for rest := raw; len(rest) > 0; {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line = rest[:i+1]
		}
		rest = rest[len(line):]
		if line[0] == '\n' { // the message follows
			return append(append(payload, '\n'), rest...), signature
		}
		continued := line[0] == ' '
		switch {
		case continued && state != payloadLine:
		case bytes.HasPrefix(line, []byte(header+" ")):
			state = signatureLine
			line = line[len(header):]
		case bytes.HasPrefix(line, []byte("gpgsig")):
			state = otherLine
		default:
			state = payloadLine
		}
		switch state {
		case payloadLine:
			payload = append(payload, line...)
		case signatureLine:
			signature = append(signature, line[1:]...)
		}
	}
	return payload, signature
}

// FuzzSplitCommit: payload and signature are git's, and the object is what
// git writes for them, so there is no second object for one payload and
// signature.
func FuzzSplitCommit(f *testing.F) {
	signed := testkeys.SignCommit(message, keyA)
	f.Add(signed, false)
	f.Add(message, false)
	f.Add(testkeys.SignCommit(testkeys.Commit{Headers: "encoding UTF-8\nmergetag x\n y\n \n", Parents: []string{testkeys.EmptyTree}}.Bytes(), keyA), false)
	f.Add(bytes.Replace(signed, []byte("\n\nDEC"), []byte("\ngpgsigx junk\n more\n\nDEC"), 1), false)
	f.Add(bytes.Replace(signed, []byte("\nauthor"), []byte("\ngpgsig-sha256 junk\nauthor"), 1), false)
	f.Add(bytes.Replace(signed, []byte("author"), []byte("tree x\nauthor"), 1), false)
	f.Add(testkeys.SignCommitHeader(testkeys.Commit{Tree: testkeys.EmptyTree256}.Bytes(), "gpgsig-sha256", []byte("a\nb\n")), true)
	f.Add(bytes.TrimSuffix(testkeys.Commit{}.Bytes(), []byte("\n")), false)
	for i := range uint64(40) {
		if raw := randomCommit(rand.New(rand.NewPCG(8, i)), SHA1); len(raw) < 4096 {
			f.Add(raw, false)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, long bool) {
		if long {
			checkCommit(t, raw, SHA256)
		} else {
			checkCommit(t, raw, SHA1)
		}
	})
}

func checkCommit(t *testing.T, raw []byte, format ObjectFormat) {
	before := slices.Clone(raw)
	c, err := SplitCommit(raw, format)
	if !bytes.Equal(raw, before) {
		t.Fatal("the object is changed")
	}
	if err != nil {
		want(t, VerifyCommit(raw, format, nil, nil, Options{}), MalformedCommit)
		return
	}
	payload, signature := gitPayload(raw, format.header())
	if c.fault != "" {
		return
	}
	if !bytes.Equal(c.Payload, payload) || !bytes.Equal(c.Signature, signature) {
		t.Errorf("payload %q\nsignature %q\ngit: %q\n%q", c.Payload, c.Signature, payload, signature)
	}
	if c.Signature == nil {
		if !bytes.Equal(raw, c.Payload) {
			t.Errorf("unsigned, but not its own payload: %q", raw)
		}
		return
	}
	if again := testkeys.SignCommitHeader(c.Payload, format.header(), c.Signature); !bytes.Equal(again, raw) {
		t.Errorf("another object has this payload and signature:\n%q\n%q", raw, again)
	}
	if len(c.Tree) != format.hexLen() || c.Committer.Seconds < 0 || len(c.Committer.Zone) != 5 || !bytes.HasSuffix(raw, c.Message) {
		t.Errorf("%+v", c)
	}
}

// FuzzSplitTag: payload and signature make up the object, and the signature
// begins at the last line that begins an armor.
func FuzzSplitTag(f *testing.F) {
	tag := []byte("object " + testkeys.EmptyTree + "\ntype commit\ntag v1\ntagger Op <op@example.com> 1 +0000\n\nRelease\n")
	f.Add(tag)
	f.Add(testkeys.SignTag(tag, keyA))
	f.Add(testkeys.SignTag(testkeys.SignTag(tag, keyA), keyB))
	f.Add(append(slices.Clone(tag), "-----BEGIN PGP SIGNATURE-----"...))
	f.Add(bytes.Replace(tag, []byte("\n\n"), []byte("\ngpgsig x\n y\n\n"), 1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := SplitTag(raw, SHA1)
		if err != nil {
			want(t, VerifyTag(raw, SHA1, nil, nil, Options{}), MalformedTag)
			return
		}
		if !bytes.Equal(append(slices.Clone(c.Payload), c.Signature...), raw) {
			t.Errorf("%q and %q do not make up %q", c.Payload, c.Signature, raw)
		}
		last := -1
		_, body, _ := bytes.Cut(raw, []byte("\n\n"))
		at := len(raw) - len(body)
		for line := range bytes.Lines(body) {
			for _, begin := range []string{"SSH SIGNATURE", "PGP SIGNATURE", "PGP MESSAGE", "SIGNED MESSAGE"} {
				if bytes.HasPrefix(line, []byte("-----BEGIN "+begin+"-----")) {
					last = at
				}
			}
			at += len(line)
		}
		if got := len(c.Payload); last >= 0 && got != last || last < 0 && c.Signature != nil {
			t.Errorf("the signature is at %d, expected %d: %q", got, last, raw)
		}
	})
}

// FuzzParseSigners: what is accepted reads the same when it is written again,
// and x/crypto/ssh finds the same key after the principals.
func FuzzParseSigners(f *testing.F) {
	f.Add([]byte(usualLines))
	f.Add([]byte(linesForGit()))
	f.Add([]byte(keyA.Line(`"a b,!c*"`, `cert-authority,namespaces="git,\"x",valid-after="20200101",valid-before="20210101Z"`)))
	f.Add([]byte("# c\r\n\r\n" + keyA.Line("a", "") + "\t# d"))
	f.Add([]byte(keyA.Line("a,,b", "no-touch-required")))
	f.Add([]byte("a " + testkeys.SKECDSA("x").Authorized() + " comment"))
	for i := range uint64(40) {
		f.Add([]byte(randomSigners(rand.New(rand.NewPCG(8, i)), keyA, false)))
	}
	f.Fuzz(checkSigners)
}

func checkSigners(t *testing.T, data []byte) {
	s, err := ParseSigners(data)
	if err != nil {
		e, ok := err.(*ParseError)
		if !ok || s != nil || e.Message == "" || strings.ContainsAny(e.Error()+e.Hint, "\n\r\x1b\x00") || (e.Line == 0) != (e.Col == 0) {
			t.Errorf("%#v", err)
		}
		return
	}
	lines := strings.Split(string(data), "\n")
	var again strings.Builder
	for _, signer := range s.List() {
		again.WriteString(render(signer))
		line := strings.TrimSuffix(lines[signer.Line-1], "\r")
		_, rest, _ := strings.Cut(line, signer.Principals)
		rest = strings.TrimLeft(strings.TrimPrefix(rest, `"`), " \t")
		key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
		if err != nil || !bytes.Equal(key.Marshal(), signer.Key.Marshal()) {
			t.Errorf("x/crypto/ssh reads %v, %v in %q", key, err, rest)
		}
		if limited := signer.CertAuthority || signer.HasNamespaces || !signer.ValidAfter.IsZero() || !signer.ValidBefore.IsZero(); limited != (len(options) > 0) {
			t.Errorf("x/crypto/ssh reads the options %q in %q", options, rest)
		}
	}
	s2, err := ParseSigners([]byte(again.String()))
	if err != nil || len(s2.List()) != len(s.List()) {
		t.Fatalf("%v for %q, written again from %q", err, again.String(), data)
	}
	for i, a := range s.List() {
		b := s2.List()[i]
		b.Line, b.Comment = a.Line, a.Comment
		if !bytes.Equal(a.Key.Marshal(), b.Key.Marshal()) {
			t.Errorf("another key")
		}
		if a.Key, b.Key = nil, nil; a != b {
			t.Errorf("%+v is read again as %+v", a, b)
		}
	}
}

// TestGenerated holds generated objects and signers files against the same
// second readers as the fuzz tests.
func TestGenerated(t *testing.T) {
	all := slices.Sorted(maps.Keys(testKeys()))
	for i := range uint64(scaled(300, 20000)) {
		r := rand.New(rand.NewPCG(9, i))
		format := pick(r, SHA1, SHA256)
		checkCommit(t, randomCommit(r, format), format)
		checkSigners(t, []byte(randomSigners(r, testKeys()[pick(r, all...)], false)))
	}
}

// render writes a line that says what s does.
func render(s Signer) string {
	var options []string
	if s.CertAuthority {
		options = append(options, "cert-authority")
	}
	if s.HasNamespaces {
		options = append(options, `namespaces="`+strings.ReplaceAll(s.Namespaces, `"`, `\"`)+`"`)
	}
	if !s.ValidAfter.IsZero() {
		options = append(options, s.ValidAfter.Format(`valid-after="20060102150405Z"`))
	}
	if !s.ValidBefore.IsZero() {
		options = append(options, s.ValidBefore.Format(`valid-before="20060102150405UTC"`))
	}
	return `"` + s.Principals + `" ` + strings.Join(options, ",") + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.Key))) + "\n"
}

// FuzzMatchPrincipals compares with a matcher that tries everything.
func FuzzMatchPrincipals(f *testing.F) {
	f.Add("op@example.com,!*@example.org", "op@example.com")
	f.Add("a*b?c,**,!!x", "aXbYc")
	f.Fuzz(func(t *testing.T, list, name string) {
		if len(list) > 200 || len(name) > 200 {
			return
		}
		positive, negative := false, false
		for p := range strings.SplitSeq(list, ",") {
			p, negated := strings.CutPrefix(p, "!")
			// reach[i]: p so far matches name[:i]
			reach := make([]bool, len(name)+1)
			reach[0] = true
			for _, c := range []byte(p) {
				next := make([]bool, len(name)+1)
				for i := range reach {
					switch {
					case c == '*':
						next[i] = reach[i] || i > 0 && next[i-1]
					case i > 0 && (c == '?' || c == name[i-1]):
						next[i] = reach[i-1]
					}
				}
				reach = next
			}
			if reach[len(name)] {
				positive, negative = positive || !negated, negative || negated
			}
		}
		// The list ends at a comma without opening another pattern.
		if name == "" && (list == "" || strings.HasSuffix(list, ",")) {
			return
		}
		if got := MatchPrincipals(list, name); got != (positive && !negative) {
			t.Errorf("MatchPrincipals(%q, %q) = %v", list, name, got)
		}
	})
}

// FuzzParseRevocations: a second reader, written with ssh.Unmarshal, finds the
// same in every key revocation list that is accepted.
func FuzzParseRevocations(f *testing.F) {
	f.Add([]byte(keyA.Authorized()+" x\n# c\n"), uint64(1))
	f.Add(krl(krlExplicitKey, ssh.Marshal(struct{ K []byte }{keyA.PublicKey().Marshal()})), uint64(1))
	f.Add(krl(krlSHA1, ssh.Marshal(struct{ H []byte }{make([]byte, 20)})), uint64(1))
	f.Add(krl(krlSHA256, ssh.Marshal(struct{ H []byte }{make([]byte, 32)})), uint64(1))
	f.Add(krl(krlCertificates, ssh.Marshal(struct {
		CA, Reserved []byte
		T1           byte
		List         []byte
		T2           byte
		Range        []byte
		T3           byte
		Bitmap       []byte
		T4           byte
		IDs          []byte
	}{authority.PublicKey().Marshal(), nil, krlSerialList, ssh.Marshal(struct{ A, B uint64 }{5, 9}), krlSerialRange, ssh.Marshal(struct{ A, B uint64 }{20, 30}),
		krlSerialBitmap, ssh.Marshal(struct {
			O uint64
			B []byte
		}{100, []byte{0x55, 0x01}}), krlKeyID, ssh.Marshal(struct{ A, B string }{"one", "two"})})), uint64(104))
	f.Fuzz(func(t *testing.T, data []byte, serial uint64) {
		r, err := ParseRevocations(data)
		if err != nil {
			if e, ok := err.(*ParseError); !ok || r != nil || strings.ContainsAny(e.Error()+e.Hint, "\n\r\x1b\x00") {
				t.Errorf("%#v", err)
			}
			return
		}
		if !bytes.HasPrefix(data, []byte(krlMagic)) {
			return
		}
		m := model{serial: serial}
		m.read(t, data)
		if len(r.keys) != len(m.keys) || len(r.sha1) != len(m.sha1) || len(r.sha256) != len(m.sha256) {
			t.Errorf("%d keys, %d and %d hashes; the second reader finds %d, %d and %d", len(r.keys), len(r.sha1), len(r.sha256), len(m.keys), len(m.sha1), len(m.sha256))
		}
		for k := range m.keys {
			if !r.keys[k] {
				t.Errorf("the key %q is missing", k)
			}
		}
		for ca, c := range r.certs {
			if c.holds(serial) != m.serials[ca] {
				t.Errorf("serial %d of %q: %v", serial, ca, c.holds(serial))
			}
			if len(c.ids) != len(m.ids[ca]) {
				t.Errorf("ids of %q: %v, the second reader finds %v", ca, c.ids, m.ids[ca])
			}
		}
	})
}

func krl(section byte, data []byte) []byte {
	return ssh.Marshal(struct {
		Magic             [8]byte
		Format            uint32
		Version, At, Flag uint64
		Reserved, Comment string
		Section           byte
		Data              []byte
	}{[8]byte([]byte(krlMagic)), 1, 1, 1, 0, "", "comment", section, data})
}

// A model is what the second reader finds.
type model struct {
	serial             uint64
	keys, sha1, sha256 map[string]bool
	serials            map[string]bool            // by authority: serial is revoked
	ids                map[string]map[string]bool // by authority
}

func (m *model) read(t *testing.T, data []byte) {
	unmarshal := func(data []byte, v any) {
		t.Helper()
		if err := ssh.Unmarshal(data, v); err != nil {
			t.Fatalf("the second reader fails: %v", err)
		}
	}
	m.keys, m.sha1, m.sha256, m.serials, m.ids = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}
	var head struct {
		Magic             [8]byte
		Format            uint32
		Version, At, Flag uint64
		Reserved, Comment string
		Rest              []byte `ssh:"rest"`
	}
	unmarshal(data, &head)
	type section struct {
		Type byte
		Data []byte
		Rest []byte `ssh:"rest"`
	}
	type item struct {
		Data []byte
		Rest []byte `ssh:"rest"`
	}
	type number struct {
		N    uint64
		Rest []byte `ssh:"rest"`
	}
	for rest := head.Rest; len(rest) > 0; {
		var s section
		unmarshal(rest, &s)
		rest = s.Rest
		if s.Type != krlCertificates {
			set := map[byte]map[string]bool{krlExplicitKey: m.keys, krlSHA1: m.sha1, krlSHA256: m.sha256}[s.Type]
			for rest := s.Data; len(rest) > 0; {
				var i item
				unmarshal(rest, &i)
				set[string(i.Data)] = true
				rest = i.Rest
			}
			continue
		}
		var certs struct {
			CA, Reserved []byte
			Rest         []byte `ssh:"rest"`
		}
		unmarshal(s.Data, &certs)
		ca := string(certs.CA)
		if m.ids[ca] == nil {
			m.ids[ca] = map[string]bool{}
		}
		for rest := certs.Rest; len(rest) > 0; {
			var s section
			unmarshal(rest, &s)
			rest = s.Rest
			switch s.Type {
			case krlSerialList:
				for rest := s.Data; len(rest) > 0; {
					var n number
					unmarshal(rest, &n)
					m.serials[ca] = m.serials[ca] || n.N == m.serial
					rest = n.Rest
				}
			case krlSerialRange:
				var r struct{ Low, High uint64 }
				unmarshal(s.Data, &r)
				m.serials[ca] = m.serials[ca] || r.Low <= m.serial && m.serial <= r.High
			case krlSerialBitmap:
				var b struct {
					Offset uint64
					Bits   []byte
				}
				unmarshal(s.Data, &b)
				b.Bits = slices.Clone(b.Bits)
				slices.Reverse(b.Bits)
				for n := range 8 * len(b.Bits) {
					if b.Bits[n/8]>>(n%8)&1 == 1 && b.Offset+uint64(n) == m.serial {
						m.serials[ca] = true
					}
				}
			case krlKeyID:
				for rest := s.Data; len(rest) > 0; {
					var i item
					unmarshal(rest, &i)
					m.ids[ca][string(i.Data)] = true
					rest = i.Rest
				}
			}
		}
	}
}
