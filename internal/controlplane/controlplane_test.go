package controlplane

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/pgtest"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// both runs a test on SQLite and on PostgreSQL, with as many new databases as it asks for. They have
// the schema already, and nothing else: they are copies of one that Open made.
func both(t *testing.T, fn func(t *testing.T, target func() Target)) {
	with(t, fn, func(t *testing.T) string {
		file := filepath.Join(t.TempDir(), "control.db")
		lite.Lock()
		defer lite.Unlock()
		if lite.file == nil {
			made := filepath.Join(t.TempDir(), "control.db")
			schema(t, made)
			data, err := os.ReadFile(made)
			if err != nil {
				t.Fatal(err)
			}
			lite.file = data
		}
		if err := os.WriteFile(file, lite.file, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}, func(t *testing.T) string {
		return pgtest.Like(t, "schema", func(address string) { schema(t, address) })
	})
}

// lite is a file with the schema.
var lite struct {
	sync.Mutex
	file []byte
}

// schema makes the schema in an empty database.
func schema(t *testing.T, target string) {
	t.Helper()
	db, err := Open(t.Context(), parse(t, target), true)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// bothEmpty is both with databases in which there is nothing.
func bothEmpty(t *testing.T, fn func(t *testing.T, target func() Target)) {
	with(t, fn, func(t *testing.T) string { return filepath.Join(t.TempDir(), "control.db") }, func(t *testing.T) string { return pgtest.Database(t) })
}

// with runs a test on SQLite and on PostgreSQL, with databases that two functions make.
func with(t *testing.T, fn func(t *testing.T, target func() Target), lite, pg func(t *testing.T) string) {
	t.Run("sqlite", func(t *testing.T) { fn(t, func() Target { return parse(t, lite(t)) }) })
	t.Run("postgres", func(t *testing.T) {
		pgtest.Need(t)
		fn(t, func() Target { return parse(t, pg(t)) })
	})
}

func parse(t *testing.T, text string) Target {
	t.Helper()
	target, err := ParseTarget(text, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func open(t testing.TB, target Target) *DB {
	t.Helper()
	db, err := Open(context.Background(), target, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// say is one envelope.
func say(typ, thread, from, to, body string, more func(*envelope.Fields)) string {
	f := envelope.Fields{From: from, To: strings.Split(to, ","), Date: "2026-01-05", Status: "▶ Working", Type: typ, Thread: thread, Body: []byte(body)}
	f.BodyHash = envelope.BodyHash(envelope.NormalizeBody(f.Body))
	if more != nil {
		more(&f)
	}
	data, err := envelope.Render(f)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func hash(body string) string { return envelope.BodyHash(envelope.NormalizeBody([]byte(body))) }

// indexer works on the branches of a repository that begin with refs/heads/.
func indexer(t testing.TB, r *gittest.Repo, db *DB) *Indexer {
	t.Helper()
	repo, err := gitrepo.Open(context.Background(), gitrepo.Env{Environ: r.Env, Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	l := &policy.Loader{Repo: repo, ReadFile: func(string) ([]byte, error) { return nil, fmt.Errorf("none") }}
	return &Indexer{
		DB: db, Repo: repo, Name: "team", At: l.At, Accepted: l.Accepted, Main: "refs/heads/main",
		Now: func() time.Time { return time.Unix(gittest.Epoch, 0) },
		Refs: func(ctx context.Context, _ []string) (map[string]string, error) {
			tips := map[string]string{}
			for ref, err := range repo.Refs(ctx, "refs/heads/") {
				if err != nil {
					return nil, err
				}
				tips[ref.Name] = ref.ID
			}
			return tips, nil
		},
	}
}

func update(t testing.TB, x *Indexer) Result {
	t.Helper()
	r, err := x.Update(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dump reads the messages or events of a repository: values by key.
func dump(ctx context.Context, c conn, name string, events bool) (map[string][]string, error) {
	all := map[string][]string{}
	err := everyRow(ctx, c, name, events, false, func(key string, values []string) { all[key] = values })
	return all, err
}

// same holds two databases against each other, and one against its history.
func same(t testing.TB, a, b *DB) {
	t.Helper()
	for _, events := range []bool{false, true} {
		one, err := dump(context.Background(), a.conn, "team", events)
		if err != nil {
			t.Fatal(err)
		}
		two, err := dump(context.Background(), b.conn, "team", events)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, k := range slices.Sorted(maps.Keys(one)) {
			if !slices.Equal(one[k], two[k]) {
				if n++; n < 10 {
					t.Errorf("one has %q, the other %q", one[k], two[k])
				}
			}
		}
		for _, k := range slices.Sorted(maps.Keys(two)) {
			if one[k] == nil {
				if n++; n < 10 {
					t.Errorf("only the other has %q", two[k])
				}
			}
		}
		for _, table := range derived {
			one, two := map[string]bool{}, map[string]bool{}
			for c, into := range map[conn]map[string]bool{a.conn: one, b.conn: two} {
				if err := table.lines(context.Background(), c, "team", func(line string) { into[line] = true }); err != nil {
					t.Fatal(err)
				}
			}
			if !maps.Equal(one, two) {
				t.Errorf("%s: one has %d rows, the other %d, and they differ", table.what, len(one), len(two))
			}
		}
		if len(one) == 0 && events {
			t.Error("there are no events")
		}
	}
}

func clean(t testing.TB, x *Indexer) {
	t.Helper()
	found, n, err := x.Check(context.Background(), 10)
	if err != nil || n > 0 {
		t.Errorf("check: %v, %d: %v", err, n, found)
	}
}

// events lists the events of a file, sorted: type, rig, short message.
func events(t testing.TB, db *DB, file string) []string {
	t.Helper()
	var out []string
	err := each(context.Background(), db.conn, "SELECT m.to_rig, e.event_type, e.rig, coalesce(e.notes, '') FROM bridge_messages m JOIN bridge_message_events e ON e.message_id = m.id WHERE m.thread || '/' || m.filename = $1", []any{file}, func(r rows) error {
		var to, kind, rig, notes string
		if err := r.Scan(&to, &kind, &rig, &notes); err != nil {
			return err
		}
		out = append(out, strings.TrimSpace(to+": "+kind+" by "+rig+" "+notes))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func wantEvents(t testing.TB, db *DB, file string, want ...string) {
	t.Helper()
	if got := events(t, db, file); !slices.Equal(got, want) {
		t.Errorf("%s: got\n  %s\nwant\n  %s", file, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestEventsOfAThread(t *testing.T) {
	r := gittest.New(t, gittest.Options{})
	first := r.Commit("1", map[string]string{"build/REQUEST.md": say("REQUEST", "build", "rig-a", "rig-b,rig-c", "Please build", nil)})
	r.Commit("2", map[string]string{"build/ACK.md": say("ACK", "build", "rig-b", "rig-a", "Seen", nil)})
	r.Commit("3", map[string]string{"build/STATE.md": say("STATE", "build", "rig-b", "rig-a", "Half done", nil)})
	r.Commit("4", map[string]string{"build/ACK-2.md": say("ACK", "build", "rig-c", "rig-a", "Seen too", func(f *envelope.Fields) { f.References = []string{first[:10]} })})
	r.Commit("5", map[string]string{"build/ACK-3.md": say("ACK", "build", "rig-b", "rig-a", "Again", nil)})
	r.Commit("6", map[string]string{"build/RESOLUTION.md": say("RESOLUTION", "build", "rig-a", "rig-b", "Done", nil)})
	r.Commit("7", map[string]string{"build/STATE-2.md": say("STATE", "build", "rig-b", "rig-a", "Late", nil)})
	both(t, func(t *testing.T, target func() Target) {
		db := open(t, target())
		x := indexer(t, r, db)
		if got := update(t, x); got.Messages != 7 || got.Commits != 7 {
			t.Errorf("%+v", got)
		}
		wantEvents(t, db, "build/REQUEST.md",
			"rig-b: acked by rig-b", "rig-b: received by rig-b", "rig-b: resolved by rig-a",
			"rig-c: acked by rig-c", "rig-c: received by rig-c", "rig-c: resolved by rig-a")
		wantEvents(t, db, "build/STATE-2.md", "rig-a: received by rig-a")
		clean(t, x)
		again := open(t, target())
		x2 := indexer(t, r, again)
		x2.Chunk = 1
		update(t, x2)
		same(t, db, again)
		ctx := context.Background()
		for _, statement := range []string{"UPDATE bridge_message_events SET rig = 'x'", "DELETE FROM bridge_message_events"} {
			if err := db.conn.exec(ctx, statement); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: %v", statement, err)
			}
		}
		for _, q := range Queries() {
			if _, err := db.Ask(ctx, q, Parameters{Repos: []string{"team"}, Words: ParseWords([]string{"build"}), To: "rig-b", Since: time.Unix(gittest.Epoch, 0), Now: time.Unix(gittest.Epoch, 0), Hash: hash("Please build"), Limit: 5}); err != nil {
				t.Errorf("%s: %v", q.Name, err)
			}
		}
	})
}
