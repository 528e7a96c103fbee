package ci

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// B11: the table names each event that it knows, and no other is known.
func TestTable(t *testing.T) {
	for _, event := range events() {
		if _, err := spanOf(event, "", "", nil); err == nil || strings.Contains(err.Error(), "does not say which commits") {
			t.Errorf("%s without a payload: %v", event, err)
		}
	}
	for _, event := range []string{"", "issues", "Push", "workflow_run"} {
		if _, err := spanOf(event, strings.Repeat("a", 40), "refs/heads/main", nil); err == nil {
			t.Errorf("%q is not an event of the table", event)
		}
	}
}

// A payload never makes an answer without commits of a known form.
func FuzzEventSpan(f *testing.F) {
	for _, name := range []string{"push", "push_deleted", "pull_request", "merge_group", "schedule", "release"} {
		data, err := os.ReadFile("../../action/testdata/events/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		text := strings.NewReplacer("@BASE@", strings.Repeat("a", 40), "@HEAD@", strings.Repeat("b", 40), "@ZERO@", strings.Repeat("0", 40)).Replace(string(data))
		f.Add(strings.SplitN(name, "_deleted", 2)[0], text)
	}
	f.Fuzz(func(t *testing.T, event, text string) {
		var payload map[string]any
		if json.Unmarshal([]byte(text), &payload) != nil {
			return
		}
		s, err := spanOf(event, strings.Repeat("c", 40), "refs/heads/main", payload)
		if err != nil {
			return
		}
		id := regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
		needBase := s.Kind == proposal || s.Kind == moved || s.Kind == deleted
		if needBase != id.MatchString(s.Base) || (s.Kind != deleted) != id.MatchString(s.Head) {
			t.Errorf("%s: %+v", event, s)
		}
	})
}
