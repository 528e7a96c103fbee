package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/test/corpus"
	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/pgtest"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// made are messages as they come from a history of n commits, one each, in threads of
// ten that two rigs exchange, one of them an ACK, without git: generated rows for what the
// database does by itself.
func made(n int) (*span, func(from, to int) []*landed) {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%040x", uint64(i)*0x9e3779b97f4a7c15)
	}
	all := text.String() // one text, of which the garbage collector has nothing to follow
	id := func(i int) string { return all[i*40 : i*40+40] }
	s := &span{fresh: true, revs: make([]gitrepo.Rev, n)}
	ids := make([]string, n)
	for i := range n {
		ids[i] = id(i)
		s.revs[i].ID = ids[i]
		if i > 0 {
			s.revs[i].Parents = ids[i-1 : i : i]
		}
	}
	o := corpus.Options{Envelopes: n, Relays: true}
	return s, func(from, to int) []*landed {
		batch := make([]*landed, to-from)
		rules.Parallel(len(batch), func(k int) {
			i := from + k
			path, data := corpus.Envelope(i, o)
			l := &landed{id: id(i), index: i, time: stamp(corpus.Start.Add(time.Duration(i) * 15 * time.Second)), policy: policy.Default()}
			l.found = []found{{change: gitrepo.Change{Path: path, NewMode: gitrepo.ModeFile, NewID: id(i)}, path: path, data: data, size: int64(len(data))}}
			l.read()
			if e := l.messages[0].env; i%10%2 == 1 && e.Type == "STATE" {
				e.From, e.To = e.To[0], []string{e.From}
				if i%10 == 5 {
					e.Type = "ACK"
				}
			}
			batch[k] = l
		})
		return batch
	}
}

// portionAtSize is how many messages one transaction has in this test; a run that has much
// to write comes to that after a few.
const portionAtSize = maxChunk

// million is how many messages are loaded beside a peer at most: it takes as much room as they.
const million = 1_000_000

// fill writes made messages of one repository as a first run does, and returns how long the
// database took, apart from making them.
func fill(t testing.TB, db *DB, name string, n int) time.Duration {
	t.Helper()
	ctx := context.Background()
	s, portions := made(n)
	x := &Indexer{DB: db, Name: name, Now: time.Now, first: true}
	if err := db.conn.bulk(ctx, true); err != nil {
		t.Fatal(err)
	}
	d := x.deriver(ctx, s)
	verdicts := &court{paths: map[string]map[string]*rules.Verdict{}}
	var took, before time.Duration
	for at := 0; at < n; at += portionAtSize {
		batch := portions(at, min(n, at+portionAtSize))
		began := time.Now()
		for left := batch; len(left) > 0; d.forget(true) {
			err := x.locked(ctx, func(map[string][]string) error {
				n, err := x.write(ctx, s, d, verdicts, left)
				left = left[n:]
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		took += time.Since(began)
		if done := at + len(batch); n > million && done/million > at/million {
			t.Logf("%d messages: the last million took %v", done, (took - before).Round(time.Second))
			before = took
		}
	}
	began := time.Now()
	if err := db.conn.bulk(ctx, false); err != nil {
		t.Fatal(err)
	}
	return took + time.Since(began)
}

// pushed writes what hooks tell of n pushes of so many users, one after another.
func pushed(t *testing.T, db *DB, repo string, n, users int, every time.Duration) {
	t.Helper()
	var told []outbox.Record
	for i := range n {
		at := corpus.Start.Add(time.Duration(i) * every).Format(outbox.Time)
		push := fmt.Sprintf("%024d", i)
		exit := i % 20 / 19
		told = append(told, outbox.Record{ID: push + "-1", Push: push, Stage: outbox.Received, Hook: "pre-receive", At: at, Who: map[string]string{"USER": fmt.Sprintf("user-%d", i%users)}, Refs: []outbox.Ref{{Name: "refs/heads/main", Old: push, New: push}}},
			outbox.Record{ID: push + "-2", Push: push, Stage: outbox.Judged, Hook: "pre-receive", At: at, Exit: exit, Millis: float64(20 + i%100), Commits: 1})
		if exit == 0 {
			told = append(told, outbox.Record{ID: push + "-3", Push: push, Stage: outbox.Landed, Hook: "post-receive", At: at})
		}
		if len(told) >= 500 || i == n-1 {
			if err := db.AddPushes(t.Context(), repo, told); err != nil {
				t.Fatal(err)
			}
			told = nil
		}
	}
}

// loading gives fn a new database on each system; or, where RIGWARD_CONTROL_KEEP names a directory, the
// one of this name in it. That one stays: once done was called, loaded is true for each later run.
func loading(t *testing.T, name string, fn func(t *testing.T, where Target, target func() Target, loaded bool, done func())) {
	keep := os.Getenv("RIGWARD_CONTROL_KEEP")
	if keep == "" {
		both(t, func(t *testing.T, target func() Target) { fn(t, target(), target, false, func() {}) })
		return
	}
	kept := func(system string, where func(whole bool) string, target func() Target) {
		t.Run(system, func(t *testing.T) {
			mark := filepath.Join(keep, name+"."+system)
			_, err := os.Stat(mark)
			fn(t, parse(t, where(err == nil)), target, err == nil, func() {
				if err := os.WriteFile(mark, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
	kept("sqlite", func(whole bool) string {
		file := filepath.Join(keep, name+".db")
		for _, more := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(file + more); !whole && err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		return file
	}, func() Target { return parse(t, filepath.Join(t.TempDir(), "control.db")) })
	kept("postgres", func(whole bool) string {
		pgtest.Keep(t, keep)
		return pgtest.Kept(t, name, whole)
	}, func() Target { return parse(t, pgtest.Database(t)) })
}

// TestAtSize loads many generated messages, asks all built-in questions of them, and says
// how long that took: RIGWARD_CONTROL_ROWS=1000000 go test -v -run TestAtSize. By
// default there are few, and what is held is that no question reads a table of
// PostgreSQL from its beginning to its end. RIGWARD_CONTROL_REPOS says in how many
// repositories they are, of which all are asked; RIGWARD_CONTROL_KEEP names a directory in
// which the databases stay, so that they can be asked again without being loaded.
func TestAtSize(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("RIGWARD_CONTROL_ROWS"))
	measured := n > 0
	if !measured {
		n = 4000
	}
	repos, names := 1, []string{"team"}
	if text := os.Getenv("RIGWARD_CONTROL_REPOS"); text != "" {
		repos, _ = strconv.Atoi(text)
	}
	for i := 1; i < repos; i++ {
		names = append(names, fmt.Sprintf("team-%d", i))
	}
	loading(t, fmt.Sprintf("messages_%d_%d", n, repos), func(t *testing.T, where Target, target func() Target, loaded bool, done func()) {
		db := open(t, where)
		wal := func() int {
			if !db.conn.postgres() {
				return 0
			}
			return count(t, db.conn, "SELECT CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS BIGINT)")
		}
		took, before := time.Duration(0), wal()
		for _, name := range names {
			if !loaded {
				took += fill(t, db, name, n/repos)
			}
		}
		began := time.Now()
		for _, name := range names {
			if !loaded {
				pushed(t, db, name, n/repos/10, 20, time.Minute)
			}
		}
		if measured && !loaded {
			t.Logf("%d pushes: %v; %d bytes of the log of all for each message", n/10, time.Since(began).Round(time.Second), (wal()-before)/n)
		}
		events := count(t, db.conn, "SELECT count(*) FROM bridge_message_events")
		if messages := count(t, db.conn, "SELECT count(*) FROM bridge_messages"); messages != n || events < n {
			t.Fatalf("%d messages, %d events", messages, events)
		}
		name := ""
		if db.conn.postgres() {
			name, _, _ = strings.Cut(strings.TrimPrefix(where.dsn, "postgres:///"), "?")
			began = time.Now()
			if !loaded {
				pgtest.Query(t, name, "VACUUM ANALYZE")
			}
			if measured && !loaded {
				t.Logf("VACUUM ANALYZE: %v", time.Since(began).Round(time.Millisecond))
			}
		}
		done()
		if db.conn.postgres() {
			noWhole(t, db, measured)
		}
		if !measured {
			return
		}
		peer := !loaded && n <= million && repos == 1
		if !loaded {
			t.Logf("%d generated messages and %d events: %v, %.0f messages/s", n, events, took.Round(time.Millisecond), float64(n)/took.Seconds())
		}
		if db.conn.postgres() {
			if peer {
				copied(t, name, where.dsn, n, took)
			}
			size := count(t, db.conn, "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
			t.Logf("%d bytes for each message", size/n)
		} else {
			if peer {
				inserted(t, db.conn, open(t, target()).conn, n, took)
			}
			t.Logf("%d bytes for each message", count(t, db.conn, "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")/n)
		}
		now := corpus.Start.Add(time.Duration(n/repos) * 15 * time.Second)
		for _, q := range Queries() {
			p := Parameters{Repos: names, Words: ParseWords([]string{fmt.Sprintf("thread-%06d", n/repos/20)}), Now: now, Hash: envelope.BodyHash(envelope.NormalizeBody(corpus.Body(n / repos / 2))), Limit: 100}
			switch q.Name {
			case "idle":
				p.Since = now
			case "stats", "pushers", "push-days":
				p.Since = now.AddDate(0, 0, -30)
			}
			// No filter, each with what hardly anything has, and two that much has and nothing both.
			for _, by := range [][]string{nil, {"to"}, {"from"}, {"type"}, {"to", "from"}, {"words"}} {
				p, skip := p, false
				for _, one := range by {
					skip = skip || !q.Asks(one)
					switch {
					case one == "words":
						p.Words = ParseWords([]string{"turn"})
					case one == "type":
						p.Type = "RESOLUTION"
					case len(by) == 2:
						p.To, p.From = "rig-a", "rig-a"
					case one == "to":
						p.To = "rig-none"
					default:
						p.From = "rig-none"
					}
				}
				if skip {
					continue
				}
				var all []time.Duration
				rows := 0
				for range 101 {
					began := time.Now()
					a, err := db.Ask(t.Context(), q, p)
					if err != nil {
						t.Fatal(err)
					}
					all, rows = append(all, time.Since(began)), len(a.Rows)
				}
				all = all[1:]
				slices.Sort(all)
				t.Logf("query %s %s: %d rows, p50 %v, p99 %v", q.Name, strings.Join(by, " "), rows, all[50].Round(10*time.Microsecond), all[98].Round(10*time.Microsecond))
			}
		}
	})
}

// TestPushesAtSize tells of many pushes, asks all that is asked about them, and forgets half of
// them: RIGWARD_CONTROL_PUSHES=1000000 go test -v -run TestPushesAtSize. With RIGWARD_CONTROL_KEEP
// they stay.
func TestPushesAtSize(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("RIGWARD_CONTROL_PUSHES"))
	if n == 0 {
		t.Skip("RIGWARD_CONTROL_PUSHES is not set")
	}
	const every = 10 * time.Second
	loading(t, fmt.Sprintf("pushes_%d", n), func(t *testing.T, where Target, _ func() Target, loaded bool, done func()) {
		ctx, db := t.Context(), open(t, where)
		began := time.Now()
		rate := func(what string, n int) {
			took := time.Since(began)
			t.Logf("%s: %v, %.0f pushes/s", what, took.Round(time.Millisecond), float64(n)/took.Seconds())
			began = time.Now()
		}
		if !loaded {
			pushed(t, db, "team", n, 200, every)
			rate("told", n)
		}
		pages := "page_count * page_size FROM pragma_page_count(), pragma_page_size()"
		if db.conn.postgres() {
			name, _, _ := strings.Cut(strings.TrimPrefix(where.dsn, "postgres:///"), "?")
			if !loaded {
				pgtest.Query(t, name, "VACUUM ANALYZE")
			}
			pages = "sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
		}
		done()
		t.Logf("%d bytes for each push", count(t, db.conn, "SELECT "+pages)/n)
		now := corpus.Start.Add(time.Duration(n) * every)
		timed := func(what string, ask func() (rows int, err error)) {
			var all []time.Duration
			rows := 0
			for range 101 {
				began := time.Now()
				var err error
				if rows, err = ask(); err != nil {
					t.Fatal(err)
				}
				all = append(all, time.Since(began))
			}
			all = all[1:]
			slices.Sort(all)
			t.Logf("%s: %d rows, p50 %v, p99 %v", what, rows, all[50].Round(10*time.Microsecond), all[98].Round(10*time.Microsecond))
		}
		for _, name := range []string{"pushes", "refused-pushes", "pushers", "push-days"} {
			q, _ := Question(name)
			for what, p := range map[string]Parameters{
				"": {}, "of nobody": {From: "nobody"}, "of one": {From: "user-7"}, "of one, from the middle": {From: "user-7", Until: now.Add(-time.Duration(n/2) * every)},
				"of a month": {Since: now.AddDate(0, 0, -60), Until: now.AddDate(0, 0, -30)},
			} {
				if p.Repos, p.Now, p.Limit = []string{"team"}, now, 100; p.Since.IsZero() && !q.Paged() {
					p.Since = now.AddDate(0, 0, -30)
				}
				timed(name+" "+what, func() (int, error) { a, err := db.Ask(ctx, q, p); return len(a.Rows), err })
			}
		}
		timed("metrics", func() (int, error) { all, err := db.Pushes(ctx, []string{"team"}); return len(all), err })
		timed("version", func() (int, error) { v, err := db.Version(ctx, []string{"team"}); return len(v), err })
		timed("nothing to forget", func() (int, error) { return 0, db.ForgetPushes(ctx, "team", corpus.Start) })
		if os.Getenv("RIGWARD_CONTROL_KEEP") != "" {
			return
		}
		began = time.Now()
		if err := db.ForgetPushes(ctx, "team", now.Add(-time.Duration(n/2)*every)); err != nil {
			t.Fatal(err)
		}
		rate("forgotten", n/2)
		left := int64(n - n/2)
		counts, err := db.Pushes(ctx, []string{"team"})
		for _, c := range counts {
			left -= c.N
		}
		if err != nil || left < -1 || left > 1 {
			t.Errorf("%v: %d more are left than are counted", err, left)
		}
	})
}

// loaded are the tables that a load fills.
var loaded = []string{"bridge_messages", "bridge_message_events", "rigward_threads", "rigward_open", "rigward_turns", "rigward_backlog", "rigward_days"}

// copied loads the same rows by psql's COPY into tables with the same indexes, for
// comparison.
func copied(t *testing.T, name, dsn string, n int, took time.Duration) {
	t.Helper()
	again := pgtest.Database(t)
	open(t, parse(t, again))
	file := filepath.Join(t.TempDir(), "rows")
	var whole time.Duration
	for _, table := range loaded {
		for _, side := range []struct{ dsn, what string }{{dsn, "(SELECT * FROM " + table + " ORDER BY 1, 2) TO"}, {again, table + " FROM"}} {
			cmd := exec.Command("psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", side.dsn, "-c", `\copy `+side.what+" '"+file+"'")
			began := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("psql: %v: %s", err, out)
			}
			if side.dsn == again {
				whole += time.Since(began)
			}
		}
	}
	t.Logf("COPY of the same rows: %v, %.0f messages/s; ours takes %.2f times as long", whole.Round(time.Millisecond), float64(n)/whole.Seconds(), took.Seconds()/whole.Seconds())
}

// inserted loads the same rows by prepared INSERTs of one row each, 100,000 in a transaction,
// into tables with the same indexes, for comparison.
func inserted(t *testing.T, from, into conn, n int, took time.Duration) {
	t.Helper()
	ctx := t.Context()
	var whole time.Duration
	timed := func(fn func() error) {
		began := time.Now()
		if err := fn(); err != nil {
			t.Fatal(err)
		}
		whole += time.Since(began)
	}
	timed(func() error {
		if err := into.bulk(ctx, true); err != nil {
			return err
		}
		return into.exec(ctx, "BEGIN IMMEDIATE")
	})
	written := 0
	for _, table := range loaded {
		columns := count(t, from, "SELECT count(*) FROM pragma_table_info('"+table+"')")
		statement := "INSERT INTO " + table + " VALUES (?" + strings.Repeat(", ?", columns-1) + ")"
		into.keep(statement)
		var all [][]any
		write := func() error {
			for _, values := range all {
				if err := into.exec(ctx, statement, values...); err != nil {
					return err
				}
			}
			written += len(all)
			all = nil
			if written < 100_000 {
				return nil
			}
			written = 0
			if err := into.exec(ctx, "COMMIT"); err != nil {
				return err
			}
			return into.exec(ctx, "BEGIN IMMEDIATE")
		}
		err := each(ctx, from, "SELECT * FROM "+table+" ORDER BY 1", nil, func(r rows) error {
			values, at := make([]any, columns), make([]any, columns)
			for i := range values {
				at[i] = &values[i]
			}
			err := r.Scan(at...)
			if all = append(all, values); len(all) == 10_000 {
				timed(write)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		timed(write)
	}
	timed(func() error {
		if err := into.exec(ctx, "COMMIT"); err != nil {
			return err
		}
		return into.bulk(ctx, false)
	})
	t.Logf("prepared INSERTs of the same rows: %v, %.0f messages/s; ours takes %.2f times as long", whole.Round(time.Millisecond), float64(n)/whole.Seconds(), took.Seconds()/whole.Seconds())
}

// noWhole holds that there is an index for each question, which then reads no table that grows
// from its beginning to its end; at size it also tells for which of them the planner
// finds that quicker.
func noWhole(t *testing.T, db *DB, measured bool) {
	t.Helper()
	id, err := db.id(t.Context(), "team")
	if err != nil {
		t.Fatal(err)
	}
	plan := func(text string, values map[string]any) string {
		statement, names := numbered(text)
		args, all := []any{}, ""
		for _, name := range names {
			args = append(args, values[name])
		}
		err := each(t.Context(), db.conn, "EXPLAIN "+statement, args, func(r rows) error {
			var line string
			err := r.Scan(&line)
			all += line + "\n"
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	whole := func(plan string) bool {
		return regexp.MustCompile(`Seq Scan on (bridge_messages|bridge_message_events|rigward_pushes|rigward_push_days|rigward_threads|rigward_open|rigward_turns|rigward_days|rigward_backlog|rigward_refused)`).MatchString(plan)
	}
	questions := func(found func(name, plan string)) {
		filtered(true, func(q Query, by []string, values map[string]any) {
			values["repo"] = id
			if got := plan(settled(q.asked(values).text(true, ""), values), values); whole(got) {
				found(q.Name+" "+strings.Join(by, " "), got)
			}
		})
	}
	if measured {
		questions(func(name, plan string) { t.Logf("query %s reads a table from its beginning to its end", name) })
	}
	execute(t, db.conn, "SET enable_seqscan = off") // of few rows it would be as quick
	defer execute(t, db.conn, "RESET enable_seqscan")
	questions(func(name, plan string) { t.Errorf("%s reads a table from its beginning to its end:\n%s", name, plan) })
	if got := plan("SELECT * FROM bridge_messages WHERE tldr = 'x'", nil); !whole(got) {
		t.Errorf("a question without an index is not told apart:\n%s", got)
	}
}

// TestLoadHistory loads and checks a whole history, and says how long that takes and how much
// of it is git's: RIGWARD_CONTROL_REPO=DIR go test -v -run TestLoadHistory for one of any size.
func TestLoadHistory(t *testing.T) {
	dir := os.Getenv("RIGWARD_CONTROL_REPO")
	if dir == "" {
		dir = filepath.Join(gittest.TempDir(t), "source.git")
		if err := corpus.Generate(dir, corpus.Options{Envelopes: 200}); err != nil {
			t.Fatal(err)
		}
	}
	r := &gittest.Repo{T: t, Dir: dir, Env: os.Environ()}
	both(t, func(t *testing.T, target func() Target) {
		ctx := t.Context()
		began := time.Now()
		said := func(what string, n int) {
			took := time.Since(began)
			t.Logf("%s: %v, %.0f messages/s", what, took.Round(time.Millisecond), float64(n)/took.Seconds())
			began = time.Now()
		}
		list := exec.Command("sh", "-c", "git rev-list --objects --all | cut -d' ' -f1 | git cat-file --batch --buffer | wc -c")
		list.Dir = dir
		if out, err := list.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		alone := time.Since(began)
		x := indexer(t, r, open(t, target()))
		x.Now = time.Now
		began = time.Now()
		n := update(t, x).Messages
		said("first load", n)
		if n == 0 {
			t.Error("no message was loaded")
		}
		t.Logf("git rev-list --objects | git cat-file --batch alone: %v, %.0f messages/s", alone.Round(time.Millisecond), float64(n)/alone.Seconds())
		if found, n, err := x.Check(ctx, 10); err != nil || n > 0 {
			t.Errorf("%v: %d differences, %v", err, n, found)
		}
		said("check", n)
	})
}
