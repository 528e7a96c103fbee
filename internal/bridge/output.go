package bridge

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
)

// schemaVersion of every JSON object.
const schemaVersion = "1.0"

// quote is finding.Quote under a short name: untrusted text in a sentence,
// at most 80 characters of it.
func quote(s string) string { return finding.QuoteMax(s, 80) }

// escape makes text of others safe for a terminal and a log, by the one
// definition of package finding; line ends and tabs stay.
func escape(s string) string { return finding.Text(s) }

// escapeLine is escape for text that must stay in its line.
func escapeLine(s string) string { return finding.Clean(s) }

// token is the value of a key=value pair in a text line: as it is if it is
// plain, else a JSON string, so that no value can forge a token or a line.
func token(s string) string {
	plain := s != "" && finding.Clean(s) == s
	for _, r := range s {
		plain = plain && r != '"' && r != '=' && r != utf8.RuneError && !unicode.IsSpace(r)
	}
	if plain {
		return s
	}
	q, err := finding.JSON(s)
	if err != nil {
		return `""`
	}
	return string(q)
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

// findingLine is the text form of a finding (docs/spec/client.md#results).
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
