package controlplane

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/policy"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A step leads from one version of the schema to the next, in one transaction. One
// with moves then repeats that, each time in a transaction of its own, until nothing
// is left to be moved; another run goes on where this one was ended.
type step struct {
	statements string
	moves      func(ctx context.Context, c conn) (more bool, err error)
}

// migrations are the steps: version n is reached by the first n. dialect says what
// stands in braces.
//
// What is derived is made anew from the history, so versions 4 and 10 throw away the
// tables of earlier ones, and the next run fills those that are made. What is not derived,
// who the repositories are and what was pushed, is taken over.
//
// Every key of a table of which there is one row for each message has the
// repository in it, by which PostgreSQL keeps these tables in partitions. It comes
// first only in indexes that are read in their order, so that no other one looks
// as good to SQLite, which knows nothing of how many rows have the same repository.
var migrations = []step{{}, {}, {statements: `
DROP TABLE IF EXISTS rigward_repositories;
CREATE TABLE rigward_repositories (repo TEXT PRIMARY KEY, root TEXT, uuid TEXT, place TEXT);
CREATE TABLE IF NOT EXISTS rigward_pushes (
  repo TEXT NOT NULL,
  id TEXT NOT NULL,
  push TEXT NOT NULL,
  stage TEXT NOT NULL,
  hook TEXT NOT NULL,
  at TEXT NOT NULL,
  pusher TEXT,
  who TEXT,
  refs TEXT,
  exit_code INTEGER,
  duration_ms DOUBLE PRECISION,
  commits INTEGER,
  rules TEXT,
  places TEXT,
  problem TEXT,
  PRIMARY KEY (repo, id)
);`}, {statements: `
DROP TABLE IF EXISTS rigward_threads;
DROP TABLE IF EXISTS bridge_message_events;
DROP TABLE IF EXISTS bridge_messages;
DROP TABLE IF EXISTS rigward_search;
DROP TABLE IF EXISTS rigward_tips;
DROP TABLE IF EXISTS rigward_refused;
DROP INDEX IF EXISTS rigward_pushes_at;
DROP INDEX IF EXISTS rigward_pushes_push;
ALTER TABLE rigward_pushes RENAME TO rigward_pushes_before;
ALTER TABLE rigward_repositories RENAME TO rigward_repositories_before;
CREATE TABLE rigward_repositories (repo_id {counted}, repo TEXT NOT NULL UNIQUE, root TEXT, uuid TEXT, place TEXT, judged TEXT, indexed_at TEXT);
INSERT INTO rigward_repositories (repo, root, uuid, place) SELECT repo, root, uuid, place FROM rigward_repositories_before;
INSERT INTO rigward_repositories (repo) SELECT DISTINCT repo FROM rigward_pushes_before p WHERE NOT EXISTS (SELECT 1 FROM rigward_repositories r WHERE r.repo = p.repo);
DROP TABLE rigward_repositories_before;
CREATE TABLE rigward_pushes (
  repo_id {ref} NOT NULL,
  id TEXT NOT NULL,
  push TEXT NOT NULL,
  stage TEXT NOT NULL CHECK (stage IN ('received', 'judged', 'landed')),
  hook TEXT NOT NULL,
  at TEXT NOT NULL,
  pusher TEXT,
  who TEXT,
  refs TEXT,
  exit_code INTEGER,
  duration_ms DOUBLE PRECISION,
  commits INTEGER,
  rules TEXT,
  places TEXT,
  problem TEXT,
  PRIMARY KEY (repo_id, id)
){hash};
{partitions rigward_pushes}
CREATE INDEX rigward_pushes_at ON rigward_pushes (repo_id, at, id);
CREATE INDEX rigward_pushes_push ON rigward_pushes (push, repo_id, stage);
`}, {moves: movePushes}, {}, {statements: `
ALTER TABLE rigward_pushes ADD COLUMN outcome TEXT;
ALTER TABLE rigward_pushes ADD COLUMN pushed_by TEXT;
CREATE INDEX rigward_pushes_shown ON rigward_pushes (repo_id, at, id) WHERE outcome <> '';
CREATE INDEX rigward_pushes_by ON rigward_pushes (pushed_by, repo_id, at, id) WHERE outcome <> '';
CREATE INDEX rigward_pushes_refused ON rigward_pushes (repo_id, at, id, pushed_by) WHERE outcome IN ('refused', 'undecided', 'unfinished');
CREATE INDEX rigward_pushes_unsettled ON rigward_pushes (repo_id, push) WHERE outcome IS NULL;
CREATE TABLE rigward_push_days (
  repo_id {ref} NOT NULL,
  day TEXT NOT NULL,
  pusher TEXT NOT NULL,
  pushes {ref} NOT NULL,
  refused {ref} NOT NULL,
  undecided {ref} NOT NULL,
  took TEXT NOT NULL,
  PRIMARY KEY (repo_id, day, pusher)
);
`}, {moves: settleOlder}, {}, {statements: `
DROP TABLE IF EXISTS rigward_threads;
DROP TABLE IF EXISTS rigward_open;
DROP TABLE IF EXISTS rigward_turns;
DROP TABLE IF EXISTS rigward_days;
DROP TABLE IF EXISTS bridge_message_events;
DROP TABLE IF EXISTS bridge_messages;
DROP TABLE IF EXISTS rigward_search;
DROP TABLE IF EXISTS rigward_tips;
DROP TABLE IF EXISTS rigward_refused;
DROP TABLE IF EXISTS rigward_late;
UPDATE rigward_repositories SET judged = NULL;
CREATE TABLE bridge_messages (
  {id},
  thread TEXT NOT NULL,
  filename TEXT NOT NULL,
  message_type TEXT NOT NULL,
  from_rig TEXT NOT NULL,
  to_rig TEXT NOT NULL,
  lifecycle_state TEXT NOT NULL CHECK (lifecycle_state IN ('drafted', 'sent', 'received', 'acked', 'resolved', 'superseded')),
  status_class TEXT NOT NULL CHECK (status_class IN ('active', 'pending', 'targeted', 'completed', 'cancelled')),
  status_text TEXT NOT NULL,
  tldr TEXT,
  envelope_date TEXT NOT NULL,
  commit_sha TEXT NOT NULL,
  parent_refs TEXT,
  run_id TEXT,
  body_hash TEXT NOT NULL,
  in_reply_to TEXT,
  nonce TEXT,
  attested_by TEXT,
  attested_at TEXT,
  path TEXT NOT NULL,
  blob TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('pending', 'verified', 'unsigned', 'refused', 'unknown')),
  rules TEXT,
  signature_good BOOLEAN,
  signer TEXT,
  signer_principal TEXT,
  commit_time TEXT NOT NULL,
  created_at TEXT NOT NULL,
  words TEXT,
  UNIQUE (commit_sha, repo_id, thread, filename, to_rig)
){hash};
{partitions bridge_messages}
CREATE INDEX bridge_messages_thread ON bridge_messages (thread, repo_id, to_rig);
CREATE INDEX bridge_messages_body_hash ON bridge_messages (body_hash, repo_id, commit_time);
CREATE INDEX bridge_messages_nonce ON bridge_messages (nonce, repo_id) WHERE nonce IS NOT NULL;
CREATE INDEX bridge_messages_time ON bridge_messages (repo_id, commit_time, to_rig, from_rig, message_type);
CREATE INDEX bridge_messages_to ON bridge_messages (to_rig, repo_id, commit_time, from_rig, message_type);
CREATE INDEX bridge_messages_from ON bridge_messages (from_rig, repo_id, commit_time, to_rig, message_type);
CREATE INDEX bridge_messages_between ON bridge_messages (to_rig, from_rig, repo_id, commit_time, message_type) WHERE to_rig <> '';
CREATE INDEX bridge_messages_type ON bridge_messages (message_type, repo_id, commit_time, to_rig, from_rig);
CREATE INDEX bridge_messages_unverified ON bridge_messages (repo_id, commit_time, to_rig, from_rig, message_type) WHERE signature_good IS NULL OR NOT signature_good;
CREATE INDEX bridge_messages_relays ON bridge_messages (repo_id, commit_time, to_rig, from_rig, message_type) WHERE attested_by IS NOT NULL;
{search}
CREATE TABLE bridge_message_events (
  {id},
  message_id {ref} NOT NULL,
  event_type TEXT NOT NULL CHECK (event_type IN ('drafted', 'sent', 'received', 'acked', 'resolved', 'superseded', 'diverged', 'frozen')),
  rig TEXT NOT NULL,
  notes TEXT,
  created_at TEXT NOT NULL,
  commit_sha TEXT NOT NULL,
  to_rig TEXT,
  from_rig TEXT,
  message_type TEXT,
  UNIQUE (message_id, repo_id, event_type, rig, commit_sha)
){hash};
{partitions bridge_message_events}
CREATE INDEX bridge_message_events_rare ON bridge_message_events (event_type, repo_id, created_at, rig, to_rig) WHERE event_type IN ('diverged', 'frozen');
CREATE INDEX bridge_message_events_acked ON bridge_message_events (repo_id, created_at, to_rig, from_rig, message_type) WHERE event_type = 'acked';
CREATE TABLE rigward_refused (
  repo_id {ref} NOT NULL,
  commit_sha TEXT NOT NULL,
  path TEXT NOT NULL,
  thread TEXT NOT NULL,
  filename TEXT NOT NULL,
  committer TEXT,
  rules TEXT NOT NULL,
  commit_time TEXT NOT NULL,
  PRIMARY KEY (repo_id, commit_sha, path)
);
CREATE INDEX rigward_refused_time ON rigward_refused (repo_id, commit_time, commit_sha, path);
CREATE TABLE rigward_tips (repo_id {ref} NOT NULL, ref TEXT NOT NULL, commit_sha TEXT NOT NULL, PRIMARY KEY (repo_id, ref, commit_sha));
CREATE TABLE rigward_threads (
  repo_id {ref} NOT NULL,
  thread TEXT NOT NULL,
  last_id {ref},
  turn_id {ref},
  last_time TEXT NOT NULL,
  closed BOOLEAN NOT NULL,
  counts TEXT NOT NULL,
  PRIMARY KEY (thread, repo_id)
);
CREATE TABLE rigward_open (
  repo_id {ref} NOT NULL,
  rig TEXT NOT NULL,
  thread TEXT NOT NULL,
  last_id {ref} NOT NULL,
  from_rig TEXT NOT NULL,
  message_type TEXT NOT NULL,
  last_time TEXT NOT NULL,
  PRIMARY KEY (thread, repo_id, rig)
);
CREATE INDEX rigward_open_rig ON rigward_open (repo_id, rig, last_time, thread, from_rig, message_type);
CREATE TABLE rigward_turns (
  repo_id {ref} NOT NULL,
  thread TEXT NOT NULL,
  rig TEXT NOT NULL,
  message_id {ref} NOT NULL,
  from_rig TEXT NOT NULL,
  message_type TEXT NOT NULL,
  at TEXT NOT NULL,
  last_time TEXT NOT NULL,
  PRIMARY KEY (thread, repo_id, rig)
);
CREATE INDEX rigward_turns_last_time ON rigward_turns (repo_id, last_time, thread, rig, at, from_rig, message_type);
CREATE INDEX rigward_turns_rig ON rigward_turns (repo_id, rig, last_time, thread, at, from_rig, message_type);
CREATE TABLE rigward_days (
  repo_id {ref} NOT NULL,
  day TEXT NOT NULL,
  rig TEXT NOT NULL,
  received {ref} NOT NULL,
  sent {ref} NOT NULL,
  refused {ref} NOT NULL,
  took TEXT NOT NULL,
  PRIMARY KEY (repo_id, day, rig)
);
{append-only bridge_message_events}
CREATE TABLE rigward_late (repo_id {ref} NOT NULL, commit_sha TEXT NOT NULL, second {ref} NOT NULL, step {ref} NOT NULL, PRIMARY KEY (repo_id, commit_sha));
`}, {statements: `
DROP INDEX bridge_messages_thread;
CREATE INDEX bridge_messages_thread ON bridge_messages (thread, repo_id, commit_time, id, to_rig);
CREATE INDEX rigward_refused_thread ON rigward_refused (thread, repo_id, commit_time);
UPDATE rigward_repositories SET judged = NULL;
`}, {statements: `
CREATE INDEX rigward_open_from ON rigward_open (from_rig, repo_id, rig, last_time, thread, message_type);
CREATE INDEX rigward_open_type ON rigward_open (message_type, repo_id, rig, last_time, thread, from_rig);
CREATE INDEX rigward_turns_from ON rigward_turns (from_rig, repo_id, last_time, thread, rig, at, message_type);
CREATE INDEX rigward_turns_type ON rigward_turns (message_type, repo_id, last_time, thread, rig, at, from_rig);
CREATE INDEX rigward_turns_oldest ON rigward_turns (rig, repo_id, at, from_rig, message_type) WHERE rig <> '';
CREATE INDEX bridge_message_events_acked_to ON bridge_message_events (to_rig, repo_id, created_at, from_rig, message_type) WHERE event_type = 'acked';
CREATE INDEX bridge_message_events_acked_from ON bridge_message_events (from_rig, repo_id, created_at, to_rig, message_type) WHERE event_type = 'acked';
CREATE INDEX bridge_message_events_acked_type ON bridge_message_events (message_type, repo_id, created_at, to_rig, from_rig) WHERE event_type = 'acked';
CREATE TABLE rigward_backlog (
  repo_id {ref} NOT NULL,
  rig TEXT NOT NULL,
  from_rig TEXT NOT NULL,
  message_type TEXT NOT NULL,
  threads {ref} NOT NULL,
  PRIMARY KEY (repo_id, rig, from_rig, message_type)
);
INSERT INTO rigward_backlog SELECT repo_id, rig, from_rig, message_type, count(*) FROM rigward_turns GROUP BY 1, 2, 3, 4;
{statistics}
`}}

// schemaVersion of the schema that this program reads and writes: the number of
// migrations.
const schemaVersion = 12

// partitions is in how many parts PostgreSQL keeps a table.
const partitions = 8

// moved is how many records of pushes are taken over in one transaction.
const moved = 5000

// movePushes takes records of pushes over from the table of an earlier version.
func movePushes(ctx context.Context, c conn) (more bool, err error) {
	n, err := number(ctx, c, "SELECT count(*) FROM (SELECT 1 FROM rigward_pushes_before LIMIT 1) AS one")
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, c.exec(ctx, "DROP TABLE rigward_pushes_before")
	}
	const columns = "id, push, stage, hook, at, pusher, who, refs, exit_code, duration_ms, commits, rules, places, problem"
	first := "(SELECT repo, id FROM rigward_pushes_before ORDER BY repo, id LIMIT " + itoa(moved) + ")"
	for _, statement := range []string{
		"INSERT INTO rigward_pushes (repo_id, " + columns + ") SELECT r.repo_id, b." + strings.ReplaceAll(columns, ", ", ", b.") +
			" FROM rigward_pushes_before b JOIN rigward_repositories r ON r.repo = b.repo WHERE (b.repo, b.id) IN " + first + " ON CONFLICT DO NOTHING",
		"DELETE FROM rigward_pushes_before WHERE (repo, id) IN " + first,
	} {
		if err := c.exec(ctx, statement); err != nil {
			return false, err
		}
	}
	return true, nil
}

// appendOnly makes a table refuse changes and deletions.
func appendOnly(postgres bool, table string) string {
	if postgres {
		return fmt.Sprintf(`
CREATE OR REPLACE FUNCTION %[1]s_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('rigward.rebuild', true) = 'on' THEN RETURN OLD; END IF;
  RAISE EXCEPTION '%[1]s is append-only';
END $$;
CREATE TRIGGER %[1]s_no_change BEFORE UPDATE OR DELETE ON %[1]s FOR EACH ROW EXECUTE FUNCTION %[1]s_append_only();
`, table) + eachPartition(table, `CREATE TRIGGER %[1]s_no_truncate BEFORE TRUNCATE ON %[1]s FOR EACH STATEMENT EXECUTE FUNCTION `+table+"_append_only();\n") +
			fmt.Sprintf("CREATE TRIGGER %[1]s_no_truncate BEFORE TRUNCATE ON %[1]s FOR EACH STATEMENT EXECUTE FUNCTION %[1]s_append_only();", table)
	}
	// INSERT OR REPLACE deletes without asking the trigger of deletions, so
	// a row that is there keeps its place.
	return fmt.Sprintf(`
CREATE TRIGGER %[1]s_no_update BEFORE UPDATE ON %[1]s BEGIN SELECT RAISE(ABORT, '%[1]s is append-only'); END;
`+noDelete(table)+`
CREATE TRIGGER %[1]s_no_replace BEFORE INSERT ON %[1]s
WHEN EXISTS (SELECT 1 FROM %[1]s WHERE id = NEW.id)
  OR EXISTS (SELECT 1 FROM %[1]s WHERE message_id = NEW.message_id AND event_type = NEW.event_type AND rig = NEW.rig AND commit_sha = NEW.commit_sha)
BEGIN SELECT RAISE(IGNORE); END;`, table)
}

// noDelete makes an SQLite table refuse deletions.
func noDelete(table string) string {
	return fmt.Sprintf("CREATE TRIGGER %[1]s_no_delete BEFORE DELETE ON %[1]s BEGIN SELECT RAISE(ABORT, '%[1]s is append-only'); END;", table)
}

// eachPartition is a statement for each partition of a table: %[1]s is its name,
// %[2]d its number.
func eachPartition(table, statement string) string {
	var b strings.Builder
	for i := range partitions {
		fmt.Fprintf(&b, statement, fmt.Sprintf("%s_%d", table, i), i)
	}
	return b.String()
}

// dialect puts a migration into the words of a system. {id} is the key of a table that
// has the repository in it, {counted} a key that the system counts up, {ref} refers
// to one. SQLite counts rows across repositories, so its number alone is a key.
func dialect(postgres bool, text string) string {
	words := []string{"{counted}", "INTEGER PRIMARY KEY", "{id}", "id INTEGER PRIMARY KEY,\n  repo_id INTEGER NOT NULL", "{ref}", "INTEGER", "{hash}", ""}
	if postgres {
		words = []string{"{counted}", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
			"{id}", "repo_id BIGINT NOT NULL,\n  id BIGINT NOT NULL,\n  PRIMARY KEY (repo_id, id)", "{ref}", "BIGINT", "{hash}", " PARTITION BY HASH (repo_id)"}
	}
	for _, table := range []string{"bridge_messages", "bridge_message_events", "rigward_pushes"} {
		parts := ""
		if postgres {
			parts = eachPartition(table, "CREATE TABLE %[1]s PARTITION OF "+table+" FOR VALUES WITH (MODULUS "+itoa(partitions)+", REMAINDER %[2]d);\n")
		}
		words = append(words, "{partitions "+table+"}", parts)
	}
	// PostgreSQL takes what is to a rig and what is from one as independent of each other, unless it is to count both.
	statistics := ""
	if postgres {
		statistics = eachPartition("bridge_messages", "CREATE STATISTICS %[1]s_between (mcv) ON to_rig, from_rig FROM %[1]s;\n")
	}
	words = append(words, "{statistics}", statistics)
	return strings.NewReplacer(append(words, "{search}", searchSchema(postgres),
		"{append-only bridge_message_events}", appendOnly(postgres, "bridge_message_events"))...).Replace(text)
}

// version reads the version of the schema, 0 where there is none.
func version(ctx context.Context, c conn) (int, error) {
	there := "SELECT count(*) FROM sqlite_master WHERE name = 'rigward_schema'"
	if c.postgres() {
		there = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('rigward_schema')"
	}
	n, err := number(ctx, c, there)
	if err != nil || n == 0 {
		return 0, err
	}
	n, err = number(ctx, c, "SELECT coalesce(max(version), 0) FROM rigward_schema")
	if err == nil && n < 0 {
		err = &policy.Undecided{Message: fmt.Sprintf("the control plane has schema version %d, which no program wrote", n), Hint: "name a database of its own"}
	}
	return n, err
}

// foreign refuses a database that holds a table of ours without a version of
// the schema: another program's.
func foreign(ctx context.Context, c conn, t Target) error {
	tables := "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
	if c.postgres() {
		tables = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()"
	}
	found := ""
	err := each(ctx, c, tables+" ORDER BY 1", nil, func(r rows) error {
		var name string
		err := r.Scan(&name)
		if found == "" && (name == "bridge_messages" || name == "bridge_message_events" || strings.HasPrefix(name, "rigward_") && name != "rigward_schema") {
			found = name
		}
		return err
	})
	if err == nil && found != "" {
		err = &policy.Undecided{
			Message: "the control plane " + t.String() + " has a table " + found + " of another program, and no schema version",
			Hint:    "name a database of its own",
		}
	}
	return err
}

func number(ctx context.Context, c conn, statement string, args ...any) (n int, err error) {
	err = each(ctx, c, statement, args, func(r rows) error { return r.Scan(&n) })
	return n, err
}

// each runs a statement and calls fn at every row of its result.
func each(ctx context.Context, c conn, statement string, args []any, fn func(rows) error) error {
	r, err := c.query(ctx, statement, args...)
	if err != nil {
		return err
	}
	for r.Next() {
		if err := fn(r); err != nil {
			r.Close()
			return err
		}
	}
	err = driver(r.Err())
	if closeErr := r.Close(); err == nil {
		err = driver(closeErr)
	}
	return err
}

// migrate brings the schema to the version that the steps lead to. Each step is kept
// by itself, so that another run goes on behind the last one that was done.
func migrate(ctx context.Context, c conn, t Target, steps []step) error {
	have, err := version(ctx, c)
	if err != nil {
		return err
	}
	if have > len(steps) {
		return &policy.Undecided{
			Message: fmt.Sprintf("the control plane %s has schema version %d, this program knows versions up to %d", t, have, len(steps)),
			Hint:    "go install github.com/rigward/rigward/cmd/rig-control@latest",
		}
	}
	for have < len(steps) {
		if err := within(ctx, c, func() error {
			if c.postgres() {
				if err := c.exec(ctx, "SELECT pg_advisory_xact_lock(7261767264)"); err != nil {
					return err
				}
			}
			// Somebody else may have been faster.
			if have, err = version(ctx, c); err != nil || have >= len(steps) {
				return err
			}
			return migrateStep(ctx, c, t, have, steps[have])
		}); err != nil {
			return err
		}
	}
	return nil
}

// migrateStep does one step, or a part of it.
func migrateStep(ctx context.Context, c conn, t Target, have int, s step) error {
	if have == 0 {
		if err := foreign(ctx, c, t); err != nil {
			return err
		}
		for _, statement := range []string{"CREATE TABLE IF NOT EXISTS rigward_schema (version INTEGER NOT NULL)", "DELETE FROM rigward_schema", "INSERT INTO rigward_schema (version) VALUES (0)"} {
			if err := c.exec(ctx, statement); err != nil {
				return err
			}
		}
	}
	if s.statements != "" {
		if err := c.exec(ctx, dialect(c.postgres(), s.statements)); err != nil {
			return err
		}
	}
	if s.moves != nil {
		if more, err := s.moves(ctx, c); err != nil || more {
			return err
		}
	}
	return c.exec(ctx, "UPDATE rigward_schema SET version = $1", have+1)
}

// within runs fn in a transaction that is kept if fn succeeds.
func within(ctx context.Context, c conn, fn func() error) error {
	begin := []string{"BEGIN IMMEDIATE"}
	if c.postgres() {
		// As long as SQLite's busy timeout. Without it, the server would go on
		// waiting for a lock after the client has given up.
		begin = []string{"BEGIN", "SET LOCAL lock_timeout = 2000"}
	}
	for _, statement := range begin {
		if err := c.exec(ctx, statement); err != nil {
			return err
		}
	}
	err := fn()
	if err == nil {
		err = c.exec(ctx, "COMMIT")
	}
	if err == nil {
		err = c.send(ctx)
	}
	if err != nil {
		// The connection may be gone, and its time up.
		c.forget()
		_ = c.exec(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return err
}

// together is within, with statements that give nothing back sent together with the
// next one that does, or at the end: what one of them says is wrong is told then.
func together(ctx context.Context, c conn, fn func() error) error {
	c.wait()
	defer c.forget()
	return within(ctx, c, fn)
}

// A DB is an open database of the schema version that this program knows.
type DB struct {
	conn   conn
	target Target
	alone  bool // PostgreSQL, too, is asked about one repository after another
}

// Open connects to a database. To write, it is created or brought to the
// current version of the schema first; else it is only read, and must have
// that version. A newer version is refused. Every error is one that can be
// told to a person; none holds credentials.
func Open(ctx context.Context, t Target, write bool) (*DB, error) {
	c, err := dial(ctx, t, write)
	if err != nil {
		return nil, err
	}
	if write {
		err = migrate(ctx, c, t, migrations)
	} else {
		var have int
		if have, err = version(ctx, c); err == nil && have < schemaVersion {
			err = &policy.Undecided{Message: fmt.Sprintf("the control plane %s has schema version %d, expected %d", t, have, schemaVersion), Hint: "rig-hook index --all"}
		} else if err == nil {
			err = migrate(ctx, c, t, migrations) // refuses a newer one
		}
	}
	if err != nil {
		c.close()
		return nil, told(ctx, t, err)
	}
	return &DB{conn: c, target: t}, nil
}

// Leave ends the connection where the process ends next. An SQLite file is left
// as it would be by a process that is killed, which loses nothing that was
// written: on Close, SQLite would copy its log into the file and wait for the
// disk twice, for each push. The next writer copies it when it has 1000 pages.
func (d *DB) Leave() error {
	if d.conn.postgres() {
		return d.conn.close()
	}
	return nil
}

// Close ends the connection.
func (d *DB) Close() error { return d.conn.close() }
