package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
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
	fresh.DB = &DB{conn: c, target: own}
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
	return found, n, err
}

// unique is what forbids a table of SQLite to have a row twice.
var unique = regexp.MustCompile(`,\s*UNIQUE \([^)]*\)`)

// strip takes from a database of SQLite that nobody else sees, and that is written once, what the
// writing of it does not need: the index of words, those of questions, and what guards the rows.
// What is left of indexes grows at its end. One in the order of hashes has each of its pages read
// and written again for every few rows when it is larger than what SQLite keeps in memory: sought
// makes it when it is needed.
func strip(ctx context.Context, c conn) error {
	var tables, indexes []string
	err := each(ctx, c, `SELECT type, name, sql FROM sqlite_master WHERE name IN ('bridge_messages', 'bridge_message_events', 'bridge_messages_thread', 'bridge_messages_nonce')
OR type = 'index' AND sql IS NOT NULL AND tbl_name NOT IN ('bridge_messages', 'bridge_message_events')`, nil, func(r rows) error {
		var kind, name, sql string
		err := r.Scan(&kind, &name, &sql)
		switch {
		case kind == "table": // what is of it goes with it
			tables = append(tables, "DROP TABLE "+name, unique.ReplaceAllString(sql, ""))
		case strings.HasPrefix(name, "bridge_"):
			indexes = append(indexes, sql)
		default:
			tables = append(tables, "DROP INDEX "+name)
		}
		return err
	})
	indexes = append(indexes, "CREATE INDEX sought_event ON bridge_message_events (message_id) WHERE event_type IN ('acked', 'resolved')")
	for _, statement := range slices.Concat(tables, indexes) {
		if err == nil {
			err = c.exec(ctx, statement)
		}
	}
	return err
}

// sought makes the index of a column of messages by which a few are looked up, where strip has
// taken it.
func (x *Indexer) sought(ctx context.Context, column string) error {
	if !x.check {
		return nil
	}
	return x.DB.conn.exec(ctx, "CREATE INDEX IF NOT EXISTS sought_"+column+" ON bridge_messages ("+column+")")
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

func digestOf(text string) digest {
	sum := sha256.Sum256([]byte(text))
	return digest(sum[:16])
}

// between stands between the columns of a row that is read as one text.
const between = "\x1f"

// wholly is the expression for a row as one text: each column with = before it, or - for what is NULL.
// A database makes it in a fraction of the time that reading the columns one by one takes. With
// exact, no two rows have the same.
func wholly(columns []string, exact bool) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		if strings.HasSuffix(c, "signature_good") || strings.HasSuffix(c, "closed") { // SQLite has no booleans of its own
			c = "CASE WHEN " + c + " THEN 'true' WHEN NOT " + c + " THEN 'false' END"
		}
		if exact {
			c = "replace(CAST(" + c + " AS TEXT), '" + between + "', '" + between + between + "')"
		}
		parts[i] = "coalesce('=' || " + c + ", '-')"
	}
	return "concat_ws('" + between + "', " + strings.Join(parts, ", ") + ")"
}

// cut takes the first columns from a row that is one text.
func cut(row string, columns int) (first, rest string) {
	at := 0
	for range columns {
		i := strings.Index(row[at:], between)
		if i < 0 {
			return row, ""
		}
		at += i + 1
	}
	return row[:max(at-1, 0)], row[at:]
}

// messageKey and eventKey are the columns that tell messages and events apart, stateColumn is
// the one that follows those of a message here, and wordsColumn stands by itself. messageText are
// all but that.
var (
	messageKey = strings.Fields("thread filename to_rig commit_sha")
	eventKey   = strings.Fields("m.thread m.filename m.to_rig m.commit_sha e.event_type e.rig e.commit_sha")
	eventRest  = strings.Fields("e.notes e.to_rig e.from_rig e.message_type e.created_at")

	messageText = slices.Concat(messageKey, []string{stateColumn}, slices.DeleteFunc(slices.Clone(messageColumns), func(name string) bool {
		return name == stateColumn || name == wordsColumn || slices.Contains(messageKey, name)
	}))
)

const (
	stateColumn = "lifecycle_state"
	wordsColumn = "words"
	ofEvents    = " FROM bridge_message_events e LEFT JOIN bridge_messages m ON e.message_id = m.id AND e.repo_id = m.repo_id WHERE e.repo_id = " + theID
	ofMessages  = " FROM bridge_messages WHERE repo_id = " + theID
)

// An entry is a message or an event as a database has it.
type entry struct {
	text  string // key, state and the rest in a row
	words string // of a message, or what stands for them
	lost  bool   // it has words by which a search does not find it
}

// entries gives fn all messages or events of a repository; digested says that the database
// has a digest of the words.
func entries(ctx context.Context, c conn, name string, events, digested bool, fn func(entry)) error {
	if events {
		return each(ctx, c, "SELECT "+wholly(slices.Concat(eventKey, eventRest), false)+ofEvents, []any{name}, func(r rows) error {
			var e entry
			err := r.Scan(&e.text)
			fn(e)
			return err
		})
	}
	lost := "false"
	if !c.postgres() && !digested { // in PostgreSQL the words are an index, which it keeps by itself
		lost = "words IS NOT NULL AND NOT EXISTS (SELECT 1 FROM rigward_search_docsize d WHERE d.id = bridge_messages.id)"
	}
	return each(ctx, c, "SELECT "+wholly(messageText, false)+", "+wholly([]string{wordsColumn}, false)+", "+lost+ofMessages, []any{name}, func(r rows) error {
		var e entry
		err := r.Scan(&e.text, &e.words, &e.lost)
		if words, some := strings.CutPrefix(e.words, "="); some && !digested {
			e.words = "=" + wordsDigest(words)
		}
		fn(e)
		return err
	})
}

// unclear reports whether an entry does not tell where each column ends.
func (e entry) unclear(events bool) bool {
	columns := len(messageText)
	if events {
		columns = len(eventKey) + len(eventRest)
	}
	return strings.Count(e.text, between) != columns-1
}

// A summary stands for an entry.
type summary struct {
	row  digest
	sent digest // of a message that was received, as row would be if it had been sent; else zero
}

func (e entry) summary(events bool) (key digest, s summary) {
	n := len(messageKey)
	if events {
		n = len(eventKey)
	}
	first, rest := cut(e.text, n)
	s.row = digestOf(rest + between + e.words)
	if state, others := cut(rest, 1); state == "=received" && !events {
		s.sent = digestOf("=sent" + between + others + between + e.words)
	}
	return digestOf(first), s
}

// beside reads what two databases have at once, and gives fn what stands at the same place, nil
// where one has come to its end.
func beside[T any](want, have func(fn func(T)) error, fn func(want, have *T)) error {
	const portion = 256
	read := func(from func(fn func(T)) error) (<-chan []T, *error) {
		all, err := make(chan []T, 1), new(error)
		go func() {
			defer close(all)
			var part []T
			*err = from(func(one T) {
				if part = append(part, one); len(part) == portion {
					all <- part
					part = make([]T, 0, portion)
				}
			})
			all <- part
		}()
		return all, err
	}
	one, oneErr := read(want)
	two, twoErr := read(have)
	var w, h []T
	for moreW, moreH := true, true; ; {
		for moreW && len(w) == 0 {
			w, moreW = <-one
		}
		for moreH && len(h) == 0 {
			h, moreH = <-two
		}
		if !moreW && !moreH {
			break
		}
		var a, b *T
		if len(w) > 0 {
			a, w = &w[0], w[1:]
		}
		if len(h) > 0 {
			b, h = &h[0], h[1:]
		}
		fn(a, b)
	}
	if *oneErr != nil {
		return *oneErr
	}
	return *twoErr
}

// everyRow gives fn the messages or events of a repository, each with its key, and with
// a digest of the words, which are long; digested says that the database has that.
func everyRow(ctx context.Context, c conn, name string, events, digested bool, fn func(key string, values []string)) error {
	columns, statement := messageColumns, "SELECT "+strings.Join(messageColumns, ", ")+ofMessages
	if events {
		columns = eventColumns
		statement = "SELECT m.thread, m.filename, m.to_rig, m.commit_sha, e.event_type, e.rig, e.notes, e.commit_sha, e.to_rig, e.from_rig, e.message_type, e.created_at" + ofEvents
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
			case name == wordsColumn && !digested:
				values[i] = "'" + wordsDigest(*cells[i]) + "'"
			default:
				values[i] = "'" + *cells[i] + "'"
			}
		}
		keys := []int{0, 1, 4, 10}
		if events {
			keys = []int{0, 1, 2, 3, 4, 5, 7}
		}
		parts := make([]string, len(keys))
		for i, k := range keys {
			if parts[i] = "-"; cells[k] != nil {
				parts[i] = "=" + *cells[k]
			}
		}
		key := strings.Join(parts, between)
		fn(key, values)
		return nil
	})
}

// wordsDigest stands for words.
func wordsDigest(words string) string {
	d := digestOf(words)
	return hex.EncodeToString(d[:])
}

// differing reads the messages or events that are not the same in c, which holds what
// is expected, and in the database, by key; and reports whether the database has words by which
// a search finds nothing. No more than a digest is held of what the two have not in the same
// order.
func (x *Indexer) differing(ctx context.Context, c conn, events bool) (want, have map[string][]string, lost bool, err error) {
	expected, found, odd := map[digest]summary{}, map[digest]summary{}, map[digest]bool{}
	compared := func(key digest, e, f summary) {
		if e.row != f.row && e.row != f.sent {
			odd[key] = true
		}
	}
	err = beside(func(fn func(entry)) error { return entries(ctx, c, x.Name, events, true, fn) },
		func(fn func(entry)) error { return entries(ctx, x.DB.conn, x.Name, events, false, fn) },
		func(e, f *entry) {
			lost = lost || f != nil && f.lost
			clear := e == nil || !e.unclear(events)
			if e != nil && f != nil && e.text == f.text && e.words == f.words && clear {
				return
			}
			if e != nil {
				key, s := e.summary(events)
				if !clear {
					odd[key] = true
				}
				if other, known := found[key]; known {
					compared(key, s, other)
					delete(found, key)
				} else {
					expected[key] = s
				}
			}
			if f != nil {
				key, s := f.summary(events)
				if other, known := expected[key]; known {
					compared(key, other, s)
					delete(expected, key)
				} else {
					found[key] = s
				}
			}
		})
	if err != nil {
		return nil, nil, lost, err
	}
	for _, alone := range []map[digest]summary{expected, found} {
		for key := range alone {
			odd[key] = true
		}
	}
	want, have = map[string][]string{}, map[string][]string{}
	if len(odd) == 0 {
		return want, have, lost, nil
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
			return nil, nil, lost, err
		}
	}
	return want, have, lost, nil
}

func (x *Indexer) compareMessages(ctx context.Context, c conn, reachable func(commit string) (bool, error), add func(what, message string)) error {
	want, have, lost, err := x.differing(ctx, c, false)
	if err != nil {
		return err
	}
	if lost {
		if err := x.lostWords(ctx, add); err != nil {
			return err
		}
	}
	const state, commit = 5, 10
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
			if h[i] == w[i] || name == stateColumn && h[i] == "'received'" && w[i] == "'sent'" {
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
		case h[state] != "'superseded'":
			add(what(h), "the commit is not reachable, and the row is not superseded")
		}
	}
	return nil
}

func (x *Indexer) compareEvents(ctx context.Context, c conn, reachable func(commit string) (bool, error), add func(what, message string)) error {
	want, have, _, err := x.differing(ctx, c, true)
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
type table struct{ what, columns, from string }

var derived = []table{
	{"thread", "t.thread t.last_time t.closed t.counts l.filename l.commit_sha u.filename u.commit_sha", `rigward_threads t
LEFT JOIN bridge_messages l ON l.id = t.last_id AND l.repo_id = t.repo_id LEFT JOIN bridge_messages u ON u.id = t.turn_id AND u.repo_id = t.repo_id WHERE t.repo_id = ` + theID},
	{"open thread", "o.thread o.rig o.from_rig o.message_type o.last_time m.filename m.commit_sha", `rigward_open o
LEFT JOIN bridge_messages m ON m.id = o.last_id AND m.repo_id = o.repo_id WHERE o.repo_id = ` + theID},
	{"turn", "w.thread w.rig w.from_rig w.message_type w.at w.last_time m.filename m.commit_sha m.to_rig", `rigward_turns w
LEFT JOIN bridge_messages m ON m.id = w.message_id AND m.repo_id = w.repo_id WHERE w.repo_id = ` + theID},
	{"backlog", "rig from_rig message_type threads", "rigward_backlog WHERE repo_id = " + theID},
	{"day", "day rig received sent refused took", "rigward_days WHERE repo_id = " + theID},
	{"refusal", "commit_sha path thread filename committer rules commit_time", "rigward_refused WHERE repo_id = " + theID},
	{"late commit", "commit_sha second step", "rigward_late WHERE repo_id = " + theID},
	{"recorded ref", "ref commit_sha", "rigward_tips WHERE repo_id = " + theID},
	{"judgement", "judged", "rigward_repositories WHERE repo = $1"},
}

// lines gives fn the rows of a table, each as one text.
func (t table) lines(ctx context.Context, c conn, name string, fn func(line string)) error {
	return each(ctx, c, "SELECT "+wholly(strings.Fields(t.columns), true)+" FROM "+t.from, []any{name}, func(r rows) error {
		var line string
		err := r.Scan(&line)
		fn(line)
		return err
	})
}

// shown is such a text for people.
func shown(line string) string {
	cells := strings.Split(line, between)
	for i, cell := range cells {
		if cells[i] = strings.TrimPrefix(cell, "="); cell == "-" {
			cells[i] = "NULL"
		}
	}
	return finding.QuoteMax(strings.Join(cells, " "), 120)
}

func (x *Indexer) compareTable(ctx context.Context, c conn, t table, add func(what, message string)) error {
	odd := map[digest]bool{} // what is on one side alone
	alone := func(line *string) {
		if line == nil {
			return
		}
		if d := digestOf(*line); odd[d] {
			delete(odd, d)
		} else {
			odd[d] = true
		}
	}
	err := beside(func(fn func(string)) error { return t.lines(ctx, c, x.Name, fn) },
		func(fn func(string)) error { return t.lines(ctx, x.DB.conn, x.Name, fn) },
		func(want, have *string) {
			if want != nil && have != nil && *want == *have {
				return
			}
			alone(want)
			alone(have)
		})
	if err != nil || len(odd) == 0 {
		return err
	}
	for _, side := range []struct {
		c       conn
		message string
	}{{c, "the row is missing"}, {x.DB.conn, "nothing in the history is the cause of this row"}} {
		var lines []string
		err := t.lines(ctx, side.c, x.Name, func(line string) {
			if odd[digestOf(line)] {
				lines = append(lines, line)
			}
		})
		if err != nil {
			return err
		}
		slices.Sort(lines)
		for _, line := range lines {
			add(t.what+" "+shown(line), side.message)
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
