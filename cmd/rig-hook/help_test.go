package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/helptest"
)

// TestCommandsRun: each command of the table does something.
func TestCommandsRun(t *testing.T) {
	for _, c := range program().Commands {
		if actions[c.Name] == nil && c.Name != "gerrit" {
			t.Errorf("%s does nothing", c.Name)
		}
	}
	if len(actions) != len(program().Commands)-1 {
		t.Errorf("%d actions for %d commands", len(actions), len(program().Commands))
	}
}

// TestNobodyWasTold: a command whose result nobody got has not been done.
func TestNobodyWasTold(t *testing.T) {
	helptest.NobodyWasTold(t, program(), func(out io.Writer, args ...string) (int, string) {
		var errs bytes.Buffer
		return Main(t.Context(), &hooks.Env{Args: append([]string{"rig-hook"}, args...), Stdout: out, Stderr: &errs, Dir: t.TempDir()}), errs.String()
	}, []string{"explain"}, []string{"explain", "envelope-parse"}, []string{"explain", "--policy-schema"})
}
