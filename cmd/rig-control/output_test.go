package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/test/helptest"
)

// TestNobodyWasTold: a command whose result nobody got has not been done.
func TestNobodyWasTold(t *testing.T) {
	helptest.NobodyWasTold(t, program(), func(out io.Writer, args ...string) (int, string) {
		var errs bytes.Buffer
		return Main(t.Context(), &hooks.Env{Args: append([]string{"rig-control"}, args...), Stdout: out, Stderr: &errs, Dir: t.TempDir()}), errs.String()
	})
}
