package bundle_test

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/texts"
	"github.com/rigward/rigward/pkg/bundle"
)

// Texts of bundles are judged as envelopes are.
func TestScreenText(t *testing.T) {
	for _, x := range texts.Smuggled() {
		if strings.Contains(x.Name, "escapes of front matter") || strings.Contains(x.Body, "\x00") {
			continue // what holds a NUL may be no text
		}
		if faults, _ := bundle.ScreenText("skills/review/SKILL.md", []byte(x.Envelope("t-one")), bundle.TextsByName, nil); len(faults) == 0 || faults[0].Code != bundle.HiddenText {
			t.Errorf("%s passes", x.Name)
		}
	}
	for _, x := range texts.Lawful() {
		if faults, notes := bundle.ScreenText("prompts/a.md", []byte(x.Body), bundle.TextsByContent, nil); len(faults)+len(notes) > 0 {
			t.Errorf("%s: %v %v", x.Name, faults, notes)
		}
	}
	const tag = "a\U000e0041b"
	for _, x := range []struct {
		name, text string
		which      bundle.Texts
		faults     int
		notes      int
	}{
		{"a.py", tag, bundle.TextsByContent, 1, 0},
		{"a.py", tag, bundle.TextsByName, 0, 0},
		{"a.bin", tag + "\x00", bundle.TextsByContent, 0, 0},
		{"a.md", tag + "\x00\xff", bundle.TextsByContent, 1, 0},
		{"a.txt", "a\x00b", bundle.TextsByContent, 0, 0},
		{"a/node_modules/b/README.md", tag, bundle.TextsByName, 0, 0},
		{"a/node_modules/b/SKILL.md", tag, bundle.TextsByName, 1, 0},
		{"a.json", `{"a": "\udb40\udc41"}`, bundle.TextsByName, 1, 0},
		{"a.json", `{"a": "\\udb40\\udc41", "b": "\u00e9"}`, bundle.TextsByName, 0, 0},
		{"a.yaml", `a: "\U000E0041"`, bundle.TextsByName, 1, 0},
		{"a.yaml", `a: '\U000E0041'`, bundle.TextsByName, 0, 0},
		{"a.md", "one\n<!-- say yes -->\n<p style=\"Display : NONE\">yes</p>\n", bundle.TextsByContent, 0, 2},
		{"a.md", "<!-- rye:signed:x -->\nthe display: a nonempty one\n", bundle.TextsByContent, 0, 0},
		{"a.md", "a: " + strings.Repeat("Fine.\n", 300_000) + tag + "\n" + strings.Repeat("x", 3<<20) + "\n", bundle.TextsByContent, 1, 0},
	} {
		faults, notes := bundle.ScreenText(x.name, []byte(x.text), x.which, nil)
		if len(faults) != x.faults || len(notes) != x.notes {
			t.Errorf("%s %.40q: %v %v", x.name, x.text, faults, notes)
		}
	}
	// What a key names is let be, and nothing beside it.
	at, _ := bundle.ScreenText("a.md", []byte(tag), bundle.TextsByContent, nil)
	allow := []string{at[0].Key}
	for text, want := range map[string]int{tag: 0, strings.Repeat(tag+"\n", 50): 0, tag + " ": 1, strings.Repeat(tag+"\n", 50) + "b" + tag: 1,
		strings.Repeat(tag+"\n", 400_000) + "b" + tag: 1} {
		if faults, _ := bundle.ScreenText("a.md", []byte(text), bundle.TextsByContent, allow); len(faults) != want {
			t.Errorf("%.20q: %d findings, expected %d", text, len(faults), want)
		}
	}
	name := bundle.ScreenName("a\u200b/b", nil)
	if name == nil || name.Finding("x.tar", 0).Hint != name.Hint+"; if it belongs there, the policy may say allow: ["+name.Key+"]" {
		t.Errorf("a name's finding is %+v", name)
	} else if bundle.ScreenName("a\u200b/b", []string{name.Key}) != nil || bundle.ScreenName("a\u200b/c", []string{name.Key}) == nil {
		t.Error("a name is excepted that is not the one")
	}
	if f := bundle.ScreenName("a\u200b/b", nil); f == nil || f.Code != bundle.HiddenText {
		t.Error("a name passes")
	}
}
