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
func (a *app) query(ctx context.Context, args []string) int {
	q, help, err := parseQuestion(args, a.env.Now())
	if help {
		fmt.Fprint(a.env.Stdout, questions())
		return 0
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
	if err != nil {
		return a.refuse(q, "runtime", 2, err)
	}
	return a.print(a.answer(q, rows, more))
}

func questions() string {
	var b strings.Builder
	b.WriteString("usage: rig-bridge query <question> [<hash>] [--to RIG|me] [--since TIME] [--limit N] [--sql] [--json]\n\n")
	for _, q := range controlplane.Queries() {
		name := q.Name
		if q.Hash {
			name += " HASH"
		}
		fmt.Fprintf(&b, "  %-14s %s\n", name, q.Help)
	}
	return b.String()
}

func parseQuestion(args []string, now time.Time) (q question, help bool, err error) {
	q.p.Now, q.p.Limit = now, 100
	q.json = slices.Contains(args, "--json")
	fail := func(message, hint string) {
		if err == nil {
			err = &policy.Undecided{Message: message, Hint: hint}
		}
	}
	var words []string
	sinceGiven := false
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		switch {
		case args[i] == "-h" || args[i] == "--help":
			return q, true, nil
		case args[i] == "--":
			words = append(words, args[i+1:]...)
			i = len(args)
			continue
		case !strings.HasPrefix(args[i], "--"):
			words = append(words, args[i])
			continue
		case inline && slices.Contains([]string{"--json", "--sql", "--no-color"}, name):
			fail(name+" takes no value", "")
			continue
		}
		valued := slices.Contains([]string{"--to", "--since", "--limit"}, name)
		if valued && !inline {
			if i+1 == len(args) || strings.HasPrefix(args[i+1], "--") {
				fail(name+" needs a value", "")
				continue
			}
			i++
			value = args[i]
		}
		switch name {
		case "--json", "--no-color":
		case "--sql":
			q.sql = true
		case "--to":
			if q.me = value == "me"; q.me {
				continue
			}
			id, idErr := envelope.NormalizeRigID(value)
			if idErr != nil {
				fail("--to "+finding.QuoteMax(value, 60)+": "+idErr.Error(), "")
			}
			q.p.To = id
		case "--since":
			sinceGiven = true
			var ok bool
			if q.p.Since, ok = parseSince(value, now); !ok {
				fail("--since is "+finding.QuoteMax(value, 40)+", expected a date, a time or an age", "--since 7d")
			}
		case "--limit":
			n, convErr := strconv.Atoi(value)
			if convErr != nil || n < 0 {
				fail("--limit is "+finding.QuoteMax(value, 40)+", expected a number of rows", "--limit 100")
			}
			q.p.Limit = n
		default:
			fail("unknown flag "+finding.QuoteMax(name, 40), "rig-bridge query --help")
		}
	}
	if len(words) == 0 {
		fail("<question> is missing", "rig-bridge query --help")
		return q, false, err
	}
	all := controlplane.Queries()
	i := slices.IndexFunc(all, func(c controlplane.Query) bool { return c.Name == words[0] })
	if i < 0 {
		fail("no question is called "+finding.QuoteMax(words[0], 40), "rig-bridge query --help")
		return q, false, err
	}
	q.query = all[i]
	most := 1
	if q.query.Hash {
		most = 2
		if len(words) < 2 {
			fail("<hash> is missing", "rig-bridge thread <thread-id> --json lists the hashes")
		} else if q.p.Hash = words[1]; len(q.p.Hash) != 64 || strings.Trim(q.p.Hash, "0123456789abcdef") != "" {
			fail("<hash> is "+finding.QuoteMax(words[1], 70)+", expected a body_hash of 64 hexadecimal digits", "")
		}
	}
	if len(words) > most {
		fail("surplus word "+finding.QuoteMax(words[most], 60), "")
	}
	if q.query.Name == "idle" && !sinceGiven {
		q.p.Since = now.Add(-7 * 24 * time.Hour)
	}
	return q, false, err
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

func (a *app) answer(q question, rows [][]any, more bool) (string, error) {
	if q.json {
		out := answer{head, q.query.Name, q.p.Repo, []map[string]any{}, more}
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
	fmt.Fprintf(&b, "%s: query %s rows=%d more=%t\n", a.program, q.query.Name, len(rows), more)
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
		p.Error.Code, p.Error.Message, p.Error.Hint = code, finding.Clean(err.Error()), policy.HintOf(err)
		if line, err := bridge.Line(p); err == nil {
			fmt.Fprintf(a.env.Stdout, "%s\n", line)
		}
	}
	return exit
}
