package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/order"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// A page is one kind of page.
type page struct {
	file, title string
	fill        func(*view) (any, error)
}

func (c *Console) routes() map[string]page {
	return map[string]page{
		"/{$}":          {"waiting", "Waiting", c.waiting},
		"/threads":      {"threads", "Threads", c.threads},
		"/thread":       {"thread", "Thread", c.thread},
		"/message":      {"message", "Message", c.message},
		"/search":       {"search", "Search", c.search},
		"/pushes":       {"pushes", "Pushes", c.pushes},
		"/trouble":      {"trouble", "Trouble", c.trouble},
		"/rigs":         {"rigs", "Rigs", c.rigs},
		"/repositories": {"repositories", "Repositories", c.repositories},
		"/rules":        {"rules", "Rules", c.rulesPage},
		"/":             {"missing", "Not found", func(*view) (any, error) { return nil, errNotFound }},
	}
}

// A view is one page that is asked for.
type view struct {
	ctx   context.Context
	db    *controlplane.DB
	query url.Values
	now   time.Time

	// For the frame of the page.
	Title, Name, Console string
	Repos                []string // that are shown
	Repo                 string   // that was chosen, "" for all
	AsOf                 []asOf
	Waits, Refused       string // how much there is of both, "" for nothing
	Version, Problem     string
	Body                 any
}

type asOf struct{ Repo, Commit, At string }

// show answers with a page.
func (c *Console) show(w http.ResponseWriter, r *http.Request, p page) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	v := &view{ctx: ctx, query: r.URL.Query(), now: c.o.Now(), Title: p.title, Name: p.file, Console: c.o.Title}
	err := c.with(ctx, func(db *controlplane.DB) (err error) {
		v.db = db
		if v.Repos, err = c.known(ctx, db); err != nil {
			return err
		}
		if v.Repo = v.query.Get("repo"); v.Repo != "" && !slices.Contains(v.Repos, v.Repo) {
			v.Repo = ""
			return errNotFound
		}
		indexed, err := db.AsOf(ctx, v.asked())
		if err != nil {
			return err
		}
		for _, repo := range v.asked() {
			v.AsOf = append(v.AsOf, asOf{repo, indexed[repo].Commit, indexed[repo].At})
		}
		v.Version, _ = c.live.get()
		t, err := c.tally(ctx, db, v.Repos)
		if err == nil {
			v.Waits, v.Refused = many(t.waits, false), many(t.refused, t.more)
			v.Body, err = p.fill(v)
		}
		return err
	})
	status, file := http.StatusOK, p.file
	switch {
	case errors.Is(err, errNotFound):
		status, file, v.Title = http.StatusNotFound, "missing", "Not found"
	case err != nil:
		status, file, v.Title, v.Problem = http.StatusServiceUnavailable, "missing", "Not available", err.Error()
	}
	var b bytes.Buffer
	if err := c.pages[file].ExecuteTemplate(&b, "base.html", v); err != nil {
		c.refuse(w, http.StatusInternalServerError, "The page could not be made: "+finding.Clean(err.Error()))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // who asked may have left
}

// asked are the repositories that the page is about.
func (v *view) asked() []string {
	if v.Repo != "" {
		return []string{v.Repo}
	}
	return v.Repos
}

// Several reports whether rows of several repositories stand together.
func (v *view) Several() bool { return len(v.asked()) > 1 }

func many(n int, more bool) string {
	switch {
	case n == 0:
		return ""
	case more:
		return fmt.Sprintf("%d+", n)
	}
	return fmt.Sprint(n)
}

// A list is an answer as a table: rows by the names of their columns, and where the
// next ones are.
type list struct {
	Rows []map[string]any
	Next string // query of the address of the next page
	More bool
}

// ask answers a question; after is the parameter that has the cursor.
func (v *view) ask(name, after string, p controlplane.Parameters) (l list, err error) {
	q, _ := controlplane.Question(name)
	p.Repos, p.Now = v.asked(), v.now
	if p.Limit == 0 {
		p.Limit = perPage
	}
	if at := v.query.Get(after); at != "" && after != "" {
		var ok bool
		if p.Cursor, ok = controlplane.ParseCursor(q, at); !ok {
			return l, errNotFound
		}
	}
	a, err := v.db.Ask(v.ctx, q, p)
	for i, row := range a.Rows {
		m := map[string]any{"repo": a.Repos[i]}
		for j, column := range q.Columns {
			m[column] = row[j]
		}
		l.Rows = append(l.Rows, m)
	}
	if l.More = a.More; a.After != "" && after != "" {
		next := url.Values{}
		for key, values := range v.query {
			next[key] = values
		}
		next.Set(after, a.After)
		l.Next = next.Encode()
	}
	return l, err
}

// A tally is what waits, which is counted when something has changed.
type tally struct {
	rigs           []backlog
	waits, refused int
	more           bool
}

type backlog struct {
	Rig    string
	N      int
	Oldest string
}

// tally counts what waits in repositories.
func (c *Console) tally(ctx context.Context, db *controlplane.DB, repos []string) (tally, error) {
	version, _ := c.live.get()
	key := version + "\x00" + strings.Join(repos, "\x00")
	c.mu.Lock()
	t, known := c.backlog[key]
	c.mu.Unlock()
	if known && version != "" {
		return t, nil
	}
	q, _ := controlplane.Question("backlog")
	a, err := db.Ask(ctx, q, controlplane.Parameters{Repos: repos, Now: c.o.Now()})
	if err != nil {
		return t, err
	}
	byRig := map[string]*backlog{}
	for _, row := range a.Rows {
		rig, _ := row[0].(string)
		n, _ := row[1].(int64)
		oldest, _ := row[2].(string)
		if byRig[rig] == nil {
			byRig[rig] = &backlog{Rig: rig, Oldest: oldest}
		}
		b := byRig[rig]
		b.N, b.Oldest = b.N+int(n), min(b.Oldest, oldest)
		t.waits += int(n)
	}
	for _, b := range byRig {
		t.rigs = append(t.rigs, *b)
	}
	slices.SortFunc(t.rigs, func(a, b backlog) int {
		if a.N != b.N {
			return b.N - a.N
		}
		return strings.Compare(a.Rig, b.Rig)
	})
	q, _ = controlplane.Question("refused-pushes")
	a, err = db.Ask(ctx, q, controlplane.Parameters{Repos: repos, Now: c.o.Now(), Since: c.o.Now().AddDate(0, 0, -7), Limit: 99})
	t.refused, t.more = len(a.Rows), a.More
	if err == nil {
		c.mu.Lock()
		if len(c.backlog) > 32 || c.backlog == nil {
			c.backlog = map[string]tally{}
		}
		c.backlog[key] = t
		c.mu.Unlock()
	}
	return t, err
}

type waitingPage struct {
	To    string
	Rigs  []backlog
	Total int
	Turns list
}

func (c *Console) waiting(v *view) (any, error) {
	p := waitingPage{To: v.query.Get("to")}
	t, err := c.tally(v.ctx, v.db, v.asked())
	if err != nil {
		return nil, err
	}
	p.Rigs, p.Total = t.rigs, t.waits
	p.Turns, err = v.ask("turn", "after", controlplane.Parameters{To: p.To})
	return p, err
}

type threadsPage struct {
	Idle    bool
	Threads list
}

func (c *Console) threads(v *view) (any, error) {
	p := threadsPage{Idle: v.query.Get("idle") != ""}
	var err error
	if p.Idle {
		p.Threads, err = v.ask("idle", "after", controlplane.Parameters{Since: v.now.AddDate(0, 0, -7)})
	} else {
		p.Threads, err = v.ask("open", "after", controlplane.Parameters{})
	}
	return p, err
}

// A said is a message on the page of its thread.
type said struct {
	*controlplane.Said
	Number        int
	Repo, Thread  string
	Body          template.HTML
	NoBody        string // why there is none
	Answers       []int
	Answered      []int
	Refers        []int
	Acked, Beside []controlplane.Happened
	Frozen        string // until when
}

type threadPage struct {
	Thread   string
	Closed   bool
	Frozen   string // until when
	Diverged bool
	Graph    template.HTML
	Left     int // turns that the graph leaves out
	Said     []*said
	Apart    []*said
	Refusals []controlplane.Refusal
	Pages    []int
	Page     int
	Total    int
	Part     bool   // numbers count on this page alone
	Older    string // the cursor of the page before this one
}

// graphTurns is how many turns the graph of a thread shows at the most.
const graphTurns = 40

func (c *Console) thread(v *view) (any, error) {
	p := threadPage{Thread: v.query.Get("thread")}
	if v.Repo == "" || p.Thread == "" {
		return nil, errNotFound
	}
	l, err := v.db.Look(v.ctx, v.Repo, p.Thread, controlplane.Part{Before: v.query.Get("before"), Limit: perPage})
	if err != nil {
		return nil, err
	}
	if len(l.Said)+len(l.Refusals) == 0 {
		return nil, errNotFound
	}
	v.Title, p.Closed, p.Refusals, p.Part, p.Older = p.Thread, l.Closed, l.Refusals, l.Part, l.Older
	if l.Frozen >= v.now.UTC().Format(time.RFC3339) {
		p.Frozen = l.Frozen
	}
	var all []*said
	for _, m := range l.Said {
		s := &said{Said: m, Repo: v.Repo, Thread: p.Thread}
		if m.Apart {
			p.Apart = append(p.Apart, s)
			continue
		}
		all = append(all, s)
		s.Number = len(all)
		for _, e := range m.Events {
			switch e.Kind {
			case "acked":
				s.Acked = append(s.Acked, e)
			case "diverged":
				s.Beside, p.Diverged = append(s.Beside, e), true
			case "frozen":
				if s.Frozen = e.Notes; e.Notes > p.Frozen && e.Notes >= v.now.UTC().Format(time.RFC3339) {
					p.Frozen = e.Notes
				}
			}
		}
	}
	links := order.Links(all, func(s *said) (hash, replyTo, commit string, refs []string) {
		return s.Hash, s.ReplyTo, s.Commit, s.References
	})
	for _, k := range links {
		from, to := all[k.From], all[k.To]
		if k.Answers {
			from.Answers, to.Answered = append(from.Answers, to.Number), append(to.Answered, from.Number)
		} else if !slices.Contains(from.Refers, to.Number) {
			from.Refers = append(from.Refers, to.Number)
		}
	}
	// The newest are on the last page, which is shown first.
	p.Total = len(all)
	n := max(1, (len(all)+perPage-1)/perPage)
	p.Page = n
	for i := range n {
		p.Pages = append(p.Pages, i+1)
		if v.query.Get("page") == fmt.Sprint(i+1) {
			p.Page = i + 1
		}
	}
	p.Said = all[(p.Page-1)*perPage : min(len(all), p.Page*perPage)]
	if l.Part {
		p.Total, p.Pages, p.Said = l.Total, nil, all
	}
	p.Graph, p.Left = graph(p.Thread, p.Said, all, links)
	c.bodies(v.Repo, p.Said)
	return p, nil
}

// graph draws the turns of a page.
func graph(thread string, shown, all []*said, links []order.Link) (template.HTML, int) {
	left := max(0, len(shown)-graphTurns)
	shown = shown[left:]
	if len(shown) < 2 {
		return "", 0
	}
	path := func(s *said) string { return s.Commit + "/" + s.File }
	t := report.Thread{ID: thread}
	for _, s := range shown {
		u := report.Turn{Path: path(s), Type: s.Type, From: s.From, New: true, Relay: s.AttestedBy != ""}
		for _, k := range links {
			if all[k.From] != s {
				continue
			}
			if k.Answers {
				u.Answers = append(u.Answers, path(all[k.To]))
			} else {
				u.Names = append(u.Names, path(all[k.To]))
			}
		}
		for _, e := range s.Beside {
			for _, o := range shown {
				if o.File == e.Notes && o.From == e.By && o.Number < s.Number {
					u.Diverges = append(u.Diverges, path(o))
				}
			}
		}
		t.Turns = append(t.Turns, u)
	}
	return template.HTML(report.Graph(t)), left // escaped by report
}

// maxBodies is how many bytes of bodies one page shows.
const maxBodies = 2 << 20

// bodies reads the bodies of messages from git.
func (c *Console) bodies(repo string, all []*said) {
	r := c.o.Repos[repo]
	total := 0
	for _, s := range all {
		switch {
		case r == nil:
			s.NoBody = "The repository is not on this machine, and bodies are in git alone."
		case total > maxBodies:
			s.NoBody = "This page has enough text."
		default:
			text := ""
			if text, s.NoBody = body(r, s.Said); s.NoBody == "" {
				total += len(text)
				s.Body = c.text.render(text)
			}
		}
	}
}

// body reads one body. It is that of the message only if it has its hash.
func body(r *gitrepo.Repo, s *controlplane.Said) (text, problem string) {
	data, err := r.Blob(s.Blob, maxText)
	if errors.Is(err, gitrepo.ErrTooLarge) {
		return "", "The body is larger than is shown here."
	}
	if err != nil {
		return "", "The body cannot be read: " + err.Error()
	}
	e, _ := envelope.Parse(data, envelope.Options{Path: s.Path, Screen: true})
	if e == nil || e.Hash != s.Hash {
		return "", "What git has is not what was indexed."
	}
	return e.Secrets.Hide(string(e.Body)), ""
}

// message is the page of one message: of what the gates refuse, the only one with
// the body.
func (c *Console) message(v *view) (any, error) {
	thread, commit, file := v.query.Get("thread"), v.query.Get("commit"), v.query.Get("file")
	if v.Repo == "" || file == "" {
		return nil, errNotFound
	}
	l, err := v.db.Look(v.ctx, v.Repo, thread, controlplane.Part{Commit: commit, File: file})
	if err != nil {
		return nil, err
	}
	for _, m := range l.Said {
		if m.Commit == commit && m.File == file {
			s := &said{Said: m, Repo: v.Repo, Thread: thread}
			c.bodies(v.Repo, []*said{s})
			v.Title = m.File
			return s, nil
		}
	}
	return nil, errNotFound
}

type searchPage struct {
	Words            string
	Refused, Nothing bool
	Found            list
}

func (c *Console) search(v *view) (any, error) {
	p := searchPage{Words: v.query.Get("q"), Refused: v.query.Get("refused") != ""}
	words := controlplane.ParseWords([]string{p.Words})
	if len(words) > 32 {
		words = words[:32]
	}
	if p.Nothing = len(words) == 0; p.Nothing {
		return p, nil
	}
	var err error
	p.Found, err = v.ask("search", "after", controlplane.Parameters{Words: words, Refused: p.Refused})
	return p, err
}

type pushesPage struct{ Refused, All list }

func (c *Console) pushes(v *view) (any, error) {
	var p pushesPage
	var err error
	if p.Refused, err = v.ask("refused-pushes", "refused", controlplane.Parameters{Limit: 25}); err == nil {
		p.All, err = v.ask("pushes", "after", controlplane.Parameters{})
	}
	return p, err
}

type troublePage struct{ Frozen, Diverged, Refused list }

func (c *Console) trouble(v *view) (any, error) {
	var p troublePage
	var err error
	if p.Frozen, err = v.ask("frozen", "frozen", controlplane.Parameters{}); err != nil {
		return p, err
	}
	if p.Diverged, err = v.ask("diverged", "diverged", controlplane.Parameters{Limit: 25}); err != nil {
		return p, err
	}
	p.Refused, err = v.ask("refused", "refused", controlplane.Parameters{Limit: 25})
	return p, err
}

type rigsPage struct{ Stats, Pushers list }

func (c *Console) rigs(v *view) (any, error) {
	var p rigsPage
	var err error
	since := v.now.AddDate(0, 0, -30)
	if p.Stats, err = v.ask("stats", "", controlplane.Parameters{Since: since}); err == nil {
		p.Pushers, err = v.ask("pushers", "", controlplane.Parameters{Since: since})
	}
	return p, err
}

type repositoryRow struct {
	Of   asOf
	Here bool // it is on this machine, and the rest is known
	State
}

func (c *Console) repositories(v *view) (any, error) {
	var states []State
	if c.o.States != nil {
		var err error
		if states, err = c.o.States(v.ctx); err != nil {
			return nil, err
		}
	}
	var rows []repositoryRow
	for _, of := range v.AsOf {
		row := repositoryRow{Of: of}
		for _, s := range states {
			if s.Repo == of.Repo {
				row.Here, row.State = true, s
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// A rulePage is the section of a rule in docs/rules.md.
type rulePage struct {
	ID   string
	Says string // its first sentence
	Text template.HTML
}

func (c *Console) readRules(text string) {
	c.rules = map[string]rulePage{}
	for i, section := range strings.Split(text, "\n## ") {
		id, rest, _ := strings.Cut(section, "\n")
		if i == 0 || strings.ContainsAny(id, " ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			continue // the beginning, and the examples
		}
		rest = strings.TrimSpace(rest)
		says, _, _ := strings.Cut(rest, "\n\n")
		c.rules[id] = rulePage{id, strings.ReplaceAll(says, "\n", " "), c.text.render(rest)}
		c.order = append(c.order, id)
	}
}

type rulesPage struct {
	Rule *rulePage
	All  []rulePage
}

func (c *Console) rulesPage(v *view) (any, error) {
	var p rulesPage
	if id := v.query.Get("rule"); id != "" {
		rule, known := c.rules[id]
		if !known {
			return nil, errNotFound
		}
		p.Rule, v.Title = &rule, id
	}
	for _, id := range c.order {
		p.All = append(p.All, c.rules[id])
	}
	return p, nil
}

// functions are those of the templates.
func (c *Console) functions() template.FuncMap {
	return template.FuncMap{
		"t":     clean,
		"short": func(v any) string { s := clean(v); return s[:min(12, len(s))] },
		"age":   func(v any) template.HTML { return age(clean(v), c.o.Now()) },
		"rules": func(v any) []rulePage {
			var out []rulePage
			for _, id := range strings.Fields(clean(v)) {
				rule, known := c.rules[id]
				if !known {
					rule.ID = ""
					rule.Says = id
				}
				out = append(out, rule)
			}
			return out
		},
		"refs":   func(v any) []outbox.Ref { return parsed[outbox.Ref](v) },
		"places": func(v any) []outbox.Place { return parsed[outbox.Place](v) },
		"lasts":  lasts,
		"share": func(v any) string {
			if f, ok := v.(float64); ok {
				return fmt.Sprintf("%.1f %%", f*100)
			}
			return "–"
		},
		"number": func(v any) string {
			switch n := v.(type) {
			case nil:
				return "–"
			case float64:
				return fmt.Sprintf("%.0f", n)
			}
			return fmt.Sprint(v)
		},
		"address": func(path string, pairs ...any) (template.URL, error) {
			q := url.Values{}
			for i := 0; i+1 < len(pairs); i += 2 {
				if s := fmt.Sprint(pairs[i+1]); pairs[i+1] != nil && s != "" {
					q.Set(fmt.Sprint(pairs[i]), s)
				}
			}
			if len(q) == 0 {
				return template.URL(path), nil
			}
			return template.URL(path + "?" + q.Encode()), nil
		},
		"verdict": func(state, rules any) verdictView { return verdictOf(clean(state), clean(rules)) },
		"list":    func(v ...any) []any { return v },
		"join":    func(v []string) string { return clean(strings.Join(v, ", ")) },
	}
}

// clean is a value as text that can deceive nobody, "" for none.
func clean(v any) string {
	if v == nil {
		return ""
	}
	return finding.Clean(fmt.Sprint(v))
}

func parsed[T any](v any) (out []T) {
	if s, ok := v.(string); ok && json.Unmarshal([]byte(s), &out) != nil {
		return nil // nobody of ours wrote this
	}
	return out
}

// A verdictView is a verdict for people: a sign, a word and what it means.
type verdictView struct{ State, Sign, Means, Rules string }

func verdictOf(state, rules string) verdictView {
	v := verdictView{State: state, Sign: "?", Means: "the gates cannot decide", Rules: rules}
	switch state {
	case "verified":
		v.Sign, v.Means = "✓", "the gates take it, and a listed key signed it"
	case "unsigned":
		v.Sign, v.Means = "○", "the gates take it, and nobody's signature stands for it"
	case "refused":
		v.Sign, v.Means = "✕", "the gates refuse it"
	case "pending":
		v.Sign, v.Means = "…", "it is not judged yet"
	default:
		v.State = "unknown"
	}
	return v
}

// age shows a moment by how long ago it was.
func age(at string, now time.Time) template.HTML {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return template.HTML(template.HTMLEscapeString(at))
	}
	d, words := now.Sub(t), ""
	switch {
	case d < -time.Minute:
		words = "in " + span(-d)
	case d < time.Minute:
		words = "now"
	default:
		words = span(d) + " ago"
	}
	moment := t.UTC().Format("2006-01-02 15:04:05 UTC")
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `" title="` + moment + `">` + words + `</time>`)
}

func span(d time.Duration) string {
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 100*24*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return fmt.Sprintf("%d months", d/(30*24*time.Hour))
}

// lasts shows a number of seconds.
func lasts(v any) string {
	n, ok := v.(int64)
	if !ok {
		return "–"
	}
	if n < 60 {
		return fmt.Sprintf("%d s", n)
	}
	return span(time.Duration(n) * time.Second)
}
