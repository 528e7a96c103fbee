package rig

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rigward/rigward/pkg/bundle"
)

// TestManyNotes: of a manifest of 4 MiB that has a note for every few bytes a thousand of
// a code are kept, and the rest is counted; one of another code after them is told.
func TestManyNotes(t *testing.T) {
	var b strings.Builder
	b.WriteString("schema_version: 2\n")
	const lines = 300_000
	for i := range lines {
		fmt.Fprintf(&b, "k%06d: 1\n", i)
	}
	if b.Len() > 4<<20 {
		t.Fatal(b.Len())
	}
	c := &checker{kind: "manifest", file: manifestName}
	root := c.document([]byte(b.String()))
	if root == nil {
		t.Fatal(c.faults)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range lines {
		c.note(NoteUnknownField, "", fmt.Sprintf("\"k%06d\" is not known to this version", i))
	}
	c.note(NoteLegacyV1, "", "once")
	n := newNotes()
	n.of(c)
	n.of(&checker{})
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d notes keep %d KiB", lines, (int64(after.HeapAlloc)-int64(before.HeapAlloc))>>10)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 4<<20 {
		t.Errorf("%d notes keep %d bytes", lines, kept)
	}
	r := bundle.NewResult("verify")
	n.into(&r, 0)
	n.into(&r, len(n.told))
	r.Finish()
	if len(r.Notes) != bundle.MaxTold || r.More != (bundle.More{Notes: lines - bundle.MaxTold + 1}) || fmt.Sprint(r.Codes) != fmt.Sprint([]string{NoteLegacyV1, NoteUnknownField}) {
		t.Errorf("%d notes, %+v, %v", len(r.Notes), r.More, r.Codes)
	}
	runtime.KeepAlive(n)
	runtime.KeepAlive(c)
}
