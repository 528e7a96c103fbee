package bridge

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
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

// FuzzKeyRecord: what is taken for a record names an envelope and a blob.
func FuzzKeyRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"typed":"x","path":"t-one/ACK.md","blob":"0123456789012345678901234567890123456789"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		valid := func(id string) bool { return len(id) == 40 && strings.Trim(id, "0123456789abcdef") == "" }
		k, err := parseKeyRecord(data, valid)
		if err == nil && (k.Version != 1 || !envelope.IsEnvelopePath(k.Path) || !valid(k.Blob)) {
			t.Fatalf("%q is taken for %+v", data, k)
		}
	})
}
