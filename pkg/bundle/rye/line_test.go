package rye

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHashedText has the examples of docs/spec/ryebundle.md#hashed-text: offset and
// length of the hashed text in files of the greeter bundle, and its hash.
func TestHashedText(t *testing.T) {
	dir, _ := writeTrees(t, "bundles/syn-greeter-1.0.0")
	for _, c := range []struct {
		path        string
		start, size int
		hash        string
		lineStart   int
	}{
		{".ai/tools/acme/greeter/hello.py", 228, 37, "d79d506e", 23},
		{".ai/directives/acme/greeter/greet.md", 241, 113, "064bdd8b", 0},
		{".ai/knowledge/acme/greeter/notes.md", 234, 42, "1036f03a", 0},
		{".ai/knowledge/acme/greeter/intro.md", 212, 34, "c4c0f41e", 0},
	} {
		data, err := os.ReadFile(filepath.Join(dir, "bundles/syn-greeter-1.0.0", c.path))
		if err != nil {
			t.Fatal(err)
		}
		f, _ := itemFormat(c.path)
		l, fault := parseLine(data, f)
		if fault != nil {
			t.Fatal(fault)
		}
		got, fault := hashedText(data, l, TypeOf(c.path))
		if fault != nil {
			t.Fatal(fault)
		}
		if want := data[c.start : c.start+c.size]; !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.path, got, want)
		}
		if !strings.HasPrefix(l.Hash, c.hash) || l.start != c.lineStart || hexSum(got) != l.Hash {
			t.Errorf("%s: hash %s, line at %d", c.path, l.Hash, l.start)
		}
	}
}

func TestStrip(t *testing.T) {
	spaces := "\t\n\v\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
	if got := strip([]byte(spaces + "a" + spaces + "b" + spaces)); string(got) != "a"+spaces+"b" {
		t.Errorf("%q", got)
	}
	for _, s := range []string{"\u200b", "\ufeff", "\u180e", "\x00", "\x1b", "\u2060"} {
		if got := strip([]byte(s)); string(got) != s {
			t.Errorf("%q was stripped", s)
		}
	}
}

// TestExtension: the rule differs from Go's path.Ext.
func TestExtension(t *testing.T) {
	for name, want := range map[string]string{
		"a.py": ".py", "a/b.d/c": "", ".gitkeep": "", "a.": "", "a.tar.gz": ".gz", "..x": ".x", "a..": "", "": "", "a.PY": ".PY", ".a.b": ".b",
	} {
		if got := extension(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for p, want := range map[string]string{
		".ai/tools/acme/greeter/package.json": "acme/greeter/package", ".ai/plans/a/b.md": "b", ".ai/config/keys/trusted/x.toml": "keys/trusted/x",
		".ai/tools/.gitkeep": ".gitkeep", ".ai/trusted_keys/k.toml": "k",
	} {
		if got := ItemID(p); got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
}

// TestFormatTable goes through the table of docs/spec/ryebundle.md#item-types.
func TestFormatTable(t *testing.T) {
	exts := []string{".md", ".yaml", ".yml", ".py", ".json", ".sh", ".toml", ".js", ".ts", ".mjs", ".cjs", ".txt", "", ".MD", ".Py"}
	for typ, row := range map[Type]map[string]string{
		Directive: {".md": "<!--", ".MD": "<!--"},
		Knowledge: {".md": "<!--", ".MD": "<!--", ".yaml": "<!--", ".yml": "<!--"},
		Tool:      {".py": "#", ".Py": "#", ".yaml": "#", ".yml": "#", ".json": "#", ".sh": "#", ".toml": "#", ".js": "//", ".ts": "//", ".mjs": "//", ".cjs": "//"},
		Config:    {".yaml": "#", ".yml": "#", ".toml": "#"},
		Asset:     {},
	} {
		for _, e := range exts {
			f, ok := formatOf(typ, "x"+e)
			if ok != (row[e] != "") || ok && f.prefix != row[e] {
				t.Errorf("%s %q: %q %v, want %q", typ, e, f.prefix, ok, row[e])
			}
			if ok && (f.afterShebang != "") != (typ == Tool && f.prefix == "#") {
				t.Errorf("%s %q: after a shebang %q", typ, e, f.afterShebang)
			}
		}
	}
}

// TestObjectHash has the examples of docs/spec/ryebundle.md#object-hash, and the way in
// which the old reader reads a line that is none for us.
func TestObjectHash(t *testing.T) {
	dir, _ := writeTrees(t, "bundles/syn-greeter-1.0.0")
	const p = ".ai/tools/acme/greeter/package.json"
	data, err := os.ReadFile(filepath.Join(dir, "bundles/syn-greeter-1.0.0", p))
	if err != nil {
		t.Fatal(err)
	}
	if got := ObjectHash(p, data); got != "fd93494cc09cf81f041a53ac204012f82bb34e36f46867c8d2c2ac748503258f" {
		t.Error(got)
	}
	hash, sig := strings.Repeat("a", 64), strings.Repeat("b", 86)
	line := "rye:signed:2026-02-30T00:00:00Z:" + hash + ":" + sig + "==:0123456789abcdef"
	info := `{"ed25519_sig":"` + sig + `==","hash":"` + hash + `","pubkey_fp":"0123456789abcdef","timestamp":"2026-02-30T00:00:00Z"}`
	origin := strings.Replace(info, `,"timestamp"`, `,"registry_provider":"reg","registry_username":"me","timestamp"`, 1)
	for _, c := range []struct{ path, text, want string }{
		{".ai/tools/a.py", "# " + line + " junk\n", info},
		{".ai/tools/a.py", "# " + line, info},
		{".ai/tools/a.py", "# " + line + "\r\n", info},
		{".ai/tools/a.py", "# " + line + "|reg@me more\n", origin},
		{".ai/tools/a.py", "# " + line + "|reg@\n", info},
		{".ai/tools/a.py", "#!/bin/sh\n# " + line + "\n", info},
		{".ai/tools/a.py", "#! /bin/sh\n# " + line + "\n", "null"},
		{".ai/tools/a.py", "\n# " + line + "\n", "null"},
		{".ai/tools/a.py", "#  " + line + "\n", "null"},
		{".ai/tools/a.py", "# " + line + "\n\xff", "null"},
		{".ai/tools/a.txt", "# " + line + "\n", "null"},
		{".ai/plans/a.py", "# " + line + "\n", "null"},
		{".ai/trusted_keys/a.toml", "# " + line + "\n", "null"},
		{".ai/config/a.toml", "#!/x\n# " + line + "\n", "null"},
		{".ai/tools/a.ts", "// " + line + " junk\n", info},
		{".ai/knowledge/a.md", "<!-- " + line + " -->\n", info},
		{".ai/knowledge/a.md", "<!-- " + line + " --> junk\n", info},
		{".ai/knowledge/a.md", "<!-- " + line + "\n", "null"},
		{".ai/knowledge/a.md", "<!-- " + line + "|reg@me -->\n", origin},
		{".ai/knowledge/a.md", "<!-- " + line + "|reg@ -->\n", "null"},
	} {
		if got := string(appendSignatureInfo(nil, c.path, []byte(c.text))); got != c.want {
			t.Errorf("%s %q:\n got %s\nwant %s", c.path, c.text, got, c.want)
		}
	}
	if got := string(appendJSON(nil, "a\"\\/é\x7f\u2028😀\n")); got != `"a\"\\/\u00e9\u007f\u2028\ud83d\ude00\u000a"` {
		t.Error(got)
	}
}

// lineOracle is the grammar of docs/spec/ryebundle.md#signature-line, written down a
// second time; dates and unused bits it cannot say.
var lineOracle = regexp.MustCompile(`^(?s:# rye:signed:([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z):([0-9a-f]{64}):([A-Za-z0-9_-]{86}(?:==)?):([0-9a-f]{16})(\|[A-Za-z0-9_-]+@[A-Za-z0-9_-]+)?\n)`)

func FuzzLine(f *testing.F) {
	good := signatureLine(hashLine, []byte("x"), ownKey, when)
	f.Add([]byte(good + "x"))
	f.Add([]byte(strings.Replace(good, "==", "", 1)))
	f.Add([]byte(strings.Replace(good, "\n", "|a@b\n", 1)))
	f.Add([]byte("\ufeff" + good))
	f.Add([]byte("#!/bin/sh\n" + good))
	f.Add([]byte("# kiwi-mcp:validated:x\n"))
	yaml, _ := headFormatOf("x.yaml")
	f.Add([]byte(headLine(yaml, "x", ownKey)))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, fault := parseLine(data, hashLine)
		if (l == nil) == (fault == nil) {
			t.Fatal("neither or both")
		}
		m := lineOracle.FindSubmatch(data)
		if l != nil {
			if m == nil || string(m[0]) != string(data[l.start:l.end]) || string(m[2]) != l.Hash || string(m[4]) != l.Fingerprint {
				t.Fatalf("accepted %q", data)
			}
			if again := hashLine.prefix + " " + l.String(); l.Provider == "" && strings.TrimSuffix(strings.Replace(string(m[0]), string(m[3]), strings.TrimSuffix(string(m[3]), "==")+"==", 1), "\n") != again {
				t.Fatalf("writes %q for %q", again, m[0])
			}
		} else if m != nil && fault.Code != SignatureEncoding && realTime(string(m[1])) {
			t.Fatalf("refused %q: %s", data, fault.Message)
		}
		if fault != nil && (!utf8.ValidString(fault.Message) || strings.Contains(fault.Message, "\n")) {
			t.Fatalf("message %q", fault.Message)
		}
		for _, format := range []lineFormat{toolLine, slashLine, commentLine, yaml} {
			if l, _ := parseLine(data, format); l != nil {
				for _, typ := range []Type{Directive, Tool, Knowledge, Config} {
					hashedText(data, l, typ)
				}
			}
		}
	})
}

// TestSignRoundTrip signs texts of every kind and verifies them; a change of
// any byte that is covered is seen.
func TestSignRoundTrip(t *testing.T) {
	keys := pin(t, ownKey)
	for _, c := range []struct {
		name    string
		typ     Type
		text    string
		partial bool
	}{
		{"a.py", Tool, "print(1)\n", false},
		{"a.py", Tool, "", false},
		{"a.py", Tool, "#!/usr/bin/env python3\nprint(1)\n", true},
		{"a.sh", Tool, "#!/bin/sh", true},
		{"a.sh", Tool, "#! /bin/sh\nx\n", false},
		{"a.ts", Tool, "#!/usr/bin/env node\nlet x\n", true},
		{"a.json", Tool, "{}", false},
		{"a.py", Tool, "a\r\nb\rc\n", false},
		{"a.md", Knowledge, "text\n", false},
		{"a.md", Knowledge, "---\na: b\n---\n\n text \n", true},
		{"a.md", Knowledge, "---\nno end\n", false},
		{"a.yml", Knowledge, "a: b\n", false},
		{"a.md", Directive, "x\n<directive name=\"a\">\ny</directive>\nz", true},
		{"a.md", Directive, "<directives>\ny</directive>", false},
		{"a.toml", Config, "a = 1\n", false},
		{"a.yaml", Config, "bundle: 1\nfile: 2\n", false},
	} {
		signed, fault := Sign(c.name, []byte(c.text), c.typ, ownKey, when)
		if fault != nil {
			t.Errorf("%s %q: %s", c.name, c.text, fault.Message)
			continue
		}
		r, err := VerifyItem(c.name, signed, c.typ, keys)
		if err != nil || r.Status != "verified" {
			t.Errorf("%s %q: %v %v", c.name, signed, messages(r.Findings), err)
			continue
		}
		if got := slices.Contains(r.Codes, PartialCoverage); got != c.partial {
			t.Errorf("%s %q: partial %v", c.name, c.text, got)
		}
		again, fault := Sign(c.name, signed, c.typ, ownKey, when)
		if fault != nil || !bytes.Equal(again, signed) {
			t.Errorf("%s: signing again gives other bytes: %q", c.name, again)
		}
		f, _ := formatOf(c.typ, c.name)
		l, _ := parseLine(signed, f)
		hashed, _ := hashedText(signed, l, c.typ)
		at := bytes.Index(signed, hashed)
		for i := range hashed {
			changed := bytes.Clone(signed)
			changed[at+i] ^= 0x01
			if r, _ := VerifyItem(c.name, changed, c.typ, keys); r.Status != "failed" {
				t.Errorf("%s: %q verified", c.name, changed)
			}
		}
	}
	for _, c := range []struct{ name, text, code string }{
		{"a.yaml", "bundle: {id: x}\nfiles: {}\n", ManifestMalformed},
		{"a.py", "bundle:\n  id: x\nfiles:\n", ManifestMalformed},
		{"a.txt", "x", NoSignatureFormat},
		{"a.py", "\xff", NotUTF8},
		{"a.py", "\n" + signatureLine(hashLine, nil, ownKey, when), SignatureMisplaced},
		{"a.py", "# ryeos:signed:x\n", FormatUnsupported},
	} {
		if _, fault := Sign(c.name, []byte(c.text), Tool, ownKey, when); fault == nil || fault.Code != c.code {
			t.Errorf("%s %q: %v, want %s", c.name, c.text, fault, c.code)
		}
	}
	if _, fault := Sign("a.md", []byte("x"), Directive, ownKey, when); fault == nil || fault.Code != DirectiveTagMissing {
		t.Errorf("directive: %v", fault)
	}
	for _, old := range []string{"# rye:validated:2026-01-01T00:00:00Z:x\n", "# kiwi-mcp:signed:x\n", "# rye:signed:broken\n"} {
		signed, fault := Sign("a.py", []byte(old+"x\n"), Tool, ownKey, when)
		if fault != nil || bytes.Contains(signed, []byte(old)) {
			t.Errorf("%q stays: %q %v", old, signed, fault)
		}
	}
}

// TestOpenSSL compares our verdict on signatures with that of openssl: good
// ones, ones with a changed bit in text, signature or key, and ones whose S is
// not reduced.
func TestOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	n := 12
	if os.Getenv("RIGWARD_DIFF") == "full" {
		n = 600
	}
	dir := t.TempDir()
	good, bad := 0, 0
	for i := range n {
		key := testKey(byte(i))
		text := []byte(strings.Repeat("text ", i))
		l, fault := parseLine([]byte(signatureLine(hashLine, text, key, when)), hashLine)
		if fault != nil {
			t.Fatal(fault)
		}
		pub := bytes.Clone(public(key))
		switch i % 6 {
		case 1:
			l.Signature[i%64] ^= 1 << (i % 8)
		case 2:
			l.Hash = strings.Repeat("0", 64)
		case 3:
			addOrder(l.Signature[32:])
		case 4:
			pub[i%32] ^= 1 << (i % 8)
		}
		pem, msg, sig := filepath.Join(dir, "k"), filepath.Join(dir, "m"), filepath.Join(dir, "s")
		for name, data := range map[string][]byte{pem: []byte(EncodeKey(pub)), msg: []byte(l.Hash), sig: l.Signature} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		theirs := exec.Command("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", pem, "-rawin", "-in", msg, "-sigfile", sig).Run() == nil
		ours := l.verifies(ed25519.PublicKey(pub))
		if ours != theirs {
			t.Errorf("%d: we say %v, openssl %v", i, ours, theirs)
		}
		if ours {
			good++
		} else {
			bad++
		}
	}
	if good == 0 || bad == 0 {
		t.Errorf("%d good, %d bad: the comparison compares nothing", good, bad)
	}
	t.Logf("%d signatures, %d good", n, good)
}

// addOrder adds the order of the group to a scalar: the same point, another
// encoding.
func addOrder(s []byte) {
	order := []byte{0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 31: 0x10}
	carry := 0
	for i := range s {
		carry += int(s[i]) + int(order[i])
		s[i] = byte(carry)
		carry >>= 8
	}
}
