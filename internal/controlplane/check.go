package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// messageColumns and eventColumns are what is compared: all but keys and the
// time at which a row was written.
var (
	messageColumns = strings.Fields("thread filename message_type from_rig to_rig lifecycle_state status_class status_text tldr envelope_date commit_sha parent_refs run_id body_hash in_reply_to nonce attested_by attested_at path blob verdict rules signature_good signer signer_principal commit_time words")
	eventColumns   = strings.Fields("thread filename to_rig message_commit event_type rig notes commit_sha")
)

// A Difference is one way in which a database is not what the history says.
type Difference struct {
	What    string // the row, for people
	Message string // what is wrong with it
}

// Check compares the database with what a new one, made in memory from the
// history, would hold. It returns at most limit differences, and how many there
// are. Nothing is written.
func (x *Indexer) Check(ctx context.Context, limit int) (found []Difference, n int, err error) {
	c, err := dial(ctx, Target{path: memory, name: "in memory"}, true)
	if err != nil {
		return nil, 0, err
	}
	defer c.close()
	own := Target{path: memory, name: "in memory"}
	if err := migrate(ctx, c, own, migrations); err != nil {
		return nil, 0, told(ctx, own, err)
	}
	fresh := *x
	fresh.DB = &DB{c, own}
	if _, err := fresh.Update(ctx); err != nil {
		return nil, 0, err
	}
	add := func(what, message string) {
		if n++; n <= limit {
			found = append(found, Difference{what, message})
		}
	}
	tips, err := x.Refs(ctx, nil)
	if err != nil {
		return nil, 0, err
	}
	reachable, err := x.reachable(ctx, slices.Compact(slices.Sorted(maps.Values(tips))))
	if err != nil {
		return nil, 0, err
	}
	if err = x.compareMessages(ctx, c, reachable, add); err == nil {
		err = x.compareEvents(ctx, c, reachable, add)
	}
	for _, t := range derived {
		if err == nil {
			err = x.compareTable(ctx, c, t, add)
		}
	}
	return found, n, told(ctx, x.DB.target, err)
}

// dump reads the messages or events of a repository: values by key.
func dump(ctx context.Context, c conn, name string, events bool) (map[string][]string, error) {
	all := map[string][]string{}
	columns, statement := messageColumns, "SELECT "+strings.Join(messageColumns, ", ")+" FROM bridge_messages WHERE repo = $1"
	if events {
		columns = eventColumns
		statement = "SELECT m.thread, m.filename, m.to_rig, m.commit_sha, e.event_type, e.rig, e.notes, e.commit_sha FROM bridge_messages m JOIN bridge_message_events e ON e.message_id = m.id WHERE m.repo = $1"
	}
	err := each(ctx, c, statement, []any{name}, func(r rows) error {
		values := make([]string, len(columns))
		into := make([]any, len(columns))
		cells := make([]*string, len(columns))
		var signed *bool
		for i, name := range columns {
			if into[i] = &cells[i]; name == "signature_good" {
				into[i] = &signed
			}
		}
		if err := r.Scan(into...); err != nil {
			return err
		}
		for i, name := range columns {
			switch {
			case name == "signature_good" && signed != nil:
				values[i] = fmt.Sprint(*signed)
			case name == "signature_good" || cells[i] == nil:
				values[i] = "NULL"
			case name == "words": // which are long, and kept of all rows at once
				sum := sha256.Sum256([]byte(*cells[i]))
				values[i] = "'" + hex.EncodeToString(sum[:8]) + "'"
			default:
				values[i] = "'" + *cells[i] + "'"
			}
		}
		key := strings.Join([]string{values[0], values[1], values[4], values[min(10, len(values)-1)]}, "\x00")
		if events {
			key = strings.Join(slices.Concat(values[:6], values[7:]), "\x00")
		}
		all[key] = values
		return nil
	})
	return all, err
}

func (x *Indexer) compareMessages(ctx context.Context, c conn, reachable map[string]bool, add func(what, message string)) error {
	want, err := dump(ctx, c, x.Name, false)
	if err != nil {
		return err
	}
	have, err := dump(ctx, x.DB.conn, x.Name, false)
	if err != nil {
		return err
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
			if h[i] == w[i] || i == state && h[i] == "'received'" && w[i] == "'sent'" {
				continue // a server that shares the database has received it
			}
			add(what(w), fmt.Sprintf("%s is %s, expected %s", name, finding.QuoteMax(plain(h[i]), 60), finding.QuoteMax(plain(w[i]), 60)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		h := have[key]
		switch {
		case want[key] != nil:
		case !reachable[plain(h[commit])] && h[state] != "'superseded'":
			add(what(h), "the commit is not reachable, and the row is not superseded")
		case reachable[plain(h[commit])]:
			add(what(h), "the commit brings no such message")
		}
	}
	return nil
}

func (x *Indexer) compareEvents(ctx context.Context, c conn, reachable map[string]bool, add func(what, message string)) error {
	want, err := dump(ctx, c, x.Name, true)
	if err != nil {
		return err
	}
	have, err := dump(ctx, x.DB.conn, x.Name, true)
	if err != nil {
		return err
	}
	what := func(v []string) string {
		return fmt.Sprintf("event %s by %s of %s/%s to %s (commit %s)", plain(v[4]), plain(v[5]), plain(v[0]), plain(v[1]), plain(v[2]), finding.Short(plain(v[7])))
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		w, h := want[key], have[key]
		switch {
		case h == nil:
			add(what(w), "the row is missing")
		case h[6] != w[6]:
			add(what(w), fmt.Sprintf("notes is %s, expected %s", finding.QuoteMax(plain(h[6]), 60), finding.QuoteMax(plain(w[6]), 60)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		h := have[key]
		switch kind := plain(h[4]); {
		case want[key] != nil || kind == "superseded" || kind == "drafted":
		case !reachable[plain(h[3])] || !reachable[plain(h[7])]:
			// of a history that was rewritten
		case kind == "sent" || kind == "received":
			// of the other side, where both share the database
		default:
			add(what(h), "nothing in the history is the cause of this event")
		}
	}
	return nil
}

// A table is one that is the same whatever was in it before.
type table struct{ what, statement string }

var derived = []table{
	{"thread", `SELECT t.thread, t.last_time, t.closed, l.filename, l.commit_sha, u.filename, u.commit_sha FROM rigward_threads t
JOIN bridge_messages l ON l.id = t.last_id LEFT JOIN bridge_messages u ON u.id = t.turn_id WHERE t.repo = $1`},
	{"refusal", "SELECT commit_sha, path, thread, filename, committer, rules, commit_time FROM rigward_refused WHERE repo = $1"},
	{"recorded ref", "SELECT ref, commit_sha FROM rigward_tips WHERE repo = $1"},
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
