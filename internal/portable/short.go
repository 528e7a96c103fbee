package portable

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Short is a name of 8.3 form: the second name that FAT and NTFS give to what
// does not fit the form of old, such as REL-CH~1 for rel-check or GI7EBA~1 for
// .gitmodules.
type Short struct {
	stem   string // what stands before the tilde, folded
	ext    string
	kept   int    // how many characters of a long name a number of this length leaves
	hashed string // stem without the last four characters, if these may be a hash
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
	s := Short{stem: stem, ext: ext, kept: 7 - len(number)}
	if !ok || stem == "" || number == "" || utf8.RuneCountInString(stem) > s.kept || utf8.RuneCountInString(ext) > 3 ||
		number[0] == '0' || strings.Trim(number, "0123456789") != "" || strings.Contains(ext, ".") {
		return Short{}, false
	}
	n := len(stem) - 4
	if n > 0 && utf8.RuneCountInString(stem[:n]) <= 2 && strings.Trim(stem[n:], "0123456789abcdef") == "" {
		s.hashed = stem[:n]
	}
	return s, true
}

// Of reports whether s may be the short name of a component. The number is left
// out of account, since it depends on what else the directory holds. So is the
// value of the hash that NTFS takes in from the fifth name of one form on: it
// depends on the version of Windows. What a system can't write in a short name
// it leaves out, or puts "_" in its place.
func (s Short) Of(component string) bool {
	return slices.ContainsFunc(long(component), s.fits)
}

// fits reports whether s is made of f.
func (s Short) fits(f form) bool {
	return s.ext == f.ext && (s.stem == begin(f.stem, s.kept) || s.hashed != "" && s.hashed == begin(f.stem, utf8.RuneCountInString(s.hashed)))
}

// A form is what a short name is made of: the begin of a folded name and of its
// extension, of at most six and three characters.
type form struct{ stem, ext string }

// long returns the forms that the short name of a component may be made of;
// none if the component is a short name itself, which gets no second one.
func long(component string) []form {
	if short(component) {
		return nil
	}
	stem, ext := strings.TrimLeft(foldComponent(component), ". "), ""
	if i := strings.LastIndexByte(stem, '.'); i >= 0 {
		stem, ext = stem[:i], stem[i+1:]
	}
	var forms []form
	for _, write := range []func(rune) rune{every, plainly, letter} {
		f := form{begin(strings.Map(write, stem), 6), begin(strings.Map(write, ext), 3)}
		if f.stem != "" && !slices.Contains(forms, f) {
			forms = append(forms, f)
		}
	}
	return forms
}

// begin returns the first n characters of s.
func begin(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// every keeps what takes a place in a short name.
func every(r rune) rune {
	if r == '.' || r == ' ' {
		return -1
	}
	return r
}

// plainly puts "_" in the place of what not every system can write.
func plainly(r rune) rune {
	if r >= utf8.RuneSelf || strings.ContainsRune(`+,;=[]`, r) {
		return '_'
	}
	return every(r)
}

// letter keeps letters and digits alone.
func letter(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsDigit(r) {
		return r
	}
	return -1
}

// short reports whether a component has the form of a short name.
func short(component string) bool {
	stem, ext, dot := strings.Cut(component, ".")
	if stem == "" || len(stem) > 8 || len(ext) > 3 || dot && ext == "" {
		return false
	}
	for i := range len(component) {
		switch c := component[i]; {
		case c >= utf8.RuneSelf, c <= ' ', strings.IndexByte(`+,;=[]`, c) >= 0, c == '.' && i != len(stem):
			return false
		}
	}
	return true
}

// Shorts is a set of names of one directory that finds which of them may be the
// short name of another one. The zero value is empty.
type Shorts struct {
	short map[form][]string // by what a long name must be made of
	names []string          // all
	forms []entry           // of the first of names, sorted by extension and stem
	taken int               // how many names forms has
}

type entry struct {
	form
	name int
}

// Add adds a name, which is not in the set yet.
func (x *Shorts) Add(name string) {
	x.names = append(x.names, name)
	s, ok := ParseShort(name)
	if !ok {
		return
	}
	if x.short == nil {
		x.short = map[form][]string{}
	}
	f := form{s.stem, s.ext}
	x.short[f] = append(x.short[f], name)
	if s.hashed != "" {
		f.stem = s.hashed + "#"
		x.short[f] = append(x.short[f], name)
	}
}

// Twins calls yield for names of the set of which one may be the short name of
// the other, name being the one, until yield returns false. The cost is in
// proportion to what it yields.
func (x *Shorts) Twins(name string) func(yield func(other string) bool) {
	return func(yield func(string) bool) {
		if s, ok := ParseShort(name); ok && !x.longOnes(s, yield) || len(x.short) == 0 {
			return
		}
		for _, f := range long(name) {
			for n := 1; n <= 6; n++ {
				stem := begin(f.stem, n)
				for _, key := range []string{stem, stem + "#"} {
					for _, other := range x.short[form{key, f.ext}] {
						if s, _ := ParseShort(other); other != name && s.fits(f) && !yield(other) {
							return
						}
					}
				}
			}
		}
	}
}

// longOnes yields the names that s may be the short name of.
func (x *Shorts) longOnes(s Short, yield func(string) bool) bool {
	order := func(a, b entry) int { return cmp.Or(cmp.Compare(a.ext, b.ext), cmp.Compare(a.stem, b.stem)) }
	if len(x.names)-x.taken > 256 {
		for i, name := range x.names[x.taken:] {
			for _, f := range long(name) {
				x.forms = append(x.forms, entry{f, x.taken + i})
			}
		}
		x.taken = len(x.names)
		slices.SortFunc(x.forms, order)
	}
	for _, name := range x.names[x.taken:] {
		if s.Of(name) && !yield(name) {
			return false
		}
	}
	for _, stem := range []string{s.stem, s.hashed} {
		if stem == "" {
			continue
		}
		i, _ := slices.BinarySearchFunc(x.forms, entry{form: form{stem, s.ext}}, order)
		for ; i < len(x.forms) && x.forms[i].ext == s.ext && strings.HasPrefix(x.forms[i].stem, stem); i++ {
			if s.fits(x.forms[i].form) && !yield(x.names[x.forms[i].name]) {
				return false
			}
		}
	}
	return true
}
