package portable

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Fold returns a key under which two paths are equal if some file system takes
// them for one: the union of what they do. It is "" for a path that names
// nothing below the directory it starts from.
//
//   - Windows ends a component before its trailing dots and blanks and before a
//     ":", which names a stream (::$DATA, :$INDEX_ALLOCATION), and takes "\" for
//     "/"; so "..", ".", and components of dots and blanks go away.
//   - NTFS, FAT, exFAT, APFS and HFS+ don't tell upper case from lower, and ZFS
//     can be told not to.
//   - APFS, HFS+, and ext4 and f2fs with casefold compare without regard to
//     Unicode normalization; ZFS can do so in the compatible forms, too.
//   - HFS+ ignores 16 code points, ext4 and f2fs with casefold all that are
//     Default_Ignorable_Code_Point.
//
// 8.3 short names are not among them: see [Short].
func Fold(path string) string {
	if Plain(path) {
		return path
	}
	if plain(path, true) {
		return strings.ToLower(path)
	}
	parts := Parts(path)
	for i, part := range parts {
		parts[i] = foldComponent(part)
	}
	return strings.Join(parts, "/")
}

// Plain reports quickly that folding would not change a path. It may change one that is
// not plain, and need not.
func Plain[Text string | []byte](path Text) bool { return plain(path, false) }

// plain is Plain, or reports that folding would only make the capital letters of a path
// small.
func plain[Text string | []byte](path Text, capitals bool) bool {
	last := byte('/')
	for i := range len(path) {
		c := path[i]
		switch {
		case c >= utf8.RuneSelf, 'A' <= c && c <= 'Z' && !capitals, c == ':', c == '\\',
			c == '/' && (last == '.' || last == ' ' || last == '/'):
			return false
		}
		last = c
	}
	return last != '.' && last != ' ' && last != '/' && len(path) > 0
}

func foldComponent(c string) string {
	if Plain(c) {
		return c
	}
	c, _, _ = strings.Cut(c, ":")
	if ascii(c) {
		return strings.TrimRight(strings.ToLower(c), ". ")
	}
	c = strings.Map(func(r rune) rune {
		if ignored(r) {
			return -1
		}
		return r
	}, c)
	// A few letters fold only after they were decomposed, and the other way.
	c = norm.NFKD.String(c)
	c = fullFold(c)
	c = strings.Map(func(r rune) rune {
		switch r {
		case '/', '\\', ':': // that compatible forms consist of: no separators
			return unicode.ReplacementChar
		}
		return r
	}, norm.NFKC.String(c))
	return strings.TrimRight(norm.NFKC.String(fullFold(c)), ". ")
}

// ignored reports the code points that some file system leaves out when it
// compares names.
func ignored(r rune) bool {
	return r >= 0xAD && (hfsIgnored(r) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) &&
			(r < 0xFFF9 || r > 0xFFFB) && (r < 0x13430 || r > 0x1343F))
}

// hfsIgnored reports the code points that HFS+ leaves out of every comparison
// (Apple's technical note 1150, and core.protectHFS of git).
func hfsIgnored(r rune) bool {
	return 0x200C <= r && r <= 0x200F || 0x202A <= r && r <= 0x202E || 0x206A <= r && r <= 0x206F || r == 0xFEFF
}

// FullFold returns the NFC form of a path with full case folding applied.
func FullFold(path string) string {
	if ascii(path) {
		return strings.ToLower(path)
	}
	return norm.NFC.String(fullFold(norm.NFC.String(path)))
}

// SimpleFold returns the NFC form of a path with simple case folding applied,
// which keeps the number of letters.
func SimpleFold(path string) string {
	if ascii(path) {
		return strings.ToLower(path)
	}
	return norm.NFC.String(strings.Map(foldRune, norm.NFC.String(path)))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// foldRune returns the smallest rune of r's simple folding orbit, with ASCII
// letters in lower case.
func foldRune(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	if least >= 'A' && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}

// Parts returns the components of a path as Windows takes them: "\" separates
// them, too, ".." goes up, and what names nothing is left out.
func Parts(path string) []string {
	var parts []string
	for part := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		if part == ".." {
			parts = parts[:max(len(parts)-1, 0)]
		} else if Plain(part) || foldComponent(part) != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// Same reports whether some file system takes two components for one, short
// names included.
func Same(a, b string) bool {
	if a == b || foldComponent(a) == foldComponent(b) {
		return true
	}
	if s, ok := ParseShort(a); ok && s.Of(b) {
		return true
	}
	s, ok := ParseShort(b)
	return ok && s.Of(a)
}
