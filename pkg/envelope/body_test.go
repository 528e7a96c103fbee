package envelope_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/envelope"
)

func TestBodyVectors(t *testing.T) {
	var vectors []struct{ Body, Normalized, SHA256 string }
	readJSON(t, "body_hash.json", &vectors)
	for _, v := range vectors {
		n := envelope.NormalizeBody([]byte(v.Body))
		if string(n) != v.Normalized || envelope.BodyHash(n) != v.SHA256 {
			t.Errorf("%q: %q %s, expected %q %s", v.Body, n, envelope.BodyHash(n), v.Normalized, v.SHA256)
		}
	}
}

func TestBodyHashTable(t *testing.T) {
	for _, c := range [][2]string{
		{`""`, "01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b"},
		{`"a"`, "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"},
		{`"a  \nb\t \n"`, "911169ddaaf146aff539f58c26c489af3b892dff0fe283c1c264c65ae5aa59a2"},
		{`"a\r\nb\r\n"`, "911169ddaaf146aff539f58c26c489af3b892dff0fe283c1c264c65ae5aa59a2"},
		{`"a\rb\r"`, "911169ddaaf146aff539f58c26c489af3b892dff0fe283c1c264c65ae5aa59a2"},
		{`"a\n\n \n\n"`, "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"},
		{`"\n\na\n"`, "2cbf90f289ddbbcfd893ffa83e68c5eecee197280bd05812607ccca601aff79c"},
		{`"\ufeffa\n"`, "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"},
		{`"\ufeff\ufeffa\n"`, "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"},
		{`"a\u00a0\n"`, "be493412e853f87564f253c76da79fbdfe5b2310f14d3562344e3ff6fbdba457"},
		{`"a \u2028 \n"`, "315c39dc68c0082b0d42bc8cdca5d63271da31b20546afabd48cc453268b459d"},
		{`"e\u0301\n"`, "f979a211b00b61497349a7c753652a3d173550a368711a9f9f9845e6383db7cb"},
	} {
		t.Run("E16 "+c[0], func(t *testing.T) {
			var body string
			if err := json.Unmarshal([]byte(c[0]), &body); err != nil {
				t.Fatal(err)
			}
			if got := envelope.BodyHash(envelope.NormalizeBody([]byte(body))); got != c[1] {
				t.Errorf("%s, expected %s", got, c[1])
			}
			e, fs := envelope.Parse([]byte("---\n"+head+"---\n"+body), envelope.Options{})
			if e == nil || e.Hash != c[1] {
				t.Errorf("parsed: %+v", fs)
			}
			_, fs = envelope.Parse([]byte("---\n"+head+"body_hash: \""+c[1]+"\"\n---\n"+body), envelope.Options{})
			if len(fs) != 0 {
				t.Errorf("%+v", fs)
			}
		})
	}
}

// slowBody follows docs/spec/envelope.md#body-hash rule by rule.
func slowBody(body string) string {
	body = strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(body, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t")
	}
	body = strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
	return strings.TrimLeft(body, "\ufeff")
}

func FuzzNormalizeBody(f *testing.F) {
	for _, s := range []string{"", "a", "a \t\r\n\r\n", "\ufeff \n", "\ufeff\ufeff", " \ufeff", "\r", "\n\r\n\r \r", "a\v \f\n", "a \u00a0 \n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		n := envelope.NormalizeBody(body)
		if !bytes.Equal(before, body) {
			t.Fatal("the argument changed")
		}
		if utf8.Valid(body) && string(n) != slowBody(string(body)) {
			t.Errorf("%q: %q, expected %q", body, n, slowBody(string(body)))
		}
		if again := envelope.NormalizeBody(n); !bytes.Equal(again, n) {
			t.Errorf("%q, again %q", n, again)
		}
	})
}

// TestLinear holds the cost of the largest hostile inputs down. The bound is
// wide: quadratic work on 8 MiB takes hours.
func TestLinear(t *testing.T) {
	big := func(piece string) []byte { return bytes.Repeat([]byte(piece), 8_000_000/len(piece)) }
	front := func(piece string) []byte {
		return []byte("---\n" + head + strings.Repeat(piece, 64_000/len(piece)) + "\n---\nx\n")
	}
	quoted := func(begin, piece, end string) []byte {
		return []byte("---\n" + head + begin + strings.Repeat(piece, 64_000/len(piece)) + end + "\n---\nx\n")
	}
	for name, data := range map[string][]byte{
		"400,000 blanks in a line": append(append(file("a"), bytes.Repeat([]byte(" "), 400_000)...), "b\n"...),
		"blanks":                   append(file(""), big(" ")...),
		"blank lines":              append(file(""), big(" \n")...),
		"lone CR":                  append(file(""), big("\r")...),
		"lone CR, no closing":      append([]byte("---\r"), big("\r")...),
		"LF, no closing":           append([]byte("---\n"), big("\n")...),
		"no line end":              append([]byte("---\n"), big("x")...),
		"CR in the first line":     append([]byte("---\n"), big("a\r")...),
		"byte order marks":         append(file(""), big("\ufeff")...),
		"invalid at the end":       append(append(file(""), big("é\n")...), 0xff),
		"hyphens":                  append([]byte("---\n"), big("---x\n")...),
		"brackets":                 front("["),
		"braces":                   front("{a: "),
		"keys":                     quoted("", "\"\\x61\": b\n? ", "c: d"),
		"unknown keys":             front("k: v\n"),
		"items":                    quoted("references: [", "é, ", "a]"),
		"quoted items":             quoted("references: [", "'é', ", "a]"),
		"items on lines":           quoted("references:\n", "- é\n", ""),
		"comment lines":            quoted("references:\n", "#\n", "- é"),
		"comments above values":    quoted("x:\n", "  -\n #\n    y\n", ""),
		"quoted lines":             quoted("tldr: \"", "\n ", "\""),
		"colons":                   front(": "),
		"question marks":           front("? "),
		"anchors":                  front("&a "),
		"hashes":                   quoted("x: [", " #\n", "]"),
		"one long key":             front("é"),
		"quotes in flow":           quoted("x: [", "a'b\",", "]"),
		"long numbers":             quoted("tldr: ", "9", ""),
		"long references":          quoted("references: [", "9", "]"),
		"block scalar":             quoted("tldr: |\n", "  x\n\n", ""),
	} {
		begin := time.Now()
		_, fs := judge(data, envelope.Options{})
		for _, f := range fs {
			checkFinding(t, f)
		}
		if d := time.Since(begin); d > 20*time.Second {
			t.Errorf("%s: %v for %d bytes", name, d, len(data))
		} else if testing.Verbose() && d > 50*time.Millisecond {
			t.Logf("%s: %v for %d bytes", name, d, len(data))
		}
	}
}
