package yamlprofile

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// samePlain holds what plain reads equal to what the library does.
func samePlain(t *testing.T, text string, most int) (plain bool) {
	t.Helper()
	p := &parser{source: source{text: text, first: 2}, maxDepth: most}
	if p.characters() != nil {
		return false
	}
	got, ok := p.plain()
	if !ok {
		return false
	}
	want, err := (&parser{source: source{text: text, first: 2}, maxDepth: most}).any()
	if err != nil {
		t.Errorf("%q is read, the library says: %v", text, err)
	} else if !reflect.DeepEqual(got, want) {
		a, _ := got.MarshalJSON()
		b, _ := want.MarshalJSON()
		t.Errorf("%q is read as %s, the library reads %s", text, a, b)
	}
	return true
}

func TestPlain(t *testing.T) {
	for _, text := range []string{
		"from: rig-a\nto: rig-b\ndate: 2026-01-06T04:58:45Z\nstatus: ▶ Working on turn 995\ntype: STATE\nthread: a-b\n",
		"to:\n  - rig-b\n  - rig-c\ntldr: \"one: two # three\"\nreferences: []\n",
		"to:\n- rig-b\n- \"c\"\nn: 12\nt: true\nno: ~\nx: a:b#c\ny: 'it \"is\"'\nz: \"\"",
		"to: [a, b,c ]\nk:   v\n",
	} {
		if !samePlain(t, text, 16) {
			t.Errorf("%q is left to the library", text)
		}
	}
	for _, text := range []string{
		"", "\n", "a: b\n\n", "a:\n", "a: \n", "a: b\n# c\n", "a: b # c\n", "a: b: c\n", "a: b:\n", "a: b \n", "a: b\n c\n", "a: b\na: c\n",
		"a: *b\n", "a: &b c\n", "a: !!str b\n", "a: |\n  b\n", "a: {b: c}\n", "a: [b: c]\n", "a: [[b]]\n", "a: [b\n]\n", "a: [b,]\n", "a: \"b\\n\"\n",
		"a: \"b\" c\n", "a: 'b''c'\n", "a: 'b\n", "a: \"\n", "a: '\n", "a:\tb\n", "a: b\tc\n", "<<: a\n", "? a\n", "- a\n", "a:b\n", "a\n", "a:\n  b: c\n",
		"a:\n  - b\n - c\n", "a:\n  - b\n   - c\n", "a:\n  -\n", "a:\n  - b: c\n", "a:\n  - - b\n", "a:\n  - b\n    c\n", "%a: b\n", "--- a: b\n", "a: @b\n", "a: `b\n", "a: ,b\n",
		"1: b\n", "a: b\nc\n", "a:\n  - b\n  c: d\n", "a: [- b]\n", "a:   \n  - b\n",
	} {
		p := &parser{source: source{text: text, first: 2}, maxDepth: 16}
		if _, ok := p.plain(); ok {
			t.Errorf("%q is not left to the library", text)
		}
	}
	if samePlain(t, "a: b\n", 1) {
		t.Error("a list within one level is not left to the library")
	}
	pieces := []string{"a", "key", "b-c", "x_1", "null", "yes", "0x1f", "12:30", ":", ": ", ":\n", " ", "  ", "\n", "\n", "\n- ", "\n  - ", "\n - ", "- ", "-", "[", "]", ", ", ",", "\"", "'", "é", "▶ x", "\t",
		"#", " #", "\\", "{", "}", "!", "&", "*", "|", ">", "%", "@", "?", "~", "<<", "=", ".", "---", "a: b\n", "c: \"d\"\n", "e: [f, g]\n", "h:\n  - i\n  - 'j'\n", "k: l\n"}
	r := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 20_000 {
		var b strings.Builder
		for range 1 + r.IntN(7) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		if samePlain(t, b.String(), 16) {
			read++
		}
	}
	if read < 200 {
		t.Errorf("only %d of the documents are read", read)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("from: rig-a\nto:\n  - b\n  - \"c d\"\nreferences: [a1, b2]\nstatus: ▶ x: y\n")
	f.Add("a: 'b'\nc: d:e#f\n")
	f.Fuzz(func(t *testing.T, text string) {
		if InvalidUTF8([]byte(text)) < 0 {
			samePlain(t, text, 16)
		}
	})
}

func BenchmarkParseText(b *testing.B) {
	text := "from: rig-a\nto: rig-b\ndate: 2026-01-06T04:58:45Z\nstatus: ▶ Working on turn 995\ntype: STATE\nthread: thread-000029\ntldr: Turn of a thread\nbody_hash: 8938b192c83fbb32586ed78c834ac4a28f059216282d4de558b3dc0f3872c940\n"
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseText(text, 2, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
