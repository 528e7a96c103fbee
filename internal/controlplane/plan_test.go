package controlplane

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestPlans wants every question to go along an index that leaves out what the
// answer does not need: none reads all rows of a table or of a repository, and
// those with a time come in its order, so that a limit ends them early.
func TestPlans(t *testing.T) {
	db := open(t, parse(t, t.TempDir()+"/control.db"))
	ordered := []string{"rigward_threads_last_time", "bridge_messages_relays", "bridge_messages_unverified", "rigward_pushes_at", "rigward_refused_time", "bridge_messages_time", "rigward_days", "rigward_turns_rig", "rigward_turns_last_time", "bridge_message_events_acked"}
	type asked struct {
		Query
		to string
	}
	var all []asked
	for _, q := range Queries() {
		all = append(all, asked{q, ""}, asked{q, "rig-b"})
	}
	for _, q := range all {
		text := settled(q.text(false, ""), map[string]any{"to": q.to, "from": "", "type": "", "since": "", "until": ""})
		statement, names := numbered(text)
		args := make([]any, len(names))
		for i := range args {
			args[i] = map[string]any{"words": "\"build\"", "refused": "", "limit": 10, "repo": 1}[names[i]]
			if args[i] == nil {
				args[i] = ""
			}
		}
		var plan []string
		err := each(context.Background(), db.conn, "EXPLAIN QUERY PLAN "+statement, args, func(r rows) error {
			var id, parent, unused int
			var detail string
			err := r.Scan(&id, &parent, &unused, &detail)
			plan = append(plan, detail)
			return err
		})
		if err != nil || len(plan) == 0 {
			t.Fatalf("%s: %v, %v", q.Name, plan, err)
		}
		for _, step := range plan {
			whole := strings.Contains(step, "(repo_id=?") && !slices.ContainsFunc(ordered, func(index string) bool { return strings.Contains(step, index) })
			if whole || strings.HasPrefix(step, "SCAN ") && !strings.Contains(step, "VIRTUAL TABLE INDEX 0:M") {
				t.Errorf("%s %s reads too much: %s\n%s", q.Name, q.to, step, strings.Join(plan, "\n"))
			}
			if step == "USE TEMP B-TREE FOR ORDER BY" && q.Takes == Nothing && q.Paged() { // what is found by words is sorted
				t.Errorf("%s %s sorts all: \n%s", q.Name, q.to, strings.Join(plan, "\n"))
			}
		}
	}
}
