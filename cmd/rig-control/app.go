package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/bridge"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/controlplane"
	"github.com/rigward/rigward/internal/outbox"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// program is the table of commands.
func program() *cli.Program {
	all := cli.Flag{Name: "--all", Help: "read the whole history anew"}
	return &cli.Program{
		Name: "rig-control", About: "Keeps and answers from the control plane, a database of the messages of a repository.",
		Notes: "The database is control_plane in " + policy.CloneConfig + " of a clone, and git config\nrigward.controlPlane on a server.\n",
		Exit:  []cli.Exit{{Code: "0", Means: "clean"}, {Code: "1", Means: "differences found, or a query that is wrong"}, {Code: "2", Means: "cannot decide"}},
		Commands: []*cli.Command{
			{Name: "index", Short: "bring the control plane up to the refs, as rig-hook index", Usage: []string{"index [--all | --check]"},
				Flags: []cli.Flag{all, {Name: "--check", Help: "compare with the history; write nothing"}}},
			{Name: "query", Short: "ask it, as rig-bridge query", Words: []cli.Word{{Name: "question", Required: true, Values: bridge.Questions()}, {Name: "hash", Many: true}},
				Long: questions(), Flags: bridge.QueryFlags()},
			{Name: "ship", Short: "take what hooks told of pushes into it, and bring it up to the refs", Usage: []string{"ship [--once] [--every D] [DIR...]"},
				Long:  "Without --once it goes on until it is ended. DIR are repositories, the one here if\nnone is named. Any number of it may run at once.\n",
				Words: []cli.Word{{Name: "dir", Many: true}},
				Flags: []cli.Flag{{Name: "--once", Help: "do what there is to do, and end"}, {Name: "--every", Value: "D", Help: "how often to look for what is new (1s)"}}},
			{Name: "status", Short: "how far it is, and what went wrong last",
				Flags: []cli.Flag{{Name: "--json", Help: "as one JSON object"}, {Name: "--metrics", Value: "FILE", Help: "write metrics of Prometheus into a file"}}},
			{Name: "serve", Short: "show it to people: a page to look at, which can change nothing", Words: []cli.Word{{Name: "dir", Many: true}}, Usage: []string{"serve [DIR...]"},
				Long:  "Prints an address with a token that is good for this run. DIR are repositories on this\nmachine, whose messages are shown with their bodies; the one here if none is named. All\nrepositories of the database are shown.\n",
				Flags: serveFlags()},
			{Name: "ui", Short: "show this clone, as rig-bridge ui", Long: "Without a control plane of its own the clone gets an index in its git directory.\n",
				Flags: bridge.UIFlags()},
			{Name: "rename", Short: "give a repository another name in the database", Words: []cli.Word{{Name: "old", Required: true}, {Name: "new", Required: true}}},
			{Name: "move", Short: "let this repository take the place of the one that the database has under its name"},
			{Name: "record", Short: "after a client's command"},
			{Name: "last-seen", Short: "whether the last row is of HEAD"},
		},
	}
}

// hookTime is how long a write may take that somebody waits for
// (docs/spec/controlplane.md).
const hookTime = 2 * time.Second

// Main runs the program. Args[0] is the name it was called by; it is the one
// that messages begin with.
func Main(ctx context.Context, env *hooks.Env) int {
	told := *env
	out := &cli.Output{W: env.Stdout}
	told.Stdout = out
	a := &app{env: &told, program: strings.TrimSuffix(filepath.Base(filepath.ToSlash(env.Args[0])), ".exe")}
	code := a.run(ctx)
	if out.Err != nil && code != report.ExitUndecided {
		return a.fail(out.Err)
	}
	return code
}

func (a *app) run(ctx context.Context) int {
	env := a.env
	args, p := env.Args[1:], program()
	if len(args) == 0 {
		fmt.Fprint(env.Stderr, p.Overview())
		return report.ExitUndecided
	}
	if done, err := p.Own(env.Stdout, version.String(), args); err != nil {
		return a.fail(err)
	} else if done {
		return report.ExitClean
	}
	c := p.Find(args[0])
	if c == nil {
		return a.fail(p.Unknown(args[0]))
	}
	a.command = c.Name
	line, help, err := p.Parse(c, args[1:])
	switch {
	case help:
		fmt.Fprint(env.Stdout, p.Help(c))
		return report.ExitClean
	case c.Name == "query":
		return a.query(ctx, line, err)
	case err != nil:
		return a.fail(err)
	}
	switch c.Name {
	case "ship":
		return a.ship(ctx, line)
	case "status":
		return a.status(ctx, line)
	case "serve":
		return a.serve(ctx, line)
	case "ui":
		return a.ui(ctx, line)
	case "rename":
		return a.rename(ctx, line.Words)
	case "move":
		return a.move(ctx)
	case "record":
		return a.record(ctx)
	case "last-seen":
		return a.lastSeen(ctx)
	}
	return a.index(ctx, line)
}

type app struct {
	env              *hooks.Env
	program, command string
}

// hintOf is the command that repairs an error, "" if none is known.
func hintOf(err error) string {
	var usage *cli.Error
	if errors.As(err, &usage) {
		return usage.Hint
	}
	return policy.HintOf(err)
}

// fail tells why a command could not do its work.
func (a *app) fail(err error) int {
	fmt.Fprintln(a.env.Stderr, strings.TrimSuffix(a.program+": "+a.command, ": ")+": "+finding.Clean(err.Error()))
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(a.env.Stderr, "hint: %s\n", finding.Clean(hint))
	}
	return report.ExitUndecided
}

// later tells in one line why the control plane lags behind, which nobody is
// to be stopped by.
func (a *app) later(err error) int {
	fmt.Fprintf(a.env.Stderr, "rigward: %s; the message stands, and the next one catches up (or: rig-hook index)\n", finding.Clean(err.Error()))
	return report.ExitClean
}

// record brings the control plane of a clone up after a command.
func (a *app) record(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	p, err := a.open(ctx, asClient)
	if errors.Is(err, errNone) {
		return report.ExitClean
	}
	if err != nil {
		return a.later(err)
	}
	defer p.close()
	db, err := controlplane.Open(ctx, p.target, true)
	if err != nil {
		return a.later(err)
	}
	defer db.Leave()
	res, err := p.indexer(db, a.env.Now).Update(ctx)
	if err != nil {
		if res.Left > 0 {
			err = fmt.Errorf("%w, %d commits are not in the control plane yet", err, res.Left)
		}
		return a.later(err)
	}
	return report.ExitClean
}

// lastSeen compares what is recorded for the branch with HEAD. It writes
// nothing.
func (a *app) lastSeen(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	p, err := a.open(ctx, asClient)
	if err != nil {
		return a.fail(err)
	}
	defer p.close()
	db, err := controlplane.Open(ctx, p.target, false)
	if err != nil {
		return a.fail(err)
	}
	defer db.Close()
	ref, head, err := p.repo.HEAD()
	if err != nil {
		return a.fail(err)
	}
	seen, err := db.LastSeen(ctx, p.name, ref)
	switch {
	case err != nil:
		return a.fail(err)
	case seen == head && head != "":
		fmt.Fprintf(a.env.Stdout, "last-seen row matches HEAD %s\n", finding.Short(head))
		return report.ExitClean
	case seen == "":
		seen = "nothing"
	}
	fmt.Fprintf(a.env.Stdout, "last-seen row does not match HEAD: %s is recorded, HEAD is %s; run rig-hook index\n", finding.Short(seen), finding.Short(head))
	return report.ExitFindings
}

// maxDifferences is how many differences are printed one by one.
const maxDifferences = 50

// checked notes that the index was compared with the history.
func (a *app) checked(p *place, differences int) {
	box := outbox.Dir(p.repo.CommonDir())
	var state outbox.State
	state.Read(box)
	state.Checked, state.Wrong = a.env.Now().UTC().Format(outbox.Time), differences
	_ = state.Write(box) // what was found is told all the same
}

func (a *app) index(ctx context.Context, line cli.Line) int {
	all, check := line.Has("--all"), line.Has("--check")
	if all && check {
		return a.fail(&policy.Undecided{Message: "--all writes and --check does not; use one of them"})
	}
	p, err := a.open(ctx, asEither)
	if err != nil {
		return a.fail(err)
	}
	defer p.close()
	db, err := controlplane.Open(ctx, p.target, !check)
	if err != nil {
		return a.fail(err)
	}
	defer db.Close()
	x := p.indexer(db, a.env.Now)
	if check {
		found, n, err := x.Check(ctx, maxDifferences)
		if err != nil {
			return a.fail(err)
		}
		if p.server {
			a.checked(p, n)
		}
		for _, d := range found {
			fmt.Fprintf(a.env.Stdout, "%s: %s\n", finding.Clean(d.What), d.Message)
		}
		if n > len(found) {
			fmt.Fprintf(a.env.Stdout, "and %d more\n", n-len(found))
		}
		if n > 0 {
			fmt.Fprintf(a.env.Stderr, "hint: %s\n", "rig-hook index --all")
			return report.ExitFindings
		}
		fmt.Fprintf(a.env.Stdout, "%s: index check differences=0\n", a.program)
		return report.ExitClean
	}
	if err := p.marked(ctx); err != nil {
		return a.fail(err)
	}
	x = p.indexer(db, a.env.Now)
	run := x.Update
	if all {
		run = x.Rebuild
	}
	res, err := run(ctx)
	if err != nil {
		return a.fail(err)
	}
	fmt.Fprintf(a.env.Stdout, "%s: index commits=%d messages=%d superseded=%d\n", a.program, res.Commits, res.Messages, res.Superseded)
	return report.ExitClean
}
