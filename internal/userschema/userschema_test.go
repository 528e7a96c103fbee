package userschema

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
)

func TestCompile(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{"E08 look-ahead", `{"properties":{"tldr":{"type":"string","pattern":"^(?!x)"}}}`, `property "tldr" has the pattern "^(?!x)"`},
		{"E08 look-behind in items", `{"properties":{"references":{"items":{"pattern":"(?<=a)b"}}}}`, `property "references" has the pattern "(?<=a)b"`},
		{"E08 back reference in allOf", `{"allOf":[{"properties":{"a":{"pattern":"(a)\\1"}}}]}`, `property "a"`},
		{"E08 ECMA escape", `{"properties":{"a":{"pattern":"\\cA"}}}`, `"\\cA"`},
		{"E08 repeat over 1000", `{"properties":{"a":{"pattern":"a{2000}"}}}`, `"a{2000}"`},
		{"E08 pattern of properties", `{"patternProperties":{"(?=a)":{}}}`, `"(?=a)"`},
		{"file reference", `{"$ref":"file:///etc/passwd"}`, `refers to "file:///etc/passwd"`},
		{"relative reference", `{"$id":"file:///etc/x","$ref":"passwd"}`, `refers to "file:///etc/passwd"`},
		{"http reference", `{"properties":{"a":{"$ref":"https://example.com/s.json"}}}`, `refers to "https://example.com/s.json"`},
		{"missing definition", `{"$ref":"#/$defs/none"}`, "can't be used"},
		{"wrong keyword value", `{"properties":{"a":{"type":"text"}}}`, `not a JSON Schema 2020-12 at "/properties/a/type"`},
		{"not JSON", `{`, "not valid JSON"},
		{"too large", `{"title":"` + strings.Repeat("x", MaxBytes) + `"}`, "at most 1048576"},
		{"good", `{"properties":{"pattern":{"type":"string"},"a":{"pattern":"^[a-z]+$","default":{"pattern":"(?!x)"}}}}`, ""},
		{"good reference", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Compile([]byte(c.schema))
			if c.want == "" {
				if err != nil || s == nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, expected it to name %s", err, c.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	const file = "---\nfrom: a\nto:\n  - b\n  - c\nn: 5\nnested:\n  - [1, {k: v}]\n---\n"
	for _, c := range []struct {
		name, schema, file string
		line, col          int
		say                string
	}{
		{"valid", `{"required":["from"]}`, file, 0, 0, ""},
		{"value", `{"properties":{"from":{"minLength":5}}}`, file, 2, 7, "minLength"},
		{"item", `{"properties":{"to":{"items":{"enum":["b"]}}}}`, file, 5, 5, "enum"},
		{"required", `{"required":["tldr"]}`, file, 9, 1, "required"},
		{"number", `{"properties":{"n":{"maximum":4}}}`, file, 6, 4, "maximum"},
		{"nested", `{"properties":{"nested":{"items":{"items":{"type":"integer"}}}}}`, file, 8, 9, "type"},
		{"NaN does not reach maximum", `{"properties":{"n":{"maximum":4}}}`, strings.Replace(file, "n: 5", "n: .nan", 1), 6, 4, "can't be judged"},
		{"infinity in a list", `{"properties":{"n":{"maximum":4}}}`, strings.Replace(file, "[1,", "[-.inf,", 1), 8, 6, "can't be judged"},
		{"a number out of range", `{"properties":{"n":{"maximum":4}}}`, strings.Replace(file, "n: 5", "n: 1e999999999", 1), 6, 4, "can't be judged"},
		{"a recursive schema", `{"$ref":"#"}`, file, 9, 1, "can't judge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Compile([]byte(c.schema))
			if c.name == "a recursive schema" && err != nil {
				return // refused as early as that
			}
			if err != nil {
				t.Fatal(err)
			}
			e, fs := envelope.Parse([]byte(c.file), envelope.Options{})
			if e == nil {
				t.Fatal(fs)
			}
			got := s.Check(e)
			if c.line == 0 {
				if len(got) != 0 {
					t.Errorf("findings %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Line != c.line || got[0].Col != c.col || !strings.Contains(got[0].Message, c.say) ||
				got[0].Rule != "envelope-schema" || got[0].Severity != finding.Error {
				t.Errorf("findings %+v, expected one at %d:%d that says %q", got, c.line, c.col, c.say)
			}
		})
	}
}
