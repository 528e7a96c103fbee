package report

import (
	"encoding/json"
	"io"

	"github.com/rigward/rigward/pkg/finding"
)

// schemaVersion is the version of the JSON objects; keys may be added to them
// without changing it.
const schemaVersion = "1.0"

type jsonFinding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"`
	Col      int    `json:"col,omitempty"`
	Commit   string `json:"commit,omitempty"`
	Ref      string `json:"ref,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

type jsonChecked struct {
	Commits   int `json:"commits"`
	Envelopes int `json:"envelopes"`
	Refs      int `json:"refs"`
}

type jsonProblem struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

type jsonReport struct {
	SchemaVersion string        `json:"schema_version"`
	Gate          string        `json:"gate"`
	Result        string        `json:"result"` // clean, findings, undecided
	Exit          int           `json:"exit"`
	Checked       jsonChecked   `json:"checked"`
	Errors        int           `json:"errors"`
	Warnings      int           `json:"warnings"`
	Findings      []jsonFinding `json:"findings"`
	Unlisted      int           `json:"unlisted,omitempty"` // findings that are in errors and warnings only
	Problem       *jsonProblem  `json:"problem,omitempty"`
	Notes         []string      `json:"notes,omitempty"`
	Threads       []Thread      `json:"threads,omitempty"`
	Bundles       []Bundle      `json:"bundles,omitempty"`
}

func toJSON(f finding.Finding) jsonFinding {
	return jsonFinding{
		Rule: f.Rule, Severity: f.Severity.String(), Path: f.Path, Line: f.Line, Col: f.Col,
		Commit: f.Commit, Ref: f.Ref, Message: f.Message, Hint: f.Hint,
	}
}

func (r *Report) object() jsonReport {
	o := jsonReport{
		SchemaVersion: schemaVersion, Gate: r.Gate, Result: r.result(), Exit: r.ExitCode(),
		Checked: jsonChecked{r.Commits, r.Envelopes, r.Refs},
		Errors:  r.count(finding.Error), Warnings: r.count(finding.Warning),
		Findings: []jsonFinding{}, Notes: r.notes(), Unlisted: r.More.Total(), Threads: r.Threads, Bundles: r.Bundles,
	}
	for _, f := range r.Findings {
		o.Findings = append(o.Findings, toJSON(f))
	}
	if r.Problem != nil {
		o.Problem = &jsonProblem{Message: r.Problem.Error(), Hint: r.Hint}
	}
	return o
}

// encode writes v as one line. Go's encoder escapes C0, U+2028, U+2029 and
// replaces invalid UTF-8; DEL, C1 and bidi controls are escaped here, so that
// a terminal shows what a program would read.
func encode(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(finding.EscapeJSON(data), '\n'))
	return err
}

func writeJSON(w io.Writer, r *Report) error { return encode(w, r.object()) }

// writeJSONLines writes one finding a line and the report without findings,
// marked by its "result" key, as the last line.
func writeJSONLines(w io.Writer, r *Report) error {
	for _, f := range r.Findings {
		if err := encode(w, toJSON(f)); err != nil {
			return err
		}
	}
	o := r.object()
	type tail struct {
		jsonReport
		Findings int `json:"findings"`
	}
	return encode(w, tail{o, len(r.Findings)})
}
