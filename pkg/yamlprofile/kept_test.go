package yamlprofile

import (
	"runtime"
	"strings"
	"testing"
)

// TestTextIsNotKept: what was parsed holds its values, not the text that they
// stood in.
func TestTextIsNotKept(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n, size = 500, 60_000
	before := heap()
	var kept []*Node
	for range n {
		node, err := ParseText("plain: a b\nquoted: \"c d\"\n# "+strings.Repeat("x", size)+"\n", 1, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, node)
	}
	if after := heap(); after > before+n*size/3 {
		t.Errorf("%d bytes are kept of %d", after-before, n*size)
	}
	if a, b := kept[0].Get("plain").Source, kept[0].Get("quoted").Source; a != "a b" || b != `"c d"` {
		t.Errorf("sources %q and %q", a, b)
	}
}
