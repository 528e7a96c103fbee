package rig

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/rigward/rigward/pkg/bundle"
)

// TestLayoutCheckValues are those of docs/spec/rigbundle.md#tar-stream.
func TestLayoutCheckValues(t *testing.T) {
	for _, c := range []struct {
		want    string
		entries []bundle.Entry
	}{
		{"4c6d5d35315407afbe3f11945525d0b2187ae6423460dfc7fab4d123980be70f", []bundle.Entry{bundle.BytesEntry("rig.yaml", 0o644, []byte("x\n"))}},
		{"419cb83f07f86278c90360bde85cd16eee4d3fd346c14084747671b370dcace3", []bundle.Entry{bundle.BytesEntry(strings.Repeat("r", 100), 0o644, nil)}},
		{"e50fe9b0da5cd2b917ef03436751cd70b72a20152c5cec0d1b50de9c98a036cb", []bundle.Entry{
			bundle.BytesEntry("docs/é.md", 0o755, []byte("hi\n")), bundle.BytesEntry("a.md", 0o644, nil)}},
	} {
		var out bytes.Buffer
		done, err := bundle.WriteTar(context.Background(), &out, Layout{}, c.entries)
		if err != nil {
			t.Fatal(err)
		}
		if done.TarDigest.Hex() != c.want || bundle.Sum(out.Bytes()).Hex() != c.want {
			t.Errorf("%s: got %s, want %s", c.entries[0].Name, done.TarDigest.Hex(), c.want)
		}
	}
}

func TestLayoutOrderIsThatOfUTF16(t *testing.T) {
	names := []string{"", "a", "a/b", "a.b", "é", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "a\U00010000", "a\uffee", "ab"}
	for _, a := range names {
		for _, b := range names {
			ua, ub := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
			want := 0
			for i := 0; want == 0 && (i < len(ua) || i < len(ub)); i++ {
				switch {
				case i == len(ua):
					want = -1
				case i == len(ub):
					want = 1
				case ua[i] != ub[i]:
					want = int(ua[i]) - int(ub[i])
				}
			}
			if got := (Layout{}).Compare(a, b); got*want < 0 || (got == 0) != (want == 0) {
				t.Errorf("Compare(%q, %q) = %d, want the sign of %d", a, b, got, want)
			}
		}
	}
}
