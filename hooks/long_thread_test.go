package hooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rigward/rigward/pkg/envelope"
)

// TestLongThread: what a server keeps of a long thread comes with an accepted push, not
// with one that is refused, and no verdict depends on whether it is there, or whole.
func TestLongThread(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	say := func(parent, name, kind, body, reply string) string {
		f := envelope.Fields{Thread: "long", From: "rig-a", To: []string{"rig-b"}, Date: s.now.UTC().Format(time.DateOnly),
			Status: "▶ Going on", Type: kind, Body: []byte(body), InReplyTo: reply}
		return s.commit(opts{parents: []string{parent}, files: map[string]string{"long/" + name + ".md": s.render(f)}})
	}
	tip := s.base
	files := map[string]string{}
	for n := range 80 {
		files[fmt.Sprintf("long/STATE-%02d.md", n)] = s.plain("long", "rig-a", "STATE", fmt.Sprintf("Turn %d.\n", n))
	}
	tip = s.commit(opts{parents: []string{tip}, files: files})
	s.takes(tip, "refs/heads/main")
	dir := filepath.Join(s.server.Dir, "rigward", "threads")
	kept := func() (text string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			text += e.Name() + string(data)
		}
		return text
	}
	for n, prepare := range []func(){
		func() {},
		func() {},
		func() { os.RemoveAll(dir) },
		func() {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if err := os.WriteFile(filepath.Join(dir, e.Name()), []byte("rigward turns 1\nnonsense"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		prepare()
		// The turn is of another thread, so this one does not know it.
		relay := func(reply string) string {
			return s.relayed(opts{parents: []string{tip}, files: map[string]string{}}, func(f *envelope.Fields) { f.Thread, f.InReplyTo = "long", reply })
		}
		s.denies(relay(hashOf(foreign)), "refs/heads/main", "relay-reply")
		before := kept()
		s.denies(relay(hashOf(foreign)), "refs/heads/main", "relay-reply")
		if before == "" || kept() != before {
			t.Errorf("%d: a refused push changes what is kept", n)
		}
		tip = relay(hashOf(fmt.Sprintf("Turn %d.\n", n)))
		s.takes(tip, "refs/heads/main")
		if kept() == before {
			t.Errorf("%d: an accepted push changes nothing of what is kept", n)
		}
		tip = say(tip, fmt.Sprint("ANSWER-", n), "STATE", fmt.Sprintf("Answer %d.\n", n), hashOf(fmt.Sprintf("Turn %d.\n", n)))
		s.takes(tip, "refs/heads/main")
	}
	tip = say(tip, "RESOLUTION", "RESOLUTION", "Done.\n", "")
	s.takes(tip, "refs/heads/main")
	for range 2 {
		s.serverPolicy("version: 1\nrules: {thread-closed: error}\n")
		s.denies(say(tip, "LATE", "STATE", "One more thing.\n", ""), "refs/heads/main", "thread-closed")
		os.RemoveAll(dir)
	}
}
