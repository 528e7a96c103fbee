package controlplane

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
	"github.com/rigward/rigward/internal/test/pgtest"
)

// TestPooled writes, compares and asks behind a pgbouncer that pools transactions,
// from several sides at once.
func TestPooled(t *testing.T) {
	address, _ := pgtest.Pooled(t)
	r := gittest.New(t, gittest.Options{Bare: true})
	line := tangled(t, r, 60, 21)
	r.SetRef("refs/heads/main", line[len(line)/2])
	ctx := context.Background()
	where := parse(t, address)
	var wg sync.WaitGroup
	for range 3 {
		x := indexer(t, r, open(t, where))
		x.piece = 10
		wg.Go(func() {
			if _, err := x.Update(ctx); err != nil && !strings.Contains(err.Error(), "locked") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r.SetRef("refs/heads/main", line[len(line)-1])
	db := open(t, where)
	x := indexer(t, r, db)
	update(t, x)
	clean(t, x)
	reader, err := Open(ctx, where, false)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, q := range Queries() {
		if _, err := reader.Ask(ctx, q, Parameters{Repos: []string{"team"}, Words: ParseWords([]string{"turn"}), Hash: hash("Turn 1 0"), Limit: 5}); err != nil {
			t.Errorf("%s: %v", q.Name, err)
		}
	}
	if err := reader.conn.exec(ctx, "DELETE FROM rigward_tips"); err == nil {
		t.Error("who only asks can write")
	}
}

// TestRights lets a role write that has the rights which docs/controlplane.md
// names, in tables that their owner made, and one read that may only read.
func TestRights(t *testing.T) {
	pgtest.Need(t)
	owner := pgtest.Database(t)
	name, _, _ := strings.Cut(strings.TrimPrefix(owner, "postgres:///"), "?")
	open(t, parse(t, owner))
	pgtest.Query(t, name, "CREATE ROLE "+name+"_writer LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+name+"_writer")
	pgtest.Query(t, name, "CREATE ROLE "+name+"_reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+name+"_reader")
	r := gittest.New(t, gittest.Options{Bare: true})
	tangled(t, r, 40, 22)
	writer := open(t, parse(t, strings.Replace(owner, "user=postgres", "user="+name+"_writer", 1)))
	x := indexer(t, r, writer)
	update(t, x)
	if _, err := x.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	clean(t, x)
	for _, statement := range []string{"DROP TABLE rigward_tips", "CREATE TABLE more (x TEXT)", "TRUNCATE bridge_message_events", "ALTER TABLE bridge_message_events DISABLE TRIGGER ALL"} {
		if err := writer.conn.exec(t.Context(), statement); err == nil {
			t.Errorf("the writer can %s", statement)
		}
	}
	reader, err := Open(t.Context(), parse(t, strings.Replace(owner, "user=postgres", "user="+name+"_reader", 1)), false)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if a, err := reader.Ask(t.Context(), Queries()[1], Parameters{Repos: []string{"team"}}); err != nil || len(a.Rows) == 0 {
		t.Errorf("%d rows, %v", len(a.Rows), err)
	}
}
