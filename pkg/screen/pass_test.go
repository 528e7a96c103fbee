package screen

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/texts"
)

// samePass holds what is found where plain characters are passed over at once equal to
// what each of them gives.
func samePass(t *testing.T, data []byte) {
	t.Helper()
	var seen [2][]any
	for i, each := range []bool{false, true} {
		s := &seer{told: told{data: data}, known: -1, each: each}
		s.see()
		seen[i] = []any{s.fs, s.more, s.other, s.prev, s.base, s.line, s.opens, s.soft, s.i}
	}
	if !reflect.DeepEqual(seen[0], seen[1]) {
		t.Errorf("%q: %+v, character by character %+v", data, seen[0], seen[1])
	}
}

func TestPass(t *testing.T) {
	var bodies []string
	for _, x := range texts.Smuggled() {
		bodies = append(bodies, x.Body)
		samePass(t, []byte(x.Body))
	}
	pieces := append(bodies[:min(40, len(bodies))], "a", "plain text of some length", "\n", "\r", "\r\n", "\t", " ", "é", "検証", "▶ x", "\u00ad", "ab\u00adcd", "\u200d", "\u200b", "\u202e", "\u202c", "\u2066", "\u2069", "\u0085", "\u2028", "\x00", "\x7f", "\xff", "👨\u200d👩", "א", "א\u200eb")
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		var b strings.Builder
		for range 1 + r.IntN(8) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		samePass(t, []byte(b.String()))
	}
}
