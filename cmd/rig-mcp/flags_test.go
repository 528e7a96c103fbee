package main

import (
	"io"
	"testing"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/test/helptest"
)

// TestHelpListsFlags: the flags of the command are those that its help lists.
func TestHelpListsFlags(t *testing.T) {
	helptest.Check(t, program(), func(c *cli.Command, args ...string) string {
		_, _, err := parse(io.Discard, append([]string{c.Name}, args...))
		return err.Error()
	}, []string{"."}, nil)
	if line, done, err := parse(io.Discard, []string{"--clone", "x"}); done || err != nil || line.Get("--clone") != "x" {
		t.Error("the one command has to be named", done, err)
	}
}
