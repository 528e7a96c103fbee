package finding

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":                        `""`,
		"plain":                   `"plain"`,
		"a\"b\\c":                 `"a\"b\\c"`,
		"x\n::error::y":           `"x\n::error::y"`,
		"\x1b[31m":                `"\x1b[31m"`,
		"\u009b31m":               `"\u009b31m"`,
		"a\u202eb":                `"a\u202eb"`,
		"a\u2028b\u2029c":         `"a\u2028b\u2029c"`,
		"\ufeffx":                 `"\ufeffx"`,
		"bad\xff\xc3":             `"bad\xff\xc3"`,
		"\ufffd":                  "\"\ufffd\"",
		"é ▶ 🎯":                   `"é ▶ 🎯"`,
		"\U000e0001":              `"\U000e0001"`,
		"tab\tcr\rdel\x7fnul\x00": `"tab\tcr\rdel\x7fnul\x00"`,
		// A workflow command, and what only looks like one.
		"x##[add-mask]a":   `"x##\x5badd-mask]a"`,
		"###[error]##[":    `"###\x5berror]##\x5b"`,
		"# [a](b) #[c] ##": `"# [a](b) #[c] ##"`,
		// What is not seen: fillers, joiners, selectors without their emoji.
		"a\u3164b\u115f\uffa0\u2800": `"a\u3164b\u115f\uffa0\u2800"`,
		"a\u034fb\u200b\u2060\u00ad": `"a\u034fb\u200b\u2060\u00ad"`,
		"a\ufe00b\U000e0100":         `"a\ufe00b\U000e0100"`,
		"a.\ufe0fmd\ufe0f":           `"a.\ufe0fmd\ufe0f"`,
		"▶\ufe0f\ufe0f":              "\"▶\ufe0f\\ufe0f\"",
		"⚠\ufe0f ‼\ufe0f":            "\"⚠\ufe0f ‼\ufe0f\"",
	} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
	if got, want := QuoteMax("abcdef", 3), `"abc…"`; got != want {
		t.Errorf("QuoteMax = %s, want %s", got, want)
	}
}

func TestPath(t *testing.T) {
	for in, want := range map[string]string{
		"t-one/REQUEST.md":    "t-one/REQUEST.md",
		"t-one/ÜBER.md":       "t-one/ÜBER.md",
		"t/a b.md":            `"t/a b.md"`,
		"x\n::add-mask::a.md": `"x\n::add-mask::a.md"`,
		"a:1:2":               `"a:1:2"`,
		"":                    `""`,
		"\xff":                `"\xff"`,
		// Blanks of any width, what is not seen, and a workflow command.
		"t/a\u00a0b.md":    "\"t/a\u00a0b.md\"",
		"t/a\u3000b.md":    "\"t/a\u3000b.md\"",
		"t/a\u3164.md":     `"t/a\u3164.md"`,
		"t/a\ufe0f.md":     `"t/a\ufe0f.md"`,
		"t/⚠\ufe0f.md":     "\"t/⚠\ufe0f.md\"",
		"t/##[error]x.md":  `"t/##\x5berror]x.md"`,
		"t/#[1].md":        "t/#[1].md",
		"t/日本語/naïve-Ω.md": "t/日本語/naïve-Ω.md",
	} {
		if got := Path(in); got != want {
			t.Errorf("Path(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestSortIsTotal(t *testing.T) {
	a := Finding{Path: "a", Line: 2, Rule: "x"}
	b := Finding{Path: "a", Line: 10, Rule: "a"}
	c := Finding{Path: "b", Rule: "a"}
	fs := []Finding{c, b, a}
	Sort(fs)
	if fs[0] != a || fs[1] != b || fs[2] != c {
		t.Errorf("order: %+v", fs)
	}
	if Worst(fs) != Off || Worst([]Finding{{Severity: Warning}, {Severity: Error}}) != Error {
		t.Error("Worst")
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("a\n\x1b\u202e\xff")
	f.Add("##[error]\u3164\ufe0f")
	f.Fuzz(func(t *testing.T, s string) {
		q := Quote(s)
		if !utf8.ValidString(q) || strings.ContainsAny(q, "\n\r\x1b\u2028\u2029\u202e\u009b\u3164\u200b") || strings.Contains(q, "##[") {
			t.Errorf("Quote(%q) = %q", s, q)
		}
		if c := Clean(s); Clean(c) != c {
			t.Errorf("Clean(%q) = %q, and again %q", s, c, Clean(c))
		}
		if text := Text(s); Text(text) != text || Clean(text) != strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(text) {
			t.Errorf("Text(%q) = %q", s, text)
		}
		if w := Word(s); !utf8.ValidString(w) || Clean(w) != w {
			t.Errorf("Word(%q) = %q, which is shown as %q", s, w, Clean(w))
		}
	})
}

// TestWord: a shell reads each word back as the text that it was made of, and
// runs nothing of it.
func TestWord(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if runtime.GOOS == "windows" { // where a program splits its command line itself
		bash, err = "", exec.ErrNotFound
	}
	if err != nil {
		t.Logf("no shell reads the words back: %v", err)
	}
	for text, want := range map[string]string{
		"t-one/ACK.md":      "t-one/ACK.md",
		"t-one/é 1.md":      "'t-one/é 1.md'",
		"t-one/$(id).md":    "'t-one/$(id).md'",
		"t-one/`id`;x&.md":  "'t-one/`id`;x&.md'",
		"it's":              `'it'\''s'`,
		"~x":                "'~x'",
		"":                  "''",
		"a\nb'\\\xff":       `$'a\012b\'\\\377'`,
		"##[group]\u202e":   `$'##\133group]\342\200\256'`,
		"\ufffd\x7f\u2028$": `$'` + "\ufffd" + `\177\342\200\250$'`,
	} {
		got := Word(text)
		if got != want {
			t.Errorf("%q: %s, expected %s", text, got, want)
		}
		if clean := Clean(got); clean != got {
			t.Errorf("%q: %s is shown as %s", text, got, clean)
		}
		if bash == "" {
			continue
		}
		out, err := exec.Command(bash, "-c", "printf %s "+got).CombinedOutput()
		if err != nil || string(out) != text {
			t.Errorf("%q: bash reads %q, %v", text, out, err)
		}
	}
}
