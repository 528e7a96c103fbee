package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/cmd/internal/handover"
	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/internal/shebang"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// actions are what the commands do. Those of hooks and of Gerrit read their
// arguments themselves, as git and Gerrit give them.
var actions = map[string]func(ctx context.Context, env *hooks.Env, l cli.Line) int{
	"check": check, "expunge": expunge, "install": install, "uninstall": uninstall, "doctor": doctor, "accept": accept,
	"keys": keys, "explain": explain, "index": index, "demo": demo, "self-check": selfCheck, "serve": serve, "approve": approve, "attest": attestation, "witness": witness,
}

// Main runs the program. Args[0] is the name it was called by.
func Main(ctx context.Context, env *hooks.Env) int {
	name := strings.TrimSuffix(filepath.Base(filepath.ToSlash(env.Args[0])), ".exe")
	env.Args = shebang.Words(env.Args[1:])
	if slices.Contains(hooks.Names(), name) {
		return hooks.Run(ctx, name, env)
	}
	if len(env.Args) > 0 && slices.Contains(hooks.Names(), env.Args[0]) {
		name, env.Args = env.Args[0], env.Args[1:]
		return hooks.Run(ctx, name, env)
	}
	if len(env.Args) == 0 {
		fmt.Fprint(env.Stderr, program().Overview())
		return report.ExitUndecided
	}
	name = env.Args[0]
	told := *env
	out := &cli.Output{W: env.Stdout}
	told.Stdout = out
	code := command(ctx, &told)
	if out.Err != nil && code != report.ExitUndecided {
		return fail(env, finding.Clean(name), out.Err)
	}
	return code
}

// command runs one that is no hook.
func command(ctx context.Context, env *hooks.Env) int {
	p := program()
	if done, err := p.Own(env.Stdout, version.String(), env.Args); err != nil {
		return fail(env, env.Args[0], err)
	} else if done {
		return report.ExitClean
	}
	name := env.Args[0]
	env.Args = env.Args[1:]
	c := p.Find(name)
	if c == nil {
		return fail(env, "", p.Unknown(name))
	}
	line, help, err := p.Parse(c, env.Args)
	switch {
	case help:
		fmt.Fprint(env.Stdout, p.Help(c))
		return report.ExitClean
	case name == "gerrit":
		return hooks.RunGerrit(ctx, env)
	case err != nil:
		return fail(env, name, err)
	}
	return actions[name](ctx, env, line)
}

// index lets rig-control bring the control plane up.
func index(_ context.Context, env *hooks.Env, _ cli.Line) int {
	if env.HandOver == nil {
		return fail(env, "index", &policy.Undecided{Message: "this program cannot start rig-control"})
	}
	code, err := env.HandOver(append([]string{"index"}, env.Args...))
	if err != nil {
		return fail(env, "index", &policy.Undecided{Message: "rig-control cannot be started: " + finding.Clean(err.Error()), Hint: handover.ControlHint})
	}
	return code
}

// fail tells why a command could not do its work.
func fail(env *hooks.Env, name string, err error) int {
	if name != "" {
		name += ": "
	}
	fmt.Fprintf(env.Stderr, "rig-hook: %s%s\n", name, finding.Clean(err.Error()))
	hint := policy.HintOf(err)
	var usage *cli.Error
	if errors.As(err, &usage) {
		hint = usage.Hint
	}
	if hint == "" {
		hint = files.Hint(err)
	}
	if hint != "" {
		fmt.Fprintf(env.Stderr, "hint: %s\n", finding.Clean(hint))
	}
	return report.ExitUndecided
}
