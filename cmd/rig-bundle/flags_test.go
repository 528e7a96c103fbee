package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/internal/test/helptest"
)

// TestHelpListsFlags: the flags of a command are those that its help lists, --format
// among them, which says whose command it is.
func TestHelpListsFlags(t *testing.T) {
	names := formatNames()
	helptest.Check(t, program(verbs()), func(c *cli.Command, args ...string) string {
		i := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(c.Short, "("+name+")") })
		if args = append([]string{c.Name}, args...); !strings.HasPrefix(args[1], "--format") {
			args = append(args, "--format", names[i])
		}
		_, out, errs := command(t.TempDir(), nil, args...)
		return out + errs
	}, []string{"."}, names)
}

// TestFormatIsJudged: a format that there is not, and a second one, are errors.
func TestFormatIsJudged(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"create", "x", "--format", "zip"}, `--format is "zip", expected rig, agent or rye`},
		{[]string{"create", "x", "--format=zip"}, `--format is "zip", expected rig, agent or rye`},
		{[]string{"create", "x", "--format", "agent", "--format=rye"}, "--format is given twice"},
		{[]string{"create", "x", "--format"}, "--format needs a value"},
		{[]string{"diff", "a", "b", "--format", "agent", "--format", "markdown"}, `--format is "markdown", expected rig, agent or rye`},
		{[]string{"diff", "a.rigbundle", "b.rigbundle", "--format", "zip"}, "--format is text or markdown"},
	} {
		if status, out, errs := command(t.TempDir(), nil, c.args...); status != exitUnknown || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d, %s%s, expected %s", c.args, status, out, errs, c.says)
		}
	}
}
