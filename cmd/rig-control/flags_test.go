package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/rigward/rigward/hooks"
	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/test/helptest"
)

// TestHelpListsFlags: the flags of a command are those that its help lists.
func TestHelpListsFlags(t *testing.T) {
	helptest.Check(t, program(), func(c *cli.Command, args ...string) string {
		var said bytes.Buffer
		Main(context.Background(), &hooks.Env{Args: append([]string{"rig-control", c.Name}, args...), Stdout: &said, Stderr: &said, Dir: t.TempDir()})
		return said.String()
	}, []string{".", "../../internal/bridge"}, nil)
}
