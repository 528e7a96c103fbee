package finding

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		"plain <b>&": `"plain <b>&"`, "a\x1b[2J": `"a\u001b[2J"`, "a\u0085": `"a\u0085"`, "a\u202eb": `"a\u202eb"`, "\u2028": `"\u2028"`,
		"ü\u3000世": "\"ü\u3000世\"", "\U000e0041": `"\udb40\udc41"`, "x ##[error] y": `"x #\u0023[error] y"`, "\x7f": `"\u007f"`,
	} {
		if got, err := JSON(in); err != nil || string(got) != want {
			t.Errorf("JSON(%q) = %s %v, want %s", in, got, err, want)
		}
	}
	if got := string(EscapeJSON([]byte("{\n\t\"ü\": 1\n}"))); got != "{\n\t\"ü\": 1\n}" {
		t.Errorf("%q", got)
	}
	if _, err := JSON(func() {}); err == nil {
		t.Error("a function has a JSON form")
	}
}

// FuzzJSON: the value stays, and nothing that acts on a terminal is left.
func FuzzJSON(f *testing.F) {
	f.Add("a\x1b\u202e\u0085##[\U000e0041\xff")
	f.Fuzz(func(t *testing.T, s string) {
		data, err := JSON(s)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(data, &back); err != nil || utf8.ValidString(s) && back != s {
			t.Fatalf("%q came back as %q %v", s, back, err)
		}
		for _, r := range string(data) {
			if !Printable(r) {
				t.Fatalf("%q holds %U", data, r)
			}
		}
		if strings.Contains(string(data), "##[") {
			t.Fatalf("%q holds a command", data)
		}
	})
}
