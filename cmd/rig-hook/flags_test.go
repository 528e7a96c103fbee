package main

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/test/helptest"
)

// TestHelpListsFlags: the flags of a command are those that its help lists. Those of
// Gerrit's hooks are Gerrit's.
func TestHelpListsFlags(t *testing.T) {
	p := program()
	p.Commands = slices.DeleteFunc(slices.Clone(p.Commands), func(c *cli.Command) bool { return c.Name == "gerrit" })
	helptest.Check(t, p, func(c *cli.Command, args ...string) string {
		var said bytes.Buffer
		Main(context.Background(), &hooks.Env{Args: append([]string{"rig-hook", c.Name}, args...), Stdout: &said, Stderr: &said, Dir: t.TempDir()})
		return said.String()
	}, []string{".", "../rig-control"}, nil)
}
