package bundle

import (
	"reflect"
	"strings"
	"testing"
)

// TestCompareCapabilities: what is new or another one is a gain, told first; what both
// have is not told, and no secret is shown.
func TestCompareCapabilities(t *testing.T) {
	token := "glpat-" + "aB3dE6fG7hJ8kL9mN0pQ"
	same := Capability{"program", "bin/x", "may be run as a program"}
	got := CompareCapabilities(
		[]Capability{same, {"entry", "entry", "starts a"}, {"hook", "Stop", "runs x"}, {"network", "", "example.com"}},
		[]Capability{{"entry", "entry", "starts b"}, {"network", "", "example.com"}, {"network", "", "example.org"}, {"environment", "env.T", "is set to " + token}, same, same})
	if len(got) == 5 && strings.Contains(got[2].New, token) {
		t.Errorf("%+v shows a secret", got[2])
	}
	got[2].New = ""
	want := []CapabilityChange{
		{"entry", "entry", "starts a", "starts b", true},
		{"network", "", "", "example.org", true},
		{"environment", "env.T", "", "", true},
		{"program", "bin/x", "", "may be run as a program", true},
		{"hook", "Stop", "runs x", "", false},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got := CompareCapabilities([]Capability{same}, []Capability{same}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
