package portable

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fullFold applies Unicode's full case folding (CaseFolding.txt, C and F), for which
// the library of x/text sets up the languages of the world when a program starts. A test
// holds both equal, for every code point.
func fullFold(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == utf8.RuneError: // or a byte that is no text
			_, n := utf8.DecodeRuneInString(s[i:])
			b.WriteString(s[i : i+n])
		case r == 0x131: // its upper case is that of i
			b.WriteRune(r)
		case 0x13F8 <= r && r <= 0x13FD: // Cherokee folds to upper case
			b.WriteRune(r - 8)
		case 0xAB70 <= r && r <= 0xABBF:
			b.WriteRune(r - 0xAB70 + 0x13A0)
		case 0x1F80 <= r && r <= 0x1FAF: // Greek vowels with an iota below
			b.WriteRune([...]rune{0x1F00, 0x1F20, 0x1F60}[(r-0x1F80)>>4] + r&7)
			b.WriteRune('ι')
		default:
			i, ok := slices.BinarySearchFunc(manyFold[:], r, func(f folding, r rune) int { return cmp.Compare(f.of, r) })
			if ok {
				b.WriteString(manyFold[i].to)
			} else {
				b.WriteRune(unicode.ToLower(unicode.ToUpper(r)))
			}
		}
	}
	return b.String()
}

// A folding is a letter that folds to several, or in a way of its own.
type folding struct {
	of rune
	to string
}

var manyFold = [...]folding{
	{0x00DF, "ss"}, {0x0130, "i\u0307"}, {0x0149, "\u02bcn"}, {0x01F0, "j\u030c"}, {0x0390, "\u03b9\u0308\u0301"},
	{0x03B0, "\u03c5\u0308\u0301"}, {0x0587, "\u0565\u0582"}, {0x1E96, "h\u0331"}, {0x1E97, "t\u0308"},
	{0x1E98, "w\u030a"}, {0x1E99, "y\u030a"}, {0x1E9A, "a\u02be"}, {0x1E9E, "ss"}, {0x1F50, "\u03c5\u0313"},
	{0x1F52, "\u03c5\u0313\u0300"}, {0x1F54, "\u03c5\u0313\u0301"}, {0x1F56, "\u03c5\u0313\u0342"},
	{0x1FB2, "\u1f70\u03b9"}, {0x1FB3, "\u03b1\u03b9"}, {0x1FB4, "\u03ac\u03b9"}, {0x1FB6, "\u03b1\u0342"},
	{0x1FB7, "\u03b1\u0342\u03b9"}, {0x1FBC, "\u03b1\u03b9"}, {0x1FC2, "\u1f74\u03b9"}, {0x1FC3, "\u03b7\u03b9"},
	{0x1FC4, "\u03ae\u03b9"}, {0x1FC6, "\u03b7\u0342"}, {0x1FC7, "\u03b7\u0342\u03b9"}, {0x1FCC, "\u03b7\u03b9"},
	{0x1FD2, "\u03b9\u0308\u0300"}, {0x1FD3, "\u03b9\u0308\u0301"}, {0x1FD6, "\u03b9\u0342"},
	{0x1FD7, "\u03b9\u0308\u0342"}, {0x1FE2, "\u03c5\u0308\u0300"}, {0x1FE3, "\u03c5\u0308\u0301"},
	{0x1FE4, "\u03c1\u0313"}, {0x1FE6, "\u03c5\u0342"}, {0x1FE7, "\u03c5\u0308\u0342"}, {0x1FF2, "\u1f7c\u03b9"},
	{0x1FF3, "\u03c9\u03b9"}, {0x1FF4, "\u03ce\u03b9"}, {0x1FF6, "\u03c9\u0342"}, {0x1FF7, "\u03c9\u0342\u03b9"},
	{0x1FFC, "\u03c9\u03b9"}, {0xFB00, "ff"}, {0xFB01, "fi"}, {0xFB02, "fl"}, {0xFB03, "ffi"}, {0xFB04, "ffl"},
	{0xFB05, "st"}, {0xFB06, "st"}, {0xFB13, "\u0574\u0576"}, {0xFB14, "\u0574\u0565"}, {0xFB15, "\u0574\u056b"},
	{0xFB16, "\u057e\u0576"}, {0xFB17, "\u0574\u056d"},
}
