package userschema

import (
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
)

// FuzzCompile: a schema is refused with a reason, or judges an envelope; both
// the same way again.
func FuzzCompile(f *testing.F) {
	for _, doc := range []string{
		`{"properties": {"tldr": {"pattern": "^[a-z]"}}, "required": ["tldr"]}`,
		`{"properties": {"tldr": {"pattern": "(?!x)"}}}`,
		`{"$ref": "https://example.com/other.json"}`,
		`{"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}`,
		`{"type": "object", "additionalProperties": {"maxLength": 1}}`,
		`true`, `{"$schema": 1}`, `[`,
	} {
		f.Add([]byte(doc))
	}
	e, _ := envelope.Parse([]byte("---\nfrom: rig-a\nto: [rig-b, rig-c]\ndate: 2026-01-05\nstatus: ▶ x\ntype: STATE\nthread: talk\ntldr: short\n---\nx\n"), envelope.Options{})
	f.Fuzz(func(t *testing.T, doc []byte) {
		s, err := Compile(doc)
		again, err2 := Compile(doc)
		if (s == nil) != (err != nil) || (err == nil) != (err2 == nil) {
			t.Fatalf("%v, and again %v", err, err2)
		}
		if err != nil {
			return
		}
		if a, b := s.Check(e), again.Check(e); len(a) != len(b) {
			t.Errorf("%v, and again %v", a, b)
		}
	})
}
