package rye

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/rigward/rigward/pkg/bundle"
	"gopkg.in/yaml.v3"
)

// TestScalar goes through the emitter's rules.
func TestScalar(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "''",
		"1.0.0":                       "1.0.0",
		"1.0.0-rc.1+b":                "1.0.0-rc.1+b",
		"1.0":                         "'1.0'",
		"package":                     "package",
		"Says hello (test bundle)":    "Says hello (test bundle)",
		"a/b-c@d+e=f,g":               "a/b-c@d+e=f,g",
		"ends in blank ":              "'ends in blank '",
		" x":                          "' x'",
		"-x":                          "'-x'",
		"9lives":                      "'9lives'",
		"(x)":                         "'(x)'",
		"a: b":                        "'a: b'",
		"a #b":                        "'a #b'",
		"it's":                        "'it''s'",
		"true":                        "'true'",
		"Yes":                         "'Yes'",
		"oN":                          "'oN'",
		"n":                           "'n'",
		"NULL":                        "'NULL'",
		".inf":                        "'.inf'",
		".NaN":                        "'.NaN'",
		"nope":                        "nope",
		"...":                         "'...'",
		"...x":                        "'...x'",
		"..x":                         "'..x'",
		".5":                          "'.5'",
		"._":                          "'._'",
		".ai/tools/x":                 ".ai/tools/x",
		"/x":                          "/x",
		"_":                           "_",
		"~":                           "'~'",
		"\"":                          "'\"'",
		"\\":                          "'\\'",
		"grüße":                       `"gr\xFC\xDFe"`,
		"…\"\\":                       `"\u2026\"\\"`,
		"😀":                           `"\U0001F600"`,
		"Ā":                           `"\u0100"`,
		strings.Repeat("0", 64):       "'" + strings.Repeat("0", 64) + "'",
		strings.Repeat("0", 63) + "a": strings.Repeat("0", 63) + "a",
		strings.Repeat("x", 200):      strings.Repeat("x", 200),
	} {
		if got := scalar(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		var back struct{ X yaml.Node }
		if err := yaml.Unmarshal([]byte("x: "+scalar(in)+"\n"), &back); err != nil || back.X.Value != in {
			t.Errorf("%q reads back as %q: %v", in, back.X.Value, err)
		}
	}
	for _, bad := range []string{"a\nb", "a\x00", "a\u0085"} {
		if _, fault := (&Manifest{Description: bad}).emit(); fault == nil {
			t.Errorf("%q is written", bad)
		}
	}
}

// TestRealManifests writes the manifests of real bundles again, byte for byte.
func TestRealManifests(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(sharedVectors(t), "bundles", "v?-*", ".ai", "bundles", "*", "manifest.yaml"))
	if err != nil || len(found) < 4 {
		t.Fatalf("%d manifests, %v", len(found), err)
	}
	for _, p := range found {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(data), "\n")
		m, faults := parseManifest([]byte(body))
		if len(faults) > 0 {
			t.Fatal(messages(faults))
		}
		if got, _ := m.emit(); string(got) != body {
			t.Errorf("%s:\n%s", p, got)
		}
	}
}

func TestSemVer(t *testing.T) {
	order := []string{"0.0.1", "0.1.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.2.0", "1.10.0", "99999999999999999999.0.0", "100000000000000000000.0.0"}
	for i, a := range order {
		if !bundle.IsVersion(a) {
			t.Errorf("%s is not a version", a)
		}
		for j, b := range order {
			got := bundle.CompareVersions(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s %s: %d", a, b, got)
			}
		}
	}
	if bundle.CompareVersions("1.0.0+a", "1.0.0+b") != 0 {
		t.Error("build metadata counts")
	}
	for _, bad := range []string{"", "1", "1.0", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0-a..b", "1.0.0+", "1.0.0 ", "1.0.0\n", "1.0.0-é"} {
		if bundle.IsVersion(bad) {
			t.Errorf("%q is a version", bad)
		}
	}
}

func TestValidID(t *testing.T) {
	for _, good := range []string{"a", "A1._-", "acme/greeter", "a/b/c/d", strings.Repeat("a", 64)} {
		if !ValidID(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{"", "..", "../x", "/a", "a/", "a//b", "a/b/c/d/e", ".a", "-a", "a.", "a./b", "a b", "ä", strings.Repeat("a", 65), "a\n", "a/../b"} {
		if ValidID(bad) {
			t.Errorf("%q is taken", bad)
		}
	}
}

const yamlOracle = `
import json, sys, yaml
class Text(yaml.SafeLoader): pass
Text.yaml_implicit_resolvers = {}
out = []
for text in json.load(sys.stdin):
    try: v = yaml.load(text, Text)
    except Exception: v = None
    ok = isinstance(v, dict) and isinstance(v.get('files'), dict) and all(isinstance(k, str) for k in v['files'])
    out.append([list(v['files']), v['bundle'].get('id'), v['bundle'].get('version')] if ok and isinstance(v.get('bundle'), dict) else None)
json.dump(out, sys.stdout)
`

// TestManifestAgainstPython reads mutated manifests with PyYAML too, the parser
// of the old programs: what we take as a manifest means the same to it. Tabs are
// left out: PyYAML refuses them in plain texts, where YAML allows them.
func TestManifestAgainstPython(t *testing.T) {
	dir := writeBundle(t, "1.0.0", notesFiles())
	_, body, _ := strings.Cut(get(t, dir, ManifestPath(notesID)), "\n")
	var corpus []string
	step := 151
	if os.Getenv("RIGWARD_DIFF") == "full" {
		step = 11
	}
	for i := 0; i < len(body); i += step {
		for _, s := range []string{"'", "\"", "\n", ": ", "#", "&", "*", "!", "%", "? ", "- ", "{", "|", "\u2028", "~", "<<"} {
			corpus = append(corpus, body[:i]+s+body[i:])
		}
		corpus = append(corpus, body[:i]+body[i+1:], body[:i])
	}
	in, err := json.Marshal(corpus)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", yamlOracle)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.Output()
	if err != nil {
		t.Skip("python3 with PyYAML is not here")
	}
	var theirs [][]any
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i, text := range corpus {
		m, faults := parseManifest([]byte(text))
		if m == nil {
			if len(faults) == 0 {
				t.Errorf("%q: neither manifest nor fault", text)
			}
			continue
		}
		taken++
		if theirs[i] == nil {
			t.Errorf("PyYAML refuses, we take %s", difference(body, text))
			continue
		}
		paths := []any{}
		for _, p := range m.paths() {
			paths = append(paths, p)
		}
		if !reflect.DeepEqual(theirs[i], []any{paths, m.ID, m.Version}) {
			t.Errorf("PyYAML reads %v, we %v in %s", theirs[i], []any{paths, m.ID, m.Version}, difference(body, text))
		}
	}
	t.Logf("%d of %d mutated manifests are manifests", taken, len(corpus))
}

// difference shows where a text departs from the original.
func difference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("%q", b[max(0, i-20):min(len(b), i+20)])
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte("bundle:\n  id: a/b\n  version: 1.0.0\n  entrypoint: ''\nfiles:\n  .ai/tools/a:\n    object_hash: " + strings.Repeat("a", 64) + "\n    inline_signed: true\n    item_type: tool\n"))
	f.Add([]byte("bundle: {id: a, version: '1', x: &a b}\nfiles: {'.ai/tools/a': *a}\n"))
	f.Add([]byte("%YAML 1.1\n---\nbundle: !x {}\n"))
	f.Add([]byte("<<: {a: b}\n? [c]\n: d\n---\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, faults := parseManifest(body)
		if (m == nil) != (len(faults) > 0) {
			t.Fatal("neither or both")
		}
		for _, fault := range faults {
			if strings.Contains(fault.Message, "\n") || fault.Code == "" {
				t.Fatalf("%+v", fault)
			}
		}
		if m == nil {
			return
		}
		if !ValidID(m.ID) || len(m.Entries) == 0 {
			t.Fatalf("%+v", m)
		}
		for _, e := range m.Entries {
			if !strings.HasPrefix(e.Path, ".ai/") || strings.Contains(e.Path, "..") && slices.Contains(strings.Split(e.Path, "/"), "..") || strings.IndexFunc(e.Path, unicode.IsControl) >= 0 {
				t.Fatalf("path %q", e.Path)
			}
			if e.fault != nil {
				return
			}
		}
		text, fault := m.emit()
		if fault != nil {
			return
		}
		again, faults := parseManifest(text)
		if len(faults) > 0 || again.digest() != m.digest() || again.Description != m.Description || again.Type != m.Type || again.Digest != m.Digest {
			t.Fatalf("%v: writing %q gives %q", messages(faults), body, text)
		}
	})
}

func FuzzLock(f *testing.F) {
	f.Add((&Lock{ID: "a", Version: "1.0.0", ManifestHash: strings.Repeat("0", 64), InstalledAt: "2026-03-17T01:02:01Z", Files: []string{".ai/tools/ü"}, FileHashes: map[string]string{".ai/tools/ü": strings.Repeat("a", 64)}, ManifestDigest: "x", Signer: "y", Trust: "user"}).encode())
	f.Add([]byte(`{"bundle_id":"a","version":"1","manifest_hash":null,"installed_at":"2026-03-17T01:02:01.5+00:00","files":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, fault := parseLock(data, "a")
		if (l == nil) == (fault == nil) {
			t.Fatal("neither or both")
		}
		if l == nil {
			return
		}
		if !json.Valid(data) {
			t.Fatal("no JSON")
		}
		if l.FileHashes == nil || l.ManifestHash == "" {
			return
		}
		again, fault := parseLock(l.encode(), "a")
		if fault != nil {
			t.Fatal(fault)
		}
		if len(l.Files) == 0 {
			l.Files, again.Files = nil, nil
		}
		if !reflect.DeepEqual(l, again) {
			t.Fatalf("%+v reads back as %+v", l, again)
		}
	})
}

func TestLockIsStrict(t *testing.T) {
	h := strings.Repeat("a", 64)
	good := `{"bundle_id":"a","version":"1.0.0","manifest_hash":"` + h + `","installed_at":"2026-03-17T01:02:01Z","files":[".ai/tools/x"],"file_hashes":{".ai/tools/x":"` + h + `"},"manifest_digest":"` + h + `","signer":"0123456789abcdef","trust":"user"}`
	if _, fault := parseLock([]byte(good), "a"); fault != nil {
		t.Fatal(fault)
	}
	for name, bad := range map[string]string{
		"another id":          strings.Replace(good, `"a"`, `"b"`, 1),
		"key twice":           strings.Replace(good, `{"bundle_id"`, `{"version":"1.0.0","bundle_id"`, 1),
		"key in another case": strings.Replace(good, `"files"`, `"Files"`, 1),
		"something behind":    good + "x",
		"two objects":         good + "{}",
		"no files":            strings.Replace(good, `"files":[".ai/tools/x"],`, ``, 1),
		"files is a text":     strings.Replace(good, `[".ai/tools/x"]`, `".ai/tools/x"`, 1),
		"files is null":       strings.Replace(good, `[".ai/tools/x"]`, `null`, 1),
		"a number in files":   strings.Replace(good, `[".ai/tools/x"]`, `[1]`, 1),
		"a path twice":        strings.Replace(good, `[".ai/tools/x"]`, `[".ai/tools/x",".ai/tools/x"]`, 1),
		"hash in upper case":  strings.Replace(good, `"manifest_hash":"`+h, `"manifest_hash":"`+strings.ToUpper(h), 1),
		"no file hash":        strings.Replace(good, `{".ai/tools/x":"`+h+`"}`, `{}`, 1),
		"another file hash":   strings.Replace(good, `{".ai/tools/x":"`, `{".ai/tools/y":"`, 1),
		"no time":             strings.Replace(good, `2026-03-17T01:02:01Z`, `yesterday`, 1),
		"cut off":             good[:len(good)-1],
		"a list":              "[]",
		"empty":               "",
		"not UTF-8":           strings.Replace(good, "user", "\xff", 1),
	} {
		if l, fault := parseLock([]byte(bad), "a"); fault == nil || fault.Code != LockInvalid {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// BenchmarkHostileYAML: hostile YAML of the largest size costs a bounded time. It
// runs after the signature only, so this is about damage to oneself.
func BenchmarkHostileYAML(b *testing.B) {
	for name, unit := range map[string]string{"comments": "#\n", "keys": "k%d: v\n", "brackets": "[", "quotes": "'a':\n  "} {
		b.Run(name, func(b *testing.B) {
			var s strings.Builder
			for i := 0; s.Len() < MaxManifest-100; i++ {
				if strings.Contains(unit, "%d") {
					fmt.Fprintf(&s, unit, i)
				} else {
					s.WriteString(unit)
				}
			}
			for b.Loop() {
				parseManifest([]byte(s.String()))
			}
		})
	}
}
