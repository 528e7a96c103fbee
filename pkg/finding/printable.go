package finding

import "unicode"

// emojiSelector asks for the picture of the character before it (Unicode,
// variation sequences): common in status lines, and not seen elsewhere.
const emojiSelector = 0xFE0F

// Printable reports whether r may reach a terminal or a log as it is: a graphic
// character that neither moves the cursor nor changes the direction of text,
// and that is seen. Of those that are not seen only emojiSelector passes.
func Printable(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return false
	case r < 0x7f:
		return true
	case r == emojiSelector:
		return true
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector), r == 0x2800:
		return false
	}
	return unicode.IsPrint(r) || r == 0x3000 || r == 0xa0
}
