package cli

import (
	"io"
	"slices"

	"github.com/rigward/rigward/pkg/finding"
)

// Own answers what every program answers alike: help of the program and of a
// command, completion, man and version. Done reports whether args were that;
// an error of type *Error is of the command line.
func (p *Program) Own(stdout io.Writer, version string, args []string) (done bool, err error) {
	if len(args) == 0 {
		return false, nil
	}
	print := func(text string) (bool, error) {
		_, err := io.WriteString(stdout, text)
		return true, err
	}
	name, rest := args[0], args[1:]
	switch name {
	case "-h", "--help", "help":
		if name == "help" && len(rest) == 1 {
			if p.Find(rest[0]) == nil {
				return true, p.Unknown(rest[0])
			}
			return print(p.HelpOf(rest[0]))
		}
		return print(p.Overview())
	case "-v", "--version":
		return print(p.Name + " " + version + "\n")
	case "completion", "man", "version":
		words := map[string][]Word{"completion": {{Name: "shell", Required: true, Values: []string{"bash", "zsh", "fish"}}}}[name]
		i := slices.IndexFunc(own, func(o [2]string) bool { return o[0] == name })
		c := &Command{Name: name, Words: words, Short: own[i][1]}
		line, help, err := (&Program{Name: p.Name, Exit: p.Exit}).Parse(c, rest)
		switch {
		case err != nil:
			return true, err
		case help:
			return print((&Program{Name: p.Name, Exit: p.Exit}).Help(c))
		case name == "man":
			return print(p.Page())
		case name == "version":
			return print(p.Name + " " + version + "\n")
		}
		script, ok := p.Completion(line.Word(0))
		if !ok {
			return true, &Error{"the shell is " + finding.QuoteMax(line.Word(0), 60) + ", expected bash, zsh or fish", p.Name + " completion --help"}
		}
		return print(script)
	}
	return false, nil
}
