package bundle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestMore: a result tells so many findings and notes and no more, counts the rest, and its
// codes are those of all; the verdict is that of the first.
func TestMore(t *testing.T) {
	r := NewResult("verify")
	for i := range MaxTold {
		r.Fail(Faultf("a", "", "%d", i))
		r.Note("c", "", "")
	}
	r.Finish()
	if data, err := json.Marshal(r); err != nil || strings.Contains(string(data), `"more"`) || len(r.Findings) != MaxTold || len(r.Notes) != MaxTold {
		t.Errorf("%d findings, %d notes, %v, %v", len(r.Findings), len(r.Notes), r.More, err)
	}
	for range 300_000 {
		r.Fail(Faultf("b", "", "more"), nil)
	}
	r.Note("d", "", "")
	r.Finish()
	r.Finish()
	if len(r.Findings) != MaxTold || len(r.Notes) != MaxTold || r.More != (More{Findings: 300_000, Notes: 1}) || r.Code != "a" || r.Message != "0" {
		t.Errorf("%d findings, %d notes, %+v, %s %s", len(r.Findings), len(r.Notes), r.More, r.Code, r.Message)
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(r.Codes, want) {
		t.Errorf("codes %v, expected %v", r.Codes, want)
	}
	other := NewResult("install")
	other.Note("e", "", "")
	other.TellAs(&r)
	other.Finish()
	if len(other.Notes) != MaxTold || other.More != (More{Notes: 2}) || fmt.Sprint(other.Codes) != "[c d e]" || !other.OK() {
		t.Errorf("%d notes, %+v, %v", len(other.Notes), other.More, other.Codes)
	}
}
