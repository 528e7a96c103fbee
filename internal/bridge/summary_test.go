package bridge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rigward/rigward/pkg/envelope"
)

// TestLastWord: a glance, also one that was kept and one at messages that were
// remembered, knows the last message of a thread that is no ACK, whatever came after it.
func TestLastWord(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		memory, once := &Memory{}, &Memory{once: true}
		g, again := &glance{day: noDay}, &glance{day: noDay}
		var all []*message
		for n := range random.IntN(8) {
			e := &envelope.Envelope{From: "rig-a", To: []string{"rig-b"}, Thread: "t-one", Date: fmt.Sprintf("2026-05-%02d", 1+random.IntN(4)),
				Type: []string{"ACK", "STATE", "RESOLUTION"}[random.IntN(3)], Hash: fmt.Sprint(n)}
			m := &message{thread: "t-one", file: fmt.Sprintf("%s-%d.md", e.Type, random.IntN(100)+100*n), day: noDay, env: e}
			m.dated(e.Date)
			m.claims = random.IntN(2) == 0
			g.add(m)
			memory.keep(m)
			once.keep(m)
			again.add(memory.message(m.thread, m.file, m.blob))
			if memory.message("t-two", m.file, m.blob) != nil || once.message(m.thread, m.file, m.blob) != nil {
				t.Fatal("a message is remembered that was not kept")
			}
			all = append(all, m)
		}
		sortMessages(all)
		want := ""
		for _, m := range all {
			if m.env.Type != "ACK" {
				want = m.file
			}
		}
		kept := &glance{}
		if !kept.unpack(g.pack(), "t-one") {
			t.Fatal("what was packed cannot be read")
		}
		if again.isThread != g.isThread || !slices.Equal(again.pack(), g.pack()) {
			t.Fatal("a glance at what was remembered is another one")
		}
		for name, g := range map[string]*glance{"new": g, "kept": kept, "remembered": again} {
			got := ""
			if m := g.lastWord(); m != nil {
				got = m.file
			}
			if got != want {
				t.Fatalf("%s: the last word is %q, expected %q", name, got, want)
			}
		}
	}
}
