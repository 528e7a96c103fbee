package envelope

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// IsEnvelopePath reports whether a path, relative to the directory that holds
// the threads, is an envelope path: a thread id and a name ending in .md, and
// nothing else. dist and node_modules are never threads (spec/envelope.md
// section 1).
func IsEnvelopePath(path string) bool {
	thread, name, ok := strings.Cut(path, "/")
	return ok && !strings.Contains(name, "/") && strings.HasSuffix(name, ".md") &&
		ValidThreadID(thread) && !neverThread(thread)
}

// neverThread names the directories that are never threads.
func neverThread(id string) bool { return id == "dist" || id == "node_modules" }

// Twin returns the finding for a path that some file system could take for
// another one, because both have the same FoldPath. Its Path is left to the
// caller.
func Twin(other string) finding.Finding {
	return finding.Finding{
		Rule: RulePath, Severity: finding.Error, Line: 1, Col: 1,
		Message: "some file systems take this path and " + finding.Quote(other) + " for one file",
		Hint:    "give one of them another name",
	}
}

// FoldPath returns a key under which two paths are equal if they are equal
// after Unicode NFC and full case folding: on some file systems they are one
// file.
func FoldPath(path string) string {
	for i := range len(path) {
		if path[i] >= utf8.RuneSelf {
			return norm.NFC.String(cases.Fold().String(norm.NFC.String(path)))
		}
	}
	return strings.ToLower(path)
}

// maxComponent is the length of the longest name that all file systems take,
// in bytes.
const maxComponent = 255

// CheckPortable says why a component of a path would not survive on every file
// system, "" if it would. The problem reads as the end of a sentence whose
// subject is the component ("contains U+003A").
func CheckPortable(component string) (problem string) {
	if component == "" {
		return "is empty"
	}
	if !utf8.ValidString(component) {
		return "is not valid UTF-8"
	}
	for _, r := range component {
		if isUnportable(r) {
			return "contains " + codePoint(r)
		}
	}
	switch component[len(component)-1] {
	case '.', ' ':
		return fmt.Sprintf("ends with %q", component[len(component)-1])
	}
	if stem, _, _ := strings.Cut(component, "."); isDevice(stem) {
		return fmt.Sprintf("is the device name %s on Windows", finding.Quote(stem))
	}
	if len(component) > maxComponent {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(component), maxComponent)
	}
	if !norm.NFC.IsNormalString(component) {
		return "is not in Unicode normal form C"
	}
	return ""
}

func isUnportable(r rune) bool {
	return r < 0x20 || 0x7F <= r && r < 0xA0 || strings.ContainsRune(`<>:"/\|?*`, r) ||
		r == 0x2028 || r == 0x2029 || isBidi(r)
}

// isBidi reports the characters that change the direction of text.
func isBidi(r rune) bool {
	return r == 0x61C || r == 0x200E || r == 0x200F || 0x202A <= r && r <= 0x202E || 0x2066 <= r && r <= 0x2069
}

func isDevice(stem string) bool {
	if len(stem) < 3 || len(stem) > 4 {
		return false
	}
	switch stem = strings.ToLower(stem); stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
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
	if len(dir) > maxComponent { // all else of a directory shows in the value of thread
		add(fmt.Sprintf("the directory's name has %d bytes, at most %d are allowed", len(dir), maxComponent), "")
	}
	if path != "" {
		if problem := CheckPortable(name); problem != "" {
			rename := "git mv -- " + finding.Word(path) + " " + finding.Word(path[:len(path)-len(name)]+"NAME.md")
			add("the file name "+finding.QuoteMax(name, 60)+" "+problem+", expected a name that every file system takes", rename)
		}
	}
	return fs
}
