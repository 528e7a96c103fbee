package rye

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// TestManyFaults: of a manifest that is nothing but faults so many are kept, and the last
// of them says how many there are besides.
func TestManyFaults(t *testing.T) {
	const n = 50_000
	for name, body := range map[string]string{
		"a key again and again": "files:\n" + strings.Repeat("  a: b\n", n+1),
		"aliases":               "x: &a 1\ny: [" + strings.Repeat("*a,", n-1) + "1]\n",
		"tags":                  "x: [" + strings.Repeat("!a 1,", n) + "1]\n",
	} {
		_, faults := parseManifest([]byte(body))
		last := fmt.Sprintf("; and %d more places", n-bundle.MaxTold)
		if len(faults) != bundle.MaxTold || !strings.HasSuffix(faults[len(faults)-1].Message, last) || strings.Contains(faults[0].Message, "more") {
			t.Errorf("%s: %d faults, the last: %s", name, len(faults), faults[len(faults)-1].Message)
		}
	}
	_, faults := parseManifest([]byte("files:\n  a: b\n  a: b\n  a: b\n"))
	if len(faults) != 2 || strings.Contains(faults[1].Message, "more") {
		t.Errorf("two faults: %v", messages(faults))
	}

	var many strings.Builder
	many.WriteString("bundle:\n  id: a/b\n  version: 1.0.0\nfiles:\n")
	for i := range MaxEntries + 1 {
		fmt.Fprintf(&many, "  .ai/tools/%d: 1\n", i)
	}
	if _, faults := parseManifest([]byte(many.String())); len(faults) != 1 || faults[0].Code != LimitExceeded {
		t.Errorf("one entry too many: %d faults", len(faults))
	}
}

// TestManyFiles: a bundle with more to tell than a report holds is judged as a whole: what
// is not told is counted, and its code is among the codes.
func TestManyFiles(t *testing.T) {
	files := notesFiles()
	for i := range bundle.MaxTold + 5 {
		files[fmt.Sprintf(".ai/tools/team/notes/t%04d.js", i)] = "1\n"
	}
	dir := writeBundle(t, "1.0.0", files)
	wantCodes(t, verify(t, dir, Options{Keys: pin(t, ownKey)}))
	for i := range bundle.MaxTold + 5 {
		put(t, dir, fmt.Sprintf(".ai/tools/team/notes/t%04d.js", i), "2\n")
	}
	put(t, dir, ".ai/tools/zz.py", "extra\n")
	r := verify(t, dir, Options{Keys: pin(t, ownKey)})
	wantCodes(t, r, ExtraFile, HashMismatch)
	if len(r.Findings) != bundle.MaxTold || r.More != (bundle.More{Findings: 6, Tampered: 5}) || len(r.FilesTampered) != bundle.MaxTold || r.FilesOK != r.FilesChecked-bundle.MaxTold-5 || r.Verified() {
		t.Errorf("%d findings, %+v, %d tampered, %s", len(r.Findings), r.More, len(r.FilesTampered), r.Status)
	}
}
