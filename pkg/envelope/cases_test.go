package envelope_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

const head = "from: mac\nto: win\ndate: 2026-05-15\nstatus: ▶ Go\ntype: ACK\nthread: t-one\n"

// file puts lines below six good keys, which end at line 7: the first of the
// lines is line 8.
func file(lines string) []byte {
	return []byte("---\n" + head + lines + "---\nBody.\n")
}

// with is a good file in which one line of the head is replaced.
func with(line string) []byte {
	key, _, _ := strings.Cut(line, ":")
	lines := strings.Split(head, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, key+":") {
			lines[i] = line
		}
	}
	return []byte("---\n" + strings.Join(lines, "\n") + "---\nBody.\n")
}

// one is the only finding of a rule.
func one(t *testing.T, fs []finding.Finding, rule string) finding.Finding {
	t.Helper()
	var found []finding.Finding
	for _, f := range fs {
		checkFinding(t, f)
		if f.Rule == rule {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d findings of %s, expected 1: %+v", len(found), rule, fs)
	}
	return found[0]
}

// none fails if a finding is at error.
func none(t *testing.T, fs []finding.Finding) {
	t.Helper()
	if finding.Worst(fs) == finding.Error {
		t.Errorf("unexpected findings %+v", fs)
	}
}

func at(t *testing.T, f finding.Finding, line, col int, hint string) {
	t.Helper()
	if f.Line != line || f.Col != col {
		t.Errorf("at %d:%d, expected %d:%d: %s", f.Line, f.Col, line, col, f.Message)
	}
	if hint != "" && f.Hint != hint {
		t.Errorf("hint %q, expected %q", f.Hint, hint)
	}
}

func TestNumbersAreToldToBeQuoted(t *testing.T) {
	for _, id := range []string{"1234567", "0123456", "12345e1", "61e9540", "0x12345", "1e10000", "0o1234567", "-1234567", "12345.67", ".1234567", "+1234567"} {
		t.Run("E01 "+id, func(t *testing.T) {
			_, fs := envelope.Parse(file("references:\n  - a1b2c3d\n  - "+id+" # why\n"), envelope.Options{})
			at(t, one(t, fs, "envelope-schema"), 10, 5, "  - \""+id+"\" # why")
			_, fs = envelope.Parse(file("references: [ "+id+" , a1b2c3d]\n"), envelope.Options{})
			at(t, one(t, fs, "envelope-schema"), 8, 15, "references: [ \""+id+"\" , a1b2c3d]")
			_, fs = envelope.Parse(file("tldr: "+id+"\n"), envelope.Options{})
			at(t, one(t, fs, "envelope-schema"), 8, 7, "tldr: \""+id+"\"")
			e, fs := envelope.Parse(file("tldr: \""+id+"\"\n"), envelope.Options{})
			none(t, fs)
			if e.TLDR != id {
				t.Errorf("tldr %q", e.TLDR)
			}
		})
	}
	for _, id := range []string{"e123456", "1a2b3c4", "0x1234g", "12:60", "inf", "1e", "0o", "0x", "+", "1e+", "..", "1.2.3"} {
		t.Run("E01 a string stays one: "+id, func(t *testing.T) {
			e, fs := envelope.Parse(file("tldr: "+id+"\n"), envelope.Options{})
			none(t, fs)
			if e.TLDR != id {
				t.Errorf("tldr %q", e.TLDR)
			}
		})
	}
	for _, id := range []string{"1_234_567", "0b1010101", "12:30", "12:30:45.5", "1_", "-0b1", "+0x1F", "yes", "No", "ON", "off", "y", "2026-05-15", "2026-5-1 1:02:03 +1", "=", "<<"} {
		t.Run("E01 J07 a string for some and not for all: "+id, func(t *testing.T) {
			e, fs := envelope.Parse(file("tldr: "+id+"\n"), envelope.Options{})
			at(t, one(t, fs, "envelope-schema"), 8, 7, `tldr: "`+id+`"`)
			if e.TLDR != id {
				t.Errorf("tldr %q", e.TLDR)
			}
			for _, quoted := range []string{`"` + id + `"`, "'" + id + "'", "|-\n  " + id} {
				e, fs := envelope.Parse(file("tldr: "+quoted+"\n"), envelope.Options{})
				none(t, fs)
				if e.TLDR != id {
					t.Errorf("tldr %q from %q", e.TLDR, quoted)
				}
			}
		})
	}
	t.Run("E01 a hash of digits with one e", func(t *testing.T) {
		hash := strings.Repeat("1", 31) + "e" + strings.Repeat("2", 32)
		_, fs := envelope.Parse(file("body_hash: "+hash+"\n"), envelope.Options{})
		at(t, one(t, fs, "envelope-schema"), 8, 12, "body_hash: \""+hash+"\"")
	})
}

func TestDatesStayStrings(t *testing.T) {
	for _, date := range []string{"2026-04-29", "2026-04-29T10:00:00Z", "'2026-04-29'", "2026-04-29T10:00:00.123456+02:00", "2026-04-29T10:00:00"} {
		t.Run("E02 "+date, func(t *testing.T) {
			e, fs := envelope.Parse(with("date: "+date), envelope.Options{})
			none(t, fs)
			if e.Date != strings.Trim(date, "'") {
				t.Errorf("date %q", e.Date)
			}
		})
	}
	t.Run("E02 blank instead of T", func(t *testing.T) {
		_, fs := envelope.Parse(with("date: 2026-04-29 10:00:00"), envelope.Options{})
		at(t, one(t, fs, "envelope-schema"), 4, 7, "")
	})
}

func TestRefusedYAML(t *testing.T) {
	deep := strings.Repeat("[", 15) + strings.Repeat("]", 15)
	for _, c := range []struct {
		name, lines string
		line, col   int
		say         string
	}{
		{"E03 nested aliases", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", 8, 4, `anchor ("&a")`},
		{"E03 alias", "tldr: *nothing\n", 0, 0, "alias"},
		{"E03 merge key", "x:\n  <<: [{a: b}]\n", 9, 3, "merge key"},
		{"E03 merge key in braces", "x: {<<: {a: b}}\n", 8, 5, "merge key"},
		{"E03 tag", "tldr: !!str x\n", 8, 7, `tag ("!!str")`},
		{"E03 verbatim tag", "tldr: !<tag:yaml.org,2002:str> x\n", 8, 7, "tag"},
		{"E03 non-specific tag", "tldr: ! x\n", 8, 7, `tag ("!")`},
		{"E03 non-specific tag in brackets", "references: [! a1b2c3d]\n", 8, 14, "tag"},
		{"E03 non-specific tag on a key", "! tldr: x\n", 8, 1, "tag"},
		{"E03 non-specific tag on a list", "references: !\n  - a1b2c3d\n", 8, 13, "tag"},
		{"E03 non-specific tag on nothing", "tldr: !\n", 8, 7, "tag"},
		{"E03 tag on a quoted value behind an emoji", "x: {\"🎯\": ! 'y'}\n", 8, 10, "tag"},
		{"E03 complex key", "? {a: b}\n: c\n", 8, 3, "key is a list or a mapping"},
		{"E03 second document", "--- \nfrom: mac\n", 8, 1, "document marker ---"},
		{"E03 document end", "...\n", 8, 1, "document marker ..."},
		{"E03 directive", "%YAML 1.1\n", 8, 1, "directive"},
		{"E03 marker in a quoted value", "tldr: \"a\n... b\"\n", 9, 1, "marker"},
		{"E03 too deep", "x: [" + deep + "]\n", 8, 19, "deeper than 16"},
		{"E04 duplicate keys", "tldr: a\ntldr: a\n", 9, 1, `"tldr" is here a second time, first on line 8`},
		{"E04 duplicate keys, one quoted", "tldr: a\n\"\\x74ldr\": b\n", 9, 1, "first on line 8"},
		{"E04 duplicate keys below", "x:\n  k: 1\n  l: 2\n  k: 3\n", 11, 3, "first on line 9"},
		{"E04 duplicate keys in braces", "x: {k: 1, k: 2}\n", 8, 11, "first on line 8"},
		{"key twice among many", manyKeys(200) + "k100: x\n", 208, 1, "first on line 108"},
		{"quoted value goes on at column 1", "tldr: \"a\nb\"\n", 8, 7, "indented too little"},
		{"quoted value goes on after a TAB", "tldr: 'a\n\tb'\n", 8, 7, "indented too little"},
		{"quoted value, a line of a TAB", "tldr: 'a\n\t\n b'\n", 8, 7, "indented too little"},
		{"comment in a quoted value", "tldr: 'a\n# b'\n", 8, 7, "indented too little"},
		{"list goes on at column 1", "references: [a1b2c3d,\nb1b2c3d]\n", 8, 13, "indented too little"},
		{"bracket at column 1", "references: [\n  a1b2c3d\n]\n", 8, 13, "indented too little"},
		{"quoted item goes on below its dash", "references:\n  - 'a\n  b'\n", 9, 5, "indented too little"},
		{"block scalar at column 1", "tldr:\n|\n  x\n", 9, 1, "indented too little"},
		{"text after a quote", "tldr: \"a\"#b\n", 8, 7, "no blank after the closing"},
		{"text after a bracket", "references: [a1b2c3d]#b\n", 8, 13, "no blank after the closing"},
		{"comment right after a comma", "references: [a1b2c3d,#b\n  b1b2c3d]\n", 8, 22, "before this comment"},
		{"comment right after a block header", "tldr: |#b\n  x\n", 8, 8, "before this comment"},
		{"an empty line with more blanks than the text", "tldr: |\n   \n # c\n", 8, 7, "more blanks than"},
		{"backslash at a line end", "tldr: \"a\\\n  b\"\n", 8, 7, "backslash at the end"},
		{"escape of a single quote", "tldr: \"it\\'s\"\n", 8, 7, "escape"},
		{"a hyphen alone in brackets", "references: [-]\n", 8, 14, "plain value in brackets"},
		{"a colon at the end in brackets", "references: [a1b2c3d:, x]\n", 8, 14, "plain value in brackets"},
		{"a comment without blank above a value", "tldr:\n#c\n  x\n", 9, 1, "no blank after the #"},
		{"a comment below an empty line above a value", "tldr: # c\n\n# d\n  x\n", 10, 1, "below an empty line"},
		{"a comment without blank above an item", "references:\n  -\n #c\n\n    a1b2c3d\n", 10, 2, "no blank after the #"},
		{"key and value on two lines", "? tldr\n: x\n", 8, 3, "two lines"},
		{"a colon and a blank in a value", "tldr: note: this\n", 0, 0, "colon followed by a blank"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, fs := envelope.Parse(file(c.lines), envelope.Options{})
			if e != nil || len(fs) != 1 {
				t.Fatalf("envelope %v, findings %+v", e != nil, fs)
			}
			f := one(t, fs, "envelope-parse")
			if c.line > 0 {
				at(t, f, c.line, c.col, "")
			}
			if !strings.Contains(f.Message, c.say) {
				t.Errorf("message %q, expected it to say %q", f.Message, c.say)
			}
		})
	}
	for name, lines := range map[string]string{
		"quoted value goes on indented":     "tldr: \"a\n b\"\n",
		"empty line in a quoted value":      "tldr: \"a\n\n  b\"\n",
		"list below its key":                "references:\n- a1b2c3d\n- 'b1b2c3d'\n",
		"list with comments":                "references: [a1b2c3d, # one\n# two\n  b1b2c3d]\n",
		"comments above values":             "tldr:\n\n # c\n# c\n \n# c\n  #c\n  x\n#c\nreferences:\n#c\n- a1b2c3d\n",
		"quotes in plain values":            "references: []\ntldr: it's \"so\" #not\n",
		"a key with a blank before colon":   "tldr : x\n",
		"a quoted << is text, not a merge":  "tldr: \"<<\"\n",
		"an apostrophe within brackets":     "references: [a1b2c3d, \"b1b2c3d\"]\ntldr: 'a''b'\n",
		"TAB behind a quote":                "tldr: \"a\"\t# b\n",
		"a block scalar with a comment":     "tldr: | # c\n  x\n",
		"empty lines above a block scalar":  "tldr: |\n\n  \n  x\ndisplay_name: |1\n   \n x\n",
		"escapes that YAML has":             `tldr: "\0\a\b\t\n\v\f\r\e\ \"\\\N\_\L\P\x41\u00e9\U0001F3AF"` + "\n",
		"marker inside a line":              "tldr: a --- b ... %c\n",
		"indented marker in a block scalar": "tldr: |\n  ---\n  ...\n  %x\n",
	} {
		t.Run("good: "+name, func(t *testing.T) {
			e, fs := envelope.Parse(file(lines), envelope.Options{})
			if e == nil {
				t.Fatal(fs)
			}
			none(t, fs)
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: x\n", i)
	}
	return b.String()
}

func TestForbiddenCharacters(t *testing.T) {
	for _, c := range []rune{0, 1, 7, 0x0B, 0x0C, 0x1B, 0x7F, 0x80, 0x85, 0x9F, 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF} {
		for _, q := range []string{"", "\"", "'"} {
			_, fs := envelope.Parse(file("tldr: "+q+"é"+string(c)+q+"\n"), envelope.Options{})
			f := one(t, fs, "envelope-parse")
			at(t, f, 8, 8+len(q), "")
			if !strings.Contains(f.Message, fmt.Sprintf("U+%04X", c)) {
				t.Errorf("message %q does not name U+%04X", f.Message, c)
			}
		}
		if c <= 0xFF { // as an escape it is fine
			e, fs := envelope.Parse(file(fmt.Sprintf("tldr: \"\\x%02x\"\n", c)), envelope.Options{})
			none(t, fs)
			if e.TLDR != string(c) {
				t.Errorf("tldr %q", e.TLDR)
			}
		}
	}
}

func TestEmojiSelector(t *testing.T) {
	for _, m := range []string{"▶", "⏸", "❌", "🎯", "✅"} {
		t.Run("E07 "+m, func(t *testing.T) {
			_, fs := envelope.Parse(with("status: "+m+"\uFE0F Working hard # c"), envelope.Options{})
			f := one(t, fs, "envelope-schema")
			at(t, f, 5, 9, "status: "+m+" Working hard # c")
			if !strings.Contains(f.Message, "U+FE0F") {
				t.Errorf("message %q", f.Message)
			}
			_, fs = envelope.Parse(with(f.Hint), envelope.Options{})
			none(t, fs)
		})
	}
	for status, hint := range map[string]string{
		"► Go": "status: ▶ Go", "✔ Done": "status: ✅ Done", "✖ No": "status: ❌ No", "'> Go'": "status: ▶ Go", "✔\uFE0F Done": "status: ✅ Done",
		"' ▶ Go'": "status: ▶ Go", "▶Go": "status: ▶ Go", "▶\u200bGo": "status: ▶ Go", "▶\uFE0E Go": "status: ▶ Go", "▶✅ x": "status: ▶ ✅ x", "'▶ '": "", "Go": "",
	} {
		_, fs := envelope.Parse(with("status: "+status), envelope.Options{})
		f := one(t, fs, "envelope-schema")
		at(t, f, 5, 9, hint)
		if hint == "" && f.Hint != "" {
			t.Errorf("%s: hint %q", status, f.Hint)
		}
		if hint != "" {
			_, fs = envelope.Parse(with(hint), envelope.Options{})
			none(t, fs)
		}
	}
}

func TestDatesAreReal(t *testing.T) {
	for date, part := range map[string]string{
		"2026-13-99": "month 13", "2026-00-01": "month 00", "2026-02-29": "day 29", "2024-02-30": "day 30", "1900-02-29": "day 29", "2026-04-31": "day 31", "2026-01-00": "day 00", "0000-01-01": "year 0000",
		"2026-01-01T24:00:00": "hour 24", "2026-01-01T25:61:00Z": "hour 25", "2026-01-01T00:60:00Z": "minute 60", "2026-01-01T23:59:60Z": "second 60", "2026-01-01T00:00:00+24:00": "hour 24 of the zone", "2026-01-01T00:00:00-0160": "minute 60 of the zone",
	} {
		t.Run("E09 "+date, func(t *testing.T) {
			e, fs := envelope.Parse(with("date: "+date), envelope.Options{})
			f := one(t, fs, "envelope-date")
			at(t, f, 4, 7, "")
			if !strings.Contains(f.Message, part) || !e.Valid() {
				t.Errorf("message %q, valid %v", f.Message, e.Valid())
			}
		})
	}
	for _, date := range []string{"2024-02-29", "2000-02-29", "\"0001-01-01\"", "0100-01-01", "9999-12-31T23:59:59.999999999999-23:59", "2026-01-01T00:00:00-00:00", "2026-01-01T00:00:00+0530"} {
		t.Run("E09 real: "+date, func(t *testing.T) {
			_, fs := envelope.Parse(with("date: "+date), envelope.Options{})
			none(t, fs)
		})
	}
}

func TestInvalidUTF8(t *testing.T) {
	for _, c := range []struct {
		name, body string
		line, col  int
		say        string
	}{
		{"E10 three replacements", "a\xf0\x9f\xffb\xc3", 9, 2, "0xf0 at offset 83"},
		{"E10 after an emoji and CRLF", "🎯\r\nb\xc3", 10, 2, "0xc3"},
		{"E10 after a lone CR", "a\rb\r\xff", 11, 1, "0xff"},
		{"E10 surrogate", "\xed\xa0\x80", 9, 1, "0xed"},
		{"E10 overlong", "\xc0\xaf", 9, 1, "0xc0"},
		{"E10 above U+10FFFF", "\xf4\x90\x80\x80", 9, 1, "0xf4"},
		{"E10 lone continuation", "\x80", 9, 1, "0x80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := append([]byte("---\n"+head+"---\n"), c.body...)
			e, fs := envelope.Parse(data, envelope.Options{})
			f := one(t, fs, "envelope-parse")
			at(t, f, c.line, c.col, "")
			if e != nil || len(fs) != 1 || !strings.Contains(f.Message, c.say) {
				t.Errorf("findings %+v, expected %q", fs, c.say)
			}
		})
	}
	t.Run("E10 U+FFFD itself is a character", func(t *testing.T) {
		e, fs := envelope.Parse(file("tldr: \uFFFD\n"), envelope.Options{})
		if e == nil {
			t.Fatal(fs)
		}
	})
	t.Run("E10 a byte order mark takes no column", func(t *testing.T) {
		_, fs := envelope.Parse([]byte("\uFEFF--\xff"), envelope.Options{})
		at(t, one(t, fs, "envelope-parse"), 1, 3, "")
	})
}

func TestLimits(t *testing.T) {
	whole := func(size int) []byte {
		f := file("")
		return append(f, bytes.Repeat([]byte("x"), size-len(f))...)
	}
	e, fs := envelope.Parse(whole(8<<20), envelope.Options{})
	if e == nil {
		t.Error(fs)
	}
	_, fs = envelope.Parse(whole(8<<20+1), envelope.Options{})
	f := one(t, fs, "envelope-parse")
	at(t, f, 1, 1, "")
	if !strings.Contains(f.Message, "8388609") || !strings.Contains(f.Message, "8388608") {
		t.Error(f.Message)
	}
	front := func(size int, eol string) []byte {
		f := "---" + eol + strings.ReplaceAll(head, "\n", eol)
		line := "# " + strings.Repeat("x", 77) + eol
		have := len(head)
		for ; have+80 <= size-2; have += 80 {
			f += line
		}
		return []byte(f + "#" + strings.Repeat("y", size-have-2) + eol + "---" + eol)
	}
	for _, eol := range []string{"\n", "\r\n"} {
		if e, fs := envelope.Parse(front(65536, eol), envelope.Options{}); e == nil {
			t.Errorf("%q: %+v", eol, fs)
		}
		_, fs = envelope.Parse(front(65537, eol), envelope.Options{})
		f = one(t, fs, "envelope-parse")
		at(t, f, 2, 1, "")
		if !strings.Contains(f.Message, "65537") || !strings.Contains(f.Message, "65536") {
			t.Error(f.Message)
		}
	}
	_, fs = envelope.Parse(file(""), envelope.Options{Limits: envelope.Limits{File: 10}})
	one(t, fs, "envelope-parse")
	_, fs = envelope.Parse(file(""), envelope.Options{Limits: envelope.Limits{Frontmatter: 10}})
	one(t, fs, "envelope-parse")
	_, fs = envelope.Parse(file("x: [[y]]\n"), envelope.Options{Limits: envelope.Limits{Depth: 2}})
	at(t, one(t, fs, "envelope-parse"), 8, 5, "")
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		name, path string
		mode       uint32
		line, col  int
		say        string
	}{
		{"E13 device", "t-one/con.md", 0o100644, 1, 1, `device name "con"`},
		{"E13 device, upper case, more dots", "t-one/LPT0.x.md", 0, 1, 1, `"LPT0"`},
		{"E13 colon", "t-one/a:b.md", 0, 1, 1, "U+003A"},
		{"E13 backslash", `t-one/a\b.md`, 0, 1, 1, "U+005C"},
		{"E13 trailing blank", "t-one/a.md ", 0, 1, 1, `ends with ' '`},
		{"E13 trailing dot", "t-one/a.md.", 0, 1, 1, `ends with '.'`},
		{"E13 not NFC", "t-one/e\u0301.md", 0, 1, 1, "normal form C"},
		{"E13 control", "t-one/a\nb.md", 0, 1, 1, "U+000A"},
		{"E13 bidi", "t-one/a\u202Eb.md", 0, 1, 1, "U+202E"},
		{"E13 U+2028", "t-one/a\u2028b.md", 0, 1, 1, "U+2028"},
		{"E13 C1", "t-one/a\u0085b.md", 0, 1, 1, "U+0085"},
		{"E13 invalid UTF-8", "t-one/\xff.md", 0, 1, 1, "UTF-8"},
		{"E13 too long", "t-one/" + strings.Repeat("x", 253) + ".md", 0, 1, 1, "256 bytes"},
		{"E14 symbolic link", "t-one/a.md", 0o120000, 1, 1, "symbolic link"},
		{"E14 submodule", "t-one/a.md", 0o160000, 1, 1, "submodule"},
		{"E14 executable", "t-one/a.md", 0o100755, 1, 1, "executable"},
		{"E14 legacy mode", "t-one/a.md", 0o100664, 1, 1, "100664"},
		{"other directory", "t-two/a.md", 0o100644, 7, 9, `"t-two"`},
		{"directory differs in case", "T-ONE/a.md", 0o100644, 7, 9, `"T-ONE"`},
		{"below a root", "bridge/t-two/a.md", 0o100644, 7, 9, `"t-two"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, fs := envelope.Parse(file(""), envelope.Options{Path: c.path, Mode: c.mode})
			f := one(t, fs, "envelope-path")
			at(t, f, c.line, c.col, "")
			if !strings.Contains(f.Message, c.say) || f.Path != c.path {
				t.Errorf("finding %+v, expected it to say %q", f, c.say)
			}
		})
	}
	for _, thread := range []string{"con", "nul", "com9", "lpt0", "dist", "node_modules"} {
		t.Run("E13 thread "+thread, func(t *testing.T) {
			for _, path := range []string{"", thread + "/a.md"} {
				_, fs := envelope.Parse(with("thread: "+thread), envelope.Options{Path: path})
				at(t, one(t, fs, "envelope-path"), 7, 9, "")
			}
		})
	}
	for _, path := range []string{"t-one/ÜBER.md", "t-one/a b.md", "t-one/.md", "t-one/console.md", "t-one/com10.md", "bridge/t-one/a.md", "t-one/" + strings.Repeat("x", 252) + ".md"} {
		t.Run("good: "+path[:min(len(path), 30)], func(t *testing.T) {
			_, fs := envelope.Parse(file(""), envelope.Options{Path: path, Mode: 0o100644})
			none(t, fs)
		})
	}
	t.Run("E14 a link is never read", func(t *testing.T) {
		e, fs := envelope.Parse([]byte("/etc/passwd"), envelope.Options{Path: "t-one/a.md", Mode: 0o120000})
		if e != nil || len(fs) != 1 || fs[0].Rule != "envelope-path" {
			t.Errorf("%+v", fs)
		}
		if fs := envelope.CheckEntry("t-one/a.md", 0o120000); len(fs) != 1 {
			t.Errorf("%+v", fs)
		}
	})
}

func TestIsEnvelopePath(t *testing.T) {
	for path, want := range map[string]bool{
		"t-one/x.md": true, "t1/REQUEST.md": true, "con/x.md": true, "t-one/.md": true, "t-one/a b.md": true,
		"a/b/c.md": false, "x.md": false, "x/y.md": false, "t-one/n.MD": false, "t-one/n.md/": false, "t-one/": false, "-t/x.md": false, "T1/x.md": false, "t_1/x.md": false, "dist/x.md": false, "node_modules/x.md": false, "": false, "/x.md": false, "t-/x.md": false, "./x.md": false, "../x.md": false,
	} {
		if got := envelope.IsEnvelopePath(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

func TestFences(t *testing.T) {
	for data, want := range map[string]bool{
		"---\n": true, "---\r\nx": true, "---\rx": true, "---": true, "\uFEFF---\n": true, "\uFEFF---": true,
		"--- \n": false, "---\t\n": false, " ---\n": false, "----\n": false, "...\n": false, "---text": false, "+++\n": false, "": false, "\uFEFF": false, "\uFEFF\uFEFF---\n": false, "\n---\n": false,
	} {
		if got := envelope.HasFence([]byte(data)); got != want {
			t.Errorf("%q: %v", data, got)
		}
	}
	_, fs := envelope.Parse([]byte("+++\x1b[31m\u202e\n---\n"), envelope.Options{})
	if f := one(t, fs, "envelope-parse"); !strings.Contains(f.Message, `"+++\x1b[31m\u202e"`) {
		t.Error(f.Message)
	}
}

func TestHintsRepair(t *testing.T) {
	for _, c := range []struct{ line, hint string }{
		{"from: Mac-M5", "from: mac-m5"},
		{"to: [Mac-M5, win]", "to: [mac-m5, win]"},
		{"to: \" win\" # c", "to: win # c"},
		{"from: null", "from: \"null\""},
		{"type: handoff", "type: HANDOFF"},
		{"type: HANDOF # c", "type: HANDOFF # c"},
		{"to: 'Win'", "to: win"},
	} {
		_, fs := envelope.Parse(with(c.line), envelope.Options{})
		f := one(t, fs, "envelope-schema")
		if f.Hint != c.hint {
			t.Errorf("%s: hint %q, expected %q", c.line, f.Hint, c.hint)
		}
		_, fs = envelope.Parse(with(f.Hint), envelope.Options{})
		none(t, fs)
	}
	e, fs := envelope.Parse(file("body_hash: "+strings.Repeat("a", 64)+"\n"), envelope.Options{})
	f := one(t, fs, "body-hash")
	at(t, f, 8, 12, "body_hash: "+e.Hash)
	e, fs = envelope.Parse(file(f.Hint+"\n"), envelope.Options{})
	if len(fs) != 0 || e.BodyHash != e.Hash {
		t.Errorf("%+v", fs)
	}
	_, fs = envelope.Parse(file("Tldr: x\ntldrr: x\nresponse_to: x\nt: x\ntdlr: x\nin-reply-to: x\n"), envelope.Options{})
	var hints []string
	for _, f := range fs {
		if f.Rule == "envelope-schema" {
			hints = append(hints, f.Hint)
		}
	}
	if strings.Join(hints, "|") != "did you mean tldr?|did you mean tldr?|||did you mean tldr?|did you mean in_reply_to?" {
		t.Errorf("hints %q", hints)
	}
	_, fs = envelope.Parse(file("tldr: note: this breaks\n"), envelope.Options{})
	f = one(t, fs, "envelope-parse")
	at(t, f, 8, 1, "put the value in double quotes: tldr: \"note: this breaks\"")
	_, fs = envelope.Parse([]byte("---\nfrom:mac\nto: win\n---\n"), envelope.Options{})
	f = one(t, fs, "envelope-parse")
	if !strings.Contains(f.Hint, "from: \"mac\"") {
		t.Errorf("hint %q", f.Hint)
	}
}

func TestPlaces(t *testing.T) {
	e, fs := envelope.Parse([]byte("---\nfrom: mac\nto: [🎯, \"é\", win]\n---\n"), envelope.Options{})
	if e == nil {
		t.Fatal(fs)
	}
	for _, c := range []struct {
		key       string
		item      int
		line, col int
	}{{"from", -1, 2, 7}, {"to", -1, 3, 5}, {"to", 0, 3, 6}, {"to", 1, 3, 9}, {"to", 2, 3, 14}, {"to", 3, 3, 5}, {"date", -1, 4, 1}, {"date", 0, 4, 1}} {
		if line, col := e.ItemPlace(c.key, c.item); line != c.line || col != c.col {
			t.Errorf("%s %d: %d:%d", c.key, c.item, line, col)
		}
	}
}
