package controlplane

import (
	"cmp"
	"context"
	"encoding/base64"
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
	Takes   Operand
	Columns []string // of its result
	// what is selected, and from where, with parameters by name; {found} stands for
	// the messages m that have the words, up to a condition.
	what, from string
	// counted is what and from where no time is asked for, of what is counted already; empty: as else.
	counted [2]string
	// keys sort the rows of a repository, which no two of them share; the first is a
	// time. Without keys there is one page.
	keys      []string
	ascending bool
	fold      func() folder // makes the rows of what was selected; nil: they are it
	width     int           // of what is selected then
}

// An Operand is what a question is asked with.
type Operand int

// Operands.
const (
	Nothing Operand = iota
	Hash            // a body hash
	Words           // that are searched for
)

// Parameters of a query. Empty ones do not restrict it.
type Parameters struct {
	Repos   []string  // that are asked about
	To      string    // recipient
	From    string    // sender; of pushes, who pushed
	Type    string    // of the message
	Since   time.Time // of commits; for idle threads, since when nothing came
	Until   time.Time // of commits, without this moment
	Now     time.Time
	Hash    string
	Words   []Word
	Refused bool    // search what the gates refuse, and nothing else
	Limit   int     // rows at the most; 0: all
	Cursor  *Cursor // after which row, nil: from the beginning

	common, window int // see latest; 0: common, window
}

// An Answer is what is known.
type Answer struct {
	Rows  [][]any  // of string, bool, int64, float64 or nil; the repository comes first where several are asked about
	Repos []string // of each row
	More  bool     // there are more than the limit
	After string   // the cursor of the last row where there are more, "" where there is one page
}

// Queries are all questions, in the order in which they are shown.
func Queries() []Query {
	const (
		by = "(:from = '' OR m.from_rig = :from) AND (:type = '' OR m.message_type = :type)"
		of = "(:since = '' OR m.commit_time >= :since) AND (:until = '' OR m.commit_time < :until) AND " + by
		to = "(:to = '' OR m.to_rig = :to)"
		// A thread is somebody's if a message of it is to them; to nobody in particular, all are.
		last     = "t.thread, l.message_type, l.from_rig, l.status_class, l.filename, l.commit_time"
		threadOf = " FROM rigward_open t JOIN bridge_messages l ON l.id = t.last_id AND l.repo_id = :repo WHERE t.repo_id = :repo AND t.rig = :to AND (:from = '' OR t.from_rig = :from) AND (:type = '' OR t.message_type = :type) AND (:until = '' OR t.last_time < :until) AND "
		waits    = "w.repo_id = :repo AND (:to = '' OR w.rig = :to) AND (:since = '' OR w.at >= :since) AND (:until = '' OR w.at < :until) AND (:from = '' OR w.from_rig = :from) AND (:type = '' OR w.message_type = :type)"
		stood    = "m.repo_id = :repo AND m.lifecycle_state <> 'superseded' AND "
		// Whole days, in UTC.
		within = "d.day >= substr(CAST(:since AS TEXT), 1, 10) AND (:until = '' OR d.day || 'T00:00:00Z' < :until)"
		byDay  = "d.pusher, d.pushes, d.refused, d.undecided, d.took"
		// The condition of the index, word for word: SQLite does not conclude.
		rare  = "e.event_type IN ('diverged', 'frozen')"
		cause = " FROM bridge_message_events e JOIN bridge_messages m ON m.id = e.message_id AND e.repo_id = :repo WHERE " + stood + "(:to = '' OR e.to_rig = :to) AND (:from = '' OR e.rig = :from) AND (:since = '' OR e.created_at >= :since) AND (:until = '' OR e.created_at < :until) AND "
	)
	columns := func(list string) []string { return strings.Fields(list) }
	threads := columns("thread message_type from_rig status_class filename commit_time")
	message := columns("thread filename message_type from_rig to_rig lifecycle_state status_class status_text tldr envelope_date commit_sha body_hash in_reply_to nonce attested_by verdict rules signature_good signer signer_principal commit_time")
	pushes := columns("at push pusher outcome hook exit_code duration_ms rules refs places problem")
	said := columns("m.commit_time m.thread m.filename m.commit_sha")
	toOne := append(slices.Clone(said), "m.to_rig")
	lastKeys := columns("t.last_time t.thread")
	const push = "p.at, p.push, p.pushed_by AS pusher, p.outcome, p.hook, p.exit_code, p.duration_ms, p.rules, " +
		"coalesce(p.refs, (SELECT min(r.refs) FROM rigward_pushes r WHERE r.repo_id = :repo AND r.push = p.push AND r.stage = 'received' AND p.stage = 'judged' AND r.hook = p.hook)) AS refs, p.places, p.problem"
	const pushed = "\nFROM rigward_pushes p WHERE p.repo_id = :repo AND (:since = '' OR p.at >= :since) AND (:until = '' OR p.at < :until) AND (:from = '' OR p.pushed_by = :from) AND "
	const days = "\nFROM rigward_push_days d WHERE d.repo_id = :repo AND (:from = '' OR d.pusher = :from) AND " + within
	return []Query{
		{Name: "turn", Help: "whose turn it is: to whom the last message of each open thread is, ACKs aside",
			Columns: columns("thread turn from_rig message_type status_class filename commit_time"), keys: columns("w.last_time w.thread w.rig"),
			what: "m.thread, w.rig AS turn, m.from_rig, m.message_type, m.status_class, m.filename, m.commit_time",
			from: "\nFROM rigward_turns w JOIN bridge_messages m ON m.id = w.message_id AND m.repo_id = :repo WHERE " + waits},
		{Name: "backlog", Help: "of each rig how many open threads wait for it, and since when",
			Columns: columns("rig threads oldest"), what: "w.rig, count(*) AS threads, min(w.at) AS oldest", from: "\nFROM rigward_turns w WHERE " + waits + "\nGROUP BY w.rig ORDER BY 2 DESC, 1",
			counted: [2]string{`g.rig, g.threads, (SELECT min(w.at) FROM rigward_turns w{by rigward_turns_oldest} WHERE w.repo_id = :repo AND w.rig = g.rig AND w.rig <> '' AND (:from = '' OR w.from_rig = :from) AND (:type = '' OR w.message_type = :type)) AS oldest`, `
FROM (SELECT b.rig, CAST(sum(b.threads) AS BIGINT) AS threads FROM rigward_backlog b WHERE b.repo_id = :repo AND (:to = '' OR b.rig = :to) AND (:from = '' OR b.from_rig = :from) AND (:type = '' OR b.message_type = :type) GROUP BY b.rig) g
ORDER BY 2 DESC, 1`}},
		{Name: "open", Help: "threads without a RESOLUTION, with their last message", Columns: threads, keys: lastKeys,
			what: last, from: threadOf + "(:since = '' OR t.last_time >= :since)"},
		{Name: "idle", Help: "open threads in which nothing came since --since (default: 7 days ago), the oldest first", Columns: threads, keys: lastKeys, ascending: true,
			what: last, from: threadOf + "t.last_time < :since"},
		{Name: "frozen", Help: "threads that an operator's freeze holds now", Columns: columns("thread filename frozen_by until commit_sha created_at"),
			keys: columns("e.created_at m.thread m.filename e.rig e.commit_sha e.notes"),
			what: "DISTINCT m.thread, m.filename, e.rig AS frozen_by, e.notes AS until, e.commit_sha, e.created_at",
			from: cause + rare + ` AND e.event_type = 'frozen' AND e.notes >= :now
AND NOT EXISTS (SELECT 1 FROM bridge_messages z{by bridge_messages_thread} WHERE z.repo_id = :repo AND z.thread = m.thread AND z.from_rig = e.rig AND z.attested_at IS NOT NULL
  AND NOT (z.message_type = 'ACK' AND z.status_class = 'pending') AND z.lifecycle_state <> 'superseded' AND z.commit_time >= e.created_at)`},
		{Name: "diverged", Help: "messages that were written without knowledge of each other, and merged", Columns: columns("thread filename from_rig other_rig other_filename commit_sha created_at"),
			keys: columns("e.created_at m.thread m.filename e.rig e.commit_sha m.from_rig e.notes"),
			what: "DISTINCT m.thread, m.filename, m.from_rig, e.rig AS other_rig, e.notes AS other_filename, e.commit_sha, e.created_at",
			from: cause + rare + " AND e.event_type = 'diverged'"},
		{Name: "refused", Help: "commits in the history that a gate would refuse, with the rules", Columns: columns("thread filename path from_rig rules committer commit_sha created_at"),
			keys: columns("f.commit_time f.commit_sha f.path"),
			what: `f.thread, f.filename, f.path, (SELECT min(m.from_rig) FROM bridge_messages m WHERE m.repo_id = :repo AND m.commit_sha = f.commit_sha AND m.thread = f.thread AND m.filename = f.filename) AS from_rig,
  f.rules, f.committer, f.commit_sha, f.commit_time AS created_at`,
			from: `
FROM rigward_refused f WHERE f.repo_id = :repo AND (:since = '' OR f.commit_time >= :since) AND (:until = '' OR f.commit_time < :until)
AND (:to = '' OR EXISTS (SELECT 1 FROM bridge_messages r WHERE r.repo_id = :repo AND r.thread = f.thread AND r.to_rig = :to))
AND (:from = '' OR EXISTS (SELECT 1 FROM bridge_messages r WHERE r.repo_id = :repo AND r.commit_sha = f.commit_sha AND r.thread = f.thread AND r.filename = f.filename AND r.from_rig = :from))`},
		{Name: "pushes", Help: "what was pushed, and what became of it, the newest first", Columns: pushes, keys: columns("p.at p.id"), what: push, from: pushed + "p.outcome <> ''"},
		{Name: "refused-pushes", Help: "pushes that a gate refused or could not judge, and those that never ended", Columns: pushes, keys: columns("p.at p.id"),
			what: push, from: strings.Replace(pushed, " p ", " p{by rigward_pushes_refused} ", 1) + "p.outcome IN ('refused', 'undecided', 'unfinished')"},
		{Name: "relays", Help: "who relayed what, for whom, with which key", Columns: columns("thread filename message_type from_rig to_rig answers attested_by verdict rules signature_good signer signer_principal attested_at nonce commit_sha commit_time"),
			keys: toOne,
			what: `m.thread, m.filename, m.message_type, m.from_rig, m.to_rig,
  (SELECT min(a.filename) FROM bridge_messages a WHERE a.repo_id = :repo AND a.thread = m.thread AND a.body_hash = m.in_reply_to) AS answers,
  m.attested_by, m.verdict, m.rules, m.signature_good, m.signer, m.signer_principal, m.attested_at, m.nonce, m.commit_sha, m.commit_time`,
			from: "\nFROM bridge_messages m{by bridge_messages_relays} WHERE " + stood + "m.attested_by IS NOT NULL AND " + to + " AND " + of},
		{Name: "unverified", Help: "messages whose commit carries no good signature", Columns: columns("thread filename message_type from_rig to_rig verdict signer signature_good commit_sha commit_time"),
			keys: toOne,
			what: "m.thread, m.filename, m.message_type, m.from_rig, m.to_rig, m.verdict, m.signer, m.signature_good, m.commit_sha, m.commit_time",
			from: "\nFROM bridge_messages m{by bridge_messages_unverified} WHERE " + stood + "(m.signature_good IS NULL OR NOT m.signature_good) AND " + to + " AND " + of},
		{Name: "messages", Help: "all messages, the newest first", Columns: columns("thread filename message_type from_rig to_rig lifecycle_state status_class tldr verdict rules body_hash commit_sha commit_time"),
			keys: toOne,
			what: "m.thread, m.filename, m.message_type, m.from_rig, m.to_rig, m.lifecycle_state, m.status_class, m.tldr, m.verdict, m.rules, m.body_hash, m.commit_sha, m.commit_time",
			from: "\nFROM bridge_messages m WHERE " + stood + to + " AND " + of},
		{Name: "acked", Help: "messages that were acknowledged, by whom and when, the newest ACK first", Columns: columns("thread filename from_rig to_rig acked_by acked_at commit_sha commit_time"),
			keys: append(columns("e.created_at e.rig e.commit_sha"), toOne...),
			what: "m.thread, m.filename, m.from_rig, m.to_rig, e.rig AS acked_by, e.created_at AS acked_at, m.commit_sha, m.commit_time",
			from: "\nFROM bridge_message_events e CROSS JOIN bridge_messages m WHERE e.repo_id = :repo AND e.event_type = 'acked' AND (:since = '' OR e.created_at >= :since) AND (:until = '' OR e.created_at < :until) AND m.id = e.message_id AND " +
				stood + stands(":repo", "e") + " AND (:to = '' OR e.to_rig = :to) AND (:from = '' OR e.from_rig = :from) AND (:type = '' OR e.message_type = :type)"},
		{Name: "search", Takes: Words, Help: "messages that have all of some words, the newest first; WORD* finds what begins so", Columns: columns("thread filename message_type from_rig tldr verdict rules body_hash commit_sha commit_time"),
			keys: said,
			what: "DISTINCT m.thread, m.filename, m.message_type, m.from_rig, m.tldr, m.verdict, m.rules, m.body_hash, m.commit_sha, m.commit_time",
			from: "\nFROM {found} AND " + stood + "(m.verdict = 'refused') = (:refused <> '') AND " + to + " AND " + of},
		{Name: "stats", Help: "of each rig since --since (default: 30 days ago): how soon it answered, what waits for it, what of it was refused",
			Columns: columns("rig received answered median_s p90_s backlog sent refused refused_share"), fold: newStats, width: 5,
			what: "d.rig, d.received, d.sent, d.refused, d.took",
			from: "\nFROM rigward_days d WHERE d.repo_id = :repo AND " + within},
		{Name: "pushers", Help: "of each who pushed since --since (default: 30 days ago): how many pushes were refused",
			Columns: columns("pusher pushes refused undecided refused_share median_ms"), fold: newPushers, width: 5, what: byDay, from: days},
		{Name: "push-days", Help: "of each day since --since (default: 30 days ago), in UTC, and of each who pushed on it: how many pushes were refused",
			Columns: columns("day pusher pushes refused undecided refused_share median_ms"), fold: newPushDays, width: 6, what: "d.day, " + byDay, from: days},
		{Name: "message", Help: "the messages of a body hash", Takes: Hash, Columns: message, keys: toOne, ascending: true,
			what: "m." + strings.Join(message, ", m."), from: "\nFROM bridge_messages m{by bridge_messages_body_hash} WHERE m.repo_id = :repo AND m.body_hash = :hash AND " + to + " AND " + of},
		{Name: "events", Help: "what happened to the messages of a body hash, or with --follow to all", Takes: Hash, Columns: columns("thread filename to_rig event_type rig notes commit_sha created_at"),
			keys: columns("e.created_at e.commit_sha m.thread m.filename m.to_rig m.commit_sha e.event_type e.rig"), ascending: true,
			what: "m.thread, m.filename, m.to_rig, e.event_type, e.rig, e.notes, e.commit_sha, e.created_at",
			from: "\nFROM bridge_messages m{by bridge_messages_body_hash} JOIN bridge_message_events e ON e.message_id = m.id AND e.repo_id = :repo WHERE m.repo_id = :repo AND m.body_hash = :hash AND " + to + " AND " + of},
	}
}

// Question returns the query of a name.
func Question(name string) (Query, bool) {
	all := Queries()
	i := slices.IndexFunc(all, func(q Query) bool { return q.Name == name })
	if i < 0 {
		return Query{}, false
	}
	return all[i], true
}

// Paged reports whether a query has cursors.
func (q Query) Paged() bool { return len(q.keys) > 0 }

// Asks reports whether a parameter says something to the query: repo, to, from,
// type, since, until, now, hash, words, refused or limit.
func (q Query) Asks(name string) bool {
	_, names := q.Statement(false)
	return slices.Contains(names, name)
}

var parameter = regexp.MustCompile(`:[a-z]+`)

// Statement returns the SQL text with numbered parameters for SQLite or for
// PostgreSQL, and the names of the parameters in their order.
func (q Query) Statement(postgres bool) (statement string, names []string) {
	return numbered(strings.ReplaceAll(q.text(postgres, ""), ":repo", "(SELECT repo_id FROM rigward_repositories WHERE repo = :repo)"))
}

// indexHint names the index that is to be used where several may be: SQLite does not know how many
// rows each leads to, PostgreSQL does.
var indexHint = regexp.MustCompile(`\{by [a-z_]+\}`)

// text is the statement with parameters by name, repo the key of the repository;
// beyond is a further condition, "" for none.
func (q Query) text(postgres bool, beyond string) string {
	found := "rigward_search s CROSS JOIN bridge_messages m ON m.id = s.rowid WHERE rigward_search MATCH :words"
	if postgres {
		found = "bridge_messages m WHERE m.words IS NOT NULL AND " + vector("m.words") + " @@ CAST(:words AS tsquery)"
	}
	what := q.what
	if q.Paged() {
		what += ",\n  " + strings.Join(q.keys, ", ")
	}
	text := indexHint.ReplaceAllStringFunc("SELECT "+what+strings.Replace(q.from, "{found}", found, 1), func(hint string) string {
		if postgres {
			return ""
		}
		return " INDEXED BY " + strings.TrimSuffix(strings.TrimPrefix(hint, "{by "), "}")
	})
	if !q.Paged() {
		return text
	}
	return text + beyond + "\nORDER BY " + strings.Join(q.keys, q.direction()+", ") + q.direction() + " LIMIT :limit"
}

// asked is the question that is put to the database for these parameters.
func (q Query) asked(values map[string]any) Query {
	if q.counted[0] != "" && values["since"] == "" && values["until"] == "" {
		q.what, q.from = q.counted[0], q.counted[1]
	}
	return q
}

func (q Query) direction() string {
	if q.ascending {
		return ""
	}
	return " DESC"
}

var unset = regexp.MustCompile(`:[a-z]+ = ''`)

// settled says of the parameters of a statement which are empty, so that the database plans
// for those that are not.
func settled(text string, values map[string]any) string {
	return unset.ReplaceAllStringFunc(text, func(condition string) string {
		if values[condition[1:strings.IndexByte(condition, ' ')]] == "" {
			return "TRUE"
		}
		return "FALSE"
	})
}

// numbered gives parameters numbers in place of names.
func numbered(text string) (statement string, names []string) {
	statement = parameter.ReplaceAllStringFunc(text, func(name string) string {
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

// A folder makes few rows of many.
type folder interface {
	add(row []any)
	rows() [][]any
}

// theID is the key of the repository whose name is the first parameter.
const theID = "(SELECT repo_id FROM rigward_repositories WHERE repo = $1)"

// id is the key of a repository, which no row has where it is not known.
func (d *DB) id(ctx context.Context, repo string) (id int64, err error) {
	err = each(ctx, d.conn, "SELECT repo_id FROM rigward_repositories WHERE repo = $1", []any{repo}, func(r rows) error { return r.Scan(&id) })
	return id, told(ctx, d.target, err)
}

// Ask answers a query about repositories. Of each, an index leads to its rows in their order,
// wherever it is kept; those of several repositories are merged by their time.
func (d *DB) Ask(ctx context.Context, q Query, p Parameters) (a Answer, err error) {
	ids, err := d.ids(ctx, p.Repos)
	if err != nil {
		return a, told(ctx, d.target, err)
	}
	values := p.values(d.conn.postgres(), 0)
	var all []answered
	switch {
	case !q.Paged():
		all, err = d.whole(ctx, q, p, ids, values)
	case q.Takes == Words:
		all, err = d.searched(ctx, q, p, ids, values)
	default:
		all, err = d.first(ctx, q, p, ids, values, p.Limit)
	}
	if err != nil {
		return a, told(ctx, d.target, err)
	}
	if q.Paged() && p.Limit > 0 && len(all) > p.Limit {
		all, a.More = all[:p.Limit], true
		last := all[len(all)-1]
		a.After = Cursor{q.Name, last.repo, last.keys}.String()
	}
	for _, k := range all {
		a.Rows, a.Repos = append(a.Rows, k.values), append(a.Repos, k.repo)
	}
	return a, nil
}

// few is how many messages of a rig or of a type are looked at one by one.
const few = 2000

// unhinted is a question about some kind of messages, without the name of their index, where those of
// a rig or of a type that it is about are few: then SQLite looks at these. Of what is to one rig and
// from another, it goes along what is between them. Else it is nil.
func (d *DB) unhinted(ctx context.Context, q Query, values map[string]any) (*Query, error) {
	kind := strings.Contains(q.from, "{by bridge_messages_relays}") || strings.Contains(q.from, "{by bridge_messages_unverified}")
	if d.conn.postgres() || !kind && q.Name != "messages" {
		return nil, nil
	}
	along := func(index string) *Query {
		where := " WHERE "
		if index != "" { // which SQLite takes by its condition alone: it would take it for one rig, too
			index, where = "{by "+index+"}", where+ofAny("m.")+" AND "
		}
		q.from = strings.NewReplacer("m{by bridge_messages_relays} WHERE ", "m"+index+where, "m{by bridge_messages_unverified} WHERE ", "m"+index+where, "bridge_messages m WHERE ", "bridge_messages m"+index+where).Replace(q.from)
		return &q
	}
	fewOf := func(condition string, args ...any) (bool, error) {
		n, err := number(ctx, d.conn, "SELECT count(*) FROM (SELECT 1 FROM bridge_messages WHERE "+condition+" AND repo_id = $2 LIMIT "+itoa(few)+") AS few", args...)
		return n < few, err
	}
	if values["to"] != "" && values["from"] != "" {
		if !kind {
			return along("bridge_messages_between"), nil
		}
		if ok, err := fewOf("to_rig = $1 AND from_rig = $3 AND "+ofAny(""), values["to"], values["repo"], values["from"]); ok || err != nil {
			return along("bridge_messages_between"), err
		}
	}
	if !kind {
		return nil, nil
	}
	for filter, column := range map[string]string{"to": "to_rig", "from": "from_rig", "type": "message_type"} {
		if values[filter] == "" {
			continue
		}
		if ok, err := fewOf(column+" = $1", values[filter], values["repo"]); ok || err != nil {
			return along(""), err
		}
	}
	return nil, nil
}

// ofAny is the condition of the index of messages between two rigs, which all messages meet.
func ofAny(m string) string { return m + "to_rig <> ''" }

// common is how many messages have words that are not all to be sorted; within the latest of so
// many messages a page of them is looked for first. PostgreSQL has no statistics of words, and
// counts some of them in no less time than it takes to look at fewer messages.
const (
	common         = 5000
	window         = 20_000
	windowPostgres = 3000
)

// latest is a search that looks at the latest messages only, one by one, where many have the words;
// nil where few do, or all are asked for. What it finds is a page only if it fills one, or if
// there are no others: then the value of horizon is "".
func (d *DB) latest(ctx context.Context, q Query, p Parameters, ids map[string]int64, values map[string]any) (*Query, error) {
	if p.Limit == 0 || len(p.Words) > 20 {
		return nil, nil
	}
	within, contains := cmp.Or(p.window, windowPostgres), "strpos"
	if !d.conn.postgres() {
		within, contains = cmp.Or(p.window, window), "instr"
		many := cmp.Or(p.common, common)
		n, err := number(ctx, d.conn, "SELECT count(*) FROM (SELECT 1 FROM rigward_search WHERE rigward_search MATCH $1 LIMIT "+itoa(many)+") AS few", values["words"])
		if err != nil || n < many {
			return nil, err
		}
	}
	before := stamp(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))
	if p.Cursor != nil {
		before = p.Cursor.keys[0]
	}
	if !p.Until.IsZero() {
		before = min(before, stamp(p.Until))
	}
	values["before"], values["horizon"] = before, ""
	if len(p.Repos) == 1 {
		err := each(ctx, d.conn, "SELECT commit_time FROM bridge_messages WHERE repo_id = $1 AND commit_time <= $2 ORDER BY commit_time DESC LIMIT 1 OFFSET "+itoa(within), []any{ids[p.Repos[0]], before}, func(r rows) error {
			var at string
			err := r.Scan(&at)
			values["horizon"] = at
			return err
		})
		if err != nil {
			return nil, err
		}
	} else {
		times := Query{Columns: []string{"commit_time"}, what: "m.commit_time", keys: []string{"m.commit_time"}, from: "\nFROM bridge_messages m WHERE m.repo_id = :repo AND m.commit_time <= :before"}
		all, err := d.first(ctx, times, Parameters{Repos: p.Repos}, ids, values, within)
		if err != nil {
			return nil, err
		}
		if len(all) > within {
			values["horizon"] = all[within].keys[0]
		}
	}
	has := ""
	for i, w := range p.Words {
		name, text := "word"+string(rune('a'+i)), " "+w.text
		if !w.begins {
			text += " "
		}
		values[name] = text
		has += " AND " + contains + "(' ' || m.words || ' ', :" + name + ") > 0"
	}
	q.from = strings.Replace(q.from, "{found}", "bridge_messages m{by bridge_messages_time} WHERE m.commit_time >= :horizon"+has, 1)
	return &q, nil
}

// values are those of all parameters.
func (p Parameters) values(postgres bool, repo int64) map[string]any {
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return stamp(t)
	}
	limit := int64(1) << 40
	if p.Limit > 0 {
		limit = int64(p.Limit) + 1
	}
	refused := ""
	if p.Refused {
		refused = "yes"
	}
	return map[string]any{"repo": repo, "to": name(p.To), "from": name(p.From), "type": p.Type, "since": moment(p.Since), "until": moment(p.Until), "now": stamp(p.Now),
		"hash": p.Hash, "words": match(postgres, p.Words), "refused": refused, "limit": limit}
}

// rows runs a statement and gives fn each row of n values.
func (d *DB) rows(ctx context.Context, statement string, names []string, values map[string]any, n int, fn func(row []any)) error {
	var args []any
	for _, name := range names {
		args = append(args, values[name])
	}
	return each(ctx, d.conn, statement, args, func(r rows) error {
		row, into := make([]any, n), make([]any, n)
		for i := range row {
			into[i] = &row[i]
		}
		if err := r.Scan(into...); err != nil {
			return err
		}
		for i, v := range row {
			if n, ok := v.(int32); ok {
				row[i] = int64(n)
			}
		}
		fn(row)
		return nil
	})
}

// typed gives values their types where SQLite has none of its own.
func (q Query) typed(row []any) []any {
	for i, v := range row {
		if n, ok := v.(int64); ok && q.Columns[i] == "signature_good" {
			row[i] = n != 0
		}
	}
	return row
}

// whole answers a query that has one page.
func (d *DB) whole(ctx context.Context, q Query, p Parameters, ids map[string]int64, values map[string]any) (all []answered, err error) {
	n := len(q.Columns)
	if q.fold != nil {
		n = q.width
	}
	folders := map[string]folder{}
	err = d.over(ctx, ids, p.Repos, settled(q.asked(values).text(d.conn.postgres(), ""), values), values, n, func(repo string, row []any) {
		if q.fold == nil {
			all = append(all, answered{repo: repo, values: row})
			return
		}
		if folders[repo] == nil {
			folders[repo] = q.fold()
		}
		folders[repo].add(row)
	})
	if err != nil || q.fold == nil {
		return all, err
	}
	if q.Name == "stats" {
		backlog, _ := Question("backlog")
		waiting, err := d.whole(ctx, backlog, Parameters{Repos: p.Repos}, ids, Parameters{Now: p.Now}.values(d.conn.postgres(), 0))
		if err != nil {
			return nil, err
		}
		for _, row := range waiting {
			if folders[row.repo] == nil {
				folders[row.repo] = q.fold()
			}
			if s, ok := folders[row.repo].(stats); ok {
				s.waits(row.values[0], row.values[1])
			}
		}
	}
	for _, repo := range p.Repos {
		if f := folders[repo]; f != nil {
			for _, row := range f.rows() {
				all = append(all, answered{repo: repo, values: row})
			}
		}
	}
	return all, nil
}

// A Cursor is a row of an answer, after which the next page begins: where it stands
// among all rows, so that what comes or goes meanwhile moves nothing.
type Cursor struct {
	query, repo string
	keys        []string
}

// String returns the cursor as ParseCursor reads it. What is in it is nobody's concern.
func (c Cursor) String() string {
	data, err := json.Marshal(append([]string{c.query, c.repo}, c.keys...))
	if err != nil {
		return "" // texts never fail
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// ParseCursor reads the cursor of an answer to a query; ok is false for what is
// none.
func ParseCursor(q Query, cursor string) (c *Cursor, ok bool) {
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	var parts []string
	if err != nil || json.Unmarshal(data, &parts) != nil || len(parts) != 2+len(q.keys) || !q.Paged() || parts[0] != q.Name {
		return nil, false
	}
	for _, s := range parts {
		if s != text(s) {
			return nil, false
		}
	}
	return &Cursor{parts[0], parts[1], parts[2:]}, true
}

// beyond is the condition that a row of a repository comes after the cursor, whose
// keys it adds to the parameters.
func (c Cursor) beyond(q Query, repo string, values map[string]any) string {
	sign := "<"
	if q.ascending {
		sign = ">"
	}
	names := make([]string, len(c.keys))
	for i, key := range c.keys {
		name := "key" + string(rune('a'+i))
		names[i], values[name] = ":"+name, key
	}
	switch later := strings.Compare(repo, c.repo); {
	case later == 0:
		return "\nAND (" + strings.Join(q.keys, ", ") + ") " + sign + " (" + strings.Join(names, ", ") + ")"
	case later > 0 == q.ascending:
		sign += "="
	}
	return "\nAND " + q.keys[0] + " " + sign + " " + names[0]
}

// An AsOf says of which commit of the main ref answers are, and when that was
// written; both are "" where nothing was.
type AsOf struct {
	Commit string `json:"commit"`
	At     string `json:"at"`
}

// AsOf returns as of what the answers about repositories are.
func (d *DB) AsOf(ctx context.Context, repos []string) (map[string]AsOf, error) {
	all := map[string]AsOf{}
	names, err := listed(repos)
	if err != nil {
		return nil, err
	}
	err = each(ctx, d.conn, "SELECT repo, coalesce(judged, ''), coalesce(indexed_at, '') FROM rigward_repositories WHERE repo "+among(d.conn, 1, "text"), []any{names}, func(r rows) error {
		var repo, data string
		var a AsOf
		err := r.Scan(&repo, &data, &a.At)
		var j judged
		if err == nil && data != "" {
			err = json.Unmarshal([]byte(data), &j)
		}
		a.Commit = j.Tip
		all[repo] = a
		return err
	})
	return all, told(ctx, d.target, err)
}

// LastSeen returns the commit that is recorded for a ref, "" if none is.
func (d *DB) LastSeen(ctx context.Context, repo, ref string) (commit string, err error) {
	err = each(ctx, d.conn, "SELECT commit_sha FROM rigward_tips WHERE repo_id = "+theID+" AND ref = $2", []any{repo, name(ref)}, func(r rows) error { return r.Scan(&commit) })
	return commit, told(ctx, d.target, err)
}

// Repositories returns the names of all repositories of the database.
func (d *DB) Repositories(ctx context.Context) (names []string, err error) {
	err = each(ctx, d.conn, "SELECT repo FROM rigward_repositories ORDER BY repo", nil, func(r rows) error {
		var repo string
		err := r.Scan(&repo)
		names = append(names, repo)
		return err
	})
	slices.Sort(names)
	return names, told(ctx, d.target, err)
}
