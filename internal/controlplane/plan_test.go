package controlplane

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/corpus"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/pgtest"
)

// asking are the filters of questions, with the columns that decide them.
var asking = map[string][]string{
	"to": {"to_rig", "rig"}, "from": {"from_rig", "pushed_by", "pusher", "rig"}, "type": {"message_type"},
	"since": {"commit_time", "created_at", "at", "last_time", "day"}, "until": {"commit_time", "created_at", "at", "last_time", "day"},
}

// filtered gives fn every question with none of the filters that it takes, with each, and with
// each two, and the values of its parameters.
func filtered(postgres bool, fn func(q Query, by []string, values map[string]any)) {
	for _, q := range Queries() {
		sets := [][]string{nil}
		for _, one := range slices.Sorted(maps.Keys(asking)) {
			if !q.Asks(one) {
				continue
			}
			for _, set := range sets {
				if len(set) < 2 {
					sets = append(sets, append(slices.Clone(set), one))
				}
			}
		}
		for _, by := range sets {
			values := Parameters{Words: ParseWords([]string{"build"}), Now: corpus.Start, Hash: hash("x"), Limit: 10}.values(postgres, 1)
			for _, one := range by {
				values[one] = map[string]string{"to": "rig-b", "from": "rig-b", "type": "RESOLUTION", "since": "2026-01-05T00:00:00Z", "until": "2026-01-06T00:00:00Z"}[one]
			}
			if q.Name == "idle" || !q.Paged() && q.fold != nil {
				values["since"] = "2026-01-05T00:00:00Z"
			}
			fn(q, by, values)
		}
	}
}

// TestPlans wants every question to go along an index that leaves out what the answer does not
// need: none reads all rows of a table or of a repository, those with a time come in its order,
// so that a limit ends them early, and each filter is decided in the index, however few rows it
// leaves.
func TestPlans(t *testing.T) {
	db := open(t, parse(t, t.TempDir()+"/control.db"))
	ctx := t.Context()
	ordered := []string{"rigward_open_rig", "bridge_messages_relays", "bridge_messages_unverified", "rigward_pushes_shown", "rigward_pushes_refused", "rigward_refused_time", "bridge_messages_time", "rigward_days", "rigward_push_days", "rigward_turns_rig", "rigward_turns_last_time", "rigward_backlog", "bridge_message_events_acked"}
	indexes := map[string][]string{}
	err := each(ctx, db.conn, "SELECT i.name, c.name FROM sqlite_master m, pragma_index_list(m.name) i, pragma_index_info(i.name) c WHERE m.type = 'table'", nil, func(r rows) error {
		var index, column string
		err := r.Scan(&index, &column)
		indexes[index] = append(indexes[index], column)
		return err
	})
	if err != nil || len(indexes) < 20 {
		t.Fatalf("%v: %v", err, indexes)
	}
	used := regexp.MustCompile(`^SEARCH \w+ USING (?:COVERING )?INDEX (\w+) `)
	ofMany := regexp.MustCompile(`bridge_messages_(to|from|between|type|time) `)
	asked := 0
	filtered(false, func(q Query, by []string, values map[string]any) {
		asked++
		statement, names := numbered(settled(q.asked(values).text(false, ""), values))
		var args []any
		for _, name := range names {
			args = append(args, values[name])
		}
		var plan []string
		err := each(ctx, db.conn, "EXPLAIN QUERY PLAN "+statement, args, func(r rows) error {
			var id, parent, unused int
			var detail string
			err := r.Scan(&id, &parent, &unused, &detail)
			plan = append(plan, detail)
			return err
		})
		of := func(step string) bool { return step == "CO-ROUTINE g" || step == "SCAN g" } // what the statement itself has counted
		if plan = slices.DeleteFunc(plan, of); err != nil || len(plan) == 0 {
			t.Fatalf("%s: %v, %v", q.Name, plan, err)
		}
		for i, step := range plan {
			if (i > 0 || q.Takes != Nothing) && ofMany.MatchString(step) {
				t.Errorf("%s %s looks at all that a rig wrote or got, or that is of a type:\n%s", q.Name, by, strings.Join(plan, "\n"))
			}
			whole := strings.Contains(step, "(repo_id=?") && !slices.ContainsFunc(ordered, func(index string) bool { return strings.Contains(step, index) })
			if whole || strings.HasPrefix(step, "SCAN ") && !strings.Contains(step, "VIRTUAL TABLE INDEX 0:M") {
				t.Errorf("%s %s reads too much: %s\n%s", q.Name, by, step, strings.Join(plan, "\n"))
			}
			if step == "USE TEMP B-TREE FOR ORDER BY" && q.Takes == Nothing && q.Paged() { // what is found by words is sorted
				t.Errorf("%s %s sorts all: \n%s", q.Name, by, strings.Join(plan, "\n"))
			}
		}
		if q.Takes != Nothing || q.Name == "refused" { // those are found by what is asked; these are few
			return
		}
		found := used.FindStringSubmatch(plan[0])
		for _, filter := range by {
			if found == nil || !slices.ContainsFunc(asking[filter], func(column string) bool { return slices.Contains(indexes[found[1]], column) }) {
				t.Errorf("%s %s reads rows to find out what is %s: %s", q.Name, by, filter, plan[0])
			}
		}
	})
	t.Logf("%d plans", asked)
}

// TestFewOfARig wants a question about one kind of messages to go along those of a rig, between
// two or of a type where these are few, and along those of the kind where they are many.
func TestFewOfARig(t *testing.T) {
	db := open(t, parse(t, t.TempDir()+"/control.db"))
	fill(t, db, "team", 2*few)
	for _, name := range []string{"unverified", "relays", "messages"} {
		q, _ := Question(name)
		// Much is to rig-a and much is from it, and nothing both.
		for filter, rigs := range map[string][2]string{"to": {"rig-b", "rig-none"}, "from": {"rig-a", "rig-none"}, "type": {"STATE", "RESOLUTION"}, "between": {"rig-b", "rig-a"}} {
			for i, value := range rigs {
				values := Parameters{Limit: 10}.values(false, 1)
				if values[filter] = value; filter == "between" {
					values["to"], values["from"] = value, "rig-a"
				}
				if name == "messages" && (filter != "between" || i == 0) { // those of one have an index of their own
					continue
				}
				u, err := db.unhinted(t.Context(), q, values)
				if alone := u != nil; err != nil || alone != (i == 1) {
					t.Errorf("%s --%s %s: %v, %v", name, filter, value, alone, err)
				}
				if u == nil {
					continue
				}
				statement, names := numbered(settled(u.text(false, ""), values))
				var args []any
				for _, name := range names {
					args = append(args, values[name])
				}
				plan := ""
				err = each(t.Context(), db.conn, "EXPLAIN QUERY PLAN "+statement, args, func(r rows) error {
					var id, parent, unused int
					var detail string
					err := r.Scan(&id, &parent, &unused, &detail)
					plan += detail + "\n"
					return err
				})
				if err != nil || !strings.HasPrefix(plan, "SEARCH m USING INDEX bridge_messages_"+filter+" ") {
					t.Errorf("%s --%s %s: %v\n%s", name, filter, value, err, plan)
				}
			}
		}
	}
}

// TestBetween wants PostgreSQL to know how many messages are to one rig and from another: much is
// to rig-a and much is from it, and nothing both.
func TestBetween(t *testing.T) {
	where := parse(t, pgtest.Database(t))
	db := open(t, where)
	fill(t, db, "team", 2*few)
	name, _, _ := strings.Cut(strings.TrimPrefix(where.dsn, "postgres:///"), "?")
	pgtest.Query(t, name, "ANALYZE")
	for _, question := range []string{"messages", "unverified"} {
		q, _ := Question(question)
		values := Parameters{To: "rig-a", From: "rig-a", Limit: 10}.values(true, 1)
		statement, names := numbered(settled(q.text(true, ""), values))
		var args []any
		for _, name := range names {
			args = append(args, values[name])
		}
		plan := ""
		err := each(t.Context(), db.conn, "EXPLAIN "+statement, args, func(r rows) error {
			var line string
			err := r.Scan(&line)
			plan += line + "\n"
			return err
		})
		if err != nil || !strings.Contains(plan, "_to_rig_from_rig_repo_id_") {
			t.Errorf("%s: %v\n%s", question, err, plan)
		}
	}
}

// TestOtherWays asks what is found in one of two ways, by both: what waits by what is kept count of
// and by the threads, as they come and go; and what is to a rig and from another.
func TestOtherWays(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	line := tangled(t, r, 120, 5)
	lines := func(a Answer, keep func(row []any) bool) (all []string) {
		for _, row := range a.Rows {
			if keep(row) {
				all = append(all, fmt.Sprint(row))
			}
		}
		return all
	}
	every := func([]any) bool { return true }
	both(t, func(t *testing.T, target func() Target) {
		db := open(t, target())
		x := indexer(t, r, db)
		rows := map[string]int{}
		for _, at := range []int{20, 60, 119, 40, 119} { // of these, one takes back what was there
			r.SetRef("refs/heads/main", line[min(at, len(line)-1)])
			update(t, x)
			for _, to := range []string{"", "rig-a", "rig-b", "rig-none"} {
				for _, from := range []string{"", "rig-a", "rig-b", "rig-none"} {
					for _, kind := range []string{"", "STATE", "REQUEST", "none"} {
						p := Parameters{To: to, From: from, Type: kind}
						counted := lines(ask(t, db, "backlog", p), every)
						p.Since = time.Unix(0, 0).UTC()
						if scanned := lines(ask(t, db, "backlog", p), every); !slices.Equal(counted, scanned) {
							t.Errorf("after %d, backlog %+v: counted %v, scanned %v", at, p, counted, scanned)
						}
						rows["backlog"] += len(counted)
					}
					if to == "" || from == "" {
						continue
					}
					for name, column := range map[string]int{"unverified": 3, "relays": 3, "messages": 3} {
						got := lines(ask(t, db, name, Parameters{To: to, From: from}), every)
						want := lines(ask(t, db, name, Parameters{To: to}), func(row []any) bool { return row[column] == from })
						if !slices.Equal(got, want) {
							t.Errorf("after %d, %s to %s from %s: %v, expected %v", at, name, to, from, got, want)
						}
						rows[name] += len(got)
					}
				}
			}
		}
		for _, name := range []string{"backlog", "unverified", "messages"} {
			if rows[name] == 0 {
				t.Errorf("%s has no rows", name)
			}
		}
		t.Log(rows)
	})
}
