package rules

import (
	"fmt"
	"testing"

	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// TestMemory: a memory tells what a blob says under the limits it was read with and no
// others, and has an end.
func TestMemory(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf("%040x", n) }
	p, other := policy.Default(), policy.Default()
	other.MaxFrontmatter--
	m := &Memory{}
	m.keep(p, []gitrepo.Object{{ID: id(1)}}, []said{{from: "rig-a", parsed: true}})
	kept, unread := m.recall(p, []string{id(1), id(2)})
	if kept[id(1)].from != "rig-a" || len(kept) != 1 || len(unread) != 1 || unread[0] != id(2) {
		t.Errorf("kept %v, unread %v", kept, unread)
	}
	if kept, unread = m.recall(other, []string{id(1)}); len(kept) != 0 || len(unread) != 1 {
		t.Errorf("read under other limits, kept %v, unread %v", kept, unread)
	}
	m.keep(p, []gitrepo.Object{{ID: id(3)}, {ID: id(4)}}, []said{{refs: make([]string, maxSaid)}, {from: "rig-b"}})
	if kept, unread = m.recall(p, []string{id(3), id(4)}); len(kept) != 1 || kept[id(4)].from != "rig-b" || unread[0] != id(3) {
		t.Errorf("of a large one and a small one kept %v, unread %v", kept, unread)
	}
	for n := range 3 * maxMemory {
		m.keep(p, []gitrepo.Object{{ID: id(n)}}, []said{{}})
		if len(m.known) > maxMemory {
			t.Fatalf("%d are kept, at most %d were expected", len(m.known), maxMemory)
		}
	}
	if kept, unread = (*Memory)(nil).recall(p, []string{id(1)}); len(kept) != 0 || len(unread) != 1 {
		t.Errorf("of no memory kept %v, unread %v", kept, unread)
	}
}
