package portable

import (
	"strings"
	"unicode/utf8"
)

// DotGit reports whether some file system takes a component for .git, as git
// itself decides with core.protectHFS and core.protectNTFS (fsck: hasDotgit):
// by case; NTFS by the short name git~1, trailing blanks and dots, a stream
// after ":" and "\" as a separator; HFS+ by the code points that it ignores.
//
// What unpacks without git asks [TakenForGit], which knows more.
func DotGit(component string) bool {
	for part := range strings.SplitSeq(component, `\`) {
		part, _, _ = strings.Cut(part, ":")
		switch part = strings.TrimRight(part, " ."); len(part) {
		case len(".git"), len("git~1"):
			if lower := strings.ToLower(part); lower == ".git" || lower == "git~1" {
				return true
			}
		}
	}
	return hfsDotGit(component)
}

func hfsDotGit(name string) bool {
	const want = ".git"
	seen := 0
	for name != "" {
		r, n := utf8.DecodeRuneInString(name)
		// git reads no further than a byte that is not UTF-8.
		if r == utf8.RuneError && n == 1 || r == 0xFFFE || r == 0xFFFF {
			break
		}
		name = name[n:]
		switch {
		case hfsIgnored(r):
			continue
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		}
		if seen == len(want) || r != rune(want[seen]) {
			return false
		}
		seen++
	}
	return seen == len(want)
}

// TakenForGit reports whether some file system takes a component for .git:
// [DotGit] and what git leaves to the file system that it runs on. These are
// short names with another number than 1, which NTFS gives to .git where
// git~1 is taken, and what [Fold] knows beyond HFS+: Linux's casefold ignores
// more code points, and ZFS can compare compatible forms.
func TakenForGit(component string) bool {
	if DotGit(component) {
		return true
	}
	for part := range strings.SplitSeq(component, `\`) {
		if foldComponent(part) == ".git" {
			return true
		}
		if short, ok := ParseShort(part); ok && short.Of(".git") {
			return true
		}
	}
	return false
}
