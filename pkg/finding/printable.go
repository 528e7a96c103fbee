package finding

import "unicode"

// printable tells whether r may reach a terminal or a log as it is: a graphic
// character that neither moves the cursor nor changes the direction of text.
func printable(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return false
	case r < 0x7f:
		return true
	case r == 0xFE0F: // the emoji selector: harmless, and common in status lines
		return true
	}
	return unicode.IsPrint(r) || r == 0x3000 || r == 0xa0
}
