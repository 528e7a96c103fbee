package yamlprofile

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestResolve(t *testing.T) {
	for kind, words := range map[Kind][]string{
		Null: {"", "~", "null", "Null", "NULL"},
		Bool: {"true", "True", "TRUE", "false", "False", "FALSE"},
		Number: {"0", "-0", "+5", "007", "0123456", "1234567", "0o17", "0x1F", "0xabcdef", ".5", "5.", "-.5", "1e3", "1E3", "1.e+3", ".5e-3", "12345e1", "61e9540", ".inf", "-.Inf", "+.INF", ".nan", ".NaN", ".NAN",
			"123456789012345678901234567890"},
		String: {"nULL", "tRUE", "yes", "no", "on", "off", "y", "n", "1_000", "0b11", "0B11", "0O17", "0X1F", "0o", "0o8", "0x", "0xg", "-0x1", "+0o7", "12:30", "1:30:00", "2026-05-15", "inf", "nan", "-.nan", "+.nan", ".infinity", ".Nan", ".iNF", ".", "+", "-", "+.", "-.", ".e3",
			"e5", "1e", "1e+", "1e5.", "1.2.3", "--1", "+-1", "1 ", " 1", "<<", "=", "٣", "１", "0_1", "1,000"},
	} {
		for _, w := range words {
			if got := Resolve(w); got != kind {
				t.Errorf("%q is %v, expected %v", w, got, kind)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		text  string
		i     int64
		isInt bool
		f     float64
		json  string
	}{
		{"0", 0, true, 0, "0"},
		{"-0", 0, true, 0, "0"},
		{"+007", 7, true, 7, "7"},
		{"-0012", -12, true, -12, "-12"},
		{"0o17", 15, true, 15, "15"},
		{"0x1F", 31, true, 31, "31"},
		{"9223372036854775807", math.MaxInt64, true, math.MaxInt64, "9223372036854775807"},
		{"9223372036854775808", 0, false, 9223372036854775808, "9223372036854775808"},
		{"0xffffffffffffffffff", 0, false, 4722366482869645213695, "4.722366482869645e+21"},
		{"1e3", 0, false, 1000, "1000"},
		{"5.", 0, false, 5, "5"},
		{".5", 0, false, .5, "0.5"},
		{"1e999", 0, false, math.Inf(1), `{"$number":"Infinity"}`},
		{"-.inf", 0, false, math.Inf(-1), `{"$number":"-Infinity"}`},
		{".nan", 0, false, math.NaN(), `{"$number":"NaN"}`},
	} {
		n, err := ParseText("k: "+c.text+"\n", 1, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		v := n.Get("k")
		if i, ok := v.Int(); ok != c.isInt || i != c.i && ok {
			t.Errorf("%s: int %d %v", c.text, i, ok)
		}
		if f, ok := v.Float(); !ok || f != c.f && !(math.IsNaN(f) && math.IsNaN(c.f)) {
			t.Errorf("%s: float %v %v", c.text, f, ok)
		}
		if b, _ := v.MarshalJSON(); string(b) != c.json {
			t.Errorf("%s: JSON %s", c.text, b)
		}
		if _, ok := n.Interface(); ok != json.Valid([]byte(c.json)) && ok == strings.HasPrefix(c.json, "{") {
			t.Errorf("%s: interface %v", c.text, ok)
		}
	}
}

func TestWholeFile(t *testing.T) {
	for name, file := range map[string]string{
		"LF":       "# policy\nversion: 1\nprotect:\n  - main\n",
		"no end":   "# policy\nversion: 1\nprotect:\n  - main",
		"CRLF":     "# policy\r\nversion: 1\r\nprotect:\r\n  - main\r\n",
		"BOM":      "\uFEFF# policy\nversion: 1\nprotect:\n  - main\n",
		"BOM, key": "\uFEFF\nversion: 1\nprotect:\n  - main\n",
	} {
		n, err := Parse([]byte(file), Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if b, _ := n.MarshalJSON(); string(b) != `{"version":1,"protect":["main"]}` {
			t.Errorf("%s: %s", name, b)
		}
		if v := n.Get("protect").Items[0]; v.Line != 4 || v.Col != 5 || v.Source != "main" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	for name, c := range map[string]struct {
		file      string
		line, col int
		say       string
	}{
		"bytes":           {"a: é\r\nb: \xff\n", 2, 4, "0xff"},
		"two marks":       {"\uFEFF\uFEFFa: b\n", 1, 1, "U+FEFF"},
		"empty":           {"", 1, 1, "empty"},
		"comments":        {"# a\n\n", 1, 1, "empty"},
		"a list":          {"\n- a\n", 2, 1, "list"},
		"marker":          {"---\na: b\n", 1, 1, "---"},
		"second document": {"{a: b}\nc: d\n", 0, 1, ""},
		"too large":       {"a: " + strings.Repeat("x", DefaultMaxBytes), 1, 1, "65536"},
		"syntax":          {"a: b\nc: [d\n", 0, 1, ""},
	} {
		_, err := Parse([]byte(c.file), Limits{})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.line > 0 && e.Line != c.line || e.Col != c.col || !strings.Contains(e.Message, c.say) {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestFieldOfNothing(t *testing.T) {
	var none *Node
	if none.Get("a") != nil || none.Field("a") != nil || none.True() {
		t.Error("a nil node has no fields")
	}
	if _, ok := none.Int(); ok {
		t.Error("int")
	}
	if _, ok := none.Float(); ok {
		t.Error("float")
	}
}

// TestPlacesAfterWideCharacters: columns are code points.
func TestPlacesAfterWideCharacters(t *testing.T) {
	n, err := ParseText("k: [🎯, \"é\", {a: '🎯', b: x}]\n", 10, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	b := n.Get("k").Items[2].Field("b")
	if b.Key.Line != 10 || b.Key.Col != 22 || b.Value.Col != 25 {
		t.Errorf("%+v %+v", b.Key, b.Value)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a: b\n", "a: [b, 'c', \"\\x41\"]\n", "{a: {b: [c]}}", "? a\n: b\n", "a: |\n  x\n\n", "a: >-\n  x\n  y\n", "a: &x b\nc: *x\n", "<<: {}\n", "! a: b\n", "a: ! b\n", "a: b: c\n", "a:\n- b\n-\n  c\n", "\"a\": 'b''c'\n", "a: \"b\n c\"\n",
		"a: [b, # c\n d]\n", "a: [b,#c\n d]\n", "a: ]\n", "a: '\n", "\ufeffa: b", "a: b\r\nc: d\r", "a: \u0085", "[a]: b\n", "a: {b: c}\nd: {b: c, b: d}\n", "a: 1e999\nb: .nan\nc: 0xffffffffffffffffffff\n", "a:\n#c\n b\n", "%YAML 1.1\n---\na: b\n", "{}\n", "{}\n{}\n", "a: \"\\\n b\"", "- a\n", "a: |1\n  b\n", "é: 🎯 #\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		n, err := Parse(file, Limits{})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Col < 1 || e.Message == "" || !utf8.ValidString(e.Message+e.Hint) {
				t.Fatalf("%#v", err)
			}
			return
		}
		if !utf8.Valid(file) || n.Kind != Map {
			t.Fatal("accepted")
		}
		lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(file), "\ufeff")), "\n")
		var walk func(*Node)
		walk = func(n *Node) {
			if n.Line < 1 || n.Line > len(lines) || n.Col < 1 || n.Col > utf8.RuneCountInString(lines[n.Line-1])+1 {
				t.Fatalf("no such place: %+v", n)
			}
			if n.Source != "" && !strings.HasPrefix(string([]rune(lines[n.Line-1])[n.Col-1:]), n.Source) {
				t.Fatalf("source %q is not at %d:%d", n.Source, n.Line, n.Col)
			}
			for _, c := range n.Items {
				walk(c)
			}
			for _, f := range n.Fields {
				walk(f.Key)
				walk(f.Value)
			}
		}
		walk(n)
		// JSON is YAML: what is written as JSON reads back the same.
		text, err := n.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseText(string(text)+"\n", 1, Limits{MaxBytes: 1 << 24, MaxDepth: 20})
		if err != nil {
			if strings.ContainsFunc(string(text), func(r rune) bool { return r >= 0x7F && r < 0xA0 || r == 0xFEFF || r == 0xFFFE || r == 0xFFFF }) || len(text) > 1000 {
				return
			}
			t.Fatalf("%s: %v", text, err)
		}
		if twice, _ := again.MarshalJSON(); string(twice) != string(text) {
			t.Fatalf("%s, again %s", text, twice)
		}
	})
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"0x1F", "-.5e+3", "NULL", ".NaN", "1_0", "+"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := String
		switch {
		case nullPattern.MatchString(s):
			want = Null
		case boolPattern.MatchString(s):
			want = Bool
		case numberPattern.MatchString(s):
			want = Number
		}
		if got := Resolve(s); got != want {
			t.Errorf("%q is %v, expected %v", s, got, want)
		}
	})
}
