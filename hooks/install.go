package hooks

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/internal/shebang"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/policy"
)

// ClientHooks and ServerHooks are the names that Install writes.
var (
	ClientHooks = []string{"pre-commit", "commit-msg", "pre-push"}
	ServerHooks = []string{"pre-receive", "update"}
)

// marker is the second line of every shim; a file without it is foreign.
const marker = "# rigward hook shim; remove with: rig-hook uninstall"

// OnPath is the program of a shim that others get by a commit: each of them has
// rig-hook somewhere else.
const OnPath = "rig-hook"

// CachedIn names the cache that a program lies in, "" if it lies in none: what a
// cache holds is removed some day, and a hook that names it refuses everything
// from then on.
func CachedIn(program string) string {
	parts := strings.Split(filepath.ToSlash(program), "/")
	for i, part := range parts {
		switch {
		case part == "go-build" || strings.HasPrefix(part, "go-build") && strings.Trim(part[len("go-build"):], "0123456789") == "":
			return "go"
		case strings.HasSuffix(part, "-d") && len(part) == 66 && strings.Trim(part[:64], "0123456789abcdef") == "" && i > 0 && parts[i-1] == part[:2]:
			return "go" // GOCACHE under another name
		case part == "pre-commit" && i > 0 && (parts[i-1] == ".cache" || parts[i-1] == "Caches"):
			return "pre-commit"
		case part == "_npx":
			return "npx"
		}
	}
	return ""
}

// ChainedSuffix is added to the name of a foreign hook that a shim runs first.
const ChainedSuffix = ".before-rigward"

// Shim returns the script for one hook: run the foreign hook of that name
// first if there was one, then the program. It is plain sh with LF line ends
// on every system, since git runs hooks through its own sh on Windows too.
//
// On Linux the first line names the program itself where that is possible, which
// saves the start of a shell; for whoever runs the script with sh it does the same.
//
// The program may be OnPath: then the shim looks it up when it runs. Words that
// need no quotes come before the name of the hook.
func Shim(hook, program string, chained bool, words ...string) []byte {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n" + marker + "\n")
	words = append(slices.Clone(words), hook)
	if line, ok := shebang.Line(program, words); ok && !chained && direct(hook) {
		b.Reset()
		b.WriteString(line + marker + "\n")
	}
	run := fmt.Sprintf("exec %s %s \"$@\"\n", shellQuote(filepath.ToSlash(program)), strings.Join(words, " "))
	if program == OnPath {
		b.WriteString("command -v '" + OnPath + "' >/dev/null 2>&1 || {\n" +
			"  echo 'rigward: " + OnPath + " is not on PATH, so " + hook + " has checked nothing and refuses' >&2\n" +
			"  echo 'hint: go install github.com/rigward/rigward/cmd/...@latest, or add its directory to PATH' >&2\n" +
			"  exit 2\n}\n")
	}
	// git ignores a hook that is not executable; so does the shim.
	kept := fmt.Sprintf("\"${0%%/*}/%s%s\"", hook, ChainedSuffix)
	first := "test ! -x " + kept + " || " + kept + " \"$@\""
	switch {
	case !chained:
		b.WriteString(run)
	case readsStdin(hook):
		// Both read the ref lines: they are kept and given to each.
		b.WriteString("lines=$(cat)\n")
		b.WriteString("lines() { test -z \"$lines\" || printf '%s\\n' \"$lines\"; }\n")
		b.WriteString("lines | { " + first + "; } || exit $?\n")
		b.WriteString("lines | " + strings.TrimPrefix(run, "exec "))
	default:
		b.WriteString("{ " + first + "; } || exit $?\n")
		b.WriteString(run)
	}
	return []byte(b.String())
}

// direct reports whether git refuses when the program that a hook's first line names
// is gone, as it does with a shell that does not find it. Where pre-push cannot be
// started git waits for the server for ever, and a post-receive decides nothing.
func direct(hook string) bool {
	return runtime.GOOS == "linux" && hook != "pre-push" && hook != "post-receive"
}

func readsStdin(hook string) bool {
	return hook == "pre-push" || hook == "pre-receive" || hook == "post-receive"
}

// shellQuote returns any bytes but NUL as one word for any POSIX shell. It is
// not finding.Word, whose form for control characters dash does not know yet.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// IsShim reports whether a hook file is one of ours.
func IsShim(data []byte) bool {
	_, rest, _ := bytes.Cut(data, []byte("\n"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(bytes.TrimSuffix(line, []byte("\r"))) == marker
}

// Program returns the program that a shim runs: the first word of its last
// line, or what that line pipes into.
func Program(shim []byte) string {
	lines := strings.Split(strings.TrimRight(string(shim), "\n"), "\n")
	_, rest, _ := strings.Cut(lines[len(lines)-1], "'")
	i := strings.LastIndex(rest, "' ")
	if i < 0 {
		return ""
	}
	return filepath.FromSlash(strings.ReplaceAll(rest[:i], `'\''`, "'"))
}

// Installed says what Install or Uninstall did to one hook.
type Installed struct {
	Hook string
	Did  string // "installed", "already there", "updated", "chained", "removed", "restored", "not ours", "absent"
}

// Install writes a shim for each named hook into dir, which is created if it
// is missing. A foreign hook is kept beside it and run first. Running Install
// again changes nothing. If one hook cannot be written, those already written
// by this call are taken back. The words are those of Shim.
func Install(dir, program string, names []string, words ...string) (done []Installed, err error) {
	made := false
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, writeProblem(dir, err)
		}
		made = true
	}
	var undo []func()
	defer func() {
		if err == nil {
			return
		}
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
		if made {
			os.Remove(dir)
		}
		done = nil
	}()
	for _, name := range names {
		file := filepath.Join(dir, name)
		old, readErr := os.ReadFile(file)
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
			return done, writeProblem(file, readErr)
		}
		_, linkErr := os.Lstat(file) // a link that leads nowhere is a foreign hook, too
		kept := file + ChainedSuffix
		_, statErr := os.Lstat(kept)
		chained := statErr == nil
		did := "installed"
		switch {
		case readErr != nil && linkErr != nil:
			undo = append(undo, func() { os.Remove(file) })
		case IsShim(old):
			if bytes.Equal(old, Shim(name, program, chained, words...)) && Executable(file) {
				done = append(done, Installed{name, "already there"})
				continue
			}
			did = "updated"
			undo = append(undo, func() { files.Replace(file, old, 0o755) })
		case chained:
			return done, fmt.Errorf("both %s and %s are foreign hooks; remove one of them", finding.Quote(file), finding.Quote(kept))
		default:
			if err := os.Rename(file, kept); err != nil {
				return done, writeProblem(file, err)
			}
			chained, did = true, "chained"
			undo = append(undo, func() { os.Remove(file); os.Rename(kept, file) })
		}
		if err := files.Replace(file, Shim(name, program, chained, words...), 0o755); err != nil {
			return done, writeProblem(file, err)
		}
		done = append(done, Installed{name, did})
	}
	return done, nil
}

// Uninstall removes our shims from dir and puts foreign hooks back under
// their own names. Foreign files are left alone. A directory of the repository's own that
// is empty then goes, too: git does without one, and Install makes it.
func Uninstall(dir string, names []string, own bool) ([]Installed, error) {
	var done []Installed
	gone := 0
	for _, name := range names {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			done = append(done, Installed{name, "absent"})
			continue
		case err != nil:
			return done, writeProblem(file, err)
		case !IsShim(data):
			done = append(done, Installed{name, "not ours"})
			continue
		}
		did := "removed"
		kept := file + ChainedSuffix
		if _, err := os.Lstat(kept); err == nil {
			did = "restored"
			err = os.Rename(kept, file)
			if err != nil {
				return done, writeProblem(file, err)
			}
		} else if err := os.Remove(file); err != nil {
			return done, writeProblem(file, err)
		} else {
			gone++
		}
		done = append(done, Installed{name, did})
	}
	if own && gone > 0 {
		_ = os.Remove(dir) // fails where there is anything in it
	}
	return done, nil
}

// Executable reports whether git would run a file as a hook.
func Executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && hasExecBit(info.Mode())
}

func writeProblem(path string, err error) error {
	err = files.Cause(err)
	problem := fmt.Errorf("cannot write %s: %w", finding.Quote(path), err)
	if hint := files.HintAt(err, filepath.Dir(path)); hint != "" && !errors.Is(err, fs.ErrPermission) { // who calls knows more of rights
		return &policy.Undecided{Message: problem.Error(), Hint: hint, Cause: err}
	}
	return problem
}
