package main

import (
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/cli"
	"github.com/rigward/rigward/pkg/finding"
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
	c := &cli.Command{Name: v.name, Short: v.short + " (" + v.format + ")", Flags: v.withFormat(), Usage: []string{strings.Join(strings.Fields(v.name+" "+v.args), " ") + " [flags]"}}
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

// withFormat are the flags of the verb with --format, which pick reads.
func (v *verb) withFormat() []cli.Flag {
	const which = "the format that is meant, by default what the first argument is of: "
	names := formatNames()
	flags := slices.Clone(v.flags)
	for i, f := range flags {
		if f.Name == formatFlag {
			flags[i].Values = slices.Concat(f.Values, names)
			flags[i].Help += "; or " + which + strings.Join(names, ", ")
			return flags
		}
	}
	return append(flags, cli.Flag{Name: formatFlag, Value: "NAME", Values: names, Help: which + strings.Join(names, ", ")})
}

// formatFlag names a format, and in a verb that has it itself what it says there.
const formatFlag = "--format"

// formatNames are the names of the formats.
func formatNames() (names []string) {
	for _, f := range formats() {
		names = append(names, f.Name())
	}
	return names
}

// unpicked is the error of a --format that pick left on the line of a verb that has no
// such flag itself, nil if there is none.
func (v *verb) unpicked(line cli.Line) error {
	name, given := line.Lookup(formatFlag)
	switch names := formatNames(); {
	case !given || slices.ContainsFunc(v.flags, func(f cli.Flag) bool { return f.Name == formatFlag }):
		return nil
	case slices.Contains(names, name):
		return usagef("--format is given twice")
	default:
		last := len(names) - 1
		return usagef("--format is %s, expected %s or %s", finding.QuoteMax(name, 60), strings.Join(names[:last], ", "), names[last])
	}
}
