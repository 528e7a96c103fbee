package bridge

import (
	stdflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = stdflag.Bool("update", false, "write the man page and the completions anew")

// TestDocs holds the man page and the completions that are shipped against the
// table of commands, from which they are made.
func TestDocs(t *testing.T) {
	for path, text := range map[string]string{
		"docs/man/rig-bridge.1":             manPage(),
		"completions/rig-bridge.bash":       bashCompletion(),
		"completions/_rig-bridge":           zshCompletion(),
		"completions/rig-bridge.fish":       fishCompletion(),
		"internal/bridge/testdata/help.txt": helpTexts(),
	} {
		file := filepath.Join("../..", path)
		if *update {
			os.MkdirAll(filepath.Dir(file), 0o755)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		old, err := os.ReadFile(file)
		if err != nil || string(old) != text {
			t.Errorf("%s is not what the table of commands says (%v); run go test ./internal/bridge -run TestDocs -update", path, err)
		}
	}
}

func helpTexts() string {
	text := overview()
	for _, c := range commands() {
		text += "\n$ rig-bridge " + c.name + " --help\n" + c.help()
	}
	return text
}

func roff(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = strings.ReplaceAll(s, "-", `\-`)
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

func manPage() string {
	var b strings.Builder
	b.WriteString(`.TH RIG\-BRIDGE 1 "" "rigward" "User Commands"
.SH NAME
rig\-bridge \- messages between rigs, kept in a git repository
.SH SYNOPSIS
.B rig\-bridge
.I COMMAND
.RI [ flags ]
.RI [ words ]
.SH DESCRIPTION
A message is one file with a YAML front matter in a directory that is its thread, added by one
commit. rig\-bridge writes, commits, pushes, judges and shows messages. The same rules are judged
here as by the hooks of
.BR rig\-hook (1)
and by the server, before anything is written.
.PP
Standard output is data: lines of
.I key=value
tokens, or with
.B \-\-json
one object on one line. Standard error is for people.
.SH COMMANDS
`)
	for _, c := range commands() {
		fmt.Fprintf(&b, ".SS %s\n%s\n.PP\n%s\n", c.name, roff(c.usage()), roff(c.long))
		for _, f := range c.flags {
			left := `\fB` + roff(f.name) + `\fR`
			switch {
			case f.maybe:
				left += ` [\fI` + roff(f.value) + `\fR]`
			case f.value != "":
				left += ` \fI` + roff(f.value) + `\fR`
			}
			fmt.Fprintf(&b, ".TP\n%s\n%s\n", left, roff(f.help))
		}
	}
	b.WriteString(`.SH FLAGS OF EVERY COMMAND
`)
	for _, f := range common {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(f.name), roff(f.help))
	}
	b.WriteString(`.SH EXIT STATUS
.TP
.B 0
done; for sync also: nothing to do
.TP
.B 1
user error or refusal: wrong flags, no repository, a message that does not pass the rules, a push that the remote refused, a sync that was refused
.TP
.B 2
could not be decided: git or the network failed, the disk is full, the history is cut
.TP
.BR 130 ", " 143
ended by SIGINT, SIGTERM
.SH ENVIRONMENT
.TP
.B DEBUG_RIG_BRIDGE
set and neither empty, 0, false, no nor off: one line about program and platform on standard error
.TP
.B NO_COLOR
set, even empty: no colour
.TP
.B RIG_BRIDGE_NO_PAGER
1, true, yes or on: no pager
.TP
.BR PAGER ", " LESS
the pager of status and thread, by default less; run without a shell
.PP
git's own variables count as for git; relay ignores those that name an identity.
.SH FILES
.TP
.I .bridge/config.yaml
rig_id and display_name of this clone; kept out of commits
.TP
.I .bridge/policy.yaml, .bridge/allowed_signers
the rules of the repository, and whose signatures count
.TP
.I rig\-bridge.lock, rig\-bridge.journal
in git's common directory: one writer at a time, and what a killed run left to finish
.TP
.I rigward/read\-RIG
in git's common directory: which messages the rig has marked as read
.SH SEE ALSO
.BR rig\-hook (1),
.BR git (1)
`)
	return b.String()
}

// names lists the flags of a command, and those that take a value.
func names(c *command) (all, valued []string) {
	for _, f := range c.allFlags() {
		all = append(all, f.name)
		if f.value != "" {
			valued = append(valued, f.name)
		}
	}
	return all, valued
}

// wantsThread tells whether a word or flag value is a thread of the work tree.
func wantsThread(name string) bool { return name == "thread-id" || name == "THREAD" }

func bashCompletion() string {
	var b strings.Builder
	b.WriteString(`# bash completion of rig-bridge; made from its table of commands

_rig_bridge_threads() {
    local root
    root=$(git rev-parse --show-toplevel 2>/dev/null) || return
    (cd "$root" && for d in [a-z0-9]*/; do [ -d "$d" ] && printf '%s\n' "${d%/}"; done) 2>/dev/null
}

_rig_bridge() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "`)
	for _, c := range commands() {
		b.WriteString(c.name + " ")
	}
	b.WriteString(`--help --version" -- "$cur"))
        return
    fi
    case "$command $prev" in
`)
	for _, c := range commands() {
		for _, f := range c.flags {
			switch {
			case wantsThread(f.value):
				fmt.Fprintf(&b, "        \"%s %s\") COMPREPLY=($(compgen -W \"$(_rig_bridge_threads)\" -- \"$cur\")); return ;;\n", c.name, f.name)
			case f.value == "FILE":
				fmt.Fprintf(&b, "        \"%s %s\") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", c.name, f.name)
			case len(f.values) > 0:
				fmt.Fprintf(&b, "        \"%s %s\") COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")); return ;;\n", c.name, f.name, strings.Join(f.values, " "))
			case f.value != "":
				fmt.Fprintf(&b, "        \"%s %s\") return ;;\n", c.name, f.name)
			}
		}
	}
	b.WriteString("    esac\n    case \"$command\" in\n")
	for _, c := range commands() {
		all, _ := names(c)
		words := strings.Join(all, " ")
		fmt.Fprintf(&b, "        %s)\n            if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"%s\" -- \"$cur\"))\n", c.name, words)
		if len(c.words) > 0 {
			switch w := c.words[0]; {
			case w.values != nil:
				fmt.Fprintf(&b, "            else COMPREPLY=($(compgen -W \"%s\" -- \"$cur\"))\n", strings.Join(w.values, " "))
			case wantsThread(w.name):
				b.WriteString("            else COMPREPLY=($(compgen -W \"$(_rig_bridge_threads)\" -- \"$cur\"))\n")
			default:
				b.WriteString("            else COMPREPLY=($(compgen -f -- \"$cur\"))\n")
			}
		}
		b.WriteString("            fi ;;\n")
	}
	b.WriteString("    esac\n}\n\ncomplete -o filenames -F _rig_bridge rig-bridge\n")
	return b.String()
}

func zshQuote(s string) string {
	return strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(s)
}

func zshCompletion() string {
	var b strings.Builder
	b.WriteString(`#compdef rig-bridge
# zsh completion of rig-bridge; made from its table of commands

_rig_bridge_threads() {
    local root
    root=$(git rev-parse --show-toplevel 2>/dev/null) || return
    local -a threads
    threads=($root/[a-z0-9]*(/N:t))
    compadd -a threads
}

_rig_bridge() {
    local -a commands
    commands=(
`)
	for _, c := range commands() {
		fmt.Fprintf(&b, "        '%s:%s'\n", c.name, zshQuote(c.short))
	}
	b.WriteString("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "        %s)\n            _arguments", c.name)
		for _, f := range c.allFlags() {
			star := ""
			if f.many {
				star = "*"
			}
			spec := fmt.Sprintf("%s%s[%s]", star, f.name, zshQuote(f.help))
			switch {
			case wantsThread(f.value):
				spec += ":thread:_rig_bridge_threads"
			case f.value == "FILE":
				spec += ":file:_files"
			case len(f.values) > 0:
				spec += ":value:(" + strings.Join(f.values, " ") + ")"
			case f.value != "":
				spec += ":" + zshQuote(strings.ToLower(f.value)) + ":"
			}
			b.WriteString(" \\\n                '" + spec + "'")
		}
		for _, w := range c.words {
			place := "1"
			if w.many {
				place = "*"
			}
			switch {
			case w.values != nil:
				fmt.Fprintf(&b, " \\\n                '%s:%s:(%s)'", place, w.name, strings.Join(w.values, " "))
			case wantsThread(w.name):
				fmt.Fprintf(&b, " \\\n                '%s:%s:_rig_bridge_threads'", place, w.name)
			default:
				fmt.Fprintf(&b, " \\\n                '%s:%s:_files'", place, w.name)
			}
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString("    esac\n}\n\n_rig_bridge \"$@\"\n")
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func fishCompletion() string {
	var b strings.Builder
	b.WriteString(`# fish completion of rig-bridge; made from its table of commands

function __rig_bridge_threads
    set -l root (git rev-parse --show-toplevel 2>/dev/null); or return
    for d in $root/*/
        string match -r '^[a-z0-9][a-z0-9-]*[a-z0-9]$' (basename $d)
    end
end

complete -c rig-bridge -f
complete -c rig-bridge -n __fish_use_subcommand -l help -d 'print the help'
complete -c rig-bridge -n __fish_use_subcommand -l version -d 'print the version'
`)
	for _, c := range commands() {
		fmt.Fprintf(&b, "complete -c rig-bridge -n __fish_use_subcommand -a %s -d %s\n", c.name, fishQuote(c.short))
	}
	for _, c := range commands() {
		on := fmt.Sprintf("complete -c rig-bridge -n '__fish_seen_subcommand_from %s'", c.name)
		for _, f := range c.allFlags() {
			line := fmt.Sprintf("%s -l %s", on, strings.TrimPrefix(f.name, "--"))
			switch {
			case wantsThread(f.value):
				line += " -x -a '(__rig_bridge_threads)'"
			case f.value == "FILE":
				line += " -r -F"
			case len(f.values) > 0:
				line += " -x -a " + fishQuote(strings.Join(f.values, " "))
			case f.value != "":
				line += " -x"
			}
			b.WriteString(line + " -d " + fishQuote(f.help) + "\n")
		}
		for _, w := range c.words {
			switch {
			case w.values != nil:
				b.WriteString(on + " -a " + fishQuote(strings.Join(w.values, " ")) + "\n")
			case wantsThread(w.name):
				b.WriteString(on + " -a '(__rig_bridge_threads)'\n")
			default:
				b.WriteString(on + " -F\n")
			}
		}
	}
	return b.String()
}
