package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMaintenance: send lets git look after the repository where there may be
// something to do, and saves the process where there is not.
func TestMaintenance(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(w *world)
		runs    bool
	}{
		{"few objects", func(*world) {}, false},
		{"many loose objects", func(w *world) {
			os.MkdirAll(w.path("a/.git/objects/17"), 0o755)
			for i := range 21 {
				w.write(fmt.Sprintf("a/.git/objects/17/%038x", i), "")
			}
		}, true},
		{"many packs", func(w *world) {
			for i := range 51 {
				w.write(fmt.Sprintf("a/.git/objects/pack/tmp_%d", i), "")
			}
		}, true},
		{"a threshold of the user's", func(w *world) { w.git("a", "config", "gc.auto", "10") }, true},
		{"a task of the user's", func(w *world) { w.git("a", "config", "maintenance.commit-graph.enabled", "true") }, true},
		{"switched off by the user", func(w *world) { w.git("a", "config", "maintenance.auto", "false") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := faultWorld(t)
			w.write("home/.gitconfig", "[init]\n\tdefaultBranch = main\n")
			c.prepare(w)
			trace := w.path("trace")
			w.vars = append(w.vars, "GIT_TRACE="+trace)
			if o := w.run("a", append(handoff, "--no-push")...); o.code != 0 {
				t.Fatalf("exit %d %s%s", o.code, o.stdout, o.stderr)
			}
			text, err := os.ReadFile(trace)
			if err != nil || !strings.Contains(string(text), "commit --quiet ") {
				t.Fatalf("%v, the trace does not tell of the commit:\n%s", err, text)
			}
			if got := strings.Contains(string(text), "maintenance run --auto"); got != c.runs {
				t.Errorf("git maintenance: %v, expected %v\n%s", got, c.runs, text)
			}
		})
	}
}
