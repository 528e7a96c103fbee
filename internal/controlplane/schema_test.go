package controlplane

import (
	"context"
	"errors"
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

// TestSecondMigration brings a database of version 1, with rows, to a version 2
// that exists here only: at once, beside another program that does the same,
// and not at all where a step fails.
func TestSecondMigration(t *testing.T) {
	r := gittest.New(t, gittest.Options{Bare: true})
	tangled(t, r, 40, 11)
	second := `
ALTER TABLE bridge_messages ADD COLUMN importance TEXT;
CREATE TABLE rigward_second (id {id}, message_id {ref} NOT NULL REFERENCES bridge_messages (id));
INSERT INTO rigward_second (message_id) SELECT id FROM bridge_messages;`
	steps := append(append([]string{}, migrations...), second)
	ctx := context.Background()
	both(t, func(t *testing.T, target func() Target) {
		where := target()
		db := open(t, where)
		x := indexer(t, r, db)
		update(t, x)
		before := count(t, db.conn, "SELECT count(*) FROM bridge_messages")
		// A step that fails leaves version 1 as it was.
		broken := append(append([]string{}, migrations...), second+"\nINSERT INTO no_such_table VALUES (1);")
		if err := migrate(ctx, bare(t, where), where, broken); err == nil {
			t.Fatal("a broken step succeeds")
		}
		if v, err := version(ctx, db.conn); err != nil || v != schemaVersion {
			t.Errorf("after a broken step the version is %d, %v", v, err)
		}
		clean(t, x)
		results := make(chan error)
		for range 3 {
			c := bare(t, where)
			go func() { results <- migrate(ctx, c, where, steps) }()
		}
		for range 3 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		c := bare(t, where)
		if v, err := version(ctx, c); err != nil || v != schemaVersion+1 {
			t.Errorf("the version is %d, %v", v, err)
		}
		if n := count(t, c, "SELECT count(*) FROM rigward_second"); n != before || n == 0 {
			t.Errorf("the step ran over %d of %d rows", n, before)
		}
		// This program knows version 1, and leaves it alone.
		refusedOpen(t, where, true, "has schema version 3, this program knows versions up to 2")
		refusedOpen(t, where, false, "has schema version 3, this program knows versions up to 2")
		// A new database takes both steps.
		fresh := target()
		c = bare(t, fresh)
		if err := migrate(ctx, c, fresh, steps); err != nil {
			t.Fatal(err)
		}
		if v, err := version(ctx, c); err != nil || v != schemaVersion+1 {
			t.Errorf("a new database has version %d, %v", v, err)
		}
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
				refusedOpen(t, where, false, "has schema version 0, expected 2")
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
