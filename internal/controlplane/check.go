package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// messageColumns and eventColumns are what is compared: all but keys and the
// time at which a row was written.
var (
	messageColumns = strings.Fields("thread filename message_type from_rig to_rig lifecycle_state status_class status_text tldr envelope_date commit_sha parent_refs run_id body_hash in_reply_to nonce attested_by attested_at path blob verdict rules signature_good signer signer_principal commit_time words")
	eventColumns   = strings.Fields("thread filename to_rig message_commit event_type rig notes commit_sha of_to_rig of_from_rig of_message_type created_at")
)

// A Difference is one way in which a database is not what the history says.
type Difference struct {
	What    string // the row, for people
	Message string // what is wrong with it
}

// Check compares the database with what a new one, made of the history in a place
// of its own, would hold. It returns at most limit differences, and how many there
// are. Nothing is written.
func (x *Indexer) Check(ctx context.Context, limit int) (found []Difference, n int, err error) {
	own := Target{path: scratch, name: "for the comparison"}
	c, err := dial(ctx, own, true)
	if err != nil {
		return nil, 0, err
	}
	defer c.close()
	if err = migrate(ctx, c, own, migrations); err == nil {
		err = strip(ctx, c)
	}
	if err == nil { // each page is used a few times at once
		err = c.exec(ctx, "PRAGMA cache_size = -8192")
	}
	if err != nil {
		return nil, 0, told(ctx, own, err)
	}
	if !x.DB.conn.postgres() { // which is read from one end to the other
		if err := x.DB.conn.exec(ctx, "PRAGMA cache_size = -2048"); err != nil {
			return nil, 0, told(ctx, x.DB.target, err)
		}
		defer func() { _ = x.DB.conn.exec(context.WithoutCancel(ctx), "PRAGMA cache_size = "+cachePages) }()
	}
	fresh := *x
	fresh.check = true
	fresh.DB = &DB{c, own}
	if _, err := fresh.Update(ctx); err != nil {
		return nil, 0, err
	}
	found, n, err = x.compare(ctx, c, limit)
	return found, n, told(ctx, x.DB.target, err)
}

// compare compares the database with c, which holds what is expected.
func (x *Indexer) compare(ctx context.Context, c conn, limit int) (found []Difference, n int, err error) {
	var all map[string]bool
	// reachable reports whether the refs have a commit, which is asked of those with a difference.
	reachable := func(commit string) (bool, error) {
		if all == nil {
			tips, err := x.Refs(ctx, nil)
			if err == nil {
				all, err = x.reachable(ctx, slices.Compact(slices.Sorted(maps.Values(tips))))
			}
			if err != nil {
				return false, err
			}
		}
		return all[commit], nil
	}
	add := func(what, message string) {
		if n++; n <= limit {
			found = append(found, Difference{what, message})
		}
	}
	if err = x.compareMessages(ctx, c, reachable, add); err == nil {
		err = x.compareEvents(ctx, c, reachable, add)
	}
	for _, t := range derived {
		if err == nil {
			err = x.compareTable(ctx, c, t, add)
		}
	}
	if err == nil && !x.DB.conn.postgres() {
		err = x.lostWords(ctx, add)
	}
	return found, n, err
}

// strip takes from a database of SQLite that nobody else sees what the writing of it does not
// need: the index of words, those of questions, and what guards events.
func strip(ctx context.Context, c conn) error {
	var drop []string
	err := each(ctx, c, `SELECT type, name FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL
AND name NOT IN ('bridge_messages_thread', 'bridge_messages_body_hash', 'bridge_messages_nonce', 'bridge_message_events_no_delete')`, nil, func(r rows) error {
		var kind, name string
		err := r.Scan(&kind, &name)
		drop = append(drop, "DROP "+kind+" "+name)
		return err
	})
	for _, statement := range drop {
		if err == nil {
			err = c.exec(ctx, statement)
		}
	}
	return err
}

// lostWords finds the messages that SQLite's table of words has lost. In PostgreSQL it is an
// index, which the database keeps by itself.
func (x *Indexer) lostWords(ctx context.Context, add func(what, message string)) error {
	return each(ctx, x.DB.conn, `SELECT thread, filename, to_rig, commit_sha FROM bridge_messages m WHERE repo_id = `+theID+` AND words IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM rigward_search_docsize d WHERE d.id = m.id) ORDER BY id`, []any{x.Name}, func(r rows) error {
		var thread, file, to, commit string
		err := r.Scan(&thread, &file, &to, &commit)
		add(fmt.Sprintf("%s/%s to %s (commit %s)", thread, file, to, finding.Short(commit)), "a search does not find it")
		return err
	})
}

// A digest stands for a text.
type digest [16]byte

func digestOf(parts ...string) digest {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return digest(sum[:16])
}

// everyRow gives fn the messages or events of a repository, each with its key, and with
// a digest of the words, which are long; digested says that the database has that.
func everyRow(ctx context.Context, c conn, name string, events, digested bool, fn func(key string, values []string)) error {
	columns, statement := messageColumns, "SELECT "+strings.Join(messageColumns, ", ")+" FROM bridge_messages WHERE repo_id = "+theID
	if events {
		columns = eventColumns
		statement = "SELECT m.thread, m.filename, m.to_rig, m.commit_sha, e.event_type, e.rig, e.notes, e.commit_sha, e.to_rig, e.from_rig, e.message_type, e.created_at FROM bridge_message_events e LEFT JOIN bridge_messages m ON e.message_id = m.id AND e.repo_id = m.repo_id WHERE e.repo_id = " + theID
	}
	into := make([]any, len(columns))
	cells := make([]*string, len(columns))
	var signed *bool
	for i, name := range columns {
		if into[i] = &cells[i]; name == "signature_good" {
			into[i] = &signed
		}
	}
	return each(ctx, c, statement, []any{name}, func(r rows) error {
		values := make([]string, len(columns))
		if err := r.Scan(into...); err != nil {
			return err
		}
		for i, name := range columns {
			switch {
			case name == "signature_good" && signed != nil:
				values[i] = strconv.FormatBool(*signed)
			case name == "signature_good" || cells[i] == nil:
				values[i] = "NULL"
			case name == "words" && !digested:
				values[i] = "'" + wordsDigest(*cells[i]) + "'"
			default:
				values[i] = "'" + *cells[i] + "'"
			}
		}
		key := strings.Join([]string{values[0], values[1], values[4], values[min(10, len(values)-1)]}, "\x00")
		if events {
			key = strings.Join(append(values[:6:6], values[7]), "\x00")
		}
		fn(key, values)
		return nil
	})
}

// wordsDigest stands for words.
func wordsDigest(words string) string {
	d := digestOf(words)
	return hex.EncodeToString(d[:])
}

// stateColumn is the state in messageColumns.
const stateColumn = 5

// received reports whether a row is one that another side has received, and so may
// stand for one that was sent.
func received(events bool, values []string) bool {
	return !events && values[stateColumn] == "'received'"
}

// differing reads the messages or events that are not the same in c, which holds what
// is expected, and in the database, by key. Of the others no more than a digest is
// held at any time.
func (x *Indexer) differing(ctx context.Context, c conn, events bool) (want, have map[string][]string, err error) {
	expected := map[digest]digest{}
	if err := everyRow(ctx, c, x.Name, events, true, func(key string, values []string) { expected[digestOf(key)] = digestOf(values...) }); err != nil {
		return nil, nil, err
	}
	odd := map[digest]bool{}
	err = everyRow(ctx, x.DB.conn, x.Name, events, false, func(key string, values []string) {
		k := digestOf(key)
		v, known := expected[k]
		same := known && v == digestOf(values...)
		if known && !same && received(events, values) {
			values[stateColumn] = "'sent'"
			same = v == digestOf(values...)
		}
		if !same {
			odd[k] = true
		}
		delete(expected, k)
	})
	if err != nil {
		return nil, nil, err
	}
	for k := range expected {
		odd[k] = true
	}
	want, have = map[string][]string{}, map[string][]string{}
	if len(odd) == 0 {
		return want, have, nil
	}
	for _, side := range []struct {
		c    conn
		into map[string][]string
	}{{c, want}, {x.DB.conn, have}} {
		err := everyRow(ctx, side.c, x.Name, events, side.c == c, func(key string, values []string) {
			if odd[digestOf(key)] {
				side.into[key] = values
			}
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return want, have, nil
}

func (x *Indexer) compareMessages(ctx context.Context, c conn, reachable func(commit string) (bool, error), add func(what, message string)) error {
	want, have, err := x.differing(ctx, c, false)
	if err != nil {
		return err
	}
	const commit = 10
	what := func(v []string) string {
		return fmt.Sprintf("%s/%s to %s (commit %s)", plain(v[0]), plain(v[1]), plain(v[4]), finding.Short(plain(v[commit])))
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		w, h := want[key], have[key]
		if h == nil {
			add(what(w), "the row is missing")
			continue
		}
		for i, name := range messageColumns {
			if h[i] == w[i] || i == stateColumn && received(false, h) && w[i] == "'sent'" {
				continue // a server that shares the database has received it
			}
			add(what(w), fmt.Sprintf("%s is %s, expected %s", name, finding.QuoteMax(plain(h[i]), 60), finding.QuoteMax(plain(w[i]), 60)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		h := have[key]
		if want[key] != nil {
			continue
		}
		there, err := reachable(plain(h[commit]))
		switch {
		case err != nil:
			return err
		case there:
			add(what(h), "the commit brings no such message")
		case h[stateColumn] != "'superseded'":
			add(what(h), "the commit is not reachable, and the row is not superseded")
		}
	}
	return nil
}

func (x *Indexer) compareEvents(ctx context.Context, c conn, reachable func(commit string) (bool, error), add func(what, message string)) error {
	want, have, err := x.differing(ctx, c, true)
	if err != nil {
		return err
	}
	what := func(v []string) string {
		return fmt.Sprintf("event %s by %s of %s/%s to %s (commit %s)", plain(v[4]), plain(v[5]), plain(v[0]), plain(v[1]), plain(v[2]), finding.Short(plain(v[7])))
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		w, h := want[key], have[key]
		if h == nil {
			add(what(w), "the row is missing")
			continue
		}
		for i, name := range eventColumns {
			if h[i] != w[i] {
				add(what(w), fmt.Sprintf("%s is %s, expected %s", strings.TrimPrefix(name, "of_"), finding.QuoteMax(plain(h[i]), 60), finding.QuoteMax(plain(w[i]), 60)))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		h := have[key]
		switch kind := plain(h[4]); {
		case h[0] == "NULL":
			add(what(h), "the message of the event is missing")
			continue
		case want[key] != nil || kind == "superseded" || kind == "drafted":
			continue
		case h[7] == h[3] && (kind == "sent" && h[5] == h[9] || kind == "received" && h[5] == h[2]): // of the other side, where both share the database
			continue
		}
		of, err := reachable(plain(h[3]))
		if err != nil {
			return err
		}
		by, err := reachable(plain(h[7]))
		if err != nil {
			return err
		}
		if of && by { // else it is of a history that was rewritten
			add(what(h), "nothing in the history is the cause of this event")
		}
	}
	return nil
}

// A table is one that is the same whatever was in it before.
type table struct{ what, statement string }

var derived = []table{
	{"thread", `SELECT t.thread, t.last_time, t.closed, t.counts, l.filename, l.commit_sha, u.filename, u.commit_sha FROM rigward_threads t
LEFT JOIN bridge_messages l ON l.id = t.last_id AND l.repo_id = t.repo_id LEFT JOIN bridge_messages u ON u.id = t.turn_id AND u.repo_id = t.repo_id WHERE t.repo_id = ` + theID},
	{"open thread", `SELECT o.thread, o.rig, o.from_rig, o.message_type, o.last_time, m.filename, m.commit_sha FROM rigward_open o
LEFT JOIN bridge_messages m ON m.id = o.last_id AND m.repo_id = o.repo_id WHERE o.repo_id = ` + theID},
	{"turn", `SELECT w.thread, w.rig, w.from_rig, w.message_type, w.at, w.last_time, m.filename, m.commit_sha, m.to_rig FROM rigward_turns w
LEFT JOIN bridge_messages m ON m.id = w.message_id AND m.repo_id = w.repo_id WHERE w.repo_id = ` + theID},
	{"day", "SELECT day, rig, received, sent, refused, took FROM rigward_days WHERE repo_id = " + theID},
	{"refusal", "SELECT commit_sha, path, thread, filename, committer, rules, commit_time FROM rigward_refused WHERE repo_id = " + theID},
	{"late commit", "SELECT commit_sha, second, step FROM rigward_late WHERE repo_id = " + theID},
	{"recorded ref", "SELECT ref, commit_sha FROM rigward_tips WHERE repo_id = " + theID},
	{"judgement", "SELECT judged FROM rigward_repositories WHERE repo = $1"},
}

// lines reads the rows of a table, each as one text.
func (t table) lines(ctx context.Context, c conn, name string) (map[string]bool, error) {
	all := map[string]bool{}
	r, err := c.query(ctx, t.statement, name)
	if err != nil {
		return nil, err
	}
	columns := strings.Count(strings.SplitN(t.statement, " FROM ", 2)[0], ",") + 1
	for r.Next() {
		values, into := make([]any, columns), make([]any, columns)
		for i := range values {
			into[i] = &values[i]
		}
		if err := r.Scan(into...); err != nil {
			r.Close()
			return nil, err
		}
		var b strings.Builder
		for i, v := range values {
			if n, ok := v.(int64); ok && t.what == "thread" { // SQLite has no booleans of its own
				v = n != 0
			}
			if i > 0 {
				b.WriteByte(' ')
			}
			if v == nil {
				b.WriteString("NULL")
			} else {
				fmt.Fprint(&b, v)
			}
		}
		all[b.String()] = true
	}
	err = driver(r.Err())
	if closeErr := r.Close(); err == nil {
		err = driver(closeErr)
	}
	return all, err
}

func (x *Indexer) compareTable(ctx context.Context, c conn, t table, add func(what, message string)) error {
	want, err := t.lines(ctx, c, x.Name)
	if err != nil {
		return err
	}
	have, err := t.lines(ctx, x.DB.conn, x.Name)
	if err != nil {
		return err
	}
	for _, line := range slices.Sorted(maps.Keys(want)) {
		if !have[line] {
			add(t.what+" "+finding.QuoteMax(line, 120), "the row is missing")
		}
	}
	for _, line := range slices.Sorted(maps.Keys(have)) {
		if !want[line] {
			add(t.what+" "+finding.QuoteMax(line, 120), "nothing in the history is the cause of this row")
		}
	}
	return nil
}

// plain takes a value out of its quotes.
func plain(v string) string {
	if len(v) >= 2 && v[0] == '\'' {
		return v[1 : len(v)-1]
	}
	return v
}
