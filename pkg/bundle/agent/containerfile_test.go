package agent

import (
	"encoding/json"
	"strings"
	"testing"
)

// words reads one line of a Containerfile as a builder does (Dockerfile
// reference): inside double quotes a backslash takes the special meaning from
// the next of " \ $, and a $ that is left would be a variable.
func words(t testing.TB, line string) (out []string) {
	t.Helper()
	var word strings.Builder
	quoted, any := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted, any = !quoted, true
		case c == '\\':
			if i++; i == len(line) || !strings.ContainsRune(`"\$`, rune(line[i])) {
				t.Fatalf("a backslash before something else in %q", line)
			}
			word.WriteByte(line[i])
		case c == '$':
			t.Fatalf("a variable in %q", line)
		case !quoted && (c == ' ' || c == '\t'):
			if any || word.Len() > 0 {
				out = append(out, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteByte(c)
		}
	}
	if quoted {
		t.Fatalf("an open quote in %q", line)
	}
	return append(out, word.String())
}

func FuzzContainerfile(f *testing.F) {
	for _, v := range []string{"", "production", `$HOME ${X:-y} \$ \\ " '`, "a\tb ", "\\", `#`, "ü\u2028☃", "<<EOF", "`id`"} {
		f.Add(v, "bin/agent")
	}
	f.Add("x", `bin/a "b" \ü $X`)
	f.Fuzz(func(t *testing.T, value, entry string) {
		text, err := json.Marshal(map[string]any{"bundleVersion": "1", "name": "n", "version": "1.0.0", "entry": entry, "platform": "darwin", "arch": "arm64",
			"env": map[string]string{"KEY": value, "Z": value}})
		if err != nil {
			t.Fatal(err)
		}
		m, fs, _ := ParseManifest(text)
		if len(fs) > 0 {
			return
		}
		lines := strings.Split(string(m.Containerfile("base:1")), "\n")
		if len(lines) != 6 || lines[0] != "FROM base:1" || lines[1] != "COPY agent/ /holon/agent/" || lines[5] != "" {
			t.Fatalf("lines %q", lines)
		}
		for i, key := range []string{"KEY", "Z"} {
			w := words(t, lines[2+i])
			if len(w) != 2 || w[0] != "ENV" || w[1] != key+"="+m.Env[key] {
				t.Errorf("%q reads as %q, want %q", lines[2+i], w, m.Env[key])
			}
		}
		var argv []string
		form, ok := strings.CutPrefix(lines[4], "ENTRYPOINT ")
		if err := json.Unmarshal([]byte(form), &argv); !ok || err != nil || len(argv) != 1 || argv[0] != Root+"/"+m.Entry {
			t.Errorf("%q reads as %q (%v)", lines[4], argv, err)
		}
	})
}

func TestCheckBase(t *testing.T) {
	pin := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for base, want := range map[string]string{
		"node:20" + pin: "", "ghcr.io/a/b" + pin: "", "localhost:5000/a:1": noteBaseNotPinned, "node@sha256:0123": noteBaseNotPinned, "scratch": noteBaseNotPinned,
		"": "error", "-x": "error", "--platform=x y": "error", "a b": "error", "a\nRUN x": "error", "$X": "error", `a\`: "error", "a#b": "error", "ü": "error",
	} {
		notes, err := CheckBase(base)
		got := ""
		if err != nil {
			got = "error"
		} else if len(notes) > 0 {
			got = notes[0].Code
		}
		if got != want {
			t.Errorf("%q: %s, want %s", base, got, want)
		}
	}
}
