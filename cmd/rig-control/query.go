package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/controlplane"
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
	// AsOf is the commit of the main ref that was indexed last, and when.
	AsOf controlplane.AsOf `json:"as_of"`
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
		err = q.read(line, a.env.Now())
	}
	if err != nil {
		return a.refuse(q, "usage", 1, err)
	}
	if q.sql {
		return a.print(a.statement(q))
	}
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
			return a.refuse(q, "config", 1, &policy.Undecided{Message: "--to me: this repository is nobody's clone, it has no .bridge/config.yaml", Hint: "--to <rig-id>"})
		}
	}
	db, err := controlplane.Open(ctx, p.target, false)
	if err != nil {
		return a.refuse(q, "runtime", 2, err)
	}
	defer db.Close()
	q.p.Repo = p.name
	rows, more, err := db.Ask(ctx, q.query, q.p)
	var of controlplane.AsOf
	if err == nil {
		of, err = db.AsOf(ctx, p.name)
	}
	if err != nil {
		return a.refuse(q, "runtime", 2, err)
	}
	return a.print(a.answer(q, rows, more, of))
}

// questions lists what can be asked.
func questions() string {
	var b strings.Builder
	for _, q := range controlplane.Queries() {
		name := q.Name
		if q.Hash {
			name += " HASH"
		}
		fmt.Fprintf(&b, "  %-14s %s\n", name, q.Help)
	}
	return b.String()
}

// read takes the question from a command line.
func (q *question) read(line cli.Line, now time.Time) error {
	q.p.Now, q.p.Limit = now, 100
	fail := func(message, hint string) error { return &cli.Error{Message: message, Hint: hint} }
	if to := line.Get("--to"); to == "me" {
		q.me = true
	} else if line.Has("--to") {
		id, err := envelope.NormalizeRigID(to)
		if err != nil {
			return fail("--to "+finding.QuoteMax(to, 60)+": "+err.Error(), "")
		}
		q.p.To = id
	}
	if line.Has("--limit") {
		n, err := strconv.Atoi(line.Get("--limit"))
		if err != nil || n < 0 {
			return fail("--limit is "+finding.QuoteMax(line.Get("--limit"), 40)+", expected a number of rows", "--limit 100")
		}
		q.p.Limit = n
	}
	all := controlplane.Queries()
	i := slices.IndexFunc(all, func(c controlplane.Query) bool { return c.Name == line.Word(0) })
	if i < 0 {
		return fail("no question is called "+finding.QuoteMax(line.Word(0), 40), "rig-bridge query --help")
	}
	q.query = all[i]
	switch q.p.Hash = line.Word(1); {
	case !q.query.Hash && len(line.Words) > 1:
		return fail("unexpected argument "+finding.QuoteMax(q.p.Hash, 60), "")
	case q.query.Hash && len(line.Words) < 2:
		return fail("<hash> is missing", "rig-bridge thread <thread-id> --json lists the hashes")
	case q.query.Hash && (len(q.p.Hash) != 64 || strings.Trim(q.p.Hash, "0123456789abcdef") != ""):
		return fail("<hash> is "+finding.QuoteMax(q.p.Hash, 70)+", expected a body_hash of 64 hexadecimal digits", "")
	}
	if q.query.Name == "idle" {
		q.p.Since = now.Add(-7 * 24 * time.Hour)
	}
	if line.Has("--since") {
		var ok bool
		if q.p.Since, ok = parseSince(line.Get("--since"), now); !ok {
			return fail("--since is "+finding.QuoteMax(line.Get("--since"), 40)+", expected a date, a time or an age", "--since 7d")
		}
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

func (a *app) statement(q question) (string, error) {
	text, names := q.query.Statement()
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

func (a *app) answer(q question, rows [][]any, more bool, of controlplane.AsOf) (string, error) {
	if q.json {
		out := answer{head, q.query.Name, q.p.Repo, []map[string]any{}, more, of}
		for _, row := range rows {
			m := map[string]any{}
			for i, name := range q.query.Columns {
				m[name] = row[i]
			}
			out.Rows = append(out.Rows, m)
		}
		line, err := bridge.Line(out)
		return string(line) + "\n", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: query %s rows=%d more=%t as_of=%s at=%s\n", a.program, q.query.Name, len(rows), more, bridge.Token(short(of.Commit)), bridge.Token(of.At))
	for _, row := range rows {
		for i, name := range q.query.Columns {
			if i > 0 {
				b.WriteByte(' ')
			}
			value := ""
			if row[i] != nil {
				value = fmt.Sprint(row[i])
			}
			b.WriteString(name + "=" + bridge.Token(value))
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
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
