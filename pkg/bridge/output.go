package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
)

// schemaVersion of every JSON object.
const schemaVersion = "1.0"

// quote is finding.Quote under a short name: untrusted text in a sentence,
// at most 80 characters of it.
func quote(s string) string { return finding.QuoteMax(s, 80) }

// hostile tells whether r could forge a line, act on a terminal or reorder
// text: C0 but LF and TAB, DEL, C1, line separators, bidi controls.
func hostile(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r == 0xfeff:
		return true
	case r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// escape makes text safe for a terminal and a log: hostile characters and
// invalid UTF-8 become \xNN or \uNNNN (spec/cli.md section 2).
func escape(s string) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || hostile(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hostile(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case hostile(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// escapeLine is escape for text that must stay in its line.
func escapeLine(s string) string {
	s = escape(s)
	if strings.ContainsAny(s, "\n\t") {
		s = strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(s)
	}
	return s
}

// token is the value of a key=value pair in a text line: as it is if it is
// plain, else a JSON string, so that no value can forge a token or a line.
func token(s string) string {
	plain := s != "" && utf8.ValidString(s)
	for _, r := range s {
		if r <= ' ' || r == '"' || r == '=' || r == 0x7f || hostile(r) || r >= 0x80 && !strconv.IsPrint(r) {
			plain = false
		}
	}
	if plain {
		return s
	}
	q, err := marshal(s)
	if err != nil {
		return `""`
	}
	return string(q)
}

// marshal is JSON on one line, without HTML escapes, with every hostile
// character as \u.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return escapeJSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// escapeJSON replaces hostile characters in JSON text; they can only stand in
// strings there.
func escapeJSON(data []byte) []byte {
	clean := true
	for i := 0; i < len(data); i++ {
		if data[i] >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return data
	}
	out := make([]byte, 0, len(data)+16)
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if hostile(r) {
			out = append(out, `\u`...)
			h := strconv.FormatInt(int64(r), 16)
			out = append(out, "0000"[len(h):]...)
			out = append(out, h...)
		} else {
			out = append(out, data[i:i+n]...)
		}
		i += n
	}
	return out
}

// jsonFinding is a finding as JSON objects show it.
type jsonFinding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line"`
	Col      int    `json:"col"`
	Commit   string `json:"commit,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

func jsonFindings(fs []finding.Finding) []jsonFinding {
	out := make([]jsonFinding, len(fs))
	for i, f := range fs {
		out[i] = jsonFinding{f.Rule, f.Severity.String(), f.Path, f.Line, f.Col, f.Commit, f.Message, f.Hint}
	}
	return out
}

// findingLine is the text form of a finding (spec/cli.md section 6).
func findingLine(f finding.Finding) string {
	return fmt.Sprintf("%s:%d:%d: %s: %s [%s]", finding.Path(f.Path), f.Line, f.Col, f.Severity, f.Message, f.Rule)
}

type jsonError struct {
	SchemaVersion string    `json:"schema_version"`
	Op            string    `json:"op"`
	Error         errorBody `json:"error"`
}

type errorBody struct {
	Code     string        `json:"code"`
	Message  string        `json:"message"`
	Hint     string        `json:"hint,omitempty"`
	Findings []jsonFinding `json:"findings,omitempty"`
}

// head is what every object begins with.
type head struct {
	SchemaVersion string `json:"schema_version"`
	Op            string `json:"op"`
}
