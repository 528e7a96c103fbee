package action

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rigward/rigward/internal/report"
)

// G12: no expression is expanded in a shell, and every action is pinned.
func TestDefinition(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	type steps []struct {
		Uses, Run, Shell string
		Env              map[string]string
	}
	var def struct {
		Inputs map[string]struct{ Description string }
		Runs   struct {
			Using string
			Steps steps
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "../action.yml")), &def); err != nil {
		t.Fatal(err)
	}
	if def.Runs.Using != "composite" {
		t.Errorf("the action runs by %q", def.Runs.Using)
	}
	all := def.Runs.Steps
	passed := map[string]bool{}
	for _, s := range def.Runs.Steps {
		for _, v := range s.Env {
			passed[v] = true
		}
	}
	for name := range def.Inputs {
		if !passed["${{ inputs."+name+" }}"] {
			t.Errorf("the input %s reaches no step by env", name)
		}
	}
	if list := "Formats: " + strings.Join(report.Formats(), ", ") + "."; !strings.Contains(def.Inputs["formats"].Description, list) {
		t.Errorf("the input formats does not say %q", list)
	}
	for _, f := range files {
		var w struct {
			Permissions any
			Jobs        map[string]struct{ Steps steps }
		}
		if err := yaml.Unmarshal([]byte(read(t, f)), &w); err != nil {
			t.Fatal(f, err)
		}
		// G10: nothing but the contents, and those to read.
		if p, _ := w.Permissions.(map[string]any); len(p) != 1 || p["contents"] != "read" {
			t.Errorf("%s: permissions %v, expected contents: read", f, w.Permissions)
		}
		for _, j := range w.Jobs {
			all = append(all, j.Steps...)
		}
	}
	// G15: what runs is built from the action's own commit, or has a digest that is
	// in that commit (TestProgram): no step but that one fetches anything.
	built := false
	for _, s := range def.Runs.Steps {
		if regexp.MustCompile(`\b(curl|wget|gh|docker|npx?|go (install|run|get))\b`).MatchString(s.Run) {
			t.Errorf("a step fetches: %q", s.Run)
		}
		built = built || strings.Contains(s.Run, `go build -C "$GITHUB_ACTION_PATH"`)
	}
	if !built {
		t.Error("no step builds the action from its own checkout")
	}
	pin := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40}$`)
	for _, s := range all {
		if strings.Contains(s.Run, "${{") {
			t.Errorf("an expression in a shell: %q", s.Run)
		}
		if s.Uses != "" && s.Uses != "./" && !pin.MatchString(s.Uses) {
			t.Errorf("%s is not pinned by a commit", s.Uses)
		}
	}
}

// actionlint has nothing to say of our workflows.
func TestActionlint(t *testing.T) {
	cmd := exec.Command("go", "tool", "-modfile=internal/tools/go.mod", "actionlint", "-no-color", "-shellcheck=", "-pyflakes=")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// G13: the matcher is in the action's directory and reads our lines.
func TestMatcher(t *testing.T) {
	var m struct {
		ProblemMatcher []struct {
			Pattern []struct{ Regexp string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "matcher.json")), &m); err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile(m.ProblemMatcher[0].Pattern[0].Regexp)
	for line, want := range map[string]string{
		`talk/STATE.md:6:7: error: type is "ORDER", expected one of REQUEST [envelope-schema]`: "talk/STATE.md 6 7 error envelope-schema",
		`"a\nb.md": warning: no body_hash [body-hash]`:                                         `"a\nb.md"   warning body-hash`,
	} {
		got := re.FindStringSubmatch(line)
		if got == nil {
			t.Errorf("no match: %s", line)
			continue
		}
		if s := strings.Join([]string{got[1], got[2], got[3], got[4], got[6]}, " "); s != want {
			t.Errorf("%q, expected %q", s, want)
		}
	}
	for _, line := range []string{"check: refused, 1 error: 1 commit, 1 envelope checked", "\x1b[31mtalk/STATE.md:6:7: error: x\x1b[0m"} {
		if re.MatchString(line) {
			t.Errorf("a match: %q", line)
		}
	}
}
