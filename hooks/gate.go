package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rigward/rigward/internal/change"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/history"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
)

// Names lists the hooks that Run knows.
func Names() []string {
	return []string{"pre-commit", "commit-msg", "pre-push", "pre-receive", "update", "post-receive"}
}

// Run runs the hook of that name and returns its exit code: 0 clean, 1
// findings, 2 cannot decide. A post-receive only ever returns 0.
func Run(ctx context.Context, name string, env *Env) int {
	if name == "post-receive" {
		return postReceive(ctx, env)
	}
	g := &gate{env: env, name: name, started: env.Now(), report: report.Report{Gate: name}}
	var run func(*gate, context.Context) error
	server := false
	switch name {
	case "pre-commit":
		g.kind, run = rules.PreCommit, (*gate).preCommit
	case "commit-msg":
		g.kind, run = rules.PreCommit, (*gate).commitMsg
	case "pre-push":
		g.kind, run = rules.PrePush, (*gate).prePush
	case "pre-receive":
		g.kind, run, server = rules.PreReceive, (*gate).preReceive, true
	case "update":
		g.kind, run, server = rules.Update, (*gate).update, true
	default:
		fmt.Fprintf(env.Stderr, "rig-hook: no hook is called %s\n", finding.Quote(name))
		return report.ExitUndecided
	}
	if server {
		g.log = &pushLog{env: env, began: g.started}
	}
	if err := g.flags(server); err != nil {
		g.report.Problem = err
	} else {
		g.within(ctx, run)
	}
	code := g.report.ExitCode()
	if g.tell(server) != nil {
		code = report.ExitUndecided // nobody learns of a pass that could not be told
	}
	if server {
		g.log.judged(code, &g.report)
		if dir := g.log.place(); dir != "" && code != report.ExitClean {
			// No post-receive comes. What cannot be started is told to the next one.
			_ = ship(env, dir)
		}
	}
	return code
}

// A gate is one run of a hook.
type gate struct {
	env     *Env
	name    string
	kind    rules.Gate
	started time.Time

	args    []string // words after the flags
	timeout time.Duration
	fixed   string // what gives timeout, if it is not the policy
	format  string
	timer   *time.Timer

	repo   *gitrepo.Repo
	loader *policy.Loader
	judge  *rules.Judge
	pol    *policy.Policy // of the gate: what is protected, how long, how much is printed
	rootID string         // the commit whose policy counts, of what is staged
	root   *knownRoot     // what is known of it; nil: there is none
	source string         // of the ref updates, where a pre-push got no lines
	report report.Report
	told   bool     // of an update that is accepted: pre-receive has told what it warns of
	log    *pushLog // of a server
}

// Time-outs where neither a flag nor the policy gives one. A forge kills its
// hooks after five seconds at the earliest.
const (
	serverTimeout = 4 * time.Second
	clientTimeout = 60 * time.Second
)

// flags takes the flags before the words that git gives.
func (g *gate) flags(server bool) error {
	g.timeout, g.format, g.args = clientTimeout, "text", g.env.Args
	if server {
		g.timeout = serverTimeout
	}
	for len(g.args) > 0 && strings.HasPrefix(g.args[0], "--") {
		word := g.args[0]
		if g.args = g.args[1:]; word == "--" {
			return nil
		}
		name, value, has := strings.Cut(word, "=")
		if !has && len(g.args) > 0 {
			value, g.args = g.args[0], g.args[1:]
		}
		switch name {
		case "--timeout":
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return fmt.Errorf("--timeout is %s, expected a duration such as 4s", finding.Quote(value))
			}
			g.timeout, g.fixed = d, "--timeout"
		case "--format":
			if !slices.Contains(report.Formats(), value) {
				return fmt.Errorf("--format is %s, expected one of %s", finding.QuoteMax(value, 40), strings.Join(report.Formats(), ", "))
			}
			g.format = value
		default:
			return fmt.Errorf("unknown flag %s", finding.Quote(name))
		}
	}
	return nil
}

// errTimeout is the cause of a context that ran out of the gate's own time.
var errTimeout = errors.New("time is up")

// within runs a hook within its time, with the repository open.
func (g *gate) within(ctx context.Context, run func(*gate, context.Context) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g.timer = time.AfterFunc(g.timeout, func() { cancel(errTimeout) })
	timer := g.timer
	defer timer.Stop()
	work := *g // it may be left behind
	ended, err := Within(ctx, func() error { return work.work(ctx, run) })
	if ended {
		*g = work
		if g.repo != nil {
			defer g.repo.Close()
		}
		if g.judge != nil {
			defer g.judge.Turns.Close()
		}
	}
	if g.judge != nil {
		g.report.Findings, g.report.More = g.judge.Findings, g.judge.More
		g.report.Commits, g.report.Envelopes = g.judge.Commits, g.judge.Envelopes
		finding.Sort(g.report.Findings)
	}
	if err == nil {
		return
	}
	if errors.Is(context.Cause(ctx), errTimeout) {
		took := g.env.Now().Sub(g.started).Round(100 * time.Millisecond)
		u := &policy.Undecided{Message: fmt.Sprintf("the time was up after %s, within one commit", took), Cause: err}
		if ended {
			done, total := 0, 0
			if g.judge != nil {
				done, total = g.judge.Commits, g.judge.Total
			}
			u.Message = fmt.Sprintf("%d of %d commits checked in %s, then the time was up", done, total, took)
		}
		u.Hint = "push in smaller parts, or raise " + cmp.Or(g.fixed, "the policy's timeout")
		if errors.Is(err, history.ErrBuilding) {
			u.Message += ": " + history.ErrBuilding.Error()
			u.Hint = "on the server: rig-hook install --server DIR, which reads them once and keeps them"
		}
		err = u
	} else if errors.Is(err, context.Canceled) {
		err = &policy.Undecided{Message: "the check was interrupted before it was done", Cause: err}
	}
	g.report.Problem, g.report.Hint = err, Hint(g.env, g.repo, g.kind == rules.PreReceive || g.kind == rules.Update, err)
}

// work opens the repository and runs a hook.
func (g *gate) work(ctx context.Context, run func(*gate, context.Context) error) error {
	if err := g.open(ctx); err != nil {
		return err
	}
	return run(g, ctx)
}

func (g *gate) open(ctx context.Context) (err error) {
	g.repo, err = gitrepo.Open(ctx, gitrepo.Env{Environ: g.env.Environ, Dir: g.env.Dir})
	if err != nil {
		return err
	}
	if g.log != nil {
		g.log.open(g.repo, g.name)
	}
	if own, _, err := g.repo.ConfigLast("rigward.timeout"); err != nil {
		return err
	} else if own != "" && g.fixed == "" {
		d, err := time.ParseDuration(own)
		if err != nil || d <= 0 {
			return &policy.Undecided{Message: "rigward.timeout is " + finding.QuoteMax(own, 40) + ", expected a duration such as 4s", Hint: "git config rigward.timeout 4s"}
		}
		if g.fixed = "rigward.timeout"; g.timer.Stop() {
			g.timer.Reset(max(0, d-g.env.Now().Sub(g.started)))
		}
	}
	g.loader = NewLoader(g.repo)
	if g.kind == rules.PreCommit || g.kind == rules.PrePush {
		if g.loader.Own, err = OwnPolicy(g.repo); err != nil {
			return err
		}
	}
	g.judge = &rules.Judge{Repo: g.repo, Gate: g.kind, Now: g.env.Now(), Later: g.loader.Accepted}
	g.report.Fail = finding.Error
	return nil
}

// NewLoader returns what reads the policy and the signers of a repository, and
// those files that its configuration names instead.
func NewLoader(repo *gitrepo.Repo) *policy.Loader {
	return &policy.Loader{Repo: repo, ReadFile: func(name string) ([]byte, error) { return readConfigured(repo, name) }}
}

// readConfigured reads a file that a repository's configuration names, of at
// most policy.MaxTrustBytes. A relative name is relative to the git directory,
// wherever the hook is started from.
func readConfigured(repo *gitrepo.Repo, name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(repo.CommonDir(), name)
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, policy.MaxTrustBytes+1))
	if err == nil && len(data) > policy.MaxTrustBytes {
		err = fmt.Errorf("more than %d bytes", policy.MaxTrustBytes)
	}
	return data, err
}

// OwnPolicy reads the client's own policy, .git/rigward.yaml, which can only
// tighten; nil if there is none.
func OwnPolicy(repo *gitrepo.Repo) (*policy.Policy, error) {
	name := filepath.Join(repo.CommonDir(), "rigward.yaml")
	data, err := files.Read(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &policy.Undecided{Message: "the policy file " + finding.Quote(name) + " cannot be read", Cause: err}
	}
	return policy.DecodeFile(data, policy.FromClient, name)
}

// use makes p the policy of the gate itself.
func (g *gate) use(p *policy.Policy) {
	g.pol = p
	g.report.Fail = p.FailLevel
	if p.Timeout > 0 && g.fixed == "" && g.timer.Stop() {
		g.timer.Reset(max(0, p.Timeout-g.env.Now().Sub(g.started)))
	}
	g.judge.Nonces, g.judge.Turns = Nonces(g.repo, p), Turns(g.repo, p)
}

// Turns returns what is kept of the long threads of a repository.
func Turns(repo *gitrepo.Repo, p *policy.Policy) *history.Turns {
	x := &history.Turns{Dir: filepath.Join(repo.CommonDir(), "rigward"), Format: repo.ObjectFormat()}
	rules.TurnsBy(p, x)
	return x
}

// Nonces returns the nonce index of a repository.
func Nonces(repo *gitrepo.Repo, p *policy.Policy) *history.Index {
	x := &history.Index{Repo: repo, Dir: filepath.Join(repo.CommonDir(), "rigward")}
	rules.IndexBy(p, x)
	return x
}

// stdin reads the lines that git gives; none at a terminal.
func (g *gate) stdin() ([]byte, error) {
	if g.env.StdinTTY {
		return nil, nil
	}
	return ReadLines(g.env.Stdin)
}

// ReadLines reads the ref lines that git gives to a hook, at most
// change.MaxInput bytes of them.
func ReadLines(stdin io.Reader) ([]byte, error) {
	if stdin == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(stdin, change.MaxInput+1))
	if err == nil && len(data) > change.MaxInput {
		err = &policy.Undecided{Message: "more than " + strconv.Itoa(change.MaxInput) + " bytes of ref lines on standard input", Hint: "push fewer refs at a time"}
	}
	return data, err
}

// door opens the way of ref updates to a receiver.
func (g *gate) door(at Receiver, updates []change.RefUpdate) (*Door, error) {
	d := &Door{Receiver: at, Repo: g.repo, Loader: g.loader, Judge: g.judge}
	if err := d.Open(updates); err != nil {
		return nil, err
	}
	g.use(d.Policy)
	return d, nil
}

// through lets the updates come through the door.
func (g *gate) through(ctx context.Context, d *Door, updates []change.RefUpdate, judge func(rules.Range) error) error {
	err := d.Each(ctx, updates, judge)
	g.report.Refs, g.report.Notes = d.Refs, append(g.report.Notes, d.Notes...)
	return err
}

// tell writes the report: for the person who pushed, or for the one at this
// machine.
func (g *gate) tell(server bool) error {
	if g.format != "text" {
		return report.Write(g.env.Stdout, &g.report, g.format)
	}
	if server && g.told {
		return nil
	}
	if server {
		lines, prefix := policy.Default().MaxLines, ""
		if g.pol != nil {
			lines = g.pol.MaxLines
		}
		if g.env.Getenv("GL_PROTOCOL") != "" {
			prefix = "GL-HOOK-ERR: "
		}
		return report.WriteServer(g.env.Stderr, &g.report, lines, prefix)
	}
	named := g.name == "pre-commit" && len(g.args) > 0 // whoever names paths is told how many were envelopes
	if g.report.Problem == nil && len(g.report.Findings) == 0 && len(g.report.Notes) == 0 && g.report.Envelopes == 0 && !named {
		return nil
	}
	return report.Write(g.env.Stderr, &g.report, "text")
}
