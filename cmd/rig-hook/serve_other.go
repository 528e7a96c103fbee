//go:build !linux

package main

import (
	"context"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/policy"
)

func serve(_ context.Context, env *hooks.Env, _ cli.Line) int {
	return fail(env, "serve", &policy.Undecided{Message: "a resident judge runs on Linux only", Hint: "rig-hook install, without --resident"})
}

// worker is what Linux has.
func worker() {}
