package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/console"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

func serveFlags() []cli.Flag {
	return []cli.Flag{
		{Name: "--listen", Value: "ADDRESS", Help: "where to be reached (default: " + defaultListen + ")"},
		{Name: "--host", Value: "NAME", Many: true, Help: "a name by which the server is reached, behind a proxy say"},
		{Name: "--token-file", Value: "FILE", Help: "a token that stays the same, in a file of its owner only"},
		{Name: "--no-token", Help: "every user of this machine may look"},
		{Name: "--auth-header", Value: "NAME", Help: "a header in which a proxy says whom it has authenticated, in place of a token"},
		{Name: "--proxy", Value: "ADDRESS", Many: true, Help: "a proxy whose --auth-header counts (default: this machine)"},
	}
}

// defaultListen is where serve is reached that is told nothing else.
const defaultListen = "127.0.0.1:7117"

// Limits of the server.
const (
	maxConnections = 256
	lookEvery      = 2 * time.Second // at the database
	minToken       = 16
)

// serve shows the control plane of the repositories that are named.
func (a *app) serve(ctx context.Context, line cli.Line) int {
	listen := defaultListen
	if line.Has("--listen") {
		listen = line.Get("--listen")
	}
	access, err := a.access(line, listen)
	if err != nil {
		return a.fail(err)
	}
	dirs := line.Words
	if len(dirs) == 0 {
		dirs = []string{""}
	}
	s := &site{app: a, listen: listen, access: access, kept: line.Has("--token-file")}
	for _, dir := range dirs {
		p, err := a.find(ctx, dir)
		if err == nil {
			defer p.close()
			err = p.configure(asEither)
		}
		if err == nil && len(s.places) > 0 && p.target.String() != s.places[0].target.String() {
			err = &policy.Undecided{Message: "the repositories have two databases, " + s.places[0].target.String() + " and " + p.target.String(), Hint: "start rig-control serve for each of them"}
		}
		if err != nil {
			return a.fail(err)
		}
		s.places = append(s.places, p)
	}
	if err := s.run(ctx); err != nil {
		return a.fail(err)
	}
	return report.ExitClean
}

// ui shows one clone, whose index it keeps up to date itself.
func (a *app) ui(ctx context.Context, line cli.Line) int {
	p, err := a.clone(ctx)
	if err != nil {
		return a.fail(err)
	}
	defer p.close()
	s := &site{app: a, listen: "127.0.0.1:0", places: []*place{p}, only: true, access: console.Access{Token: rand.Text()}}
	if line.Has("--listen") {
		s.listen = line.Get("--listen")
	}
	if err := s.index(ctx); err != nil { // later ones are told on the page
		return a.fail(err)
	}
	if err := s.run(ctx); err != nil {
		return a.fail(err)
	}
	return report.ExitClean
}

// clone finds the clone here, with its control plane or, where it has none, an index of
// its own in the git directory.
func (a *app) clone(ctx context.Context) (*place, error) {
	p, err := a.find(ctx, "")
	if err != nil {
		return nil, err
	}
	if err = p.configure(asEither); errors.Is(err, errNone) {
		dir := filepath.Join(p.repo.CommonDir(), "rigward")
		if err = os.MkdirAll(dir, 0o777); err == nil {
			files.Share(dir)
			p.target, err = controlplane.ParseTarget("sqlite:rigward/page.db", p.repo.CommonDir())
		}
		if err == nil && p.repo.WorkTree() != "" {
			p.rig, _, err = bridge.ControlPlane(p.repo.WorkTree())
		}
		if err == nil {
			err = p.call("")
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// access says who may look, by the command line and where the server listens.
func (a *app) access(line cli.Line, listen string) (access console.Access, err error) {
	usage := func(message, hint string) (console.Access, error) {
		return access, &policy.Undecided{Message: message, Hint: hint}
	}
	if len(line.Given("--token-file", "--no-token", "--auth-header")) > 1 {
		return usage("--token-file, --no-token and --auth-header exclude each other", "")
	}
	if line.Has("--proxy") && !line.Has("--auth-header") {
		return usage("--proxy is for --auth-header", "rig-control serve --help")
	}
	host, _, err := net.SplitHostPort(listen)
	switch {
	case err != nil:
		return usage("--listen is "+finding.QuoteMax(listen, 60)+", expected HOST:PORT", "--listen "+defaultListen)
	case !isLocal(host) && !line.Has("--token-file") && !line.Has("--auth-header"):
		return usage("--listen "+finding.QuoteMax(listen, 60)+" can be reached from other machines, and nothing says who may look", "--token-file FILE, or --auth-header NAME behind a proxy")
	}
	access.Hosts = line.All("--host")
	for i, name := range access.Hosts {
		access.Hosts[i] = strings.ToLower(strings.Trim(name, "[]"))
	}
	switch {
	case line.Has("--auth-header"):
		access.Header = line.Get("--auth-header")
		proxies := line.All("--proxy")
		if len(proxies) == 0 {
			proxies = []string{"127.0.0.0/8", "::1"}
		}
		for _, text := range proxies {
			prefix, err := netip.ParsePrefix(text)
			if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
				prefix, err = ip.Prefix(ip.BitLen())
			}
			if err != nil {
				return usage("--proxy is "+finding.QuoteMax(text, 60)+", expected an address or a network", "--proxy 10.0.0.2")
			}
			access.Proxies = append(access.Proxies, prefix)
		}
	case line.Has("--token-file"):
		access.Token, err = a.token(line.Get("--token-file"))
	case !line.Has("--no-token"):
		access.Token = rand.Text()
	}
	return access, err
}

// token reads a token from a file that nobody else can read.
func (a *app) token(name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(a.env.Dir, name)
	}
	shown := finding.Path(filepath.ToSlash(name))
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return "", &policy.Undecided{Message: "the file of the token " + shown + " cannot be read", Hint: "umask 077; openssl rand -hex 32 >" + shown, Cause: err}
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", &policy.Undecided{Message: "the file of the token " + shown + " can be read by others", Hint: "chmod 600 " + shown}
	}
	data, err := os.ReadFile(name)
	text := strings.TrimSpace(string(data))
	if err != nil || len(text) < minToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", &policy.Undecided{Message: fmt.Sprintf("the file of the token %s holds no token: at least %d printable characters on one line", shown, minToken), Hint: "umask 077; openssl rand -hex 32 >" + shown, Cause: err}
	}
	return text, nil
}

func isLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// A site is what is served.
type site struct {
	*app
	places []*place
	listen string
	only   bool // the database is shown no further than these places
	access console.Access
	kept   bool // its token is in a file, and not told

	mu      sync.Mutex
	problem string // of the last index of ui
	head    string // up to which it is
}

func (s *site) run(ctx context.Context) error {
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return &policy.Undecided{Message: "cannot listen on " + finding.QuoteMax(s.listen, 60) + ": " + finding.Clean(reasonOf(err)), Hint: "--listen 127.0.0.1:0 takes a free port"}
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr)
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return err
	}
	shown := host
	if host == "" || at.IP.IsUnspecified() {
		shown = "localhost"
	}
	s.access.Hosts = append(append(s.access.Hosts, strings.ToLower(shown)), console.Loopback()...)
	s.access.Cookie = fmt.Sprintf("rigward-%d", at.Port)
	repos := map[string]*gitrepo.Repo{}
	for _, p := range s.places {
		repos[p.name] = p.repo
	}
	page, err := console.New(console.Options{Target: s.places[0].target, Repos: repos, Only: s.only, States: s.states, Metrics: s.metrics, Access: s.access, Title: "rigward", Now: s.env.Now, Clock: s.env.Now})
	if err != nil {
		return err
	}
	page.Look(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { page.Run(ctx, lookEvery) })
	if s.only {
		wg.Go(func() { s.keep(ctx) })
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return ctx }}
	address := "http://" + net.JoinHostPort(shown, fmt.Sprint(at.Port)) + "/"
	if s.access.Token != "" && !s.kept {
		address += "?token=" + s.access.Token
	}
	fmt.Fprintf(s.env.Stdout, "%s: %s %s\n", s.program, s.command, address)
	done := make(chan error, 1)
	go func() { done <- server.Serve(netutil.LimitListener(l, maxConnections)) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = server.Close()
	}
	stop()
	wg.Wait()
	page.Close()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return &policy.Undecided{Message: "the server has ended: " + finding.Clean(reasonOf(err))}
	}
	return nil
}

func reasonOf(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// all are the states of the places.
func (s *site) all(ctx context.Context) (all []*status, err error) {
	for _, p := range s.places {
		one, err := s.statusOf(ctx, p)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		if s.problem != "" {
			one.Problem = s.problem
		}
		s.mu.Unlock()
		all = append(all, one)
	}
	return all, nil
}

func (s *site) metrics(ctx context.Context) (string, error) {
	all, err := s.all(ctx)
	return metrics(all, s.env.Now()), err
}

func (s *site) states(ctx context.Context) (out []console.State, err error) {
	all, err := s.all(ctx)
	for _, one := range all {
		out = append(out, console.State{Repo: one.Repo, Head: one.Head, Problem: one.Problem, Checked: one.Checked, Behind: one.Behind, Wrong: one.Wrong, Waiting: one.Waiting})
	}
	return out, err
}

// keep brings the index of a clone up whenever its branch has moved.
func (s *site) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		err := s.index(ctx)
		s.mu.Lock()
		if s.problem = ""; err != nil && ctx.Err() == nil {
			s.problem = finding.Clean(err.Error())
		}
		s.mu.Unlock()
	}
}

// index brings the index of a clone up to its branch.
func (s *site) index(ctx context.Context) error {
	p, err := s.clone(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	ref, head, err := p.repo.HEAD()
	if err != nil {
		return err
	}
	if s.head == ref+" "+head {
		return nil
	}
	db, err := controlplane.Open(ctx, p.target, true)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err = p.indexer(db, s.env.Now).Update(ctx); err == nil {
		s.head = ref + " " + head
	}
	return err
}
