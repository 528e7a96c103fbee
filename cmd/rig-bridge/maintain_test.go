package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMaintenance: send lets git look after the repository where there may be
// something to do, and saves the process where there is not; then it does what git
// commit would, unless that has more to do.
func TestMaintenance(t *testing.T) {
	for _, c := range []struct {
		name          string
		prepare       func(w *world)
		commits, runs bool // git
	}{
		{"few objects", func(*world) {}, false, false},
		{"few objects and a hook", func(w *world) {
			w.program("a/.git/hooks/post-commit", "#!/bin/sh\n")
		}, true, false},
		{"many loose objects", func(w *world) {
			os.MkdirAll(w.path("a/.git/objects/17"), 0o755)
			for i := range 21 {
				w.write(fmt.Sprintf("a/.git/objects/17/%038x", i), "")
			}
		}, true, true},
		{"many packs", func(w *world) {
			for i := range 51 {
				w.write(fmt.Sprintf("a/.git/objects/pack/tmp_%d", i), "")
			}
		}, true, true},
		{"a threshold of the user's", func(w *world) { w.config("a", "gc.auto", "10") }, true, true},
		{"a task of the user's", func(w *world) { w.config("a", "maintenance.commit-graph.enabled", "true") }, true, true},
		{"switched off by the user", func(w *world) { w.config("a", "maintenance.auto", "false") }, false, false},
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
			if got := strings.Contains(string(text), "commit --quiet "); got != c.commits || c.commits && err != nil {
				t.Errorf("%v, git commit: %v, expected %v\n%s", err, got, c.commits, text)
			}
			if n := strings.TrimSpace(w.git("a", "rev-list", "--count", "origin/main..HEAD")); n != "1" {
				t.Errorf("%s commits were made", n)
			}
			if got := strings.Contains(string(text), "maintenance run --auto"); got != c.runs {
				t.Errorf("git maintenance: %v, expected %v\n%s", got, c.runs, text)
			}
		})
	}
}
