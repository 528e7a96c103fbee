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

// A ref is guarded by its full name, so no other is taken for one.
func TestRefOfEvent(t *testing.T) {
	id := strings.Repeat("a", 40)
	for ref, ok := range map[string]bool{"refs/heads/main": true, "refs/tags/v1": true, "main": false, "": false, "refs/heads/m\x1b": false, "refs/heads/../main": false} {
		payload := map[string]any{"ref": ref, "before": id, "after": id, "merge_group": map[string]any{"base_sha": id, "head_sha": id, "base_ref": ref}}
		for _, event := range []string{"push", "merge_group", "workflow_dispatch", "schedule"} {
			if _, err := spanOf(event, id, ref, payload); (err == nil) != ok {
				t.Errorf("%s of %q: %v", event, ref, err)
			}
		}
		payload = map[string]any{"pull_request": map[string]any{"base": map[string]any{"ref": ref, "sha": id}, "head": map[string]any{"sha": id}}}
		if _, err := spanOf("pull_request", id, "", payload); err == nil && strings.ContainsAny(ref, "\x1b.") {
			t.Errorf("pull_request to %q is taken", ref)
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
