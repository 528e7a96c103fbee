// Package shebang lets a program be what the kernel starts a hook with, in place of
// a shell that starts the program (execve(2), "Interpreter scripts"). It imports next
// to nothing, since what it serves must start at once.
package shebang

import "strings"

// mark begins the one argument that the kernel takes from a script's first line. The
// words of the hook follow it, with commas between them; behind the argument come the
// script's path and what the script was called with.
const mark = "hook="

// longest is how many bytes of a first line every kernel reads (Linux before 5.1
// took the beginning of a longer one).
const longest = 120

// Line returns the first line of a script that a program at this absolute path runs,
// with words, the hook's name being the last one. ok is false where the path or a word
// is not of plain letters, or the line would be too long.
func Line(program string, words []string) (line string, ok bool) {
	if !Plain(program) {
		return "", false
	}
	for _, w := range words {
		if strings.Trim(w, letters+"=") != "" {
			return "", false
		}
	}
	line = "#!" + program + " " + mark + strings.Join(words, ",") + "\n"
	return line, len(line) <= longest
}

// Words returns the arguments of a program, those that it would have been called with
// by hand where it was called for a script.
func Words(args []string) []string {
	if len(args) < 2 {
		return args
	}
	words, ok := strings.CutPrefix(args[0], mark)
	if !ok {
		return args
	}
	return append(strings.Split(words, ","), args[2:]...)
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/"

// Plain reports whether a path is absolute, short, and needs no quotes in a shell.
func Plain(path string) bool {
	return strings.HasPrefix(path, "/") && len(path) <= 100 && strings.Trim(path, letters) == ""
}
