package envelope_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
)

// checkFinding holds what every finding owes its reader.
func checkFinding(t testing.TB, f finding.Finding) {
	t.Helper()
	for _, s := range []string{f.Message, f.Hint} {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
			return r < 0x20 || 0x7F <= r && r < 0xA0 || 0x202A <= r && r <= 0x202E || 0x2066 <= r && r <= 0x2069 || r == 0x2028 || r == 0x2029 || r == 0xFEFF
		}) {
			t.Errorf("%s: text that a terminal acts on: %q", f.Rule, s)
		}
		if len(s) > 1200 {
			t.Errorf("%s: %d bytes of text", f.Rule, len(s))
		}
	}
	if f.Message == "" || strings.HasSuffix(f.Message, ".") || strings.Contains(f.Message, "yaml:") || strings.Contains(f.Message, "jsonschema") {
		t.Errorf("%s: message %q", f.Rule, f.Message)
	}
	if f.Rule == "" || f.Severity == finding.Off || f.Line < 1 || f.Col < 1 {
		t.Errorf("incomplete finding %+v", f)
	}
}
