package bridge

import (
	"strings"
	"testing"
)

func FuzzCursor(f *testing.F) {
	id := strings.Repeat("ab", 20)
	for _, c := range []cursor{{seen: id}, {base: id, seen: id, made: "2026-05-15T10:00:00Z", path: "t-one/A.md"}, {seen: id, made: "9999-12-31T23:59:59Z", path: "x"}} {
		f.Add(c.text())
	}
	f.Add("AAAA")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text, 20)
		if err != nil {
			if c != (cursor{}) {
				t.Fatalf("%+v of a text that was refused", c)
			}
			return
		}
		if c.text() != text || len(c.seen) != 40 || c.base != "" && len(c.base) != 40 {
			t.Fatalf("%q is %+v", text, c)
		}
	})
}

func TestCursor(t *testing.T) {
	id := strings.Repeat("ab", 20)
	want := cursor{base: id, seen: id, made: "2026-05-15T10:00:00Z", path: "t-one/A.md"}
	if got, err := parseCursor(want.text(), 20); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"", "AA", "AAAA", want.text() + "=", want.text()[:10], cursor{base: id}.text(), strings.Repeat("A", maxCursor+1)} {
		if _, err := parseCursor(bad, 20); err == nil {
			t.Errorf("%q is a cursor", bad)
		}
	}
	if _, err := parseCursor(want.text(), 32); err == nil {
		t.Error("ids of another length")
	}
}
