package change

import (
	"reflect"
	"strings"
	"testing"
)

const (
	idA  = "1111111111111111111111111111111111111111"
	idB  = "2222222222222222222222222222222222222222"
	none = "0000000000000000000000000000000000000000"
)

func TestParse(t *testing.T) {
	got, err := ParseReceive([]byte(none + " " + idA + " refs/heads/main\n" + idA + " " + idB + " refs/heads/x\n"))
	want := []RefUpdate{{"refs/heads/main", none, idA}, {"refs/heads/x", idA, idB}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ParseReceive = %v, %v", got, err)
	}
	got, err = ParsePrePush([]byte("refs/heads/a " + idA + " refs/heads/b " + idB + "\n(delete) " + none + " refs/heads/x " + idA + "\nHEAD@{1 day ago} " + idA + " refs/heads/y " + none + "\n"))
	want = []RefUpdate{{"refs/heads/b", idB, idA}, {"refs/heads/x", idA, none}, {"refs/heads/y", none, idA}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ParsePrePush = %v, %v", got, err)
	}
	if !got[1].Delete() || !got[2].Create() || got[0].Create() || got[0].Delete() {
		t.Error("Create, Delete")
	}
	for _, bad := range []string{"x\n", idA + " refs/heads/main\n", idA + " " + idB + " main\n", "\n", idA + "  " + idB + " refs/x\n", strings.ToUpper(idA) + "A " + idB + " refs/x\n", idA + " " + idB + idA[:24] + " refs/x\n"} {
		if _, err := ParseReceive([]byte(bad)); err == nil {
			t.Errorf("ParseReceive(%q) passed", bad)
		}
		if _, err := ParsePrePush([]byte(bad)); err == nil {
			t.Errorf("ParsePrePush(%q) passed", bad)
		}
	}
}

func TestZeroIsNoFixedLength(t *testing.T) { // case B03
	for id, want := range map[string]bool{none: true, none + none[:24]: true, idA: false, "": false} {
		if Zero(id) != want {
			t.Errorf("Zero(%q) = %v", id, !want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(none + " " + idA + " refs/heads/main\n"))
	f.Add([]byte("refs/heads/a " + idA + " refs/heads/b " + idB + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []func([]byte) ([]RefUpdate, error){ParseReceive, ParsePrePush} {
			us, err := parse(data)
			if err != nil {
				continue
			}
			lines := strings.Count(string(data), "\n")
			if len(data) > 0 && data[len(data)-1] != '\n' {
				lines++
			}
			if len(us) != lines {
				t.Errorf("%d updates of %q", len(us), data)
			}
			for _, u := range us {
				if strings.ContainsAny(u.Ref, " \n\x00") || len(u.Old) != len(u.New) {
					t.Errorf("%+v", u)
				}
			}
		}
	})
}
