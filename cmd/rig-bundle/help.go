package main

import (
	"strings"

	"github.com/rigward/rigward/internal/cli"
)

// program is the table of commands, one of each format that has it.
func program(all []*verb) *cli.Program {
	p := &cli.Program{
		Name: "rig-bundle", About: "Makes, judges, compares and installs bundles.", Once: true,
		Exit: []cli.Exit{{Code: "0", Means: "done and nothing found"}, {Code: "1", Means: "findings"}, {Code: "2", Means: "could not decide"}},
	}
	for _, v := range all {
		p.Commands = append(p.Commands, v.command())
	}
	return p
}

// command is the verb as the command line knows it.
func (v *verb) command() *cli.Command {
	c := &cli.Command{Name: v.name, Short: v.short + " (" + v.format + ")", Flags: v.flags, Usage: []string{strings.Join(strings.Fields(v.name+" "+v.args), " ") + " [flags]"}}
	if strings.Contains(v.args, "|") && strings.Contains(v.args, " ") { // words that depend on the first
		c.Words = []cli.Word{{Name: "verb", Required: true}, {Name: "argument"}}
		return c
	}
	for _, name := range strings.Fields(v.args) {
		bare, many := strings.CutSuffix(strings.Trim(name, "[]"), "…")
		c.Words = append(c.Words, cli.Word{Name: bare, Required: name[0] != '[', Many: many})
	}
	return c
}
