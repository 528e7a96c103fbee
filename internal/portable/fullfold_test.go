package portable

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/cases"
)

// TestFullFold holds full case folding equal to the library's: of every code point,
// between others, and of what is no text.
func TestFullFold(t *testing.T) {
	if cases.UnicodeVersion != unicode.Version {
		t.Skipf("the library knows Unicode %s, Go %s", cases.UnicodeVersion, unicode.Version)
	}
	same := func(s string) {
		if got, want := fullFold(s), cases.Fold().String(s); got != want {
			t.Errorf("%+q folds to %+q, expected %+q", s, got, want)
		}
	}
	var all strings.Builder
	for r := rune(0); r <= unicode.MaxRune; r++ {
		all.WriteRune(r)
		if all.Len() > 60 || r == unicode.MaxRune {
			same(all.String())
			all.Reset()
		}
	}
	for _, s := range []string{"", "\xff", "A\xc3", "Σίσυφος\x80ΣΑΣ", "ﬃŒ\xf0\x9f", "Straße İstanbul ǰ"} {
		same(s)
	}
}

func FuzzFullFold(f *testing.F) {
	f.Add("ΐ\xffẞ")
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := fullFold(s), cases.Fold().String(s); got != want {
			t.Errorf("%+q folds to %+q, expected %+q", s, got, want)
		}
	})
}
