package controlplane

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Query is one question that can be asked.
type Query struct {
	Name    string
	Help    string
	Hash    bool     // it takes a body hash
	Columns []string // of its result
	named   string   // the statement, its parameters by name
}

// Parameters of a query. Empty ones do not restrict it.
type Parameters struct {
	Repo  string
	To    string    // recipient
	Since time.Time // of commits; for idle threads, since when nothing came
	Now   time.Time
	Hash  string // body hash
	Limit int    // rows at the most; 0: all
}

// Queries are all questions, in the order in which they are shown.
func Queries() []Query {
	const (
		open  = "t.repo = :repo AND NOT t.closed"
		since = "(:since = '' OR m.commit_time >= :since)"
		to    = "(:to = '' OR m.to_rig = :to)"
		// A thread is somebody's if a message of it is to them.
		theirs = "(:to = '' OR EXISTS (SELECT 1 FROM bridge_messages r WHERE r.repo = t.repo AND r.thread = t.thread AND r.to_rig = :to))"
		last   = "SELECT t.thread, l.message_type, l.from_rig, l.status_class, l.filename, l.commit_time FROM rigward_threads t JOIN bridge_messages l ON l.id = t.last_id WHERE "
		// The condition of the index, word for word: SQLite does not conclude.
		rare  = "e.event_type IN ('diverged', 'frozen')"
		cause = " FROM bridge_message_events e JOIN bridge_messages m ON m.id = e.message_id WHERE m.repo = :repo AND m.lifecycle_state <> 'superseded' AND " + to + " AND " + rare + " AND "
	)
	columns := func(list string) []string { return strings.Fields(list) }
	threads := columns("thread message_type from_rig status_class filename commit_time")
	message := columns("thread filename message_type from_rig to_rig lifecycle_state status_class status_text tldr envelope_date commit_sha body_hash in_reply_to nonce attested_by verdict rules signature_good signer signer_principal commit_time")
	pushes := columns("at push pusher outcome hook exit_code duration_ms rules refs places problem")
	// A push is shown by its judgement, and without one by what there is of it.
	const push = `SELECT p.at, p.push, coalesce(p.pusher, r.pusher) AS pusher, CASE
  WHEN p.stage = 'received' THEN 'unfinished' WHEN p.exit_code = 1 THEN 'refused' WHEN p.exit_code > 1 THEN 'undecided'
  WHEN p.stage = 'landed' OR EXISTS (SELECT 1 FROM rigward_pushes l WHERE l.repo = p.repo AND l.push = p.push AND l.stage = 'landed') THEN 'landed'
  ELSE 'accepted' END AS outcome, p.hook, p.exit_code, p.duration_ms, p.rules, coalesce(p.refs, r.refs) AS refs, p.places, p.problem
FROM rigward_pushes p LEFT JOIN rigward_pushes r ON r.repo = p.repo AND r.push = p.push AND r.stage = 'received' AND p.stage = 'judged' AND r.hook = p.hook
WHERE p.repo = :repo AND (:since = '' OR p.at >= :since) AND (p.stage = 'judged'
  OR NOT EXISTS (SELECT 1 FROM rigward_pushes o WHERE o.repo = p.repo AND o.push = p.push AND o.stage <> p.stage))`
	return []Query{
		{Name: "turn", Help: "whose turn it is: to whom the last message of each open thread is, ACKs aside",
			Columns: columns("thread turn from_rig message_type status_class filename commit_time"),
			named: `SELECT m.thread, m.to_rig AS turn, m.from_rig, m.message_type, m.status_class, m.filename, m.commit_time
FROM rigward_threads t
JOIN bridge_messages l ON l.id = t.turn_id
JOIN bridge_messages m ON m.repo = l.repo AND m.commit_sha = l.commit_sha AND m.thread = l.thread AND m.filename = l.filename
WHERE ` + open + " AND " + theirs + " AND " + to + " AND " + since + "\nORDER BY t.last_time DESC, t.thread, m.to_rig LIMIT :limit"},
		{Name: "open", Help: "threads without a RESOLUTION, with their last message", Columns: threads,
			named: last + open + " AND " + theirs + " AND (:since = '' OR t.last_time >= :since)\nORDER BY t.last_time DESC, t.thread LIMIT :limit"},
		{Name: "idle", Help: "open threads in which nothing came since --since (default: 7 days ago), the oldest first", Columns: threads,
			named: last + open + " AND " + theirs + " AND t.last_time < :since\nORDER BY t.last_time, t.thread LIMIT :limit"},
		{Name: "frozen", Help: "threads that an operator's freeze holds now", Columns: columns("thread filename frozen_by until commit_sha created_at"),
			named: "SELECT DISTINCT m.thread, m.filename, e.rig AS frozen_by, e.notes AS until, e.commit_sha, e.created_at" + cause + `e.event_type = 'frozen' AND e.notes >= :now
AND NOT EXISTS (SELECT 1 FROM bridge_messages z WHERE z.repo = m.repo AND z.thread = m.thread AND z.from_rig = e.rig AND z.attested_at IS NOT NULL
  AND NOT (z.message_type = 'ACK' AND z.status_class = 'pending') AND z.lifecycle_state <> 'superseded' AND z.commit_time >= e.created_at)
AND (:since = '' OR e.created_at >= :since)
ORDER BY e.created_at DESC, m.thread, m.filename LIMIT :limit`},
		{Name: "diverged", Help: "messages that were written without knowledge of each other, and merged", Columns: columns("thread filename from_rig other_rig other_filename commit_sha created_at"),
			named: "SELECT DISTINCT m.thread, m.filename, m.from_rig, e.rig AS other_rig, e.notes AS other_filename, e.commit_sha, e.created_at" + cause + "e.event_type = 'diverged' AND (:since = '' OR e.created_at >= :since)\nORDER BY e.created_at DESC, m.thread, m.filename, e.rig LIMIT :limit"},
		{Name: "refused", Help: "commits in the history that a gate would refuse, with the rules", Columns: columns("thread filename path from_rig rules committer commit_sha created_at"),
			named: `SELECT f.thread, f.filename, f.path, (SELECT min(m.from_rig) FROM bridge_messages m WHERE m.repo = f.repo AND m.commit_sha = f.commit_sha AND m.thread = f.thread AND m.filename = f.filename) AS from_rig,
  f.rules, f.committer, f.commit_sha, f.commit_time AS created_at
FROM rigward_refused f WHERE f.repo = :repo AND (:since = '' OR f.commit_time >= :since)
AND (:to = '' OR EXISTS (SELECT 1 FROM bridge_messages r WHERE r.repo = f.repo AND r.thread = f.thread AND r.to_rig = :to))
ORDER BY f.commit_time DESC, f.commit_sha DESC, f.path DESC LIMIT :limit`},
		{Name: "pushes", Help: "what was pushed, and what became of it, the newest first", Columns: pushes,
			named: push + "\nORDER BY p.at DESC, p.id DESC LIMIT :limit"},
		{Name: "refused-pushes", Help: "pushes that a gate refused or could not judge, and those that never ended", Columns: pushes,
			named: push + " AND (p.stage = 'judged' AND p.exit_code <> 0 OR p.stage = 'received')\nORDER BY p.at DESC, p.id DESC LIMIT :limit"},
		{Name: "relays", Help: "who relayed what, for whom, with which key", Columns: columns("thread filename message_type from_rig to_rig answers attested_by verdict rules signature_good signer signer_principal attested_at nonce commit_sha commit_time"),
			named: `SELECT m.thread, m.filename, m.message_type, m.from_rig, m.to_rig,
  (SELECT min(a.filename) FROM bridge_messages a WHERE a.repo = m.repo AND a.thread = m.thread AND a.body_hash = m.in_reply_to) AS answers,
  m.attested_by, m.verdict, m.rules, m.signature_good, m.signer, m.signer_principal, m.attested_at, m.nonce, m.commit_sha, m.commit_time
FROM bridge_messages m WHERE m.repo = :repo AND m.attested_by IS NOT NULL AND m.lifecycle_state <> 'superseded' AND ` + to + " AND " + since + "\nORDER BY m.commit_time DESC, m.thread, m.filename, m.to_rig LIMIT :limit"},
		{Name: "unverified", Help: "messages whose commit carries no good signature", Columns: columns("thread filename message_type from_rig to_rig verdict signer signature_good commit_sha commit_time"),
			named: `SELECT m.thread, m.filename, m.message_type, m.from_rig, m.to_rig, m.verdict, m.signer, m.signature_good, m.commit_sha, m.commit_time
FROM bridge_messages m WHERE m.repo = :repo AND (m.signature_good IS NULL OR NOT m.signature_good) AND m.lifecycle_state <> 'superseded' AND ` + to + " AND " + since + "\nORDER BY m.commit_time DESC, m.thread, m.filename, m.to_rig LIMIT :limit"},
		{Name: "message", Help: "the messages of a body hash", Hash: true, Columns: message,
			named: "SELECT m." + strings.Join(message, ", m.") + "\nFROM bridge_messages m WHERE m.repo = :repo AND m.body_hash = :hash AND " + to + " AND " + since + "\nORDER BY m.id LIMIT :limit"},
		{Name: "events", Help: "what happened to the messages of a body hash", Hash: true, Columns: columns("thread filename to_rig event_type rig notes commit_sha created_at"),
			named: "SELECT m.thread, m.filename, m.to_rig, e.event_type, e.rig, e.notes, e.commit_sha, e.created_at\nFROM bridge_messages m JOIN bridge_message_events e ON e.message_id = m.id WHERE m.repo = :repo AND m.body_hash = :hash AND " + to + " AND " + since + "\nORDER BY e.created_at, e.id LIMIT :limit"},
	}
}

var parameter = regexp.MustCompile(`:[a-z]+`)

// Statement returns the SQL text with numbered parameters, and the names of
// the parameters in their order: repo, to, since, now, hash, limit.
func (q Query) Statement() (statement string, names []string) {
	statement = parameter.ReplaceAllStringFunc(q.named, func(name string) string {
		name = name[1:]
		i := slices.Index(names, name)
		if i < 0 {
			i = len(names)
			names = append(names, name)
		}
		return "$" + itoa(i+1)
	})
	return statement, names
}

// Ask answers a query: rows of string, bool, int64 or nil, as many as the
// limit allows, and whether there are more.
func (d *DB) Ask(ctx context.Context, q Query, p Parameters) (result [][]any, more bool, err error) {
	statement, names := q.Statement()
	since := ""
	if !p.Since.IsZero() {
		since = stamp(p.Since)
	}
	limit := int64(1) << 40
	if p.Limit > 0 {
		limit = int64(p.Limit) + 1
	}
	values := map[string]any{"repo": p.Repo, "to": name(p.To), "since": since, "now": stamp(p.Now), "hash": p.Hash, "limit": limit}
	var args []any
	for _, name := range names {
		args = append(args, values[name])
	}
	err = each(ctx, d.conn, statement, args, func(r rows) error {
		row := make([]any, len(q.Columns))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		if err := r.Scan(into...); err != nil {
			return err
		}
		for i, v := range row { // SQLite has no booleans of its own
			if n, ok := v.(int64); ok && q.Columns[i] == "signature_good" {
				row[i] = n != 0
			}
		}
		result = append(result, row)
		return nil
	})
	if p.Limit > 0 && len(result) > p.Limit {
		result, more = result[:p.Limit], true
	}
	return result, more, told(ctx, d.target, err)
}

// An AsOf says of which commit of the main ref answers are, and when that was
// written; both are "" where nothing was.
type AsOf struct {
	Commit string `json:"commit"`
	At     string `json:"at"`
}

// AsOf returns as of what the answers about a repository are.
func (d *DB) AsOf(ctx context.Context, repo string) (a AsOf, err error) {
	var data string
	err = each(ctx, d.conn, "SELECT coalesce(judged, ''), coalesce(indexed_at, '') FROM rigward_repositories WHERE repo = $1", []any{repo}, func(r rows) error { return r.Scan(&data, &a.At) })
	var j judged
	if err == nil && data != "" {
		err = json.Unmarshal([]byte(data), &j)
	}
	a.Commit = j.Tip
	return a, told(ctx, d.target, err)
}

// LastSeen returns the commit that is recorded for a ref, "" if none is.
func (d *DB) LastSeen(ctx context.Context, repo, ref string) (commit string, err error) {
	err = each(ctx, d.conn, "SELECT commit_sha FROM rigward_tips WHERE repo = $1 AND ref = $2", []any{repo, name(ref)}, func(r rows) error { return r.Scan(&commit) })
	return commit, told(ctx, d.target, err)
}
