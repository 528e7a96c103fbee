package main

import (
	"context"
	"fmt"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/report"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
	"github.com/rigward/rigward/pkg/rules"
	"github.com/rigward/rigward/schemas"
)

func explain(ctx context.Context, env *hooks.Env, f cli.Line) int {
	asked := f.Given("--list", "--policy-schema", "--guarded")
	switch {
	case len(asked) > 1 || len(asked) == 1 && len(f.Words) > 0:
		return fail(env, "explain", &policy.Undecided{Message: "expected one of RULE, --list, --policy-schema and --guarded", Hint: "rig-hook explain --help"})
	case f.Has("--server") && !f.Has("--guarded"):
		return fail(env, "explain", &policy.Undecided{Message: "--server goes with --guarded", Hint: atServer(f, "rig-hook explain --guarded")})
	case f.Has("--guarded"):
		return guarded(ctx, env, f)
	case f.Has("--policy-schema"):
		if _, err := env.Stdout.Write(schemas.Policy()); err != nil {
			return fail(env, "explain", err)
		}
		return report.ExitClean
	case f.Has("--list") || len(f.Words) == 0:
		for _, r := range rules.All() {
			fmt.Fprintf(env.Stdout, "%-16s %-8s %s\n", r.ID, r.Default, r.Says)
		}
		return report.ExitClean
	}
	for _, id := range f.Words {
		r, ok := rules.ByID(id)
		if !ok {
			return fail(env, "explain", &policy.Undecided{Message: "no rule is called " + finding.QuoteMax(id, 40), Hint: "rig-hook explain --list"})
		}
		fmt.Fprintf(env.Stdout, "%s\n  says:    %s\n  default: %s\n  gates:   %s\n", r.ID, r.Says, r.Default, r.Gates)
		if r.Off == policy.FromServer {
			fmt.Fprintf(env.Stdout, "  off:     only in a server's own policy file\n")
		}
		fmt.Fprintf(env.Stdout, "  policy:  rules: {%s: off | warning | error}\n  more:    docs/rules.md\n", r.ID)
	}
	return report.ExitClean
}
