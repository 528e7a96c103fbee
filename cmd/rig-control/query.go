package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// A question is a command line of query.
type question struct {
	query controlplane.Query
	p     controlplane.Parameters
	me    bool
	json  bool
	sql   bool
	csv   bool
	repos []string // that are named
	all   bool     // of the database
	feed  *feed    // all events, nil for a question
}

// object begins every JSON object (docs/spec/client.md#output).
type object struct {
	SchemaVersion string `json:"schema_version"`
	Op            string `json:"op"`
}

type answer struct {
	object
	Query string           `json:"query"`
	Repo  string           `json:"repo"`
	Rows  []map[string]any `json:"rows"`
	More  bool             `json:"more"`
	// After is for --after, where there are more.
	After string `json:"after,omitempty"`
	// AsOf is the commit of the main ref that was indexed last, and when; of
	// several repositories Repositories says it, and rows have a column repo.
	AsOf         controlplane.AsOf `json:"as_of"`
	Repositories []asOf            `json:"repositories,omitempty"`
}

type asOf struct {
	Repo string `json:"repo"`
	controlplane.AsOf
}

type statement struct {
	object
	Query      string   `json:"query"`
	SQL        string   `json:"sql"`
	Parameters []string `json:"parameters"`
}

type problem struct {
	object
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
	} `json:"error"`
}

var head = object{"1.0", "query"}

// query answers a question. Its exit codes are those of rig-bridge: 0 done, 1
// user error, 2 could not be decided.
func (a *app) query(ctx context.Context, line cli.Line, err error) int {
	q := question{json: line.Has("--json"), sql: line.Has("--sql")}
	if err == nil {
		err = q.read(line, a.program, a.env.Now())
	}
	if err != nil {
		return a.refuse(q, "usage", 1, err)
	}
	if q.sql {
		return a.print(a.statement(ctx, q))
	}
	whole := ctx
	// Whoever asks waits no longer than a hook would.
	ctx, cancel := context.WithTimeout(ctx, 5*hookTime)
	defer cancel()
	p, err := a.open(ctx, asEither)
	if err != nil {
		return a.refuse(q, "runtime", 2, err)
	}
	defer p.close()
	if q.me {
		if p.rig == "" && p.repo.WorkTree() != "" {
			if p.rig, _, err = bridge.ControlPlane(p.repo.WorkTree()); err != nil {
				return a.refuse(q, "config", 1, err)
			}
		}
		if q.p.To = p.rig; p.rig == "" {
			return a.refuse(q, "config", 1, &policy.Undecided{Message: "--to me: this repository is nobody's clone, it has no " + policy.CloneConfig, Hint: "--to <rig-id>"})
		}
	}
	db, err := controlplane.Open(ctx, p.target, false)
	if err != nil {
		return a.refuse(q, "runtime", 2, err)
	}
	defer db.Close()
	q.p.Repos = []string{p.name}
	if q.all || len(q.repos) > 0 {
		known, err := db.Repositories(ctx)
		if err != nil {
			return a.refuse(q, "runtime", 2, err)
		}
		for _, name := range q.repos {
			if !slices.Contains(known, name) {
				return a.refuse(q, "usage", 1, &cli.Error{Message: "the control plane has no repository " + finding.QuoteMax(name, 60), Hint: a.program + " query open --all --json lists them"})
			}
		}
		if q.p.Repos = known; !q.all {
			q.p.Repos = slices.Compact(slices.Sorted(slices.Values(q.repos)))
		}
	}
	if q.feed != nil {
		return a.follow(whole, q, db)
	}
	found, err := db.Ask(ctx, q.query, q.p)
	if err != nil {
		return a.refuse(q, "runtime", 2, err)
	}
	indexed, err := db.AsOf(ctx, q.p.Repos)
	if err != nil {
		return a.refuse(q, "runtime", 2, err)
	}
	var of []asOf
	for _, repo := range q.p.Repos {
		of = append(of, asOf{repo, indexed[repo]})
	}
	if strings.Contains(q.query.Name, "push") {
		a.waiting(p)
	}
	if q.csv {
		return a.csv(q, found)
	}
	return a.print(a.answer(q, found, of))
}

// waiting says that pushes are told of which the database does not have yet.
func (a *app) waiting(p *place) {
	box := outbox.Dir(p.repo.CommonDir())
	if n, err := outbox.Waiting(box, outbox.Shipped(box)); p.server && err == nil && n > 0 {
		fmt.Fprintf(a.env.Stderr, "%s: %s: %d bytes of the push log are not in the database yet\nhint: rig-control ship --once\n", a.program, a.command, n)
	}
}

// questions lists what can be asked.
func questions() string {
	var b strings.Builder
	for _, q := range controlplane.Queries() {
		name := q.Name + map[controlplane.Operand]string{controlplane.Hash: " HASH", controlplane.Words: " WORD..."}[q.Takes]
		fmt.Fprintf(&b, "  %-14s %s\n", name, q.Help)
	}
	return b.String()
}

// read takes the question from a command line of that program.
func (q *question) read(line cli.Line, program string, now time.Time) error {
	q.p.Now, q.p.Limit = now, 100
	q.csv, q.repos, q.all, q.p.Refused = line.Has("--csv"), line.All("--repo"), line.Has("--all"), line.Has("--refused")
	fail := func(message, hint string) error {
		if strings.HasPrefix(hint, "query ") {
			hint = program + " " + hint
		}
		return &cli.Error{Message: message, Hint: hint}
	}
	var known bool
	if q.query, known = controlplane.Question(line.Word(0)); !known {
		return fail("no question is called "+finding.QuoteMax(line.Word(0), 40), "query --help")
	}
	for _, pair := range [][2]string{{"--csv", "--json"}, {"--all", "--repo"}, {"--follow", "--csv"}, {"--follow", "--sql"}} {
		if line.Has(pair[0]) && line.Has(pair[1]) {
			return fail(pair[0]+" and "+pair[1]+" exclude each other", "")
		}
	}
	if err := q.operand(line, fail); err != nil {
		return err
	}
	for flag, name := range map[string]string{"--to": "to", "--from": "from", "--type": "type", "--since": "since", "--until": "until", "--refused": "refused"} {
		if line.Has(flag) && !q.query.Asks(name) {
			return fail(flag+" says nothing to the question "+q.query.Name, "query --help")
		}
	}
	for flag, into := range map[string]*string{"--to": &q.p.To, "--from": &q.p.From} {
		switch text := line.Get(flag); {
		case !line.Has(flag):
		case flag == "--to" && text == "me":
			q.me = true
		case flag == "--from" && strings.HasSuffix(q.query.Name, "pushes"), flag == "--from" && (q.query.Name == "pushers" || q.query.Name == "push-days"):
			*into = text
		default:
			id, err := envelope.NormalizeRigID(text)
			if err != nil {
				return fail(flag+" "+finding.QuoteMax(text, 60)+": "+err.Error(), "")
			}
			*into = id
		}
	}
	if q.p.Type = line.Get("--type"); line.Has("--type") && !slices.Contains(envelope.Types(), q.p.Type) {
		return fail("--type is "+finding.QuoteMax(q.p.Type, 40)+", expected one of "+strings.Join(envelope.Types(), ", "), "")
	}
	if line.Has("--limit") {
		n, err := strconv.Atoi(line.Get("--limit"))
		if err != nil || n < 0 {
			return fail("--limit is "+finding.QuoteMax(line.Get("--limit"), 40)+", expected a number of rows", "--limit 100")
		}
		if n > 0 && q.feed == nil && !q.query.Asks("limit") {
			return fail("--limit says nothing to the question "+q.query.Name+", whose answer is whole", "query --help")
		}
		q.p.Limit = n
	}
	switch q.query.Name {
	case "idle":
		q.p.Since = now.AddDate(0, 0, -7)
	case "stats", "pushers", "push-days":
		q.p.Since = now.AddDate(0, 0, -30)
	}
	for flag, into := range map[string]*time.Time{"--since": &q.p.Since, "--until": &q.p.Until} {
		if line.Has(flag) {
			var ok bool
			if *into, ok = parseSince(line.Get(flag), now); !ok {
				return fail(flag+" is "+finding.QuoteMax(line.Get(flag), 40)+", expected a date, a time or an age", flag+" 7d")
			}
		}
	}
	if line.Has("--since") && line.Has("--until") && q.p.Until.Before(q.p.Since) {
		return fail("--until lies before --since, so nothing can be between them", "")
	}
	ok := true
	if after := line.Get("--after"); line.Has("--after") && q.feed != nil {
		q.feed.place, ok = controlplane.ParsePlace(after)
	} else if line.Has("--after") {
		q.p.Cursor, ok = controlplane.ParseCursor(q.query, after)
	}
	if !ok {
		return fail("--after is not the cursor of an answer to "+q.query.Name, "take it from after= of that answer")
	}
	return nil
}

// operand takes what a question is asked with.
func (q *question) operand(line cli.Line, fail func(message, hint string) error) error {
	words := line.Words[1:]
	if line.Has("--follow") {
		if q.query.Name != "events" || len(words) > 0 {
			return fail("--follow is for the question events, without a hash", "query events --follow")
		}
		q.feed = &feed{once: line.Has("--once")}
		return nil
	}
	if line.Has("--once") {
		return fail("--once is for --follow", "query events --follow --once")
	}
	switch {
	case q.query.Takes == controlplane.Words:
		if q.p.Words = controlplane.ParseWords(words); len(q.p.Words) == 0 {
			return fail("there is no word to search for", "query search WORD...")
		}
		return nil
	case q.query.Takes == controlplane.Nothing && len(words) > 0:
		hint := "query --help"
		if id, err := envelope.NormalizeRigID(words[0]); err == nil && q.query.Asks("to") && !line.Has("--to") {
			hint = "query " + q.query.Name + " --to " + id
		}
		return fail("unexpected argument "+finding.QuoteMax(words[0], 60), hint)
	case q.query.Takes == controlplane.Nothing:
		return nil
	case len(words) == 0:
		return fail("<hash> is missing", "query messages lists them as body_hash")
	case len(words) > 1:
		return fail("unexpected argument "+finding.QuoteMax(words[1], 60), "")
	}
	if q.p.Hash = words[0]; len(q.p.Hash) != 64 || strings.Trim(q.p.Hash, "0123456789abcdef") != "" {
		return fail("<hash> is "+finding.QuoteMax(q.p.Hash, 70)+", expected a body_hash of 64 hexadecimal digits", "query messages lists them")
	}
	return nil
}

// parseSince reads a date, a time, or an age in days, hours or minutes.
func parseSince(s string, now time.Time) (time.Time, bool) {
	if t, _, err := envelope.ParseTime(s); err == nil {
		return t, true
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		return now.AddDate(0, 0, -n), err == nil && n >= 0 && n < 1<<20
	}
	d, err := time.ParseDuration(s)
	return now.Add(-d), err == nil && d >= 0
}

func (a *app) statement(ctx context.Context, q question) (string, error) {
	postgres := false
	if p, err := a.open(ctx, asEither); err == nil { // else that of SQLite
		postgres = p.target.Postgres()
		p.close()
	}
	text, names := q.query.Statement(postgres)
	if q.json {
		line, err := bridge.Line(statement{head, q.query.Name, text, names})
		return string(line) + "\n", err
	}
	var b strings.Builder
	b.WriteString(text + ";\n--")
	for i, name := range names {
		fmt.Fprintf(&b, " $%d %s", i+1, name)
	}
	return b.String() + "\n", nil
}

// columns are those of an answer, and its rows: where several repositories are asked
// about, the first says which.
func (q question) columns(found controlplane.Answer) (names []string, rows [][]any) {
	if len(q.p.Repos) == 1 {
		return q.query.Columns, found.Rows
	}
	for i, row := range found.Rows {
		rows = append(rows, append([]any{found.Repos[i]}, row...))
	}
	return append([]string{"repo"}, q.query.Columns...), rows
}

func (a *app) answer(q question, found controlplane.Answer, of []asOf) (string, error) {
	names, rows := q.columns(found)
	if q.json {
		out := answer{object: head, Query: q.query.Name, Rows: []map[string]any{}, More: found.More, After: found.After}
		if out.Repositories = of; len(of) == 1 {
			out.Repo, out.AsOf, out.Repositories = of[0].Repo, of[0].AsOf, nil
		}
		for _, row := range rows {
			m := map[string]any{}
			for i, name := range names {
				m[name] = row[i]
			}
			out.Rows = append(out.Rows, m)
		}
		line, err := bridge.Line(out)
		return string(line) + "\n", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: query %s rows=%d more=%t", a.program, q.query.Name, len(rows), found.More)
	if found.More {
		b.WriteString(" after=" + found.After)
	}
	if len(of) == 1 {
		fmt.Fprintf(&b, " as_of=%s at=%s", bridge.Token(finding.Short(of[0].Commit)), bridge.Token(of[0].At))
	} else {
		fmt.Fprintf(&b, " repositories=%d", len(of))
	}
	b.WriteByte('\n')
	for _, row := range rows {
		for i, name := range names {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(name + "=" + bridge.Token(inText(name, cell(row[i]))))
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// cell is a value as text, "" for none.
func cell(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// inText is a value of a column as a person reads it: ref updates and places are
// JSON elsewhere.
func inText(column, text string) string {
	var words []string
	switch column {
	case "refs":
		var refs []outbox.Ref
		if json.Unmarshal([]byte(text), &refs) != nil {
			return text
		}
		for _, r := range refs {
			words = append(words, finding.Path(r.Name)+":"+finding.Short(r.Old)+".."+finding.Short(r.New))
		}
	case "places":
		var places []outbox.Place
		if json.Unmarshal([]byte(text), &places) != nil {
			return text
		}
		for _, p := range places {
			word := p.Rule
			if p.Path != "" {
				word += " " + finding.Path(p.Path)
			}
			if p.Line > 0 {
				word += fmt.Sprintf(":%d:%d", p.Line, p.Col)
			}
			words = append(words, word)
		}
	default:
		return text
	}
	return strings.Join(words, ", ")
}

// csv prints an answer as CSV (RFC 4180). What a spreadsheet would take for a formula
// begins with an apostrophe, and characters that are not printable are escaped.
func (a *app) csv(q question, found controlplane.Answer) int {
	names, rows := q.columns(found)
	w := csv.NewWriter(a.env.Stdout)
	err := w.Write(names)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = defused(cell(v))
		}
		if err == nil {
			err = w.Write(cells)
		}
	}
	if w.Flush(); err == nil {
		err = w.Error()
	}
	if found.More && err == nil {
		fmt.Fprintf(a.env.Stderr, "%s: query %s more=true after=%s\n", a.program, q.query.Name, found.After)
	}
	return a.print("", err)
}

// formulas are the characters with which a formula begins, in spreadsheets of some
// languages also when they are wide.
const formulas = "=+-@\t\r\uff1d\uff0b\uff0d\uff20"

func defused(text string) string {
	if first, _ := utf8.DecodeRuneInString(text); text != "" && strings.ContainsRune(formulas, first) {
		text = "'" + text
	}
	return finding.Clean(text)
}

func (a *app) print(text string, err error) int {
	if err == nil {
		_, err = io.WriteString(a.env.Stdout, text)
	}
	if err != nil {
		fmt.Fprintf(a.env.Stderr, "%s: query: cannot write to standard output\n", a.program)
		return report.ExitUndecided
	}
	return 0
}

// refuse tells why a question is not answered.
func (a *app) refuse(q question, code string, exit int, err error) int {
	a.fail(err)
	if q.json {
		p := problem{object: head}
		p.Error.Code, p.Error.Message, p.Error.Hint = code, finding.Clean(err.Error()), hintOf(err)
		if line, err := bridge.Line(p); err == nil {
			fmt.Fprintf(a.env.Stdout, "%s\n", line)
		}
	}
	return exit
}
