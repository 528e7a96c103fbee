package main

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/console"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/test/corpus"
	"github.com/rigward/rigward/pkg/envelope"
	"github.com/rigward/rigward/pkg/gitrepo"
)

// control measures the control plane: what a post-receive adds to a push of one
// envelope, the rebuild of a whole history, and each query. The repository is
// made once in -dir and used again.
func control(flags *flag.FlagSet, args []string) error {
	n := flags.Int("n", 100_000, "envelopes of the repository")
	rounds := flags.Int("rounds", 20, "runs of each kind; the median counts")
	dir := flags.String("dir", "", "where the repository is kept; default a scratch directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return controlOf(*n, *rounds, *dir)
}

func controlOf(n, rounds int, dir string) error {
	scratch, err := os.MkdirTemp("", "rigward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if dir == "" {
		dir = scratch
	}
	if _, err := build(scratch, "rig-hook", "rig-control", "rig-bridge"); err != nil {
		return err
	}
	o := corpus.Options{Envelopes: n, Relays: true, Signed: true}
	source := filepath.Join(dir, fmt.Sprintf("signed-%d.git", n))
	if _, err := os.Stat(source); err != nil {
		if err := corpus.Generate(source, o); err != nil {
			return err
		}
	}
	repo, bare := filepath.Join(scratch, "control.git"), filepath.Join(scratch, "bare.git")
	for _, c := range []string{repo, bare} {
		if _, err := corpus.Git("", "clone", "-q", "--bare", "--local", source, c); err != nil {
			return err
		}
	}
	for _, kv := range [][2]string{{"rigward.controlPlane", "sqlite:control.db"}, {"rigward.repository", "bench"}} {
		if _, err := corpus.Git(repo, "config", kv[0], kv[1]); err != nil {
			return err
		}
	}
	fmt.Println("| envelopes | what | time |")
	fmt.Println("|---|---|---|")
	row := func(what string, d time.Duration) {
		fmt.Printf("| %d | %s | %.1f ms |\n", n, what, milli(d))
	}
	hook, control := filepath.Join(scratch, "rig-hook"), filepath.Join(scratch, "rig-control")
	whole, err := timed(in(repo, hook, "index", "--all"))
	if err != nil {
		return err
	}
	row("`rig-hook index --all` into a new SQLite database", whole)
	if whole, err = timed(in(repo, hook, "index", "--check")); err != nil {
		return err
	}
	row("`rig-hook index --check`", whole)

	// The hook by itself, with one envelope to write and with none, beside
	// the starts of the processes that it consists of.
	var write, idle, both, off, gitFloor, hookFloor, controlFloor, with, without []time.Duration
	for i := range rounds + 1 {
		one, err := advance(bare, repo, n, i, o, filepath.Join(repo, "hooks", "post-receive"), hook)
		if err != nil {
			return err
		}
		steps := []struct {
			into *[]time.Duration
			dir  string
			args []string
		}{
			{&write, repo, []string{control, "ship", "--once"}},
			{&idle, repo, []string{control, "ship", "--once"}},
			{&both, repo, []string{hook, "post-receive"}},
			{&off, bare, []string{hook, "post-receive"}},
			{&gitFloor, repo, []string{"git", "--version"}},
			{&hookFloor, repo, []string{hook, "--version"}},
			{&controlFloor, repo, []string{control, "--version"}},
		}
		for _, s := range steps {
			cmd := in(s.dir, s.args[0], s.args[1:]...)
			if s.args[1] == "post-receive" {
				cmd.Env, cmd.Stdin = append(os.Environ(), "GIT_DIR=."), strings.NewReader("") // as git starts it
			}
			d, err := timed(cmd)
			if err != nil {
				return err
			}
			if i > 0 {
				*s.into = append(*s.into, d)
			}
		}
		if i > 0 {
			with, without = append(with, one.with), append(without, one.without)
		}
	}
	row("push of one envelope, no hook", median(without))
	row("push of one envelope, post-receive to the outbox", median(with))
	row("added to the push (difference of the medians)", median(with)-median(without))
	row("`rig-control ship --once`, one envelope to write", median(write))
	row("`rig-control ship --once`, nothing to write", median(idle))
	row("`rig-hook post-receive`, which starts it", median(both))
	row("`rig-hook post-receive`, no database configured", median(off))
	row("floor: `git --version`", median(gitFloor))
	row("floor: `rig-hook --version`", median(hookFloor))
	row("floor: `rig-control --version`", median(controlFloor))
	row("`rig-control ship --once` of one envelope above its start", median(write)-median(controlFloor))
	if err := queries(repo, n, rounds, row); err != nil {
		return err
	}
	if err := pages(repo, n, rounds, row); err != nil {
		return err
	}
	for _, c := range [][]string{{control, "query", "turn"}, {filepath.Join(scratch, "rig-bridge"), "query", "turn"}} {
		var ds []time.Duration
		for range rounds {
			d, err := timed(in(repo, c[0], c[1:]...))
			if err != nil {
				return err
			}
			ds = append(ds, d)
		}
		row("`"+filepath.Base(c[0])+" query turn`, with the start of the program", median(ds))
	}
	return nil
}

type pushed struct{ with, without time.Duration }

// advance pushes one new envelope to a copy without a hook and to the one with
// the control plane, and then moves the latter's branch by another one without
// telling the hook.
func advance(bare, repo string, n, i int, o corpus.Options, hookFile, hook string) (p pushed, err error) {
	client := filepath.Join(filepath.Dir(bare), "client.git")
	if i == 0 {
		if _, err := corpus.Git("", "clone", "-q", "--bare", "--shared", bare, client); err != nil {
			return p, err
		}
	}
	commit := func(k int) (string, error) {
		old, err := corpus.Git(client, "rev-parse", "main")
		if err != nil {
			return "", err
		}
		path, data := corpus.Envelope(n+k*10, o)
		cmd := exec.Command("git", "-C", client, "fast-import", "--quiet", "--force")
		cmd.Stdin = strings.NewReader(fmt.Sprintf("commit refs/heads/main\ncommitter %s <%s> %d +0000\ndata 5\nSend\n\nfrom %s\nM 100644 inline %s\ndata %d\n%s\n",
			corpus.OperatorName, corpus.OperatorEmail, corpus.Start.Unix()+int64(n+k)*15, strings.TrimSpace(old), path, len(data), data))
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("fast-import: %w: %s", err, out)
		}
		id, err := corpus.Git(client, "rev-parse", "main")
		if err != nil {
			return "", err
		}
		return corpus.SignTip(client, strings.TrimSpace(id))
	}
	tip, err := commit(2 * i)
	if err != nil {
		return p, err
	}
	if p.without, err = timed(in(client, "git", "push", "-q", bare, tip+":refs/heads/main")); err != nil {
		return p, err
	}
	if err := os.WriteFile(hookFile, hooks.Shim("post-receive", hook, false), 0o755); err != nil {
		return p, err
	}
	if p.with, err = timed(in(client, "git", "push", "-q", repo, tip+":refs/heads/main")); err != nil {
		return p, err
	}
	if err := os.Remove(hookFile); err != nil {
		return p, err
	}
	if tip, err = commit(2*i + 1); err != nil {
		return p, err
	}
	for _, c := range []string{bare, repo} {
		if _, err := timed(in(client, "git", "push", "-q", c, tip+":refs/heads/main")); err != nil {
			return p, err
		}
	}
	return p, nil
}

// pages asks for pages of the control plane, in this process, without the network.
func pages(repo string, n, rounds int, row func(string, time.Duration)) error {
	target, err := controlplane.ParseTarget("sqlite:control.db", repo)
	if err != nil {
		return err
	}
	git, err := gitrepo.OpenHere(context.Background(), gitrepo.Env{Environ: os.Environ(), Dir: repo})
	if err != nil {
		return err
	}
	defer git.Close()
	now := func() time.Time { return corpus.Start.Add(time.Duration(n) * 15 * time.Second) }
	start := time.Now()
	page, err := console.New(console.Options{Target: target, Repos: map[string]*gitrepo.Repo{"bench": git}, Access: console.Access{Hosts: console.Loopback()}, Now: now, Clock: time.Now})
	if err != nil {
		return err
	}
	defer page.Close()
	ask := func(path string) (time.Duration, error) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		began := time.Now()
		page.ServeHTTP(w, r)
		if w.Code != 200 {
			return 0, fmt.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
		return time.Since(began), nil
	}
	if _, err := ask("/"); err != nil {
		return err
	}
	row("the first page, with all that the server does before it", time.Since(start))
	page.Look(context.Background())
	thread, _, _ := strings.Cut(func() string { path, _ := corpus.Envelope(n/2, corpus.Options{Envelopes: n}); return path }(), "/")
	for _, path := range []string{"/", "/threads", "/thread?repo=bench&thread=" + thread, "/search?q=" + thread, "/search?q=turn", "/pushes", "/trouble", "/rigs", "/repositories"} {
		var ds []time.Duration
		for range rounds {
			d, err := ask(path)
			if err != nil {
				return err
			}
			ds = append(ds, d)
		}
		row("page "+path, median(ds))
	}
	return nil
}

// queries asks each question, in this process.
func queries(repo string, n, rounds int, row func(string, time.Duration)) error {
	ctx := context.Background()
	target, err := controlplane.ParseTarget("sqlite:control.db", repo)
	if err != nil {
		return err
	}
	db, err := controlplane.Open(ctx, target, false)
	if err != nil {
		return err
	}
	defer db.Close()
	hash := envelope.BodyHash(envelope.NormalizeBody(corpus.Body(n / 2)))
	now := corpus.Start.Add(time.Duration(n) * 15 * time.Second)
	for _, q := range controlplane.Queries() {
		for _, ask := range []struct {
			limit int
			to    string
		}{{limit: 100}, {100, "rig-none"}, {}} {
			limit := ask.limit
			if q.Takes == controlplane.Hash && ask.limit+len(ask.to) != 100 {
				continue
			}
			p := controlplane.Parameters{Repos: []string{"bench"}, Words: controlplane.ParseWords([]string{"turn"}), Now: now, Hash: hash, Limit: limit, To: ask.to}
			if q.Name == "idle" {
				p.Since = now
			}
			var ds []time.Duration
			count := 0
			for range rounds {
				start := time.Now()
				a, err := db.Ask(ctx, q, p)
				if err != nil {
					return err
				}
				ds, count = append(ds, time.Since(start)), len(a.Rows)
			}
			what := fmt.Sprintf("query %s, at most %d rows (%d)", q.Name, limit, count)
			if ask.to != "" {
				what = fmt.Sprintf("query %s --to a rig that gets none (%d)", q.Name, count)
			} else if limit == 0 {
				what = fmt.Sprintf("query %s, all rows (%d)", q.Name, count)
			}
			row(what, median(ds))
		}
	}
	return nil
}
