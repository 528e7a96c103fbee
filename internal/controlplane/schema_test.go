package controlplane

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/pkg/policy"
)

// refusedOpen wants a database that cannot be used, with the reason, and
// without a change to it.
func refusedOpen(t *testing.T, target Target, write bool, want string) {
	t.Helper()
	db, err := Open(context.Background(), target, write)
	if err == nil {
		db.Close()
	}
	var u *policy.Undecided
	if !errors.As(err, &u) || !strings.Contains(u.Message, want) {
		t.Errorf("write=%t: %v, expected %q", write, err, want)
	}
}

// bare connects without looking at the schema.
func bare(t *testing.T, target Target) conn {
	t.Helper()
	c, err := dial(context.Background(), target, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close() })
	return c
}

func execute(t *testing.T, c conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if err := c.exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func count(t *testing.T, c conn, statement string) int {
	t.Helper()
	n, err := number(context.Background(), c, statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return n
}

// TestMigration brings a database of version 1, with rows, to this one: at once,
// beside others that do the same, and not at all where a step fails. What the
// next run then writes is what it writes into a new one.
func TestMigration(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	tangled(t, r, 40, 11)
	old, err := os.ReadFile("testdata/version1.sql")
	if err != nil {
		t.Fatal(err)
	}
	rows := []string{
		"INSERT INTO rigward_repositories VALUES ('team')",
		"INSERT INTO rigward_tips VALUES ('team', 'refs/heads/main', 'x')",
		`INSERT INTO bridge_messages (id, repo, thread, filename, message_type, from_rig, to_rig, lifecycle_state, status_class, status_text, envelope_date, commit_sha, body_hash, commit_time, created_at)
VALUES (1, 'team', 'a', 'b.md', 'STATE', 'rig-a', 'rig-b', 'received', 'active', 's', '2026-01-05', 'x', 'h', '2026', '2026')`,
		"INSERT INTO bridge_message_events (message_id, event_type, rig, created_at, commit_sha) VALUES (1, 'received', 'rig-b', '2026', 'x')",
		"INSERT INTO rigward_threads VALUES ('team', 'a', 1, 1, '2026', false)",
	}
	first := []string{string(old)}
	ctx := context.Background()
	both(t, func(t *testing.T, target func() Target) {
		where := target()
		c := bare(t, where)
		if err := migrate(ctx, c, where, first); err != nil {
			t.Fatal(err)
		}
		execute(t, c, rows...)
		refusedOpen(t, where, false, "has schema version 1, expected 3")
		// A step that fails leaves version 1 as it was.
		broken := []string{first[0], "", migrations[2] + "\nINSERT INTO no_such_table VALUES (1);"}
		if err := migrate(ctx, bare(t, where), where, broken); err == nil {
			t.Fatal("a broken step succeeds")
		}
		if v, err := version(ctx, c); err != nil || v != 1 || count(t, c, "SELECT count(*) FROM bridge_messages WHERE commit_sha = 'x'") != 1 {
			t.Errorf("after a broken step the version is %d, %v", v, err)
		}
		results := make(chan error)
		for range 3 {
			c := bare(t, where)
			go func() { results <- migrate(ctx, c, where, migrations) }()
		}
		for range 3 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		db := open(t, where)
		if v, err := version(ctx, db.conn); err != nil || v != schemaVersion || count(t, db.conn, "SELECT count(*) FROM bridge_messages") != 0 {
			t.Errorf("the version is %d, %v", v, err)
		}
		x := indexer(t, r, db)
		update(t, x)
		clean(t, x)
		whole := open(t, target())
		update(t, indexer(t, r, whole))
		same(t, db, whole)
		execute(t, db.conn, "UPDATE rigward_schema SET version = 4")
		refusedOpen(t, where, true, "has schema version 4, this program knows versions up to 3")
		refusedOpen(t, where, false, "has schema version 4, this program knows versions up to 3")
	})
}

// TestPartialSchema opens what an older program, an interrupted one or another
// one left.
func TestPartialSchema(t *testing.T) {
	ctx := context.Background()
	both(t, func(t *testing.T, target func() Target) {
		for name, statements := range map[string][]string{
			"version 0, no tables":    {"CREATE TABLE rigward_schema (version INTEGER NOT NULL)", "INSERT INTO rigward_schema VALUES (0)"},
			"no version, no tables":   {"CREATE TABLE rigward_schema (version INTEGER NOT NULL)"},
			"tables of other kinds":   {"CREATE TABLE messages (id INTEGER)", "CREATE TABLE bridge (x TEXT)"},
			"a table with data":       {"CREATE TABLE notes (x TEXT)", "INSERT INTO notes VALUES ('kept')"},
			"control: nothing at all": nil,
		} {
			where := target()
			execute(t, bare(t, where), statements...)
			if len(statements) > 0 {
				refusedOpen(t, where, false, "has schema version 0, expected 3")
			}
			db := open(t, where)
			if v, err := version(ctx, db.conn); err != nil || v != schemaVersion {
				t.Errorf("%s: version %d, %v", name, v, err)
			}
			if n := count(t, db.conn, "SELECT count(*) FROM bridge_messages"); n != 0 {
				t.Errorf("%s: %d rows", name, n)
			}
			if name == "a table with data" && count(t, db.conn, "SELECT count(*) FROM notes") != 1 {
				t.Error("another program's rows are gone")
			}
		}
		for want, statements := range map[string][]string{
			"has a table bridge_messages of another program":       {"CREATE TABLE bridge_messages (id INTEGER, body TEXT)", "INSERT INTO bridge_messages VALUES (1, 'kept')"},
			"has a table rigward_tips of another program":          {"CREATE TABLE rigward_schema (version INTEGER NOT NULL)", "CREATE TABLE rigward_tips (x TEXT)"},
			"has a table bridge_message_events of another program": {"CREATE TABLE other (id INTEGER)", "CREATE VIEW bridge_message_events AS SELECT id FROM other"},
		} {
			where := target()
			c := bare(t, where)
			execute(t, c, statements...)
			refusedOpen(t, where, true, want)
			if strings.Contains(statements[0], "bridge_messages") && count(t, c, "SELECT count(*) FROM bridge_messages") != 1 {
				t.Error("another program's rows are gone")
			}
			if n := count(t, c, "SELECT count(*) FROM "+map[bool]string{true: "pg_tables WHERE tablename", false: "sqlite_master WHERE name"}[c.postgres()]+" = 'rigward_threads'"); n != 0 {
				t.Errorf("%s: a table was made all the same", want)
			}
		}
		// A version that no program wrote.
		where := target()
		execute(t, bare(t, where), "CREATE TABLE rigward_schema (version INTEGER NOT NULL)", "INSERT INTO rigward_schema VALUES (-3)")
		refusedOpen(t, where, true, "schema version -3")
		where = target()
		execute(t, bare(t, where), "CREATE TABLE rigward_schema (version TEXT NOT NULL)", "INSERT INTO rigward_schema VALUES ('one')")
		refusedOpen(t, where, true, "the control plane ")
		refusedOpen(t, where, false, "the control plane ")
	})
}
