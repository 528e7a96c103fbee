package rye

import (
	"crypto/ed25519"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestFingerprints has the examples of docs/spec/ryebundle.md#keys.
func TestFingerprints(t *testing.T) {
	key, ok := parseKeyText("ed25519:gc0X8VKJuKzFh/aSw/XeYEdp3keIqncwu9ySd81Y69g=")
	if !ok {
		t.Fatal("key")
	}
	if got := Fingerprint(key); got != "4b987fd4e40303ac" {
		t.Error(got)
	}
	if got := LongFingerprint(key); got != "8f4c002347bcb25b80e32a9f5ba7064638f0d372b8dd5cfbff3da765f94ef4bb" {
		t.Error(got)
	}
	pem := EncodeKey(key)
	if len(pem) != 113 {
		t.Error(len(pem))
	}
	for _, good := range []string{pem, "\n\n" + pem + "\n", strings.TrimSpace(pem)} {
		if got, ok := decodeKey(good); !ok || !got.Equal(key) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{"", " " + pem, "x\n" + pem, pem + pem, strings.Replace(pem, "\n", "\r\n", -1), strings.Replace(pem, "PUBLIC", "PRIVATE", 2), strings.Replace(pem, "MC", "MD", 1)} {
		if _, ok := decodeKey(bad); ok {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, bad := range []string{"", "4B987FD4E40303AC", "4b987fd4", "ed25519:", "ed25519:gc0X8VKJuKzFh/aSw/XeYEdp3keIqncwu9ySd81Y69g", "ed25519:gc0X8VKJuKzFh_aSw_XeYEdp3keIqncwu9ySd81Y69g="} {
		if _, err := ParsePin(bad); err == nil {
			t.Errorf("pin %q is taken", bad)
		}
	}
}

// document returns the store name and text of key's document signed by signer.
func document(t *testing.T, key, signer ed25519.PrivateKey) (name, text string) {
	t.Helper()
	_, own, fault := OwnDocument(key, "owner", when)
	if fault != nil {
		t.Fatal(fault)
	}
	name, data, fault := TrustDocument(own, signer, when)
	if fault != nil {
		t.Fatal(fault)
	}
	return name, string(data)
}

func TestTrust(t *testing.T) {
	a, b, c := testKey('a'), testKey('b'), testKey('c')
	fp := Fingerprint(public(a))
	name := ".ai/config/keys/trusted/" + fp + ".toml"
	doc := func(key, signer ed25519.PrivateKey) map[string]string {
		n, text := document(t, key, signer)
		return map[string]string{n: text}
	}
	join := func(ms ...map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range ms {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	edit := func(m map[string]string, old, with string) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			if !strings.Contains(v, old) {
				t.Fatalf("no %q in %s", old, v)
			}
			out[k] = strings.Replace(v, old, with, 1)
		}
		return out
	}
	rename := func(m map[string]string, to string) map[string]string {
		for _, v := range m {
			return map[string]string{to: v}
		}
		return nil
	}
	unsigned := func(m map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			_, out[k], _ = strings.Cut(v, "\n")
		}
		return out
	}
	long := LongFingerprint(public(a))
	longBody := strings.ReplaceAll(unsigned(doc(a, a))[name], fp, long)
	longSigned, fault := Sign("x/.ai/config/keys/trusted/x.toml", []byte(longBody), Config, b, when)
	if fault != nil {
		t.Fatal(fault)
	}
	for _, tc := range []struct {
		name          string
		project, user map[string]string
		pins          []string
		bundle        map[string]string
		ask           string // "" for a's short fingerprint
		trust         Trust
		codes         string
	}{
		{name: "nowhere", trust: TrustNone, codes: UntrustedKey},
		{name: "self-signed, user", user: doc(a, a), trust: TrustUser},
		{name: "self-signed, project first", project: doc(a, a), user: doc(a, a), trust: TrustProject},
		{name: "older folder", user: rename(doc(a, a), ".ai/trusted_keys/"+fp+".toml"), trust: TrustUser},
		{name: "signed by a trusted key", user: join(doc(a, b), doc(b, b)), trust: TrustUser},
		{name: "signed by a trusted key of another tier", project: doc(a, b), user: doc(b, b), trust: TrustProject},
		{name: "chain of two", user: join(doc(a, b), doc(b, c), doc(c, c)), trust: TrustUser},
		{name: "signed by a pinned key", user: doc(a, b), pins: []string{keyText(public(b))}, trust: TrustUser},
		{name: "signer absent", user: doc(a, b), trust: TrustNone, codes: KeySignerUntrusted + " " + UntrustedKey},
		{name: "signer absent, but in the bundle", user: doc(a, b), bundle: doc(b, b), trust: TrustNone, codes: KeySignerUntrusted + " " + UntrustedKey},
		{name: "signer unsigned", user: join(doc(a, b), unsigned(doc(b, b))), trust: TrustNone, codes: KeySignerUntrusted + " " + UntrustedKey},
		{name: "ring of two", user: join(doc(a, b), doc(b, a)), trust: TrustNone, codes: KeyCycle + " " + UntrustedKey},
		{name: "ring of three", user: join(doc(a, b), doc(b, c), doc(c, a)), trust: TrustNone, codes: KeyCycle + " " + UntrustedKey},
		{name: "ring over two tiers", project: doc(a, b), user: doc(b, a), trust: TrustNone, codes: KeyCycle + " " + UntrustedKey},
		{name: "ring with a way out in the next tier", project: join(doc(a, b), doc(b, a)), user: doc(a, a), trust: TrustUser},
		{name: "ring with a pinned member", user: join(doc(a, b), doc(b, a)), pins: []string{keyText(public(b))}, trust: TrustUser},
		{name: "unsigned", user: unsigned(doc(a, a)), trust: TrustNone, codes: KeyUnsigned + " " + UntrustedKey},
		{name: "unsigned, then good", project: unsigned(doc(a, a)), user: doc(a, a), trust: TrustUser},
		{name: "unsigned, but pinned", user: unsigned(doc(a, a)), pins: []string{fp}, trust: TrustPinned},
		{name: "changed", user: edit(doc(a, a), `owner = "owner"`, `owner = "other"`), trust: TrustNone, codes: KeyInvalid + " " + UntrustedKey},
		{name: "provenance", user: edit(doc(a, a), "\nversion", "|reg@me\nversion"), trust: TrustNone, codes: UnsignedProvenance + " " + UntrustedKey},
		{name: "CRLF", user: map[string]string{name: strings.ReplaceAll(doc(a, a)[name], "\n", "\r\n")}, trust: TrustNone, codes: KeyInvalid + " " + UntrustedKey},
		{name: "under another name", user: rename(doc(b, b), name), trust: TrustNone, codes: KeyMismatch + " " + UntrustedKey},
		{name: "another fingerprint in it", user: edit(doc(a, a), `fingerprint = "`, `fingerprint = "0`), trust: TrustNone, codes: KeyMismatch + " " + UntrustedKey},
		{name: "no TOML", user: map[string]string{name: "x"}, trust: TrustNone, codes: KeyInvalid + " " + UntrustedKey},
		{name: "empty", user: map[string]string{name: ""}, trust: TrustNone, codes: KeyInvalid + " " + UntrustedKey},
		{name: "over 64 KiB", user: map[string]string{name: doc(a, a)[name] + strings.Repeat("#\n", 32<<10)}, trust: TrustNone, codes: KeyInvalid + " " + UntrustedKey},
		{name: "a folder", user: map[string]string{name + "/x": "x"}, trust: TrustNone, codes: KeyInvalid + " " + UntrustedKey},
		{name: "signature of another key", user: map[string]string{name: strings.Replace(doc(a, b)[name], Fingerprint(public(b)), fp, 1)}, trust: TrustNone, codes: KeyInvalid + " " + UntrustedKey},
		{name: "pin without bytes", pins: []string{fp}, trust: TrustNone, codes: UntrustedKey},
		{name: "pin, bytes from the bundle", pins: []string{fp}, bundle: unsigned(doc(a, a)), trust: TrustPinned},
		{name: "long pin, bytes from the bundle", pins: []string{long}, bundle: doc(a, b), trust: TrustPinned},
		{name: "long pin of another key", pins: []string{LongFingerprint(public(b))}, bundle: doc(a, a), trust: TrustNone, codes: UntrustedKey},
		{name: "pin in full", pins: []string{keyText(public(a))}, trust: TrustPinned},
		{name: "pin in full of another key", pins: []string{keyText(public(b))}, bundle: doc(a, a), trust: TrustNone, codes: UntrustedKey},
		{name: "pin before the store", pins: []string{fp}, user: doc(a, a), trust: TrustPinned},
		{name: "bundle alone", bundle: doc(a, a), trust: TrustNone, codes: UntrustedKey},
		{name: "long name, signed by a trusted key", ask: long, user: join(map[string]string{".ai/config/keys/trusted/" + long + ".toml": string(longSigned)}, doc(b, b)), trust: TrustUser},
		{name: "long name, signer absent", ask: long, user: map[string]string{".ai/config/keys/trusted/" + long + ".toml": string(longSigned)}, trust: TrustNone, codes: KeySignerUntrusted + " " + UntrustedKey},
		{name: "short pin for a long fingerprint", ask: long, pins: []string{fp}, bundle: map[string]string{publisherFile: "public_key = \"" + keyText(public(a)) + "\"\nfingerprint = \"" + long + "\"\n"}, trust: TrustPinned},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := &Keyring{}
			for _, p := range tc.pins {
				pin, err := ParsePin(p)
				if err != nil {
					t.Fatal(err)
				}
				k.Pins = append(k.Pins, pin)
			}
			for i, files := range []map[string]string{tc.project, tc.user} {
				s, err := OpenStore([]Trust{TrustProject, TrustUser}[i], writeFiles(t, files), "")
				if err != nil {
					t.Fatal(err)
				}
				k.Stores = append(k.Stores, s)
			}
			if tc.bundle != nil {
				k.Bundle = openDir(t, writeFiles(t, tc.bundle))
			}
			ask := tc.ask
			if ask == "" {
				ask = fp
			}
			key, trust, reasons, err := k.Key(ask)
			if err != nil {
				t.Fatal(err)
			}
			if trust != tc.trust || !slices.Equal(codes(reasons), strings.Fields(tc.codes)) {
				t.Errorf("%s %v, want %s %s", trust, messages(reasons), tc.trust, tc.codes)
			}
			if (key != nil) != (trust != TrustNone) || key != nil && !key.Equal(public(a)) {
				t.Errorf("key %x", key)
			}
			if trust == TrustNone && (reasons[0].Code != UntrustedKey || reasons[0].Hint == "") {
				t.Errorf("%+v", reasons[0])
			}
			if list, err := k.List(); err != nil || len(list) > len(tc.project)+len(tc.user) {
				t.Errorf("%v %v", list, err)
			}
		})
	}
}

func TestTrustDocument(t *testing.T) {
	a, b := testKey('a'), testKey('b')
	publisher := "public_key = \"" + keyText(public(a)) + "\"\nfingerprint = \"" + LongFingerprint(public(a)) + "\"\nowner = \"a \\\"b\\\"\"\n"
	name, text, fault := TrustDocument([]byte(publisher), b, when)
	if fault != nil {
		t.Fatal(fault)
	}
	d, fault := ParseKeyDocument(text)
	if fault != nil || d.Owner != `a "b"` || d.Signer != Fingerprint(public(b)) || d.checkStored(LongFingerprint(public(a)), "x") != nil {
		t.Errorf("%+v %v", d, fault)
	}
	root := t.TempDir()
	if err := AddToStore(TrustUser, root, name, text); err != nil {
		t.Fatal(err)
	}
	own, doc, fault := OwnDocument(b, "b", when)
	if fault != nil {
		t.Fatal(fault)
	}
	if err := AddToStore(TrustUser, root, own, doc); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStore(TrustUser, root, "")
	if err != nil {
		t.Fatal(err)
	}
	list, err := (&Keyring{Stores: []Store{s}}).List()
	if err != nil || len(list) != 2 || !list[0].Trusted || !list[1].Trusted {
		t.Errorf("%+v %v", list, err)
	}
	removed, err := RemoveFromStore(TrustUser, root, LongFingerprint(public(a)))
	if err != nil || len(removed) != 1 {
		t.Errorf("%v %v", removed, err)
	}
	if _, err := RemoveFromStore(TrustUser, root, "../../x"); err == nil {
		t.Error("a path was taken for a fingerprint")
	}
	if _, _, fault := TrustDocument([]byte(strings.Replace(publisher, LongFingerprint(public(a)), LongFingerprint(public(b)), 1)), b, when); fault == nil || fault.Code != KeyMismatch {
		t.Errorf("%v", fault)
	}
}

func TestTrustDocumentWasChanged(t *testing.T) {
	_, doc, _ := OwnDocument(otherKey, "other", when)
	if _, _, fault := TrustDocument(doc, ownKey, when); fault != nil {
		t.Fatal(fault)
	}
	for name, text := range map[string]string{
		"owner":     strings.Replace(string(doc), `"other"`, `"mallory"`, 1),
		"signature": strings.Replace(string(doc), "signed:2026-03-17T01:02:01Z:", "signed:2026-03-17T01:02:01Z:0", 1),
		"CRLF":      strings.ReplaceAll(string(doc), "\n", "\r\n"),
	} {
		if _, _, fault := TrustDocument([]byte(text), ownKey, when); fault == nil || fault.Code != KeyInvalid {
			t.Errorf("%s: %v", name, fault)
		}
	}
}

func TestPrivateKey(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	dir := t.TempDir()
	make := func(args ...string) []byte {
		out := filepath.Join(dir, "k.pem")
		if msg, err := exec.Command("openssl", append(args, "-out", out)...).CombinedOutput(); err != nil {
			t.Fatal(err, string(msg))
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	good := make("genpkey", "-algorithm", "ed25519")
	key, err := ParsePrivateKey(good)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := exec.Command("openssl", "pkey", "-in", filepath.Join(dir, "k.pem"), "-pubout").Output()
	if err != nil || string(theirs) != EncodeKey(public(key)) {
		t.Errorf("public key %q, want %q", EncodeKey(public(key)), theirs)
	}
	for name, bad := range map[string][]byte{
		"another type": make("genpkey", "-algorithm", "x25519"),
		"encrypted":    make("genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x"),
		"public":       []byte(EncodeKey(public(key))),
		"two":          append(slices.Clone(good), good...),
		"empty":        nil,
	} {
		if _, err := ParsePrivateKey(bad); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// tomlCorpus are texts on which our reader and Python's must agree. The library
// alone takes the year 0 and the escape \e.
var tomlCorpus = []string{
	"", "# x\n", "a = 1", "a = \"x\"\n", "a = 'x'\nb = '''\nx\n'''\n", "a = \"\"\"\nx\ny\"\"\"\n", "a = \"\"\"x\"\"\"\"\"\n", "a = \"\"\"\"\"\"\"\n",
	"a = \"\"\"\\\n   x \\   \n\n  y\"\"\"\n", "a = \"\\u00e9\\U0001F600\\b\\t\\n\\f\\r\\\"\\\\\"\n", "a = \"\\x41\"\n", "a = \"\\ud800\"\n", "a = \"\\U00110000\"",
	"a = \"x\ny\"\n", "a = \"x\n", "a = \"\t\"\n", "a = \"\x01\"\n", "a = \"\x7f\"\n", "# \x01\n", "a.b = 1\na.c = 2\n", "a.b = 1\na = 2\n", "a = 1\na.b = 2\n",
	"[a]\nb = 1\n[a]\n", "[a]\nb = 1\n[a.b]\n", "[a.b]\n[a]\nc = 1\n", "[a]\n[a.b]\n", "a.b = 1\n[a]\n", "[a]\nb.c = 1\n[a.b]\n", "[a.b]\nx = 1\n[a]\nb.y = 2\n",
	"[a]\nb.c = 1\n[a.b.d]\n", "a = {}\n[a]\n", "a = {b = 1, c.d = 'x'}\n", "a = {b = 1,}\n", "a = {b = 1\n}\n", "a = {b.c = 1, b.d = 2}\n", "a = {b = 1}\na.c = 2\n",
	"a = {b = {c = 1}}\n[a.b]\n", "a = [1, 2,\n# x\n 'y',]\n", "a = [1 2]\n", "a = [[[]]]\n", "a = [", "\"a b\" = 1\n'c' = 2\n", "a b = 1\n", "= 1\n", "a =\n", "a = 1 b = 2\n",
	"a = 01\n", "a = +1_000\n", "a = 1__0\n", "a = 0x1F\n", "a = 0b12\n", "a = 1.5e3\n", "a = .5\n", "a = 1.\n", "a = inf\na2 = -nan\n", "a = true\nb = TRUE\n",
	"a = 2026-03-17\n", "a = 2026-02-30\n", "a = 2026-03-17T01:02:03Z\n", "a = 2026-03-17 01:02:03.5+02:00\n", "a = 01:02:03\n", "a = 25:00:00\n", "a = 2026-03-17T\n",
	"a = 2026-03-17 \n", "a = 2026-03-17t01:02:03z\n", "a = 0000-01-01\n", "[]\n", "[a\n", "[a]]\n", "[a] b = 1\n", "[ a . b ]\nx=1\n", "a . b = 1\n", "a\n", "a = 1\na = 1\n", "\"\" = 1\n", "a = \"\"\"\r\"\"\"\n",
	"a = [[1, 2], {b = 'c'}]\n[a.b]\n", "[a]\n[b]\n[a.c]\n", "[a.b.c]\n[a]\nb = 1\n", "a = \"\"\" \\ x\"\"\"\n", "-_ = 1\n", "a = 1979-05-27T07:32:00-07:60\n",
	"a = 0000-12-31T23:59:59\n", "a = [{b = 0000-01-01T00:00:00Z}]\n", "a = 0001-01-01\n", "a = \"\\e\"\n", "\"\\e\" = 1\n", "a = '\\e'\n", "a = \"\\\\e\"\n", "a = \"\\u001b\"\n",
	"[[a]]\nb = 1\n[[a]]\nb = \"x\"\n", "a = [1]\n[[a]]\n", "[[a.b]]\n[a]\n", "[a]\n[[a]]\n",
}

const tomlOracle = `
import json, sys, tomllib
def plain(v):
    if isinstance(v, dict): return {k: plain(x) for k, x in v.items()}
    if isinstance(v, list): return [plain(x) for x in v]
    return v if isinstance(v, str) else None
out = []
for text in json.load(sys.stdin):
    try: out.append(plain(tomllib.loads(text)))
    except Exception: out.append(None)
json.dump(out, sys.stdout)
`

// TestTOML compares our reader with Python's tomllib: what we take, it takes,
// with the same texts and tables.
func TestTOML(t *testing.T) {
	corpus := slices.Clone(tomlCorpus)
	_, doc := document(t, ownKey, otherKey)
	for i := range len(doc) { // mutations of a real document
		if i%7 == 0 {
			corpus = append(corpus, doc[:i], doc[:i]+"\""+doc[i:], doc[:i]+doc[i+1:], doc[:i]+"\n"+doc[i:])
		}
	}
	in, err := json.Marshal(corpus)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", tomlOracle)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.Output()
	if err != nil {
		t.Skip("python3 with tomllib is not here")
	}
	var theirs []map[string]any
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i, text := range corpus {
		got, err := parseTOML(text)
		switch {
		case err == nil && theirs[i] == nil:
			t.Errorf("%q is taken", text)
		case err == nil && !reflect.DeepEqual(plainTOML(map[string]any(got)), theirs[i]):
			t.Errorf("%q: %v, want %v", text, plainTOML(map[string]any(got)), theirs[i])
		case err != nil && theirs[i] != nil:
			t.Errorf("%q is refused: %v", text, err)
		case err == nil:
			taken++
		}
	}
	t.Logf("%d of %d texts are TOML", taken, len(corpus))
	// What we refuse and tomllib takes: numbers of more than 64 bits, for which
	// TOML 1.0 wants an error, and deep nesting.
	for _, text := range []string{"a = 9223372036854775808\n", "a = 0xFFFFFFFFFFFFFFFFF\n", "a = 1e999\n", "a = " + strings.Repeat("[", 17) + strings.Repeat("]", 17)} {
		if _, err := parseTOML(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	for _, text := range []string{"a = 9223372036854775807\n", "a = " + strings.Repeat("[", 16) + strings.Repeat("]", 16)} {
		if _, err := parseTOML(text); err != nil {
			t.Errorf("%q is refused: %v", text, err)
		}
	}
}

func plainTOML(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, x := range v {
			m[k] = plainTOML(x)
		}
		return m
	case []any:
		l := []any{}
		for _, x := range v {
			l = append(l, plainTOML(x))
		}
		return l
	case string:
		return v
	}
	return nil
}

func FuzzKeyDocument(f *testing.F) {
	for _, text := range tomlCorpus {
		f.Add([]byte(text))
	}
	_, doc, _ := OwnDocument(ownKey, "me", when)
	f.Add(doc)
	f.Fuzz(func(t *testing.T, data []byte) {
		d, fault := ParseKeyDocument(data)
		if (d == nil) == (fault == nil) {
			t.Fatal("neither or both")
		}
		if d == nil {
			if fault.Code != KeyInvalid || strings.Contains(fault.Message, "\n") {
				t.Fatalf("%+v", fault)
			}
			return
		}
		if len(d.Key) != ed25519.PublicKeySize {
			t.Fatal("no key")
		}
		if f := d.checkStored(d.Fingerprint, "x"); f == nil && (d.line == nil || !isFingerprint(d.Fingerprint) && d.Fingerprint != Fingerprint(d.Key)) {
			t.Fatalf("%+v counts", d)
		}
	})
}

// TestItemsOfTwoSigners: an item in a bundle is judged by the same keyring.
func TestItemsOfTwoSigners(t *testing.T) {
	files := notesFiles()
	text, fault := Sign(savePy, []byte(files[savePy]), Tool, otherKey, when)
	if fault != nil {
		t.Fatal(fault)
	}
	files[savePy] = string(text)
	dir := writeFiles(t, files)
	o := CreateOptions{ID: notesID, Version: "1.0.0", Time: when, Key: ownKey}
	if c, err := Create(t.Context(), openDir(t, dir), o); err != nil || !slices.Equal(c.Codes, []string{UntrustedKey}) {
		t.Errorf("a signature that cannot be checked: %v %v", messages(c.Findings), err)
	}
	o.Keys = pin(t, otherKey)
	c, err := Create(t.Context(), openDir(t, dir), o)
	if err != nil || len(c.Findings) > 0 {
		t.Fatal(messages(c.Findings), err)
	}
	put(t, dir, c.Path, string(c.Text))
	r := verify(t, dir, Options{ID: notesID, Keys: pin(t, ownKey)})
	wantCodes(t, r, InlineUnsigned, UntrustedKey)
	r = verify(t, dir, Options{ID: notesID, Keys: pin(t, ownKey, otherKey)})
	wantCodes(t, r, InlineUnsigned)
	put(t, dir, savePy, strings.Replace(files[savePy], "saved", "sawed", 1))
	if c, _ := Create(t.Context(), openDir(t, dir), o); !slices.Equal(c.Codes, []string{ContentModified}) {
		t.Errorf("a stale signature: %v", messages(c.Findings))
	}
}

// TestPinWithoutKey: a fingerprint alone trusts a key that nobody has. The
// message says so, and the hint's pin helps.
func TestPinWithoutKey(t *testing.T) {
	key := public(ownKey)
	for _, c := range []struct {
		pin, want string
		trust     Trust
	}{
		{Fingerprint(key), "is pinned, but neither", TrustNone},
		{"0123456789abcdef", "not pinned", TrustNone},
		{keyText(key), "", TrustPinned},
	} {
		pin, err := ParsePin(c.pin)
		if err != nil {
			t.Fatal(err)
		}
		k := &Keyring{Pins: []Pin{pin}}
		_, trust, reasons, err := k.Key(Fingerprint(key))
		if err != nil || trust != c.trust || c.want != "" && (len(reasons) != 1 || reasons[0].Code != UntrustedKey || !strings.Contains(reasons[0].Message, c.want)) {
			t.Errorf("%s: %s %v %v", c.pin, trust, reasons, err)
		}
	}
}
