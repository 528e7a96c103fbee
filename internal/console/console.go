// Package console is the page of the control plane: it shows what the index holds,
// with the bodies of messages from git. It only reads: GET and HEAD are all that it
// answers, and the database is opened for reading.
//
// What it shows was written by others, who may want to deceive whoever looks. Texts
// pass finding.Clean and are escaped by html/template; bodies are rendered by
// markdown, which see. A strict Content-Security-Policy forbids all that is not a
// file of this package, and nothing is loaded from elsewhere.
//
// Who may look is decided once, in admit: the Host must be one of this server, and
// then the token or the header of a proxy must be there.
package console

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rigward/rigward/docs"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// Options of a console.
type Options struct {
	Target controlplane.Target
	// Repos are the repositories whose bodies can be read here, by their names in the
	// database.
	Repos map[string]*gitrepo.Repo
	// Only says that no other repository of the database is shown.
	Only bool
	// States tells how far the repositories here are, "" for those that are well.
	States func(context.Context) ([]State, error)
	// Metrics is the text of /metrics, without what the database says.
	Metrics func(context.Context) (string, error)
	Access  Access
	Title   string           // of the page
	Now     func() time.Time // by which ages are told
	Clock   func() time.Time // of the machine, for deadlines
}

// A State is how far the index of a repository is.
type State struct {
	Repo, Place, Head, Problem, Checked string
	Behind, Wrong                       int
	Waiting                             int64 // bytes of the outbox
}

// Limits of a console.
const (
	maxAtOnce    = 8  // questions to the database
	maxLive      = 64 // pages that are kept up to date
	maxLiveOfOne = 16 // of one who looks
	perPage      = 50
	answerTime   = 10 * time.Second
)

//go:embed pages static
var files embed.FS

// A Console answers requests.
type Console struct {
	o     Options
	mux   *http.ServeMux
	pages map[string]*template.Template
	text  *markdown
	rules map[string]rulePage
	order []string // of the rules

	free chan *controlplane.DB // connections that nobody uses; nil ones are not open
	live *live

	mu      sync.Mutex
	backlog map[string]tally // by the version of what they are of
}

// New makes a console. Run has to be called, too.
func New(o Options) (*Console, error) {
	c := &Console{o: o, mux: http.NewServeMux(), pages: map[string]*template.Template{}, text: newMarkdown(), free: make(chan *controlplane.DB, maxAtOnce), live: newLive()}
	for range maxAtOnce {
		c.free <- nil
	}
	c.readRules(docs.Rules())
	base, err := template.New("base").Funcs(c.functions()).ParseFS(files, "pages/base.html", "pages/parts.html")
	if err != nil {
		return nil, err
	}
	for path, p := range c.routes() {
		t, err := base.Clone()
		if err == nil {
			_, err = t.ParseFS(files, "pages/"+p.file+".html")
		}
		if err != nil {
			return nil, err
		}
		c.pages[p.file] = t
		c.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { c.show(w, r, p) })
	}
	static, err := fs.Sub(files, "static")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"style.css", "live.js", "icon.svg"} {
		c.mux.HandleFunc("/static/"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, static, name) })
	}
	c.mux.HandleFunc("/live", c.serveLive)
	c.mux.HandleFunc("/metrics", c.serveMetrics)
	return c, nil
}

// contentPolicy is what the pages may load: files of this server, and no more.
const contentPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		c.refuse(w, http.StatusMethodNotAllowed, "Nothing can be changed here.")
		return
	}
	if r.ContentLength != 0 { // no question has one, and a proxy may see another request in it
		c.refuse(w, http.StatusBadRequest, "A request has no body here.")
		return
	}
	if c.admit(w, r) {
		c.mux.ServeHTTP(w, r)
	}
}

// refuse answers in one sentence.
func (c *Console) refuse(w http.ResponseWriter, status int, sentence string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if status < http.StatusInternalServerError { // who may not look keeps no connection
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(status)
	fmt.Fprintln(w, sentence)
}

// with lends a connection to the database, which sees what is there now.
func (c *Console) with(ctx context.Context, fn func(*controlplane.DB) error) error {
	var db *controlplane.DB
	select {
	case db = <-c.free:
	case <-ctx.Done():
		return errBusy
	}
	defer func() { c.free <- db }()
	if db != nil && db.Renew(ctx) != nil {
		db.Close()
		db = nil
	}
	if db == nil {
		var err error
		if db, err = controlplane.Open(ctx, c.o.Target, false); err != nil {
			db = nil
			return err
		}
	}
	err := fn(db)
	if err != nil && !errors.Is(err, errNotFound) { // it may be broken
		db.Close()
		db = nil
	}
	return err
}

var (
	errBusy     = errors.New("too many pages are asked for at once")
	errNotFound = errors.New("there is no such page")
)

// known are the repositories that are shown.
func (c *Console) known(ctx context.Context, db *controlplane.DB) ([]string, error) {
	all, err := db.Repositories(ctx)
	if !c.o.Only || err != nil {
		return all, err
	}
	var own []string
	for _, name := range all {
		if c.o.Repos[name] != nil {
			own = append(own, name)
		}
	}
	return own, nil
}

// Close closes the connections.
func (c *Console) Close() {
	for range maxAtOnce {
		if db := <-c.free; db != nil {
			db.Close()
		}
	}
}

func (c *Console) serveMetrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	text, err := c.o.Metrics(ctx)
	if err == nil {
		var b strings.Builder
		b.WriteString(text + "# HELP rigward_pushes Pushes in the log that a gate judged, by exit code: 0 taken, 1 refused, 2 not decided.\n# TYPE rigward_pushes gauge\n")
		err = c.with(ctx, func(db *controlplane.DB) error {
			shown, err := c.known(ctx, db)
			if err != nil {
				return err
			}
			counts, err := db.Pushes(ctx, shown)
			for _, n := range counts {
				fmt.Fprintf(&b, "rigward_pushes{repo=%s,exit=\"%d\"} %d\n", Label(n.Repo), n.Exit, n.N)
			}
			return err
		})
		text = b.String()
	}
	if err != nil {
		c.refuse(w, http.StatusServiceUnavailable, finding.Clean(err.Error()))
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	fmt.Fprint(w, text)
}

// Label is a text as the value of a label in Prometheus' text format.
func Label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(finding.Clean(s)) + `"`
}
