package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/envelope"
)

// tangled makes a history of n commits: threads in which rigs speak on
// branches that are merged now and then, with ACKs of all kinds, freezes,
// resolutions and what came late. It returns the commits on the first-parent
// line of main.
func tangled(t testing.TB, r *gittest.Repo, n int, seed uint64) []string {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	var out bytes.Buffer
	marks := 0
	type file struct {
		path string
		mark int
	}
	type branch struct {
		tip   int
		files []file
	}
	var branches []*branch
	type said struct {
		hash string
		from string
	}
	threads := map[string][]said{}
	when := int64(gittest.Epoch)
	main, inMain := &branch{}, map[file]bool{}
	commit := func(b *branch, parents []int, files []file, name string) {
		marks++
		if seed >= 1000 && seed%4 >= 2 { // many in one second
			when += rnd.Int64N(4) - 1
		} else { // clocks differ a little
			when += rnd.Int64N(40) - 3
		}
		fmt.Fprintf(&out, "commit %s\nmark :%d\ncommitter T <t@example.com> %d +0000\ndata 1\nx\n", name, marks, when)
		for i, p := range parents {
			fmt.Fprintf(&out, "%s :%d\n", []string{"from", "merge"}[min(i, 1)], p)
		}
		for _, f := range files {
			fmt.Fprintf(&out, "M 100644 :%d %s\n", f.mark, f.path)
		}
		out.WriteByte('\n')
		b.tip = marks
		b.files = append(b.files, files...)
		if b == main {
			for _, f := range files {
				inMain[f] = true
			}
		}
	}
	blob := func(data string) int {
		marks++
		fmt.Fprintf(&out, "blob\nmark :%d\ndata %d\n%s\n", marks, len(data), data)
		return marks
	}
	branches = append(branches, main)
	commit(main, nil, []file{{".bridge/policy.yaml", blob("version: 1\nrules:\n  relay-frozen: error\n")}}, "refs/heads/main")
	rigs := []string{"rig-a", "rig-b", "rig-c"}
	line := []int{main.tip}
	for i := range n {
		b := branches[rnd.IntN(len(branches))]
		name := fmt.Sprintf("refs/gen/%d", slices.Index(branches, b))
		if b == main {
			name = "refs/heads/main"
		}
		switch {
		case rnd.IntN(12) == 0 && len(branches) < 4:
			branches = append(branches, &branch{b.tip, slices.Clone(b.files)})
			continue
		case rnd.IntN(10) == 0 && b != main && b.tip != main.tip:
			var missing []file
			for _, f := range b.files {
				if !inMain[f] {
					missing = append(missing, f)
				}
			}
			commit(main, []int{main.tip, b.tip}, missing, "refs/heads/main")
			line = append(line, main.tip)
			if rnd.IntN(2) == 0 {
				branches = slices.DeleteFunc(branches, func(x *branch) bool { return x == b })
			}
			continue
		}
		var files []file
		for k := range 1 + rnd.IntN(8)/7 {
			thread := fmt.Sprintf("thread-%d", rnd.IntN(1+n/12))
			from, to := rigs[rnd.IntN(3)], rigs[rnd.IntN(3)]
			if rnd.IntN(4) == 0 {
				to += "," + rigs[rnd.IntN(3)] + ",op-relay"
			}
			typ := []string{"REQUEST", "STATE", "ACK", "ACK", "RESPONSE", "ACK", "RESOLUTION", "HANDOFF"}[rnd.IntN(8)]
			if typ == "RESOLUTION" && rnd.IntN(3) > 0 {
				typ = "RESULT"
			}
			body := fmt.Sprintf("Turn %d %d", i, k)
			data := say(typ, thread, from, to, body, func(f *envelope.Fields) {
				before := threads[thread]
				if len(before) == 0 || rnd.IntN(2) == 0 {
					return
				}
				f.InReplyTo = before[rnd.IntN(len(before))].hash
				if typ == "ACK" && rnd.IntN(2) == 0 {
					f.From, f.Status, f.Nonce = "op-relay", "⏸ Wait", fmt.Sprintf("01ARZ3NDEKTSV4RR%010d", i)
					f.AttestedAt, f.AttestedBy = "2026-01-05T09:00:00.000Z", "SHA256:"+strings.Repeat("A", 43)
				}
			})
			threads[thread] = append(threads[thread], said{hash(body), from})
			files = append(files, file{fmt.Sprintf("%s/%s-%d-%d.md", thread, typ, i, k), blob(data)})
		}
		commit(b, []int{b.tip}, files, name)
		if b == main {
			line = append(line, main.tip)
		}
	}
	out.WriteString("done\n")
	marksFile := r.Dir + "/marks"
	r.RunIn(out.Bytes(), "fast-import", "--quiet", "--force", "--done", "--export-marks="+marksFile)
	data, err := os.ReadFile(marksFile)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for l := range strings.Lines(string(data)) {
		mark, id, _ := strings.Cut(strings.TrimSpace(l), " ")
		ids[mark] = id
	}
	var commits []string
	for _, m := range line {
		commits = append(commits, ids[fmt.Sprintf(":%d", m)])
	}
	return commits
}

// full reports whether the long form of a test is asked for: of 10,000 commits,
// or as many as the variable says.
func full() bool { return os.Getenv("RIGWARD_CONTROL_FULL") != "" }

// TestIncrementalIsRebuild reads tangled histories in portions, and at once,
// and wants the same rows and events.
func TestIncrementalIsRebuild(t *testing.T) {
	size, seeds := 150, 2
	if full() {
		size, seeds = 10_000, 1
		if n, err := strconv.Atoi(os.Getenv("RIGWARD_CONTROL_FULL")); err == nil && n > 1 {
			size = n
		}
	}
	for seed := range seeds {
		r := gittest.New(t, gittest.Options{Bare: true})
		line := tangled(t, r, size, uint64(seed))
		both(t, func(t *testing.T, target func() Target) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 2))
			portions := open(t, target())
			x := indexer(t, r, portions)
			x.caused = seed * 2 // of the second history, hardly anything at once
			portion := 0
			for at := 0; at < len(line); portion++ {
				at += 1 + rnd.IntN(1+len(line)/12)
				r.SetRef("refs/heads/main", line[min(at, len(line)-1)])
				x.Chunk = 1 + rnd.IntN(60+size/20)
				update(t, x)
			}
			t.Logf("%d portions are written", portion)
			whole := open(t, target())
			y := indexer(t, r, whole)
			y.caused = x.caused
			got := update(t, y)
			t.Log("the whole is written")
			same(t, portions, whole)
			if again := update(t, x); again != (Result{}) {
				t.Errorf("nothing changed, and %+v was done", again)
			}
			// A run that keeps less in memory reads it back.
			x.Chunk, x.remember = 1+size/20+rnd.IntN(30), 1+size/50+rnd.IntN(60)
			if _, err := x.Rebuild(context.Background()); err != nil {
				t.Fatal(err)
			}
			t.Log("the portions are written again")
			same(t, portions, whole)
			if !full() { // it is a rebuild, once more
				clean(t, x)
				forgetful := open(t, target())
				z := indexer(t, r, forgetful)
				z.Chunk, z.remember, z.caused = 1+rnd.IntN(30), 1+rnd.IntN(60), x.caused
				update(t, z)
				same(t, forgetful, whole)
			}
			kinds := map[string]int{}
			err := each(context.Background(), whole.conn, "SELECT event_type, count(*) FROM bridge_message_events GROUP BY event_type", nil, func(r rows) error {
				var kind string
				var n int
				err := r.Scan(&kind, &n)
				kinds[kind] = n
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"received", "acked", "resolved", "frozen", "diverged"} {
				if kinds[kind] == 0 {
					t.Errorf("the history has no %s event", kind)
				}
			}
			t.Logf("%d commits, %d messages: %v", got.Commits, got.Messages, kinds)
		})
	}
}

// TestRewritten takes commits away from the branch and gives them back.
func TestRewritten(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	line := tangled(t, r, 120, 7)
	both(t, func(t *testing.T, target func() Target) {
		db := open(t, target())
		x := indexer(t, r, db)
		x.Chunk = 10
		tip, before := line[len(line)-1], line[len(line)/2]
		r.SetRef("refs/heads/main", tip)
		update(t, x)
		r.SetRef("refs/heads/main", before)
		if got := update(t, x); got.Superseded == 0 {
			t.Errorf("%+v", got)
		}
		clean(t, x)
		gone, err := number(context.Background(), db.conn, "SELECT count(*) FROM bridge_messages WHERE lifecycle_state = 'superseded'")
		if err != nil || gone == 0 {
			t.Errorf("%d rows are superseded, %v", gone, err)
		}
		r.SetRef("refs/heads/main", tip)
		update(t, x)
		clean(t, x)
		whole := open(t, target())
		update(t, indexer(t, r, whole))
		hasRows(t, db, whole)
	})
}

// TestCheckFinds changes a database behind the program's back.
func TestCheckFinds(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	tangled(t, r, 60, 3)
	both(t, func(t *testing.T, target func() Target) {
		ctx := context.Background()
		for name, statement := range map[string]string{
			"a changed row":       "UPDATE bridge_messages SET from_rig = 'mallory' WHERE id = 1",
			"a changed verdict":   "UPDATE bridge_messages SET signature_good = true WHERE id = 1",
			"a changed state":     "UPDATE bridge_messages SET lifecycle_state = 'sent' WHERE id = 1",
			"a changed thread":    "UPDATE rigward_threads SET closed = NOT closed WHERE last_id = (SELECT max(last_id) FROM rigward_threads)",
			"a changed turn":      "UPDATE rigward_turns SET from_rig = 'mallory' WHERE (thread, rig) = (SELECT thread, rig FROM rigward_turns ORDER BY thread, rig LIMIT 1)",
			"a changed backlog":   "UPDATE rigward_backlog SET threads = threads + 1 WHERE (rig, from_rig, message_type) = (SELECT rig, from_rig, message_type FROM rigward_backlog LIMIT 1)",
			"a changed count":     "UPDATE rigward_days SET sent = sent + 1 WHERE (day, rig) = (SELECT day, rig FROM rigward_days ORDER BY day, rig LIMIT 1)",
			"words not searched":  "DELETE FROM rigward_search WHERE rowid = 1",
			"a changed ref":       "UPDATE rigward_repositories SET judged = NULL",
			"an invented refusal": "INSERT INTO rigward_refused (repo_id, commit_sha, path, thread, filename, rules, commit_time) VALUES (1, 'x', 'a/b.md', 'a', 'b.md', 'append-only', '2026')",
			"an invented row":     "INSERT INTO bridge_messages (id, repo_id, thread, filename, message_type, from_rig, to_rig, lifecycle_state, status_class, status_text, envelope_date, commit_sha, body_hash, path, blob, verdict, commit_time, created_at) SELECT 1000000, repo_id, thread, 'X.md', message_type, from_rig, to_rig, lifecycle_state, status_class, status_text, envelope_date, commit_sha, body_hash, path, blob, verdict, commit_time, created_at FROM bridge_messages WHERE id = 1",
			"an invented event":   "INSERT INTO bridge_message_events (id, repo_id, message_id, event_type, rig, created_at, commit_sha) SELECT 1000000, repo_id, id, 'acked', 'mallory', commit_time, commit_sha FROM bridge_messages WHERE id = 1",
		} {
			db := open(t, target())
			if db.conn.postgres() && strings.Contains(statement, "rigward_search") {
				continue // there it is an index
			}
			x := indexer(t, r, db)
			update(t, x)
			clean(t, x)
			if err := db.conn.exec(ctx, statement); err != nil {
				t.Fatal(err)
			}
			found, n, err := x.Check(ctx, 5)
			if err != nil || n < 1 || n > 2 {
				t.Errorf("%s: %d differences, %v: %v", name, n, err, found)
			}
			if _, err := x.Rebuild(ctx); err != nil {
				t.Fatal(err)
			}
			clean(t, x)
			if err := db.conn.exec(ctx, "DELETE FROM bridge_message_events"); err == nil {
				t.Error("events can be deleted")
			}
			if db.conn.postgres() {
				break // the comparison is the same; one is enough
			}
		}
	})
}

// TestLeftBetweenPieces has another writer do all, or the time be up, when the first piece is about to be
// written and the second one is judged already.
func TestLeftBetweenPieces(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	tangled(t, r, 60, 5)
	both(t, func(t *testing.T, target func() Target) {
		where := target()
		x, y := indexer(t, r, open(t, where)), indexer(t, r, open(t, where))
		x.piece = 10
		now, calls := x.Now, 0
		at := func(call int, do func()) {
			calls = 0
			x.Now = func() time.Time {
				if calls++; calls == call {
					do()
				}
				return now()
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		at(2, cancel)
		if got, err := x.Update(ctx); err == nil || got.Commits > 0 {
			t.Errorf("the time was up: %+v, %v", got, err)
		}
		if x.heard != nil {
			t.Error("the judge goes on")
		}
		at(2, func() { update(t, y) })
		if got := update(t, x); got.Commits > 0 || calls < 3 {
			t.Errorf("another writer did all: %+v after %d questions for the time", got, calls)
		}
		x.Now = now
		clean(t, x)
		whole := open(t, target())
		update(t, indexer(t, r, whole))
		same(t, x.DB, whole)
	})
}

// TestWhatIsComparedWithIsWrittenAtItsEnd holds that what a check writes has no index in the order of
// commits or hashes, each page of which would be read and written again for every few rows, until a
// message is looked up by it.
func TestWhatIsComparedWithIsWrittenAtItsEnd(t *testing.T) {
	ctx, own := t.Context(), Target{path: scratch, name: "own"}
	c, err := dial(ctx, own, true)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	indexes := func() (names []string) {
		t.Helper()
		err := each(ctx, c, "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name IN ('bridge_messages', 'bridge_message_events') ORDER BY name", nil, func(r rows) error {
			var name string
			err := r.Scan(&name)
			names = append(names, name)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if err := migrate(ctx, c, own, migrations); err != nil {
		t.Fatal(err)
	}
	if n := len(indexes()); n < 10 {
		t.Errorf("a database has %d indexes of messages and events", n)
	}
	if err := strip(ctx, c); err != nil {
		t.Fatal(err)
	}
	want := []string{"bridge_messages_nonce", "bridge_messages_thread", "sought_event"}
	if got := indexes(); !slices.Equal(got, want) {
		t.Errorf("the indexes are %v, expected %v", got, want)
	}
	x := &Indexer{DB: &DB{conn: c, target: own}, check: true}
	for range 2 {
		if found, err := x.said(ctx, "a", "none"); err != nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
	}
	if got := indexes(); !slices.Equal(got, slices.Insert(want, 2, "sought_body_hash")) {
		t.Errorf("the indexes are %v after a message was looked up by its hash", got)
	}
}

// TestCheckCovers changes each column of each derived table by hand, deletes a row of each and
// adds one: a check finds it, and what is made anew has none of it.
func TestCheckCovers(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	tangled(t, r, 70, 1002)
	both(t, func(t *testing.T, target func() Target) {
		ctx := t.Context()
		db := open(t, target())
		x := indexer(t, r, db)
		update(t, x)
		clean(t, x)
		scratch := open(t, parse(t, filepath.Join(t.TempDir(), "fresh.db")))
		fresh := *x
		fresh.DB, fresh.check = scratch, true
		update(t, &fresh)
		postgres := db.conn.postgres()
		place, unguarded := "rowid", []string{"DROP TRIGGER IF EXISTS bridge_message_events_no_update", "DROP TRIGGER IF EXISTS bridge_message_events_no_delete"}
		columnsOf := "SELECT name, type FROM pragma_table_info($1)"
		if postgres {
			place, unguarded = "ctid", []string{"SET LOCAL session_replication_role = replica"}
			columnsOf = "SELECT column_name::text, data_type::text FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position"
		}
		damages := 0
		for table, key := range map[string]string{"bridge_messages": "filename", "bridge_message_events": "rig", "rigward_threads": "thread", "rigward_open": "rig", "rigward_turns": "rig",
			"rigward_backlog": "rig", "rigward_days": "rig", "rigward_late": "commit_sha", "rigward_refused": "path", "rigward_tips": "ref"} {
			if count(t, db.conn, "SELECT count(*) FROM "+table) == 0 {
				t.Errorf("%s has no rows", table)
				continue
			}
			var all, added []string
			types := map[string]string{}
			err := each(ctx, db.conn, columnsOf, []any{table}, func(r rows) error {
				var name, typ string
				err := r.Scan(&name, &typ)
				all, types[name] = append(all, name), strings.ToLower(typ)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			one := " WHERE " + place + " = (SELECT " + place + " FROM " + table + " ORDER BY " + key + " LIMIT 1)"
			if table == "rigward_threads" { // one that has a turn
				one = strings.Replace(one, " ORDER BY", " WHERE turn_id IS NOT NULL ORDER BY", 1)
			}
			statements := map[string]string{"deleted": "DELETE FROM " + table + one}
			for _, column := range all {
				value, other := column, "coalesce("+column+", '') || 'x'"
				switch {
				case column == "id":
					value, other = "1000000", ""
				case column == "repo_id" || table == "bridge_messages" && column == "created_at": // of no history
					other = ""
				case column == "lifecycle_state" || column == "event_type":
					other = "'drafted'"
				case column == "status_class":
					other = "'cancelled'"
				case column == "verdict":
					other = "'unknown'"
				case strings.HasSuffix(column, "_id") && column != "run_id":
					other = "(SELECT o.id FROM bridge_messages o WHERE o.commit_sha <> (SELECT c.commit_sha FROM bridge_messages c WHERE c.id = " + table + "." + column + ") ORDER BY o.id LIMIT 1)"
				case types[column] == "boolean":
					other = "NOT coalesce(" + column + ", false)"
				case types[column] != "text":
					other = column + " + 1"
				}
				if column == key {
					value = key + " || 'x'"
				}
				added = append(added, value)
				if other != "" {
					statements["changed "+column] = "UPDATE " + table + " SET " + column + " = " + other + one
				}
			}
			statements["added"] = "INSERT INTO " + table + " (" + strings.Join(all, ", ") + ") SELECT " + strings.Join(added, ", ") + " FROM " + table + one
			damaged := func(end string, statements ...string) {
				execute(t, db.conn, "BEGIN")
				execute(t, db.conn, unguarded...)
				execute(t, db.conn, statements...)
				if end == "ROLLBACK" {
					if found, n, err := x.compare(ctx, scratch.conn, 3); err != nil || n == 0 {
						t.Errorf("%s: %s: %d differences, %v: %v", table, statements[0], n, err, found)
					}
				}
				execute(t, db.conn, end)
			}
			for _, statement := range statements {
				damaged("ROLLBACK", statement)
				damages++
			}
			damaged("COMMIT", statements["added"], statements["deleted"])
		}
		if damages < 70 {
			t.Errorf("only %d damages", damages)
		}
		if _, n, err := x.Check(ctx, 5); err != nil || n < 15 {
			t.Errorf("all at once: %d differences, %v", n, err)
		}
		if _, err := x.Rebuild(ctx); err != nil {
			t.Fatal(err)
		}
		clean(t, x)
	})
}

// hasRows holds that a database has every message of another one, as it is
// there. It may have more: those of commits that a ref has lost.
func hasRows(t *testing.T, got, want *DB) {
	t.Helper()
	one, err := dump(t.Context(), got.conn, "team", false)
	if err != nil {
		t.Fatal(err)
	}
	two, err := dump(t.Context(), want.conn, "team", false)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for k := range two {
		if !slices.Equal(one[k], two[k]) {
			if n++; n <= 3 {
				t.Errorf("%q, expected %q", one[k], two[k])
			}
		}
	}
	if n > 3 {
		t.Errorf("and %d more", n-3)
	}
}
