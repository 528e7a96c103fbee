package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rigward/rigward/hooks"
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

// A full is a standard output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestNobodyWasTold: a command whose result nobody got has not been done.
func TestNobodyWasTold(t *testing.T) {
	lines := [][]string{{"--help"}, {"version"}, {"explain"}, {"explain", "envelope-parse"}, {"explain", "--policy-schema"}}
	for _, c := range program().Commands {
		lines = append(lines, []string{c.Name, "--help"})
	}
	for _, args := range lines {
		run := func(out io.Writer) (int, string) {
			var errs bytes.Buffer
			return Main(t.Context(), &hooks.Env{Args: append([]string{"rig-hook"}, args...), Stdout: out, Stderr: &errs, Dir: t.TempDir()}), errs.String()
		}
		if code, errs := run(io.Discard); code != 0 {
			t.Errorf("%v: exit code %d\n%s", args, code, errs)
		}
		if code, errs := run(full{}); code != 2 || strings.Count(errs, "no room") != 1 {
			t.Errorf("%v, when standard output takes nothing: exit code %d, expected 2\n%s", args, code, errs)
		}
	}
}
