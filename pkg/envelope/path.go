package envelope

import (
	"fmt"
	"strings"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
)

// IsEnvelopePath reports whether a path, relative to the directory that holds
// the threads, is an envelope path: a thread id and a name ending in .md, and
// nothing else. dist and node_modules are never threads (docs/spec/envelope.md#where).
func IsEnvelopePath(path string) bool {
	thread, name, ok := strings.Cut(path, "/")
	return ok && !strings.Contains(name, "/") && strings.HasSuffix(name, ".md") &&
		ValidThreadID(thread) && !neverThread(thread)
}

// neverThread names the directories that are never threads.
func neverThread(id string) bool { return id == "dist" || id == "node_modules" }

// Twin returns the finding for a path that some file system could take for
// another one, because both have the same [portable.Fold]. Its Path is left to the
// caller.
func Twin(other string) finding.Finding {
	return finding.Finding{
		Rule: RulePath, Severity: finding.Error, Line: 1, Col: 1,
		Message: "some file systems take this path and " + finding.Quote(other) + " for one file",
		Hint:    "give one of them another name",
	}
}

// Git's modes of a tree entry.
const (
	modeFile       = 0o100644
	modeExecutable = 0o100755
	modeSymlink    = 0o120000
	modeGitlink    = 0o160000
)

// CheckEntry judges what a tree says of an envelope, without its bytes: its
// git mode (0: not known) must be 100644, and its name portable. Whoever reads
// the file later must not follow a link: ask this first.
func CheckEntry(path string, mode uint32) []finding.Finding {
	var fs []finding.Finding
	add := func(message, hint string) {
		fs = append(fs, finding.Finding{Rule: RulePath, Severity: finding.Error, Path: path, Line: 1, Col: 1, Message: message, Hint: hint})
	}
	if mode != 0 && mode != modeFile {
		what, hint := fmt.Sprintf("an entry of mode %06o", mode), ""
		switch mode {
		case modeExecutable:
			what = "executable (mode 100755)"
			hint = "git update-index --chmod=-x -- " + finding.Word(path)
		case modeSymlink:
			what = "a symbolic link (mode 120000)"
			hint = "put a file in its place: git rm --cached -- " + finding.Word(path)
		case modeGitlink:
			what = "a submodule (mode 160000)"
			hint = "git rm --cached -- " + finding.Word(path)
		}
		add("an envelope is "+what+", expected a regular file of mode 100644", hint)
	}
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
		dir = dir[strings.LastIndexByte(dir, '/')+1:]
	}
	if len(dir) > portable.MaxComponent { // all else of a directory shows in the value of thread
		add(fmt.Sprintf("the directory's name has %d bytes, at most %d are allowed", len(dir), portable.MaxComponent), "")
	}
	if path != "" {
		if problem := portable.Check(name); problem != "" {
			rename := "git mv -- " + finding.Word(path) + " " + finding.Word(path[:len(path)-len(name)]+"NAME.md")
			add("the file name "+finding.QuoteMax(name, 60)+" "+problem+", expected a name that every file system takes", rename)
		}
	}
	return fs
}
