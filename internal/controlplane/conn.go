package controlplane

import (
	"bytes"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// A conn is one connection. Statements number their parameters $1, $2 …,
// which both systems know, or take them from values and among.
type conn interface {
	exec(ctx context.Context, statement string, args ...any) error
	query(ctx context.Context, statement string, args ...any) (rows, error)
	// keep says that a statement will be run again, and need be prepared
	// only once.
	keep(statement string)
	// load writes many rows, each of as many values as there are columns, which no
	// row of the table forbids.
	load(ctx context.Context, table string, columns []string, values []any) error
	// bulk says that much is written from now on, or no longer.
	bulk(ctx context.Context, on bool) error
	// wait lets statements be sent later, until send or forget, which drops those
	// that were not sent.
	wait()
	send(ctx context.Context) error
	forget()
	close() error
	postgres() bool
}

// portion is how many rows an INSERT of SQLite has at the most.
const portion = 50

// insert writes rows of as many values as there are columns, many with one statement,
// and reads what it returns.
func insert(ctx context.Context, c conn, table string, columns []string, args []any, tail string, returned func(rows) error) error {
	n := len(columns)
	if len(args) == 0 {
		return nil
	}
	into := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") "
	run := func(statement string, args ...any) error {
		if returned == nil {
			return c.exec(ctx, statement, args...)
		}
		return each(ctx, c, statement, args, returned)
	}
	if c.postgres() { // the statement is the same for any number of rows
		data, err := records(columns, args)
		if err != nil {
			return err
		}
		typed := make([]string, n)
		for i, column := range columns {
			typed[i] = column + " " + typeOf(table, column)
		}
		return run(into+"SELECT * FROM json_to_recordset($1::json) AS r ("+strings.Join(typed, ", ")+") "+tail, data)
	}
	// SQLite looks up parameters with names, which $1 is to it, by going through all
	// of them; it gets nameless ones.
	row := "(" + strings.Repeat("?, ", n-1) + "?)"
	for part := range slices.Chunk(args, n*portion) {
		statement := into + "VALUES " + strings.Repeat(row+", ", len(part)/n-1) + row + " " + tail
		if len(part) == n*portion {
			c.keep(statement)
		}
		if err := run(statement, part...); err != nil {
			return err
		}
	}
	return nil
}

// records are rows as a JSON array of objects.
func records(columns []string, args []any) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for i, v := range args {
		switch column := i % len(columns); {
		case i == 0:
			b.WriteString("[{")
		case column == 0:
			b.WriteString("}, {")
		default:
			b.WriteByte(',')
		}
		b.WriteString(`"` + columns[i%len(columns)] + `":`)
		if err := encoder.Encode(v); err != nil {
			return "", err
		}
	}
	b.WriteString("}]")
	return b.String(), nil
}

// typeOf is the type of a column in PostgreSQL.
func typeOf(table, column string) string {
	switch column {
	case "id":
		if table != "rigward_pushes" {
			return "bigint"
		}
	case "repo_id", "message_id", "last_id", "turn_id", "received", "sent", "refused", "pushes", "undecided", "second", "step", "threads":
		return "bigint"
	case "signature_good", "closed":
		return "boolean"
	case "exit_code", "commits":
		return "integer"
	case "duration_ms":
		return "double precision"
	}
	return "text"
}

// among is the condition that a column is one of the texts or keys in parameter $n, which is what
// listed makes of them: a statement is the same for any number. PostgreSQL goes along an index
// for each of an array; a table of them it may hold against all rows of another.
func among(c conn, n int, typ string) string {
	if c.postgres() {
		return "= ANY (ARRAY(SELECT value::" + typ + " FROM jsonb_array_elements_text($" + itoa(n) + "::jsonb)))"
	}
	return "IN (SELECT value FROM json_each($" + itoa(n) + "))"
}

// listed is the value of a parameter for among.
func listed[T string | int64](all []T) (string, error) {
	data, err := json.Marshal(all)
	return string(data), err
}

// rows is a result being read.
type rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
	Close() error
}

// A dbError is what a driver says, to be told apart from what git says.
type dbError struct{ err error }

func (e *dbError) Error() string { return e.err.Error() }
func (e *dbError) Unwrap() error { return e.err }

func driver(err error) error {
	if err == nil {
		return nil
	}
	return &dbError{err}
}

// dial connects. With write, an SQLite file that is not there is created, for
// its owner only.
func dial(ctx context.Context, t Target, write bool) (conn, error) {
	if t.Postgres() {
		return dialPostgres(ctx, t, write)
	}
	return dialSQLite(ctx, t, write)
}

type sqliteConn struct {
	db   *sql.DB
	c    *sql.Conn
	kept map[string]*keptStatement
	own  bool                   // nobody else sees it
	args []sqldriver.NamedValue // room
}

// A keptStatement is prepared once it is run; each form is nil before.
type keptStatement struct {
	asks *sql.Stmt
	does sqldriver.Stmt // by the driver itself: database/sql looks at each of very many parameters
}

// cachePages is how much of a file SQLite keeps in memory, in KiB with a minus sign.
const cachePages = "-16384"

// scratch is the path of a database that nobody else sees: in memory while it is
// small, else in a file that is deleted when it is closed.
const scratch = ""

func dialSQLite(ctx context.Context, t Target, write bool) (conn, error) {
	q := url.Values{"_pragma": {"busy_timeout(2000)", "foreign_keys(1)", "recursive_triggers(1)", "synchronous(NORMAL)", "temp_store(MEMORY)", "cache_size(" + cachePages + ")"}}
	if t.path == scratch { // nothing of it is to last, and each page is used a few times at once
		q = url.Values{"_pragma": {"journal_mode(OFF)", "synchronous(OFF)", "cache_size(-8192)"}}
	}
	if write {
		q.Set("_txlock", "immediate")
		if t.path != scratch {
			q.Add("_pragma", "journal_mode(WAL)")
			if err := create(t); err != nil {
				return nil, err
			}
		}
	} else {
		q.Set("mode", "ro")
	}
	if t.path != scratch {
		if err := usable(t); err != nil {
			return nil, err
		}
	}
	source := "file:"
	if t.path != scratch {
		u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(t.path)}).EscapedPath()}
		if !strings.HasPrefix(u.Opaque, "/") {
			u.Opaque = "/" + u.Opaque
		}
		source = u.String()
	}
	db, err := sql.Open("sqlite", source+"?"+q.Encode())
	if err != nil {
		return nil, told(ctx, t, driver(err))
	}
	c, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, told(ctx, t, driver(err))
	}
	return &sqliteConn{db: db, c: c, kept: map[string]*keptStatement{}, own: t.path == scratch}, nil
}

// create makes an empty file for its owner only, where there is none. SQLite
// gives its other files the mode of this one, and drops a log that an earlier
// database of this name left behind.
func create(t Target) error {
	f, err := os.OpenFile(t.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err == nil:
		err = f.Close()
	}
	if err != nil {
		return cannotOpen(t, err)
	}
	return nil
}

// usable refuses what is not a file, on which SQLite could wait for ever, and a
// directory in which everyone can put another file, or a link to one, in this
// one's place.
func usable(t Target) error {
	info, err := os.Stat(t.path)
	if err != nil {
		return cannotOpen(t, err)
	}
	if !info.Mode().IsRegular() {
		return &policy.Undecided{Message: "the control plane " + t.String() + " is not a regular file"}
	}
	if runtime.GOOS == "windows" { // which has no such modes
		return nil
	}
	real, err := filepath.EvalSymlinks(t.path)
	if err != nil {
		return cannotOpen(t, err)
	}
	for _, dir := range []string{filepath.Dir(t.path), filepath.Dir(real)} {
		info, err := os.Stat(dir)
		if err != nil {
			return cannotOpen(t, err)
		}
		if info.Mode().Perm()&0o002 != 0 {
			shown := finding.Path(filepath.ToSlash(dir))
			return &policy.Undecided{
				Message: "the control plane " + t.String() + " is in " + shown + ", where everyone can put a file of theirs in its place",
				Hint:    "name a file in a directory of its owner, or chmod o-w " + shown,
			}
		}
	}
	return nil
}

func cannotOpen(t Target, err error) error {
	why, hint := "cannot be opened", ""
	switch {
	case errors.Is(err, fs.ErrNotExist) && isLink(t.path):
		why = "is a symbolic link to a file that does not exist"
	case errors.Is(err, fs.ErrNotExist):
		if _, dirErr := os.Stat(filepath.Dir(t.path)); dirErr == nil {
			why, hint = "does not exist", "rig-hook index --all"
		} else {
			why, hint = "cannot be made: its directory does not exist", "mkdir -p "+finding.Path(filepath.ToSlash(filepath.Dir(t.path)))
		}
	case errors.Is(err, fs.ErrPermission):
		why = "cannot be opened: permission denied"
	}
	return &policy.Undecided{Message: "the control plane " + t.String() + " " + why, Hint: hint, Cause: err}
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

func (s *sqliteConn) postgres() bool { return false }

func (s *sqliteConn) keep(statement string) {
	if s.kept[statement] == nil {
		s.kept[statement] = &keptStatement{}
	}
}

func (s *sqliteConn) exec(ctx context.Context, statement string, args ...any) error {
	if k := s.kept[statement]; k != nil {
		return driver(s.c.Raw(func(c any) error { return s.does(ctx, c, k, statement, args) }))
	}
	_, err := s.c.ExecContext(ctx, statement, args...)
	return driver(err)
}

// does runs a kept statement on the driver's connection.
func (s *sqliteConn) does(ctx context.Context, c any, k *keptStatement, statement string, args []any) (err error) {
	if k.does == nil {
		if k.does, err = c.(sqldriver.ConnPrepareContext).PrepareContext(ctx, statement); err != nil {
			return err
		}
	}
	s.args = s.args[:0]
	defer func() { clear(s.args) }()
	for i, v := range args {
		switch v.(type) {
		case nil, string, int64, bool: // what a driver takes as it is
		default:
			if v, err = sqldriver.DefaultParameterConverter.ConvertValue(v); err != nil {
				return err
			}
		}
		s.args = append(s.args, sqldriver.NamedValue{Ordinal: i + 1, Value: v})
	}
	_, err = k.does.(sqldriver.StmtExecContext).ExecContext(ctx, s.args)
	return err
}

func (s *sqliteConn) query(ctx context.Context, statement string, args ...any) (rows, error) {
	var r *sql.Rows
	var err error
	if k := s.kept[statement]; k == nil {
		r, err = s.c.QueryContext(ctx, statement, args...)
	} else {
		if k.asks == nil {
			k.asks, err = s.c.PrepareContext(ctx, statement)
		}
		if err == nil {
			r, err = k.asks.QueryContext(ctx, args...)
		}
	}
	if err != nil {
		return nil, driver(err)
	}
	return sqliteRows{r}, nil
}

type sqliteRows struct{ *sql.Rows }

func (r sqliteRows) Scan(into ...any) error { return driver(r.Rows.Scan(into...)) }

func (s *sqliteConn) load(ctx context.Context, table string, columns []string, values []any) error {
	return insert(ctx, s, table, columns, values, "", nil)
}

// bulk lets SQLite write a page of an index that many rows change less often: it keeps more
// pages, and copies its log into the file when that has 64 MiB. What nobody else sees has
// no log, and stays as small as it is.
func (s *sqliteConn) bulk(ctx context.Context, on bool) error {
	if s.own {
		return nil
	}
	statements := []string{"PRAGMA cache_size = " + cachePages, "PRAGMA wal_autocheckpoint = 1000", "PRAGMA wal_checkpoint(TRUNCATE)"}
	if on {
		statements = []string{"PRAGMA cache_size = -32768", "PRAGMA wal_autocheckpoint = 16384"}
	}
	for _, statement := range statements {
		if err := s.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// In a file nothing is gained by waiting.
func (s *sqliteConn) wait()                      {}
func (s *sqliteConn) send(context.Context) error { return nil }
func (s *sqliteConn) forget()                    {}

func (s *sqliteConn) close() error {
	var err error
	for _, k := range s.kept {
		if k.asks != nil {
			err = errors.Join(err, k.asks.Close())
		}
		if k.does != nil {
			err = errors.Join(err, k.does.Close())
		}
	}
	if e := s.c.Close(); err == nil {
		err = e
	}
	if dbErr := s.db.Close(); err == nil {
		err = dbErr
	}
	return err
}

// beginReading begins a transaction that cannot write, and in which all questions see
// the same.
const beginReading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// How long a server is waited for that takes what is sent and says nothing: it hangs, or what
// stands between has forgotten the connection. An index of a very large table takes minutes.
const (
	connectTime = 10 * time.Second // unless the address has connect_timeout
	answerTime  = 5 * time.Minute
)

type postgresConn struct {
	c        *pgx.Conn
	waiting  *pgx.Batch // statements that are to be sent with the next one; nil: none waits
	patience time.Duration
}

// A wait is for what a server says to something that was sent to it.
type wait struct {
	context.Context
	timer *time.Timer
	end   context.CancelCauseFunc
}

// errSilent says that the patience with a server has ended.
var errSilent = fmt.Errorf("no answer: %w", context.DeadlineExceeded)

// answer begins to wait for one.
func (p *postgresConn) answer(ctx context.Context) *wait {
	ctx, end := context.WithCancelCause(ctx)
	return &wait{ctx, time.AfterFunc(p.patience, func() { end(errSilent) }), end}
}

// says is an error of the driver, by what led to it.
func (w *wait) says(err error) error {
	if err != nil && context.Cause(w) == errSilent {
		err = errSilent
	}
	return driver(err)
}

// over ends it, with what the driver says.
func (w *wait) over(err error) error {
	w.timer.Stop()
	err = w.says(err)
	w.end(nil)
	return err
}

type postgresRows struct {
	pgx.Rows
	sent pgx.BatchResults // of what was sent with the question; nil: nothing
	wait *wait
}

func (r postgresRows) Next() bool {
	more := r.Rows.Next()
	r.wait.timer.Stop() // the server has answered
	return more
}

func (r postgresRows) Scan(into ...any) error { return driver(r.Rows.Scan(into...)) }

func (r postgresRows) Err() error { return r.wait.says(r.Rows.Err()) }

func (r postgresRows) Close() error {
	r.Rows.Close()
	err := r.Rows.Err()
	if r.sent != nil {
		if closeErr := r.sent.Close(); err == nil {
			err = closeErr
		}
	}
	return r.wait.over(err)
}

func dialPostgres(ctx context.Context, t Target, write bool) (conn, error) {
	config, err := pgx.ParseConfig(t.dsn)
	if err != nil {
		return nil, &policy.Undecided{Message: "the address of the control plane " + t.String() + " is not understood", Hint: "postgres://HOST/DATABASE"}
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "rig-control"
	}
	// Behind a pooler of transactions (pgbouncer) nothing may be left in a
	// session, and no parameter given at its start.
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, told(ctx, t, driver(err))
	}
	p := &postgresConn{c: c, patience: answerTime}
	if !write { // until the end or Renew
		if err := p.exec(ctx, beginReading); err != nil {
			p.close()
			return nil, told(ctx, t, err)
		}
	}
	return p, nil
}

func (p *postgresConn) postgres() bool { return true }

func (p *postgresConn) keep(string) {} // the driver keeps all

func (p *postgresConn) exec(ctx context.Context, statement string, args ...any) error {
	if p.waiting != nil {
		p.waiting.Queue(statement, args...)
		return nil
	}
	w := p.answer(ctx)
	_, err := p.c.Exec(w, statement, args...)
	return w.over(err)
}

func (p *postgresConn) query(ctx context.Context, statement string, args ...any) (rows, error) {
	w := p.answer(ctx)
	if p.waiting != nil && p.waiting.Len() > 0 {
		p.waiting.Queue(statement, args...)
		sent, err := p.sent(w, 1)
		if err != nil {
			return nil, w.over(err)
		}
		r, err := sent.Query()
		if err != nil {
			_ = sent.Close() // says the same
			return nil, w.over(err)
		}
		return postgresRows{r, sent, w}, nil
	}
	r, err := p.c.Query(w, statement, args...)
	if err != nil {
		return nil, w.over(err)
	}
	return postgresRows{r, nil, w}, nil
}

// sent sends what waits, and reads what all but the last few say.
func (p *postgresConn) sent(ctx context.Context, but int) (pgx.BatchResults, error) {
	n := p.waiting.Len() - but
	sent := p.c.SendBatch(ctx, p.waiting)
	p.waiting = &pgx.Batch{}
	for range n {
		if _, err := sent.Exec(); err != nil {
			_ = sent.Close() // says the same
			return nil, err
		}
	}
	return sent, nil
}

func (p *postgresConn) bulk(context.Context, bool) error { return nil }

func (p *postgresConn) wait() { p.waiting = &pgx.Batch{} }

func (p *postgresConn) send(ctx context.Context) error {
	if p.waiting == nil || p.waiting.Len() == 0 {
		return nil
	}
	w := p.answer(ctx)
	sent, err := p.sent(w, 0)
	if err == nil {
		err = sent.Close()
	}
	return w.over(err)
}

func (p *postgresConn) forget() { p.waiting = nil }

func (p *postgresConn) load(ctx context.Context, table string, columns []string, values []any) error {
	if err := p.send(ctx); err != nil {
		return err
	}
	n, w := len(columns), p.answer(ctx)
	_, err := p.c.CopyFrom(w, pgx.Identifier{table}, columns, pgx.CopyFromSlice(len(values)/n, func(i int) ([]any, error) { return values[i*n : (i+1)*n], nil }))
	return w.over(err)
}

func (p *postgresConn) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	return driver(p.c.Close(ctx))
}

// told says in one sentence what is wrong with a database. What a driver says
// is quoted, and only where it cannot hold the address with its credentials.
func told(ctx context.Context, t Target, err error) error {
	var db *dbError
	if !errors.As(err, &db) {
		return err
	}
	u := &policy.Undecided{Message: "the control plane " + t.String() + " ", Cause: err}
	var pg *pgconn.PgError
	var lite *sqlite.Error
	var network *net.OpError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &pg) && pg.Code == "25006":
		u.Message += "is read-only"
	case errors.As(err, &pg) && pg.Code == "57P01":
		u.Message += "ended the connection"
	case errors.As(err, &pg) && (pg.Code == "28P01" || pg.Code == "28000"):
		u.Message += "refused the user or the password"
		u.Hint = "give the password in PGPASSWORD or a pgpass file"
	case errors.As(err, &pg) && pg.Code == "3D000":
		u.Message += "has no such database"
		u.Hint = "createdb " + finding.Path(strings.TrimPrefix(t.name[strings.LastIndexByte(t.name, '/'):], "/"))
	case errors.As(err, &pg) && pg.Code == "42501":
		u.Message += "refused the role this: " + finding.QuoteMax(pg.Message, 160)
		u.Hint = "as the owner of the tables: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ROLE"
	case errors.As(err, &pg) && pg.Code == "53100":
		u.Message += liteProblem(13)
		u.Hint = "on the server of the database: df -h, and make room"
	case errors.As(err, &pg) && pg.Code == "55P03":
		u.Message += liteProblem(5)
	case errors.As(err, &pg):
		u.Message += "answered " + finding.QuoteMax(pg.Message, 160) + " (" + finding.QuoteMax(pg.Code, 10) + ")"
	case errors.As(err, &lite):
		u.Message += liteProblem(lite.Code() & 0xff)
		if lite.Code()&0xff == 26 || lite.Code()&0xff == 11 {
			u.Hint = "delete the file, then rig-hook index --all"
		}
		if code := lite.Code() & 0xff; (code == 14 || code == 8) && t.path != "" {
			u.Hint = "let it belong to the user of the hooks: chown USER " + finding.Word(filepath.ToSlash(t.path)) + "*"
		} else if (code == 10 || code == 13) && t.path != "" { // SQLite says 10, too, where its shared memory has no room
			dir := finding.Word(filepath.ToSlash(filepath.Dir(t.path)))
			u.Hint = "make room, and run it again: df -h " + dir + "; df -i " + dir
		}
	case errors.Is(ctx.Err(), context.Canceled):
		u.Message += "was left before all was written; what was written is kept"
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		u.Message += "did not answer in time"
		if t.path != "" {
			u.Message += "; it may be locked"
		}
	case errors.As(err, &network):
		u.Message += "cannot be reached: " + finding.QuoteMax(network.Err.Error(), 120)
	case errors.As(err, &connect):
		u.Message += "cannot be reached: " + finding.QuoteMax(connect.Unwrap().Error(), 160)
	default:
		u.Message += "lost the connection"
		if t.path != "" {
			u.Message = "the control plane " + t.String() + " cannot be used: " + finding.QuoteMax(err.Error(), 120)
		}
	}
	return u
}

// liteProblem says what SQLite's primary result code means
// (https://www.sqlite.org/rescode.html).
func liteProblem(code int) string {
	switch code {
	case 5, 6:
		return "is locked by another program for longer than 2 seconds"
	case 8:
		return "is read-only"
	case 9:
		return "did not answer in time"
	case 10:
		return "cannot be read or written: input/output error, as where the disk is full"
	case 11:
		return "is damaged"
	case 13:
		return "cannot grow: the disk is full"
	case 14:
		return "cannot be opened"
	case 23:
		return "may not be used"
	case 26:
		return "is not an SQLite database"
	}
	return "answered with SQLite's code " + itoa(code)
}
