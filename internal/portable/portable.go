package portable

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rigward/rigward/pkg/finding"
	"golang.org/x/text/unicode/norm"
)

// MaxComponent is the length of the longest name that all file systems take,
// in bytes.
const MaxComponent = 255

// Check says why a component of a path would not survive on every file system,
// "" if it would. The problem reads as the end of a sentence whose subject is
// the component ("contains U+003A").
func Check(component string) (problem string) {
	if component == "" {
		return "is empty"
	}
	if !utf8.ValidString(component) {
		return "is not valid UTF-8"
	}
	for _, r := range component {
		if r < 0x20 || 0x7F <= r && r < 0xA0 || strings.ContainsRune(`<>:"/\|?*`, r) || r == 0x2028 || r == 0x2029 || Bidi(r) {
			return fmt.Sprintf("contains U+%04X", r)
		}
	}
	switch component[len(component)-1] {
	case '.', ' ':
		return fmt.Sprintf("ends with %q", component[len(component)-1])
	}
	if Device(component) {
		stem, _, _ := strings.Cut(component, ".")
		return fmt.Sprintf("is the device name %s on Windows", finding.Quote(stem))
	}
	if len(component) > MaxComponent {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(component), MaxComponent)
	}
	if !norm.NFC.IsNormalString(component) {
		return "is not in Unicode normal form C"
	}
	return ""
}

// Bidi reports the characters that change the direction of text.
func Bidi(r rune) bool {
	return r == 0x61C || r == 0x200E || r == 0x200F || 0x202A <= r && r <= 0x202E || 0x2066 <= r && r <= 0x2069
}

// Windows says why Windows cannot hold a path, "" if it can: a device name, a trailing
// dot or blank, or one of < > : " | ? * in a component. Some of them it takes for the
// name of another file, or of another stream of one. The reason reads as the end of a
// sentence whose subject is the path.
func Windows(path string) (why string) {
	for c := range strings.SplitSeq(path, "/") {
		if c == "" {
			continue
		}
		switch i := strings.IndexAny(c, `<>:"|?*`); {
		case i >= 0 && c[i] == ':':
			return `has a ":", behind which Windows takes the name of another stream`
		case i >= 0:
			return "has a " + finding.Quote(c[i:i+1])
		case c[len(c)-1] == '.' || c[len(c)-1] == ' ':
			return "has a component that ends with " + finding.Quote(c[len(c)-1:]) + ", which Windows leaves out"
		case Device(c):
			stem, _, _ := strings.Cut(c, ".")
			return "has the device name " + finding.Quote(stem)
		}
	}
	return ""
}

// Mac reports whether a path is what macOS leaves beside files on a foreign
// file system or in an archive: ._NAME with the attributes of NAME, and
// whatever lies below __MACOSX.
func Mac(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	return strings.HasPrefix(base, "._") || strings.Contains("/"+path+"/", "/__MACOSX/")
}

// Device reports whether a path component is a device name on Windows, with or
// without an extension.
func Device(component string) bool {
	base, _, _ := strings.Cut(component, ".")
	if base = strings.TrimRight(base, " "); base == "" || strings.IndexByte("ACLNPaclnp", base[0]) < 0 {
		return false
	}
	switch base = strings.ToUpper(base); base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	for _, p := range []string{"COM", "LPT"} {
		if d, ok := strings.CutPrefix(base, p); ok {
			switch d {
			case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
				return true
			}
		}
	}
	return false
}
