package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/bundle"
)

// with is the good manifest with a field added or replaced; value is JSON.
func with(field, value string) string {
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(goodManifest), &m); err != nil {
		panic(err)
	}
	if value == "" {
		delete(m, field)
	} else {
		m[field] = json.RawMessage(value)
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func nested(levels int) string {
	return `{"x":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "," + goodManifest[1:]
}

func TestManifestRules(t *testing.T) {
	for _, c := range []struct{ name, text, code string }{
		{"good", goodManifest, "ok"},
		{"white space around", " \t\r\n" + goodManifest + "\n\n", "ok"},
		{"form feed after", goodManifest + "\f", "manifest-json"},
		{"no-break space after", goodManifest + "\u00a0", "manifest-json"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "manifest-encoding"},
		{"BOM", "\ufeff" + goodManifest, "manifest-json"},
		{"overlong UTF-8", with("x", `"`+"\xc0\xaf"+`"`), "manifest-encoding"},
		{"surrogate in UTF-8", `{"x":"` + "\xed\xa0\x80" + `"}`, "manifest-encoding"},
		{"trailing comma", `{"a":1,}`, "manifest-json"},
		{"comment", "{/**/}", "manifest-json"},
		{"NaN", `{"a":NaN}`, "manifest-json"},
		{"leading zero", `{"a":01}`, "manifest-json"},
		{"plus", `{"a":+1}`, "manifest-json"},
		{"point without digits", `{"a":1.}`, "manifest-json"},
		{"hex", `{"a":0x1}`, "manifest-json"},
		{"tab in a string", "{\"a\":\"\t\"}", "manifest-json"},
		{"unknown escape", `{"a":"\x41"}`, "manifest-json"},
		{"short escape", `{"a":"\u12"}`, "manifest-json"},
		{"unquoted key", `{a:1}`, "manifest-json"},
		{"upper-case true", `{"a":True}`, "manifest-json"},
		{"two values", "{}{}", "manifest-json"},
		{"cut short", `{"a":`, "manifest-json"},
		{"64 levels", nested(64), "ok"},
		{"65 levels", nested(65), "manifest-json"},
		{"string", `"x"`, "manifest-type"},
		{"null", `null`, "manifest-type"},
		{"duplicate", `{"a":1,"a":1}`, "manifest-duplicate-key"},
		{"duplicate by escape", `{"a":1,"\u0061":1}`, "manifest-duplicate-key"},
		{"duplicate in depth", `{"x":[{"b":{"a":1,"a":2}}]}`, "manifest-duplicate-key"},
		{"same key in two objects", with("x", `[{"a":1},{"a":2}]`), "ok"},
		{"keys of other case", with("x", `{"a":1,"A":2}`), "ok"},
		{"syntax before duplicates", `{"a":1,"a":1`, "manifest-json"},
		{"duplicates before surrogates", `{"x":"\ud800","a":1,"a":1}`, "manifest-duplicate-key"},
		{"surrogates before the type", `["\udc00"]`, "manifest-encoding"},
		{"surrogate pair", with("x", `"\ud83d\ude00"`), "ok"},
		{"pair in wrong order", with("x", `"\ude00\ud83d"`), "manifest-encoding"},
		{"high surrogate before another escape", with("x", `"\ud83d\u0041"`), "manifest-encoding"},
		{"lone surrogate in a key", `{"\ud800":1}`, "manifest-encoding"},
		{"two different lone surrogates as keys", `{"\ud800":1,"\ud801":1}`, "manifest-encoding"},
		{"the same lone surrogate as keys", `{"\ud800":1,"\ud800":1}`, "manifest-duplicate-key"},

		{"version before all others", `{"bundleVersion":"2","name":5}`, "manifest-bundle-version"},
		{"bundleVersion with a blank", with("bundleVersion", `"1 "`), "manifest-bundle-version"},
		{"bundleVersion empty", with("bundleVersion", `""`), "manifest-bundle-version"},
		{"bundleVersion null", with("bundleVersion", `null`), "manifest-field-type"},
		{"name of 100 bytes", with("name", `"`+strings.Repeat("a", 100)+`"`), "ok"},
		{"name of 101 bytes", with("name", `"`+strings.Repeat("a", 101)+`"`), "manifest-field-value"},
		{"name with line feed at its end", with("name", `"demo\n"`), "manifest-field-value"},
		{"name with two dots", with("name", `"a..b"`), "manifest-field-value"},
		{"name with capitals", with("name", `"Demo"`), "manifest-field-value"},
		{"name with all separators", with("name", `"a.b_c-d"`), "ok"},
		{"version with v", with("version", `"v1.0.0"`), "manifest-field-value"},
		{"version with pre-release", with("version", `"1.0.0-rc.1+b.01"`), "ok"},
		{"version with a leading zero in its pre-release", with("version", `"1.0.0-01"`), "manifest-field-value"},
		{"version of 101 bytes", with("version", `"1.0.0-`+strings.Repeat("a", 95)+`"`), "manifest-field-value"},
		{"version with line feed at its end", with("version", `"1.0.0\n"`), "manifest-field-value"},
		{"entry with NUL", with("entry", `"bin/agent\u0000"`), "manifest-field-value"},
		{"entry with C1", with("entry", `"bin/\u0085agent"`), "manifest-field-value"},
		{"platform windows", with("platform", `"windows"`), "manifest-field-value"},
		{"platform with capital", with("platform", `"Linux"`), "manifest-field-value"},
		{"libc missing", with("libc", ""), "manifest-field-missing"},
		{"libc null", with("libc", "null"), "manifest-field-type"},
		{"libc uclibc", with("libc", `"uclibc"`), "manifest-field-value"},
		{"engine empty", with("engine", "{}"), "ok"},
		{"engine null", with("engine", "null"), "manifest-field-type"},
		{"engine sdk null", with("engine", `{"sdk":null}`), "manifest-field-type"},
		{"runtime without version", with("runtime", `{"type":"node"}`), "manifest-field-missing"},
		{"runtime without type", with("runtime", `{"version":"1"}`), "manifest-field-missing"},
		{"runtime with a blank", with("runtime", `{"type":"node js","version":"1"}`), "manifest-field-value"},
		{"runtime empty", with("runtime", `{"type":"","version":"1"}`), "manifest-field-value"},
		{"runtime of 65", with("runtime", `{"type":"`+strings.Repeat("n", 65)+`","version":"1"}`), "manifest-field-value"},
		{"env array", with("env", "[]"), "manifest-field-type"},
		{"env with tab", with("env", `{"A":"x\ty"}`), "ok"},
		{"env with line feed", with("env", `{"A":"x\ny"}`), "manifest-field-value"},
		{"env with DEL", with("env", `{"A":"\u007f"}`), "manifest-field-value"},
		{"env with digit first", with("env", `{"1A":""}`), "manifest-field-value"},
		{"env empty key", with("env", `{"":""}`), "manifest-field-value"},
		{"env type before value before denied", with("env", `{"PATH":"","a":"","B":1}`), "manifest-field-type"},
		{"env value before denied", with("env", `{"PATH":"","a":""}`), "manifest-field-value"},
		{"env PATHS", with("env", `{"PATHS":"","_":"","HOLON":"","LDX":""}`), "ok"},
		{"capabilities null", with("capabilities", `{"x":null}`), "manifest-field-type"},
		{"capabilities", with("capabilities", `{"x":true,"any key ☃":false}`), "ok"},
	} {
		t.Run(c.name, func(t *testing.T) { checkManifest(t, c.text, c.code) })
	}
	for _, key := range []string{"PATH", "HOME", "IFS", "ENV", "BASH_ENV", "GLIBC_TUNABLES", "LD_", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "HOLON_X"} {
		t.Run("env "+key, func(t *testing.T) { checkManifest(t, with("env", `{"`+key+`":"x"}`), "manifest-env-denied") })
	}
	for _, field := range []string{"bundleVersion", "name", "version", "entry", "platform", "arch"} {
		t.Run("without "+field, func(t *testing.T) { checkManifest(t, with(field, ""), "manifest-field-missing") })
		for _, v := range []string{"null", "1", "true", "[]", "{}"} {
			t.Run(field+" "+v, func(t *testing.T) { checkManifest(t, with(field, v), "manifest-field-type") })
		}
	}
	for _, a := range arches {
		t.Run("arch "+a, func(t *testing.T) { checkManifest(t, with("arch", `"`+a+`"`), "ok") })
	}
	for alias, a := range archAliases {
		t.Run("arch "+alias, func(t *testing.T) {
			if fs := checkManifest(t, with("arch", `"`+alias+`"`), "manifest-field-value"); fs[0].Hint != `"arch": "`+a+`"` {
				t.Errorf("hint %s", fs[0].Hint)
			}
		})
	}
}

func checkManifest(t *testing.T, text, code string) []*bundle.Finding {
	t.Helper()
	m, fs, _ := ParseManifest([]byte(text))
	got := "ok"
	if len(fs) > 0 {
		got = fs[0].Code
		t.Logf("%d:%d %s: %s (%s)", fs[0].Line, fs[0].Column, fs[0].Field, fs[0].Message, fs[0].Hint)
	}
	if got != code || (m == nil) != (code != "ok") {
		t.Errorf("code %s, want %s", got, code)
	}
	return fs
}

func TestManifestPosition(t *testing.T) {
	_, fs, _ := ParseManifest([]byte("{\n  \"ünï\": 1,\n  \"ü\": 2, \"ü\": 3\n}"))
	if f := fs[0]; f.Code != "manifest-duplicate-key" || f.Line != 3 || f.Column != 11 {
		t.Errorf("%+v", f)
	}
	var many strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&many, `,"k%d":"\n"`, i)
	}
	_, fs, _ = ParseManifest([]byte(with("env", "{"+many.String()[1:]+"}"))) // in linear time
	if len(fs) != maxFindings {
		t.Errorf("%d findings", len(fs))
	}
}

func TestManifestNotes(t *testing.T) {
	_, _, notes := ParseManifest([]byte(with("extra", `{"deep":1}`)))
	if len(notes) != 1 || notes[0].Code != noteUnknownField || notes[0].Detail != "extra" {
		t.Errorf("%+v", notes)
	}
	_, _, notes = ParseManifest([]byte(with("engine", `{"name":"x","e\u001b":1}`)))
	if len(notes) != 1 || notes[0].Detail != `engine."e\x1b"` {
		t.Errorf("%+v", notes)
	}
}

func TestCanonicalNumber(t *testing.T) {
	for _, same := range [][]string{
		{"1", "1.0", "1e0", "10e-1", "0.1E1", "1.000"}, {"0", "-0", "0.0", "0e99999999999999999999"}, {"-12.5", "-125e-1"}, {"100", "1e2"},
	} {
		for _, s := range same {
			if canonicalNumber(s) != canonicalNumber(same[0]) {
				t.Errorf("%s and %s differ: %s, %s", s, same[0], canonicalNumber(s), canonicalNumber(same[0]))
			}
		}
	}
	for _, other := range [][2]string{{"1", "2"}, {"1", "-1"}, {"1", "10"}, {"1e99999999999999999999", "1e99999999999999999998"}} {
		if canonicalNumber(other[0]) == canonicalNumber(other[1]) {
			t.Errorf("%s and %s are the same", other[0], other[1])
		}
	}
}

// strictPython judges texts as parseJSON does, with Python's json module: one
// line in, JSON list of byte values; one line out, the code.
const strictPython = `
import json, sys
class Dup(Exception): pass
def pairs(items):
    keys = [k for k, _ in items]
    global dup
    dup = dup or len(set(keys)) < len(keys)
    return dict(items)
def bad(x): raise ValueError(x)
def depth(b):
    d = most = 0; s = e = False
    for c in b:
        if s:
            if e: e = False
            elif c == 92: e = True
            elif c == 34: s = False
        elif c == 34: s = True
        elif c in b'[{': d += 1; most = max(most, d)
        elif c in b']}': d -= 1
    return most
def lone(v):
    if isinstance(v, str): return any(0xd800 <= ord(c) < 0xe000 for c in v)
    if isinstance(v, list): return any(map(lone, v))
    if isinstance(v, dict): return any(lone(k) or lone(x) for k, x in v.items())
    return False
for line in sys.stdin:
    data = bytes(json.loads(line)); dup = False
    try: text = data.decode('utf-8')
    except UnicodeDecodeError: print('manifest-encoding'); continue
    if depth(data) > 64: print('manifest-json'); continue
    try: v = json.loads(text, object_pairs_hook=pairs, parse_constant=bad, parse_int=str, parse_float=str)
    except ValueError: print('manifest-json'); continue
    print('manifest-duplicate-key' if dup else 'manifest-encoding' if lone(v) else 'ok')
`

// TestJSONAgainstPython compares verdicts on mutations of manifests.
func TestJSONAgainstPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to compare with")
	}
	n := 2000
	if os.Getenv("RIGWARD_DIFF") == "full" {
		n = 200_000
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	texts := make([][]byte, n)
	var in bytes.Buffer
	for i := range texts {
		texts[i] = mutate(rnd, []byte(jsonSeeds[rnd.IntN(len(jsonSeeds))]))
		line := make([]int, len(texts[i]))
		for k, b := range texts[i] {
			line[k] = int(b)
		}
		if err := json.NewEncoder(&in).Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python, "-c", strictPython)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	verdicts := strings.Fields(string(out))
	if len(verdicts) != n {
		t.Fatalf("%d verdicts for %d texts", len(verdicts), n)
	}
	count := map[string]int{}
	for i, text := range texts {
		ours := "ok"
		if _, err := parseJSON(text); err != nil {
			ours = err.code
		}
		count[ours]++
		if ours != verdicts[i] {
			t.Errorf("%q: %s, python says %s", text, ours, verdicts[i])
		}
	}
	t.Log(count)
	if len(count) < 4 {
		t.Errorf("the texts have only the outcomes %v", count)
	}
}

var jsonSeeds = []string{
	goodManifest,
	`{"a":[1,-2.5e+3,0.1E-7,true,false,null,"\u00e9\ud83d\ude00\n\\\"\/"],"b":{"a":{}},"c":[[[]]]}`,
	`{"x":"\ud83d\ude00","\u0061":1,"a\u0000":"é☃"}`,
	"[\n\t1 , 2 ]\r\n", `{"k":"v","k2":"v","k3":{"k":1}}`, nested(64), `"\udbff\udfff"`, `-0`,
}

// mutate changes a few bytes of a text, mostly by tokens of JSON.
func mutate(rnd *rand.Rand, text []byte) []byte {
	tokens := []string{"{", "}", "[", "]", ",", ":", `"`, `\`, `\u`, `\ud800`, `\udc00`, "0", "1", "-", "+", ".", "e", "E", "a", "k", " ", "\n", "\t", "\x00", "\x1f",
		"\x7f", "\u0085", "\ufeff", "\xff", "\xc0", "true", "null", "NaN", "Infinity", `"a":1,`, `"k":`, "//", "/*", "'", "_", "0x"}
	text = slices.Clone(text)
	for range rnd.IntN(4) {
		at := rnd.IntN(len(text) + 1)
		token := tokens[rnd.IntN(len(tokens))]
		switch rnd.IntN(3) {
		case 0:
			text = slices.Insert(text, at, []byte(token)...)
		case 1:
			text = append(text[:at:at], text[min(len(text), at+1+rnd.IntN(3)):]...)
		default:
			end := min(len(text), at+len(token))
			text = append(append(text[:at:at], token...), text[end:]...)
		}
	}
	return text
}

// FuzzManifest holds the parser against encoding/json, and everything that is
// told about a text against what may be printed.
func FuzzManifest(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Add([]byte(with("env", `{"A":"$x\\\"'"}`)))
	f.Add([]byte(with("runtime", `{"type":"node","version":"20"}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, fs, notes := ParseManifest(data)
		if (m == nil) == (len(fs) == 0) {
			t.Fatal("neither manifest nor finding, or both")
		}
		for _, f := range fs {
			if !bundle.Printable(f.Message) || !bundle.Printable(f.Hint) || f.Line < 0 || f.Message == "" {
				t.Errorf("finding %+v", f)
			}
		}
		for _, n := range notes {
			if !bundle.Printable(n.Detail) {
				t.Errorf("note %+v", n)
			}
		}
		if m != nil {
			if f, _ := m.CheckFileName(m.FileName(extGzip), extGzip); f != nil {
				t.Errorf("its own name is refused: %v", f[0])
			}
			if strings.ContainsAny(m.FileName(extGzip), "/\\\x00") {
				t.Errorf("file name %q", m.FileName(extGzip))
			}
		}
		v, err := parseJSON(data)
		deep := err != nil && strings.Contains(err.message, "64 levels")
		valid := json.Valid(data) && utf8.Valid(data)
		if syntax := err == nil || err.code == codeManifestDuplicateKey || err.message == "a lone surrogate escape"; syntax != valid && !deep {
			t.Fatalf("%q: %v, encoding/json says %v", data, err, valid)
		}
		if err != nil {
			return
		}
		again, err := parseJSON(v.append(nil, false))
		if err != nil || !again.equal(v) {
			t.Fatalf("%q written as %q does not read the same", data, v.append(nil, false))
		}
		var want, got any
		if json.Unmarshal(data, &want) == nil && json.Unmarshal(v.append(nil, false), &got) == nil && fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("%q is %v, want %v", data, got, want)
		}
	})
}
