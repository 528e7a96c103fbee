package screen_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/test/texts"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/screen"
)

// Every text of the smuggling corpus has a finding, and none holds what it tells
// of unescaped.
func TestSmuggled(t *testing.T) {
	all := texts.Smuggled()
	if len(all) < 200 {
		t.Fatalf("%d texts only", len(all))
	}
	for _, x := range all {
		if strings.Contains(x.Name, "escapes of front matter") {
			continue // package envelope knows the values
		}
		fs, _ := screen.Text([]byte(x.Envelope("t-one")), screen.Where{Path: "t-one/x.md"})
		if len(fs) == 0 {
			t.Errorf("%s: no finding", x.Name)
		}
		for _, f := range fs {
			if f.Rule != screen.RuleHidden || f.Severity != finding.Error || f.Line == 0 || f.Col == 0 || f.Hint == "" ||
				finding.Clean(f.Message) != f.Message || finding.Clean(f.Hint) != f.Hint {
				t.Errorf("%s: %+v", x.Name, f)
			}
		}
	}
}

// The texts of the lawful corpus have none.
func TestLawful(t *testing.T) {
	all := texts.Lawful()
	letters, scripts := map[rune]bool{}, map[string]bool{}
	for _, x := range all {
		for _, r := range x.Body {
			letters[r] = unicode.IsLetter(r)
		}
		fs, _ := screen.Text([]byte(x.Body), screen.Where{})
		for _, f := range fs {
			t.Errorf("%s: %+q: %s", x.Name, x.Body, f.Message)
		}
	}
	for name, table := range unicode.Scripts {
		for r, is := range letters {
			scripts[name] = scripts[name] || is && unicode.Is(table, r)
		}
		if !scripts[name] {
			delete(scripts, name)
		}
	}
	if len(all) < 2000 || len(scripts) < 20 {
		t.Errorf("%d texts in %d scripts only", len(all), len(scripts))
	}
	t.Logf("%d texts in %d scripts", len(all), len(scripts))
}

// What Unicode lists has none.
func TestListed(t *testing.T) {
	all := texts.Listed()
	if all == nil {
		t.Skip("Debian's package unicode-data is missing")
	}
	for _, x := range all {
		fs, _ := screen.Text([]byte(x.Body), screen.Where{})
		for _, f := range fs {
			t.Errorf("%s: %+q: %s", x.Name, x.Body, f.Message)
		}
	}
	t.Logf("%d sequences", len(all))
}

// The characters that Unicode calls ignorable are told where nothing speaks for
// them, and no letter, digit or sign is.
func TestEveryCharacter(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		fs, _ := screen.Text([]byte("a"+string(r)+"b"), screen.Where{})
		told := len(fs) > 0
		switch {
		case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Co, unicode.Noncharacter_Code_Point):
			if !told {
				t.Errorf("%U is not told", r)
			}
		case unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z) && r != 0x34f && r != 0x17b4 && r != 0x17b5 && r != 0x2800:
			if told {
				t.Errorf("%U is told", r)
			}
		}
	}
}

// Text of any form is judged in time that grows with it, and the findings are
// bounded.
func TestHostile(t *testing.T) {
	for name, part := range map[string]string{
		"alternating": "a\u200b", "marks": "a\u200e", "right-to-left marks": "א\u200e", "openers": "\u2066", "openers with text": "\u2067a",
		"braille": "\u2800a", "tags": "\U000e0041", "references": "&#xE0041;", "half references": "&#", "escapes": "\x1b[0;", "lines": "\u202ea\n",
		"private": "\ue000a", "pairs": "\u2066\u2069",
	} {
		text := []byte(strings.Repeat(part, (4<<20)/len(part)))
		start := time.Now()
		fs, _ := screen.Text(text, screen.Where{Path: "t-one/x.md"})
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		size := 0
		for _, f := range fs {
			size += len(f.Message) + len(f.Hint)
		}
		if len(fs) > 20 || size > 64<<10 {
			t.Errorf("%s: %d findings of %d bytes", name, len(fs), size)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, x := range []struct{ text, place, message, hint string }{
		{"one\ntwo \U000e0068\U000e0069.\n", "2:5",
			`2 characters that readers do not see: U+E0068 TAG LATIN SMALL LETTER H, U+E0069 TAG LATIN SMALL LETTER I; it spells "hi"`,
			`perl -CSD -i -pe 's/\x{E0068}\x{E0069}// if $. == 2' -- t-one/x.md`},
		{"é\u200b", "1:2", "a character that readers do not see: U+200B ZERO WIDTH SPACE",
			`perl -CSD -i -pe 's/\x{200B}// if $. == 1' -- t-one/x.md`},
		{"a \u2067b\n", "1:3", "U+2067 RIGHT-TO-LEFT ISOLATE is not closed on its line",
			`perl -CSD -i -pe 's/\x{2067}// if $. == 1' -- t-one/x.md`},
		{"😀\U000e0158\U000e0159", "1:2", `2 characters that readers do not see: U+E0158 VARIATION SELECTOR-105, ` +
			`U+E0159 VARIATION SELECTOR-106; it spells "hi"`, ""},
		{strings.Repeat("\u200b", 5) + strings.Repeat("\u200c", 3) + "a", "1:1",
			`8 characters that readers do not see: U+200B ZERO WIDTH SPACE, U+200C ZERO WIDTH NON-JOINER`, ""},
		{"\u200b\u200c\u200c\u200b\u200c\u200b\u200b\u200b", "1:1",
			`8 characters that readers do not see: U+200B ZERO WIDTH SPACE, U+200C ZERO WIDTH NON-JOINER; it spells "h"`, ""},
		{"\ue041\ue042", "1:1", `2 characters that readers do not see: U+E041 private use, U+E042 private use; it spells "AB"`, ""},
		{"&#xE0048;&#917577;", "1:1", `2 references to characters that readers do not see: U+E0048 TAG LATIN CAPITAL LETTER H …; it spells "HI"`, ""},
	} {
		fs, _ := screen.Text([]byte(x.text), screen.Where{Path: "t-one/x.md"})
		if len(fs) != 1 {
			t.Errorf("%+q: %+v", x.text, fs)
			continue
		}
		f := fs[0]
		if place := strings.Join([]string{itoa(f.Line), itoa(f.Col)}, ":"); place != x.place || f.Message != x.message || x.hint != "" && f.Hint != x.hint+screen.Exception(f.Key) {
			t.Errorf("%+q: %s %s | %s", x.text, place, f.Message, f.Hint)
		}
	}
}

// A key is that of one secret, or of one line with what is hidden in it; what many
// findings are told as one has none, so that nothing hides behind what is excepted.
func TestKeys(t *testing.T) {
	token, other := spelled("ghp_{a36}", 0), spelled("npm_{a36}", 0)
	rest := func(text string, allow ...string) (n int) {
		fs, _ := screen.Text([]byte(text), screen.Where{})
		for _, f := range fs {
			if !slices.Contains(allow, f.Key) {
				n++
			}
		}
		return n
	}
	keyOf := func(text string) string {
		fs, _ := screen.Text([]byte(text), screen.Where{})
		return fs[0].Key
	}
	line := "An icon \ue0b0 here."
	many := func(form string, n int) (text string) {
		for i := range n {
			text += strings.ReplaceAll(form, "#", strconv.Itoa(i)) + "\n"
		}
		return text
	}
	for name, x := range map[string]struct {
		text  string
		allow []string
		want  bool // something is left
	}{
		"the line":                    {"One.\n" + line + "\nTwo.\n", []string{keyOf(line)}, false},
		"the line twice":              {line + "\n" + line, []string{keyOf(line)}, false},
		"twice on the line":           {"a\ue0b0 b\ue0b0", []string{keyOf("a\ue0b0 b\ue0b0")}, false},
		"another line":                {line + "!", []string{keyOf(line)}, true},
		"the character elsewhere":     {"a\ue0b0", []string{keyOf(line)}, true},
		"the line and more":           {line + "\na\u200bb", []string{keyOf(line)}, true},
		"the secret":                  {"x " + token + " y", []string{keyOf(token)}, false},
		"the secret in other words":   {token + "\nand " + token, []string{keyOf(token)}, false},
		"another secret":              {token + " " + other, []string{keyOf(token)}, true},
		"hidden in a secret's line":   {token + "\u200b", []string{keyOf(token)}, true},
		"a line often":                {many(line, 100), []string{keyOf(line)}, false},
		"behind a line":               {many(line, 100) + "a\u200bb", []string{keyOf(line)}, true},
		"a secret often":              {many(token, 100), []string{keyOf(token)}, false},
		"behind a secret":             {many(token, 100) + other, []string{keyOf(token)}, true},
		"two secrets often":           {many(token+" "+other, 100), []string{keyOf(token), keyOf(other)}, false},
		"one late":                    {many(token, 100) + other + "\n", []string{keyOf(token), keyOf(other)}, false},
		"references":                  {"&#xE0048;&#917577;", []string{keyOf("&#xE0048;&#917577;")}, false},
		"an open isolate":             {"a \u2067b\n", []string{keyOf("a \u2067b\n")}, false},
		"no key":                      {token, []string{""}, true},
		"of more lines than are told": {many("a#\u200bb", 21), nil, true},
	} {
		if n := rest(x.text, x.allow...); (n > 0) != x.want {
			t.Errorf("%s: %d findings are left", name, n)
		}
	}
	var all []string
	fs, _ := screen.Text([]byte(many("a#\u200bb", 21)), screen.Where{})
	for _, f := range fs {
		all = append(all, f.Key)
	}
	if all[len(all)-1] != "" || !strings.Contains(fs[len(fs)-1].Hint, "at most 20") {
		t.Errorf("of 21 lines with a key each the last finding is %+v", fs[len(fs)-1])
	}
	// What is written as an escape is told beside what was told of its line.
	w := screen.Where{}
	escaped := []byte(`{"a": "` + token + `", "b": "` + `\u0067hp` + token[3:len(token)-1] + "Z" + `", "c": "x\u200by"}`)
	if fs := screen.Escaped(escaped, w); len(fs) != 2 || fs[0].Key == keyOf(token) || fs[1].Rule != screen.RuleHidden {
		t.Errorf("escapes beside a token: %+v", fs)
	}
	raw, _ := screen.Text([]byte("a: "+token), w)
	if fs, _ := screen.Value(token+" "+other+" \u200b", 1, 4, w, raw); len(fs) != 2 {
		t.Errorf("a value with a secret that is told, another one and a blank: %+v", fs)
	}
}

func itoa(n int) string { return string(rune('0' + n)) }

func FuzzText(f *testing.F) {
	for _, x := range texts.Smuggled() {
		f.Add([]byte(x.Body))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := strings.Count(string(data), "\n") + 1
		fs, _ := screen.Text(data, screen.Where{Path: "a/b.md"})
		for _, x := range fs {
			if x.Line < 1 || x.Line > lines || x.Col < 1 || finding.Clean(x.Message) != x.Message || finding.Clean(x.Hint) != x.Hint {
				t.Fatalf("%+v", x)
			}
		}
		if after, _ := screen.Text(append([]byte("Plain.\n\n"), data...), screen.Where{}); len(fs) == 0 && after != nil && !strings.HasPrefix(string(data), "\ufeff") {
			t.Fatal("a line before it makes a difference")
		}
	})
}

func BenchmarkText(b *testing.B) {
	ascii := []byte(strings.Repeat("The release is ready, and the tests of all machines are green.\n", 32))
	other := []byte(strings.Repeat("Die Prüfung läuft; 検証は完了しました。 ▶ Готово\n", 32))
	for name, text := range map[string][]byte{"ascii": ascii, "other": other} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				screen.Text(text, screen.Where{})
			}
		})
	}
}
