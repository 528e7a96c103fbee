package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rigward/rigward/cmd/internal/handover"
	"github.com/rigward/rigward/cmd/internal/version"
	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// A command is one word after the program's name.
type command struct {
	flags string // those that take a value end in "="
	words int    // how many words may follow at the most
	run   func(ctx context.Context, env *hooks.Env, f flags) int
}

var commands = map[string]command{
	"check":     {"--baseline= --all --stdin --policy= --format= --report= --timeout=", 1, check},
	"install":   {"--server= --into-hooks-path --bootstrap", 0, install},
	"uninstall": {"--server=", 0, uninstall},
	"doctor":    {"--server=", 0, doctor},
	"accept":    {"--server=", 1, accept},
	"keys":      {"--server= --file= --namespaces= --valid-after= --valid-before=", 3, keys},
	"explain":   {"--list --policy-schema --guarded --server=", 1, explain},
	"demo":      {"--keep", 0, demo},
	"version":   {"", 0, printVersion},
}

// Main runs the program. Args[0] is the name it was called by.
func Main(ctx context.Context, env *hooks.Env) int {
	name := strings.TrimSuffix(filepath.Base(filepath.ToSlash(env.Args[0])), ".exe")
	env.Args = env.Args[1:]
	if !slices.Contains(hooks.Names(), name) {
		if len(env.Args) == 0 {
			fmt.Fprint(env.Stderr, usage)
			return report.ExitUndecided
		}
		name, env.Args = env.Args[0], env.Args[1:]
	}
	if slices.Contains(hooks.Names(), name) {
		return hooks.Run(ctx, name, env)
	}
	switch name {
	case "gerrit":
		if helpWanted(env.Args) {
			printHelp(env.Stdout, name)
			return report.ExitClean
		}
		return hooks.RunGerrit(ctx, env)
	case "index":
		return index(env)
	case "-h", "--help", "help":
		fmt.Fprint(env.Stdout, usage)
		return report.ExitClean
	case "-v", "--version":
		name = "version"
	}
	c, ok := commands[name]
	if !ok {
		fmt.Fprintf(env.Stderr, "rig-hook: unknown command %s\n%s", finding.QuoteMax(name, 40), usage)
		return report.ExitUndecided
	}
	if helpWanted(env.Args) {
		printHelp(env.Stdout, name)
		return report.ExitClean
	}
	f, err := parseFlags(env.Args, strings.Fields(c.flags))
	if err == nil && len(f.words) > c.words {
		err = fmt.Errorf("surplus word %s", finding.QuoteMax(f.words[c.words], 60))
	}
	if err != nil {
		return fail(env, name, &policy.Undecided{Message: err.Error(), Hint: "rig-hook " + name + " --help"})
	}
	return c.run(ctx, env, f)
}

func helpWanted(args []string) bool {
	return slices.Contains(args, "--help") || slices.Contains(args, "-h")
}

// index lets rig-control bring the control plane up.
func index(env *hooks.Env) int {
	if env.HandOver == nil {
		return fail(env, "index", &policy.Undecided{Message: "this program cannot start rig-control"})
	}
	code, err := env.HandOver(append([]string{"index"}, env.Args...))
	if err != nil {
		return fail(env, "index", &policy.Undecided{Message: "rig-control cannot be started: " + finding.Clean(err.Error()), Hint: handover.Hint})
	}
	return code
}

// flags are the flags and words of a command line.
type flags struct {
	value map[string]string
	list  map[string][]string // all values of a flag, in their order
	words []string
}

func (f flags) has(name string) bool { _, ok := f.value[name]; return ok }

func parseFlags(args, known []string) (flags, error) {
	f := flags{value: map[string]string{}, list: map[string][]string{}}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			f.words = append(f.words, args...)
			break
		}
		if !strings.HasPrefix(arg, "--") {
			f.words = append(f.words, arg)
			continue
		}
		name, value, given := strings.Cut(arg, "=")
		switch {
		case slices.Contains(known, name):
			if given {
				return f, fmt.Errorf("flag %s takes no value", name)
			}
			f.value[name] = ""
		case slices.Contains(known, name+"="):
			if !given {
				if len(args) == 0 {
					return f, fmt.Errorf("flag %s needs a value", name)
				}
				value, args = args[0], args[1:]
			}
			f.value[name] = value
			f.list[name] = append(f.list[name], value)
		default:
			return f, fmt.Errorf("unknown flag %s", finding.QuoteMax(name, 40))
		}
	}
	return f, nil
}

// fail tells why a command could not do its work.
func fail(env *hooks.Env, name string, err error) int {
	fmt.Fprintf(env.Stderr, "rig-hook: %s: %s\n", name, finding.Clean(err.Error()))
	if hint := policy.HintOf(err); hint != "" {
		fmt.Fprintf(env.Stderr, "hint: %s\n", finding.Clean(hint))
	}
	return report.ExitUndecided
}

func printVersion(_ context.Context, env *hooks.Env, _ flags) int {
	fmt.Fprintf(env.Stdout, "rig-hook %s\n", version.String())
	return report.ExitClean
}
