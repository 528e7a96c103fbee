package bundle

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/internal/portable"
	"github.com/rigward/rigward/pkg/finding"
	"golang.org/x/text/unicode/norm"
)

// CheckName judges a member name by docs/spec/rigbundle.md#names, which
// docs/spec/agentbundle.md#members shares: valid UTF-8, not empty, no control or
// bidi controls (code member-name); relative, components separated by "/",
// none empty, "." or "..", no backslash, no drive letter (member-path). Lengths
// are judged by [Limits.CheckPath]. It returns nil for a good name.
func CheckName(name string) *Finding {
	if code, why := nameFault(name); code != "" {
		return Faultf(code, name, "member name %s %s", finding.QuoteMax(name, 200), why)
	}
	return nil
}

// CleanPath reports whether a path in a manifest obeys the rules of
// [CheckName].
func CleanPath(p string) bool {
	code, _ := nameFault(p)
	return code == ""
}

func nameFault(name string) (code, why string) {
	if name == "" {
		return MemberName, "is empty"
	}
	if !utf8.ValidString(name) {
		return MemberName, "is not valid UTF-8"
	}
	for _, r := range name {
		if controlRune(r) {
			return MemberName, "holds a control character"
		}
		if bidiRune(r) {
			return MemberName, "holds a bidirectional control character"
		}
	}
	if strings.Contains(name, `\`) {
		return MemberPath, "holds a backslash"
	}
	if name[0] == '/' {
		return MemberPath, "is absolute"
	}
	if len(name) >= 2 && name[1] == ':' && isLetter(name[0]) {
		return MemberPath, "begins with a drive letter"
	}
	for c := range strings.SplitSeq(name, "/") {
		switch c {
		case "":
			return MemberPath, "has an empty component"
		case ".", "..":
			return MemberPath, "has a component " + c
		}
		if portable.TakenForGit(c) && !strings.EqualFold(c, ".git") {
			return MemberName, "has a component that some file systems take for .git"
		}
	}
	return "", ""
}

// WindowsNames are the findings, with the code of the note windows-name, about the
// paths of files that are to be written where names mean what they mean to Windows:
// those that it cannot hold. Some of them would be written to another file of the same
// bundle or of the target, or to a stream that nobody sees.
func WindowsNames(paths []string) (faults []*Finding) {
	for _, p := range paths {
		if why := portable.Windows(p); why != "" {
			f := Faultf(NoteWindowsName, p, "Windows cannot hold the name %s, it %s", finding.QuoteMax(p, 200), why)
			f.Hint = "unpack it on another system, or ask who made it for a bundle without such names"
			faults = append(faults, f)
		}
	}
	return faults
}

// Printable reports whether s is valid UTF-8 without control characters (C0,
// DEL, C1) and without bidi controls (U+202A–202E, U+2066–2069).
func Printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return controlRune(r) || bidiRune(r) }) < 0
}

func controlRune(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }
func bidiRune(r rune) bool    { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }
func isLetter(c byte) bool    { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// CheckPath judges the lengths of a name: code limit-path.
func (l *Limits) CheckPath(name string) *Finding {
	if int64(len(name)) > l.Path {
		return Faultf(LimitPath, name, "name %s is %d bytes long, the limit is %d", finding.QuoteMax(name, 60), len(name), l.Path)
	}
	depth := int64(0)
	for c := range strings.SplitSeq(name, "/") {
		depth++
		if int64(len(c)) > l.Component {
			return Faultf(LimitPath, name, "component %s is %d bytes long, the limit is %d", finding.QuoteMax(c, 60), len(c), l.Component)
		}
	}
	if depth > l.Depth {
		return Faultf(LimitPath, name, "name %s has %d components, the limit is %d", finding.QuoteMax(name, 60), depth, l.Depth)
	}
	return nil
}

// A Name is a path with what it stands for, as [CheckTree] takes it.
type Name struct {
	Path string
	Type Type
}

// maxDirs bounds the directories that a tree may imply, so that deep names
// can't use memory out of proportion.
const maxDirs = 1 << 18

// CheckTree judges the paths of a whole tree. First, in the order given,
// parents: no path lies below a file (member-conflict) or a symlink
// (member-through-link). Then, in the same order, collisions: no two different
// paths, implied parents included, are equal in NFC (member-unicode-collision)
// or after fold (member-case-collision). Fold is [portable.SimpleFold] unless a format
// needs another. All faults of the first step that has any are returned; the
// first decides. A tree of more than 262,144 directories is limit-path.
func CheckTree(names []Name, fold func(string) string) []*Finding {
	dirs := parents(names)
	if dirs == nil {
		var faults []*Finding
		if dirs, faults = conflicts(names); len(faults) > 0 {
			return faults
		}
	}
	return collisions(names, dirs, fold)
}

// parents returns the directories above all names, nil if there are too many or
// one of the names is no directory but lies above another one.
func parents(names []Name) map[string]bool {
	dirs := map[string]bool{}
	for _, n := range names {
		for dir := path.Dir(n.Path); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			if len(dirs) == maxDirs {
				return nil
			}
			dirs[dir] = true
		}
	}
	for _, n := range names {
		if n.Type != Dir && dirs[n.Path] {
			return nil
		}
	}
	return dirs
}

// conflicts are the faults of the first step, with the directories above all
// names.
func conflicts(names []Name) (dirs map[string]bool, faults []*Finding) {
	types := make(map[string]Type, len(names))
	for _, n := range names {
		types[n.Path] = n.Type
	}
	dirs = map[string]bool{} // parents seen, all of them directories or implied
	for _, n := range names {
		for dir := path.Dir(n.Path); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			if t, ok := types[dir]; ok && t != Dir {
				code, what := MemberConflict, "a file"
				if t == Symlink {
					code, what = MemberThroughLink, "a symlink"
				}
				faults = append(faults, Faultf(code, n.Path, "%s lies below %s, which is %s", finding.QuoteMax(n.Path, 200), finding.QuoteMax(dir, 200), what))
				break
			}
			if len(dirs) == maxDirs {
				return dirs, append(faults, Faultf(LimitPath, n.Path, "the tree has more than %d directories", maxDirs))
			}
			dirs[dir] = true
		}
	}
	return dirs, faults
}

// collisions are the faults of the second step. It empties dirs.
func collisions(names []Name, dirs map[string]bool, fold func(string) string) (faults []*Finding) {
	// Of two paths that fold alike one at least is not its own folded form.
	folded := map[string]bool{}
	note := func(p string) {
		if key := fold(p); key != p {
			folded[key] = true
		}
	}
	for _, n := range names {
		note(n.Path)
	}
	for dir := range dirs {
		note(dir)
	}
	if len(folded) == 0 {
		return nil
	}
	seen := make(map[string]string, len(folded)) // folded path to the path that came first
	add := func(p string) {
		key := fold(p)
		if !folded[key] {
			return
		}
		first, ok := seen[key]
		if !ok {
			seen[key] = p
			return
		}
		if first == p {
			return
		}
		code, how := MemberCaseCollision, "case"
		if norm.NFC.String(first) == norm.NFC.String(p) {
			code, how = MemberUnicodeCollision, "Unicode normalisation"
		}
		faults = append(faults, Faultf(code, p, "%s and %s differ only in %s", finding.QuoteMax(first, 200), finding.QuoteMax(p, 200), how))
	}
	var chain []string
	for _, n := range names {
		chain = chain[:0]
		for dir := path.Dir(n.Path); dirs[dir]; dir = path.Dir(dir) {
			delete(dirs, dir) // each parent is judged once, outermost first
			chain = append(chain, dir)
		}
		for i := len(chain) - 1; i >= 0; i-- {
			add(chain[i])
		}
		add(n.Path)
	}
	return faults
}
