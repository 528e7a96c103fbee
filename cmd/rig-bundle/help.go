package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

func (v *verb) usage() string {
	s := "rig-bundle " + v.name
	if v.args != "" {
		s += " " + v.args
	}
	return s + " [flags]"
}

func (f *flagSpec) spelled() string {
	s := f.name
	if f.alias != "" {
		s = f.alias + ", " + s
	}
	switch {
	case f.optional:
		s += "[=" + f.value + "]"
	case f.value != "":
		s += " " + f.value
	}
	return s
}

func (v *verb) label() string {
	return v.short + " (" + v.format + ")"
}

func printHelp(w io.Writer, all []*verb) {
	fmt.Fprint(w, "rig-bundle makes, judges, compares and installs bundles.\n\nCommands:\n")
	for _, v := range all {
		fmt.Fprintf(w, "  %-11s %s\n", v.name, v.label())
	}
	fmt.Fprint(w, "  completion  print the completions of a shell: bash, zsh, fish\n  man         print the manual page\n  version     print the version\n\n"+
		"rig-bundle COMMAND --help tells more. Exit status: 0 done and nothing found,\n1 findings, 2 could not decide.\n")
}

func printVerbHelp(w io.Writer, vs []*verb) {
	for i, v := range vs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "Usage: %s\n\n%s.\n", v.usage(), strings.ToUpper(v.short[:1])+v.label()[1:])
		if len(v.flags) == 0 {
			continue
		}
		width := 0
		for i := range v.flags {
			width = max(width, len(v.flags[i].spelled()))
		}
		fmt.Fprint(w, "\nFlags:\n")
		for i := range v.flags {
			fmt.Fprintf(w, "  %-*s  %s\n", width, v.flags[i].spelled(), v.flags[i].help)
		}
	}
}

// printMan writes the manual page in man(7) macros.
func printMan(w io.Writer, all []*verb) {
	esc := strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `...`)
	fmt.Fprint(w, ".TH RIG-BUNDLE 1\n.SH NAME\nrig\\-bundle \\- make, judge, compare and install bundles\n.SH SYNOPSIS\n.B rig\\-bundle\n.I COMMAND\n[flags] [arguments]\n.SH COMMANDS\n")
	for _, v := range all {
		fmt.Fprintf(w, ".SS %s\n%s.\n", esc.Replace(v.usage()), esc.Replace(strings.ToUpper(v.short[:1])+v.label()[1:]))
		for i := range v.flags {
			fmt.Fprintf(w, ".TP\n.B %s\n%s\n", esc.Replace(v.flags[i].spelled()), esc.Replace(v.flags[i].help))
		}
	}
	fmt.Fprint(w, ".SH EXIT STATUS\n0: done, nothing found. 1: findings. 2: could not decide.\n")
}

// completion prints a completion script for a shell.
func completion(env Env, all []*verb, args []string) int {
	names := []string{"completion", "help", "man", "version"}
	flags := map[string][]string{} // verb to its flags
	for _, v := range all {
		if !slices.Contains(names, v.name) {
			names = append(names, v.name)
		}
		for _, f := range v.flags {
			if !slices.Contains(flags[v.name], f.name) {
				flags[v.name] = append(flags[v.name], f.name)
			}
		}
	}
	slices.Sort(names)
	shell := ""
	if len(args) == 1 {
		shell = args[0]
	}
	w := env.Stdout
	switch shell {
	case "bash", "zsh":
		if shell == "zsh" {
			fmt.Fprint(w, "autoload -U +X bashcompinit && bashcompinit\n")
		}
		fmt.Fprintf(w, "_rig_bundle() {\n  local cur=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words=\"%s\"\n  else\n    case \"${COMP_WORDS[1]}\" in\n", strings.Join(names, " "))
		for _, n := range names {
			if len(flags[n]) > 0 {
				fmt.Fprintf(w, "      %s) words=\"%s\" ;;\n", n, strings.Join(flags[n], " "))
			}
		}
		fmt.Fprint(w, "    esac\n  fi\n  COMPREPLY=( $(compgen -W \"$words\" -- \"$cur\") )\n}\ncomplete -o default -F _rig_bundle rig-bundle\n")
	case "fish":
		for _, n := range names {
			fmt.Fprintf(w, "complete -c rig-bundle -n __fish_use_subcommand -a %s\n", n)
			for _, f := range flags[n] {
				fmt.Fprintf(w, "complete -c rig-bundle -n '__fish_seen_subcommand_from %s' -l %s\n", n, strings.TrimLeft(f, "-"))
			}
		}
	default:
		fmt.Fprintln(env.Stderr, "rig-bundle completion: usage: completion takes bash, zsh or fish")
		return exitUnknown
	}
	return exitOK
}
