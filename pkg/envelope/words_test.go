package envelope_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
)

func TestRigIDVectors(t *testing.T) {
	var vectors []struct {
		ID         string
		Valid      bool
		Normalized *string `json:"ours_normalized"`
		Suggestion *string
	}
	readJSON(t, "rig_ids.json", &vectors)
	if len(vectors) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors {
		if got := envelope.ValidRigID(v.ID); got != v.Valid {
			t.Errorf("%q: valid %v", v.ID, got)
		}
		got, err := envelope.NormalizeRigID(v.ID)
		if (err == nil) != (v.Normalized != nil) || err == nil && got != *v.Normalized {
			t.Errorf("%q: normalised %q, %v", v.ID, got, err)
		}
	}
}

func TestRigIDProblems(t *testing.T) {
	for id, say := range map[string]string{
		"": "empty", "  ": "empty", "5080-win": `begins with '5'`, "-a": `begins with '-'`, "mac.m5": `U+002E "."`, "mäc": `U+00E4 "ä"`, "mac m5": "U+0020", "\u212Aelvin": "U+212A", "a\u202Eb": "U+202E", "a\x1bb": "U+001B", "İx": "U+0130",
	} {
		if _, err := envelope.NormalizeRigID(id); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v, expected it to say %s", id, err, say)
		}
	}
}

func TestStatusClassVectors(t *testing.T) {
	var vectors []struct {
		Status string
		Class  *string `json:"status_class"`
		OK     bool    `json:"schema_ok"`
	}
	readJSON(t, "status_class.json", &vectors)
	for _, v := range vectors {
		want := ""
		if v.Class != nil {
			want = *v.Class
		}
		if got := envelope.StatusClass(v.Status); got != want {
			t.Errorf("%q: class %q, expected %q", v.Status, got, want)
		}
		file, err := envelope.Render(envelope.Fields{Status: v.Status, From: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if e, _ := envelope.Parse(file, envelope.Options{}); e.Conforms("status") != v.OK {
			t.Errorf("%q: conforms %v, expected %v", v.Status, !v.OK, v.OK)
		}
	}
}

func FuzzStatusClass(f *testing.F) {
	for _, s := range []string{"▶ x", " ▶\ufe0f", "\u0085▶", "\ufeff\u3000✅", "", "🎯", "\xe2\x96", "►"} {
		f.Add(s)
	}
	classes := map[string]string{"▶": "active", "⏸": "pending", "🎯": "targeted", "✅": "completed", "❌": "cancelled"}
	space := regexp.MustCompile("^[\\t\\n\\v\\f\\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]*")
	f.Fuzz(func(t *testing.T, s string) {
		rest := s[len(space.FindString(s)):]
		want := ""
		for marker, class := range classes {
			if strings.HasPrefix(rest, marker) {
				want = class
			}
		}
		if got := envelope.StatusClass(s); got != want {
			t.Errorf("%q: %q, expected %q", s, got, want)
		}
	})
}

func TestParseTime(t *testing.T) {
	for s, want := range map[string]string{
		"2026-05-15":                            "2026-05-15T00:00:00Z",
		"2026-05-15T10:30:00":                   "2026-05-15T10:30:00Z",
		"2026-05-15T10:30:00Z":                  "2026-05-15T10:30:00Z",
		"2026-05-15T10:30:00.5+02:00":           "2026-05-15T08:30:00.5Z",
		"2026-05-15T10:30:00-0530":              "2026-05-15T16:00:00Z",
		"2026-05-15T10:30:00.1234567899Z":       "2026-05-15T10:30:00.123456789Z",
		"2026-05-15T10:30:00-00:00":             "2026-05-15T10:30:00Z",
		"0001-01-01T00:00:00+23:59":             "0000-12-31T00:01:00Z",
		"2024-02-29":                            "2024-02-29T00:00:00Z",
		"9999-12-31T23:59:59.99999999999999999": "9999-12-31T23:59:59.999999999Z",
	} {
		got, dayOnly, err := envelope.ParseTime(s)
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want || dayOnly != (len(s) == 10) {
			t.Errorf("%s: %v %v %v", s, got.UTC(), dayOnly, err)
		}
	}
	for _, s := range []string{"", "2026", "2026-5-15", "2026-05-15T", "2026-05-15T10:30", "2026-05-15t10:30:00", "2026-05-15T10:30:00z", "2026-05-15T10:30:00.", "2026-05-15T10:30:00+2:00", "2026-05-15T10:30:00+02", "2026-05-15T10:30:00Z ", "2026-05-15\n", " 2026-05-15", "2026-02-30", "+2026-05-15", "2026-05-15T10:30:00Z+02:00", "２026-05-15"} {
		if got, _, err := envelope.ParseTime(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

var datePattern = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?)?$`)

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-05-15", "2026-05-15T10:30:00.5+02:00", "2024-02-29T23:59:59-2359", "2026-13-01", "0000-01-01", "2026-05-15T10:30:00Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, dayOnly, err := envelope.ParseTime(s)
		if err == nil && !datePattern.MatchString(s) {
			t.Fatalf("%q is not of the form", s)
		}
		if !datePattern.MatchString(s) {
			return
		}
		// Go's own parser as the judge of what is real.
		layout, text := time.DateOnly, s
		if len(s) > 10 {
			layout = "2006-01-02T15:04:05"
			if len(s) > 19 && s[19] == '.' {
				end := 20
				for end < len(s) && '0' <= s[end] && s[end] <= '9' {
					end++
				}
				text = s[:min(end, 29)] + s[end:]
			}
			switch rest := text[len(text)-min(len(text)-19, 6):]; {
			case strings.HasSuffix(text, "Z"):
				layout += "Z07:00"
			case strings.Contains(rest, "+") || strings.Contains(rest, "-"):
				layout += "-0700"
				if text[len(text)-3] == ':' {
					layout = "2006-01-02T15:04:05-07:00"
				}
			}
		}
		want, wantErr := time.Parse(layout, text)
		if wantErr == nil && s[:4] == "0000" {
			return // Go knows a year 0
		}
		if (err == nil) != (wantErr == nil) {
			if wantErr == nil || !strings.Contains(err.Error(), "zone") {
				// Go takes hour 24 of a zone, and no other.
				if strings.Contains(text, "+24") || strings.Contains(text, "-24") {
					return
				}
				t.Fatalf("%q: %v, Go says %v", s, err, wantErr)
			}
			return
		}
		if err == nil && (!got.Equal(want) || dayOnly != (len(s) == 10)) {
			t.Errorf("%q: %v, expected %v", s, got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, data := range corpus(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, fs := judge(data, envelope.Options{Path: "t-one/x.md", Mode: 0o100644})
		if e == nil && len(fs) != 1 {
			t.Fatalf("%d findings of a file that does not parse", len(fs))
		}
		lines := 1 + strings.Count(strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n"), "\n")
		for i, f := range fs {
			checkFinding(t, f)
			if f.Line > max(lines, 2) {
				t.Errorf("line %d of %d: %+v", f.Line, lines, f)
			}
			if i > 0 && (fs[i-1].Line > f.Line || fs[i-1].Line == f.Line && fs[i-1].Col > f.Col) {
				t.Error("not sorted")
			}
		}
		if e == nil {
			return
		}
		if _, err := e.Frontmatter.MarshalJSON(); err != nil {
			t.Error(err)
		}
		if !envelope.HasFence(data) {
			t.Error("parsed without a fence")
		}
		if e.Hash != envelope.BodyHash(envelope.NormalizeBody(e.Body)) {
			t.Error("hash")
		}
	})
}
