package cli

import (
	"fmt"
	"slices"
	"strings"
)

// merged is the program with one command of each name, with the flags of all
// that have it: which one is meant is not known yet.
func (p *Program) merged() *Program {
	m := *p
	m.Commands = nil
	for _, c := range p.Commands {
		first := m.Find(c.Name)
		if first == nil {
			same := *c
			m.Commands = append(m.Commands, &same)
			continue
		}
		first.Flags = slices.Clip(first.Flags)
		for _, f := range c.Flags {
			if !slices.ContainsFunc(first.Flags, func(g Flag) bool { return g.Name == f.Name }) {
				first.Flags = append(first.Flags, f)
			}
		}
	}
	return &m
}

// Completion is the completion script of a shell, which is bash, zsh or fish;
// ok reports whether it is one of them.
func (p *Program) Completion(shell string) (script string, ok bool) {
	p = p.merged()
	switch shell {
	case "bash":
		return p.bash(), true
	case "zsh":
		return p.zsh(), true
	case "fish":
		return p.fish(), true
	}
	return "", false
}

// thread reports whether a word or a value is a thread of the work tree.
func thread(name string) bool { return name == "thread-id" || name == "THREAD" }

// file reports whether a value is a path.
func file(name string) bool {
	return strings.HasPrefix(name, "FILE") || name == "DIR" || name == "PATH"
}

// function is the name of the program as a part of a shell function's name.
func (p *Program) function() string { return "_" + strings.ReplaceAll(p.Name, "-", "_") }

// all are the words that may follow the program's name.
func (p *Program) all() (names []string) {
	for _, c := range p.Commands {
		names = append(names, c.Name)
	}
	for _, o := range own {
		names = append(names, o[0])
	}
	return append(names, "--help", "--version")
}

func (p *Program) bash() string {
	var b strings.Builder
	f := p.function()
	fmt.Fprintf(&b, `# bash completion of %[1]s; made from its table of commands

%[2]s_threads() {
    local root
    root=$(git rev-parse --show-toplevel 2>/dev/null) || return
    (cd "$root" && for d in [a-z0-9]*/; do [ -d "$d" ] && printf '%%s\n' "${d%%/}"; done) 2>/dev/null
}

%[2]s() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "%[3]s" -- "$cur"))
        return
    fi
    case "$command $prev" in
        "completion completion") COMPREPLY=($(compgen -W "bash zsh fish" -- "$cur")); return ;;
`, p.Name, f, strings.Join(p.all(), " "))
	choose := func(name string, values []string) string {
		switch {
		case thread(name):
			return `COMPREPLY=($(compgen -W "$(` + f + `_threads)" -- "$cur"))`
		case len(values) > 0:
			return `COMPREPLY=($(compgen -W "` + strings.Join(values, " ") + `" -- "$cur"))`
		}
		return `COMPREPLY=($(compgen -f -- "$cur"))`
	}
	for _, c := range p.Commands {
		for _, fl := range p.flagsOf(c) {
			if fl.Value == "" || fl.Optional {
				continue
			}
			act := ""
			if thread(fl.Value) || file(fl.Value) || len(fl.Values) > 0 {
				act = choose(fl.Value, fl.Values) + "; "
			}
			fmt.Fprintf(&b, "        \"%s %s\") %sreturn ;;\n", c.Name, fl.Name, act)
		}
	}
	b.WriteString("    esac\n    case \"$command\" in\n")
	for _, c := range p.Commands {
		var flags []string
		for _, fl := range p.flagsOf(c) {
			flags = append(flags, fl.Name)
		}
		fmt.Fprintf(&b, "        %s)\n            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"%s --help\" -- \"$cur\"))\n", c.Name, strings.Join(flags, " "))
		if len(c.Words) > 0 {
			fmt.Fprintf(&b, "            else %s\n", choose(c.Words[0].Name, c.Words[0].Values))
		}
		b.WriteString("            fi ;;\n")
	}
	fmt.Fprintf(&b, "    esac\n}\n\ncomplete -o filenames -F %s %s\n", f, p.Name)
	return b.String()
}

func zshQuote(s string) string {
	return strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(s)
}

func (p *Program) zsh() string {
	var b strings.Builder
	f := p.function()
	fmt.Fprintf(&b, `#compdef %[1]s
# zsh completion of %[1]s; made from its table of commands

%[2]s_threads() {
    local root
    root=$(git rev-parse --show-toplevel 2>/dev/null) || return
    local -a threads
    threads=($root/[a-z0-9]*(/N:t))
    compadd -a threads
}

%[2]s() {
    local -a commands
    commands=(
`, p.Name, f)
	for _, c := range p.Commands {
		fmt.Fprintf(&b, "        '%s:%s'\n", c.Name, zshQuote(c.Short))
	}
	for _, o := range own {
		fmt.Fprintf(&b, "        '%s:%s'\n", o[0], zshQuote(o[1]))
	}
	b.WriteString("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n" +
		"    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n        completion)\n            _arguments '1:shell:(bash zsh fish)' ;;\n")
	for _, c := range p.Commands {
		fmt.Fprintf(&b, "        %s)\n            _arguments", c.Name)
		for _, fl := range append(p.flagsOf(c), Flag{Name: "--help", Help: "print this help"}) {
			star := ""
			if fl.Many {
				star = "*"
			}
			spec := fmt.Sprintf("%s%s[%s]", star, fl.Name, zshQuote(fl.Help))
			switch {
			case fl.Value == "" || fl.Optional:
			case thread(fl.Value):
				spec += ":thread:" + f + "_threads"
			case file(fl.Value):
				spec += ":file:_files"
			case len(fl.Values) > 0:
				spec += ":value:(" + strings.Join(fl.Values, " ") + ")"
			default:
				spec += ":" + zshQuote(strings.ToLower(fl.Value)) + ":"
			}
			b.WriteString(" \\\n                '" + spec + "'")
		}
		for i, w := range c.Words {
			place := fmt.Sprint(i + 1)
			if w.Many {
				place = "*"
			}
			act := "_files"
			switch {
			case w.Values != nil:
				act = "(" + strings.Join(w.Values, " ") + ")"
			case thread(w.Name):
				act = f + "_threads"
			}
			fmt.Fprintf(&b, " \\\n                '%s:%s:%s'", place, zshQuote(w.Name), act)
		}
		b.WriteString(" ;;\n")
	}
	fmt.Fprintf(&b, "    esac\n}\n\n%s \"$@\"\n", f)
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func (p *Program) fish() string {
	var b strings.Builder
	f := "_" + p.function()
	fmt.Fprintf(&b, `# fish completion of %[1]s; made from its table of commands

function %[2]s_threads
    set -l root (git rev-parse --show-toplevel 2>/dev/null); or return
    for d in $root/*/
        string match -r '^[a-z0-9][a-z0-9-]*[a-z0-9]$' (basename $d)
    end
end

complete -c %[1]s -f
complete -c %[1]s -n __fish_use_subcommand -l help -d 'print the help'
complete -c %[1]s -n __fish_use_subcommand -l version -d 'print the version'
complete -c %[1]s -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
`, p.Name, f)
	for _, c := range p.Commands {
		fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -a %s -d %s\n", p.Name, c.Name, fishQuote(c.Short))
	}
	for _, o := range own {
		fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -a %s -d %s\n", p.Name, o[0], fishQuote(o[1]))
	}
	for _, c := range p.Commands {
		on := fmt.Sprintf("complete -c %s -n '__fish_seen_subcommand_from %s'", p.Name, c.Name)
		for _, fl := range p.flagsOf(c) {
			line := on + " -l " + strings.TrimPrefix(fl.Name, "--")
			switch {
			case fl.Value == "" || fl.Optional:
			case thread(fl.Value):
				line += " -x -a '(" + f + "_threads)'"
			case file(fl.Value):
				line += " -r -F"
			case len(fl.Values) > 0:
				line += " -x -a " + fishQuote(strings.Join(fl.Values, " "))
			default:
				line += " -x"
			}
			b.WriteString(line + " -d " + fishQuote(fl.Help) + "\n")
		}
		for _, w := range c.Words {
			switch {
			case w.Values != nil:
				b.WriteString(on + " -a " + fishQuote(strings.Join(w.Values, " ")) + "\n")
			case thread(w.Name):
				b.WriteString(on + " -a '(" + f + "_threads)'\n")
			default:
				b.WriteString(on + " -F\n")
			}
		}
	}
	return b.String()
}
