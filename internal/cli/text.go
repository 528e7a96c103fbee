package cli

import (
	"fmt"
	"strings"
)

// spelled is a flag as help shows it.
func (f Flag) spelled() string {
	s := f.Name
	if f.Alias != "" {
		s = f.Alias + ", " + s
	}
	switch {
	case f.Optional:
		s += "[=" + f.Value + "]"
	case f.Value != "":
		s += " " + f.Value
	}
	return s
}

// usage returns the synopses of a command, each with the program's name.
func (p *Program) usage(c *Command) (lines []string) {
	for _, u := range c.Usage {
		lines = append(lines, strings.TrimRight(p.Name+" "+u, " "))
	}
	if lines != nil {
		return lines
	}
	var b strings.Builder
	b.WriteString(p.Name + " " + c.Name)
	for _, w := range c.Words {
		s := "<" + w.Name + ">"
		if w.Many {
			s += "..."
		}
		if !w.Required {
			s = "[" + s + "]"
		}
		b.WriteString(" " + s)
	}
	for _, f := range c.Flags {
		if s := f.spelled(); f.Required || f.Late {
			b.WriteString(" " + s)
		} else {
			b.WriteString(" [" + s + "]")
		}
	}
	return []string{b.String()}
}

// Overview is the help of a program.
func (p *Program) Overview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s COMMAND [flags] [arguments]\n\n%s\n\n", p.Name, p.About)
	width := 0
	for _, c := range p.Commands {
		width = max(width, len(c.Name))
	}
	for _, o := range own {
		width = max(width, len(o[0]))
	}
	for _, c := range p.Commands {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, c.Name, c.Short)
	}
	for _, o := range own {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, o[0], o[1])
	}
	b.WriteByte('\n')
	b.WriteString(p.Notes)
	fmt.Fprintf(&b, "%s COMMAND --help tells more.\n", p.Name)
	p.exits(&b)
	return b.String()
}

// own are the commands that Run answers for every program.
var own = [][2]string{
	{"completion", "print the completions of a shell: bash, zsh, fish"},
	{"man", "print the manual page"},
	{"version", "print the version"},
}

func (p *Program) exits(b *strings.Builder) {
	if len(p.Exit) == 0 {
		return
	}
	b.WriteString("exit:")
	for i, e := range p.Exit {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" " + e.Code + " " + e.Means)
	}
	b.WriteByte('\n')
}

// Help is the help of a command.
func (p *Program) Help(c *Command) string {
	var b strings.Builder
	for i, u := range p.usage(c) {
		b.WriteString([]string{"usage: ", "       "}[min(i, 1)] + u + "\n")
	}
	b.WriteByte('\n')
	b.WriteString(strings.TrimRight(firstUpper(c.Long, c.Short), "\n") + "\n\n")
	flags := p.flagsOf(c)
	width := 0
	for _, f := range flags {
		if n := len(f.spelled()); n <= 28 {
			width = max(width, n)
		}
	}
	for _, f := range flags {
		left := f.spelled()
		if len(left) > width {
			fmt.Fprintf(&b, "  %s\n", left)
			left = ""
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, left, f.help())
	}
	if len(flags) > 0 {
		b.WriteByte('\n')
	}
	for _, w := range c.Words {
		if w.Values != nil {
			fmt.Fprintf(&b, "<%s> is one of %s.\n", w.Name, strings.Join(w.Values, " "))
		}
	}
	p.exits(&b)
	return b.String()
}

// HelpOf is the help of all commands of a name, "" if there is none: a program
// may have several, of which it picks one by the arguments.
func (p *Program) HelpOf(name string) string {
	var texts []string
	for _, c := range p.Commands {
		if c.Name == name {
			texts = append(texts, p.Help(c))
		}
	}
	return strings.Join(texts, "\n")
}

// help is the text of a flag, with what the table says besides.
func (f Flag) help() string {
	s := f.Help
	if f.Many && !strings.Contains(s, "repeated") {
		s += "; may be repeated"
	}
	if f.Required || f.Late {
		s += " (required)"
	}
	return s
}

// firstUpper is the long text, or the short one as a sentence.
func firstUpper(long, short string) string {
	if long != "" || short == "" {
		return long
	}
	return strings.ToUpper(short[:1]) + short[1:] + "."
}

// roff escapes a text for man(7).
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	var b strings.Builder
	for _, r := range s {
		if r > 0x7e {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		} else {
			b.WriteRune(r)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

// Page is the manual page, in man(7) macros.
func (p *Program) Page() string {
	var b strings.Builder
	name := roff(p.Name)
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"rigward\" \"User Commands\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), name, roff(strings.TrimSuffix(firstLower(p.About), ".")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I COMMAND\n.RI [ flags ]\n.RI [ arguments ]\n.SH COMMANDS\n", name)
	list := func(flags []Flag) {
		for _, f := range flags {
			left := `\fB` + roff(f.Name) + `\fR`
			if f.Alias != "" {
				left = `\fB` + roff(f.Alias) + `\fR, ` + left
			}
			switch {
			case f.Optional:
				left += `[=\fI` + roff(f.Value) + `\fR]`
			case f.Value != "":
				left += ` \fI` + roff(f.Value) + `\fR`
			}
			fmt.Fprintf(&b, ".TP\n%s\n%s\n", left, roff(f.help()))
		}
	}
	for _, c := range p.Commands {
		fmt.Fprintf(&b, ".SS %s\n%s\n.PP\n%s\n", roff(c.Name), strings.ReplaceAll(roff(strings.Join(p.usage(c), "\n")), "\n", "\n.br\n"), roff(firstUpper(c.Long, c.Short)))
		list(c.Flags)
	}
	if len(p.Common) > 0 {
		b.WriteString(".SH FLAGS OF " + p.everyBut() + "\n")
		list(p.Common)
	}
	if len(p.Exit) > 0 {
		b.WriteString(".SH EXIT STATUS\n")
	}
	for _, e := range p.Exit {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(e.Code), roff(e.Means))
	}
	b.WriteString(p.Man)
	return b.String()
}

// everyBut names the commands that take the common flags, as a heading.
func (p *Program) everyBut() string {
	var alone []string
	for _, c := range p.Commands {
		if c.Alone {
			alone = append(alone, strings.ToUpper(c.Name))
		}
	}
	if alone == nil {
		return "EVERY COMMAND"
	}
	return "EVERY COMMAND BUT " + strings.Join(alone, ", ")
}

func firstLower(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToLower(s[:1]) + s[1:]
}
