package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rigward/rigward/hooks"
)

// A nowhere is a standard output that takes nothing.
type nowhere struct{}

func (nowhere) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestNobodyWasTold: a command whose result nobody got has not been done.
func TestNobodyWasTold(t *testing.T) {
	lines := [][]string{{"--help"}, {"version"}}
	for _, c := range program().Commands {
		lines = append(lines, []string{c.Name, "--help"})
	}
	for _, args := range lines {
		run := func(out io.Writer) (int, string) {
			var errs bytes.Buffer
			return Main(t.Context(), &hooks.Env{Args: append([]string{"rig-control"}, args...), Stdout: out, Stderr: &errs, Dir: t.TempDir()}), errs.String()
		}
		if code, errs := run(io.Discard); code != 0 {
			t.Errorf("%v: exit code %d\n%s", args, code, errs)
		}
		if code, errs := run(nowhere{}); code != 2 || strings.Count(errs, "no room") != 1 || strings.Contains(errs, ": :") {
			t.Errorf("%v, when standard output takes nothing: exit code %d, expected 2\n%s", args, code, errs)
		}
	}
}
