package envelope_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/relay"
)

const vectorDir = "../../testdata/envelopes"

// readJSON decodes a JSON file, numbers as they stand there.
func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectorDir, name))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// judge returns all that content alone shows, sorted.
func judge(data []byte, o envelope.Options) (*envelope.Envelope, []finding.Finding) {
	e, fs := envelope.Parse(data, o)
	if e != nil {
		fs = append(fs, relay.CheckContent(e)...)
		finding.Sort(fs)
	}
	return e, fs
}

type vector struct {
	File        string
	Description string
	Ours        string
	Rule        string
	Rules       []string
	Line, Col   int
	Warnings    []string
	BodyHash    *string `json:"body_hash"`
	StatusClass *string `json:"status_class"`
	Frontmatter any
	Body        any
}

func TestVectors(t *testing.T) {
	var vectors []vector
	readJSON(t, "verdicts.json", &vectors)
	if len(vectors) != 326 {
		t.Fatalf("%d vectors, expected 326", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.File, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(vectorDir, v.File))
			if err != nil {
				t.Fatal(err)
			}
			e, fs := judge(data, envelope.Options{})
			var errors, warnings []string
			var first *finding.Finding
			for i, f := range fs {
				switch f.Severity {
				case finding.Error:
					if first == nil {
						first = &fs[i]
					}
					errors = append(errors, f.Rule)
				case finding.Warning:
					warnings = append(warnings, f.Rule)
				}
				checkFinding(t, f)
			}
			distinct := func(s []string) []string { slices.Sort(s); return slices.Compact(s) }
			slices.Sort(v.Rules)
			slices.Sort(v.Warnings)
			if got := distinct(errors); !slices.Equal(got, v.Rules) {
				t.Errorf("%s: rules %v, expected %v; findings %+v", v.Description, got, v.Rules, fs)
			}
			if got := distinct(warnings); !slices.Equal(got, v.Warnings) {
				t.Errorf("%s: warnings %v, expected %v", v.Description, got, v.Warnings)
			}
			if (first == nil) != (v.Ours == "accept") {
				t.Fatalf("%s: expected %s, findings %+v", v.Description, v.Ours, fs)
			}
			if first != nil {
				if first.Rule != v.Rule || v.Line != 0 && (first.Line != v.Line || first.Col != v.Col) {
					t.Errorf("%s: first is %s at %d:%d, expected %s at %d:%d", v.Description, first.Rule, first.Line, first.Col, v.Rule, v.Line, v.Col)
				}
				return
			}
			if v.BodyHash == nil || e.Hash != *v.BodyHash {
				t.Errorf("hash %s, expected %v", e.Hash, v.BodyHash)
			}
			if got := envelope.StatusClass(e.Status); v.StatusClass == nil || got != *v.StatusClass {
				t.Errorf("class %q, expected %v", got, v.StatusClass)
			}
			if body, ok := v.Body.(string); ok && body != string(e.Body) {
				t.Logf("body %.80q, the reference's %.80q", e.Body, body)
			}
			if got := generic(t, e); !reflect.DeepEqual(got, v.Frontmatter) {
				t.Errorf("front matter %v, expected %v", got, v.Frontmatter)
			}
		})
	}
}

func generic(t testing.TB, e *envelope.Envelope) (v any) {
	t.Helper()
	data, err := json.Marshal(e.Frontmatter)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
