package portable

import (
	"strings"
	"unicode"
)

// A Short is a name of 8.3 form: the second name that FAT and NTFS give to what
// does not fit the form of old, such as REL-CH~1 for rel-check or GI7EBA~1 for
// .gitmodules.
type Short struct {
	stem   []rune // what stands before the tilde, folded
	ext    []rune
	kept   int  // how many characters of a long name a number of this length leaves
	hashed bool // the last four of stem may be a hash
}

// ParseShort reads a component as a short name, and reports whether it has the
// form of one: up to six characters, a tilde, a number, and an extension of up
// to three characters.
func ParseShort(component string) (Short, bool) {
	if strings.IndexByte(component, '~') < 0 {
		return Short{}, false
	}
	name, ext, _ := strings.Cut(foldComponent(component), ".")
	stem, number, ok := strings.Cut(name, "~")
	s := Short{stem: []rune(stem), ext: []rune(ext), kept: 7 - len(number)}
	if !ok || len(s.stem) == 0 || number == "" || len(s.stem) > s.kept || len(s.ext) > 3 ||
		number[0] == '0' || strings.Trim(number, "0123456789") != "" || strings.Contains(ext, ".") {
		return Short{}, false
	}
	n := len(s.stem) - 4
	s.hashed = (n == 1 || n == 2) && strings.Trim(string(s.stem[n:]), "0123456789abcdef") == ""
	return s, true
}

// Of reports whether s may be the short name of a component. The number is left
// out of account, since it depends on what else the directory holds. So is the
// value of the hash that NTFS takes in from the fifth name of one form on: it
// depends on the version of Windows. What a system can't write in a short name
// it leaves out, or puts "_" in its place; both are told.
func (s Short) Of(component string) bool {
	if fits(component) {
		return false
	}
	stem, ext := strings.TrimLeft(foldComponent(component), ". "), ""
	if i := strings.LastIndexByte(stem, '.'); i >= 0 {
		stem, ext = stem[:i], stem[i+1:]
	}
	for _, keep := range []func(rune) bool{inShort, letter} {
		if !same(s.ext, chars(ext, 3, keep)) {
			continue
		}
		c := chars(stem, 6, keep)
		if same(s.stem, c[:min(len(c), s.kept)]) {
			return true
		}
		if s.hashed && same(s.stem[:len(s.stem)-4], c[:min(len(c), len(s.stem)-4)]) {
			return true
		}
	}
	return false
}

// chars returns the first n characters of a folded name that keep passes.
func chars(name string, n int, keep func(rune) bool) []rune {
	var out []rune
	for _, r := range name {
		if len(out) == n {
			break
		}
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// inShort passes what takes a place in a short name.
func inShort(r rune) bool { return r != '.' && r != ' ' }

// letter passes what every system writes in a short name.
func letter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// same compares the characters of a short name with those of a long one, which
// "_" may stand for.
func same(short, long []rune) bool {
	if len(short) != len(long) {
		return false
	}
	for i, r := range short {
		if r != long[i] && (r != '_' || long[i] < 0x80 && letter(long[i])) {
			return false
		}
	}
	return true
}

// fits reports whether a component has the form of a short name itself, so that
// it gets no second one.
func fits(component string) bool {
	stem, ext, dot := strings.Cut(component, ".")
	if stem == "" || len(stem) > 8 || len(ext) > 3 || dot && ext == "" {
		return false
	}
	for i := range len(component) {
		switch c := component[i]; {
		case c >= 0x80, c <= ' ', strings.IndexByte(`+,;=[]`, c) >= 0, c == '.' && i != len(stem):
			return false
		}
	}
	return true
}
