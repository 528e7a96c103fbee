package sshsign

import (
	"fmt"
	"testing"
)

// TestVoices: two keys of one principal are one person, and two principals of one key.
func TestVoices(t *testing.T) {
	names := []string{"op@x", "bob@x", "eve@x"}
	v := func(principals ...string) Verdict { return Verdict{Reason: Good, Principals: principals} }
	for _, c := range []struct {
		verdicts []Verdict
		want     string
	}{
		{nil, "[]"},
		{[]Verdict{v("op@x,rig-a")}, "[[op@x]]"},
		{[]Verdict{v("op@x"), v("op@x,op-relay")}, "[[op@x]]"},
		{[]Verdict{v("op@x"), v("bob@x")}, "[[bob@x] [op@x]]"},
		{[]Verdict{v("op@x"), v("bob@x"), v("*@x,!eve@x")}, "[[bob@x op@x]]"},
		{[]Verdict{v("op@x"), v("bob@x"), v("eve@x")}, "[[bob@x] [eve@x] [op@x]]"},
		{[]Verdict{v("ann@x"), {Reason: Revoked, Principals: []string{"bob@x"}}}, "[]"},
	} {
		if got := fmt.Sprint(Voices(names, c.verdicts...)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.verdicts, got, c.want)
		}
	}
}

// TestArmored: what is cut apart is all that was there.
func TestArmored(t *testing.T) {
	one := string(Armor([]byte("one")))
	for text, want := range map[string]int{"": 0, one: 1, one + one: 2, one + "x": 2, "x\n" + one: 1, "x": 1} {
		list, all := Armored([]byte(text)), ""
		for _, a := range list {
			all += string(a)
		}
		if len(list) != want || all != text {
			t.Errorf("%q: %q", text, list)
		}
	}
}
