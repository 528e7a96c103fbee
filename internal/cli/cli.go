// Package cli reads command lines by a table of commands, and writes help,
// manual page and completions from the same table, in one way for all programs.
//
// The grammar: --flag value and --flag=value are the same, and a value that
// begins with "--" needs the second form; flags may stand before and after
// words; "--" ends the flags; -h and --help may stand wherever a flag may.
package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

// A Program is a table of commands.
type Program struct {
	Name     string
	About    string // one sentence, for the overview and the manual page
	Commands []*Command
	Common   []Flag // flags of every command that is not Alone
	// Once says that a flag that takes one value may stand once on a line; else
	// the last one counts.
	Once bool
	Exit []Exit // exit statuses, for help and manual page
	// Notes are lines that the overview has after the commands.
	Notes string
	// Man are further sections of the manual page, in man(7) macros.
	Man string
}

// An Exit is one exit status.
type Exit struct{ Code, Means string }

// A Command is one verb of a program.
type Command struct {
	Name  string
	Words []Word
	Flags []Flag
	// Usage, if set, are the synopses after the program's name; else one is made
	// from words and flags.
	Usage []string
	Short string // one line for the overview
	Long  string // paragraphs for its own help
	Alone bool   // it takes none of the flags that are common to the others
}

// A Word is an argument that is not a flag.
type Word struct {
	Name     string // without brackets
	Required bool
	Many     bool
	Values   []string // those that there are
}

// A Flag is one flag of a command.
type Flag struct {
	Name  string // with its dashes
	Alias string // short form, "" if none
	Value string // name of its value, "" for a switch
	// Optional says that the value may be left out: --strict[=NAME]. It may be
	// the next argument only where the command has no words.
	Optional bool
	Many     bool // may be repeated
	Required bool
	// Late says that it is required, and that the command says so itself, after
	// what it has to look at first.
	Late   bool
	Values []string // those that there are
	Help   string
}

// A Line is a command line that was read.
type Line struct {
	Words  []string
	values map[string][]string
}

// Has reports whether a flag was given.
func (l Line) Has(flag string) bool { return len(l.values[flag]) > 0 }

// Given returns those of some flags that were given.
func (l Line) Given(flags ...string) []string {
	return slices.DeleteFunc(flags, func(flag string) bool { return !l.Has(flag) })
}

// All returns the values of a flag in their order; those of a switch are empty.
func (l Line) All(flag string) []string { return l.values[flag] }

// Get returns the last value of a flag, "" if there is none.
func (l Line) Get(flag string) string {
	if v := l.values[flag]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// Lookup is Get, and reports whether the flag was given.
func (l Line) Lookup(flag string) (value string, given bool) { return l.Get(flag), l.Has(flag) }

// Word returns the word at an index, "" if there is none.
func (l Line) Word(i int) string {
	if i < len(l.Words) {
		return l.Words[i]
	}
	return ""
}

// An Error says what is wrong with a command line: nothing was done.
type Error struct{ Message, Hint string }

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Find returns a command by its name, nil if there is none.
func (p *Program) Find(name string) *Command {
	for _, c := range p.Commands {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Unknown is the error of a name that no command has.
func (p *Program) Unknown(name string) *Error {
	return &Error{"unknown command " + finding.QuoteMax(name, 60), p.Name + " --help"}
}

// flagsOf returns the flags of a command with the common ones.
func (p *Program) flagsOf(c *Command) []Flag {
	if c.Alone {
		return c.Flags
	}
	return append(slices.Clip(c.Flags), p.Common...)
}

// mayBeEmpty are the kinds of values that may be empty, or of which the command says best
// what is wrong with them, as it does of those that it lists. Any other empty value is a
// variable that is not set.
var mayBeEmpty = map[string]bool{"TEXT": true, "STATUS": true, "IDS": true}

// Parse reads what follows the command. Help reports whether help was asked
// for. The first error, of type *Error, is returned after the whole line was
// read, so that a flag such as --json counts wherever it stands.
func (p *Program) Parse(c *Command, args []string) (l Line, help bool, err error) {
	l.values = map[string][]string{}
	fail := func(format string, a ...any) {
		if err == nil {
			err = &Error{fmt.Sprintf(format, a...), p.Name + " " + c.Name + " --help"}
		}
	}
	flags := p.flagsOf(c)
	dash := slices.ContainsFunc(flags, func(f Flag) bool { return f.Alias != "" })
	most := len(c.Words)
	if most > 0 && c.Words[most-1].Many {
		most = len(args)
	}
	word := func(s string) {
		if l.Words = append(l.Words, s); len(l.Words) > most {
			fail("unexpected argument %s", finding.QuoteMax(s, 60))
		}
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			for _, w := range args[i+1:] {
				word(w)
			}
			args = args[:i]
			continue
		case a == "-h" || a == "--help":
			help = true
			continue
		case !strings.HasPrefix(a, "--") && (!dash || len(a) < 2 || a[0] != '-'):
			word(a)
			continue
		}
		name, value, inline := strings.Cut(a, "=")
		n := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name || f.Alias != "" && f.Alias == name })
		if n < 0 {
			fail("unknown flag %s", finding.QuoteMax(name, 60))
			continue
		}
		f := flags[n]
		switch {
		case f.Value == "" && inline:
			fail("%s takes no value", f.Name)
			continue
		case f.Value == "", inline, f.Optional && (len(c.Words) > 0 || i+1 == len(args) || strings.HasPrefix(args[i+1], "--")):
		case i+1 == len(args) || strings.HasPrefix(args[i+1], "--"):
			fail("%s needs a value (%s)", f.Name, f.Value)
			continue
		default:
			i++
			value = args[i]
		}
		if value == "" && f.Value != "" && !f.Optional && len(f.Values) == 0 && !mayBeEmpty[f.Value] { // a variable that is not set
			fail("%s is empty", f.Name)
		}
		if p.Once && f.Value != "" && !f.Many && l.Has(f.Name) {
			fail("%s is given twice", f.Name)
		}
		l.values[f.Name] = append(l.values[f.Name], value)
	}
	if help {
		return l, true, err
	}
	for i, w := range c.Words {
		if w.Required && i >= len(l.Words) {
			fail("<%s> is missing", w.Name)
		}
	}
	for _, f := range flags {
		if f.Required && !l.Has(f.Name) {
			fail("%s is missing", f.Name)
		}
	}
	return l, false, err
}
